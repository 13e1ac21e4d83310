// SPDX-License-Identifier: GPL-2.0-only
/*
 * Answers what a policy wants to know of the page cache around an access.
 *
 * Input: a mapping, an index, and the core's questions. Output: the counts. Pages are counted as
 * the kernel's own readahead counts them, by page_cache_prev_miss() and page_cache_next_miss(),
 * with their departures inside large folios (docs/kernel-findings.md). So the policy of this kernel
 * decides on what the kernel would have decided on.
 */
#include <linux/pagemap.h>
#include <linux/rcupdate.h>
#include <linux/xarray.h>

#include <foreread/policy.h>

#include "compat.h"
#include "near.h"

static u64 fm_cached_before(struct address_space *mapping, u64 index, u64 most)
{
	u64 count = most;
	pgoff_t miss;

	if (most == 0 || index == 0)
		return 0;
	/*
	 * All of a file up to the index: the kernel goes on to look beyond its first page. With as
	 * many steps as pages, kernels up to 6.18 would count one less.
	 */
	if (most == index)
		most++;
	rcu_read_lock();
	miss = page_cache_prev_miss(mapping, index - 1, most);
	rcu_read_unlock();
	return min_t(u64, index - 1 - miss, count);
}

/* Where all are cached, 6.1 counts one less: docs/kernel-findings.md, 8. */
static u64 fm_cached_after(struct address_space *mapping, u64 from, u64 most)
{
	pgoff_t miss;

	if (most == 0)
		return 0;
	rcu_read_lock();
	miss = page_cache_next_miss(mapping, from, most);
	rcu_read_unlock();
	/* It wraps behind the largest index: then all are. */
	return miss < from ? most : min_t(u64, miss - from, most);
}

/**
 * fm_near_cached_from() - counts cached pages, however the kernel counts
 * @mapping: to look at
 * @from: the first one
 * @most: to count
 *
 * One more is looked at than is counted. With as many, 6.1 took the last page of a read that was
 * cached for a miss. `foreread` then decided at each mark, and made 1.3 times as many requests.
 *
 * Return: cached pages from @from on without a gap, at most @most.
 */
u64 fm_near_cached_from(struct address_space *mapping, u64 from, u64 most)
{
	return most ? min(fm_cached_after(mapping, from, most + 1), most) : 0;
}

/**
 * fm_near_cached_to() - counts cached pages, however the kernel counts
 * @mapping: to look at
 * @end: page behind the last one
 * @most: to count, at most @end
 *
 * Return: cached pages up to @end without a gap, at most @most.
 */
u64 fm_near_cached_to(struct address_space *mapping, u64 end, u64 most)
{
	return most ? min(fm_cached_before(mapping, end, most + 1), most) : 0;
}

/* The entry of an index is a folio, not what an evicted one left. */
static bool fm_is_cached(struct address_space *mapping, u64 index)
{
	void *entry = xa_load(&mapping->i_pages, index);

	return entry && !xa_is_value(entry);
}

/* Whether a page is cached, read or not. */
bool fm_near_is_cached(struct address_space *mapping, u64 index)
{
	bool is_cached;

	rcu_read_lock();
	is_cached = fm_is_cached(mapping, index);
	rcu_read_unlock();
	return is_cached;
}

static u64 fm_gap_before(struct address_space *mapping, u64 index, u64 most)
{
	u64 count = 0;

	rcu_read_lock();
	while (count < most && count < index && !fm_is_cached(mapping, index - 1 - count))
		count++;
	rcu_read_unlock();
	return count;
}

static u64 fm_cached_in(struct address_space *mapping, u64 from, u64 pages)
{
	u64 count = 0, at;

	rcu_read_lock();
	for (at = 0; at < pages; at++)
		count += fm_is_cached(mapping, from + at);
	rcu_read_unlock();
	return count;
}

/*
 * Whether a page of a folio was read. The first read of a page marks it as referenced, and the next
 * ones make it active.
 */
static bool fm_folio_was_read(struct folio *folio)
{
	return folio_test_referenced(folio) || folio_test_active(folio);
}

/* Whether a page is cached and was read. */
static bool fm_was_read(struct address_space *mapping, u64 index)
{
	struct folio *folio = fm_get_folio(mapping, index);
	bool was_read;

	if (!folio)
		return false;
	was_read = fm_folio_was_read(folio);
	folio_put(folio);
	return was_read;
}

/**
 * fm_near_fill() - answers the questions of a policy
 * @mapping: to look at
 * @index: of the access
 * @wants: the questions
 * @near: filled
 */
void fm_near_fill(struct address_space *mapping, u64 index, const struct fr_wants *wants,
		  struct fr_near *near)
{
	struct fr_probe probe;
	fr_u64 page;

	memset(near, 0, sizeof(*near));
	near->before_pages = fm_cached_before(mapping, index, wants->before_max);
	near->gap_pages = fm_gap_before(mapping, index, wants->gap_max);
	near->after_pages = fm_cached_after(mapping, wants->after_from, wants->after_max);
	near->around_pages = fm_cached_in(mapping, wants->around_from, wants->around_max);
	fr_probe_begin(&probe, wants, near, index);
	while (fr_probe_next(&probe, &page))
		fr_probe_answer(&probe, fm_was_read(mapping, page));
	fr_probe_end(&probe, near);
}

/**
 * fm_near_left_out() - the longest run of pages that a reader has left out
 * @mapping: to look at
 * @end: page behind the last one that is looked at
 * @most: pages to look at
 *
 * Return: pages in a row that are cached and were not read, the longest such run.
 */
u64 fm_near_left_out(struct address_space *mapping, u64 end, u64 most)
{
	u64 longest = 0, run = 0, page = fr_sub(end, most);
	struct folio *folio;

	for (; page < end; page++) {
		folio = fm_get_folio(mapping, page);
		if (!folio || fm_folio_was_read(folio))
			run = 0;
		else
			run++;
		if (folio)
			folio_put(folio);
		longest = max(longest, run);
	}
	return longest;
}

/**
 * fm_near_was_evicted() - whether a page was cached, and reclaim took it
 * @mapping: of the page
 * @index: of a page that is not cached
 */
bool fm_near_was_evicted(struct address_space *mapping, u64 index)
{
	bool was_evicted;

	rcu_read_lock();
	was_evicted = xa_is_value(xa_load(&mapping->i_pages, index));
	rcu_read_unlock();
	return was_evicted;
}
