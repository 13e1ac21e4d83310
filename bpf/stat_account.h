/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The account that a thread's access to a file belongs to, and the names of accounts. */
#ifndef FOREREAD_STAT_ACCOUNT_H
#define FOREREAD_STAT_ACCOUNT_H

#include "dentry.h"
#include "stat_tables.h"

static __always_inline bool is_followed_now(void)
{
	u32 tgid;

	if (!only_tree)
		return true;
	tgid = bpf_get_current_pid_tgid() >> 32;
	return bpf_map_lookup_elem(&fr_tree, &tgid);
}

struct climb {
	struct dentry *dentry;
	struct stat_name *name;
};

static long climb_step(u64 depth, struct climb *climb)
{
	struct stat_name *name = bpf_map_lookup_elem(&fr_stat_scratches, &ZERO);
	struct dentry *dentry = climb->dentry;
	struct dentry *parent = BPF_CORE_READ(dentry, d_parent);
	u32 at, length;

	if (!name || !dentry || parent == dentry)
		return 1;
	at = name->path_bytes;
	if (at >= STAT_PATH_BYTES)
		return 1;
	length = BPF_CORE_READ(dentry, d_name.len) & NAME_BYTES_MAX;
	bpf_probe_read_kernel(&name->path[at & (STAT_PATH_BYTES - 1)], length,
			      BPF_CORE_READ(dentry, d_name.name));
	name->path[(at & (STAT_PATH_BYTES - 1)) + length] = 0;
	name->path_bytes = at + length + 1;
	climb->dentry = parent;
	return 0;
}

/* Tells user space the subject of a new account. */
__noinline int tell_name(u64 inode_pointer, u32 account, const struct stat_key *key)
{
	struct stat_name *name = bpf_map_lookup_elem(&fr_stat_scratches, &ZERO);
	struct inode *inode = (struct inode *)inode_pointer;
	struct climb climb = {};
	u32 bytes;

	if (!name || !key)
		return 0;
	name->key = *key;
	name->account = account;
	name->path_bytes = 0;
	BPF_CORE_READ_INTO(&name->comm, bpf_get_current_task_btf(), group_leader, comm);
	if (by_file && inode) {
		climb.dentry = alias_of(inode);
		bpf_loop(64, climb_step, &climb, 0);
	}
	bytes = name->path_bytes;
	if (bytes > sizeof(name->path))
		return 0;
	if (bpf_ringbuf_output(&fr_stat_names, name,
			       __builtin_offsetof(struct stat_name, path) + bytes,
			       BPF_RB_NO_WAKEUP))
		__sync_fetch_and_add(&losses.names, 1);
	return 0;
}

/* The account of the current thread's accesses to a file. */
__noinline u32 account_of(u64 inode_pointer, u32 kind)
{
	struct inode *inode = (struct inode *)inode_pointer;
	struct task_struct *task = bpf_get_current_task_btf();
	struct stat_key key = { .kind = kind };
	u32 *known;
	u32 number;

	if (by_device || by_file) {
		key.device = BPF_CORE_READ(inode, i_sb, s_dev);
		/* A block device's own pages are not the pseudo file system's of its inode. */
		if ((BPF_CORE_READ(inode, i_mode) & S_IFMT) == S_IFBLK)
			key.device = BPF_CORE_READ(inode, i_rdev);
	}
	if (by_file) {
		key.inode = BPF_CORE_READ(inode, i_ino);
		key.generation = BPF_CORE_READ(inode, i_generation);
	}
	if (by_process) {
		key.process = task->tgid;
		key.started_ns = BPF_CORE_READ(task, group_leader, start_time);
	}
	if (by_cgroup)
		key.cgroup = bpf_get_current_cgroup_id();
	known = bpf_map_lookup_elem(&fr_stat_account_table, &key);
	if (known)
		return *known;
	if (accounts_used >= STAT_ACCOUNTS - 1) {
		__sync_fetch_and_add(&losses.shared_accounts, 1);
		return 0;
	}
	number = __sync_fetch_and_add(&accounts_used, 1) + 1;
	if (number >= STAT_ACCOUNTS) {
		__sync_fetch_and_add(&losses.shared_accounts, 1);
		return 0;
	}
	if (!bpf_map_update_elem(&fr_stat_account_table, &key, &number, BPF_NOEXIST)) {
		tell_name(inode_pointer, number, &key);
		return number;
	}
	/* Another CPU was first, or there is no memory. */
	known = bpf_map_lookup_elem(&fr_stat_account_table, &key);
	if (known)
		return *known;
	__sync_fetch_and_add(&losses.shared_accounts, 1);
	return 0;
}

#endif
