/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Functions shared by the policies that are told of every access: their view of an access, and the
 * accesses that they all answer alike.
 */
#ifndef FOREREAD_SIGHT_H
#define FOREREAD_SIGHT_H

#include "common.h"

/**
 * struct fr_sight - an access, as a policy sees it that is told of each
 * @pages: how many it is of, at least 1, within the file; a fault is of one, or of those that
 *	were mapped with it
 * @fault: whether it is one
 * @missed: whether something of it is not cached
 */
struct fr_sight {
	fr_u64 pages;
	fr_u32 fault;
	fr_u32 missed;
};

/**
 * fr_see() - looks at an access
 * @call: whose
 * @decision: filled, where the answer is the same for all
 * @sight: filled, where it is not
 *
 * Return: 1 when the policy has to decide, 0 when all is decided.
 */
FR_INLINE fr_u32 fr_see(const struct fr_call *call, struct fr_decision *decision,
			struct fr_sight *sight)
{
	const struct fr_access *access = call->access;
	fr_u64 pages = 1;

	fr_decision_clear(decision);
	sight->fault = 1;
	sight->missed = access->kind == FR_FAULT_MISS;
	switch (access->kind) {
	case FR_READ_LOOK:
		sight->fault = 0;
		sight->missed = (access->flags & FR_ACCESS_MISSED) != 0;
		pages = fr_max(access->req_pages, 1);
		break;
	case FR_FAULT_HIT:
		/* Fault-around may be over. */
		pages = fr_max(access->req_pages, 1);
		break;
	case FR_FAULT_MISS:
	case FR_FAULT_MARK:
		break;
	case FR_READ_MISS:
		/* Pages that a look had asked for were evicted before their use. */
		decision->reason = FR_REASON_RANDOM;
		fr_read_ahead(call, decision, access->index, fr_u32_of(access->req_pages));
		return 0;
	case FR_FORCE:
		fr_force(call, decision, access->req_pages, FR_REASON_FORCED);
		return 0;
	default:
		return 0;
	}
	sight->pages = fr_min(pages, fr_sub(call->limits->file_pages, access->index));
	return sight->pages != 0;
}

/* Reads only the missing pages of an access, for a reason. */
FR_INLINE void fr_read_missed(const struct fr_call *call, struct fr_decision *decision,
			      const struct fr_sight *sight, fr_u8 reason)
{
	decision->reason = reason;
	if (sight->missed)
		fr_read_ahead(call, decision, call->access->index, fr_u32_of(sight->pages));
}

#endif /* FOREREAD_SIGHT_H */
