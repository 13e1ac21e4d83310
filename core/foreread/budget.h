/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The memory that all streams of a machine share, and each stream's part of it.
 *
 * A stream that consumes r pages a second and reads ahead in requests of d pages causes r / d
 * requests a second. Each of them costs a device its latency. The sum of all d is bounded. Under
 * that bound, the sum of all r / d is least if d is in proportion to the square root of r. (This is
 * Lagrange's condition, and Wilson's rule of the economic order quantity.) So a stream's weight is
 * that square root, and its share is the budget x its weight / the sum of all weights. A stream
 * that wants more than its share gets all that it wants while that is at most half of the free
 * budget. Otherwise it gets a quarter of its share. Readers finish sooner on average when some get
 * all that they want, one after the other, than when all get less.
 *
 * Weights are summed by epochs, since the end of a stream is not reported. In each epoch a stream
 * that acts adds its weight once, and the sum of the last whole epoch stands for all streams. An
 * epoch ends when as many pages were read ahead as the budget has. The pages of a stream that did
 * not act meanwhile are gone from memory anyway.
 */
#ifndef FOREREAD_BUDGET_H
#define FOREREAD_BUDGET_H

#include "arith.h"

/**
 * struct fr_budget - memory for pages that were read ahead
 * @asked_pages: pages asked for so far, by all streams
 * @ahead_pages: of those, pages ahead of their readers
 * @epoch_pages: value of @asked_pages when the epoch began
 * @epoch_pages_before: the same of the epoch before
 * @epoch_ns: when the epoch began
 * @life_ns: duration of the epoch before; 0 means unknown
 * @consume_ns: time that readers take for a page, all streams together; 0 means unknown
 * @sum: weights of the streams that acted in this epoch
 * @sum_before: the same of the epoch before
 * @epoch: its number; wraps
 * @count: number of streams that acted in this epoch
 * @count_before: the same of the epoch before
 * @reserved: 0
 *
 * All zero bytes is an unused budget.
 */
struct fr_budget {
	fr_u64 asked_pages;
	fr_u64 ahead_pages;
	fr_u64 epoch_pages;
	fr_u64 epoch_pages_before;
	fr_u64 epoch_ns;
	fr_u64 life_ns;
	fr_u64 consume_ns;
	fr_u64 sum;
	fr_u64 sum_before;
	fr_u32 epoch;
	fr_u32 count;
	fr_u32 count_before;
	fr_u32 reserved;
};

_Static_assert(sizeof(struct fr_budget) == 88, "no hidden padding");

/* Ends an epoch in which the whole budget was asked for. */
FR_INLINE void fr_budget_epoch(struct fr_budget *budget, fr_u64 total_pages, fr_u64 now_ns)
{
	if (budget->epoch_ns == 0)
		budget->epoch_ns = now_ns;
	if (fr_sub(budget->asked_pages, budget->epoch_pages) <= total_pages)
		return;
	/*
	 * The end of a stream is not seen. Pages ahead of an ended stream were requested before the
	 * last two epochs, or soon will have been: two epochs request as much as memory holds.
	 */
	budget->ahead_pages = fr_min(budget->ahead_pages,
				     fr_sub(budget->asked_pages, budget->epoch_pages_before));
	budget->epoch_pages_before = budget->epoch_pages;
	budget->epoch_pages = budget->asked_pages;
	budget->life_ns = fr_sub(now_ns, budget->epoch_ns);
	budget->epoch_ns = now_ns;
	budget->sum_before = budget->sum;
	budget->count_before = budget->count;
	budget->sum = 0;
	budget->count = 0;
	budget->epoch = budget->epoch >= FR_U32_MAX - 1 ? 0 : budget->epoch + 1;
}

/**
 * fr_budget_life_ns() - the lifetime of a page that is read now
 * @budget: shared; an epoch that is over ends
 * @total_pages: how large it is
 * @now_ns: the time
 *
 * Return: time in which @total_pages are requested, at the recent rate; 0 means unknown.
 */
FR_ONCE fr_u64 fr_budget_life_ns(struct fr_budget *budget, fr_u64 total_pages, fr_u64 now_ns)
{
	fr_u64 asked, since_ns;

	if (!budget)
		return 0;
	fr_budget_epoch(budget, total_pages, now_ns);
	asked = fr_sub(budget->asked_pages, budget->epoch_pages);
	since_ns = fr_sub(now_ns, budget->epoch_ns);
	/* A quarter of an epoch shows the rate; before that the last one stands. */
	if (asked < total_pages / 4)
		return budget->life_ns;
	since_ns = fr_div(fr_mul(since_ns / 1024, fr_u32_of(total_pages)), asked);
	since_ns = fr_add(fr_mul(since_ns, 1024), 1);
	return budget->life_ns == 0 ? since_ns : fr_min(since_ns, budget->life_ns);
}

/**
 * fr_budget_share() - a stream's part of the budget
 * @budget: shared
 * @total_pages: its size
 * @want: pages ahead that it would have without this bound
 * @weight: of the stream; 0 where its rate is not known yet: the average is taken
 * @epoch: in which the stream last acted; set to the present one
 *
 * Return: @want if it is within the share, or within half of the free budget; else a quarter of
 * the share. A share is at least a quarter of an equal part, so that no stream starves.
 */
FR_ONCE fr_u64 fr_budget_share(struct fr_budget *budget, fr_u64 total_pages, fr_u64 want,
			       fr_u32 weight, fr_u32 *epoch)
{
	fr_u64 all, streams, total = fr_min(total_pages, FR_U32_MAX);
	fr_u32 now;

	if (!budget || !epoch)
		return want;
	if (weight == 0)
		weight = (fr_u32)fr_clamp(fr_div(budget->sum, budget->count), 1, 1U << 20);
	/* Epochs count from 1 for streams, so that a new one has never acted. */
	now = fr_u32_of(budget->epoch + 1ULL);
	if (*epoch != now || budget->sum == 0) {
		*epoch = now;
		budget->sum = fr_add(budget->sum, weight);
		budget->count = fr_u32_of((fr_u64)budget->count + 1);
	}
	all = fr_max(fr_max(budget->sum, budget->sum_before), weight);
	streams = fr_max(fr_max(budget->count, budget->count_before), 1);
	all = fr_max(fr_div(fr_mul(total, weight), all), fr_div(total, streams * 4));
	if (want <= all || want <= fr_sub(total, budget->ahead_pages) / 2)
		return want;
	return all / 4;
}

/**
 * fr_budget_merge() - add the changes of a decision that was made on a copy
 * @budget: shared; other decisions may have changed it since it was copied
 * @before: the copy as the decision began with it
 * @after: the copy as the decision left it
 *
 * So decisions on different devices need not wait for each other. Where no other decision came
 * between, @budget becomes @after. Otherwise pages and weights of both count. An epoch that both
 * have ended ends once. Of the two times for a page the later one stands: each differs from the
 * average of both by one sample.
 */
FR_INLINE void fr_budget_merge(struct fr_budget *budget, const struct fr_budget *before,
			       const struct fr_budget *after)
{
	fr_u64 sum, count;

	budget->asked_pages =
		fr_add(budget->asked_pages, fr_sub(after->asked_pages, before->asked_pages));
	budget->ahead_pages =
		fr_sub(fr_add(budget->ahead_pages, after->ahead_pages), before->ahead_pages);
	if (after->consume_ns != before->consume_ns)
		budget->consume_ns = after->consume_ns;
	if (budget->epoch_ns == 0)
		budget->epoch_ns = after->epoch_ns;
	if (after->epoch == before->epoch) {
		sum = fr_sub(after->sum, before->sum);
		count = fr_sub(after->count, before->count);
	} else {
		sum = after->sum;
		count = after->count;
	}
	if (after->epoch != before->epoch && budget->epoch == before->epoch) {
		budget->sum_before = budget->sum;
		budget->count_before = budget->count;
		budget->epoch_pages_before = budget->epoch_pages;
		budget->epoch_pages = after->epoch_pages;
		budget->epoch_ns = after->epoch_ns;
		budget->life_ns = after->life_ns;
		budget->epoch = after->epoch;
		budget->sum = 0;
		budget->count = 0;
	}
	budget->sum = fr_add(budget->sum, sum);
	budget->count = fr_u32_of(fr_add(budget->count, count));
}

#endif /* FOREREAD_BUDGET_H */
