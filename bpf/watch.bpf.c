// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What `foreread watch` sees. Misses always: they wait for a device, beside which a walk up the
 * names is nothing. Reads from memory only while somebody is walked ahead of, and only his.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "watch.h"
#include "children.h"
#include "whoami.h"

#define S_IFMT 0170000
#define S_IFREG 0100000
#define NAME_BYTES_MAX 255
#define DEPTH_MAX 64

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Set before loading. */
const volatile u32 only_tree;
const volatile u64 only_cgroup;
const volatile u32 cgroup_level;

u64 lost;

/* Processes that are walked ahead of. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, u32);
	__type(value, u8);
} walkers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct watch_seen);
} scratches SEC(".maps");

/* The file that a thread missed last: of a file, only the first miss is told. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, u64);
} last_missed SEC(".maps");

static const u32 ZERO = 0;

static __always_inline bool is_watched(u32 tgid)
{
	if (tgid == whoami_tgid)
		return false;
	if (only_tree && !bpf_map_lookup_elem(&tree, &tgid))
		return false;
	return !only_cgroup || bpf_get_current_ancestor_cgroup_id(cgroup_level) == only_cgroup;
}

static __always_inline void tell(struct watch_seen *seen, u64 flags)
{
	u32 bytes = seen->path_bytes;

	if (bytes > sizeof(seen->path))
		return;
	if (bpf_ringbuf_output(&ring, seen, __builtin_offsetof(struct watch_seen, path) + bytes,
			       flags))
		__sync_fetch_and_add(&lost, 1);
}

static __always_inline struct dentry *alias_of(struct inode *inode)
{
	struct hlist_node *first = BPF_CORE_READ(inode, i_dentry.first);

	if (!first)
		return NULL;
	return (struct dentry *)((u64)first - bpf_core_field_offset(struct dentry, d_u.d_alias));
}

static long climb(u64 depth, struct dentry **at)
{
	struct watch_seen *seen = bpf_map_lookup_elem(&scratches, &ZERO);
	struct dentry *dentry = *at;
	struct dentry *parent = BPF_CORE_READ(dentry, d_parent);
	u32 place, length;

	if (!seen || !dentry || parent == dentry)
		return 1;
	place = seen->path_bytes;
	if (place >= WATCH_PATH_BYTES)
		return 1;
	length = BPF_CORE_READ(dentry, d_name.len) & NAME_BYTES_MAX;
	bpf_probe_read_kernel(&seen->path[place & (WATCH_PATH_BYTES - 1)], length,
			      BPF_CORE_READ(dentry, d_name.name));
	seen->path[(place & (WATCH_PATH_BYTES - 1)) + length] = 0;
	seen->path_bytes = place + length + 1;
	*at = parent;
	return 0;
}

SEC("tp_btf/page_cache_sync_ra")
int BPF_PROG(missed, struct inode *inode, unsigned long index)
{
	u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct watch_seen *seen;
	struct dentry *dentry;
	u64 *last;

	if (!is_watched(tgid) || (BPF_CORE_READ(inode, i_mode) & S_IFMT) != S_IFREG)
		return 0;
	last = bpf_task_storage_get(&last_missed, bpf_get_current_task_btf(), 0,
				    BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!last || (index && *last == (u64)inode))
		return 0;
	*last = (u64)inode;
	seen = bpf_map_lookup_elem(&scratches, &ZERO);
	if (!seen)
		return 0;
	seen->kind = WATCH_MISS;
	seen->process = tgid;
	seen->inode = BPF_CORE_READ(inode, i_ino);
	seen->device = BPF_CORE_READ(inode, i_sb, s_dev);
	seen->path_bytes = 0;
	dentry = alias_of(inode);
	if (!dentry)
		return 0;
	bpf_loop(DEPTH_MAX, climb, &dentry, 0);
	/* Of what lies deeper or is longer, the top is not known. */
	if (BPF_CORE_READ(dentry, d_parent) != dentry)
		return 0;
	tell(seen, 0);
	return 0;
}

SEC("tp_btf/mm_filemap_get_pages")
int BPF_PROG(hit, struct address_space *mapping, unsigned long index)
{
	struct watch_seen *seen;
	struct inode *inode;
	u32 tgid;

	if (index)
		return 0;
	tgid = bpf_get_current_pid_tgid() >> 32;
	if (!bpf_map_lookup_elem(&walkers, &tgid))
		return 0;
	seen = bpf_map_lookup_elem(&scratches, &ZERO);
	inode = BPF_CORE_READ(mapping, host);
	if (!seen || !inode)
		return 0;
	seen->kind = WATCH_HIT;
	seen->process = tgid;
	seen->inode = BPF_CORE_READ(inode, i_ino);
	seen->device = BPF_CORE_READ(inode, i_sb, s_dev);
	seen->path_bytes = 0;
	/* Nobody is woken for it: it is looked for often enough. */
	tell(seen, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(forked, struct task_struct *parent, struct task_struct *child)
{
	if (!take_in(parent, child))
		__sync_fetch_and_add(&lost, 1);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(exited, struct task_struct *task)
{
	struct watch_seen *seen;
	u32 tgid = task->tgid;

	if (!is_last_thread(task))
		return 0;
	bpf_map_delete_elem(&tree, &tgid);
	if (!bpf_map_lookup_elem(&walkers, &tgid))
		return 0;
	seen = bpf_map_lookup_elem(&scratches, &ZERO);
	if (!seen)
		return 0;
	seen->kind = WATCH_EXIT;
	seen->process = tgid;
	seen->path_bytes = 0;
	tell(seen, 0);
	return 0;
}
