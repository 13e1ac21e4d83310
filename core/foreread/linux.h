/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * linux, linux-6.1, linux-6.12, linux-7.3: on-demand readahead, as in mm/readahead.c of Linux 6.18
 * (linux) and of the other three. linux_rules.h has the differences between them.
 *
 * Its idea is that a program that reads next to where it read before will go on doing so. It acts
 * at two moments only: when a page is missing, and when a page is reached that was marked while it
 * was read ahead. It sees nothing in between. The page cache serves as the memory of streams: where
 * the file's own state is of another stream, the pages still cached behind the reader show the
 * length of this stream, and the first hole ahead shows where to go on. A start at page 0 counts as
 * a stream, and every mark reached makes the next window two to four times larger, up to the
 * maximum. It never checks whether the pages that it read were used.
 *
 * Names in brackets are the kernel's functions.
 */
#ifndef FOREREAD_LINUX_H
#define FOREREAD_LINUX_H

#include "common.h"
#include "linux_rules.h"

/* Whether a miss starts a stream without a look at the cache. */
FR_INLINE fr_u32 fr_linux_starts(const struct fr_state *state, fr_u64 index, fr_u64 req, fr_u32 max)
{
	/*
	 * prev_end_bytes is the end of the previous read. So the difference is 0 for a read that
	 * continues in the same page, and 1 for one that continues a page further: one skipped page
	 * still counts as sequential.
	 */
	fr_u64 prev = state->prev_end_bytes >> FR_PAGE_SHIFT;

	return index == 0 || req > max || (index >= prev && fr_sub(index, prev) <= 1);
}

/* Whether the mark at the access is the one that the state set. */
FR_INLINE fr_u32 fr_linux_own_mark(const struct fr_state *state, const struct fr_access *access)
{
	fr_u64 mark = fr_sub(fr_add(state->start, state->size), state->async_size);

	return access->index == fr_round_down(mark, access->folio_order);
}

/* ondemand_readahead(): whether a miss, too, is where the state's stream goes on. */
FR_INLINE fr_u32 fr_linux_goes_on(const struct fr_state *state, const struct fr_access *access)
{
	return access->index == fr_add(state->start, state->size) ||
	       fr_linux_own_mark(state, access);
}

FR_INLINE void fr_linux_wants_miss(fr_u32 rules, const struct fr_state *state,
				   const struct fr_access *access, const struct fr_limits *limits,
				   struct fr_wants *wants)
{
	fr_u64 req = access->kind == FR_FAULT_MISS ? state->ra_pages : access->req_pages;
	fr_u32 max = fr_max_pages(state, limits, req);

	if (fr_linux_starts(state, access->index, req, max))
		return;
	if ((rules & FR_RULE_ONDEMAND) && fr_linux_goes_on(state, access))
		return;
	wants->before_max = fr_min(max, access->index);
}

FR_INLINE void fr_linux_wants_mark(fr_u32 rules, const struct fr_state *state,
				   const struct fr_access *access, const struct fr_limits *limits,
				   struct fr_wants *wants)
{
	fr_u64 req = access->kind == FR_FAULT_MARK ? state->ra_pages : access->req_pages;

	if (fr_linux_own_mark(state, access))
		return;
	if ((rules & FR_RULE_ONDEMAND) && (access->index == 0 || fr_linux_goes_on(state, access)))
		return;
	wants->after_from = fr_add(access->index, 1);
	wants->after_max = fr_max_pages(state, limits, req);
}

/*
 * Windows of Linux 6.1 and 6.12 have the order of the folio that was found, plus 2. Small windows
 * go page by page, and the state has no order.
 */
FR_INLINE void fr_linux_fold_found(const struct fr_call *call, struct fr_decision *decision,
				   fr_u32 order, fr_u32 rules)
{
	const struct fr_limits *limits = call->limits;
	struct fr_window *window = &decision->window[0];
	fr_u64 most = fr_min(limits->folio_order_max, FR_FOLIO_ORDER_MAX);

	call->state->order = 0;
	if (most == 0 || window->size < 4)
		return;
	if (order < most)
		order += 2;
	window->order = (fr_u8)fr_min(fr_min(order, most), fr_log2(window->size));
	window->flags |= FR_WINDOW_FOLIOS;
	if (rules & FR_RULE_NO_PAIRS)
		window->flags |= FR_WINDOW_NO_PAIRS;
	if ((limits->quirks & FR_QUIRK_PAST_END) && window->start >= limits->file_pages) {
		fr_u64 past = fr_sub(window->start, limits->file_pages);

		call->state->size = fr_u32_of(fr_add(call->state->size, past));
		call->state->async_size = fr_u32_of(fr_add(call->state->async_size, past));
	}
}

/* Issues the first window as folios (page_cache_ra_order). */
FR_INLINE void fr_linux_fold(const struct fr_call *call, struct fr_decision *decision, fr_u32 order,
			     fr_u32 rules)
{
	if (rules & FR_RULE_ORDER_OF_FOLIO)
		fr_linux_fold_found(call, decision, order, rules);
	else
		fr_fold(call, decision, order);
	if (rules & FR_RULE_END_UNMARKED)
		decision->window[0].flags |= FR_WINDOW_END_UNMARKED;
}

/* Decides from the page cache whether a miss that nothing else explains continues a stream. */
FR_INLINE fr_u32 fr_linux_context(const struct fr_call *call, fr_u64 req, fr_u32 max,
				  struct fr_decision *decision, struct fr_window *window)
{
	fr_u64 index = call->access->index;
	fr_u64 contig = fr_min(call->near->before_pages, fr_min(max, index));

	if ((call->limits->quirks & FR_QUIRK_HISTORY_CAP) && contig == max)
		contig = fr_sub(contig, 1);
	decision->saw_pages = (fr_u32)contig;
	/*
	 * No more history than this request alone would leave: two reads that happen to touch. A
	 * stream of single pages counts as one from its third page on (commit 2cad40180197,
	 * Message-ID <20130808085418.GA23970@localhost>).
	 */
	if (contig <= req) {
		fr_as_asked(call, decision, req, FR_REASON_RANDOM);
		return 0;
	}
	/* Cached from the start of the file on: the whole file is likely to be read. */
	if (contig >= index)
		contig *= 2;
	decision->reason = FR_REASON_CONTEXT;
	window->start = index;
	window->size = (fr_u32)fr_min(fr_add(contig, req), max);
	window->async_size = 1;
	return 1;
}

/* Behind a mark that the state did not set, the window after the cached pages. */
FR_INLINE fr_u32 fr_linux_foreign(const struct fr_call *call, fr_u64 req, fr_u32 max,
				  struct fr_decision *decision, struct fr_window *window)
{
	fr_u64 after = fr_min(call->near->after_pages, max);
	fr_u64 ahead;

	if ((call->limits->quirks & FR_QUIRK_NO_HOLE) && after == max)
		after = fr_sub(after, 1);
	ahead = fr_add(after, 1);
	decision->reason = FR_REASON_FOREIGN;
	decision->saw_pages = fr_u32_of(ahead);
	window->start = fr_add(call->access->index, ahead);
	if (ahead > max || window->start == FR_U64_MAX) {
		decision->reason = FR_REASON_FULL;
		return 0;
	}
	window->size = fr_u32_of(fr_next_size(fr_min(fr_add(ahead, req), FR_U32_MAX), max));
	window->async_size = window->size;
	return 1;
}

/* At the state's own mark, the window after its last one. */
FR_INLINE void fr_linux_subsequent(const struct fr_call *call, fr_u32 max,
				   struct fr_decision *decision, struct fr_window *window)
{
	const struct fr_state *state = call->state;
	fr_u64 size;

	decision->reason = FR_REASON_SUBSEQUENT;
	window->start = fr_add(state->start, state->size);
	/* A huge-page mapping's window may exceed the maximum, and stays. */
	size = fr_max(state->size, fr_next_size(state->size, max));
	if (call->limits->pages_max != 0)
		size = fr_min(size, max);
	window->size = fr_u32_of(size);
	window->async_size = window->size;
}

/* Linux 6.1: misses and marks alike (ondemand_readahead). */
FR_INLINE void fr_linux_ondemand(const struct fr_call *call, fr_u64 req,
				 struct fr_decision *decision, fr_u32 rules)
{
	struct fr_window window = { 0, 0, 0, 0, 0, 0, 0 };
	const struct fr_access *access = call->access;
	fr_u32 max = fr_max_pages(call->state, call->limits, req);
	fr_u32 is_mark = access->kind == FR_READ_MARK || access->kind == FR_FAULT_MARK;
	fr_u64 more, both;

	decision->max_pages = max;
	if (access->index != 0 && fr_linux_goes_on(call->state, access)) {
		fr_linux_subsequent(call, max, decision, &window);
	} else if (access->index != 0 && is_mark) {
		if (!fr_linux_foreign(call, req, max, decision, &window))
			return;
	} else if (fr_linux_starts(call->state, access->index, req, max)) {
		decision->reason = req > max ? FR_REASON_OVERSIZE : FR_REASON_INITIAL;
		window.start = access->index;
		window.size = (fr_u32)fr_initial_size(req, max);
		window.async_size = window.size;
		if (window.size > req)
			window.async_size = (fr_u32)fr_sub(window.size, req);
	} else if (!fr_linux_context(call, req, max, decision, &window)) {
		return;
	}
	/* The read would reach the mark of its own window: the next one is merged with it. */
	if (access->index == window.start && window.size == window.async_size) {
		more = fr_next_size(window.size, max);
		both = fr_add(window.size, more);
		if (both <= max) {
			window.async_size = (fr_u32)more;
			window.size = (fr_u32)both;
		} else {
			window.size = max;
			window.async_size = max / 2;
		}
	}
	fr_open_window(call, decision, window.start, window.size, window.async_size);
	fr_linux_fold(call, decision, is_mark ? access->folio_order : 0, rules);
}

/* A miss (page_cache_sync_ra). */
FR_INLINE void fr_linux_miss(const struct fr_call *call, fr_u64 req, struct fr_decision *decision,
			     fr_u32 rules)
{
	struct fr_window window = { 0, 0, 0, 0, 0, 0, 0 };
	fr_u64 index = call->access->index;
	fr_u64 size;
	fr_u32 max;

	if (fr_read_disabled(call, req, decision))
		return;
	if (rules & FR_RULE_ONDEMAND) {
		fr_linux_ondemand(call, req, decision, rules);
		return;
	}
	max = fr_max_pages(call->state, call->limits, req);
	decision->max_pages = max;

	if (fr_linux_starts(call->state, index, req, max)) {
		size = fr_initial_size(req, max);
		decision->reason = req > max ? FR_REASON_OVERSIZE : FR_REASON_INITIAL;
		window.start = index;
		window.size = (fr_u32)size;
		window.async_size = (fr_u32)(size > req ? fr_sub(size, req) : size / 2);
	} else if (!fr_linux_context(call, req, max, decision, &window)) {
		return;
	}
	fr_open_window(call, decision, window.start, window.size, window.async_size);
	fr_linux_fold(call, decision, 0, rules);
}

/* A mark (page_cache_async_ra). */
FR_INLINE void fr_linux_mark(const struct fr_call *call, fr_u64 req, struct fr_decision *decision,
			     fr_u32 rules)
{
	struct fr_window window = { 0, 0, 0, 0, 0, 0, 0 };
	struct fr_state *state = call->state;
	const struct fr_access *access = call->access;
	fr_u64 end, whole;
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
	if (rules & FR_RULE_ONDEMAND) {
		fr_linux_ondemand(call, req, decision, rules);
		return;
	}
	max = fr_max_pages(state, call->limits, req);
	decision->max_pages = max;

	if (fr_linux_own_mark(state, access))
		fr_linux_subsequent(call, max, decision, &window);
	else if (!fr_linux_foreign(call, req, max, decision, &window))
		return;

	if (rules & FR_RULE_ORDER_OF_FOLIO) {
		order = access->folio_order;
	} else {
		/*
		 * A window ends at a multiple of its folio size, if a part of the window remains.
		 * If the maximum is no multiple of that size, the largest power of two in the
		 * maximum is used.
		 */
		order = fr_u32_of(fr_min(state->order, FR_FOLIO_ORDER_MAX)) + 2;
		end = fr_add(window.start, window.size);
		whole = fr_round_down(end, fr_u32_of(fr_min(order, fr_low_bit(max))));
		if (whole > window.start)
			window.size = fr_u32_of(fr_sub(whole, window.start));
	}
	if (window.size == 0) {
		decision->reason = FR_REASON_NOTHING;
		return;
	}
	fr_open_window(call, decision, window.start, window.size, window.size);
	fr_linux_fold(call, decision, order, rules);
}

/* Text: a program runs next the pages behind the fault, not those before it. */
FR_INLINE void fr_linux_exec(const struct fr_call *call, struct fr_decision *decision, fr_u32 max,
			     fr_u32 rules)
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
	fr_linux_fold(call, decision, order, rules);
}

/* Order of the folios that a huge-page mapping reads; 0 where it is read as others are. */
FR_INLINE fr_u32 fr_linux_huge_order(const struct fr_call *call, fr_u32 rules)
{
	const struct fr_limits *limits = call->limits;
	fr_u32 order = FR_HUGE_ORDER;

	if (!(call->access->flags & FR_VMA_HUGE))
		return 0;
	if (!(rules & FR_RULE_HUGE_ALWAYS))
		order = fr_u32_of(fr_min(order, limits->folio_order_max));
	if (limits->pages_max != 0 && limits->pages_max < 2U << order)
		return 0;
	return order;
}

/*
 * VM_HUGEPAGE: a huge folio, and a second one ahead unless the mapping is random. The state's start
 * does not change, as in every version. So the mark of the second folio is the state's own only by
 * chance.
 */
FR_INLINE void fr_linux_huge(const struct fr_call *call, struct fr_decision *decision, fr_u32 order,
			     fr_u32 rules)
{
	fr_u64 start = call->state->start;
	fr_u32 huge = 1U << order;
	fr_u32 size = call->access->flags & FR_VMA_RANDOM ? huge : 2 * huge;

	decision->reason = FR_REASON_HUGE;
	decision->max_pages = size;
	fr_open_window(call, decision, fr_round_down(call->access->index, order), size, huge);
	call->state->start = start;
	fr_linux_fold(call, decision, order, rules);
}

/* Whether misses and hits of a mapping count for mmap_miss. */
FR_INLINE fr_u32 fr_linux_counts(fr_u32 vma_flags, fr_u32 rules)
{
	return !(rules & FR_RULE_FAIR_MISSES) || !(vma_flags & (FR_VMA_SEQUENTIAL | FR_VMA_EXEC));
}

/* A fault that found nothing (do_sync_mmap_readahead). */
FR_INLINE void fr_linux_fault(const struct fr_call *call, struct fr_decision *decision,
			      fr_u32 rules)
{
	fr_u32 flags = call->access->flags;
	fr_u32 is_text = (flags & FR_VMA_EXEC) && (rules & FR_RULE_TEXT_WINDOW);
	fr_u32 max = fr_file_max_pages(call);
	fr_u32 huge_order = fr_linux_huge_order(call, rules);

	if (huge_order != 0 && (rules & FR_RULE_HUGE_ALWAYS)) {
		fr_linux_huge(call, decision, huge_order, rules);
		return;
	}
	if (huge_order == 0) {
		if ((flags & FR_VMA_RANDOM) && !is_text) {
			decision->reason = FR_REASON_ADVISED_RANDOM;
			return;
		}
		if (max == 0) {
			decision->reason = FR_REASON_DISABLED;
			return;
		}
		if (flags & FR_VMA_SEQUENTIAL) {
			fr_linux_miss(call, call->state->ra_pages, decision, rules);
			return;
		}
	}
	if (fr_linux_counts(flags, rules) && fr_mmap_missed(call->state, FR_MMAP_LOTS_A_MISS)) {
		decision->reason = FR_REASON_MISSES;
		return;
	}
	if (huge_order != 0) {
		fr_linux_huge(call, decision, huge_order, rules);
		return;
	}
	if (is_text) {
		fr_linux_exec(call, decision, max, rules);
		return;
	}
	fr_read_around(call, decision, max, max / 4);
	fr_linux_fold(call, decision, 0, rules);
}

/* A fault that found its page (do_async_mmap_readahead). */
FR_INLINE void fr_linux_fault_found(const struct fr_call *call, struct fr_decision *decision,
				    fr_u32 rules)
{
	const struct fr_access *access = call->access;

	if ((access->flags & FR_VMA_RANDOM) || call->state->ra_pages == 0)
		return;
	if ((!(access->flags & FR_ACCESS_LOCKED) || (rules & FR_RULE_COUNTS_LOCKED)) &&
	    fr_linux_counts(access->flags, rules))
		fr_mmap_hits(call->state, 1);
	if (access->kind == FR_FAULT_MARK)
		fr_linux_mark(call, call->state->ra_pages, decision, rules);
}

/**
 * fr_linux_wants() - facts about the page cache that a decision needs
 * @policy: FR_LINUX, or FR_LINUX_* of another kernel
 * @state: of the file
 * @access: the access
 * @limits: the limits
 * @wants: filled
 */
FR_INLINE void fr_linux_wants(fr_u32 policy, const struct fr_state *state,
			      const struct fr_access *access, const struct fr_limits *limits,
			      struct fr_wants *wants)
{
	fr_u32 rules = fr_linux_rules(policy);

	fr_wants_clear(wants);
	switch (access->kind) {
	case FR_READ_MISS:
		fr_linux_wants_miss(rules, state, access, limits, wants);
		break;
	case FR_FAULT_MISS:
		if (access->flags & FR_VMA_SEQUENTIAL)
			fr_linux_wants_miss(rules, state, access, limits, wants);
		break;
	case FR_READ_MARK:
	case FR_FAULT_MARK:
		fr_linux_wants_mark(rules, state, access, limits, wants);
		break;
	default:
		break;
	}
}

/**
 * fr_linux_decide() - decides
 * @policy: FR_LINUX, or FR_LINUX_* of another kernel
 * @call: the access, its file, the nearby cached pages, the limits
 * @decision: filled
 */
FR_INLINE void fr_linux_decide(fr_u32 policy, const struct fr_call *call,
			       struct fr_decision *decision)
{
	fr_u32 rules = fr_linux_rules(policy);

	fr_decision_clear(decision);
	switch (call->access->kind) {
	case FR_READ_MISS:
		fr_linux_miss(call, call->access->req_pages, decision, rules);
		break;
	case FR_READ_MARK:
		fr_linux_mark(call, call->access->req_pages, decision, rules);
		break;
	case FR_FAULT_MISS:
		fr_linux_fault(call, decision, rules);
		break;
	case FR_FAULT_MARK:
	case FR_FAULT_HIT:
		fr_linux_fault_found(call, decision, rules);
		break;
	case FR_FORCE:
		fr_force(call, decision, call->access->req_pages, FR_REASON_FORCED);
		break;
	default:
		break;
	}
}

#endif /* FOREREAD_LINUX_H */
