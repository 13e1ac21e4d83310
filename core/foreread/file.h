/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Events of an open file besides accesses that need a decision.
 */
#ifndef FOREREAD_FILE_H
#define FOREREAD_FILE_H

#include "sizing.h"

/**
 * fr_open() - the state of a file just opened (file_ra_state_init)
 * @state: filled
 * @limits: whose ra_pages is copied; a later change of the device's reaches the
 *	file only through fr_advise()
 */
FR_INLINE void fr_open(struct fr_state *state, const struct fr_limits *limits)
{
	state->start = 0;
	state->prev_end_bytes = FR_U64_MAX;
	state->ahead_start = 0;
	state->prev_page = FR_U64_MAX;
	state->aged_pages = 0;
	state->size = 0;
	state->async_size = 0;
	state->ra_pages = limits->ra_pages;
	state->ahead_size = 0;
	state->cache_hit_pages = 0;
	state->mmap_miss = 0;
	state->order = 0;
	state->flags = 0;
}

/**
 * fr_advise() - posix_fadvise(2) (generic_fadvise)
 * @state: of the file
 * @limits: whose ra_pages is read again
 * @advice: enum fr_advice; others change nothing
 *
 * The advice holds for the whole file, whatever range came with it.
 */
FR_INLINE void fr_advise(struct fr_state *state, const struct fr_limits *limits, fr_u32 advice)
{
	switch (advice) {
	case FR_ADVICE_NORMAL:
		state->ra_pages = limits->ra_pages;
		state->flags &= 0xffU & ~FR_STATE_RANDOM;
		break;
	case FR_ADVICE_SEQUENTIAL:
		state->ra_pages = fr_u32_of((fr_u64)limits->ra_pages * 2);
		state->flags &= 0xffU & ~FR_STATE_RANDOM;
		break;
	case FR_ADVICE_RANDOM:
		state->flags |= FR_STATE_RANDOM;
		break;
	default:
		break;
	}
}

/* lseek(2). Holds until the next read is done. */
FR_INLINE void fr_seek(struct fr_state *state)
{
	state->flags |= FR_STATE_SEEKED;
}

/**
 * fr_read_done() - a read(2) returned
 * @state: of the file
 * @end_bytes: file position after its last byte
 */
FR_INLINE void fr_read_done(struct fr_state *state, fr_u64 end_bytes)
{
	state->prev_end_bytes = end_bytes;
	state->flags &= 0xffU & ~FR_STATE_SEEKED;
}

/**
 * fr_fault_mapped() - fault-around mapped pages that were cached (filemap_map_pages)
 * @state: of the file
 * @pages: how many; each takes one miss back
 */
FR_INLINE void fr_fault_mapped(struct fr_state *state, fr_u64 pages)
{
	state->mmap_miss = (fr_u16)fr_sub(state->mmap_miss, pages);
}

/* 1 MiB of consecutive hits: the file is in the cache (VM_MAX_CACHE_HIT of 2.6.13). */
#define FR_CACHE_HIT_PAGES_MAX 256U

/* linux-2.6.13: submissions that find everything cached turn readahead off. */
FR_INLINE void fr_feedback_cached(struct fr_state *state, fr_u64 pages)
{
	state->cache_hit_pages = fr_u32_of(fr_add(state->cache_hit_pages, pages));
	if (state->cache_hit_pages < FR_CACHE_HIT_PAGES_MAX)
		return;
	state->size = 0;
	state->async_size = 0;
	state->ahead_start = 0;
	state->ahead_size = 0;
	state->flags |= FR_STATE_IN_CACHE;
}

/**
 * fr_feedback() - an event of a window
 * @policy: enum fr_policy
 * @state: of the file
 * @kind: enum fr_feedback
 * @pages: how many pages it is about
 *
 * Each policy uses the feedback that its origin used; enum fr_feedback lists it. The
 * policies of current kernels use read errors only. No policy uses FR_FEEDBACK_WASTED.
 */
FR_INLINE void fr_feedback(fr_u32 policy, struct fr_state *state, fr_u32 kind, fr_u64 pages)
{
	/* shrink_readahead_size_eio(), in every version. */
	if (kind == FR_FEEDBACK_ERROR)
		state->ra_pages /= 4;
	if (policy == FR_LINUX_2_6_13) {
		if (kind == FR_FEEDBACK_CACHED)
			fr_feedback_cached(state, pages);
		if (kind == FR_FEEDBACK_READ)
			state->cache_hit_pages = 0;
		if (kind == FR_FEEDBACK_THRASHED)
			state->flags |= FR_STATE_MISS;
	}
	if (policy == FR_DISTANCE && kind == FR_FEEDBACK_LATE)
		state->flags |= FR_STATE_MISS;
	if ((policy == FR_SAFE_2010 || policy == FR_FOREREAD) && kind == FR_FEEDBACK_THRASHED)
		state->flags |= FR_STATE_THRASHED;
}

#endif /* FOREREAD_FILE_H */
