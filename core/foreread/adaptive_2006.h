/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * adaptive-2006: adaptive readahead with a stateful and a context method.
 *
 * The window is a share of the thrashing threshold: the number of pages that a stream can read
 * while a page passes through the inactive list. The policy measures the threshold: at each mark it
 * knows how many pages the stream has read since the last one and how many pages reclaim has gone
 * through meanwhile. The window is readahead_ratio percent of the threshold; slow streams among
 * many get small ones, and the sum fits in memory. Where the state is of another stream, the policy
 * falls back to the page cache: surviving history is a lower bound of the threshold. Pages read
 * ahead that are about to be evicted are rescued rather than more being read. readahead_hit_rate is
 * the sparsest reading that still counts as a stream.
 *
 * Rules from the versions of 2005-12 to 2006-11: stateful method, Message-ID
 * <20060319023455.526787000@localhost.localdomain>, context method
 * <20051216130930.687089000@localhost.localdomain> and
 * <20061115075029.205178794@localhost.localdomain>. Where they differ, the latest documented rule
 * is used; where none is documented, a comment names the choice.
 */
#ifndef FOREREAD_ADAPTIVE_2006_H
#define FOREREAD_ADAPTIVE_2006_H

#include "adaptive_2005.h"
#include "linux.h"

/* The share of a window that is looked ahead; the value of its 2010 descendant. */
#define FR_2006_LOOKAHEAD_RATIO 8U
/* Windows fit 16 bits. */
#define FR_2006_PAGES_MAX 65535U
/* initial_ra_kb: 64 KiB. */
#define FR_2006_INITIAL_PAGES (65536U / FR_PAGE_BYTES)

/* The largest window: at most half of the reclaimable pages. */
FR_INLINE fr_u32 fr_2006_max(const struct fr_state *state, const struct fr_limits *limits)
{
	fr_u64 max = fr_min(state->ra_pages, FR_2006_PAGES_MAX);

	if (limits->reclaim_pages != 0)
		max = fr_min(max, limits->reclaim_pages / 2);
	if (limits->pages_max != 0)
		max = fr_min(max, limits->pages_max);
	return (fr_u32)max;
}

/* The smallest: 20 KiB with 64 MiB of inactive and free memory, 64 KiB with 1 GiB. */
FR_INLINE fr_u32 fr_2006_min(const struct fr_limits *limits, fr_u32 max)
{
	fr_u64 min = 16;

	if (limits->reclaim_pages != 0)
		min = fr_min(min, 4 + limits->reclaim_pages / 2 / 8192);
	if (limits->min_pages != 0)
		min = limits->min_pages;
	return (fr_u32)fr_max(fr_min(min, max / 2), 1);
}

/**
 * struct fr_2006_plan - a window in the making
 * @start: its first page
 * @ahead: pages ahead of the reader already: the old look-ahead
 * @threshold: pages that may be ahead of the reader, scaled by readahead_ratio
 * @remaining: pages that the reader reads before the current chunk is evicted
 */
struct fr_2006_plan {
	fr_u64 start;
	fr_u64 ahead;
	fr_u64 threshold;
	fr_u64 remaining;
};

/* Pages that the stream has read since its last window. */
FR_INLINE fr_u32 fr_2006_hits(const struct fr_state *state, const struct fr_access *access)
{
	if (access->hit_pages != 0)
		return fr_u32_of(access->hit_pages);
	if (state->prev_page <= access->index)
		return fr_u32_of(fr_sub(access->index, state->prev_page));
	return fr_u32_of(fr_sub(access->index, state->start));
}

/**
 * fr_2006_measure() - the stateful method
 * @state: of the file
 * @access: a mark
 * @limits: with the facts about memory
 * @plan: filled
 *
 * Return: 1 when the state is of this stream and gives a threshold beyond what is
 * ahead already, or a reason to rescue.
 */
FR_INLINE fr_u32 fr_2006_measure(const struct fr_state *state, const struct fr_access *access,
				 const struct fr_limits *limits, struct fr_2006_plan *plan)
{
	/* Odd, so never 0: with no reclaim at all the threshold is memory itself. */
	fr_u64 aged = fr_sub(limits->aged_pages, state->aged_pages) | 1;
	fr_u32 hits;

	plan->start = fr_add(state->start, state->size);
	plan->ahead = fr_sub(plan->start, access->index);
	plan->threshold = 0;
	plan->remaining = 0;
	if (state->size == 0 || limits->reclaim_pages == 0 || !fr_linux_own_mark(state, access))
		return 0;
	hits = fr_2006_hits(state, access);
	plan->threshold = fr_div(fr_mul(limits->reclaim_pages, hits), aged);
	/* hits * (G - aged) / aged, without a second division. */
	plan->remaining = fr_sub(plan->threshold, hits);
	plan->threshold = fr_mul(plan->threshold, fr_ratio(limits)) / 100;
	if (plan->remaining <= plan->ahead && plan->ahead > 1)
		return 1;
	return plan->threshold > plan->ahead;
}

/*
 * Pages of history that matter: more of them only make the look-ahead larger. @max is at
 * most FR_2006_PAGES_MAX, so this fits 32 bits, and its product with the ratio 64.
 */
FR_INLINE fr_u64 fr_2006_history_max(const struct fr_limits *limits, fr_u32 max)
{
	return max * (FR_2006_LOOKAHEAD_RATIO + 1) * 100 / fr_ratio(limits);
}

/* Maximum distance of a miss from the last cached page at which it belongs to a sparse stream. */
FR_INLINE fr_u64 fr_2006_gap_max(const struct fr_limits *limits, fr_u32 min)
{
	/*
	 * A hit rate of 1 means that every page is read, so a gap is the end of a stream.
	 * The look back at every random read was turned off in the last version.
	 */
	return limits->readahead_hit_rate > 1 ? (fr_u64)limits->readahead_hit_rate + min : 0;
}

FR_INLINE void fr_adaptive_2006_wants(const struct fr_state *state, const struct fr_access *access,
				      const struct fr_limits *limits, struct fr_wants *wants)
{
	struct fr_2006_plan plan;
	fr_u32 max = fr_2006_max(state, limits);

	fr_wants_clear(wants);
	if (access->kind == FR_READ_MARK) {
		if (fr_2006_measure(state, access, limits, &plan))
			return;
		wants->after_from = fr_add(access->index, 1);
		wants->after_max = (fr_u64)max + max / 4;
	} else if (access->kind == FR_READ_MISS && access->index != 0) {
		wants->gap_max = fr_2006_gap_max(limits, fr_2006_min(limits, max));
	} else {
		return;
	}
	/* A hit rate of 0 turns the context method off. */
	if (limits->readahead_hit_rate == 0)
		return;
	wants->before_max = fr_min(fr_2006_history_max(limits, max), access->index);
	wants->probing = FR_PROBE_SAMPLE;
	wants->history_max = max;
}

/* Up to the end of the file, when it is near: a rest of half a window is not worth a request. */
FR_INLINE fr_u32 fr_2006_snap(const struct fr_limits *limits, fr_u64 start, fr_u64 size, fr_u32 max)
{
	fr_u64 rest = fr_sub(limits->file_pages, start);

	return rest > 0 && rest <= fr_min(size + size / 2, max) ? (fr_u32)rest : 0;
}

/**
 * fr_2006_submit() - from a threshold to a window
 * @call: the access
 * @decision: to fill; its reason is set
 * @plan: with the threshold
 *
 * At a mark with too little left to read before eviction, the pages ahead are rescued and nothing
 * is read.
 */
FR_INLINE void fr_2006_submit(const struct fr_call *call, struct fr_decision *decision,
			      const struct fr_2006_plan *plan)
{
	struct fr_state *state = call->state;
	fr_u32 max = decision->max_pages;
	fr_u64 growth = (fr_u64)state->size * (2 + fr_ratio(call->limits) / 64) + max / 16;
	fr_u64 size = fr_sub(plan->threshold, plan->ahead);
	fr_u64 ahead = size / FR_2006_LOOKAHEAD_RATIO;
	fr_u32 whole;

	if (plan->remaining <= plan->ahead && plan->ahead > 1) {
		decision->reason = FR_REASON_RESCUE;
		decision->flags |= FR_DECIDED_RETAIN;
		decision->retain_start = call->access->index;
		decision->retain_pages = fr_u32_of(plan->ahead);
		return;
	}
	size = fr_min(size, fr_min(max, fr_add(growth, call->access->req_pages)));
	if (size == 0) {
		decision->reason = FR_REASON_FULL;
		return;
	}
	ahead = fr_min(ahead, size);
	/* The next measurement needs a stream that moved: a quarter of the window. */
	if (fr_sub(fr_add(plan->ahead, size), ahead) < size / 4)
		ahead = fr_sub(fr_add(plan->ahead, size), size / 4);
	whole = fr_2006_snap(call->limits, plan->start, size, max);
	if (whole != 0) {
		size = whole;
		ahead = 0;
	}
	state->aged_pages = call->limits->aged_pages;
	state->prev_page = call->access->index;
	state->ahead_size = 0;
	fr_open_window(call, decision, plan->start, (fr_u32)size, fr_u32_of(ahead));
}

/**
 * fr_2006_context() - the context method
 * @call: the access
 * @decision: to fill
 * @plan: with start and ahead
 * @min: the smallest window
 */
FR_INLINE void fr_2006_context(const struct fr_call *call, struct fr_decision *decision,
			       struct fr_2006_plan *plan, fr_u32 min)
{
	const struct fr_near *near = call->near;
	const struct fr_limits *limits = call->limits;
	fr_u32 max = decision->max_pages;
	fr_u64 history = fr_min(near->before_pages, fr_2006_history_max(limits, max));
	fr_u64 hits = (fr_u64)near->sampled_hits * limits->readahead_hit_rate;

	decision->reason = FR_REASON_CONTEXT;
	decision->saw_pages = fr_u32_of(history);
	if (history <= min || (history < call->access->index && hits < near->sampled))
		plan->threshold = min;
	else if (history >= call->access->index)
		/* From the start of the file on: trusted in full. */
		plan->threshold = history;
	else
		plan->threshold = history * fr_ratio(limits) / 100;
	plan->threshold = fr_max(plan->threshold, min);
	plan->remaining = fr_max(history, min);
	fr_2006_submit(call, decision, plan);
}

FR_INLINE void fr_2006_mark(const struct fr_call *call, struct fr_decision *decision)
{
	struct fr_2006_plan plan;
	fr_u32 max = fr_2006_max(call->state, call->limits);
	fr_u64 reach = (fr_u64)max + max / 4;

	if (call->access->flags & FR_ACCESS_WRITEBACK)
		return;
	decision->flags |= FR_DECIDED_CLEAR_MARK;
	decision->max_pages = max;
	if (max == 0 || (call->access->flags & FR_ACCESS_CONGESTED)) {
		decision->reason = FR_REASON_DISABLED;
		return;
	}
	if (fr_2006_measure(call->state, call->access, call->limits, &plan)) {
		decision->reason = FR_REASON_SUBSEQUENT;
		fr_2006_submit(call, decision, &plan);
		return;
	}
	decision->reason = FR_REASON_FULL;
	if (call->near->after_pages >= reach || call->limits->readahead_hit_rate == 0)
		return;
	plan.ahead = call->near->after_pages + 1;
	plan.start = fr_add(call->access->index, plan.ahead);
	fr_2006_context(call, decision, &plan, fr_2006_min(call->limits, max));
}

/**
 * fr_2006_backward() - reads that go backward
 * @call: a miss
 * @decision: filled when the answer is 1
 *
 * Where the previous read began is not remembered, only where it ended; the reads of
 * a backward stream are taken to be of one size.
 */
FR_INLINE fr_u32 fr_2006_backward(const struct fr_call *call, struct fr_decision *decision)
{
	struct fr_state *state = call->state;
	fr_u64 req = call->access->req_pages;
	fr_u64 index = call->access->index;
	fr_u64 end = fr_add(index, req);
	fr_u64 prev_end = state->prev_end_bytes >> FR_PAGE_SHIFT;
	fr_u64 prev = fr_sub(prev_end, req);
	fr_u64 reach = fr_add(fr_add(req, req), 2 * (fr_u64)call->limits->readahead_hit_rate);
	fr_u64 size;

	if (state->prev_end_bytes == FR_U64_MAX || prev <= index || fr_sub(prev, end) >= reach)
		return 0;
	size = fr_add(fr_add(req, req), 2 * (fr_u64)state->ahead_size);
	size = fr_min(fr_min(size, decision->max_pages), end);
	decision->reason = FR_REASON_BACKWARD;
	fr_open_window(call, decision, fr_sub(end, size), (fr_u32)size, 0);
	state->ahead_size = (fr_u32)size;
	return 1;
}

/* A page of the last window that is gone before it was read. */
FR_INLINE fr_u32 fr_2006_thrashed(const struct fr_state *state, fr_u64 index)
{
	return state->size != 0 && index > state->start &&
	       index < fr_add(state->start, state->size);
}

FR_INLINE void fr_2006_miss(const struct fr_call *call, struct fr_decision *decision)
{
	struct fr_state *state = call->state;
	const struct fr_limits *limits = call->limits;
	fr_u64 index = call->access->index;
	fr_u64 req = call->access->req_pages;
	fr_u32 max = fr_2006_max(state, limits);
	fr_u32 min = fr_2006_min(limits, max);
	fr_u64 size, gap_max = fr_2006_gap_max(limits, min);
	struct fr_2006_plan plan = { index, 0, 0, 0 };

	if (fr_read_disabled(call, call->access->req_pages, decision))
		return;
	decision->max_pages = max;
	if (index == 0) {
		size = fr_min(fr_max(FR_2006_INITIAL_PAGES, req), max);
		decision->reason = FR_REASON_INITIAL;
		state->aged_pages = limits->aged_pages;
		state->prev_page = 0;
		state->ahead_size = 0;
		fr_open_window(call, decision, 0, (fr_u32)size,
			       (fr_u32)(size > req ? fr_sub(size, req) : size / 2));
		return;
	}
	if (call->near->before_pages != 0 && limits->readahead_hit_rate != 0) {
		fr_2006_context(call, decision, &plan, min);
		return;
	}
	/*
	 * Nothing is left before it, and it was read ahead: the stream read too much since the last
	 * window. How the kernel patches sized the recovery is not documented; here it is the
	 * ratio's share of those pages.
	 */
	if (fr_2006_thrashed(state, index)) {
		size = fr_mul(fr_sub(index, state->start), fr_ratio(limits)) / 100;
		decision->reason = FR_REASON_THRASHED;
		state->aged_pages = limits->aged_pages;
		state->prev_page = index;
		fr_open_window(call, decision, index, (fr_u32)fr_min(fr_max(size, min), max), 0);
		return;
	}
	if (fr_2006_backward(call, decision))
		return;
	if (gap_max != 0 && call->near->gap_pages < fr_min(gap_max, index)) {
		fr_2006_context(call, decision, &plan, min);
		return;
	}
	fr_as_asked(call, decision, fr_min(req, max), FR_REASON_RANDOM);
}

FR_INLINE void fr_adaptive_2006_decide(const struct fr_call *call, struct fr_decision *decision)
{
	fr_decision_clear(decision);
	switch (call->access->kind) {
	case FR_READ_MISS:
		fr_2006_miss(call, decision);
		break;
	case FR_READ_MARK:
		fr_2006_mark(call, decision);
		break;
	case FR_FORCE:
		fr_force(call, decision, call->access->req_pages, FR_REASON_FORCED);
		break;
	default:
		fr_fault_around(call, decision, FR_MMAP_LOTS_A_MISS,
				fr_2006_max(call->state, call->limits));
		break;
	}
}

#endif /* FOREREAD_ADAPTIVE_2006_H */
