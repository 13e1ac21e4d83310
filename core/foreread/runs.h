/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Lengths of runs: statistics of those that ended, and the number of pages that it is worth to read
 * ahead of one that has not.
 *
 * Runs are counted by octaves: a run that has reached 2^i pages either passes 2^(i+1) or ends
 * before. Each octave has its own odds of passing. So runs that all end after 64 pages are
 * distinguished from runs that end anywhere. Before any run was counted, the odds are those of
 * Lindy's law, i + 1 to 1: a run that has lasted will last.
 *
 * If w pages are read ahead of a run of x pages, a share of w / x / odds / 2 of them is wasted on
 * average, and costs its time. The reader saves a request, which costs as much as the break-even
 * pages (device.h). Both are equal at w = sqrt(2 * even * x * odds), the bound of readahead.
 */
#ifndef FOREREAD_RUNS_H
#define FOREREAD_RUNS_H

#include "arith.h"

/* Octaves: runs of 2^15 pages (128 MiB) and more are all long. */
#define FR_RUNS_OCTAVES 16U
/* Runs in an octave beyond which both counts are halved, so that the past fades. */
#define FR_RUNS_COUNT_MAX 64U

/**
 * struct fr_runs - counts of runs that passed an octave or ended in it
 * @passed: by octave i: runs that passed 2^(i+1) pages
 * @ended: by octave i: runs that ended with 2^i pages or more, but less than twice that
 *
 * All zero bytes is a past without runs.
 */
struct fr_runs {
	fr_u8 passed[FR_RUNS_OCTAVES];
	fr_u8 ended[FR_RUNS_OCTAVES];
};

_Static_assert(sizeof(struct fr_runs) == 32, "no hidden padding");

FR_INLINE fr_u32 fr_runs_octave(fr_u64 pages)
{
	return (fr_u32)fr_min(fr_log2(pages), FR_RUNS_OCTAVES - 1);
}

FR_INLINE void fr_runs_halve(struct fr_runs *runs, fr_u32 octave)
{
	if ((fr_u32)runs->passed[octave] + runs->ended[octave] < FR_RUNS_COUNT_MAX)
		return;
	runs->passed[octave] /= 2;
	runs->ended[octave] /= 2;
}

/**
 * fr_runs_grew() - a run goes on
 * @runs: to learn
 * @before: its pages before
 * @after: its pages now
 */
FR_INLINE void fr_runs_grew(struct fr_runs *runs, fr_u64 before, fr_u64 after)
{
	fr_u32 octave = fr_runs_octave(before) & (FR_RUNS_OCTAVES - 1);

	/* One octave at a time is exact enough: a large step passed the others unseen. */
	if (fr_runs_octave(after) == octave)
		return;
	runs->passed[octave] = (fr_u8)fr_min(runs->passed[octave] + 1ULL, 0xff);
	fr_runs_halve(runs, octave);
}

/**
 * fr_runs_end() - a run has ended
 * @runs: to learn
 * @pages: how long it was
 */
FR_INLINE void fr_runs_end(struct fr_runs *runs, fr_u64 pages)
{
	fr_u32 octave = fr_runs_octave(pages) & (FR_RUNS_OCTAVES - 1);

	runs->ended[octave] = (fr_u8)fr_min(runs->ended[octave] + 1ULL, 0xff);
	fr_runs_halve(runs, octave);
}

/* The odds of passing an octave, with 4 fractional bits; the prior weighs as two runs. */
FR_INLINE fr_u64 fr_runs_odds(const struct fr_runs *runs, fr_u32 octave)
{
	fr_u32 prior = octave + 1;
	fr_u32 passed, ended;

	octave = fr_place(octave, FR_RUNS_OCTAVES);
	/* In units of the prior's runs: prior / (prior + 1) of two passed. */
	passed = runs->passed[octave] * (prior + 1) + 2 * prior;
	ended = runs->ended[octave] * (prior + 1) + 2;
	return (passed << 4) / ended;
}

/**
 * fr_runs_worth() - how far it is worth to read ahead of a run
 * @runs: statistics of past runs
 * @pages: how long it is
 * @even: pages that cost as much as a request
 *
 * Return: pages beyond its end.
 */
FR_ONCE fr_u64 fr_runs_worth(const struct fr_runs *runs, fr_u64 pages, fr_u32 even)
{
	fr_u64 at = fr_clamp(pages, 1, 1ULL << (FR_RUNS_OCTAVES - 1));
	fr_u32 octave = fr_runs_octave(at), step;
	fr_u64 odds, worth;

	if (!runs)
		return 0;
	odds = fr_runs_odds(runs, octave);
	worth = fr_root(fr_mul(at * 2 * even, fr_u32_of(odds)) >> 4);
	/* Not far into an octave in which runs end. */
	for (step = 1; step < FR_RUNS_OCTAVES; step++) {
		fr_u64 from, more;

		octave++;
		from = 1ULL << (octave & 31);
		if (octave >= FR_RUNS_OCTAVES || from >= at + worth)
			break;
		odds = fr_runs_odds(runs, octave);
		more = fr_root(fr_mul(from * 2 * even, fr_u32_of(odds)) >> 4);
		worth = fr_min(worth, fr_add(fr_sub(from, at), more));
	}
	return worth;
}

#endif /* FOREREAD_RUNS_H */
