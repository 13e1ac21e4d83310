// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reads the windows of a decision.
 *
 * Input: a decision with its call. Output: reads under way, in one plug, so that windows that touch
 * merge into one request; and where the last window ends.
 *
 * Each window is read by page_cache_ra_unbounded(), in folios of the smallest size, or by the
 * kernel's own function (steer.c). The core has cut windows to the file already.
 *
 * Policies that look or see place no marks, since they expect to be told of every access. Here they
 * are told at misses and marks only. So a window of theirs is marked: on the page that its reader
 * comes to first, of those that are not cached yet: the first one, or the one behind the pages that
 * are read now; of a window below them the last one, unless it is a piece of several.
 */
#include <linux/blkdev.h>
#include <linux/minmax.h>
#include <linux/pagemap.h>

#include "compat.h"
#include "decide.h"
#include "device.h"
#include "issue.h"
#include "near.h"
#include "pages.h"
#include "steer.h"

/* Windows of one decision: repetitions are bounded by the policy, this bounds a wrong one. */
#define FM_WINDOWS_MAX 256U

/* Whether a window lies before the page that its reader is at. */
static bool fm_is_below(const struct fm_call *call, const struct fr_window *window)
{
	return fm_window_end(window) <= call->index;
}

/**
 * fm_next_piece() - the next piece of a window, in the order in which its reader comes to them
 * @call: the decision that it is of
 * @window: to read
 * @done: pages of earlier pieces, less than the window has
 * @most: pages of a piece
 */
struct fm_piece fm_next_piece(const struct fm_call *call, const struct fr_window *window, u32 done,
			      u32 most)
{
	struct fm_piece piece = { .pages = min(window->read_pages - done, most) };

	if (fm_is_below(call, window))
		piece.start = fm_window_end(window) - done - piece.pages;
	else
		piece.start = window->start + done;
	return piece;
}

/* The mark of a window of a policy that expects to be told of every access. */
static u32 fm_told_lookahead(const struct fm_call *call, const struct fr_window *window)
{
	struct address_space *mapping = call->ractl->mapping;
	u64 now_end = fr_add(call->index, max(call->req_count, 1UL));
	u64 end = fm_window_end(window);
	u64 from = max(window->start, now_end), cached;

	/* Only a page that is added can be marked. */
	if (fm_is_below(call, window) && call->made.repeats == 0) {
		cached = fm_near_cached_to(mapping, end, window->read_pages);
		return cached < window->read_pages ? (u32)cached + 1 : 0;
	}
	if (from >= end)
		return 0;
	cached = fm_near_cached_from(mapping, from, end - from);
	return fr_u32_of(end - from - cached);
}

static u32 fm_lookahead(const struct fm_call *call, const struct fr_window *window)
{
	if (!fr_policy_looks(call->policy) && !fr_policy_sees(call->policy)) {
		if ((window->flags & FR_WINDOW_END_UNMARKED) &&
		    fr_add(window->start, window->size) >= call->limits.file_pages)
			return 0;
		return window->async_size;
	}
	return fm_told_lookahead(call, window);
}

/* Reads a piece, with a mark on a page of it if @mark is one. */
static void fm_read(const struct fm_call *call, const struct fm_piece *piece, u64 mark)
{
	struct readahead_control ractl = *call->ractl;
	u64 end = piece->start + piece->pages;

	ractl._index = piece->start;
	fm_fetch_reserve(call->fetch, piece->pages);
	fm_ra_unbounded(&ractl, piece->pages, mark >= piece->start && mark < end ? end - mark : 0);
}

/*
 * The most that is read at once: all of these pages are locked before the first is read. The kernel
 * does not go beyond the larger of the file's maximum window and the device's largest request, nor
 * beyond 2 MiB where readahead is forced.
 */
static u32 fm_chunk_pages(const struct fm_call *call, const struct fr_window *window)
{
	u32 most = max(call->after.ra_pages, call->limits.io_pages);

	if (most == 0 || (window->flags & FR_WINDOW_CHUNKS))
		return FR_CHUNK_PAGES;
	return most;
}

/* A window in chunks. The mark is on the page that is @lookahead before its end. */
static void fm_read_chunks(const struct fm_call *call, const struct fr_window *window,
			   u32 lookahead)
{
	u64 mark = fm_window_end(window) - lookahead;
	struct fm_piece piece;
	u32 done;

	for (done = 0; done < window->read_pages; done += piece.pages) {
		piece = fm_next_piece(call, window, done, fm_chunk_pages(call, window));
		fm_read(call, &piece, mark);
	}
}

static void fm_read_window(const struct fm_call *call, const struct fr_window *window)
{
	u32 lookahead = fm_lookahead(call, window);

	if (call->is_steered && !(window->flags & FR_WINDOW_CHUNKS) &&
	    fm_steer(call, window, lookahead)) {
		fm_count(call->device, FM_COUNT_STEERED, 1);
		return;
	}
	fm_read_chunks(call, window, lookahead);
	fm_count(call->device, FM_COUNT_ISSUED, 1);
}

/**
 * fm_issue() - reads the windows of a decision
 * @call: with the decision
 * @asked_end: set to the page behind the last window, where there is one
 *
 * Return: pages of the windows, cached ones included.
 */
u64 fm_issue(const struct fm_call *call, u64 *asked_end)
{
	const struct address_space_operations *ops = call->ractl->mapping->a_ops;
	struct fr_window window;
	struct blk_plug plug;
	u64 pages = 0;
	u32 number;

	if (call->made.windows == 0 || (!ops->read_folio && !ops->readahead))
		return 0;
	blk_start_plug(&plug);
	for (number = 0; number < FM_WINDOWS_MAX; number++) {
		if (!fr_decision_window(&call->made, &call->limits, number, &window))
			break;
		if (window.read_pages == 0)
			continue;
		fm_read_window(call, &window);
		pages += window.read_pages;
		*asked_end = window.start + window.read_pages;
	}
	blk_finish_plug(&plug);
	fm_count(call->device, FM_COUNT_PAGES, pages);
	return pages;
}
