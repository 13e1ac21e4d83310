/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The names of policies and reasons, as people type and read them. Not for BPF: a
 * string there is a map.
 */
#ifndef FOREREAD_NAMES_H
#define FOREREAD_NAMES_H

#include "types.h"

/**
 * fr_policy_name() - name of a policy
 * @policy: enum fr_policy
 *
 * Return: the name, or 0 for an unknown policy.
 */
FR_INLINE const char *fr_policy_name(fr_u32 policy)
{
	switch (policy) {
	case FR_LINUX:
		return "linux";
	case FR_LINUX_2_6_13:
		return "linux-2.6.13";
	case FR_ADAPTIVE_2005:
		return "adaptive-2005";
	case FR_ADAPTIVE_2006:
		return "adaptive-2006";
	case FR_SAFE_2010:
		return "safe-2010";
	case FR_NONE:
		return "none";
	case FR_WHOLE_FILE:
		return "whole-file";
	case FR_LEAP:
		return "leap";
	case FR_DISTANCE:
		return "distance";
	case FR_FOREREAD:
		return "foreread";
	case FR_LINUX_6_1:
		return "linux-6.1";
	case FR_LINUX_6_12:
		return "linux-6.12";
	case FR_LINUX_7_3:
		return "linux-7.3";
	default:
		return 0;
	}
}

/**
 * fr_reason_name() - name of a reason
 * @reason: enum fr_reason
 *
 * Return: the name, or 0 for an unknown reason.
 */
FR_INLINE const char *fr_reason_name(fr_u32 reason)
{
	switch (reason) {
	case FR_REASON_NOTHING:
		return "nothing";
	case FR_REASON_INITIAL:
		return "initial";
	case FR_REASON_OVERSIZE:
		return "oversize";
	case FR_REASON_SUBSEQUENT:
		return "subsequent";
	case FR_REASON_FOREIGN:
		return "foreign";
	case FR_REASON_CONTEXT:
		return "context";
	case FR_REASON_RANDOM:
		return "random";
	case FR_REASON_AROUND:
		return "around";
	case FR_REASON_EXEC:
		return "exec";
	case FR_REASON_HUGE:
		return "huge";
	case FR_REASON_FORCED:
		return "forced";
	case FR_REASON_ADVISED_RANDOM:
		return "advised-random";
	case FR_REASON_DISABLED:
		return "disabled";
	case FR_REASON_MISSES:
		return "misses";
	case FR_REASON_AHEAD:
		return "ahead";
	case FR_REASON_WITHIN:
		return "within";
	case FR_REASON_IN_CACHE:
		return "in-cache";
	case FR_REASON_FULL:
		return "full";
	case FR_REASON_THRASHED:
		return "thrashed";
	case FR_REASON_RESCUE:
		return "rescue";
	case FR_REASON_BACKWARD:
		return "backward";
	case FR_REASON_WHOLE:
		return "whole";
	case FR_REASON_SEEKED:
		return "seeked";
	case FR_REASON_STREAM:
		return "stream";
	case FR_REASON_STRIDE:
		return "stride";
	case FR_REASON_REVERSE:
		return "reverse";
	case FR_REASON_SILENT:
		return "silent";
	default:
		return 0;
	}
}

#endif /* FOREREAD_NAMES_H */
