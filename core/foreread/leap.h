/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * leap: the majority of recent steps ("Effectively Prefetching Remote Memory with Leap",
 * Al Maruf and Chowdhury, USENIX ATC 2020).
 *
 * Its idea is that a program has a trend among noise: the difference from one access to the next
 * that more than half of the recent accesses have. It looks for it in a short past first and
 * doubles that until there is a majority, so that a new trend is soon seen and an old one outlives
 * irregular accesses. The size of the window, in accesses, depends on the hits since the last
 * window: it is the hits plus one, rounded up to a power of two. Without a hit it is one if the
 * access was in the trend, else none. It is never less than half of the last window and never more
 * than eight. The policy has one trend for all streams of a file. It acts on misses only, so each
 * window is waited for once before the next.
 */
#ifndef FOREREAD_LEAP_H
#define FOREREAD_LEAP_H

#include "sight.h"
#include "streams.h"

/* Steps that are remembered; a power of two (the paper's H_size). */
#define FR_LEAP_STEPS 32U
/* The shortest past in which a majority is looked for (H_size / N_split, with 4). */
#define FR_LEAP_SPLIT 8U
/* PW_size_max of the paper. */
#define FR_LEAP_WINDOW_MAX 8U

/**
 * struct fr_leap - the state kept for a file
 * @size: size of each step, by place
 * @down: whether the step went down, by place
 * @index: start of the last access
 * @at: steps so far; the low bits are the place of the next
 * @hits: accesses since the last window that found their pages
 * @window: the last window, in accesses
 * @any: whether there was an access
 */
struct fr_leap {
	fr_u64 size[FR_LEAP_STEPS];
	fr_u8 down[FR_LEAP_STEPS];
	fr_u64 index;
	fr_u32 at;
	fr_u32 hits;
	fr_u32 window;
	fr_u32 any;
};

_Static_assert(sizeof(struct fr_leap) <= sizeof(struct fr_streams), "fits where streams do");

/* The place of the step that is @back steps back, 1 being the last. */
FR_INLINE fr_u32 fr_leap_back(const struct fr_leap *leap, fr_u32 back)
{
	return ((leap->at & (FR_LEAP_STEPS - 1)) + FR_LEAP_STEPS - back) & (FR_LEAP_STEPS - 1);
}

/* 1 where two steps are the same. */
FR_INLINE fr_u32 fr_leap_same(const struct fr_leap *leap, fr_u32 a, fr_u32 b)
{
	a &= FR_LEAP_STEPS - 1;
	b &= FR_LEAP_STEPS - 1;
	return (fr_u32)fr_if_less(
		0, (leap->size[a] ^ leap->size[b]) | (fr_u32)(leap->down[a] ^ leap->down[b]), 0, 1);
}

/*
 * The place of a step that more than half of the last @past steps are; FR_LEAP_STEPS: none. @most
 * is as large as @past or larger, and the same in each call, as the BPF verifier likes it.
 */
FR_INLINE fr_u32 fr_leap_majority(const struct fr_leap *leap, fr_u32 most, fr_u32 past)
{
	fr_u32 votes = 0, found = 0, back, at, same, count = 0;

	/* Boyer and Moore: pairs of unlike steps cancel out. */
	for (back = 1; back <= most; back++) {
		at = fr_leap_back(leap, back);
		at = (fr_u32)fr_if_less(past, back, found, at);
		found = (fr_u32)fr_if_less(votes, 1, at, found);
		same = (fr_u32)fr_if_less(past, back, 0, fr_leap_same(leap, at, found));
		votes = (fr_u32)fr_if_less(0, same, votes + 1ULL,
					   fr_if_less(past, back, votes, fr_sub(votes, 1)));
	}
	for (back = 1; back <= most; back++) {
		at = fr_leap_back(leap, back);
		same = fr_leap_same(leap, at, found);
		count += (fr_u32)fr_if_less(past, back, 0, same);
	}
	return count > past / 2 ? found & (FR_LEAP_STEPS - 1) : FR_LEAP_STEPS;
}

FR_INLINE fr_u32 fr_leap_trend(const struct fr_leap *leap)
{
	fr_u32 known = (fr_u32)fr_min(leap->at, FR_LEAP_STEPS);
	fr_u32 past, found;

	for (past = FR_LEAP_SPLIT; past <= FR_LEAP_STEPS; past *= 2) {
		if (known == 0 || (past > known && past != FR_LEAP_SPLIT))
			break;
		found = fr_leap_majority(leap, past, (fr_u32)fr_min(past, known));
		if (found < FR_LEAP_STEPS)
			return found;
	}
	return FR_LEAP_STEPS;
}

/* Accesses to fetch beyond the one that missed (GetPrefetchWindowSize of the paper). */
FR_INLINE fr_u32 fr_leap_window(struct fr_leap *leap, fr_u32 in_trend)
{
	fr_u32 window = in_trend;

	if (leap->hits != 0)
		window = (fr_u32)fr_min(fr_pow2_up((fr_u64)leap->hits + 1), FR_LEAP_WINDOW_MAX);
	window = (fr_u32)fr_min(fr_max(window, leap->window / 2), FR_LEAP_WINDOW_MAX);
	leap->window = window;
	leap->hits = 0;
	return window;
}

FR_INLINE void fr_leap_step(struct fr_leap *leap, fr_u64 index)
{
	fr_u32 at = leap->at & (FR_LEAP_STEPS - 1);

	if (leap->any != 0) {
		leap->size[at] = fr_apart(index, leap->index);
		leap->down[at] = index < leap->index;
		leap->at = leap->at >= FR_U32_MAX - FR_LEAP_STEPS ?
				   FR_LEAP_STEPS + ((at + 1) & (FR_LEAP_STEPS - 1)) :
				   leap->at + 1;
	}
	leap->any = 1;
	leap->index = index;
}

FR_INLINE void fr_leap_miss(const struct fr_call *call, struct fr_leap *leap, fr_u64 pages,
			    struct fr_decision *decision)
{
	fr_u64 index = call->access->index;
	fr_u32 latest = fr_leap_back(leap, 1);
	fr_u32 trend = fr_leap_trend(leap);
	fr_u32 window, down;
	fr_u64 step, start;

	fr_read_ahead(call, decision, index, fr_u32_of(pages));
	decision->reason = FR_REASON_RANDOM;
	window = fr_leap_window(leap, trend < FR_LEAP_STEPS && fr_leap_same(leap, trend, latest));
	if (trend >= FR_LEAP_STEPS || window == 0)
		return;
	step = leap->size[trend & (FR_LEAP_STEPS - 1)];
	down = leap->down[trend & (FR_LEAP_STEPS - 1)];
	if (step == 0 || (down && step > index))
		return;
	decision->reason = FR_REASON_STRIDE;
	start = down ? index - step : fr_add(index, step);
	/* A trend of neighbours is one run of pages. */
	if (!down && step <= pages) {
		fr_read_ahead(call, decision, fr_add(index, pages),
			      fr_u32_of(fr_mul(step, window)));
		return;
	}
	decision->step_pages = step;
	decision->repeats = window - 1;
	if (down)
		decision->flags |= FR_DECIDED_DOWN;
	fr_read_ahead(call, decision, start, fr_u32_of(pages));
}

FR_INLINE void fr_leap_decide(const struct fr_call *call, struct fr_decision *decision)
{
	struct fr_leap *leap = (struct fr_leap *)(void *)call->streams;
	struct fr_sight sight;

	if (!fr_see(call, decision, &sight))
		return;
	if (!leap || call->state->ra_pages == 0) {
		fr_read_missed(call, decision, &sight, FR_REASON_DISABLED);
		return;
	}
	fr_leap_step(leap, call->access->index);
	if (sight.missed)
		fr_leap_miss(call, leap, sight.pages, decision);
	else if (leap->hits < FR_LEAP_WINDOW_MAX)
		leap->hits++;
}

#endif /* FOREREAD_LEAP_H */
