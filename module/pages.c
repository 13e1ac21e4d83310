// SPDX-License-Identifier: GPL-2.0-only
/*
 * The pages that policies had read, until it is known what became of them.
 *
 * Input: folios as they are added to the page cache, waited for, looked at by reclaim, and removed
 * (page_events.c). Output: counters of the device whose policy had them read. Each page is counted
 * once as fetched, and once as used on time, used late, wasted or unknown; until then it is held
 * here. So
 *
 *	fetched = used on time + used late + wasted + unknown + held
 *
 * The held ones are not computed from the counters, but counted where they are held.
 *
 * A read of a cached page tells nobody. But the kernel notes it in the folio's flags: the first one
 * sets PG_referenced. So a folio is asked whether it was read at the last moment before the kernel
 * forgets: when it is removed, and before reclaim clears its flags. The use of a folio is known,
 * not that of its pages: all pages of a large folio count as used when one was.
 *
 * An entry is 64 pages of a mapping, by index: a folio may migrate and be split, its index stays.
 * Nothing is allocated, and nothing freed, where the kernel holds locks of the page cache: a reader
 * brings spare entries along, and empty ones are freed by sweeps. The locks are raw ones, since
 * these places can't sleep on a kernel for real time either. They are taken inside i_pages, with
 * interrupts off.
 *
 * While a page is held here it is in the page cache, so its mapping exists: whoever removes it has
 * to take the lock of its bucket first, in fm_pages_left(). That is why a sweep may look into the
 * mapping under that lock.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/bitops.h>
#include <linux/hash.h>
#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/moduleparam.h>
#include <linux/pagemap.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/xarray.h>

#include "compat.h"
#include "decide.h"
#include "device.h"
#include "pages.h"

#define FM_PAGE_BUCKETS_LOG2 12
#define FM_PAGE_BUCKETS (1U << FM_PAGE_BUCKETS_LOG2)
#define FM_FETCH_BUCKETS_LOG2 6
#define FM_FETCH_BUCKETS (1U << FM_FETCH_BUCKETS_LOG2)
/* Pages of an entry: bits of a word. */
#define FM_ENTRY_PAGES_LOG2 6
#define FM_ENTRY_PAGES (1U << FM_ENTRY_PAGES_LOG2)
/* Most spare entries of one read: no call of the kernel reads 256 MiB. */
#define FM_SPARES_MAX 1024U
/*
 * The shrinker spares pages that were fetched in the last minutes: when memory runs short, it is
 * about to be known what becomes of them.
 */
#define FM_PAGES_FRESH (600 * HZ)

static unsigned int held_max = 65536;
module_param(held_max, uint, 0444);
MODULE_PARM_DESC(held_max, "most entries for pages whose use is not known yet, of 64 pages each");

/**
 * struct fm_entry - pages of a mapping, a bit for each
 * @node: in its bucket, or among the spares of a reader
 * @mapping: of the pages
 * @device: whose policy had them read; with a reference
 * @number: index of the first page / 64
 * @held: pages whose use was not seen
 * @waited: of these, those that a reader waited for or missed
 * @ahead: of these, those that no reader had asked for
 * @born_active: of these, those that were added with PG_active, since they had been evicted lately
 * @added: when the last one was, in jiffies
 * @epoch: of the device's policy
 */
struct fm_entry {
	struct hlist_node node;
	const struct address_space *mapping;
	struct fm_device *device;
	u64 number;
	u64 held;
	u64 waited;
	u64 ahead;
	u64 born_active;
	unsigned long added;
	u32 epoch;
};

struct fm_page_bucket {
	raw_spinlock_t lock;
	struct hlist_head entries;
};

static struct fm_page_bucket fm_page_buckets[FM_PAGE_BUCKETS];
static struct fm_page_bucket fm_fetch_buckets[FM_FETCH_BUCKETS];
static struct kmem_cache *fm_entry_cache;
static atomic_long_t fm_entry_count = ATOMIC_LONG_INIT(0);
static atomic_t fm_fetches = ATOMIC_INIT(0);
/* Whether the multi-generation LRU is in use: as folios show that are on a list. */
static bool fm_has_generations;
/* Whether it forgets the use of folios where nothing can listen. */
static bool fm_loses_use;
static struct fm_shrinker fm_page_shrinker;

static struct fm_page_bucket *fm_page_bucket(const struct address_space *mapping, u64 number)
{
	u64 key = (u64)(uintptr_t)mapping + number * GOLDEN_RATIO_64;

	return &fm_page_buckets[hash_64(key, FM_PAGE_BUCKETS_LOG2)];
}

static struct fm_page_bucket *fm_fetch_bucket(const struct task_struct *task)
{
	return &fm_fetch_buckets[hash_ptr(task, FM_FETCH_BUCKETS_LOG2)];
}

/* A part of a folio that lies in one entry. */
struct fm_span {
	const struct address_space *mapping;
	u64 number;
	u64 mask;
};

/* The two LRUs use PG_active differently. Which one there is can be changed at any time. */
static void fm_note_generations(const struct folio *folio)
{
	bool has_generations;

	if (!folio_test_lru((struct folio *)folio) || folio_test_unevictable((struct folio *)folio))
		return;
	has_generations = fm_generation(folio) >= 0;
	if (READ_ONCE(fm_has_generations) != has_generations)
		WRITE_ONCE(fm_has_generations, has_generations);
}

/* The bits of [@start, @end) in entry @number. */
static u64 fm_mask(u64 number, u64 start, u64 end)
{
	u64 first = number << FM_ENTRY_PAGES_LOG2;
	u64 from = start > first ? start - first : 0;
	u64 to = end > first ? min_t(u64, end - first, FM_ENTRY_PAGES) : 0;

	return from < to ? GENMASK_ULL(to - 1, from) : 0;
}

#define fm_for_each_number(_number, _start, _end)       \
	for (_number = (_start) >> FM_ENTRY_PAGES_LOG2; \
	     _number <= ((_end)-1) >> FM_ENTRY_PAGES_LOG2; _number++)

/* The mapping of a folio of a file, or NULL. */
static const struct address_space *fm_mapping_of(const struct folio *folio)
{
	struct address_space *mapping = READ_ONCE(folio->mapping);

	return fm_is_other_mapping(mapping) ? NULL : mapping;
}

static void fm_drop_bits(struct fm_entry *entry, u64 bits)
{
	entry->held &= ~bits;
	entry->waited &= ~bits;
	entry->ahead &= ~bits;
	entry->born_active &= ~bits;
}

static bool fm_is_judged(const struct fm_entry *entry)
{
	return entry->epoch == READ_ONCE(entry->device->epoch);
}

/* The pages @bits were read. */
static void fm_settle_used(struct fm_entry *entry, u64 bits)
{
	struct fm_device *device = entry->device;
	u64 late = bits & entry->waited, ahead = bits & entry->ahead;

	fm_count(device, FM_COUNT_USED_LATE, hweight64(late));
	fm_count(device, FM_COUNT_USED_ON_TIME, hweight64(bits & ~late));
	if (fm_is_judged(entry)) {
		fm_count(device, FM_COUNT_JUDGED_USED, hweight64(bits));
		fm_count(device, FM_COUNT_JUDGED_AHEAD, hweight64(ahead));
		fm_count(device, FM_COUNT_JUDGED_AHEAD_LATE, hweight64(ahead & late));
	}
	fm_drop_bits(entry, bits);
}

/* The pages @bits left memory, and nobody had read them. */
static void fm_settle_wasted(struct fm_entry *entry, u64 bits)
{
	fm_count(entry->device, FM_COUNT_WASTED, hweight64(bits));
	if (fm_is_judged(entry))
		fm_count(entry->device, FM_COUNT_JUDGED_WASTED, hweight64(bits));
	fm_drop_bits(entry, bits);
}

/* Of the pages @bits nobody will know. */
static void fm_settle_unknown(struct fm_entry *entry, u64 bits)
{
	fm_count(entry->device, FM_COUNT_UNKNOWN, hweight64(bits));
	fm_drop_bits(entry, bits);
}

/*
 * The pages among @bits that are in use, or were, by the flags of their folio. Mapped pages count
 * as used: a fault maps them.
 */
static u64 fm_used_bits(const struct fm_entry *entry, u64 bits, const struct folio *folio,
			enum fm_active active)
{
	if (folio_test_referenced((struct folio *)folio) || folio_mapped((struct folio *)folio))
		return bits;
	if (active == FM_ACTIVE_IS_USE && !READ_ONCE(fm_has_generations) &&
	    folio_test_active((struct folio *)folio))
		return bits & ~entry->born_active;
	return 0;
}

/* Calls @act with each entry that has pages of @span, and with those pages. */
static __always_inline void fm_with_entries(const struct fm_span *span, const struct folio *folio,
					    enum fm_active active,
					    void (*act)(struct fm_entry *entry, u64 bits,
							const struct folio *folio,
							enum fm_active active))
{
	struct fm_page_bucket *bucket = fm_page_bucket(span->mapping, span->number);
	struct fm_entry *entry;
	unsigned long flags;

	/*
	 * The entry of a page is there before the folio is unlocked for the first time, and nobody
	 * comes here before that.
	 */
	if (hlist_empty(&bucket->entries))
		return;
	raw_spin_lock_irqsave(&bucket->lock, flags);
	hlist_for_each_entry(entry, &bucket->entries, node)
		if (entry->mapping == span->mapping && entry->number == span->number &&
		    (entry->held & span->mask))
			act(entry, entry->held & span->mask, folio, active);
	raw_spin_unlock_irqrestore(&bucket->lock, flags);
}

static __always_inline void fm_with_folio(const struct folio *folio, enum fm_active active,
					  void (*act)(struct fm_entry *entry, u64 bits,
						      const struct folio *folio,
						      enum fm_active active))
{
	u64 start = folio->index, end = start + folio_nr_pages((struct folio *)folio);
	struct fm_span span = { .mapping = fm_mapping_of(folio) };

	if (!span.mapping || atomic_long_read(&fm_entry_count) == 0)
		return;
	fm_for_each_number(span.number, start, end) {
		span.mask = fm_mask(span.number, start, end);
		fm_with_entries(&span, folio, active, act);
	}
}

static void fm_act_seen(struct fm_entry *entry, u64 bits, const struct folio *folio,
			enum fm_active active)
{
	bits = fm_used_bits(entry, bits, folio, active);
	if (bits)
		fm_settle_used(entry, bits);
}

/**
 * fm_pages_seen() - a folio whose flags may be cleared next
 * @folio: with a reference
 * @active: what PG_active is worth
 */
void fm_pages_seen(struct folio *folio, enum fm_active active)
{
	fm_with_folio(folio, active, fm_act_seen);
}

static void fm_act_left(struct fm_entry *entry, u64 bits, const struct folio *folio,
			enum fm_active active)
{
	u64 used = fm_used_bits(entry, bits, folio, active);

	if (used)
		fm_settle_used(entry, used);
	bits &= ~used;
	if (bits && READ_ONCE(fm_loses_use) && READ_ONCE(fm_has_generations))
		fm_settle_unknown(entry, bits);
	else if (bits)
		fm_settle_wasted(entry, bits);
}

/*
 * The multi-generation LRU clears flags in a place that can't be listened to: a folio without them
 * may have been used.
 */
void fm_pages_lose_use(void)
{
	if (READ_ONCE(fm_loses_use))
		return;
	WRITE_ONCE(fm_loses_use, true);
	pr_warn("this kernel's multi-generation LRU can't be listened to: pages that it evicts count as unknown\n");
}

/**
 * fm_pages_left() - a folio is about to be removed from the page cache
 * @folio: locked, under i_pages
 */
void fm_pages_left(struct folio *folio)
{
	if (atomic_long_read(&fm_entry_count) != 0)
		fm_note_generations(folio);
	fm_with_folio(folio, FM_ACTIVE_IS_USE, fm_act_left);
}

static void fm_act_waited(struct fm_entry *entry, u64 bits, const struct folio *folio,
			  enum fm_active active)
{
	/* One reader waits for one access: which pages of a large folio it wants is not known. */
	if (bits & entry->waited)
		return;
	entry->waited |= bits & -bits;
	fm_count(entry->device, FM_COUNT_WAITS, 1);
}

/* Whether pages of a folio were fetched before a reader asked for them. */
static bool fm_is_ahead(const struct folio *folio)
{
	u64 start = folio->index, end = start + folio_nr_pages((struct folio *)folio);
	struct fm_span span = { .mapping = fm_mapping_of(folio),
				.number = start >> FM_ENTRY_PAGES_LOG2 };
	struct fm_page_bucket *bucket = fm_page_bucket(span.mapping, span.number);
	struct fm_entry *entry;
	bool is_ahead = false;
	unsigned long flags;

	span.mask = fm_mask(span.number, start, end);
	raw_spin_lock_irqsave(&bucket->lock, flags);
	hlist_for_each_entry(entry, &bucket->entries, node)
		if (entry->mapping == span.mapping && entry->number == span.number &&
		    (entry->held & entry->ahead & span.mask))
			is_ahead = true;
	raw_spin_unlock_irqrestore(&bucket->lock, flags);
	return is_ahead;
}

/**
 * fm_pages_waited() - a thread is about to wait for a folio that is being read
 * @folio: with a reference
 *
 * Return: whether it was fetched before a reader asked for it.
 */
bool fm_pages_waited(const struct folio *folio)
{
	if (atomic_long_read(&fm_entry_count) == 0)
		return false;
	fm_with_folio(folio, FM_ACTIVE_IS_NOTHING, fm_act_waited);
	return fm_is_ahead(folio);
}

static struct fm_fetch *fm_fetch_of_current(const struct fm_page_bucket *bucket)
{
	struct fm_fetch *fetch;

	hlist_for_each_entry(fetch, &bucket->entries, node)
		if (fetch->task == current)
			return fetch;
	return NULL;
}

/* The entry for new pages, made of a spare one where there is none. Under the bucket's lock. */
static struct fm_entry *fm_entry_for(struct fm_page_bucket *bucket, struct fm_fetch *fetch,
				     u64 number)
{
	struct fm_entry *entry;

	hlist_for_each_entry(entry, &bucket->entries, node)
		if (entry->mapping == fetch->mapping && entry->number == number &&
		    entry->device == fetch->device && entry->epoch == fetch->epoch)
			return entry;
	if (hlist_empty(&fetch->spares))
		return NULL;
	entry = hlist_entry(fetch->spares.first, struct fm_entry, node);
	hlist_del(&entry->node);
	entry->mapping = fetch->mapping;
	entry->number = number;
	entry->device = fetch->device;
	entry->epoch = fetch->epoch;
	kobject_get(&fetch->device->kobject);
	hlist_add_head(&entry->node, &bucket->entries);
	atomic_long_inc(&fm_entry_count);
	return entry;
}

/* Pages that are added although they are held were removed unseen. */
static void fm_forget_stale(struct fm_page_bucket *bucket, const struct fm_span *span)
{
	struct fm_entry *entry;

	hlist_for_each_entry(entry, &bucket->entries, node)
		if (entry->mapping == span->mapping && entry->number == span->number &&
		    (entry->held & span->mask))
			fm_settle_unknown(entry, entry->held & span->mask);
}

static void fm_hold(struct fm_fetch *fetch, const struct fm_span *span)
{
	struct fm_page_bucket *bucket = fm_page_bucket(span->mapping, span->number);
	struct fm_entry *entry;

	raw_spin_lock(&bucket->lock);
	fm_forget_stale(bucket, span);
	fm_count(fetch->device, FM_COUNT_FETCHED, hweight64(span->mask));
	entry = fm_entry_for(bucket, fetch, span->number);
	if (entry) {
		entry->held |= span->mask;
		entry->ahead |= span->mask &
				~fm_mask(span->number, fetch->asked_start, fetch->asked_end);
		if (fetch->missed != FM_NO_PAGE)
			entry->waited |= span->mask &
					 fm_mask(span->number, fetch->missed, fetch->missed + 1);
		entry->added = jiffies;
	} else {
		fm_count(fetch->device, FM_COUNT_UNKNOWN, hweight64(span->mask));
	}
	raw_spin_unlock(&bucket->lock);
}

/**
 * fm_pages_added() - a folio has been added to the page cache, by this thread
 * @folio: locked
 */
void fm_pages_added(const struct folio *folio)
{
	u64 start = folio->index, end = start + folio_nr_pages((struct folio *)folio);
	struct fm_span span = { .mapping = fm_mapping_of(folio) };
	struct fm_page_bucket *bucket;
	struct fm_fetch *fetch;
	unsigned long flags;

	if (atomic_read(&fm_fetches) == 0)
		return;
	bucket = fm_fetch_bucket(current);
	raw_spin_lock_irqsave(&bucket->lock, flags);
	fetch = fm_fetch_of_current(bucket);
	raw_spin_unlock(&bucket->lock);
	/* Only this thread removes it. */
	if (fetch && fetch->mapping == span.mapping) {
		fm_for_each_number(span.number, start, end) {
			span.mask = fm_mask(span.number, start, end);
			fm_hold(fetch, &span);
		}
		fetch->added_start = min(fetch->added_start, start);
		fetch->added_end = max(fetch->added_end, end);
	}
	local_irq_restore(flags);
}

static void fm_entry_free(struct fm_entry *entry)
{
	kobject_put(&entry->device->kobject);
	kmem_cache_free(fm_entry_cache, entry);
}

static void fm_entries_free(struct hlist_head *entries)
{
	struct hlist_node *after;
	struct fm_entry *entry;

	hlist_for_each_entry_safe(entry, after, entries, node)
		fm_entry_free(entry);
}

/*
 * What the page cache has at an index: the folio may be gone the next moment, so only its flags
 * were read.
 */
static void fm_look_at(struct fm_entry *entry, unsigned int bit, struct fm_held *held)
{
	struct xarray *pages = (struct xarray *)&entry->mapping->i_pages;
	u64 index = (entry->number << FM_ENTRY_PAGES_LOG2) + bit;
	struct folio *folio = xa_load(pages, index);
	u64 used;

	/* Removed in a way that has no event. */
	if (!folio || xa_is_value(folio)) {
		fm_settle_unknown(entry, BIT_ULL(bit));
		return;
	}
	fm_note_generations(folio);
	used = fm_used_bits(entry, BIT_ULL(bit), folio, FM_ACTIVE_IS_USE);
	if (used && xa_load(pages, index) == folio)
		fm_settle_used(entry, used);
	else if (!folio_test_uptodate(folio) && folio_test_locked(folio))
		held->in_flight_pages++;
	else
		held->resident_pages++;
}

static void fm_look_at_entry(struct fm_entry *entry, struct fm_held *held)
{
	u64 bits;

	rcu_read_lock();
	for (bits = entry->held; bits; bits &= bits - 1)
		fm_look_at(entry, __ffs64(bits), held);
	rcu_read_unlock();
}

/* Whether an entry, which has been looked at, is to be freed. */
typedef bool (*fm_is_over_t)(struct fm_entry *entry);

static bool fm_is_empty(struct fm_entry *entry)
{
	return entry->held == 0;
}

static bool fm_is_old(struct fm_entry *entry)
{
	if (entry->held && time_before(jiffies, entry->added + FM_PAGES_FRESH))
		return false;
	if (entry->held)
		fm_settle_unknown(entry, entry->held);
	return true;
}

static bool fm_is_any(struct fm_entry *entry)
{
	if (entry->held)
		fm_settle_unknown(entry, entry->held);
	return true;
}

/* Looks at the pages of a bucket, and frees entries. Returns how many. */
static unsigned long fm_sweep_bucket(struct fm_page_bucket *bucket, const struct fm_device *device,
				     struct fm_held *held, fm_is_over_t is_over)
{
	struct hlist_head over = HLIST_HEAD_INIT;
	struct hlist_node *after;
	struct fm_entry *entry;
	unsigned long count = 0;
	unsigned long flags;

	if (hlist_empty(&bucket->entries))
		return 0;
	raw_spin_lock_irqsave(&bucket->lock, flags);
	hlist_for_each_entry_safe(entry, after, &bucket->entries, node) {
		if (device && entry->device != device)
			continue;
		fm_look_at_entry(entry, held);
		if (!is_over(entry))
			continue;
		hlist_del(&entry->node);
		hlist_add_head(&entry->node, &over);
		count++;
	}
	raw_spin_unlock_irqrestore(&bucket->lock, flags);
	atomic_long_sub(count, &fm_entry_count);
	fm_entries_free(&over);
	return count;
}

/**
 * fm_pages_sweep() - looks at all pages that a device's policy had read and that are held
 * @device: whose
 * @held: set to those whose use still was not seen
 *
 * Sleeps now and then.
 */
void fm_pages_sweep(const struct fm_device *device, struct fm_held *held)
{
	unsigned int i;

	memset(held, 0, sizeof(*held));
	for (i = 0; i < FM_PAGE_BUCKETS; i++) {
		fm_sweep_bucket(&fm_page_buckets[i], device, held, fm_is_empty);
		cond_resched();
	}
}

/* Pages of a device that has been taken back: they are held for nobody. */
void fm_pages_forget(const struct fm_device *device)
{
	struct fm_held held;
	unsigned int i;

	for (i = 0; i < FM_PAGE_BUCKETS; i++)
		fm_sweep_bucket(&fm_page_buckets[i], device, &held, fm_is_any);
}

unsigned long fm_pages_count(void)
{
	return atomic_long_read(&fm_entry_count);
}

static unsigned long fm_page_shrink_count(struct shrinker *shrinker, struct shrink_control *control)
{
	return fm_pages_count();
}

/* Frees entries without pages, and gives up old ones, from where it ended the last time. */
static unsigned long fm_pages_reap(unsigned long wanted)
{
	static atomic_t next = ATOMIC_INIT(0);
	unsigned long freed = 0;
	struct fm_held held;
	unsigned int i;

	for (i = 0; i < FM_PAGE_BUCKETS && freed < wanted; i++) {
		unsigned int at = (unsigned int)atomic_inc_return(&next) % FM_PAGE_BUCKETS;

		freed += fm_sweep_bucket(&fm_page_buckets[at], NULL, &held, fm_is_old);
	}
	return freed;
}

static unsigned long fm_page_shrink(struct shrinker *shrinker, struct shrink_control *control)
{
	unsigned long freed = fm_pages_reap(control->nr_to_scan);

	return freed != 0 ? freed : SHRINK_STOP;
}

/**
 * fm_fetch_begin() - pages that this thread adds from now on count as fetched by a decision
 * @fetch: on the thread's stack, until fm_fetch_end()
 * @call: the decision
 */
void fm_fetch_begin(struct fm_fetch *fetch, const struct fm_call *call)
{
	struct fm_page_bucket *bucket = fm_fetch_bucket(current);
	unsigned long flags;

	*fetch = (struct fm_fetch){
		.task = current,
		.mapping = call->ractl->mapping,
		.device = call->device,
		.asked_start = call->index,
		.asked_end = call->index + max(call->req_count, 1UL),
		.missed = call->folio ? FM_NO_PAGE : call->index,
		.added_start = U64_MAX,
		.epoch = READ_ONCE(call->device->epoch),
	};
	raw_spin_lock_irqsave(&bucket->lock, flags);
	hlist_add_head(&fetch->node, &bucket->entries);
	raw_spin_unlock_irqrestore(&bucket->lock, flags);
	atomic_inc(&fm_fetches);
}

/**
 * fm_fetch_reserve() - makes sure that pages can be held
 * @fetch: of this thread
 * @pages: that the kernel is about to be asked for at once
 *
 * Where there is no room, or no memory at once, pages count as unknown.
 */
void fm_fetch_reserve(struct fm_fetch *fetch, u64 pages)
{
	/* It may begin and end in the middle of an entry, and large folios go beyond its end. */
	u64 wanted = min_t(u64, (pages >> FM_ENTRY_PAGES_LOG2) + 3, FM_SPARES_MAX), have = 0;
	struct fm_entry *entry;

	if (fm_pages_count() + wanted > held_max)
		fm_pages_reap(wanted);
	hlist_for_each_entry(entry, &fetch->spares, node)
		have++;
	for (; have < wanted && fm_pages_count() + have < held_max; have++) {
		entry = kmem_cache_zalloc(fm_entry_cache, GFP_NOWAIT | __GFP_NOWARN);
		if (!entry)
			return;
		hlist_add_head(&entry->node, &fetch->spares);
	}
}

/* A page that was evicted lately has PG_active from the beginning: then that is no sign of use. */
static void fm_note_born_active(const struct fm_fetch *fetch)
{
	struct xarray *pages = &fetch->mapping->i_pages;
	u64 number, bits;

	fm_for_each_number(number, fetch->added_start, fetch->added_end) {
		struct fm_page_bucket *bucket = fm_page_bucket(fetch->mapping, number);
		u64 mask = fm_mask(number, fetch->added_start, fetch->added_end);
		struct fm_entry *entry;
		unsigned long flags;

		raw_spin_lock_irqsave(&bucket->lock, flags);
		rcu_read_lock();
		hlist_for_each_entry(entry, &bucket->entries, node) {
			if (entry->mapping != fetch->mapping || entry->number != number)
				continue;
			for (bits = entry->held & mask; bits; bits &= bits - 1) {
				unsigned int bit = __ffs64(bits);
				struct folio *folio =
					xa_load(pages, (number << FM_ENTRY_PAGES_LOG2) + bit);

				if (folio && !xa_is_value(folio) && folio_test_active(folio))
					entry->born_active |= BIT_ULL(bit);
			}
		}
		rcu_read_unlock();
		raw_spin_unlock_irqrestore(&bucket->lock, flags);
	}
}

/**
 * fm_fetch_end() - the windows of a decision have been read
 * @fetch: of this thread
 */
void fm_fetch_end(struct fm_fetch *fetch)
{
	struct fm_page_bucket *bucket = fm_fetch_bucket(current);
	struct hlist_node *after;
	struct fm_entry *entry;
	unsigned long flags;

	raw_spin_lock_irqsave(&bucket->lock, flags);
	hlist_del(&fetch->node);
	raw_spin_unlock_irqrestore(&bucket->lock, flags);
	atomic_dec(&fm_fetches);
	hlist_for_each_entry_safe(entry, after, &fetch->spares, node)
		kmem_cache_free(fm_entry_cache, entry);
	if (fetch->added_start < fetch->added_end && !READ_ONCE(fm_has_generations))
		fm_note_born_active(fetch);
}

int fm_pages_init(void)
{
	unsigned int i;
	int error;

	for (i = 0; i < FM_PAGE_BUCKETS; i++)
		raw_spin_lock_init(&fm_page_buckets[i].lock);
	for (i = 0; i < FM_FETCH_BUCKETS; i++)
		raw_spin_lock_init(&fm_fetch_buckets[i].lock);
	fm_has_generations = fm_began_with_generations();
	fm_entry_cache = kmem_cache_create("foreread_pages", sizeof(struct fm_entry), 0, 0, NULL);
	if (!fm_entry_cache)
		return -ENOMEM;
	error = fm_shrinker_add(&fm_page_shrinker, "foreread-pages", fm_page_shrink_count,
				fm_page_shrink);
	if (error)
		kmem_cache_destroy(fm_entry_cache);
	return error;
}

/* Behind the hooks, and while no event comes any more. Puts devices. */
void fm_pages_exit(void)
{
	fm_shrinker_remove(&fm_page_shrinker);
	fm_pages_forget(NULL);
	kmem_cache_destroy(fm_entry_cache);
}
