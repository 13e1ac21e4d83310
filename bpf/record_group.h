/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Control groups of the processes that need something: with systemd, a group is a unit. The
 * hierarchy is that of cgroup v2. Without it all processes are in its root.
 */
#ifndef FOREREAD_RECORD_GROUP_H
#define FOREREAD_RECORD_GROUP_H

#include "record_tables.h"

/* Deeper ones end at this many names from below. */
#define GROUP_DEPTH_MAX 32

struct group_walk {
	u64 group;
	u32 number;
	u32 pad;
};

/* The number of a group, given when it has none. *is_new tells which; 0 when the table is full. */
static __always_inline u32 group_number(struct cgroup *group, bool *is_new)
{
	u64 key = BPF_CORE_READ(group, kn, id);
	u32 *known = bpf_map_lookup_elem(&fr_rec_groups, &key);
	struct counts *c;
	u32 fresh;

	*is_new = false;
	if (known)
		return *known;
	fresh = __sync_fetch_and_add(&next_group, 1);
	if (!bpf_map_update_elem(&fr_rec_groups, &key, &fresh, BPF_NOEXIST)) {
		*is_new = true;
		return fresh;
	}
	known = bpf_map_lookup_elem(&fr_rec_groups, &key);
	if (known)
		return *known;
	c = counts();
	if (c)
		c->lost_records++;
	return 0;
}

/* Sends one group and steps to its parent; stops at a parent that was sent before. */
static long send_group(u64 depth, struct group_walk *walk)
{
	struct scratch *scratch = bpf_map_lookup_elem(&fr_rec_scratches, &ZERO);
	struct cgroup *group = (struct cgroup *)walk->group;
	struct cgroup_subsys_state *above;
	struct cgroup *parent = NULL;
	struct group_record *record;
	struct counts *c;
	bool is_new = false;
	long length = 0;

	if (!scratch)
		return 1;
	record = &scratch->group;
	record->type = RECORD_GROUP;
	record->number = walk->number;
	record->parent = 0;
	above = BPF_CORE_READ(group, self.parent);
	if (above)
		parent = BPF_CORE_READ(above, cgroup);
	if (parent) {
		record->parent = group_number(parent, &is_new);
		length = bpf_probe_read_kernel_str(record->name, sizeof(record->name),
						   BPF_CORE_READ(group, kn, name));
	}
	/* Without the NUL. */
	record->name_length = length > 0 ? (u32)length - 1 : 0;
	if (bpf_ringbuf_output(&fr_rec_records, record, sizeof(*record), BPF_RB_NO_WAKEUP)) {
		c = counts();
		if (c)
			c->lost_records++;
	}
	if (!parent || !is_new)
		return 1;
	walk->group = (u64)parent;
	walk->number = record->parent;
	return 0;
}

/* The number of the current task's group; 0 when only a program is recorded. */
__noinline u32 group_now(void)
{
	struct group_walk walk = {};
	struct cgroup *group;
	bool is_new;

	if (!records_machine)
		return 0;
	group = BPF_CORE_READ(bpf_get_current_task_btf(), cgroups, dfl_cgrp);
	if (!group)
		return 0;
	walk.group = (u64)group;
	walk.number = group_number(group, &is_new);
	if (is_new) {
		u32 number = walk.number;

		bpf_loop(GROUP_DEPTH_MAX, send_group, &walk, 0);
		return number;
	}
	return walk.number;
}

#endif
