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
#include "leap.h"
#include "distance.h"
#include "foreread.h"

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
 * fr_policy_sees() - whether a policy is told of every access
 * @policy: enum fr_policy
 *
 * Return: 1 when it is driven by FR_READ_LOOK at each read(2), with FR_ACCESS_MISSED
 * where something of it is not cached, and by FR_FAULT_MISS or FR_FAULT_HIT at each fault,
 * before fault-around; marks and further misses of the same read(2) are then none of its
 * business. 0 for the others.
 */
FR_INLINE fr_u32 fr_policy_sees(fr_u32 policy)
{
	return policy == FR_LEAP || policy == FR_DISTANCE || policy == FR_FOREREAD;
}

/**
 * fr_policy_remembers() - whether a policy uses fr_call.streams
 * @policy: enum fr_policy
 *
 * Return: 1 or 0. The memory begins as zero bytes.
 */
FR_INLINE fr_u32 fr_policy_remembers(fr_u32 policy)
{
	return policy == FR_LEAP || policy == FR_FOREREAD;
}

/**
 * fr_wants() - facts about the page cache that a policy needs for a decision
 * @policy: enum fr_policy; an unknown one wants nothing
 * @state: of the file
 * @access: the access
 * @limits: the limits
 * @wants: filled
 */
FR_INLINE void fr_wants(fr_u32 policy, const struct fr_state *state, const struct fr_access *access,
			const struct fr_limits *limits, struct fr_wants *wants)
{
	switch (policy) {
	case FR_LINUX:
	case FR_LINUX_6_1:
	case FR_LINUX_6_12:
	case FR_LINUX_7_3:
		fr_linux_wants(policy, state, access, limits, wants);
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
 * @call: the access, its file, the nearby cached pages, the limits
 * @decision: filled
 */
FR_INLINE void fr_decide(fr_u32 policy, const struct fr_call *call, struct fr_decision *decision)
{
	switch (policy) {
	/* One copy for all: four would be more than a jump of BPF reaches over. */
	case FR_LINUX:
	case FR_LINUX_6_1:
	case FR_LINUX_6_12:
	case FR_LINUX_7_3:
		fr_linux_decide(policy, call, decision);
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
	case FR_DISTANCE:
		fr_distance_decide(call, decision);
		break;
	case FR_LEAP:
		fr_leap_decide(call, decision);
		break;
	case FR_FOREREAD:
		fr_foreread_decide(call, decision);
		break;
	default:
		fr_none_decide(call, decision);
		break;
	}
}

/**
 * fr_waited() - a reader waited for a page, and has it
 * @policy: enum fr_policy
 * @call: as for the decision; only its access's thread and the kept state are used
 * @waited_ns: how long
 * @asked: whether the page was on its way when the reader came to it
 *
 * Besides fr_feedback() with FR_FEEDBACK_LATE, which is about the file.
 */
FR_INLINE void fr_waited(fr_u32 policy, const struct fr_call *call, fr_u64 waited_ns, fr_u32 asked)
{
	if (policy == FR_FOREREAD && call->streams)
		fr_foreread_waited(call, waited_ns, asked);
}

/**
 * fr_issued() - the windows of a decision were issued
 * @policy: enum fr_policy
 * @streams: of the file, or 0
 * @thread: whose access it was
 * @pages: asked for
 * @read_pages: how many of them are being read; the others were cached
 */
FR_INLINE void fr_issued(fr_u32 policy, struct fr_streams *streams, fr_u32 thread, fr_u64 pages,
			 fr_u64 read_pages)
{
	if (policy == FR_FOREREAD && streams)
		fr_foreread_issued(streams, thread, pages, read_pages);
}

#endif /* FOREREAD_POLICY_H */
