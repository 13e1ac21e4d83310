/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * linux: on-demand readahead, as in mm/readahead.c of Linux 6.16 and later.
 *
 * It believes that a program that reads next to where it read before will go on
 * doing so, and that it can be recognised at two moments only: when a page is
 * missing, and when a page is reached that was marked while it was read ahead.
 * Between the two it sees nothing. It believes that the page cache itself is the
 * best memory of a stream: where its own few words are of another stream, the
 * pages still cached behind the reader say how long this one has gone on, and the
 * first hole ahead says where to go on. It trusts a start at page 0, and it trusts
 * growth: every mark reached makes the next window two to four times larger, up to
 * the maximum. It never asks whether what it read was used.
 *
 * Names in brackets are the kernel's functions.
 */
#ifndef FOREREAD_LINUX_H
#define FOREREAD_LINUX_H

#include "common.h"

/* Whether a miss starts a stream without a look at the cache. */
FR_INLINE fr_u32 fr_linux_starts(const struct fr_state *state, fr_u64 index, fr_u64 req, fr_u32 max)
{
	/*
	 * prev_end_bytes is where the previous read ended, so this is 0 for a read
	 * that goes on in the same page, and 1 when it goes on one page further: one
	 * skipped page still counts as sequential.
	 */
	fr_u64 prev = state->prev_end_bytes >> FR_PAGE_SHIFT;

	return index == 0 || req > max || (index >= prev && fr_sub(index, prev) <= 1);
}

FR_INLINE void fr_linux_wants_miss(const struct fr_state *state, const struct fr_limits *limits,
				   fr_u64 index, fr_u64 req, struct fr_wants *wants)
{
	fr_u32 max = fr_max_pages(state, limits, req);

	if (!fr_linux_starts(state, index, req, max))
		wants->before_max = fr_min(max, index);
}

/* Whether the mark at the access is the one that the state set. */
FR_INLINE fr_u32 fr_linux_own_mark(const struct fr_state *state, const struct fr_access *access)
{
	fr_u64 mark = fr_sub(fr_add(state->start, state->size), state->async_size);

	return access->index == fr_round_down(mark, access->folio_order);
}

FR_INLINE void fr_linux_wants_mark(const struct fr_state *state, const struct fr_access *access,
				   const struct fr_limits *limits, fr_u64 req,
				   struct fr_wants *wants)
{
	if (fr_linux_own_mark(state, access))
		return;
	wants->after_from = fr_add(access->index, 1);
	wants->after_max = fr_max_pages(state, limits, req);
}

/* A miss (page_cache_sync_ra). */
FR_INLINE void fr_linux_miss(const struct fr_call *call, fr_u64 req, struct fr_decision *decision)
{
	struct fr_state *state = call->state;
	fr_u64 index = call->access->index;
	fr_u64 contig, size;
	fr_u32 max;

	if (fr_read_disabled(call, req, decision))
		return;
	max = fr_max_pages(state, call->limits, req);
	decision->max_pages = max;

	if (fr_linux_starts(state, index, req, max)) {
		size = fr_initial_size(req, max);
		decision->reason = req > max ? FR_REASON_OVERSIZE : FR_REASON_INITIAL;
		fr_open_window(call, decision, index, (fr_u32)size,
			       (fr_u32)(size > req ? fr_sub(size, req) : size / 2));
		fr_fold(call, decision, 0);
		return;
	}

	contig = fr_min(call->near->before_pages, fr_min(max, index));
	if ((call->limits->quirks & FR_QUIRK_HISTORY_CAP) && contig == max)
		contig = fr_sub(contig, 1);
	decision->saw_pages = (fr_u32)contig;
	/*
	 * No more history than this request alone would leave: two reads that happen
	 * to touch. A stream of single pages is believed on its third page
	 * (commit 2cad40180197, Message-ID <20130808085418.GA23970@localhost>).
	 */
	if (contig <= req) {
		fr_as_asked(call, decision, req, FR_REASON_RANDOM);
		return;
	}
	/* Cached from the start of the file on: the whole file is likely to be read. */
	if (contig >= index)
		contig *= 2;
	decision->reason = FR_REASON_CONTEXT;
	fr_open_window(call, decision, index, (fr_u32)fr_min(fr_add(contig, req), max), 1);
	fr_fold(call, decision, 0);
}

/* A mark (page_cache_async_ra). */
FR_INLINE void fr_linux_mark(const struct fr_call *call, fr_u64 req, struct fr_decision *decision)
{
	struct fr_state *state = call->state;
	const struct fr_access *access = call->access;
	fr_u64 start, size, end, whole, ahead;
	fr_u32 max, order;

	if (state->ra_pages == 0) {
		decision->reason = FR_REASON_DISABLED;
		return;
	}
	/* PG_readahead and PG_reclaim are one bit: under writeback it means the other. */
	if (access->flags & FR_ACCESS_WRITEBACK)
		return;
	decision->flags |= FR_DECIDED_CLEAR_MARK;
	if (access->flags & FR_ACCESS_CONGESTED) {
		decision->reason = FR_REASON_DISABLED;
		return;
	}
	max = fr_max_pages(state, call->limits, req);
	decision->max_pages = max;

	if (fr_linux_own_mark(state, access)) {
		decision->reason = FR_REASON_SUBSEQUENT;
		start = fr_add(state->start, state->size);
		/* A huge-page mapping's window may exceed the maximum, and stays. */
		size = fr_max(state->size, fr_next_size(state->size, max));
		if (call->limits->pages_max != 0)
			size = fr_min(size, max);
	} else {
		decision->reason = FR_REASON_FOREIGN;
		ahead = fr_add(fr_min(call->near->after_pages, max), 1);
		decision->saw_pages = fr_u32_of(ahead);
		start = fr_add(access->index, ahead);
		if (ahead > max || start == FR_U64_MAX) {
			decision->reason = FR_REASON_FULL;
			return;
		}
		size = fr_next_size(fr_min(fr_add(ahead, req), FR_U32_MAX), max);
	}

	/*
	 * Windows end at a multiple of the folios they are to be made of, as far as
	 * the maximum is a multiple of it too, and as far as something remains.
	 */
	order = fr_u32_of(fr_min(state->order, FR_FOLIO_ORDER_MAX)) + 2;
	end = fr_add(start, size);
	whole = fr_round_down(end, fr_u32_of(fr_min(order, fr_low_bit(max))));
	if (whole > start)
		size = fr_sub(whole, start);
	if (size == 0) {
		decision->reason = FR_REASON_NOTHING;
		return;
	}
	fr_open_window(call, decision, start, fr_u32_of(size), fr_u32_of(size));
	fr_fold(call, decision, order);
}

/* Text: what a program runs next is behind the fault, not before it. */
FR_INLINE void fr_linux_exec(const struct fr_call *call, struct fr_decision *decision, fr_u32 max)
{
	const struct fr_access *access = call->access;
	fr_u32 order = fr_u32_of(fr_min(call->limits->exec_order, FR_FOLIO_ORDER_MAX));
	fr_u64 start = fr_round_down(access->index, order);
	fr_u64 size = max;

	start = fr_min(fr_max(start, access->vma_start), access->index);
	if (access->vma_end > start)
		size = fr_min(size, fr_sub(access->vma_end, start));
	decision->reason = FR_REASON_EXEC;
	decision->max_pages = max;
	fr_open_window(call, decision, start, (fr_u32)size, 0);
	fr_fold(call, decision, order);
}

/* VM_HUGEPAGE: a huge folio, and a second one ahead unless the mapping is random. */
FR_INLINE void fr_linux_huge(const struct fr_call *call, struct fr_decision *decision)
{
	fr_u32 huge = 1U << FR_HUGE_ORDER;
	fr_u32 size = call->access->flags & FR_VMA_RANDOM ? huge : 2 * huge;

	decision->reason = FR_REASON_HUGE;
	decision->max_pages = size;
	fr_open_window(call, decision, fr_round_down(call->access->index, FR_HUGE_ORDER), size,
		       huge);
	fr_fold(call, decision, FR_HUGE_ORDER);
}

/* A fault that found nothing (do_sync_mmap_readahead). */
FR_INLINE void fr_linux_fault(const struct fr_call *call, struct fr_decision *decision)
{
	fr_u32 flags = call->access->flags;
	fr_u32 max = fr_file_max_pages(call);
	fr_u32 huge_fits = call->limits->pages_max == 0 ||
			   call->limits->pages_max >= 2U << FR_HUGE_ORDER;

	if ((flags & FR_VMA_HUGE) && call->limits->folio_order_max >= FR_HUGE_ORDER && huge_fits) {
		fr_linux_huge(call, decision);
		return;
	}
	if ((flags & FR_VMA_RANDOM) && !(flags & FR_VMA_EXEC)) {
		decision->reason = FR_REASON_ADVISED_RANDOM;
		return;
	}
	if (max == 0) {
		decision->reason = FR_REASON_DISABLED;
		return;
	}
	if (flags & FR_VMA_SEQUENTIAL) {
		fr_linux_miss(call, call->state->ra_pages, decision);
		return;
	}
	if (fr_mmap_missed(call->state, FR_MMAP_LOTS_A_MISS)) {
		decision->reason = FR_REASON_MISSES;
		return;
	}
	if (flags & FR_VMA_EXEC) {
		fr_linux_exec(call, decision, max);
		return;
	}
	fr_read_around(call, decision, max, max / 4);
	fr_fold(call, decision, 0);
}

/* A fault that found its page (do_async_mmap_readahead). */
FR_INLINE void fr_linux_fault_found(const struct fr_call *call, struct fr_decision *decision)
{
	const struct fr_access *access = call->access;

	if ((access->flags & FR_VMA_RANDOM) || call->state->ra_pages == 0)
		return;
	if (!(access->flags & FR_ACCESS_LOCKED))
		fr_mmap_hits(call->state, 1);
	if (access->kind == FR_FAULT_MARK)
		fr_linux_mark(call, call->state->ra_pages, decision);
}

/**
 * fr_linux_wants() - what a decision needs to know of the page cache
 * @state: of the file
 * @access: what happened
 * @limits: what holds
 * @wants: filled
 */
FR_INLINE void fr_linux_wants(const struct fr_state *state, const struct fr_access *access,
			      const struct fr_limits *limits, struct fr_wants *wants)
{
	fr_wants_clear(wants);
	switch (access->kind) {
	case FR_READ_MISS:
		fr_linux_wants_miss(state, limits, access->index, access->req_pages, wants);
		break;
	case FR_FAULT_MISS:
		if (access->flags & FR_VMA_SEQUENTIAL)
			fr_linux_wants_miss(state, limits, access->index, state->ra_pages, wants);
		break;
	case FR_READ_MARK:
		fr_linux_wants_mark(state, access, limits, access->req_pages, wants);
		break;
	case FR_FAULT_MARK:
		fr_linux_wants_mark(state, access, limits, state->ra_pages, wants);
		break;
	default:
		break;
	}
}

/**
 * fr_linux_decide() - decides
 * @call: the access, its file, what is cached nearby, what holds
 * @decision: filled
 */
FR_INLINE void fr_linux_decide(const struct fr_call *call, struct fr_decision *decision)
{
	fr_decision_clear(decision);
	switch (call->access->kind) {
	case FR_READ_MISS:
		fr_linux_miss(call, call->access->req_pages, decision);
		break;
	case FR_READ_MARK:
		fr_linux_mark(call, call->access->req_pages, decision);
		break;
	case FR_FAULT_MISS:
		fr_linux_fault(call, decision);
		break;
	case FR_FAULT_MARK:
	case FR_FAULT_HIT:
		fr_linux_fault_found(call, decision);
		break;
	case FR_FORCE:
		fr_force(call, decision, call->access->req_pages, FR_REASON_FORCED);
		break;
	default:
		break;
	}
}

#endif /* FOREREAD_LINUX_H */
