// SPDX-License-Identifier: GPL-2.0-only
/*
 * Listens where the kernel tells what becomes of pages, and passes it on to pages.c.
 *
 * Input, none of which lies on the path of a read that finds its page in the cache:
 *
 *	mm_filemap_add_to_page_cache		a folio was added
 *	mm_filemap_delete_from_page_cache	a folio is about to be removed
 *	folio_referenced()		reclaim is about to take PG_referenced from a folio
 *	deactivate_file_folio()		so is a folio that could not be dropped from the cache
 *	folio_inc_gen()			so is the multi-generation LRU, where it moves a folio on
 *	isolate_folios()		and up to 6.13 where it isolates some
 *
 * The first two are tracepoints. ftrace stops at the others; nothing is replaced. Waits are in
 * waits.c.
 *
 * folio_inc_gen() is static, and compilers give it other arguments than the source has. So its
 * folio is the argument that is the address of a struct page: nothing else is.
 *
 * Where the last two can't be listened to, pages that seem to be unused count as unknown.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/ftrace.h>
#include <linux/mm.h>
#include <linux/pagemap.h>

#include "compat.h"
#include "page_events.h"
#include "pages.h"
#include "symbol.h"
#include "tracepoints.h"

static void fm_on_added(void *data, struct folio *folio)
{
	fm_pages_added(folio);
}

static void fm_on_left(void *data, struct folio *folio)
{
	fm_pages_left(folio);
}

static struct fm_tracepoint fm_page_tracepoints[] = {
	{ .name = "mm_filemap_add_to_page_cache", .probe = fm_on_added },
	{ .name = "mm_filemap_delete_from_page_cache", .probe = fm_on_left },
};

/* The folio at the address of a struct page, or NULL for any other address. */
struct folio *fm_folio_at(unsigned long address)
{
	unsigned long pfn;

	if (address < (unsigned long)pfn_to_page(0) || !IS_ALIGNED(address, sizeof(struct page)))
		return NULL;
	pfn = page_to_pfn((struct page *)address);
	return pfn_valid(pfn) ? (struct folio *)address : NULL;
}

/* folio_referenced(folio, is_locked, ...): @is_locked where reclaim is about to evict. */
static void fm_on_referenced(struct ftrace_regs *fregs)
{
	struct folio *folio = fm_folio_at(fm_argument(fregs, 0));

	if (folio)
		fm_pages_seen(folio,
			      (int)fm_argument(fregs, 1) ? FM_ACTIVE_IS_NOTHING : FM_ACTIVE_IS_USE);
}

/* deactivate_file_folio(folio) */
static void fm_on_deactivate(struct ftrace_regs *fregs)
{
	struct folio *folio = fm_folio_at(fm_argument(fregs, 0));

	if (folio)
		fm_pages_seen(folio, FM_ACTIVE_IS_USE);
}

/* folio_inc_gen(lruvec, folio, reclaiming) */
static void fm_on_generation(struct ftrace_regs *fregs)
{
	struct folio *folio = fm_folio_at(fm_argument(fregs, 0));

	if (!folio)
		folio = fm_folio_at(fm_argument(fregs, 1));
	if (folio)
		fm_pages_seen(folio, FM_ACTIVE_IS_NOTHING);
	else
		fm_pages_lose_use();
}

#if FM_ISOLATION_FORGETS
/* Whether isolation may pass by a folio, and look at one more than it was asked for. */
static bool fm_may_be_passed(const struct folio *folio)
{
	const unsigned long passed = BIT(PG_locked) | BIT(PG_dirty) | BIT(PG_writeback) |
				     BIT(PG_workingset) | BIT(PG_unevictable);

	return *folio_flags((struct folio *)folio, 0) & passed;
}

/*
 * isolate_folios(lruvec, ...), under the lock of @lruvec. It takes BITS_PER_LONG pages, and passes
 * by what it moves on: at most 64 times as many. Twice as many as it takes are looked at.
 */
static void fm_on_isolate(struct ftrace_regs *fregs)
{
	struct lruvec *lruvec = (struct lruvec *)fm_argument(fregs, 0);
	int zone;

	if (fm_pages_count() == 0)
		return;
	for (zone = 0; zone < MAX_NR_ZONES; zone++) {
		const struct list_head *list = fm_oldest_list(lruvec, zone);
		unsigned int taken = 0, left = 64 * BITS_PER_LONG;
		struct folio *folio;

		list_for_each_entry_reverse(folio, list, lru) {
			fm_pages_seen(folio, FM_ACTIVE_IS_NOTHING);
			if (!fm_may_be_passed(folio))
				taken++;
			if (taken == 2 * BITS_PER_LONG || --left == 0)
				break;
		}
	}
}
#endif

/* A compiler that changes the arguments of a static function appends one of these to its name. */
static const char *const fm_suffixes[] = { "", ".constprop.0", ".isra.0" };

/**
 * struct fm_listener - a function that ftrace stops at
 * @name: its name
 * @tell: what is called there
 * @is_of_generations: kernels without a multi-generation LRU don't have it
 * @address: of the function; 0 where it isn't listened to
 */
struct fm_listener {
	const char *name;
	void (*tell)(struct ftrace_regs *fregs);
	bool is_of_generations;
	unsigned long address;
};

static struct fm_listener fm_listeners[] = {
	{ .name = "folio_referenced", .tell = fm_on_referenced },
	{ .name = "deactivate_file_folio", .tell = fm_on_deactivate },
	{ .name = "folio_inc_gen", .tell = fm_on_generation, .is_of_generations = true },
#if FM_ISOLATION_FORGETS
	{ .name = "isolate_folios", .tell = fm_on_isolate, .is_of_generations = true },
#endif
};

static void fm_on_listened(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *ops,
			   struct ftrace_regs *fregs)
{
	const struct fm_listener *listener;

	for (listener = fm_listeners; listener < fm_listeners + ARRAY_SIZE(fm_listeners);
	     listener++)
		if (fm_symbol_has(listener->address, ip)) {
			listener->tell(fregs);
			return;
		}
}

/*
 * One for all functions: ftrace waits after each that it removes, until every thread has left its
 * trampoline.
 */
static struct ftrace_ops fm_listener_ops = {
	.func = fm_on_listened,
	.flags = FTRACE_OPS_FL_RECURSION,
};

static int fm_listener_find(struct fm_listener *listener)
{
	unsigned long address;
	char name[40];
	int error = -ENOENT, i;

	for (i = 0; error && i < ARRAY_SIZE(fm_suffixes); i++) {
		snprintf(name, sizeof(name), "%s%s", listener->name, fm_suffixes[i]);
		error = fm_symbol_find(name, &address);
	}
	if (!error)
		error = ftrace_set_filter_ip(&fm_listener_ops, address, 0, 0);
	listener->address = error ? 0 : address;
	if (error && listener->is_of_generations) {
		if (IS_ENABLED(CONFIG_LRU_GEN))
			fm_pages_lose_use();
		return 0;
	}
	if (error)
		pr_err("ftrace can't stop at %s (%d): what becomes of pages can't be known\n",
		       listener->name, error);
	return error;
}

static int fm_listeners_add(void)
{
	int error = 0, i;

	for (i = 0; !error && i < ARRAY_SIZE(fm_listeners); i++)
		error = fm_listener_find(&fm_listeners[i]);
	if (!error) {
		error = register_ftrace_function(&fm_listener_ops);
		if (error)
			pr_err("ftrace refuses to listen (%d): what becomes of pages can't be known\n",
			       error);
	}
	if (error)
		ftrace_free_filter(&fm_listener_ops);
	return error;
}

/**
 * fm_page_events_add() - begins to listen
 *
 * Return: 0, or a negative error after a line in the log.
 */
int fm_page_events_add(void)
{
	int error = fm_tracepoints_add(fm_page_tracepoints, ARRAY_SIZE(fm_page_tracepoints),
				       "what becomes of pages can't be known");

	if (error)
		return error;
	error = fm_listeners_add();
	if (error)
		fm_tracepoints_remove(fm_page_tracepoints, ARRAY_SIZE(fm_page_tracepoints));
	return error;
}

/* Ends it. No thread is in a handler behind that. Sleeps. */
void fm_page_events_remove(void)
{
	unregister_ftrace_function(&fm_listener_ops);
	ftrace_free_filter(&fm_listener_ops);
	fm_tracepoints_remove(fm_page_tracepoints, ARRAY_SIZE(fm_page_tracepoints));
}
