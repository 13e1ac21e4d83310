// SPDX-License-Identifier: GPL-2.0-only
/*
 * Has the kernel's own functions read a window, so that it is read in large folios.
 *
 * page_cache_ra_order(), which makes large folios, isn't exported. page_cache_sync_ra() and
 * page_cache_async_ra() call it with a window that they compute from a file_ra_state. So a state is
 * made up from which their rules compute the wanted window (w pages from s on, of which l are
 * lookahead):
 *
 * - at a miss, w/4 < w - l < w: page_cache_sync_ra() at a miss that continues the last read opens a
 *   window at once. A request of more than a quarter of the maximum gets the maximum, of which the
 *   rest is lookahead. So the maximum is w, and w - l pages are requested.
 * - others: page_cache_async_ra() at its own mark reads the window behind the last one, of the
 *   maximum size. So the last window was w pages before s. The kernel asks the folio with the mark
 *   whether it is under writeback, and how large it is. Where none was reached, it gets one of this
 *   module. It marks the first page of a window. That mark is taken back, and the page gets it that
 *   the policy wants.
 *
 * The caller reads two kinds of windows itself, page by page. Windows around a fault: of a large
 * folio it can't be told how much was of use. Windows at page 0: Linux 6.1 takes any access to that
 * page for the start of a stream.
 *
 * Windows ahead are told in pieces. ext4 and XFS read what they are told of at once by one bio,
 * which holds many large folios, and the pages of a bio become readable together. A reader of a
 * window of 6 MiB in one piece waited for all of it, and the disk was idle before the next one.
 *
 * The policy of this kernel needs none of that: the kernel's function is called as it was. What it
 * comes to is compared with the decision.
 */
#include <linux/gfp.h>
#include <linux/pagemap.h>

#include "compat.h"
#include "decide.h"
#include "device.h"
#include "issue.h"
#include "mark.h"
#include "pages.h"
#include "steer.h"

/* A mark below the first page of the window has a page of its own. */
#define FM_LAST_MARK 1U

/* The folio that page_cache_async_ra() gets at a miss. It is in no page cache. */
static struct folio *fm_own_folio;

/*
 * The most that the kernel is told of at once: the device's largest request. The pages of a request
 * become readable together in any case.
 */
static u32 fm_steer_pages(const struct fm_call *call)
{
	return call->limits.io_pages != 0 ? call->limits.io_pages : FR_CHUNK_PAGES;
}

static struct folio *fm_marked_folio(const struct fm_call *call)
{
	return call->folio && !folio_test_writeback(call->folio) ? call->folio : fm_own_folio;
}

/* The last page before a piece, as the kernel rounds it for the folio with the mark. */
static pgoff_t fm_mark_before(const struct fm_call *call, u64 start)
{
	return round_down(start - FM_LAST_MARK, folio_nr_pages(fm_marked_folio(call)));
}

/* A piece of a window, whose first page gets a mark. */
static void fm_steer_piece(const struct fm_call *call, const struct fm_piece *piece)
{
	struct file_ra_state ra = *call->ractl->ra;
	struct readahead_control ractl = *call->ractl;

	ra.start = piece->start - piece->pages;
	ra.size = piece->pages;
	ra.async_size = FM_LAST_MARK;
	/*
	 * Since 6.16 ends of windows are rounded to the largest power of two in the maximum, and
	 * the last size is a lower bound of the next: an odd maximum rounds nothing.
	 */
	ra.ra_pages = FM_NEXT_IS_BOUND ? 1 : piece->pages;
	ractl.ra = &ra;
	ractl._index = fm_mark_before(call, piece->start);
	fm_fetch_reserve(call->fetch, piece->pages);
	page_cache_async_ra(&ractl, fm_marked_folio(call), 1);
	fm_set_ra_order(call->ractl->ra, fm_ra_order(&ra));
}

/* A folio that was cached before has its own reason for a mark. */
static void fm_unmark(struct address_space *mapping, u64 index)
{
	struct folio *folio = fm_get_folio(mapping, index);

	if (!folio)
		return;
	if (!folio_test_uptodate(folio) && !folio_test_writeback(folio))
		folio_clear_readahead(folio);
	folio_put(folio);
}

/* The policy is to be asked at the mark of the window only, wherever its pieces begin. */
static bool fm_steer_ahead(const struct fm_call *call, const struct fr_window *window,
			   u32 lookahead)
{
	u64 end = fm_window_end(window), mark = end - lookahead;
	struct fm_piece piece;
	u32 done;

	if (window->start < FM_LAST_MARK || fm_mark_before(call, window->start) == 0)
		return false;
	if (call->made.reason == FR_REASON_AROUND)
		return false;
	for (done = 0; done < window->read_pages; done += piece.pages) {
		piece = fm_next_piece(call, window, done, fm_steer_pages(call));
		fm_steer_piece(call, &piece);
		if (piece.start != mark)
			fm_unmark(call->ractl->mapping, piece.start);
	}
	if (mark >= window->start && mark < end)
		fm_mark(call->ractl->mapping, mark);
	return true;
}

static bool fm_steer_sync(const struct fm_call *call, const struct fr_window *window, u32 lookahead)
{
	struct file_ra_state ra = *call->ractl->ra;
	struct readahead_control ractl = *call->ractl;
	u32 req = window->size - lookahead;

	if (lookahead == 0 || lookahead >= window->size || req <= window->size / 4)
		return false;
	if (ractl.file && (ractl.file->f_mode & FMODE_RANDOM))
		return false;
	ra.start = 0;
	ra.size = 0;
	ra.async_size = 0;
	ra.ra_pages = window->size;
	ra.prev_pos = (loff_t)window->start << PAGE_SHIFT;
	ractl.ra = &ra;
	ractl._index = window->start;
	fm_fetch_reserve(call->fetch, window->size);
	page_cache_sync_ra(&ractl, req);
	return true;
}

/**
 * fm_steer() - has the kernel read a window
 * @call: the decision that it is of
 * @window: to read
 * @lookahead: pages of its tail behind the mark; 0 for no mark
 *
 * Return: false where its rules can't come to this window; then nothing was read.
 */
bool fm_steer(const struct fm_call *call, const struct fr_window *window, u32 lookahead)
{
	/* The kernel cuts windows at the end of the file, and nowhere else. */
	bool is_whole = window->read_pages == window->size ||
			fm_window_end(window) >= call->limits.file_pages;

	if (!call->folio && is_whole && window->size <= fm_steer_pages(call) &&
	    fm_steer_sync(call, window, lookahead))
		return true;
	return fm_steer_ahead(call, window, lookahead);
}

/**
 * fm_steer_own() - has the kernel decide and read, and compares
 * @call: the decision of the policy of this kernel on the same call
 */
void fm_steer_own(const struct fm_call *call)
{
	const struct file_ra_state *ra = call->ractl->ra;
	const struct fr_state *after = &call->after;
	bool is_same;

	fm_fetch_reserve(call->fetch, max_t(u64, call->req_count, after->size));
	if (call->folio)
		page_cache_async_ra(call->ractl, call->folio, call->req_count);
	else
		page_cache_sync_ra(call->ractl, call->req_count);
	is_same = ra->start == after->start && ra->size == after->size &&
		  ra->async_size == after->async_size && fm_ra_order(ra) == after->order;
	fm_count(call->device, is_same ? FM_COUNT_AGREED : FM_COUNT_DIFFERED, 1);
	fm_count(call->device, FM_COUNT_STEERED, call->made.windows);
}

/* Makes the folio that page_cache_async_ra() gets at misses. Return: 0, or a negative error. */
int fm_steer_init(void)
{
	fm_own_folio = folio_alloc(GFP_KERNEL, 0);
	return fm_own_folio ? 0 : -ENOMEM;
}

void fm_steer_exit(void)
{
	folio_put(fm_own_folio);
}
