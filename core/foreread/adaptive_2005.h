/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * adaptive-2005: the first adaptive readahead, without a state.
 *
 * Its idea is that the page cache knows more of a stream than any counter kept for it. Pages flow
 * through the inactive list as through a pipe. The pages that a stream has read and that are still
 * cached behind it show how far the stream moves while a page passes the pipe. So it may read that
 * far ahead and not farther: with more readahead than the surviving history, pages would be evicted
 * before they are read. A stream that has just begun has little history and gets small windows; one
 * that thrashes loses its history, looks random, and starts anew. The policy keeps no state of a
 * file and so can't be confused by several streams, threads or descriptors on it. It acts on misses
 * only and has no lookahead, so every window is waited for.
 *
 * Rules from Message-ID <20050915130832.GA5058@mail.ustc.edu.cn>. There a probe checks whether a
 * page has the class of its predecessor; here it checks whether a page is cached and has been read,
 * which is the same for a stream that goes through once.
 */
#ifndef FOREREAD_ADAPTIVE_2005_H
#define FOREREAD_ADAPTIVE_2005_H

#include "common.h"

/* A backward read takes this many pages before it, too. */
#define FR_2005_BACK_PAGES 8U
#define FR_PAGES_PER_MIB (1048576U / FR_PAGE_BYTES)

/* readahead_ratio; 0 would be another policy, and divides. */
FR_INLINE fr_u32 fr_ratio(const struct fr_limits *limits)
{
	return limits->readahead_ratio != 0 ? limits->readahead_ratio : 1;
}

/* The largest window: 64 KiB and 8 KiB for each MiB of inactive and free memory, at most 2 MiB. */
FR_INLINE fr_u32 fr_2005_max(const struct fr_state *state, const struct fr_limits *limits)
{
	fr_u64 max = fr_min(state->ra_pages, 2 * FR_PAGES_PER_MIB);
	fr_u64 memory_mib = limits->reclaim_pages / FR_PAGES_PER_MIB;

	if (limits->reclaim_pages != 0)
		max = fr_min(max, 16 + memory_mib * 2);
	if (limits->pages_max != 0)
		max = fr_min(max, limits->pages_max);
	return (fr_u32)max;
}

/* The smallest: 32 KiB and 1 KiB for each 4 MiB of it, at most 128 KiB. */
FR_INLINE fr_u32 fr_2005_min(const struct fr_limits *limits, fr_u32 max)
{
	fr_u64 min = 32;

	if (limits->reclaim_pages != 0)
		min = fr_min(min, 8 + limits->reclaim_pages / FR_PAGES_PER_MIB / 16);
	if (limits->min_pages != 0)
		min = limits->min_pages;
	return (fr_u32)fr_min(min, max);
}

FR_INLINE void fr_adaptive_2005_wants(const struct fr_state *state, const struct fr_access *access,
				      const struct fr_limits *limits, struct fr_wants *wants)
{
	fr_u64 max = fr_2005_max(state, limits);

	fr_wants_clear(wants);
	if (access->kind != FR_READ_MISS || access->index == 0)
		return;
	wants->probing = FR_PROBE_WALK;
	wants->history_max = max * 100 / fr_ratio(limits);
	if (access->req_pages <= FR_2005_BACK_PAGES) {
		wants->after_from = fr_add(access->index, access->req_pages);
		wants->after_max = 1;
	}
}

FR_INLINE void fr_2005_window(const struct fr_call *call, struct fr_decision *decision,
			      fr_u64 start, fr_u32 size, fr_u8 reason)
{
	decision->reason = reason;
	/* Pages of the range that are cached already are old: they would go first. */
	decision->flags |= FR_DECIDED_RETAIN;
	decision->retain_start = start;
	decision->retain_pages = size;
	fr_open_window(call, decision, start, size, 0);
}

FR_INLINE void fr_2005_miss(const struct fr_call *call, struct fr_decision *decision)
{
	const struct fr_near *near = call->near;
	fr_u64 index = call->access->index;
	fr_u64 req = call->access->req_pages;
	fr_u32 max = fr_2005_max(call->state, call->limits);
	fr_u32 min = fr_2005_min(call->limits, max);
	fr_u32 ratio = fr_ratio(call->limits);
	fr_u32 followed = near->sampled_hits != 0;
	fr_u64 history, size;

	if (fr_read_disabled(call, call->access->req_pages, decision))
		return;
	decision->max_pages = max;
	if (index == 0) {
		fr_2005_window(call, decision, 0, min, FR_REASON_INITIAL);
		return;
	}
	if (req > max || followed) {
		history = fr_min(near->history_pages, fr_add(fr_mul(max, 100) / ratio, 3));
		decision->saw_pages = fr_u32_of(history);
		size = fr_mul(history, ratio) / 100;
		if (size >= min || followed) {
			fr_2005_window(call, decision, index, (fr_u32)fr_clamp(size, min, max),
				       FR_REASON_CONTEXT);
			return;
		}
	}
	if (req <= FR_2005_BACK_PAGES && near->after_pages != 0) {
		size = fr_min(fr_min(FR_2005_BACK_PAGES, index) + req, max);
		fr_2005_window(call, decision, fr_sub(fr_add(index, req), size), (fr_u32)size,
			       FR_REASON_BACKWARD);
		return;
	}
	fr_as_asked(call, decision, fr_min(req, max), FR_REASON_RANDOM);
}

FR_INLINE void fr_adaptive_2005_decide(const struct fr_call *call, struct fr_decision *decision)
{
	fr_decision_clear(decision);
	switch (call->access->kind) {
	case FR_READ_MISS:
		fr_2005_miss(call, decision);
		break;
	case FR_FORCE:
		fr_force(call, decision, call->access->req_pages, FR_REASON_FORCED);
		break;
	default:
		fr_fault_around(call, decision, FR_MMAP_LOTS_A_MISS,
				fr_2005_max(call->state, call->limits));
		break;
	}
}

#endif /* FOREREAD_ADAPTIVE_2005_H */
