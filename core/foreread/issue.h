/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How a window becomes folios and requests: which folio comes next, how large it
 * is, whether it carries the mark, and where a new request starts.
 *
 *	fr_issue_begin(&issue, &decision.window[0], &limits);
 *	while (fr_issue_next(&issue, &folio))
 *		if (a page of the folio is cached already, or there is no memory)
 *			fr_issue_refuse(&issue, &folio);
 *		else
 *			insert it, marked if folio.marked;
 *			folio.starts_request: it does not continue the last request
 *
 * page_cache_ra_order() makes large folios until the first refusal and leaves the
 * rest to page_cache_ra_unbounded(), which goes page by page and skips what is
 * cached. Each run of pages without a gap is one request, submitted in one plug.
 */
#ifndef FOREREAD_ISSUE_H
#define FOREREAD_ISSUE_H

#include "common.h"

/* fr_issue.folios */
#define FR_FOLIOS_ANY 1U
#define FR_FOLIOS_NO_PAIRS 2U

/**
 * struct fr_issue - where the issue of a window stands
 * @index: next page
 * @end: page after the last one to read
 * @mark: page that the mark is meant for; FR_U64_MAX means none
 * @window_start: first page of the window, from which chunks count
 * @order: largest folio order
 * @folios: whether large folios are made: 0, FR_FOLIOS_ANY or FR_FOLIOS_NO_PAIRS; off
 *	after a refusal
 * @broken: whether the next folio starts a request
 * @chunks: whether every 2 MiB start a request
 * @cut_async: with FR_QUIRK_EOF_MARK, the async_size of a window that the end of the
 *	file cuts, which page by page is counted back from there; else 0
 * @again_end: with FR_QUIRK_LONG_FALLBACK, the page behind the last one that may be read
 * @again_size: with FR_QUIRK_LONG_FALLBACK, the size of the window, all of which is read
 *	from a refusal on; else 0
 * @again_async: with @again_size, its async_size
 */
struct fr_issue {
	fr_u64 index;
	fr_u64 end;
	fr_u64 mark;
	fr_u64 window_start;
	fr_u8 order;
	fr_u8 folios;
	fr_u8 broken;
	fr_u8 chunks;
	fr_u32 cut_async;
	fr_u64 again_end;
	fr_u32 again_size;
	fr_u32 again_async;
};

/**
 * struct fr_folio - a folio to insert into the page cache
 * @index: its first page
 * @order: it has 2^@order pages
 * @marked: whether reaching it is to cause the next window
 * @starts_request: whether it does not continue the request before it
 * @reserved: 0
 */
struct fr_folio {
	fr_u64 index;
	fr_u8 order;
	fr_u8 marked;
	fr_u8 starts_request;
	fr_u8 reserved[5];
};

_Static_assert(sizeof(struct fr_issue) == 56, "no hidden padding");
_Static_assert(sizeof(struct fr_folio) == 16, "no hidden padding");

/*
 * Page by page, a window that the end of the file cuts keeps its lookahead, so that its
 * mark is counted back from there (do_page_cache_ra).
 */
FR_INLINE void fr_issue_cut(struct fr_issue *issue)
{
	if (issue->cut_async == 0)
		return;
	issue->mark = FR_U64_MAX;
	if (issue->cut_async <= fr_sub(issue->end, issue->index))
		issue->mark = fr_sub(issue->end, issue->cut_async);
}

/* The rest of a window is read page by page, from the issue's index on. */
FR_INLINE void fr_issue_by_page(struct fr_issue *issue)
{
	fr_u64 end;

	issue->folios = 0;
	if (issue->again_size == 0) {
		fr_issue_cut(issue);
		return;
	}
	end = fr_add(issue->index, issue->again_size);
	issue->end = fr_min(end, issue->again_end);
	issue->mark = FR_U64_MAX;
	if (issue->again_async != 0)
		issue->mark = fr_sub(end, issue->again_async);
	if (issue->end < end && issue->cut_async != 0)
		fr_issue_cut(issue);
	issue->again_size = 0;
}

/**
 * fr_decision_window() - one of the windows of a decision, repetitions among them
 * @decision: that was made
 * @limits: the same as for the decision
 * @number: from 0
 * @window: filled when there is one
 *
 * Return: 1, or 0 beyond the last window. A repetition that leaves the file has
 * nothing to read.
 */
FR_INLINE fr_u32 fr_decision_window(const struct fr_decision *decision,
				    const struct fr_limits *limits, fr_u32 number,
				    struct fr_window *window)
{
	fr_u64 away;

	if (decision->windows == 0)
		return 0;
	*window = decision->windows > 1 && number > 0 ? decision->window[1] : decision->window[0];
	if (number < decision->windows)
		return 1;
	number = number - decision->windows + 1;
	if (number > decision->repeats)
		return 0;
	away = fr_mul(decision->step_pages, number);
	if (decision->flags & FR_DECIDED_DOWN) {
		if (away > window->start)
			window->size = 0;
		window->start = fr_sub(window->start, away);
	} else {
		window->start = fr_add(window->start, away);
	}
	window->read_pages = fr_readable(limits, window->start, window->size);
	return 1;
}

/**
 * fr_issue_begin() - starts to issue a window
 * @issue: filled
 * @window: of a decision
 * @limits: the same as for the decision
 */
FR_INLINE void fr_issue_begin(struct fr_issue *issue, const struct fr_window *window,
			      const struct fr_limits *limits)
{
	fr_u32 read = fr_readable(limits, window->start, window->read_pages);
	fr_u32 is_cut = read > 0 && fr_sub(limits->file_pages, window->start) < window->size;

	issue->index = window->start;
	issue->end = fr_add(window->start, read);
	issue->mark = FR_U64_MAX;
	issue->window_start = window->start;
	issue->order = (fr_u8)fr_min(window->order, FR_FOLIO_ORDER_MAX);
	issue->folios = 0;
	if (window->flags & FR_WINDOW_FOLIOS)
		issue->folios = (window->flags & FR_WINDOW_NO_PAIRS) ? FR_FOLIOS_NO_PAIRS :
								       FR_FOLIOS_ANY;
	issue->chunks = (window->flags & FR_WINDOW_CHUNKS) ? 1 : 0;
	issue->broken = 1;
	issue->cut_async = 0;
	issue->again_end = 0;
	issue->again_size = 0;
	issue->again_async = 0;
	if (issue->folios && read > 0 && (limits->quirks & FR_QUIRK_LONG_FALLBACK)) {
		issue->again_end =
			fr_add(window->start, fr_readable(limits, window->start, FR_U32_MAX));
		issue->again_size = window->size;
		issue->again_async = window->async_size;
	}
	if (window->async_size == 0)
		return;
	if ((window->flags & FR_WINDOW_END_UNMARKED) &&
	    fr_add(window->start, window->size) >= limits->file_pages)
		return;
	if (window->async_size <= window->size)
		issue->mark = fr_add(window->start, fr_sub(window->size, window->async_size));
	/* A window that is read again from a refusal on may be cut then. */
	if ((is_cut || issue->again_size != 0) && (limits->quirks & FR_QUIRK_EOF_MARK))
		issue->cut_async = window->async_size;
	if (!issue->folios)
		fr_issue_cut(issue);
}

/* The order of the folio at @index: aligned to itself, and not past the end. */
FR_INLINE fr_u32 fr_issue_order(const struct fr_issue *issue)
{
	fr_u64 left = fr_sub(issue->end, issue->index);
	fr_u64 order = fr_min(issue->order, fr_low_bit(issue->index));

	order = fr_min(order, fr_log2(left));
	if (order == 1 && issue->folios == FR_FOLIOS_NO_PAIRS)
		order = 0;
	return (fr_u32)order;
}

/**
 * fr_issue_next() - the next folio of a window
 * @issue: advanced past it
 * @folio: filled
 *
 * Return: 1, or 0 when the window is issued.
 */
FR_INLINE fr_u32 fr_issue_next(struct fr_issue *issue, struct fr_folio *folio)
{
	fr_u32 order = 0;

	if (issue->index >= issue->end)
		return 0;
	if (issue->folios)
		order = fr_issue_order(issue);
	folio->index = issue->index;
	folio->order = (fr_u8)order;
	folio->marked = issue->mark != FR_U64_MAX &&
			fr_round_down(issue->mark, order) == issue->index;
	folio->starts_request = issue->broken;
	if (issue->chunks && fr_sub(issue->index, issue->window_start) % FR_CHUNK_PAGES == 0)
		folio->starts_request = 1;
	issue->index = fr_add(issue->index, 1ULL << order);
	issue->broken = 0;
	return 1;
}

/**
 * fr_issue_refuse() - the folio could not be inserted
 * @issue: goes on page by page: from the folio's first page where it was to be a
 *	large one, after it where it was a page
 * @folio: from the last fr_issue_next()
 *
 * A mark on a page that is cached already is lost: only a page that is inserted
 * gets it.
 */
FR_INLINE void fr_issue_refuse(struct fr_issue *issue, const struct fr_folio *folio)
{
	if (issue->folios) {
		issue->index = folio->index;
		fr_issue_by_page(issue);
	}
	issue->broken = 1;
}

#endif /* FOREREAD_ISSUE_H */
