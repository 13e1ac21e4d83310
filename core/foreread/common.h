/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Functions that all policies share: setting a window, reading as asked, forced readahead, and the
 * faults of mappings.
 */
#ifndef FOREREAD_COMMON_H
#define FOREREAD_COMMON_H

#include "sizing.h"

/* Below mmap_miss's bound, so that some hits bring a mapping back (MMAP_LOTSAMISS * 10). */
#define FR_MMAP_MISS_MAX 1000U
/* Faults in advance of hits beyond which a mapping is not read around (MMAP_LOTSAMISS). */
#define FR_MMAP_LOTS_A_MISS 100U
/* PMD_ORDER: a huge page of 2 MiB. */
#define FR_HUGE_ORDER 9U
/* Larger folios are not made, whatever a file system says; keeps shifts defined. */
#define FR_FOLIO_ORDER_MAX 20U

FR_INLINE void fr_decision_clear(struct fr_decision *decision)
{
	struct fr_window none = { 0, 0, 0, 0, 0, 0, 0 };

	decision->window[0] = none;
	decision->window[1] = none;
	decision->retain_start = 0;
	decision->next_look = 0;
	decision->step_pages = 0;
	decision->repeats = 0;
	decision->reserved_2 = 0;
	decision->retain_pages = 0;
	decision->max_pages = 0;
	decision->saw_pages = 0;
	decision->windows = 0;
	decision->reason = FR_REASON_NOTHING;
	decision->flags = 0;
	decision->reserved = 0;
}

FR_INLINE void fr_wants_clear(struct fr_wants *wants)
{
	wants->before_max = 0;
	wants->gap_max = 0;
	wants->after_from = 0;
	wants->after_max = 0;
	wants->around_from = 0;
	wants->around_max = 0;
	wants->history_max = 0;
	wants->probing = FR_PROBE_NONE;
	wants->reserved = 0;
}

/* Number of the @size pages from @start that may be read. */
FR_INLINE fr_u32 fr_readable(const struct fr_limits *limits, fr_u64 start, fr_u32 size)
{
	fr_u64 pages = fr_min(size, fr_sub(limits->file_pages, start));

	if (limits->pages_max != 0)
		pages = fr_min(pages, limits->pages_max);
	return (fr_u32)pages;
}

/**
 * fr_emit() - adds a window to a decision
 * @decision: to add to
 * @limits: the limits that cut it
 * @start: first page
 * @size: pages
 * @async_size: pages of the tail that count as read ahead
 *
 * A third window is never decided; it would replace the second. The index of a
 * window is a constant in each branch, as the BPF verifier likes it.
 */
FR_INLINE void fr_emit(struct fr_decision *decision, const struct fr_limits *limits, fr_u64 start,
		       fr_u32 size, fr_u32 async_size)
{
	struct fr_window window = { start, size, async_size, 0, 0, 0, 0 };

	window.read_pages = fr_readable(limits, start, size);
	if (decision->windows == 0) {
		decision->window[0] = window;
		decision->windows = 1;
	} else {
		decision->window[1] = window;
		decision->windows = 2;
	}
}

/* Adds pages without a mark, as far as the bound of all windows allows. */
FR_INLINE void fr_read_ahead(const struct fr_call *call, struct fr_decision *decision, fr_u64 start,
			     fr_u32 pages)
{
	if (call->limits->pages_max != 0)
		pages = (fr_u32)fr_min(pages, call->limits->pages_max);
	fr_emit(decision, call->limits, start, pages, 0);
}

/* Puts a window into the state and into the decision. */
FR_INLINE void fr_open_window(const struct fr_call *call, struct fr_decision *decision,
			      fr_u64 start, fr_u32 size, fr_u32 async_size)
{
	struct fr_state *state = call->state;

	state->start = start;
	state->size = size;
	state->async_size = async_size;
	decision->flags |= FR_DECIDED_STATE;
	fr_emit(decision, call->limits, start, size, async_size);
}

/**
 * fr_fold() - issues the first window of a decision as folios (page_cache_ra_order)
 * @call: the order in its state becomes the one that was really used
 * @decision: with one window
 * @order: wanted
 *
 * Without large folios the order falls back to 0, and since the next mark adds 2
 * before it falls back again, window ends there are rounded to 4 pages all the same.
 */
FR_INLINE void fr_fold(const struct fr_call *call, struct fr_decision *decision, fr_u32 order)
{
	fr_u64 most = fr_min(call->limits->folio_order_max, FR_FOLIO_ORDER_MAX);

	most = fr_min(most, fr_log2(decision->window[0].size));
	call->state->order = (fr_u8)fr_min(order, most);
	decision->window[0].order = call->state->order;
	if (call->limits->folio_order_max != 0)
		decision->window[0].flags |= FR_WINDOW_FOLIOS;
}

/* Reads only the requested pages; the state's window is left alone. */
FR_INLINE void fr_as_asked(const struct fr_call *call, struct fr_decision *decision, fr_u64 pages,
			   fr_u8 reason)
{
	decision->reason = reason;
	fr_emit(decision, call->limits, call->access->index, fr_u32_of(pages), 0);
}

/**
 * fr_force() - forced readahead (force_page_cache_ra)
 * @call: the access
 * @decision: to fill
 * @pages: asked for
 * @reason: why it is forced
 *
 * One call reads at most max(io_pages, ra_pages), silently: 64 MiB asked of a device
 * with 4 MiB requests and 8 MiB windows give 8 MiB, on Linux 6.18 as measured. What
 * one wants beyond that must be asked for again.
 */
FR_INLINE void fr_force(const struct fr_call *call, struct fr_decision *decision, fr_u64 pages,
			fr_u8 reason)
{
	fr_u64 most = fr_max(call->limits->io_pages, call->state->ra_pages);

	if (call->limits->pages_max != 0)
		most = fr_min(most, call->limits->pages_max);
	decision->max_pages = fr_u32_of(most);
	decision->flags |= FR_DECIDED_FORCED;
	fr_as_asked(call, decision, fr_min(pages, most), reason);
	decision->window[0].flags |= FR_WINDOW_CHUNKS;
}

/**
 * fr_read_disabled() - reads on files without readahead
 * @call: the access, a read that missed, or a fault that is taken for one
 * @req: pages asked for
 * @decision: filled when the answer is 1
 *
 * Return: 1 when readahead is off, the cgroup congested, or the program said random.
 *
 * page_cache_sync_ra() reads one page by force when readahead is off or the cgroup
 * congested, and without a struct file nothing.
 */
FR_INLINE fr_u32 fr_read_disabled(const struct fr_call *call, fr_u64 req,
				  struct fr_decision *decision)
{
	fr_u32 flags = call->access->flags;

	if (call->state->ra_pages == 0 || (flags & FR_ACCESS_CONGESTED)) {
		decision->reason = FR_REASON_DISABLED;
		if (flags & FR_ACCESS_NO_FILE)
			return 1;
		fr_force(call, decision, 1, FR_REASON_DISABLED);
		/*
		 * Not even that page with ra_pages and io_pages of 0, as the kernel has
		 * it: the caller reads it alone.
		 */
		return 1;
	}
	if ((call->state->flags & FR_STATE_RANDOM) && !(flags & FR_ACCESS_NO_FILE)) {
		fr_force(call, decision, req, FR_REASON_ADVISED_RANDOM);
		return 1;
	}
	return 0;
}

/* The score of a mapping: a hit takes one miss back. */
FR_INLINE void fr_mmap_hits(struct fr_state *state, fr_u64 pages)
{
	state->mmap_miss = (fr_u16)fr_sub(state->mmap_miss, pages);
}

/**
 * fr_mmap_missed() - counts a fault that missed
 * @state: of the file
 * @lots: misses in advance of hits beyond which reading around does not pay
 *
 * Return: 1 when there are more than @lots.
 */
FR_INLINE fr_u32 fr_mmap_missed(struct fr_state *state, fr_u32 lots)
{
	if (state->mmap_miss < FR_MMAP_MISS_MAX)
		state->mmap_miss++;
	return state->mmap_miss > lots;
}

/* A window centred on the fault, as large as the maximum (do_sync_mmap_readahead). */
FR_INLINE void fr_read_around(const struct fr_call *call, struct fr_decision *decision,
			      fr_u32 max_pages, fr_u32 async_size)
{
	decision->reason = FR_REASON_AROUND;
	decision->max_pages = max_pages;
	fr_open_window(call, decision, fr_sub(call->access->index, max_pages / 2), max_pages,
		       async_size);
}

/* The largest window of a file, without a request that could widen it. */
FR_INLINE fr_u32 fr_file_max_pages(const struct fr_call *call)
{
	return fr_max_pages(call->state, call->limits, 0);
}

/**
 * fr_fault_around() - faults, as before folios
 * @call: the fault
 * @decision: to fill
 * @lots: bound of mmap_miss
 * @max_pages: the window
 *
 * The rule of the policies of 2005 to 2010 for a mapping without advice: hits and misses are
 * weighed, and misses are read around without a mark.
 *
 * Return: 1 when the access was a fault and is answered.
 */
FR_INLINE fr_u32 fr_fault_around(const struct fr_call *call, struct fr_decision *decision,
				 fr_u32 lots, fr_u32 max_pages)
{
	const struct fr_access *access = call->access;

	if (access->kind == FR_FAULT_HIT || access->kind == FR_FAULT_MARK) {
		if (!(access->flags & FR_ACCESS_LOCKED))
			fr_mmap_hits(call->state, 1);
		return 1;
	}
	if (access->kind != FR_FAULT_MISS)
		return 0;
	if (access->flags & FR_VMA_RANDOM) {
		decision->reason = FR_REASON_ADVISED_RANDOM;
		return 1;
	}
	if (max_pages == 0) {
		decision->reason = FR_REASON_DISABLED;
		return 1;
	}
	if (fr_mmap_missed(call->state, lots)) {
		decision->reason = FR_REASON_MISSES;
		return 1;
	}
	fr_read_around(call, decision, max_pages, 0);
	return 1;
}

#endif /* FOREREAD_COMMON_H */
