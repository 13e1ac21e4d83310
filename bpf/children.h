/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A process and all that come from it. */
#ifndef FOREREAD_CHILDREN_H
#define FOREREAD_CHILDREN_H

/* The includer has brought in the kernel's types and <bpf/bpf_core_read.h>. */

/* The thread whose next child is the tree's first process, 0 none. */
u32 adopt_pid;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, u8);
} tree SEC(".maps");

/* Takes the child of one of the tree, or of the adopting thread, in; false when there is no room.
 */
static __always_inline bool take_in(struct task_struct *parent, struct task_struct *child)
{
	u32 parent_tgid = parent->tgid, child_tgid = child->tgid;
	u8 one = 1;

	if (parent_tgid == child_tgid)
		return true;
	if (adopt_pid && (u32)parent->pid == adopt_pid)
		adopt_pid = 0;
	else if (!bpf_map_lookup_elem(&tree, &parent_tgid))
		return true;
	return bpf_map_update_elem(&tree, &child_tgid, &one, BPF_ANY) == 0;
}

/* Whether a process ends with this thread, which is its last and need not be its leader. */
static __always_inline bool is_last_thread(struct task_struct *task)
{
	return BPF_CORE_READ(task, signal, live.counter) == 0;
}

#endif
