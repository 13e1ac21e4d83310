/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Probing the history of a stream: chooses the pages before an index to look at, one after the
 * other, where the next page depends on the earlier answers.
 *
 *	fill near.before_pages;
 *	fr_probe_begin(&probe, &wants, &near, access.index);
 *	while (fr_probe_next(&probe, &page))
 *		fr_probe_answer(&probe, whether page is cached and has been read);
 *	fr_probe_end(&probe, &near);
 *
 * With wants.probing at FR_PROBE_NONE the loop has no round.
 *
 * FR_PROBE_WALK looks at the page before the index first; was it not read, there is no
 * history. Else it walks from the far end of what could be history towards the index,
 * in steps of a quarter of the way; three right pages in a row are a history of four
 * steps, and a wrong one starts the count again with smaller steps.
 *
 * FR_PROBE_SAMPLE looks at a few pages of the cached run before the index.
 */
#ifndef FOREREAD_PROBE_H
#define FOREREAD_PROBE_H

#include "arith.h"

/* FR_PROBE_SAMPLE: how many pages are looked at (8 in the version of 2006-11). */
#define FR_SAMPLES_MAX 8U
/* The stride of the samples: any prime that is no divisor of usual record sizes. */
#define FR_SAMPLE_STRIDE 29U
/* FR_PROBE_WALK: this many in a row are a history. */
#define FR_WALK_HITS 3U
/*
 * FR_PROBE_WALK: every probe cuts what is left by up to a quarter, so 64 bits are used
 * up after fewer rounds than this.
 */
#define FR_WALK_ROUNDS_MAX 512U

/**
 * struct fr_probe - where the probing stands
 * @index: before it lies the history
 * @low: next page to look at (walk), or the length of the history (sample)
 * @step: distance of probes
 * @kind: enum fr_probing
 * @looked: pages looked at
 * @hits: right ones, in a row (walk) or in all (sample)
 * @followed: walk: whether the page before the index was read
 */
struct fr_probe {
	fr_u64 index;
	fr_u64 low;
	fr_u64 step;
	fr_u32 kind;
	fr_u32 looked;
	fr_u32 hits;
	fr_u32 followed;
};

_Static_assert(sizeof(struct fr_probe) == 40, "no hidden padding");

/* A quarter of the way from @low to the index, rounded up. */
FR_INLINE fr_u64 fr_probe_quarter(const struct fr_probe *probe)
{
	fr_u64 left = fr_sub(probe->index, probe->low);

	return left / 4 + (left % 4 != 0);
}

/**
 * fr_probe_begin() - starts to probe
 * @probe: filled
 * @wants: from the policy
 * @near: whose before_pages is filled
 * @index: of the access
 */
FR_INLINE void fr_probe_begin(struct fr_probe *probe, const struct fr_wants *wants,
			      const struct fr_near *near, fr_u64 index)
{
	probe->index = index;
	probe->kind = wants->probing;
	probe->looked = 0;
	probe->hits = 0;
	probe->followed = 0;
	if (wants->probing == FR_PROBE_SAMPLE) {
		probe->low = fr_min(fr_min(wants->history_max, near->before_pages), index);
		probe->step = 0;
		return;
	}
	probe->low = fr_sub(index, wants->history_max);
	probe->step = fr_probe_quarter(probe);
}

/**
 * fr_probe_next() - the next page to look at
 * @probe: of fr_probe_begin()
 * @page: filled
 *
 * Return: 1, or 0 when enough is known.
 */
FR_INLINE fr_u32 fr_probe_next(const struct fr_probe *probe, fr_u64 *page)
{
	if (probe->kind == FR_PROBE_WALK) {
		*page = probe->looked == 0 ? fr_sub(probe->index, 1) : probe->low;
		return (probe->looked == 0 || probe->followed) && probe->hits < FR_WALK_HITS &&
		       probe->step > 0 && probe->low < probe->index &&
		       probe->looked < FR_WALK_ROUNDS_MAX;
	}
	if (probe->kind == FR_PROBE_SAMPLE && probe->low > 0) {
		/* The history is at most the index long, so this stays at or above 0. */
		fr_u64 back = ((fr_u64)probe->looked + 1) * FR_SAMPLE_STRIDE % probe->low;

		*page = fr_sub(fr_sub(probe->index, 1), back);
		return probe->looked < FR_SAMPLES_MAX && probe->looked < probe->low;
	}
	*page = 0;
	return 0;
}

/**
 * fr_probe_answer() - the state of the page that was looked at
 * @probe: of the last fr_probe_next()
 * @read: whether it is cached and a program has read it
 */
FR_INLINE void fr_probe_answer(struct fr_probe *probe, fr_u32 read)
{
	if (probe->looked < FR_U32_MAX)
		probe->looked++;
	if (probe->kind == FR_PROBE_SAMPLE) {
		if (read && probe->hits < FR_U32_MAX)
			probe->hits++;
		return;
	}
	if (probe->looked == 1) {
		probe->followed = read != 0;
		return;
	}
	/* A wrong page ends the run, and the pages behind it are walked in smaller steps. */
	probe->low = fr_add(probe->low, fr_max(probe->step, 1));
	if (read) {
		probe->hits = fr_u32_of(fr_add(probe->hits, 1));
		return;
	}
	probe->hits = 0;
	probe->step = fr_probe_quarter(probe);
}

/**
 * fr_probe_end() - passes on the results
 * @probe: of the last fr_probe_next()
 * @near: gets history_pages, sampled and sampled_hits
 */
FR_INLINE void fr_probe_end(const struct fr_probe *probe, struct fr_near *near)
{
	near->history_pages = 0;
	near->sampled = 0;
	near->sampled_hits = 0;
	if (probe->kind == FR_PROBE_SAMPLE) {
		near->sampled = probe->looked;
		near->sampled_hits = probe->hits;
	} else if (probe->kind == FR_PROBE_WALK) {
		near->sampled = probe->looked != 0;
		near->sampled_hits = probe->followed;
		if (probe->hits >= FR_WALK_HITS)
			near->history_pages = fr_min(probe->step, FR_U64_MAX / 4) * 4;
	}
}

#endif /* FOREREAD_PROBE_H */
