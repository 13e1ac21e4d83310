// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Accounts of readahead on a live machine, for `foreread stat`: the kind of readahead that brought
 * each page in, and the page's use. stat.h explains the relations of the counters.
 *
 * A page is followed by file and index, so it stays itself when folios are split, joined or moved.
 * Pages that were there before the programs, or were written, are not followed: reads of them
 * cost two looks into a table of counts.
 */
#include "block_kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "stat_account.h"
#include "stat_read.h"
#include "stat_survey.h"
#include "hooks.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* A wait that begins later than this is not for the fault before it. */
#define FAULT_FRESH_NS 10000000

/* Readahead is about to bring in these pages, for the current thread. */
static __always_inline void open_window(struct task_state *t, struct inode *inode, u64 start_page,
					u64 pages, u32 kind)
{
	__sync_fetch_and_add(&windows_seen, 1);
	t->window.inode = 0;
	if (!is_followed_now())
		return;
	t->window.inode = (u64)inode;
	t->window.start_page = start_page;
	t->window.end_page = start_page + pages;
	t->window_account = account_of(number_of(inode, t), kind);
	__sync_fetch_and_add(&account_at(t->window_account)->windows, 1);
}

/* A page is missed; its readahead follows. */
static __always_inline int on_sync_ra(void *context, struct inode *inode, u64 index,
				      struct file_ra_state *ra, u64 request)
{
	u64 pages_max = BPF_CORE_READ(ra, ra_pages);
	u64 io_pages = BPF_CORE_READ(inode, i_sb, s_bdi, io_pages);
	u64 before = (u64)BPF_CORE_READ(ra, prev_pos) >> 12;
	struct task_state *t = state_now(true);

	if (!t)
		return 0;
	if (request > pages_max && io_pages > pages_max)
		pages_max = request < io_pages ? request : io_pages;
	/* As page_cache_sync_ra() decides; the window that follows tells whether it was random. */
	t->cause = CAUSE_SYNC;
	t->cause_kind = !index || request > pages_max || index - before <= 1 ? STAT_INITIAL :
									       STAT_CONTEXT;
	t->cause_inode = (u64)inode;
	t->cause_page = index;
	/* A fault has missed one page, whatever it asks for. */
	if (t->miss.inode != (u64)inode || t->miss.start_page != index ||
	    t->fault_inode != (u64)inode) {
		t->fault_inode = 0;
		t->read_inode = (u64)inode;
		t->miss.inode = (u64)inode;
		t->miss.start_page = index;
		t->miss.end_page = index + request;
	}
	return 0;
}

HOOK_SYNC_RA("tp_btf", fr_stat_sync_ra, on_sync_ra)

/* The marker is met. */
static __always_inline int on_async_ra(void *context, struct inode *inode, u64 index,
				       struct file_ra_state *ra, u64 request)
{
	u64 expected = BPF_CORE_READ(ra, start) + BPF_CORE_READ(ra, size);
	struct task_state *t = state_now(true);
	struct found found;
	u64 pages = 1;

	if (!t)
		return 0;
	expected -= BPF_CORE_READ(ra, async_size);
	if (inode_folio(number_of(inode, t), index, &found))
		pages = found.end_page - found.start_page;
	t->cause = CAUSE_ASYNC;
	t->cause_kind = index == (expected & ~(pages - 1)) ? STAT_SUBSEQUENT : STAT_CONTEXT;
	t->cause_inode = (u64)inode;
	return 0;
}

HOOK_ASYNC_RA("tp_btf", fr_stat_async_ra, on_async_ra)

static __always_inline int on_ra_order(void *context, struct inode *inode, u64 index,
				       struct file_ra_state *ra, u32 order)
{
	struct task_state *t = state_now(true);
	u32 kind = STAT_AROUND;

	if (!t)
		return 0;
	if ((t->cause == CAUSE_SYNC || t->cause == CAUSE_ASYNC) && t->cause_inode == (u64)inode)
		kind = t->cause_kind;
	t->cause = CAUSE_ORDER;
	t->cause_inode = (u64)inode;
	open_window(t, inode, index, BPF_CORE_READ(ra, size), kind);
	return 0;
}

HOOK_RA_ORDER("tp_btf", fr_stat_ra_order, on_ra_order)

static __always_inline int on_ra_unbounded(void *context, struct inode *inode, u64 index, u64 pages,
					   u64 lookahead)
{
	struct task_state *t = state_now(true);
	bool is_same;

	if (!t)
		return 0;
	is_same = t->cause_inode == (u64)inode;
	if (is_same && t->cause == CAUSE_ORDER && t->window.inode == (u64)inode &&
	    index >= t->window.start_page && index < t->window.end_page) {
		/* Where a folio met a cached page, 6.1 reads the window's size from there. */
		if (index + pages > t->window.end_page)
			t->window.end_page = index + pages;
		return 0;
	}
	if (is_same && ((t->cause == CAUSE_SYNC && index == t->cause_page) ||
			(t->cause == CAUSE_RANDOM && index == t->cause_page))) {
		t->cause = CAUSE_RANDOM;
		/* More than 2 MiB are read in parts. */
		t->cause_page = index + pages;
		open_window(t, inode, index, pages, STAT_RANDOM);
		return 0;
	}
	t->cause = CAUSE_NONE;
	open_window(t, inode, index, pages, STAT_FORCED);
	return 0;
}

HOOK_RA_UNBOUNDED("tp_btf", fr_stat_ra_unbounded, on_ra_unbounded)

SEC("tp_btf/mm_filemap_add_to_page_cache")
int BPF_PROG(fr_stat_inserted, struct folio *folio)
{
	struct task_state *t = state_now(false);
	struct put_span put;
	struct inode *inode;
	u64 first, last, number, start, end;
	u32 mode;

	if (!t || !(t->window.inode | t->miss.inode))
		return 0;
	inode = BPF_CORE_READ(folio, mapping, host);
	start = BPF_CORE_READ(folio, index);
	end = start + folio_pages(folio, folio_flags(folio));
	put.inode = (u64)inode;
	put.start_page = start;
	put.end_page = end;
	if (t->window.inode == (u64)inode && start < t->window.end_page &&
	    end > t->window.start_page) {
		put.account = t->window_account;
	} else if (t->miss.inode == (u64)inode && start <= t->miss.start_page &&
		   end > t->miss.start_page) {
		if (!is_followed_now())
			return 0;
		put.account = account_of((u64)inode, STAT_DEMAND);
	} else {
		return 0;
	}
	mode = BPF_CORE_READ(inode, i_mode) & S_IFMT;
	if (mode != S_IFREG && mode != S_IFBLK)
		return 0;
	bpf_loop((end - start) / STAT_CHUNK_PAGES + 2, put_chunk, &put, 0);
	if (t->miss.inode != (u64)inode || t->miss.start_page < start || t->miss.start_page >= end)
		return 0;
	/* This is the missing page: it comes late whatever the device. */
	first = t->miss.start_page;
	last = t->miss.end_page < end ? t->miss.end_page : end;
	t->miss.inode = 0;
	number = first >> CHUNK_SHIFT;
	end_pages((u64)inode, number, chunk_bits(number, first, last), END_LATE);
	number++;
	if (number << CHUNK_SHIFT < last)
		end_pages((u64)inode, number, chunk_bits(number, first, last), END_LATE);
	return 0;
}

SEC("tp_btf/mm_filemap_delete_from_page_cache")
int BPF_PROG(fr_stat_removed, struct folio *folio)
{
	u64 start = BPF_CORE_READ(folio, index);
	u64 end = start + folio_pages(folio, folio_flags(folio));
	struct inode *inode = BPF_CORE_READ(folio, mapping, host);
	struct span span = { .inode = (u64)inode, .start_page = start, .end_page = end };

	if (!inode)
		return 0;
	if (start >> CHUNK_SHIFT == (end - 1) >> CHUNK_SHIFT &&
	    !*filter_at((u64)inode, start >> CHUNK_SHIFT))
		return 0;
	bpf_loop((end - start) / STAT_CHUNK_PAGES + 2, waste_chunk, &span, 0);
	return 0;
}

/* A read asks for pages index to last_index, and some of them are there. */
static __always_inline int on_get_pages(void *context, struct address_space *mapping, u64 index,
					u64 last_index)
{
	u64 inode = (u64)BPF_CORE_READ(mapping, host);
	u64 chunk = index >> CHUNK_SHIFT, last_chunk = last_index >> CHUNK_SHIFT;
	u64 start_page = index, end_page = (u64)last_index + 1;
	struct clean *clean;

	/* Almost every read: none of its pages is unused, nor the one before. */
	if (last_chunk - chunk <= 1 && !*filter_at(inode, chunk) &&
	    !*filter_at(inode, last_chunk) &&
	    (index & (STAT_CHUNK_PAGES - 1) || !*filter_at(inode, chunk - 1)))
		return 0;
	if (last_chunk - chunk > 1) {
		/* Each event of one long read asks for all that is left of it. */
		clean = bpf_map_lookup_elem(&fr_stat_cleans, &ZERO);
		if (clean && clean->inode == inode && clean->windows_seen == windows_seen &&
		    start_page >= clean->start_page && start_page < clean->end_page) {
			if (end_page <= clean->end_page)
				return 0;
			start_page = clean->end_page;
		}
	}
	use_read(inode, start_page, end_page);
	return 0;
}

HOOK_GET_PAGES("tp_btf", fr_stat_get_pages, on_get_pages)

/*
 * Fault-around has mapped the ready pages around a fault, of a large folio all of it where that
 * fits (Linux 6.18). The touches of these can't be seen any more, so all are used.
 */
__noinline int use_mapped(u64 inode, u64 start_page, u64 end_page)
{
	struct task_state *t = state_now(true);
	struct found found;

	if (!t)
		return 0;
	if (inode_folio(inode, start_page, &found) && found.start_page < start_page)
		start_page = found.start_page;
	if (inode_folio(inode, end_page - 1, &found) && found.end_page > end_page)
		end_page = found.end_page;
	use_pages(inode, start_page, end_page, USE_IF_MAPPED);
	t->fault_inode = 0;
	t->miss.inode = 0;
	t->window.inode = 0;
	t->cause = CAUSE_NONE;
	return 0;
}

static __always_inline int on_map_pages(void *context, struct address_space *mapping,
					u64 start_pgoff, u64 end_pgoff)
{
	u64 inode = (u64)BPF_CORE_READ(mapping, host);
	u64 chunk = start_pgoff >> CHUNK_SHIFT, last_chunk = end_pgoff >> CHUNK_SHIFT;

	if (end_pgoff < start_pgoff)
		return 0;
	if (last_chunk - chunk <= 1 && !*filter_at(inode, chunk) && !*filter_at(inode, last_chunk))
		return 0;
	use_mapped(inode, start_pgoff, (u64)end_pgoff + 1);
	return 0;
}

HOOK_MAP_PAGES("tp_btf", fr_stat_map_pages, on_map_pages)

/* The page isn't there, or isn't ready, or isn't mapped around because of its mark. */
static __always_inline int on_fault(void *context, struct address_space *mapping, u64 index)
{
	u64 inode = (u64)BPF_CORE_READ(mapping, host);
	u64 number = index >> CHUNK_SHIFT, bits;
	bool is_cached, is_ready;
	struct found found;
	struct task_state *t;

	is_cached = inode_folio(inode, index, &found);
	is_ready = is_cached && HAS_FLAG(found.flags, PG_uptodate);
	/* Almost every fault: its page is there, and was used before or isn't followed. */
	if (is_ready && !*filter_at(inode, number))
		return 0;
	t = state_now(true);
	if (!t)
		return 0;
	t->cause = CAUSE_NONE;
	t->window.inode = 0;
	t->miss.inode = 0;
	t->read_inode = 0;
	t->fault_inode = inode;
	t->fault_ns = bpf_ktime_get_ns();
	if (!is_cached) {
		t->miss.inode = inode;
		t->miss.start_page = index;
		t->miss.end_page = (u64)index + 1;
		return 0;
	}
	bits = chunk_bits(number, index, (u64)index + 1);
	if (!is_ready) {
		end_pages(inode, number, bits, END_LATE);
		return 0;
	}
	/* survey() finds the other pages of its folio that are mapped with it. */
	end_pages(inode, number, bits, END_ON_TIME);
	return 0;
}

HOOK_FAULT("tp_btf", fr_stat_fault, on_fault)

/* The file for which a thread is about to wait; 0 when it doesn't wait for a read. */
static __always_inline u64 waited_for(struct task_struct *task, struct task_state *t)
{
	struct span span = {};
	u64 start;

	if (t->fault_inode && bpf_ktime_get_ns() - t->fault_ns < FAULT_FRESH_NS)
		return t->fault_inode;
	if (!read_now(task, &span))
		return t->read_inode;
	if (!span.inode)
		span.inode = t->read_inode;
	if (!span.inode)
		return 0;
	start = span.start_page;
	/* For a call that reads this much, the event before it gives its progress. */
	if (t->progress.inode == span.inode && t->progress.start_page < span.end_page &&
	    t->progress.start_page > start + PAGES_PER_EVENT_MAX)
		start = t->progress.start_page;
	use_pages(span.inode, start, span.end_page, USE_UNTIL_WAIT);
	return span.inode;
}

/* A thread waits for I/O: io_schedule() marks it. */
SEC("tp_btf/sched_switch")
int BPF_PROG(fr_stat_switched, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct stat_account *account;
	struct task_state *t;
	u64 inode, now;

	if (BPF_CORE_READ_BITFIELD(prev, in_iowait) && is_followed_now()) {
		t = bpf_task_storage_get(&fr_stat_tasks, prev, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
		inode = t ? waited_for(prev, t) : 0;
		if (t && inode) {
			t->wait_account = account_of(inode, STAT_NONE);
			t->wait_since_ns = bpf_ktime_get_ns();
		}
	}
	if (!BPF_CORE_READ_BITFIELD(next, in_iowait))
		return 0;
	t = bpf_task_storage_get(&fr_stat_tasks, next, 0, 0);
	if (!t || !t->wait_since_ns)
		return 0;
	now = bpf_ktime_get_ns();
	account = account_at(t->wait_account);
	if (now > t->wait_since_ns)
		__sync_fetch_and_add(&account->stall_ns, now - t->wait_since_ns);
	__sync_fetch_and_add(&account->stalls, 1);
	t->wait_since_ns = 0;
	return 0;
}

/* No struct page lies in the last GiB of addresses, so that a word from there is a mask. */
#define HEAD_MASK_MIN (~0ULL << 30)

/*
 * The head of a page's folio. A tail has the lowest bit of a word set. The rest of the word is the
 * address of the head. Since Linux 7.1 it is a mask, which turns the tail's own address into that
 * of the head.
 */
static __always_inline u64 head_of(u64 page)
{
	struct page___info *masked = (void *)page;
	u64 word;

	if (bpf_core_field_exists(masked->compound_info))
		word = BPF_CORE_READ(masked, compound_info);
	else
		word = BPF_CORE_READ((struct page *)page, compound_head);
	if (!(word & 1))
		return page;
	return word >= HEAD_MASK_MIN ? page & word & ~1ULL : word - 1;
}

/* A request is issued: it counts for the account that fetched its first page. */
SEC("tp_btf/block_rq_issue")
int BPF_PROG(fr_stat_issued, struct request *request)
{
	struct chunk_place key = {};
	struct stat_chunk *chunk;
	struct stat_account *account;
	struct bio_vec *vector;
	struct folio *folio;
	struct inode *inode;
	struct bio *bio;
	u64 page, head, index, bit;

	if ((BPF_CORE_READ(request, cmd_flags) & REQ_OP_MASK) != REQ_OP_READ)
		return 0;
	bio = BPF_CORE_READ(request, bio);
	if (!bio)
		return 0;
	vector = BPF_CORE_READ(bio, bi_io_vec) + BPF_CORE_READ(bio, bi_iter.bi_idx);
	page = (u64)BPF_CORE_READ(vector, bv_page);
	if (!page)
		return 0;
	head = head_of(page);
	folio = (struct folio *)head;
	/* The lowest bits tell pages without a file apart. */
	if (!BPF_CORE_READ(folio, mapping) || ((u64)BPF_CORE_READ(folio, mapping) & 3))
		return 0;
	inode = BPF_CORE_READ(folio, mapping, host);
	if (!inode)
		return 0;
	index = BPF_CORE_READ(folio, index) + (page - head) / bpf_core_type_size(struct page) +
		(BPF_CORE_READ(vector, bv_offset) >> 12);
	key.inode = (u64)inode;
	key.chunk = index >> CHUNK_SHIFT;
	chunk = bpf_map_lookup_elem(&fr_stat_chunk_table, &key);
	if (!chunk)
		return 0;
	bit = 1ULL << (index & 63);
	/* A request of a device below this one carries the same pages. */
	if (__sync_fetch_and_or(&chunk->requested, bit) & bit)
		return 0;
	account = account_at(chunk->owner[index & 63]);
	__sync_fetch_and_add(&account->requests, 1);
	__sync_fetch_and_add(&account->request_bytes, BPF_CORE_READ(request, __data_len));
	return 0;
}

/*
 * A block of metadata is looked up in the page cache of its device: this is a use of metadata that
 * was read ahead.
 */
SEC("tp_btf/block_touch_buffer")
int BPF_PROG(fr_stat_block_touched, struct buffer_head *buffer)
{
	struct folio *folio = buffer_folio(buffer);
	struct inode *inode = BPF_CORE_READ(folio, mapping, host);
	u64 page;

	if (!inode)
		return 0;
	page = (BPF_CORE_READ(buffer, b_blocknr) * BPF_CORE_READ(buffer, b_size)) >> 12;
	if (!*filter_at((u64)inode, page >> CHUNK_SHIFT))
		return 0;
	/* The buffer's first bit: it is up to date. */
	end_pages((u64)inode, page >> CHUNK_SHIFT, chunk_bits(page >> CHUNK_SHIFT, page, page + 1),
		  BPF_CORE_READ(buffer, b_state) & 1 ? END_ON_TIME : END_LATE);
	return 0;
}

/* Counts an io_uring read that had no event, because a part of it wasn't ready when it began. */
static __always_inline int on_ring_done(void *request, s32 result)
{
	u64 start, end;
	struct inode *inode;
	struct file *file;

	if (!ring_has_read(request, result, &file, &start, &end))
		return 0;
	inode = BPF_CORE_READ(file, f_mapping, host);
	if (!*filter_at((u64)inode, start >> 18) && !*filter_at((u64)inode, (end - 1) >> 18))
		return 0;
	use_read((u64)inode, start >> 12, (end + 4095) >> 12);
	return 0;
}

HOOK_RING_DONE(fr_stat_ring_read_done, on_ring_done)

SEC("tp_btf/sched_process_fork")
int BPF_PROG(fr_stat_forked, struct task_struct *parent, struct task_struct *child)
{
	if (!take_in(parent, child))
		__sync_fetch_and_add(&losses.processes, 1);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(fr_stat_exited, struct task_struct *task)
{
	u32 tgid = task->tgid;

	if (is_last_thread(task))
		bpf_map_delete_elem(&fr_tree, &tgid);
	return 0;
}

/* A process has another name now. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(fr_stat_executed, struct task_struct *task, int old_pid, struct linux_binprm *bprm)
{
	struct stat_key key = { .process = task->tgid };

	key.started_ns = BPF_CORE_READ(task, group_leader, start_time);
	tell_name(0, 0, &key);
	return 0;
}
