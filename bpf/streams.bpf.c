// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Runs the policy `foreread` in the kernel. Input: reads and faults of large files, and requests of
 * their disks. Output: windows for user space, which wakes up only for these.
 *
 * Programs at misses are always attached: a miss waits for a device, so their cost is small.
 * Programs at hits are attached with the first miss, and detached after a while without misses.
 * They return early for threads that have not missed.
 *
 * A lock for each disk guards its state and that of its files. Readers of one disk do not wait for
 * readers of another. A decision is put together in scratch memory of its processor, with a copy of
 * the budget that all disks share. Its changes are added to the budget afterwards.
 */
#include "block_kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#define OWN(name) fr_str_##name
#include "whom.h"
#include "hooks.h"
#include "lease.h"
#include "path_up.h"
#include "pace.h"
#include "streams.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Since Linux 6.10. */
extern void bpf_preempt_disable(void) __weak __ksym;
extern void bpf_preempt_enable(void) __weak __ksym;

/* Set in f_mode by POSIX_FADV_RANDOM. */
#define FMODE_RANDOM 0x1000
#define SECTOR_SHIFT 9
/* Smaller files are left to directory traversals (watch.bpf.c) and to the kernel. */
#define FILE_PAGES_MIN 64
/* Sequential hits are passed to the policy in pieces of this many pages. */
#define TELL_PAGES 16
/* Takes as long as the longest decision about the same disk. After that the access is skipped. */
#define LOCK_TRIES_MAX 65536
/* A program that interrupts the lock's holder on its processor must not wait for it. */
#define LOCK_TRIES_INTERRUPT 256

/* The state of a file's streams. Under the lock of its disk. */
struct stream_file {
	struct fr_state state;
	struct fr_streams streams;
	u64 disk; /* a key of the map of disks */
};

struct disk {
	struct streams_load load; /* its pages in flight are atomic, as below */
	s64 in_flight; /* requests; atomic, so it is right without the lock, too */
	u64 episode; /* the value of `episode` when these counters were reset */
	u32 lock_word; /* 1 while the lock is held */
	u32 is_known; /* whether the policy was told if it is rotational; under the lock */
	u64 end_sector; /* of the last request; under the lock */
	u64 events; /* of this disk, for the log; under the lock */
	struct fr_device device; /* under the lock */
};

struct flight {
	u64 asked_ns;
	u64 episode;
	u32 pages;
	u32 first;
	u32 next;
	u32 reserved;
};

/* The state of a thread; only its own programs change it. */
struct reader {
	u64 inode; /* the file that it read last, as a kernel address */
	u64 start_page; /* the range that it last asked for */
	u64 end_page;
	u64 untold_page; /* from here up to end_page: hits that the policy was not told of */
	u64 fault_page; /* the page of its last fault, plus 1; 0 none */
	u64 blocked_ns; /* the time at which it began to wait for a device; 0 if it doesn't wait */
	u64 blocked_episode; /* the value of `episode` then: its end may not have been seen */
	u64 waited_ns; /* time that it has waited and the policy was not told of */
	/* The access that the policy is told of. */
	u64 inode_now;
	u64 disk_now; /* of that file; 0 unknown */
	u64 index_now;
	u64 pages_now;
	u64 hit_pages_now; /* of these, pages at the start that were in memory */
	u32 ra_pages_now; /* the descriptor's maximum window; 0 unknown */
	u32 kind_now; /* enum fr_kind, and FR_ACCESS_* from bit 8 on */
	struct streams_key key_now;
	u64 ahead_inode; /* the file in which the kernel reads ahead for it */
	u64 mapping_now; /* of the file that it reads from memory, 0 unknown */
	u64 idle_mapping; /* the last mapping without followed streams; 0 none */
	u32 idle_files; /* files_seen at that time */
	u32 missed; /* whether its last access missed pages that were not requested before */
	struct pace pace;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 512);
	__type(key, struct streams_key);
	__type(value, struct stream_file);
} fr_str_files SEC(".maps");

/*
 * Entries stay, so that a lock is never reused for another disk. When the map is full, accesses to
 * further disks are skipped.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64); /* major number in the upper half; 0 for all that isn't known */
	__type(value, struct disk);
} fr_str_disks SEC(".maps");

/* A decision that is being made on this processor. */
struct deciding {
	u32 is_busy; /* 1 while in use; others find it set only if the user was preempted */
	u32 is_made; /* whether the policy was called */
	struct streams_event event; /* the call and its arguments */
	struct fr_budget budget; /* the copy that the decision changes */
	struct fr_budget budget_before;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct deciding);
} fr_str_deciding SEC(".maps");

/* Disks that claim to be rotational and are not; user space fills it. Numbers as above. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64);
	__type(value, u32);
} fr_str_headless SEC(".maps");

/* Requests that a device works on. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, u64);
	__type(value, struct flight);
} fr_str_flights SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct reader);
} fr_str_readers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} fr_str_ring SEC(".maps");

/* Calls of the core, for the log. User space enlarges this map if there is a log. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} fr_str_events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct streams_file);
} fr_str_told_files SEC(".maps");

/* Set before loading. */
const volatile u32 is_logged;
/*
 * Whether programs disable preemption while they hold the lock. Without that, a thread may be
 * preempted with the lock, and all readers on other processors wait in vain. User space sets it if
 * the kernel allows calls of global functions with preemption disabled.
 */
const volatile u32 stays_on_cpu;

/* Updated by user space. */
u64 memory_pages;
u64 reclaim_pages;
u32 budget_pages; /* maximum that is ahead of one reader; 0 no such bound */
/* Whether programs at hits are attached. */
u32 sees_hits;
/*
 * Number of times that programs at requests were attached. The end of a request from an earlier
 * episode may not have been seen.
 */
u64 episode;

/* User space reads these. */
u64 lost; /* records that found no room */
u64 untold; /* accesses that were skipped, since the lock or its scratch memory was in use */
u64 misses; /* accesses that missed */
u64 accesses;
u64 marks; /* markers that reads reached: the kernel reads ahead for them */
u32 has_begun; /* STREAMS_BEGIN was told; user space takes it back */

static u32 files_seen; /* wraps */

/* Taken inside of a disk's lock, for a few stores only, and never in an interrupt. */
static u32 budget_lock_word;
struct fr_budget budget; /* not static, or clang would split it into scalars */
static const struct stream_file FRESH_FILE;
static const struct disk FRESH_DISK;
static const u32 ZERO = 0;

_Static_assert(sizeof(((struct streams_file *)0)->path) == PATH_UP_ROOM, "names fit");

KNOWN_STRUCT(streams_ask);
KNOWN_STRUCT(streams_pace);

struct fr_near nothing_near;

/* A lock that is being taken. */
struct taking {
	u32 *lock_word;
	bool has_it;
};

static long try_lock(u64 try, struct taking *taking)
{
	taking->has_it = __sync_val_compare_and_swap(taking->lock_word, 0, 1) == 0;
	return taking->has_it;
}

static __always_inline bool take_word(u32 *lock_word, u32 tries)
{
	struct taking taking = { .lock_word = lock_word };

	if (__sync_val_compare_and_swap(lock_word, 0, 1) == 0)
		return true;
	bpf_loop(tries, try_lock, &taking, 0);
	return taking.has_it;
}

static __always_inline void drop_word(u32 *lock_word)
{
	__sync_lock_test_and_set(lock_word, 0);
}

static __always_inline bool lock(struct disk *disk, u32 tries)
{
	if (stays_on_cpu)
		bpf_preempt_disable();
	if (take_word(&disk->lock_word, tries))
		return true;
	if (stays_on_cpu)
		bpf_preempt_enable();
	return false;
}

static __always_inline void unlock(struct disk *disk)
{
	drop_word(&disk->lock_word);
	if (stays_on_cpu)
		bpf_preempt_enable();
}

static __always_inline struct deciding *deciding_here(void)
{
	return bpf_map_lookup_elem(&fr_str_deciding, &ZERO);
}

static __always_inline struct disk *disk_by_number(const u64 *number)
{
	return bpf_map_lookup_elem(&fr_str_disks, number);
}

static __always_inline void lose(void)
{
	__sync_fetch_and_add(&lost, 1);
}

/* Writes the call that was just made to the log. Under the lock of the disk. */
static __always_inline void log_call(struct disk *disk, struct streams_event *event)
{
	if (!is_logged)
		return;
	/* A gap in the numbers shows lost events. */
	event->number = ++disk->events;
	bpf_ringbuf_output(&fr_str_events, event, sizeof(*event), BPF_RB_NO_WAKEUP);
}

/*
 * Reserves room in the log for a call that wasn't put together in scratch memory. All fields but
 * the number, kind and disk are zero. Returns NULL if nothing is logged. Under the lock of the
 * disk.
 */
static __always_inline struct streams_event *log_room(struct disk *disk, u64 number, u32 kind)
{
	struct streams_event *event;

	if (!is_logged)
		return NULL;
	disk->events++;
	event = bpf_ringbuf_reserve(&fr_str_events, sizeof(*event), 0);
	if (!event)
		return NULL;
	__builtin_memset(event, 0, sizeof(*event));
	event->number = disk->events;
	event->kind = kind;
	event->disk = number;
	return event;
}

static __always_inline bool has_missed(u32 kind, u32 flags)
{
	return kind == FR_FAULT_MISS || (flags & FR_ACCESS_MISSED);
}

static __always_inline u64 file_pages(struct inode *inode)
{
	return (BPF_CORE_READ(inode, i_size) + 4095ULL) >> 12;
}

/* Whether the streams of a file are followed. */
static __always_inline bool is_followed(struct inode *inode)
{
	return inode && (BPF_CORE_READ(inode, i_mode) & S_IFMT) == S_IFREG &&
	       file_pages(inode) >= FILE_PAGES_MIN;
}

static __always_inline u64 disk_number(struct gendisk *disk)
{
	return (u64)BPF_CORE_READ(disk, major) << 32 | (u32)BPF_CORE_READ(disk, first_minor);
}

/* The disk below a file; NULL if there is none, or several. */
static __always_inline struct gendisk *disk_of(struct inode *inode)
{
	struct block_device *device = BPF_CORE_READ(inode, i_sb, s_bdev);

	return device ? BPF_CORE_READ(device, bd_disk) : NULL;
}

static __always_inline bool says_it_turns(struct gendisk *disk)
{
	struct request_queue *queue = BPF_CORE_READ(disk, queue);
	struct request_queue___flags *old = (void *)queue;

	if (bpf_core_field_exists(queue->limits.features))
		return BPF_CORE_READ(queue, limits.features) & DISK_ROTATES;
	return !(BPF_CORE_READ(old, queue_flags) & QUEUE_STANDS);
}

/* Whether a disk is rotational. User space has listed disks whose claim is false. */
static __always_inline bool turns(u64 number, struct gendisk *disk)
{
	return says_it_turns(disk) && !bpf_map_lookup_elem(&fr_str_headless, &number);
}

/* Tells the policy whether a new disk is rotational. Under its lock. */
static __always_inline void know_disk(struct disk *disk, const u64 *number, struct gendisk *gendisk)
{
	struct streams_event *event;

	disk->is_known = 1;
	if (!gendisk || !turns(*number, gendisk))
		return;
	disk->load.turns = 1;
	fr_device_turns(&disk->device);
	event = log_room(disk, *number, STREAMS_TURNS);
	if (event)
		bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
}

static __always_inline u32 larger(u32 a, u32 b)
{
	return a > b ? a : b;
}

/* Tells user space how to find the file of the current thread's access. */
__noinline int tell_file(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct reader *reader = bpf_task_storage_get(&fr_str_readers, task, 0, 0);
	struct streams_file *told = bpf_map_lookup_elem(&fr_str_told_files, &ZERO);
	struct inode *inode;
	u32 bytes;

	if (!told || !reader)
		return 0;
	inode = (struct inode *)reader->inode_now;
	told->path_bytes = 0;
	if (!path_up(alias_of(inode), told->path, &told->path_bytes))
		return 0;
	bytes = told->path_bytes;
	if (bytes > sizeof(told->path))
		return 0;
	told->kind = STREAMS_FILE;
	told->process = bpf_get_current_pid_tgid() >> 32;
	told->key = reader->key_now;
	told->call_pages_max = larger((u32)BPF_CORE_READ(inode, i_sb, s_bdi, ra_pages),
				      (u32)BPF_CORE_READ(inode, i_sb, s_bdi, io_pages));
	if (bpf_ringbuf_output(&fr_str_ring, told,
			       __builtin_offsetof(struct streams_file, path) + bytes,
			       BPF_RB_NO_WAKEUP))
		lose();
	return 0;
}

/*
 * Sends a window of the decision to user space. The kernel reads the missing pages of the access
 * itself.
 */
__noinline int ask(u32 number)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct reader *reader = bpf_task_storage_get(&fr_str_readers, task, 0, 0);
	const struct deciding *deciding = deciding_here();
	const struct fr_decision *decision;
	const struct fr_window *window;
	const struct fr_access *access;
	struct streams_ask *asked;
	u64 start, pages, needed_end;
	struct disk *disk;

	if (!deciding || !reader)
		return 0;
	decision = &deciding->event.decision;
	window = &decision->window[number & 1];
	access = &deciding->event.access;
	start = window->start;
	pages = window->read_pages;
	needed_end = access->index + access->req_pages;
	disk = disk_by_number(&deciding->event.disk);
	if (has_missed(access->kind, access->flags) && start >= access->index + access->hit_pages &&
	    start < needed_end) {
		if (pages <= needed_end - start)
			return 0;
		pages -= needed_end - start;
		start = needed_end;
	}
	asked = bpf_ringbuf_reserve(&fr_str_ring, sizeof(*asked), 0);
	if (!asked) {
		lose();
		return 0;
	}
	asked->kind = STREAMS_ASK;
	asked->process = deciding->event.process;
	asked->key = deciding->event.key;
	asked->thread = access->thread;
	asked->even_pages = fr_device_even_pages(disk ? &disk->device : NULL, 0);
	asked->busy_pages = fr_device_busy_pages(disk ? &disk->device : NULL, asked->even_pages);
	asked->disk = deciding->event.disk;
	asked->start_page = start;
	asked->pages = pages;
	asked->step_pages = decision->step_pages;
	asked->repeats = number + 1 == decision->windows ? decision->repeats : 0;
	asked->flags = 0;
	if ((decision->flags & FR_DECIDED_DOWN) || decision->reason == FR_REASON_REVERSE)
		asked->flags |= STREAMS_ASK_DOWN;
	if (has_write_lease((struct inode *)reader->inode_now))
		asked->flags |= STREAMS_ASK_LEASED;
	/*
	 * By default a ring wakes its consumer only if that has read all records before. The record
	 * with a file's name does not wake it, so the first window must.
	 */
	bpf_ringbuf_submit(asked, BPF_RB_FORCE_WAKEUP);
	reader->pace.is_ahead = 1;
	return 0;
}

/*
 * Tells user space how the current thread reads, now and then. It wakes nobody. A record without
 * room is no loss: the next one has the same sums and more.
 */
__noinline int tell_pace(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct reader *reader = bpf_task_storage_get(&fr_str_readers, task, 0, 0);
	const struct deciding *deciding = deciding_here();
	struct streams_pace *told;
	u32 larger_pages;

	if (!deciding || !reader || !pace_is_due(&reader->pace, deciding->event.decision.windows))
		return 0;
	told = bpf_ringbuf_reserve(&fr_str_ring, sizeof(*told), 0);
	if (!told)
		return 0;
	told->kind = STREAMS_PACE;
	told->process = deciding->event.process;
	told->thread = deciding->event.access.thread;
	told->is_mapped = reader->pace.is_mapped;
	told->disk = deciding->event.disk;
	told->time_ns = deciding->event.access.time_ns;
	told->counts = reader->pace.counts;
	/* For a request larger than its window, the kernel reads as much as the device takes. */
	larger_pages = deciding->event.limits.io_pages;
	if (deciding->event.access.req_pages < larger_pages)
		larger_pages = deciding->event.access.req_pages;
	told->kernel_pages = larger(deciding->event.state_ra_pages, larger_pages);
	told->reserved = 0;
	bpf_ringbuf_submit(told, BPF_RB_NO_WAKEUP);
	return 0;
}

/* Collects the arguments of the call; false if the state of its file was evicted. */
static __always_inline bool call_of(struct deciding *deciding, struct disk *disk,
				    struct fr_call *call)
{
	struct stream_file *file = bpf_map_lookup_elem(&fr_str_files, &deciding->event.key);

	if (!file || !disk)
		return false;
	call->state = &file->state;
	call->access = &deciding->event.access;
	call->near = &nothing_near;
	call->limits = &deciding->event.limits;
	call->streams = &file->streams;
	call->device = &disk->device;
	call->budget = &deciding->budget;
	return true;
}

/*
 * Calls the policy with the access from put_call(). Nothing is needed after the call, so that the
 * policy has almost all of the stack.
 */
__noinline int decide(void)
{
	struct deciding *deciding = deciding_here();
	struct fr_call call;

	if (!deciding || !call_of(deciding, disk_by_number(&deciding->event.disk), &call))
		return 0;
	deciding->is_made = 1;
	if (deciding->event.is_new)
		fr_open(call.state, &deciding->event.limits);
	call.state->ra_pages = deciding->event.state_ra_pages;
	if (deciding->event.state_flags)
		fr_feedback(FR_FOREREAD, call.state, FR_FEEDBACK_THRASHED, 1);
	fr_foreread_decide(&call, &deciding->event.decision);
	return 0;
}

/* Tells the policy the time that the current thread has waited. */
__noinline int tell_waited(u64 waited_ns, u32 asked)
{
	struct deciding *deciding = deciding_here();
	struct fr_call call;
	struct disk *disk;

	if (!deciding)
		return 0;
	disk = disk_by_number(&deciding->event.disk);
	if (!disk || !call_of(deciding, disk, &call))
		return 0;
	deciding->event.kind = STREAMS_WAITED;
	deciding->event.access.time_ns = waited_ns;
	deciding->event.access.flags = asked;
	fr_foreread_waited(&call, waited_ns, asked);
	log_call(disk, &deciding->event);
	return 0;
}

/* Copies the shared budget for a decision. */
static __always_inline bool copy_budget(struct deciding *deciding)
{
	if (!take_word(&budget_lock_word, LOCK_TRIES_MAX))
		return false;
	deciding->budget = budget;
	drop_word(&budget_lock_word);
	deciding->budget_before = deciding->budget;
	deciding->event.budget = deciding->budget;
	return true;
}

/* Adds what a decision has changed to the shared budget. */
static __always_inline void merge_budget(const struct deciding *deciding)
{
	if (!take_word(&budget_lock_word, LOCK_TRIES_MAX))
		return;
	fr_budget_merge(&budget, &deciding->budget_before, &deciding->budget);
	drop_word(&budget_lock_word);
}

/*
 * Puts the arguments of the current thread's access together. Under the lock. Not inlined into
 * decide(), so that it has a stack frame of its own. Before Linux 6.13 all frames of a chain of
 * calls share 512 bytes of stack.
 */
__noinline int put_call(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct reader *reader = bpf_task_storage_get(&fr_str_readers, task, 0, 0);
	struct deciding *deciding = deciding_here();
	u64 pid_tgid = bpf_get_current_pid_tgid();
	struct stream_file *file;
	struct streams_event *event;
	struct found found = {};
	struct inode *inode;
	bool missed, is_new = false;
	u32 device_ra_pages;

	if (!reader || !deciding)
		return 0;
	event = &deciding->event;
	missed = has_missed(reader->kind_now & 0xff, reader->kind_now >> 8);
	inode = (struct inode *)reader->inode_now;
	device_ra_pages = BPF_CORE_READ(inode, i_sb, s_bdi, ra_pages);
	if (!bpf_map_lookup_elem(&fr_str_files, &reader->key_now)) {
		__sync_fetch_and_add(&files_seen, 1);
		is_new = bpf_map_update_elem(&fr_str_files, &reader->key_now, &FRESH_FILE,
					     BPF_NOEXIST) == 0;
		tell_file();
	}
	file = bpf_map_lookup_elem(&fr_str_files, &reader->key_now);
	if (file)
		file->disk = event->disk;
	__sync_fetch_and_add(&accesses, 1);
	if (missed)
		__sync_fetch_and_add(&misses, 1);
	event->process = pid_tgid >> 32;
	event->key = reader->key_now;
	event->is_new = 0;
	event->access.thread = (u32)pid_tgid;
	if (reader->waited_ns && reader->inode == reader->inode_now) {
		pace_waited(&reader->pace, reader->waited_ns, reader->missed);
		tell_waited(reader->waited_ns, !reader->missed);
	}
	reader->waited_ns = 0;
	pace_read(&reader->pace, reader->index_now, reader->pages_now, missed,
		  reader->inode == reader->inode_now);
	reader->pace.is_mapped = (reader->kind_now & 0xff) != FR_READ_LOOK;
	event->kind = STREAMS_ACCESS;
	event->is_new = is_new;
	event->access.index = reader->index_now;
	event->access.req_pages = reader->pages_now;
	event->access.hit_pages = missed ? reader->hit_pages_now : 0;
	reader->hit_pages_now = 0;
	event->access.time_ns = bpf_ktime_get_ns();
	event->access.kind = reader->kind_now & 0xff;
	event->access.flags = reader->kind_now >> 8 & 0xffff;
	event->limits.file_pages = file_pages(inode);
	event->limits.memory_pages = memory_pages;
	event->limits.reclaim_pages = reclaim_pages;
	event->limits.ra_pages = device_ra_pages;
	event->limits.io_pages = BPF_CORE_READ(inode, i_sb, s_bdi, io_pages);
	event->limits.pages_max = budget_pages;
	/* At the start of a stream, the kernel's own readahead suffices. */
	event->limits.min_pages = device_ra_pages * 2;
	event->state_ra_pages = reader->ra_pages_now ? reader->ra_pages_now : device_ra_pages;
	event->state_flags = 0;
	deciding->is_made = 0;
	if (missed &&
	    !cached_folio((u64)BPF_CORE_READ(inode, i_mapping), reader->index_now, &found) &&
	    (found.folio & 1))
		event->state_flags = FR_STATE_THRASHED;
	return 0;
}

/*
 * Begins an access of the current thread: notes its file and its disk. Returns whether the policy
 * is to be told of it.
 */
__noinline int begin_access(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct reader *reader = bpf_task_storage_get(&fr_str_readers, task, 0, 0);
	struct gendisk *gendisk;
	struct inode *inode;

	if (!reader)
		return 0;
	inode = (struct inode *)reader->inode_now;
	reader->key_now.inode = BPF_CORE_READ(inode, i_ino);
	reader->key_now.device = BPF_CORE_READ(inode, i_sb, s_dev);
	reader->key_now.generation = BPF_CORE_READ(inode, i_generation);
	/* All pages that the thread reads may be in memory. */
	if (!has_missed(reader->kind_now & 0xff, reader->kind_now >> 8) &&
	    reader->ahead_inode != reader->inode_now &&
	    !bpf_map_lookup_elem(&fr_str_files, &reader->key_now)) {
		reader->idle_mapping = reader->mapping_now;
		reader->idle_files = files_seen;
		return 0;
	}
	gendisk = disk_of(inode);
	reader->disk_now = gendisk ? disk_number(gendisk) : 0;
	/* If the map is full there is no entry, and so no lock: take_access() fails. */
	if (!disk_by_number(&reader->disk_now))
		bpf_map_update_elem(&fr_str_disks, &reader->disk_now, &FRESH_DISK, BPF_NOEXIST);
	return 1;
}

/*
 * Takes the lock of the disk and the scratch memory of this processor for the current thread's
 * access, and copies the budget there. Returns whether it has all of them.
 */
__noinline int take_access(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct reader *reader = bpf_task_storage_get(&fr_str_readers, task, 0, 0);
	struct deciding *deciding = deciding_here();
	struct disk *disk;

	if (!reader || !deciding)
		return 0;
	disk = disk_by_number(&reader->disk_now);
	if (!disk || !take_word(&disk->lock_word, LOCK_TRIES_MAX))
		return 0;
	if (!disk->is_known)
		know_disk(disk, &reader->disk_now, disk_of((struct inode *)reader->inode_now));
	if (__sync_val_compare_and_swap(&deciding->is_busy, 0, 1) == 0) {
		if (copy_budget(deciding)) {
			deciding->event.disk = reader->disk_now;
			return 1;
		}
		drop_word(&deciding->is_busy);
	}
	drop_word(&disk->lock_word);
	return 0;
}

/*
 * Ends an access after its decision: logs it, sends its windows, adds its changes to the budget,
 * and gives back what take_access() took.
 */
__noinline int end_access(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct reader *reader = bpf_task_storage_get(&fr_str_readers, task, 0, 0);
	struct deciding *deciding = deciding_here();
	struct disk *disk;

	if (!reader || !deciding)
		return 0;
	disk = disk_by_number(&deciding->event.disk);
	if (disk && deciding->is_made)
		log_call(disk, &deciding->event);
	/* The kernel itself reads around a fault. */
	if (deciding->is_made && deciding->event.decision.reason != FR_REASON_AROUND) {
		if (deciding->event.decision.windows > 0)
			ask(0);
		if (deciding->event.decision.windows > 1)
			ask(1);
	}
	if (deciding->is_made)
		tell_pace();
	merge_budget(deciding);
	reader->missed = has_missed(reader->kind_now & 0xff, reader->kind_now >> 8);
	reader->inode = reader->inode_now;
	drop_word(&deciding->is_busy);
	if (disk)
		drop_word(&disk->lock_word);
	return 0;
}

/*
 * Tells the policy of the current thread's access, and sends its windows to user space. Its steps
 * are functions, so that none of their stack is in use while the policy runs. The verifier demands
 * that one function disables and enables preemption.
 */
__noinline int tell_policy(void)
{
	int is_told;

	if (!begin_access())
		return 0;
	if (stays_on_cpu)
		bpf_preempt_disable();
	is_told = take_access();
	if (is_told) {
		put_call();
		decide();
		end_access();
	}
	if (stays_on_cpu)
		bpf_preempt_enable();
	if (!is_told)
		__sync_fetch_and_add(&untold, 1);
	return 0;
}

/*
 * The same as a program of its own, for tracepoints that can tail-call it. The verifier takes long
 * for the policy, so it checks this program once.
 */
SEC("raw_tp")
int fr_str_told(void *context)
{
	return tell_policy();
}

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__array(values, int(void *));
} fr_str_policy SEC(".maps") = {
	.values = { [0] = (void *)&fr_str_told },
};

/*
 * Ends a program that has noted an access of the thread. Programs at functions pass no context.
 */
static __always_inline void tell(void *context, struct reader *reader, struct inode *inode,
				 u64 index, u64 pages, u32 kind, u32 ra_pages)
{
	reader->inode_now = (u64)inode;
	reader->index_now = index;
	reader->pages_now = pages;
	reader->kind_now = kind;
	reader->ra_pages_now = ra_pages;
	if (context)
		bpf_tail_call(context, &fr_str_policy, 0);
	else
		tell_policy();
}

/* Hits are not seen yet: asks user space to attach the programs that see them. */
static __always_inline void begin(void)
{
	struct streams_ask *begun;

	if (sees_hits || __sync_lock_test_and_set(&has_begun, 1))
		return;
	begun = bpf_ringbuf_reserve(&fr_str_ring, sizeof(*begun), 0);
	if (!begun) {
		has_begun = 0;
		lose();
		return;
	}
	__builtin_memset(begun, 0, sizeof(*begun));
	begun->kind = STREAMS_BEGIN;
	bpf_ringbuf_submit(begun, BPF_RB_FORCE_WAKEUP);
}

/* A read misses a page. */
static __always_inline int on_missed(void *context, struct inode *inode, u64 index,
				     struct file_ra_state *ra, u64 request)
{
	struct file *file = (void *)ra - bpf_core_field_offset(struct file, f_ra);
	u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct reader *reader;
	u64 start;

	if (!is_watched(tgid) || !is_followed(inode) ||
	    (BPF_CORE_READ(file, f_mode) & FMODE_RANDOM))
		return 0;
	begin();
	reader = bpf_task_storage_get(&fr_str_readers, bpf_get_current_task_btf(), 0,
				      BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!reader)
		return 0;
	/* The policy has been told of a fault on a mapping that is read sequentially. */
	if (reader->fault_page == index + 1 && reader->inode == (u64)inode)
		return 0;
	start = index;
	/* Hits of the thread before this miss belong to the same read. */
	if (reader->inode == (u64)inode && index == reader->end_page &&
	    index - reader->untold_page < TELL_PAGES)
		start = reader->untold_page;
	reader->hit_pages_now = index - start;
	reader->start_page = index;
	reader->end_page = index + request;
	reader->untold_page = reader->end_page;
	tell(context, reader, inode, start, reader->end_page - start,
	     FR_READ_LOOK | FR_ACCESS_MISSED << 8, BPF_CORE_READ(ra, ra_pages));
	return 0;
}

HOOK_SYNC_RA("raw_tp", fr_str_missed, on_missed)

/* The kernel reads ahead for a read or around a fault: a page is not in memory. */
static __always_inline int on_read_ahead(void *context, struct inode *inode, u64 index,
					 struct file_ra_state *ra, u32 order)
{
	if (!sees_hits && is_watched(bpf_get_current_pid_tgid() >> 32) && is_followed(inode))
		begin();
	return 0;
}

HOOK_RA_ORDER("raw_tp", fr_str_read_ahead, on_read_ahead)

/* A read reaches a marker: the kernel reads ahead for this thread, which may never miss. */
static __always_inline int on_marked(void *context, struct inode *inode, u64 index,
				     struct file_ra_state *ra, u64 request)
{
	struct reader *reader;

	if (!is_watched(bpf_get_current_pid_tgid() >> 32) || !is_followed(inode))
		return 0;
	begin();
	__sync_fetch_and_add(&marks, 1);
	reader = bpf_task_storage_get(&fr_str_readers, bpf_get_current_task_btf(), 0,
				      BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (reader) {
		reader->ahead_inode = (u64)inode;
		reader->idle_mapping = 0;
	}
	return 0;
}

HOOK_ASYNC_RA("raw_tp", fr_str_marked, on_marked)

/* A read finds pages index to last_index in memory, or the first of them. */
static __always_inline int on_looked(void *context, struct address_space *mapping, u64 index,
				     u64 last_index)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct reader *reader = bpf_task_storage_get(&fr_str_readers, task, 0, 0);
	u64 start = index, end = (u64)last_index + 1;
	struct inode *inode;

	if (!reader)
		return 0;
	/* Most hits of a thread that misses now and then end here. */
	if (reader->idle_mapping == (u64)mapping && reader->idle_files == files_seen)
		return 0;
	reader->mapping_now = (u64)mapping;
	inode = BPF_CORE_READ(mapping, host);
	if (reader->inode != (u64)inode) {
		if (!is_followed(inode))
			return 0;
	} else if (end == reader->end_page && (index > reader->start_page ||
					       (index == reader->start_page && reader->missed))) {
		/* The kernel looks up the rest of a request in batches. */
		reader->start_page = index;
		return 0;
	} else if (index == reader->end_page) {
		start = reader->untold_page;
		if (end - start < TELL_PAGES && !reader->waited_ns) {
			reader->start_page = index;
			reader->end_page = end;
			return 0;
		}
	}
	reader->start_page = index;
	reader->end_page = end;
	reader->untold_page = end;
	tell(context, reader, inode, start, end - start, FR_READ_LOOK, 0);
	return 0;
}

HOOK_GET_PAGES("raw_tp", fr_str_looked, on_looked)

/*
 * The kind of a fault on this page, as reader->kind_now. Not inlined, so that its stack is free
 * again when the policy runs.
 */
__noinline u32 fault_kind(u64 mapping, u64 index)
{
	struct found found;

	if (!cached_folio(mapping, index, &found))
		return FR_FAULT_MISS;
	if (!HAS_FLAG(found.flags, PG_uptodate))
		return FR_FAULT_HIT | FR_ACCESS_LOCKED << 8;
	return FR_FAULT_HIT;
}

/* A fault on a page that fault-around did not map. */
static __always_inline int on_faulted(void *context, struct address_space *mapping, u64 index)
{
	struct inode *inode = BPF_CORE_READ(mapping, host);
	struct reader *reader;

	if (!is_watched(bpf_get_current_pid_tgid() >> 32) || !is_followed(inode))
		return 0;
	reader = bpf_task_storage_get(&fr_str_readers, bpf_get_current_task_btf(), 0,
				      BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!reader)
		return 0;
	/* After the wait, the thread faults on the same page again. */
	if (reader->fault_page == index + 1 && reader->inode == (u64)inode)
		return 0;
	reader->fault_page = index + 1;
	tell(context, reader, inode, index, 1,
	     fault_kind((u64)BPF_CORE_READ(inode, i_mapping), index), 0);
	return 0;
}

HOOK_FAULT("raw_tp", fr_str_faulted, on_faulted)

/* Fault-around has mapped the pages that were ready. */
static __always_inline int on_mapped(void *context, struct address_space *mapping, u64 start_pgoff,
				     u64 end_pgoff)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct reader *reader = bpf_task_storage_get(&fr_str_readers, task, 0, 0);
	struct inode *inode;

	if (!reader || end_pgoff < start_pgoff)
		return 0;
	inode = BPF_CORE_READ(mapping, host);
	reader->fault_page = 0;
	if (!is_followed(inode))
		return 0;
	tell(context, reader, inode, start_pgoff, end_pgoff - start_pgoff + 1, FR_FAULT_HIT, 0);
	return 0;
}

HOOK_MAP_PAGES("raw_tp", fr_str_mapped, on_mapped)

/* A thread waits for I/O: io_schedule() marks it. */
SEC("tp_btf/sched_switch")
int BPF_PROG(fr_str_switched, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct reader *reader;

	if (BPF_CORE_READ_BITFIELD(prev, in_iowait)) {
		reader = bpf_task_storage_get(&fr_str_readers, prev, 0, 0);
		if (reader) {
			reader->blocked_ns = bpf_ktime_get_ns();
			reader->blocked_episode = episode;
		}
	}
	if (BPF_CORE_READ_BITFIELD(next, in_iowait)) {
		reader = bpf_task_storage_get(&fr_str_readers, next, 0, 0);
		if (reader && reader->blocked_ns) {
			if (reader->blocked_episode == episode)
				reader->waited_ns += bpf_ktime_get_ns() - reader->blocked_ns;
			reader->blocked_ns = 0;
		}
	}
	return 0;
}

static __always_inline bool is_read(struct request *request)
{
	return (BPF_CORE_READ(request, cmd_flags) & REQ_OP_MASK) == REQ_OP_READ;
}

/* A request goes to its device. */
SEC("tp_btf/block_rq_issue")
int BPF_PROG(fr_str_issued, struct request *request)
{
	u64 key = (u64)request, sector, number;
	struct flight flight = {}, *before;
	struct gendisk *gendisk;
	struct disk *disk;
	u32 bytes;

	if (!is_read(request))
		return 0;
	gendisk = BPF_CORE_READ(request, q, disk);
	if (!gendisk)
		return 0;
	number = disk_number(gendisk);
	/* Disks without a followed stream are not in the map. */
	disk = disk_by_number(&number);
	if (!disk || !lock(disk, LOCK_TRIES_INTERRUPT))
		return 0;
	sector = BPF_CORE_READ(request, __sector);
	flight.asked_ns = BPF_CORE_READ(request, start_time_ns);
	if (!flight.asked_ns)
		flight.asked_ns = bpf_ktime_get_ns();
	bytes = BPF_CORE_READ(request, __data_len);
	if (disk->episode != episode) {
		disk->episode = episode;
		disk->in_flight = 0;
		disk->load.in_flight_pages = 0;
	}
	flight.episode = episode;
	flight.pages = bytes >> 12;
	flight.first = disk->in_flight <= 0;
	flight.next = sector == disk->end_sector;
	disk->end_sector = sector + (bytes >> SECTOR_SHIFT);
	/* A request may be issued again, or reuse the address of one whose end was not seen. */
	before = bpf_map_lookup_elem(&fr_str_flights, &key);
	if (!(before && before->episode == episode) &&
	    bpf_map_update_elem(&fr_str_flights, &key, &flight, BPF_ANY) == 0) {
		__sync_fetch_and_add(&disk->in_flight, 1);
		__sync_fetch_and_add(&disk->load.in_flight_pages, flight.pages);
	}
	unlock(disk);
	return 0;
}

/* A request of the disk is done. Under its lock. */
static __always_inline void tell_done(struct disk *disk, u64 number, const struct fr_done *done)
{
	struct streams_event *event;

	fr_device_done(&disk->device, done);
	disk->load.page_ns = disk->device.busy_ns;
	disk->load.latency_ns = disk->device.latency_ns;
	disk->load.least_ns = disk->device.least_ns;
	disk->load.fit_ns = disk->device.page_ns;
	disk->load.next_ns = disk->device.next_ns;
	disk->load.cost_ns = disk->device.cost_ns;
	disk->load.least_pages = disk->device.least_pages;
	event = log_room(disk, number, STREAMS_DONE);
	if (event) {
		event->done = *done;
		bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	}
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(fr_str_completed, struct request *request, u8 status, unsigned int bytes)
{
	u64 key = (u64)request, number;
	struct fr_done done = {};
	struct gendisk *gendisk;
	struct flight *flight;
	struct disk *disk;
	s64 in_flight = 0;

	if (!is_read(request))
		return 0;
	flight = bpf_map_lookup_elem(&fr_str_flights, &key);
	gendisk = BPF_CORE_READ(request, q, disk);
	if (!flight || !gendisk)
		return 0;
	number = disk_number(gendisk);
	disk = disk_by_number(&number);
	if (disk && disk->episode == flight->episode) {
		in_flight = __sync_fetch_and_add(&disk->in_flight, -1) - 1;
		__sync_fetch_and_add(&disk->load.in_flight_pages, -(u64)flight->pages);
	}
	if (disk && !status && lock(disk, LOCK_TRIES_INTERRUPT)) {
		done.now_ns = bpf_ktime_get_ns();
		done.took_ns = done.now_ns - flight->asked_ns;
		done.pages = bytes >> 12;
		done.first = flight->first;
		done.left = in_flight > 0;
		done.next = flight->next;
		tell_done(disk, number, &done);
		unlock(disk);
	}
	bpf_map_delete_elem(&fr_str_flights, &key);
	return 0;
}

/*
 * Programs that user space runs. They take the lock, so they must not be preempted. The kernel
 * disables preemption when it runs a tracepoint program on request, but not for type "syscall".
 */

/* User space reports the windows that it has fetched. */
struct issued_now {
	struct streams_key key;
	fr_u64 pages;
	fr_u64 read_pages;
	fr_u32 thread;
	fr_u32 reserved;
};

struct issued_now issued_now;

SEC("raw_tp")
int fr_str_tell_issued(void *context)
{
	struct stream_file *file = bpf_map_lookup_elem(&fr_str_files, &issued_now.key);
	struct streams_event *event;
	struct disk *disk;

	if (!file)
		return 0;
	disk = disk_by_number(&file->disk);
	if (!disk || !lock(disk, LOCK_TRIES_MAX))
		return 0;
	fr_foreread_issued(&file->streams, issued_now.thread, issued_now.pages,
			   issued_now.read_pages);
	event = log_room(disk, file->disk, STREAMS_ISSUED);
	if (event) {
		event->key = issued_now.key;
		event->access.thread = issued_now.thread;
		event->access.req_pages = issued_now.pages;
		event->access.hit_pages = issued_now.read_pages;
		bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	}
	unlock(disk);
	return 0;
}

/* The file whose state user space asks for, and the copy of that state. */
struct streams_key to_copy;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct stream_file);
} fr_str_copied SEC(".maps");

/*
 * Copies a file's state for user space. User space can't read the map itself: the policy may be
 * changing the entry on another processor, or another file may replace it. Returns whether it was
 * copied.
 */
SEC("raw_tp")
int fr_str_copy_streams(void *context)
{
	struct stream_file *file = bpf_map_lookup_elem(&fr_str_files, &to_copy);
	bool is_copied = false;
	struct disk *disk;

	if (!file)
		return 0;
	disk = disk_by_number(&file->disk);
	if (!disk || !lock(disk, LOCK_TRIES_MAX))
		return 0;
	file = bpf_map_lookup_elem(&fr_str_files, &to_copy);
	if (file)
		is_copied = bpf_map_update_elem(&fr_str_copied, &ZERO, file, BPF_ANY) == 0;
	unlock(disk);
	return is_copied;
}
