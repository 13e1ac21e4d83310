// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Events for directory traversals in `foreread watch`. Misses are always sent: they wait for a
 * device, so walking up the names adds little. Hits are sent only for processes whose traversal is
 * being fetched ahead. The same holds for metadata lookups (calls that need an inode or a name, but
 * no page).
 */
#include "block_kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "watch.h"
#include "record.h"
#include "open_file.h"
#define OWN(name) fr_watch_##name
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
/* Pages that are fetched of each file of a traversal. */
const volatile u64 pages_per_file;

u64 lost;

/* Processes whose traversal is being fetched ahead. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, struct watch_walker);
} fr_watch_walkers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} fr_watch_ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct watch_seen);
} fr_watch_scratches SEC(".maps");

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
} fr_watch_threads SEC(".maps");

static const u32 ZERO = 0;

_Static_assert(sizeof(((struct watch_seen *)0)->path) == PATH_UP_ROOM, "names fit");

/*
 * Records that need an answer wake user space. By default a ring wakes its consumer only if that
 * has read all records before. So a record behind one that does not wake it would not wake it
 * either.
 */
static __always_inline void tell(struct watch_seen *seen, u64 flags)
{
	u32 bytes = seen->path_bytes;

	if (bytes > sizeof(seen->path))
		return;
	if (bpf_ringbuf_output(&fr_watch_ring, seen,
			       __builtin_offsetof(struct watch_seen, path) + bytes, flags))
		__sync_fetch_and_add(&lost, 1);
}

static __always_inline struct watch_seen *begin(u32 kind)
{
	struct watch_seen *seen = bpf_map_lookup_elem(&fr_watch_scratches, &ZERO);
	u64 both = bpf_get_current_pid_tgid();

	if (!seen)
		return NULL;
	seen->kind = kind;
	seen->time_ns = bpf_ktime_get_ns();
	seen->process = both >> 32;
	seen->member = both >> 32;
	seen->thread = (u32)both;
	seen->parent = BPF_CORE_READ(bpf_get_current_task_btf(), real_parent, tgid);
	seen->path_bytes = 0;
	seen->user = (u32)bpf_get_current_uid_gid();
	return seen;
}

/* Processes that share a traversal are reported as the one that began it. */
static __always_inline void name_leader(struct watch_seen *seen)
{
	struct watch_walker *walker = bpf_map_lookup_elem(&fr_watch_walkers, &seen->process);

	if (walker)
		seen->process = walker->leader;
}

static __always_inline struct of_thread *this_thread(void)
{
	return bpf_task_storage_get(&fr_watch_threads, bpf_get_current_task_btf(), 0,
				    BPF_LOCAL_STORAGE_GET_F_CREATE);
}

/* Appends the names from this dentry up to the root; false if they don't fit. */
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
	/* The rest of a large file is not fetched for traversals. */
	if (is_behind && bpf_map_lookup_elem(&fr_watch_walkers, &tgid))
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
	/* A traversal reads files from their start; other misses wait for the next event. */
	if (climb_to_root(seen, alias_of(inode)))
		tell(seen, is_behind ? BPF_RB_NO_WAKEUP : BPF_RB_FORCE_WAKEUP);
	return 0;
}

HOOK_SYNC_RA("tp_btf", fr_watch_missed, on_missed)

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
	walker = bpf_map_lookup_elem(&fr_watch_walkers, &tgid);
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
	/* Does not wake user space, which polls often enough. */
	tell(seen, BPF_RB_NO_WAKEUP);
	return 0;
}

HOOK_GET_PAGES("tp_btf", fr_watch_hit, on_hit)

#include "watch_look.h"

SEC("tp_btf/sched_process_fork")
int BPF_PROG(fr_watch_forked, struct task_struct *parent, struct task_struct *child)
{
	u32 parent_tgid = parent->tgid, child_tgid = child->tgid;
	struct watch_walker *walker, shares;

	if (!take_in(parent, child))
		__sync_fetch_and_add(&lost, 1);
	if (parent_tgid == child_tgid)
		return 0;
	walker = bpf_map_lookup_elem(&fr_watch_walkers, &parent_tgid);
	if (walker && walker->takes_children) {
		shares = *walker;
		/* Without room, the traversal is fetched ahead, but the process is not seen. */
		if (bpf_map_update_elem(&fr_watch_walkers, &child_tgid, &shares, BPF_ANY))
			__sync_fetch_and_add(&lost, 1);
	}
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(fr_watch_exited, struct task_struct *task)
{
	struct watch_seen *seen;
	u32 tgid = task->tgid;

	if (!is_last_thread(task))
		return 0;
	bpf_map_delete_elem(&fr_tree, &tgid);
	if (bpf_map_delete_elem(&fr_watch_walkers, &tgid))
		return 0;
	seen = begin(WATCH_EXIT);
	if (seen)
		tell(seen, BPF_RB_FORCE_WAKEUP);
	return 0;
}
