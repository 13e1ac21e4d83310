// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What `foreread watch` sees. Misses always: they wait for a device, beside which a walk up the
 * names is nothing. Reads from memory only while somebody is walked ahead of, and only his; and
 * the same of looks, which are calls that need no page of a file, but its inode or its name.
 */
#include "block_kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "watch.h"
#include "record.h"
#include "open_file.h"
#include "whom.h"
#include "path_up.h"
#include "hooks.h"

#define AT_FDCWD (-100)

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Set before loading. */
const volatile u8 syscall_class[SYSCALLS_MAX];
/* Calls without a directory that write a struct stat; of an architecture that has them. */
const volatile u32 call_stat;
const volatile u32 call_lstat;
/* So many pages of a file are fetched ahead of who walks. */
const volatile u64 pages_per_file;

u64 lost;

/* Processes that are walked ahead of. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, struct watch_walker);
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

struct of_thread {
	u64 last_missed; /* its inode: of a file, only the first miss is told */
	u64 last_hit; /* the same of reads from memory: a shell reads a file byte by byte */
	u64 waits; /* for metadata, in the call that it is in */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct of_thread);
} threads SEC(".maps");

static const u32 ZERO = 0;

_Static_assert(sizeof(((struct watch_seen *)0)->path) == PATH_UP_ROOM, "names fit");

/*
 * What something is to be done about wakes whoever reads. A ring left to itself wakes only a reader
 * that has taken all before, so that a record behind one that wakes nobody would wake nobody.
 */
static __always_inline void tell(struct watch_seen *seen, u64 flags)
{
	u32 bytes = seen->path_bytes;

	if (bytes > sizeof(seen->path))
		return;
	if (bpf_ringbuf_output(&ring, seen, __builtin_offsetof(struct watch_seen, path) + bytes,
			       flags))
		__sync_fetch_and_add(&lost, 1);
}

static __always_inline struct watch_seen *begin(u32 kind)
{
	struct watch_seen *seen = bpf_map_lookup_elem(&scratches, &ZERO);
	u64 both = bpf_get_current_pid_tgid();

	if (!seen)
		return NULL;
	seen->kind = kind;
	seen->process = both >> 32;
	seen->member = both >> 32;
	seen->thread = (u32)both;
	seen->parent = BPF_CORE_READ(bpf_get_current_task_btf(), real_parent, tgid);
	seen->path_bytes = 0;
	return seen;
}

/* Who shares a walk is told as the one with whom it began. */
static __always_inline void name_leader(struct watch_seen *seen)
{
	struct watch_walker *walker = bpf_map_lookup_elem(&walkers, &seen->process);

	if (walker)
		seen->process = walker->leader;
}

static __always_inline struct of_thread *this_thread(void)
{
	return bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0,
				    BPF_LOCAL_STORAGE_GET_F_CREATE);
}

/* Puts the names from this one up behind what is there; false where they don't fit. */
static __always_inline bool climb_to_root(struct watch_seen *seen, struct dentry *dentry)
{
	return path_up(dentry, seen->path, &seen->path_bytes);
}

static __always_inline int on_missed(void *context, struct inode *inode, u64 index,
				     struct file_ra_state *ra, u64 request)
{
	u32 tgid = bpf_get_current_pid_tgid() >> 32;
	bool is_behind = index >= pages_per_file;
	struct of_thread *thread;
	struct watch_seen *seen;

	if (!is_watched(tgid) || (BPF_CORE_READ(inode, i_mode) & S_IFMT) != S_IFREG)
		return 0;
	/* The rest of a large file nobody wanted to have fetched. */
	if (is_behind && bpf_map_lookup_elem(&walkers, &tgid))
		return 0;
	thread = this_thread();
	if (!thread || (index && thread->last_missed == (u64)inode))
		return 0;
	thread->last_missed = (u64)inode;
	seen = begin(WATCH_MISS);
	if (!seen)
		return 0;
	seen->inode = BPF_CORE_READ(inode, i_ino);
	seen->device = BPF_CORE_READ(inode, i_sb, s_dev);
	name_leader(seen);
	/* Who walks begins files at their start: what is read from the midst can wait. */
	if (climb_to_root(seen, alias_of(inode)))
		tell(seen, is_behind ? BPF_RB_NO_WAKEUP : BPF_RB_FORCE_WAKEUP);
	return 0;
}

HOOK_SYNC_RA("tp_btf", missed, on_missed)

static __always_inline int on_hit(void *context, struct address_space *mapping, u64 index,
				  u64 last_index)
{
	struct watch_walker *walker;
	struct of_thread *thread;
	struct watch_seen *seen;
	struct inode *inode;
	u32 tgid;

	if (index)
		return 0;
	tgid = bpf_get_current_pid_tgid() >> 32;
	walker = bpf_map_lookup_elem(&walkers, &tgid);
	if (!walker)
		return 0;
	thread = this_thread();
	inode = BPF_CORE_READ(mapping, host);
	if (!thread || !inode || thread->last_hit == (u64)inode)
		return 0;
	thread->last_hit = (u64)inode;
	seen = begin(WATCH_HIT);
	if (!seen)
		return 0;
	seen->process = walker->leader;
	seen->inode = BPF_CORE_READ(inode, i_ino);
	seen->device = BPF_CORE_READ(inode, i_sb, s_dev);
	/* Nobody is woken for it: it is looked for often enough. */
	tell(seen, BPF_RB_NO_WAKEUP);
	return 0;
}

HOOK_GET_PAGES("tp_btf", hit, on_hit)

#include "watch_look.h"

SEC("tp_btf/sched_process_fork")
int BPF_PROG(forked, struct task_struct *parent, struct task_struct *child)
{
	u32 parent_tgid = parent->tgid, child_tgid = child->tgid;
	struct watch_walker *walker, shares;

	if (!take_in(parent, child))
		__sync_fetch_and_add(&lost, 1);
	if (parent_tgid == child_tgid)
		return 0;
	walker = bpf_map_lookup_elem(&walkers, &parent_tgid);
	if (walker && walker->takes_children) {
		shares = *walker;
		/* Without room it is walked ahead of all the same, unseen. */
		if (bpf_map_update_elem(&walkers, &child_tgid, &shares, BPF_ANY))
			__sync_fetch_and_add(&lost, 1);
	}
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
	if (bpf_map_delete_elem(&walkers, &tgid))
		return 0;
	seen = begin(WATCH_EXIT);
	if (seen)
		tell(seen, BPF_RB_FORCE_WAKEUP);
	return 0;
}
