/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A process tree: a process and its descendants. */
#ifndef FOREREAD_CHILDREN_H
#define FOREREAD_CHILDREN_H

/* The includer has brought in the kernel's types and <bpf/bpf_core_read.h>. */

/* The thread whose next child is the tree's first process, 0 none. */
u32 adopt_pid;

/*
 * The name is the same in each object. If an object gets the table of another one, libbpf gives it
 * that table's name, and its skeleton finds maps by their names.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, u8);
} fr_tree SEC(".maps");

/* Adds a child of the tree or of the adopting thread; false when there is no room.
 */
static __always_inline bool take_in(struct task_struct *parent, struct task_struct *child)
{
	u32 parent_tgid = parent->tgid, child_tgid = child->tgid;
	u8 one = 1;

	if (parent_tgid == child_tgid)
		return true;
	if (adopt_pid && (u32)parent->pid == adopt_pid)
		adopt_pid = 0;
	else if (!bpf_map_lookup_elem(&fr_tree, &parent_tgid))
		return true;
	return bpf_map_update_elem(&fr_tree, &child_tgid, &one, BPF_ANY) == 0;
}

/* Whether this thread is the last of its process; it need not be the leader. */
static __always_inline bool is_last_thread(struct task_struct *task)
{
	return BPF_CORE_READ(task, signal, live.counter) == 0;
}

#endif
