/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Whether a process belongs to what is recorded: a program, or the whole machine. */
#ifndef FOREREAD_RECORD_PROCESS_H
#define FOREREAD_RECORD_PROCESS_H

#include "record_tables.h"

static __always_inline bool is_of_replay(u32 tgid)
{
	if (!replay_tgid)
		return false;
	if (tgid == replay_tgid)
		return true;
#pragma unroll
	for (u32 at = 0; at < REPLAY_HELPERS_MAX; at++)
		if (tgid == replay_helpers[at])
			return true;
	return false;
}

static __always_inline bool tgid_is_traced(u32 tgid)
{
	u8 *state;

	/* All but this recorder itself and the replay. Kernel threads read too: firmware, images.
	 */
	if (records_machine)
		return tgid != whoami_tgid && !is_of_replay(tgid);
	state = bpf_map_lookup_elem(&fr_rec_traced, &tgid);
	return state && *state == TRACED_ACTIVE;
}

static __always_inline bool task_is_traced(struct task_struct *task, struct recent *recent)
{
	u32 tgid;

	if (recent->task == (u64)task && recent->task_start_ns == task->start_time &&
	    recent->epoch == epoch)
		return recent->is_traced;
	tgid = task->tgid;
	recent->task = (u64)task;
	recent->task_start_ns = task->start_time;
	recent->epoch = epoch;
	recent->is_traced = tgid_is_traced(tgid);
	recent->host = 0;
	recent->start_page = 0;
	recent->end_page = 0;
	if (recent->fault_owed)
		lose_fault();
	recent->fault_owed = 0;
	recent->start_dentry = 0;
	recent->fault_address = 0;
	recent->traced_address = 0;
	recent->fault_mapping = 0;
	recent->is_fault = 0;
	recent->has_waited = 0;
	recent->brings_metadata = 0;
	return recent->is_traced;
}

/* The current task's cache when it belongs to the program, else NULL. */
static __always_inline struct recent *traced_now(void)
{
	struct recent *recent = bpf_map_lookup_elem(&fr_rec_recents, &ZERO);

	if (!recent)
		return NULL;
	return task_is_traced(bpf_get_current_task_btf(), recent) ? recent : NULL;
}

#endif
