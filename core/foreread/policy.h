/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * All policies behind one door.
 */
#ifndef FOREREAD_POLICY_H
#define FOREREAD_POLICY_H

#include "file.h"
#include "probe.h"
#include "issue.h"
#include "linux.h"
#include "linux_2_6_13.h"
#include "adaptive_2005.h"
#include "adaptive_2006.h"
#include "safe_2010.h"
#include "none.h"
#include "whole_file.h"

/**
 * fr_policy_looks() - whether a policy is asked at every request
 * @policy: enum fr_policy
 *
 * Return: 1 when it is driven by FR_READ_LOOK at the first page of each read(2) and
 * at decision.next_look, besides misses; 0 when misses and marks are enough.
 */
FR_INLINE fr_u32 fr_policy_looks(fr_u32 policy)
{
	return policy == FR_LINUX_2_6_13;
}

/**
 * fr_wants() - what a policy needs to know of the page cache for a decision
 * @policy: enum fr_policy; an unknown one wants nothing
 * @state: of the file
 * @access: what happened
 * @limits: what holds
 * @wants: filled
 */
FR_INLINE void fr_wants(fr_u32 policy, const struct fr_state *state, const struct fr_access *access,
			const struct fr_limits *limits, struct fr_wants *wants)
{
	switch (policy) {
	case FR_LINUX:
		fr_linux_wants(state, access, limits, wants);
		break;
	case FR_LINUX_2_6_13:
		fr_linux_2_6_13_wants(state, access, limits, wants);
		break;
	case FR_ADAPTIVE_2005:
		fr_adaptive_2005_wants(state, access, limits, wants);
		break;
	case FR_ADAPTIVE_2006:
		fr_adaptive_2006_wants(state, access, limits, wants);
		break;
	case FR_SAFE_2010:
		fr_safe_2010_wants(state, access, limits, wants);
		break;
	case FR_WHOLE_FILE:
		fr_whole_file_wants(state, access, limits, wants);
		break;
	default:
		fr_none_wants(state, access, limits, wants);
		break;
	}
}

/**
 * fr_decide() - decides
 * @policy: enum fr_policy; an unknown one decides as FR_NONE
 * @call: the access, its file, what is cached nearby, what holds
 * @decision: filled
 */
FR_INLINE void fr_decide(fr_u32 policy, const struct fr_call *call, struct fr_decision *decision)
{
	switch (policy) {
	case FR_LINUX:
		fr_linux_decide(call, decision);
		break;
	case FR_LINUX_2_6_13:
		fr_linux_2_6_13_decide(call, decision);
		break;
	case FR_ADAPTIVE_2005:
		fr_adaptive_2005_decide(call, decision);
		break;
	case FR_ADAPTIVE_2006:
		fr_adaptive_2006_decide(call, decision);
		break;
	case FR_SAFE_2010:
		fr_safe_2010_decide(call, decision);
		break;
	case FR_WHOLE_FILE:
		fr_whole_file_decide(call, decision);
		break;
	default:
		fr_none_decide(call, decision);
		break;
	}
}

#endif /* FOREREAD_POLICY_H */
