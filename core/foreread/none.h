/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * none: no readahead.
 *
 * It assumes nothing about programs. It reads the requested pages when they are requested, in one
 * piece as far as the device takes it, and nothing else. It is the reference for the benefit of a
 * policy, and the minimum that a policy must reach. No page of it is ever wasted, and a reader
 * waits for every page of it. Pages that a program requests ahead of time by itself (WILLNEED,
 * readahead(2)) are read.
 */
#ifndef FOREREAD_NONE_H
#define FOREREAD_NONE_H

#include "common.h"

FR_INLINE void fr_none_wants(const struct fr_state *state, const struct fr_access *access,
			     const struct fr_limits *limits, struct fr_wants *wants)
{
	(void)state;
	(void)access;
	(void)limits;
	fr_wants_clear(wants);
}

FR_INLINE void fr_none_decide(const struct fr_call *call, struct fr_decision *decision)
{
	fr_decision_clear(decision);
	if (call->access->kind == FR_READ_MISS)
		fr_force(call, decision, call->access->req_pages, FR_REASON_RANDOM);
	else if (call->access->kind == FR_FORCE)
		fr_force(call, decision, call->access->req_pages, FR_REASON_FORCED);
}

#endif /* FOREREAD_NONE_H */
