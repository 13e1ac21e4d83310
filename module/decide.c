// SPDX-License-Identifier: GPL-2.0-only
/*
 * From a call of the kernel's readahead to a decision of a policy, and on to its reads.
 *
 * Input: a miss (no folio) or a mark (its folio) of a read or a fault, with what the kernel knows
 * of it. Output: the windows of the policy are being read. Nothing here sleeps or allocates with
 * more than GFP_NOWAIT, but the reads themselves do what the kernel's would do.
 *
 * Where a policy keeps its state:
 *
 * - the policy of this kernel: in the file_ra_state itself, as the kernel does. So it may be set
 * and taken back at any moment. The kernel answers faults of mappings itself, and they share it;
 * - `adaptive-2005` and `none` have no state;
 * - others: in file_table.c. What the kernel keeps up to date itself (the end of the last read, the
 *   file's maximum window, advice) is taken from there each time;
 * - `leap` and `foreread` also: in stream_table.c.
 *
 * Policies that expect to be told of every access are told at misses and marks. There they are told
 * in arrears of the pages that the reader has passed since (passed.c): those between the end of its
 * last access and this one, if this one is within what was read ahead for it. Those before a read
 * join it. Others are told before, as an access of their own: those that fault-around has mapped,
 * those of reads that go down, and those before a read a little beyond what was read ahead.
 */
#include <linux/backing-dev.h>
#include <linux/math64.h>
#include <linux/pagemap.h>
#include <linux/sched.h>
#include <linux/timekeeping.h>

#include "ask.h"
#include "compat.h"
#include "decide.h"
#include "device.h"
#include "fault.h"
#include "file_table.h"
#include "issue.h"
#include "mark.h"
#include "memory.h"
#include "near.h"
#include "pages.h"
#include "passed.h"
#include "record.h"
#include "steer.h"
#include "stream_table.h"
#include "watchdog.h"

/* As foreread_core::policy::Limits::new() has them. */
#define FM_RATIO 50
#define FM_HIT_RATE 1
#define FM_WHOLE_PAGES_MAX (1U << 18)

/* A call on its way through this file. */
struct fm_work {
	struct fm_call call;
	struct fm_kept kept;
	u64 asked_end; /* page behind what was read ahead for the file */
	struct fm_streams *streams;
	bool is_own; /* the policy of this kernel */
	bool is_kept; /* has state in file_table.c */
	bool has_told; /* of passed pages, as an access of their own */
};

static void fm_fill_limits(struct fm_call *call)
{
	struct address_space *mapping = call->ractl->mapping;
	struct backing_dev_info *bdi = inode_to_bdi(mapping->host);
	struct fr_limits *limits = &call->limits;

	limits->file_pages = DIV_ROUND_UP_ULL((u64)i_size_read(mapping->host), PAGE_SIZE);
	limits->ra_pages = (u32)READ_ONCE(bdi->ra_pages);
	limits->io_pages = (u32)READ_ONCE(bdi->io_pages);
	limits->pages_max = READ_ONCE(call->device->pages_max);
	limits->whole_pages_max = FM_WHOLE_PAGES_MAX;
	limits->readahead_ratio = FM_RATIO;
	limits->readahead_hit_rate = FM_HIT_RATE;
	limits->folio_order_max = fm_folio_order_max(mapping);
	limits->quirks = (u8)fr_linux_quirks(call->policy);
	fm_memory_now(limits);
}

static void fm_fill_place(const struct fm_call *call, struct fr_access *access)
{
	const struct fm_fault *fault = call->fault;

	access->index = call->index;
	access->req_pages = call->req_count;
	if (!fault) {
		access->kind = call->folio ? FR_READ_MARK : FR_READ_MISS;
		return;
	}
	access->kind = call->folio ? FR_FAULT_MARK : FR_FAULT_MISS;
	access->vma_start = fault->vma_start;
	access->vma_end = fault->vma_end;
	access->flags = fault->flags;
}

static void fm_fill_access(struct fm_call *call)
{
	struct fr_access *access = &call->access;

	fm_fill_place(call, access);
	access->time_ns = ktime_get_mono_fast_ns();
	access->thread = (u32)current->pid;
	if (call->folio) {
		access->folio_order = (u8)folio_order(call->folio);
		if (folio_test_writeback(call->folio))
			access->flags |= FR_ACCESS_WRITEBACK;
	}
	if (!call->ractl->file)
		access->flags |= FR_ACCESS_NO_FILE;
}

/* What the kernel keeps of an open file, whatever the policy. */
static void fm_refresh(struct fr_state *state, const struct fm_call *call)
{
	const struct file_ra_state *ra = call->ractl->ra;
	const struct file *file = call->ractl->file;

	state->prev_end_bytes = (u64)READ_ONCE(ra->prev_pos);
	state->ra_pages = READ_ONCE(ra->ra_pages);
	state->mmap_miss = (u16)READ_ONCE(ra->mmap_miss);
	/* The kernel has counted this miss already. The policy will. */
	if (call->access.kind == FR_FAULT_MISS && state->mmap_miss > 0)
		state->mmap_miss--;
	state->flags &= 0xffU & ~FR_STATE_RANDOM;
	if (file && (file->f_mode & FMODE_RANDOM))
		state->flags |= FR_STATE_RANDOM;
}

static void fm_own_state(struct fr_state *state, const struct fm_call *call)
{
	const struct file_ra_state *ra = call->ractl->ra;

	fr_open(state, &call->limits);
	state->start = READ_ONCE(ra->start);
	state->size = READ_ONCE(ra->size);
	state->async_size = READ_ONCE(ra->async_size);
	state->order = fm_ra_order(ra);
	fm_refresh(state, call);
}

static void fm_store_own(const struct fm_call *call)
{
	struct file_ra_state *ra = call->ractl->ra;

	if (!(call->made.flags & FR_DECIDED_STATE))
		return;
	ra->start = call->after.start;
	ra->size = call->after.size;
	ra->async_size = call->after.async_size;
	fm_set_ra_order(ra, call->after.order);
}

static void fm_load(struct fm_work *work)
{
	const struct fm_call *call = &work->call;
	const struct readahead_control *ractl = call->ractl;

	if (!fm_file_load(ractl->ra, ractl->mapping, call->policy, &work->kept)) {
		fr_open(&work->kept.state, &call->limits);
		work->kept.told_end = 0;
		work->kept.asked_end = 0;
	}
	work->asked_end = work->kept.asked_end;
}

static void fm_store(struct fm_work *work)
{
	const struct readahead_control *ractl = work->call.ractl;

	work->kept.state = work->call.after;
	work->kept.told_end = work->call.access.index + work->call.access.req_pages;
	work->kept.asked_end = work->asked_end;
	if (!fm_file_store(ractl->ra, ractl->mapping, work->call.policy, &work->kept))
		fm_count(work->call.device, FM_COUNT_STATELESS, 1);
}

/* An access that continues what was told last, within what was read ahead. */
static bool fm_goes_on(const struct fm_work *work)
{
	u64 index = work->call.access.index;

	return work->kept.told_end != 0 && index >= work->kept.told_end &&
	       index <= work->kept.asked_end;
}

/*
 * Whether somebody can have read these pages. A miss before the end of what was read ahead shows
 * that pages left memory. A reader that was on its way there has only just read the page next to
 * it. Random faults behind a reader of a whole file, which was dropped since, were taken for its
 * stream: 22.6 MiB were read for 512 of them, and 6.0 without.
 */
static bool fm_may_be_read(const struct fm_call *call, const struct fm_passed *passed)
{
	return call->folio || passed->nearest == FM_NO_PAGE ||
	       fm_near_is_cached(call->ractl->mapping, passed->nearest);
}

/* The pages that the reader has passed, unseen, on its way to an access. */
static struct fm_passed fm_passed(const struct fm_work *work)
{
	const struct fr_access *access = &work->call.access;
	struct fm_passed passed = { .nearest = FM_NO_PAGE };

	if (work->streams && work->call.policy == FR_FOREREAD)
		passed = fm_passed_by_streams(work->streams, access);
	if (passed.pages == 0 && fm_goes_on(work)) {
		passed.start = work->kept.told_end;
		passed.pages = access->index - work->kept.told_end;
	}
	if (!fm_may_be_read(&work->call, &passed))
		passed.pages = 0;
	return passed;
}

/*
 * Pages of an access from its first one on that are cached. The first page of a miss is not, unless
 * it was read when the policy was told of passed pages.
 */
static u64 fm_hit_pages(const struct fm_work *work)
{
	const struct fm_call *call = &work->call;
	const struct fr_access *access = &call->access;
	u64 within = fr_sub(call->limits.file_pages, access->index);

	if (!call->folio && !work->has_told)
		return 0;
	return fm_near_cached_from(call->ractl->mapping, access->index,
				   min(access->req_pages, within));
}

/* Whether passed pages end where an access begins: a read that goes up has come from there. */
static bool fm_joins(const struct fm_passed *passed, const struct fr_access *access)
{
	return passed->start + passed->pages == access->index;
}

static bool fm_is_inside(const struct fr_access *access, u64 page)
{
	return page > access->index && page < fr_add(access->index, access->req_pages);
}

/*
 * The kernel tells of a mark by the first page of its folio, whichever page of it the reader has
 * come to. Pages of a large folio that were read before are left out: with them, a policy would
 * take the reader for one that goes back. The read begins behind the last read of the open file, or
 * behind a stream, if either ends inside. Otherwise it is not known where it begins.
 */
static void fm_leave_out_read(struct fm_work *work)
{
	struct fm_call *call = &work->call;
	struct fr_access *access = &call->access;
	u64 from;

	if (!call->folio || access->folio_order == 0)
		return;
	from = DIV_ROUND_UP_ULL((u64)READ_ONCE(call->ractl->ra->prev_pos), PAGE_SIZE);
	if (!fm_is_inside(access, from) && work->streams)
		from = fm_passed_end_within(work->streams, access);
	if (!fm_is_inside(access, from))
		return;
	access->req_pages -= from - access->index;
	access->index = from;
}

/*
 * An access as policies see it that are told of each. A read that comes to a mark may go on to
 * pages that are missing: then it has missed.
 */
static void fm_look(struct fm_work *work)
{
	struct fm_call *call = &work->call;
	struct fr_access *access = &call->access;
	struct fm_passed passed = { 0 };
	u64 hits;

	fm_leave_out_read(work);
	/*
	 * Telling may have read ahead of this access. The pages up to it are still unread then: the
	 * read has only just jumped over them.
	 */
	if (!work->has_told)
		passed = fm_passed(work);
	hits = fm_hit_pages(work);
	access->kind = FR_READ_LOOK;
	if (access->index + hits < min(access->index + access->req_pages, call->limits.file_pages))
		access->flags |= FR_ACCESS_MISSED;
	if (passed.pages != 0 && fm_joins(&passed, access)) {
		access->index -= passed.pages;
		access->req_pages += passed.pages;
		hits += passed.pages;
	}
	if (access->flags & FR_ACCESS_MISSED)
		access->hit_pages = hits;
}

/* Whether a page that was read ahead for this file has been evicted before it was read. */
static bool fm_has_thrashed(const struct fm_work *work)
{
	const struct fm_call *call = &work->call;

	return !call->folio && fm_goes_on(work) && call->access.index < work->kept.asked_end &&
	       fm_near_was_evicted(call->ractl->mapping, call->access.index);
}

/* What happened to pages that were read ahead, as far as it shows at this access. */
static u32 fm_events(const struct fm_call *call, bool has_thrashed)
{
	u32 events = has_thrashed ? FM_THRASHED : 0;

	/* The reader has come to the marked page, and waits until it has been read. */
	if (call->folio && !folio_test_uptodate(call->folio)) {
		fm_count(call->device, FM_COUNT_LATE_MARKS, 1);
		events |= FM_LATE;
	}
	return events;
}

/* Whether the policy expects to be told of every access. */
static bool fm_is_told_all(const struct fm_work *work)
{
	return work->is_kept &&
	       (fr_policy_sees(work->call.policy) || fr_policy_looks(work->call.policy));
}

/* Asks for a decision on the access of a call. */
static void fm_ask_policy(struct fm_work *work, u32 events)
{
	struct fm_call *call = &work->call;

	if (work->streams) {
		fm_refresh(&call->before, call);
		fm_ask_streams(call, work->streams, events);
	} else {
		if (work->is_kept)
			call->before = work->kept.state;
		else
			fm_own_state(&call->before, call);
		fm_refresh(&call->before, call);
		fm_ask(call, events);
	}
	trace_decision(call);
	fm_count(call->device, FM_COUNT_DECISIONS, 1);
	fm_count(call->device, FM_COUNT_WINDOWS, call->made.windows + (u64)call->made.repeats);
	if (call->made.flags & FR_DECIDED_RETAIN)
		fm_count(call->device, FM_COUNT_UNKEPT, call->made.retain_pages);
}

static void fm_decide(struct fm_work *work)
{
	struct fm_call *call = &work->call;
	bool has_thrashed = work->is_kept && fm_has_thrashed(work);

	if (has_thrashed)
		fm_count(call->device, FM_COUNT_THRASHED, 1);
	if (fm_is_told_all(work) && !call->fault)
		fm_look(work);
	fm_ask_policy(work, fm_events(call, has_thrashed));
}

/*
 * A mark is used up, whatever the policy does with it. The kernel leaves it where readahead is off.
 * Under writeback the bit means something else.
 */
static bool fm_uses_mark(const struct fm_work *work)
{
	const struct fm_call *call = &work->call;

	if (!call->folio || folio_test_writeback(call->folio))
		return false;
	return !work->is_own || (call->made.flags & FR_DECIDED_CLEAR_MARK);
}

static void fm_act(struct fm_work *work)
{
	struct fm_call *call = &work->call;
	struct address_space *mapping = call->ractl->mapping;
	unsigned long cached = mapping->nrpages, now_cached;
	struct fm_fetch fetch;
	u64 pages;

	call->fetch = &fetch;
	if (work->is_own && call->is_steered) {
		fm_fetch_begin(&fetch, call);
		fm_steer_own(call);
		fm_fetch_end(&fetch);
		return;
	}
	if (fm_uses_mark(work))
		folio_clear_readahead(call->folio);
	if (work->is_own)
		fm_store_own(call);
	fm_fetch_begin(&fetch, call);
	pages = fm_issue(call, &work->asked_end);
	fm_fetch_end(&fetch);
	fm_mark_next(call);
	if (!work->streams || pages == 0)
		return;
	/* Other readers may have added pages, too; the policy counts on roughly. */
	now_cached = mapping->nrpages;
	fm_tell_issued(call, work->streams, pages,
		       now_cached > cached ? min_t(u64, now_cached - cached, pages) : 0);
}

static bool fm_is_steered(const struct fm_device *device, struct address_space *mapping)
{
	u32 act = READ_ONCE(device->act);

	return mapping_large_folio_support(mapping) && act != FM_ISSUE;
}

static void fm_prepare(struct fm_work *work)
{
	struct fm_call *call = &work->call;
	u32 policy = call->policy;

	fm_fill_limits(call);
	fm_fill_access(call);
	work->is_kept = !work->is_own && policy != FR_ADAPTIVE_2005 && policy != FR_NONE;
	if (work->is_kept)
		fm_load(work);
	if (fr_policy_remembers(policy))
		work->streams = fm_streams_get(call->ractl->mapping, policy);
}

/*
 * Tells of pages that the reader has passed, as an access of their own, which may have windows: of
 * a fault, or of a read that they don't join (fm_look).
 */
static void fm_tell_passed(struct fm_work *work)
{
	struct fm_call *call = &work->call;
	struct fr_access access = call->access;
	struct fm_passed passed;

	if (!fm_is_told_all(work) || fr_policy_looks(call->policy))
		return;
	passed = fm_passed(work);
	if (passed.pages == 0 || (!call->fault && fm_joins(&passed, &access)))
		return;
	call->access.kind = call->fault ? FR_FAULT_HIT : FR_READ_LOOK;
	call->access.index = passed.start;
	call->access.req_pages = passed.pages;
	/* The last access took as long as each of these pages. */
	if (passed.since_ns != 0 && passed.since_ns < access.time_ns)
		call->access.time_ns = passed.since_ns + div64_u64(access.time_ns - passed.since_ns,
								   passed.pages + 1);
	fm_ask_policy(work, 0);
	fm_act(work);
	work->has_told = true;
	work->kept.state = call->after;
	call->access = access;
}

/* linux-2.6.13 is told of a missing page that was read ahead by an event of its own. */
static void fm_tell_miss(struct fm_work *work)
{
	struct fm_call *call = &work->call;
	struct fm_kept *kept = &work->kept;

	if (!fr_policy_looks(call->policy) || !fm_has_thrashed(work))
		return;
	call->before = kept->state;
	fm_refresh(&call->before, call);
	fm_ask(call, 0);
	trace_decision(call);
	fm_count(call->device, FM_COUNT_DECISIONS, 1);
	kept->state = call->after;
}

/* The fault that a call is of, if it is of one that a policy answers. */
static void fm_fill_fault(struct fm_work *work)
{
	struct fm_call *call = &work->call;

	call->index = readahead_index(call->ractl);
	call->fault = work->is_own ? NULL : fm_fault_take(call->ractl->mapping);
	if (!call->fault)
		return;
	call->index = call->fault->index;
	call->req_count = 1;
}

/**
 * fm_readahead() - readahead for a miss or a mark
 * @ractl: as the kernel's functions get it
 * @folio: with the mark, or NULL for a miss
 * @req_count: pages that the reader wants, or FM_FAULTED
 *
 * Return: false where the mapping has no policy that answers: the kernel's function must be called.
 */
bool fm_readahead(struct readahead_control *ractl, struct folio *folio, unsigned long req_count)
{
	struct fm_device *device = fm_device_get(ractl->mapping);
	struct fm_work work = {
		.call = { .device = device, .ractl = ractl, .folio = folio, .req_count = req_count }
	};

	if (!device)
		return false;
	work.call.policy = READ_ONCE(device->policy);
	work.is_own = work.call.policy == fm_own_policy();
	/* The policy may have been set since the fault began. */
	if (work.call.policy >= FR_POLICIES || (work.is_own && req_count == FM_FAULTED)) {
		fm_device_put(device);
		return false;
	}
	work.call.is_steered = fm_is_steered(device, ractl->mapping);
	fm_fill_fault(&work);
	fm_prepare(&work);
	fm_count(device, folio ? FM_COUNT_ASYNC : FM_COUNT_SYNC, 1);
	if (work.is_kept)
		fm_tell_miss(&work);
	fm_tell_passed(&work);
	fm_decide(&work);
	fm_act(&work);
	if (work.is_kept)
		fm_store(&work);
	fm_watchdog_wake();
	fm_streams_put(work.streams);
	fm_device_put(device);
	return true;
}
