/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * linux-2.6.13: a current window and an ahead window, as in Linux from early 2005 to 2.6.22.
 *
 * A reader counts as sequential as long as each request begins where the one before it ended, and
 * as random otherwise, with nothing between the two. For a sequential reader the policy keeps two
 * windows: the one being read, and the next one, in flight. When the reader enters the second, that
 * becomes the first, and a larger one is requested. The policy follows the reader through every
 * page, cached or not. So it notices if read-ahead pages are evicted (and shrinks), and if
 * everything is cached already (and stops looking). It never looks into the cache to recognise a
 * stream; a seek back and forth resets it.
 */
#ifndef FOREREAD_LINUX_2_6_13_H
#define FOREREAD_LINUX_2_6_13_H

#include "common.h"
#include "file.h"

/* VM_MIN_READAHEAD: 16 KiB. */
#define FR_2_6_13_MIN_PAGES (16384U / FR_PAGE_BYTES)

/*
 * The first window. A single page on a large maximum starts with a single page:
 * p * p, which is what the trace of Message-ID
 * <20050915131651.GA5336@mail.ustc.edu.cn> shows (0+1 for 256 pages).
 */
FR_INLINE fr_u32 fr_2_6_13_initial(fr_u64 req, fr_u32 max)
{
	fr_u64 size = fr_pow2_up(fr_min(req, max));

	if (size <= max / 64)
		return fr_u32_of(fr_min(fr_mul(size, fr_u32_of(size)), max));
	if (size <= max / 4)
		return max / 4;
	return max;
}

/* The next window; two pages less than the last after pages were found gone. */
FR_INLINE fr_u32 fr_2_6_13_next(const struct fr_call *call, fr_u32 max)
{
	struct fr_state *state = call->state;
	fr_u32 least = call->limits->min_pages != 0 ? call->limits->min_pages : FR_2_6_13_MIN_PAGES;

	if (state->flags & FR_STATE_MISS) {
		state->flags &= 0xffU & ~FR_STATE_MISS;
		return (fr_u32)fr_min(fr_max(fr_sub(state->size, 2), least), max);
	}
	if (state->size < max / 16)
		return state->size * 4;
	return (fr_u32)fr_min((fr_u64)state->size * 2, max);
}

/**
 * fr_2_6_13_ahead() - asks for the ahead window (make_ahead_window)
 * @call: the look
 * @decision: gets the window
 * @max: the maximum window
 * @forced: whether it is asked for even when the device is congested
 *
 * Return: 1 when there is an ahead window now.
 */
FR_INLINE fr_u32 fr_2_6_13_ahead(const struct fr_call *call, struct fr_decision *decision,
				 fr_u32 max, fr_u32 forced)
{
	struct fr_state *state = call->state;

	state->ahead_size = fr_2_6_13_next(call, max);
	state->ahead_start = fr_add(state->start, state->size);
	if ((call->access->flags & FR_ACCESS_CONGESTED) && !forced &&
	    state->prev_page < state->ahead_start) {
		state->ahead_start = 0;
		state->ahead_size = 0;
		return 0;
	}
	decision->flags |= FR_DECIDED_STATE;
	fr_emit(decision, call->limits, state->ahead_start, state->ahead_size, 0);
	return state->ahead_size != 0;
}

/* A sequential reader with a window. */
FR_INLINE void fr_2_6_13_go_on(const struct fr_call *call, struct fr_decision *decision, fr_u32 max)
{
	struct fr_state *state = call->state;

	decision->reason = FR_REASON_WITHIN;
	if (state->ahead_size == 0) {
		if (!fr_2_6_13_ahead(call, decision, max, 0))
			return;
		decision->reason = FR_REASON_AHEAD;
	}
	/* The reader is in the ahead window: it becomes the current one. */
	if (state->prev_page >= state->ahead_start) {
		state->start = state->ahead_start;
		state->size = state->ahead_size;
		fr_2_6_13_ahead(call, decision, max, 0);
		decision->reason = FR_REASON_AHEAD;
	}
}

/* A request, or the part of it that was not looked at yet (page_cache_readahead). */
FR_INLINE void fr_2_6_13_look(const struct fr_call *call, fr_u64 req, struct fr_decision *decision)
{
	struct fr_state *state = call->state;
	fr_u64 index = call->access->index;
	fr_u64 pages;
	fr_u32 sequential;
	/* fadvise RANDOM was ra_pages = 0 then. */
	fr_u32 max = state->flags & FR_STATE_RANDOM ? 0 : state->ra_pages;

	if (call->limits->pages_max != 0)
		max = (fr_u32)fr_min(max, call->limits->pages_max);
	decision->max_pages = max;
	/* The last page of the previous request, read in part, is not looked at again. */
	if (index == state->prev_page) {
		req = fr_sub(req, 1);
		if (req > 0)
			index = fr_add(index, 1);
	}
	sequential = state->prev_page == FR_U64_MAX ? index == 0 :
						      index == fr_add(state->prev_page, 1);
	state->prev_page = index;
	decision->next_look = fr_add(index, 1);
	pages = fr_min(req, max);
	if (pages == 0 || (state->flags & FR_STATE_IN_CACHE)) {
		decision->reason = FR_REASON_WITHIN;
		if (max == 0)
			decision->reason = FR_REASON_DISABLED;
		else if (pages != 0)
			decision->reason = FR_REASON_IN_CACHE;
		return;
	}
	state->prev_page = fr_add(index, pages - 1);
	decision->next_look = fr_add(state->prev_page, 1);

	if (!sequential) {
		state->start = 0;
		state->size = 0;
		state->ahead_start = 0;
		state->ahead_size = 0;
		decision->reason = FR_REASON_RANDOM;
		decision->flags |= FR_DECIDED_STATE;
		fr_emit(decision, call->limits, index, (fr_u32)pages, 0);
		return;
	}
	if (state->size == 0) {
		decision->reason = req >= max ? FR_REASON_OVERSIZE : FR_REASON_INITIAL;
		fr_open_window(call, decision, index, fr_2_6_13_initial(pages, max), 0);
		/* The reader is sure to need more than this window: two at once. */
		if (req >= max)
			fr_2_6_13_ahead(call, decision, max, 1);
		return;
	}
	fr_2_6_13_go_on(call, decision, max);
}

/* A page that was looked after is gone again (handle_ra_miss). */
FR_INLINE void fr_2_6_13_miss(const struct fr_call *call, struct fr_decision *decision)
{
	call->state->flags |= FR_STATE_MISS;
	call->state->flags &= 0xffU & ~FR_STATE_IN_CACHE;
	call->state->cache_hit_pages = 0;
	decision->reason = FR_REASON_THRASHED;
}

FR_INLINE void fr_linux_2_6_13_wants(const struct fr_state *state, const struct fr_access *access,
				     const struct fr_limits *limits, struct fr_wants *wants)
{
	(void)state;
	(void)access;
	(void)limits;
	fr_wants_clear(wants);
}

FR_INLINE void fr_linux_2_6_13_decide(const struct fr_call *call, struct fr_decision *decision)
{
	const struct fr_access *access = call->access;

	fr_decision_clear(decision);
	switch (access->kind) {
	case FR_READ_LOOK:
		fr_2_6_13_look(call, access->req_pages, decision);
		break;
	case FR_READ_MISS:
		fr_2_6_13_miss(call, decision);
		break;
	case FR_FORCE:
		fr_force(call, decision, access->req_pages, FR_REASON_FORCED);
		break;
	case FR_FAULT_MISS:
	case FR_FAULT_MARK:
	case FR_FAULT_HIT:
		/* MADV_SEQUENTIAL follows the faults as if they were reads of a page. */
		if (access->flags & FR_VMA_SEQUENTIAL)
			fr_2_6_13_look(call, 1, decision);
		else
			fr_fault_around(call, decision, FR_MMAP_LOTS_A_MISS,
					fr_file_max_pages(call));
		break;
	default:
		break;
	}
}

#endif /* FOREREAD_LINUX_2_6_13_H */
