/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * whole-file: all of it, at once.
 *
 * It assumes that a program which reads a page of a file will read the file. The first page that is
 * missing brings in everything from there to the end, and then the pages before it, up to
 * limits.whole_pages_max in all. It is right for small files, for libraries and models that are
 * mapped and run through, and for the reads of a cold start. For a reader that continues, it is the
 * upper bound of the benefit of readahead within one file. For a reader that stops, it is the upper
 * bound of the waste. After the first time it only answers misses beyond the requested pages, from
 * there on.
 */
#ifndef FOREREAD_WHOLE_FILE_H
#define FOREREAD_WHOLE_FILE_H

#include "common.h"

FR_INLINE void fr_whole_file_wants(const struct fr_state *state, const struct fr_access *access,
				   const struct fr_limits *limits, struct fr_wants *wants)
{
	(void)state;
	(void)access;
	(void)limits;
	fr_wants_clear(wants);
}

FR_INLINE void fr_whole_file_miss(const struct fr_call *call, struct fr_decision *decision)
{
	const struct fr_limits *limits = call->limits;
	fr_u64 index = call->access->index;
	fr_u32 most = limits->whole_pages_max;
	fr_u32 first = (call->state->flags & FR_STATE_WHOLE) == 0;
	fr_u32 behind, before, order;

	if (fr_read_disabled(call, call->access->req_pages, decision))
		return;
	if (limits->pages_max != 0)
		most = (fr_u32)fr_min(most, limits->pages_max);
	decision->max_pages = most;
	if (index >= limits->file_pages)
		return;
	/* No bound at all would be no readahead at all: the request is the least. */
	if (most == 0) {
		fr_force(call, decision, call->access->req_pages, FR_REASON_RANDOM);
		return;
	}
	call->state->flags |= FR_STATE_WHOLE;
	behind = (fr_u32)fr_min(fr_sub(limits->file_pages, index), most);
	before = (fr_u32)fr_min(index, fr_sub(most, behind));
	order = limits->folio_order_max;
	decision->reason = FR_REASON_WHOLE;
	fr_open_window(call, decision, index, behind, 0);
	fr_fold(call, decision, order);
	if (!first || before == 0)
		return;
	fr_emit(decision, limits, fr_sub(index, before), before, 0);
	decision->window[1].order = decision->window[0].order;
	decision->window[1].flags = decision->window[0].flags;
}

FR_INLINE void fr_whole_file_decide(const struct fr_call *call, struct fr_decision *decision)
{
	fr_decision_clear(decision);
	switch (call->access->kind) {
	case FR_READ_MISS:
	case FR_FAULT_MISS:
		fr_whole_file_miss(call, decision);
		break;
	case FR_FORCE:
		fr_force(call, decision, call->access->req_pages, FR_REASON_FORCED);
		break;
	default:
		break;
	}
}

#endif /* FOREREAD_WHOLE_FILE_H */
