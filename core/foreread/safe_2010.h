/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * safe-2010: large windows that take themselves back, from the series "512K readahead size with
 * thrashing safe readahead".
 *
 * Windows are large by default (512 KiB, at least 32 KiB), because disks have long been too fast
 * for 128 KiB. The only good argument against is memory: many streams in little memory evict each
 * other's pages before they are read. So the policy watches for that. A page that was read ahead
 * and is missing marks the file as thrashing. From then on the history that survived in the cache,
 * not the last window, limits the next one; its size settles between half the thrashing threshold
 * and all of it. Page 0 after a seek does not start a stream. Mappings need more evidence than with
 * other policies: after ten more misses than hits, read-around happens only if a page nearby is
 * cached.
 *
 * Rules from Message-IDs <20100207041043.584619057@intel.com> (thrashing-safe context) and
 * <20100301052651.857984880@intel.com> (the series).
 */
#ifndef FOREREAD_SAFE_2010_H
#define FOREREAD_SAFE_2010_H

#include "linux.h"

/* The smallest window: 32 KiB. */
#define FR_2010_MIN_PAGES (32768U / FR_PAGE_BYTES)
/* MMAP_LOTSAMISS of the series: at most 5 MiB of 512 KiB windows are wasted, not 12. */
#define FR_2010_LOTS_A_MISS 10U
/*
 * A context window's lookahead is one part in this many of the history that counts. The history is
 * counted back by at most this many maximum windows.
 */
#define FR_2010_ASYNC_RATIO 8U
/* A leaf of the page tree: the range in which a cached page counts as nearby. */
#define FR_2010_LEAF_ORDER 6U

FR_INLINE fr_u32 fr_2010_min(const struct fr_limits *limits, fr_u32 max)
{
	fr_u32 min = limits->min_pages != 0 ? limits->min_pages : FR_2010_MIN_PAGES;

	return (fr_u32)fr_min(min, max);
}

/* Reads a file's window at most; the device's request size widens nothing then. */
FR_INLINE fr_u32 fr_2010_max(const struct fr_state *state, const struct fr_limits *limits)
{
	return fr_max_pages(state, limits, 0);
}

/* Whether a read is the one expected by the last window: at its mark, or at its end. */
FR_INLINE fr_u32 fr_2010_expected(const struct fr_state *state, const struct fr_access *access)
{
	if (state->flags & FR_STATE_THRASHED)
		return 0;
	return state->size != 0 && (fr_linux_own_mark(state, access) ||
				    access->index == fr_add(state->start, state->size));
}

FR_INLINE void fr_safe_2010_wants(const struct fr_state *state, const struct fr_access *access,
				  const struct fr_limits *limits, struct fr_wants *wants)
{
	fr_u32 max = fr_2010_max(state, limits);
	fr_u32 thrashed = (state->flags & FR_STATE_THRASHED) != 0;

	fr_wants_clear(wants);
	if (access->kind == FR_FAULT_MISS && state->mmap_miss >= FR_2010_LOTS_A_MISS) {
		wants->around_from = fr_round_down(access->index, FR_2010_LEAF_ORDER);
		wants->around_max = 1U << FR_2010_LEAF_ORDER;
	}
	if (access->kind == FR_READ_MISS) {
		if (access->index == 0 || (access->req_pages > max && !thrashed))
			return;
	} else if (access->kind != FR_READ_MARK) {
		return;
	}
	if (fr_2010_expected(state, access))
		return;
	if (access->kind == FR_READ_MARK) {
		wants->after_from = fr_add(access->index, 1);
		wants->after_max = max;
	}
	wants->before_max = fr_min((fr_u64)max * FR_2010_ASYNC_RATIO, access->index);
}

/* A miss without any history: random, or evicted before it was read. */
FR_INLINE void fr_2010_alone(const struct fr_call *call, struct fr_decision *decision, fr_u32 max)
{
	struct fr_state *state = call->state;
	fr_u64 index = call->access->index;
	fr_u64 end = fr_add(state->start, state->size);
	fr_u32 size;

	if (state->size != 0 && index >= fr_sub(state->start, state->size) && index < end) {
		size = (fr_u32)fr_min(fr_max(state->size / 2, fr_2010_min(call->limits, max)), max);
		state->flags |= FR_STATE_THRASHED;
		decision->reason = FR_REASON_THRASHED;
		/* The rest of the window would be evicted in the same way. */
		decision->flags |= FR_DECIDED_RETAIN;
		decision->retain_start = index;
		decision->retain_pages = fr_u32_of(fr_min((fr_u64)max * 2, fr_sub(end, index)));
	} else {
		size = (fr_u32)fr_min(call->access->req_pages, max);
		decision->reason = FR_REASON_RANDOM;
	}
	/* Random reads are recorded too: their place shows the next thrash. */
	fr_open_window(call, decision, index, size, 0);
}

FR_INLINE void fr_2010_context(const struct fr_call *call, struct fr_decision *decision, fr_u32 max)
{
	fr_u64 index = call->access->index;
	fr_u64 history =
		fr_min(call->near->before_pages, fr_min((fr_u64)max * FR_2010_ASYNC_RATIO, index));
	fr_u64 ahead = 0, room, size;

	decision->saw_pages = fr_u32_of(history);
	if (call->access->kind == FR_READ_MARK) {
		ahead = fr_add(fr_min(call->near->after_pages, max), 1);
		if (ahead > max) {
			decision->reason = FR_REASON_FULL;
			return;
		}
	} else if (history == 0) {
		fr_2010_alone(call, decision, max);
		return;
	}
	/* Cached from the start of the file on: a strong sign of a long stream. */
	if (history >= index)
		history *= 2;
	if (history <= ahead) {
		decision->reason = FR_REASON_FULL;
		return;
	}
	room = fr_sub(history, ahead);
	size = fr_min(fr_max(room, fr_2010_min(call->limits, max)), max);
	decision->reason = FR_REASON_CONTEXT;
	fr_open_window(call, decision, fr_add(index, ahead), (fr_u32)size,
		       (fr_u32)fr_min(size, 1 + room / FR_2010_ASYNC_RATIO));
}

/* A read that missed or reached a mark. */
FR_INLINE void fr_2010_read(const struct fr_call *call, struct fr_decision *decision)
{
	struct fr_state *state = call->state;
	const struct fr_access *access = call->access;
	fr_u32 max = fr_2010_max(state, call->limits);
	fr_u32 missed = access->kind == FR_READ_MISS;
	fr_u64 size;

	if (missed && fr_read_disabled(call, call->access->req_pages, decision))
		return;
	decision->max_pages = max;
	if (missed && access->index == 0) {
		if (state->flags & FR_STATE_SEEKED) {
			fr_as_asked(call, decision, fr_min(access->req_pages, max),
				    FR_REASON_SEEKED);
			return;
		}
		size = fr_initial_size(access->req_pages, max);
		decision->reason = FR_REASON_INITIAL;
		fr_open_window(call, decision, 0, (fr_u32)size,
			       (fr_u32)(size > access->req_pages ? fr_sub(size, access->req_pages) :
								   size));
		return;
	}
	if (fr_2010_expected(state, access)) {
		size = fr_next_size(state->size, max);
		decision->reason = FR_REASON_SUBSEQUENT;
		fr_open_window(call, decision, fr_add(state->start, state->size), (fr_u32)size,
			       (fr_u32)size);
		return;
	}
	if (missed && access->req_pages > max && !(state->flags & FR_STATE_THRASHED)) {
		decision->reason = FR_REASON_OVERSIZE;
		fr_open_window(call, decision, access->index, max, max);
		return;
	}
	fr_2010_context(call, decision, max);
}

FR_INLINE void fr_2010_mark(const struct fr_call *call, struct fr_decision *decision)
{
	if (call->access->flags & FR_ACCESS_WRITEBACK)
		return;
	decision->flags |= FR_DECIDED_CLEAR_MARK;
	if (call->state->ra_pages == 0 || (call->access->flags & FR_ACCESS_CONGESTED)) {
		decision->reason = FR_REASON_DISABLED;
		return;
	}
	fr_2010_read(call, decision);
}

FR_INLINE void fr_2010_fault(const struct fr_call *call, struct fr_decision *decision)
{
	fr_u32 lots = FR_2010_LOTS_A_MISS;
	fr_u32 max = (fr_u32)fr_min(fr_2010_max(call->state, call->limits),
				    fr_around_max_pages(call->limits->memory_pages));

	/* Something in the same leaf was wanted before. */
	if (call->near->around_pages != 0)
		lots = FR_MMAP_MISS_MAX;
	fr_fault_around(call, decision, lots, max);
}

FR_INLINE void fr_safe_2010_decide(const struct fr_call *call, struct fr_decision *decision)
{
	fr_decision_clear(decision);
	switch (call->access->kind) {
	case FR_READ_MISS:
		fr_2010_read(call, decision);
		break;
	case FR_READ_MARK:
		fr_2010_mark(call, decision);
		break;
	case FR_FORCE:
		fr_force(call, decision, call->access->req_pages, FR_REASON_FORCED);
		break;
	default:
		fr_2010_fault(call, decision);
		break;
	}
}

#endif /* FOREREAD_SAFE_2010_H */
