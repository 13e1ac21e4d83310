// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The recorder: what a process tree reads.
 *
 * Accesses are aggregated here: a bit a page, a time of first need for each
 * chunk of 64 pages. An access that sets no new bit costs a compare against
 * what this CPU saw last, or one hash lookup; nothing is sent to user space
 * for it. User space gets one record for each inode seen for the first time
 * and one for each name given to a system call, and fetches the tables at the
 * end. Only while a trace is recorded does each access send a record.
 *
 * Whatever could not be noted is counted in struct counts, never dropped
 * silently.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "record.h"
#include "hooks.h"
#include "dentry.h"
#include "open_file.h"
#include "whoami.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define AT_FDCWD -100
#define EBUSY 16
#define MAP_POPULATE 0x8000
#define AT_SYMLINK_NOFOLLOW 0x100
#define OVERLAYFS_SUPER_MAGIC 0x794c7630

/* Set before loading. */
const volatile u8 syscall_class[SYSCALLS_MAX];
/* Whether a fault maps all of a large folio (Linux 6.18), and not 16 pages of it. */
const volatile u32 maps_whole_folios;
/*
 * Whether only what was brought in counts, by the replay or for the program.
 * What was in memory all along is no news for a refresh, and noting a file for
 * the first time costs as much as opening it.
 */
const volatile u32 only_brought_in;

/* Whether each access is sent, for a trace. */
const volatile u32 sends_accesses;

/* Whose reads are the replay's, 0 none. */
u32 replay_tgid;
/* The thread whose next child is the program to record, 0 none. */
u32 adopt_pid;
/* Whether get_pages isn't attached: hits are not seen. */
u32 misses_only;
/* Raised whenever a process becomes traced; makes caches ask again. */
u32 epoch;
u32 next_id = 1;
u64 start_ns; /* CLOCK_MONOTONIC when the program was executed, 0 not yet */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, u8);
} traced SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 262144);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct inode_key);
	__type(value, struct inode_value);
} inodes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 262144);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct chunk_key);
	__type(value, struct chunk_value);
} chunks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20);
} records SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct counts);
} totals SEC(".maps");

/*
 * What this CPU saw last. A task that reads in a loop is recognised by its
 * pointer and start time, without a lookup; pages that were covered by its
 * last access are recognised without another.
 */
struct recent {
	u64 task;
	u64 task_start_ns;
	u32 is_traced;
	u32 epoch;
	u64 host;
	u64 start_page;
	u64 end_page;
	u32 uses;
	u32 pad;
	/* The page that a fault is for: a wait that follows is for it. */
	struct inode_key fault_key;
	/* Where the last path began. */
	u64 start_dentry;
	u64 start_inode;
	u32 start_id;
	u32 pad_3;
	/* The task waited since its last access. */
	u32 has_waited;
	/* It has brought in a page of a block device, and will wait for that. */
	u32 brings_metadata;
	/* Where the current page fault is, until it is known what it mapped. */
	u64 fault_address;
	/* Where the last page fault was: for a trace. */
	u64 traced_address;
	/* Where one was whose mapping couldn't be looked at. */
	u64 fault_owed;
	/* The fault that found no folio and brings one in. */
	u64 fault_mapping;
	u64 fault_page;
	u32 is_fault;
	u32 pad_2;
	volatile u64 number;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct recent);
} recents SEC(".maps");

struct wait {
	u64 since_ns;
	u32 is_for_read; /* of file data, as far as can be told */
	u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, struct wait);
} waiting SEC(".maps");

/* What a thread has waited for since its last access, by its number: for a trace. */
struct waited {
	u64 all_ns;
	u64 first_ns; /* the first of these waits */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, struct waited);
} waited SEC(".maps");

/* Records are put together here: a path is larger than a BPF stack. */
struct scratch {
	struct node_record node;
	struct path_record path;
	struct access_record access;
	struct inode_value inode;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct scratch);
} scratches SEC(".maps");

static const u32 ZERO = 0;

/*
 * A pointer that the kernel vouches for, as a mere number: functions that it checks apart take no
 * other. Pointers behind it are read by BPF_CORE_READ() all the same, not by plain loads: for each
 * such load the check searches all types of the kernel by name, half a millisecond at a time.
 */
static __always_inline u64 number_of(const void *pointer, struct recent *recent)
{
	recent->number = (u64)pointer;
	return recent->number;
}

static __always_inline struct counts *counts(void)
{
	return bpf_map_lookup_elem(&totals, &ZERO);
}

static __always_inline u64 since_start_ns(void)
{
	u64 now = bpf_ktime_get_ns();

	/* 0 stands for never. */
	return now > start_ns ? now - start_ns : 1;
}

static __always_inline bool tgid_is_traced(u32 tgid)
{
	u8 *state = bpf_map_lookup_elem(&traced, &tgid);

	return state && *state == TRACED_ACTIVE;
}

static __always_inline void lose_fault(void)
{
	struct counts *c = counts();

	if (c)
		c->lost_faults++;
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
	struct recent *recent = bpf_map_lookup_elem(&recents, &ZERO);

	if (!recent)
		return NULL;
	return task_is_traced(bpf_get_current_task_btf(), recent) ? recent : NULL;
}

static __always_inline void key_of(struct inode *inode, struct inode_key *key)
{
	key->pointer = (u64)inode;
	key->number = BPF_CORE_READ(inode, i_ino);
	key->generation = BPF_CORE_READ(inode, i_generation);
	key->device = BPF_CORE_READ(inode, i_sb, s_dev);
}

enum what {
	ACCESS, /* by the program */
	FETCH, /* by the replay */
};

/* The entry of an inode that is accessed, if there is one. */
static __always_inline struct inode_value *known_entry(const struct inode_key *key)
{
	struct inode_value *value = bpf_map_lookup_elem(&inodes, key);

	if (value && !value->need_ns)
		value->need_ns = since_start_ns();
	return value;
}

/*
 * The entry of an inode, made when missing. *is_new tells which. Two CPUs may
 * race; the loser takes the winner's entry, its number stays unused.
 */
static __always_inline struct inode_value *inode_entry(struct inode *inode,
						       const struct inode_key *key, enum what what,
						       bool *is_new)
{
	/* The replay may have been there first. */
	struct inode_value *value = what == ACCESS ? known_entry(key) :
						     bpf_map_lookup_elem(&inodes, key);
	struct scratch *scratch = bpf_map_lookup_elem(&scratches, &ZERO);
	struct inode_value *fresh;
	struct counts *c;

	*is_new = false;
	if (value || !scratch)
		return value;
	fresh = &scratch->inode;
	__builtin_memset(fresh, 0, sizeof(*fresh));
	fresh->need_ns = what == ACCESS ? since_start_ns() : 0;
	fresh->id = __sync_fetch_and_add(&next_id, 1);
	fresh->size_bytes = BPF_CORE_READ(inode, i_size);
	fresh->mode = BPF_CORE_READ(inode, i_mode);
	if (!bpf_map_update_elem(&inodes, key, fresh, BPF_NOEXIST)) {
		*is_new = true;
	}
	value = bpf_map_lookup_elem(&inodes, key);
	if (!value) {
		c = counts();
		if (c)
			c->lost_inodes++;
	}
	return value;
}

/* As many directories as a path of 4,096 bytes can name. */
#define DEPTH_MAX 2048

struct walk {
	struct dentry *dentry;
	struct inode_key key;
	u32 id;
	u32 pad;
	u64 need_ns;
};

/* Sends one node and steps to its parent; stops at a parent that was sent before. */
static long send_node(u64 depth, struct walk *walk)
{
	struct scratch *scratch = bpf_map_lookup_elem(&scratches, &ZERO);
	struct dentry *dentry = walk->dentry;
	struct dentry *parent = BPF_CORE_READ(dentry, d_parent);
	struct inode *inode = (struct inode *)walk->key.pointer;
	struct inode *parent_inode = NULL;
	struct inode_value *parent_value = NULL;
	struct inode_key parent_key = {};
	struct node_record *node;
	struct counts *c;
	bool is_new = false;
	u32 length = 0;

	if (!scratch)
		return 1;
	node = &scratch->node;
	node->type = RECORD_NODE;
	node->id = walk->id;
	node->parent = 0;
	node->generation = walk->key.generation;
	node->number = walk->key.number;
	node->device = walk->key.device;
	node->mode = BPF_CORE_READ(inode, i_mode);
	node->need_ns = walk->need_ns;
	if (dentry && parent != dentry) {
		parent_inode = BPF_CORE_READ(parent, d_inode);
		length = BPF_CORE_READ(dentry, d_name.len) & NAME_BYTES_MAX;
		bpf_probe_read_kernel(node->name, length, BPF_CORE_READ(dentry, d_name.name));
	}
	if (parent_inode) {
		key_of(parent_inode, &parent_key);
		parent_value = inode_entry(parent_inode, &parent_key,
					   walk->need_ns ? ACCESS : FETCH, &is_new);
		if (parent_value) {
			node->parent = parent_value->id;
			if (is_new)
				parent_value->uses |= USE_LOOKED_UP;
		}
	}
	node->name_length = length;
	if (bpf_ringbuf_output(&records, node,
			       __builtin_offsetof(struct node_record, name) + length,
			       BPF_RB_NO_WAKEUP)) {
		c = counts();
		if (c)
			c->lost_records++;
	}
	if (!is_new || !parent_value)
		return 1;
	walk->dentry = parent;
	walk->key = parent_key;
	walk->id = parent_value->id;
	return 0;
}

__noinline int send_nodes(u64 inode_pointer, u64 dentry_pointer, u32 id, u64 need_ns)
{
	struct inode *inode = (struct inode *)inode_pointer;
	struct dentry *dentry = (struct dentry *)dentry_pointer;
	struct walk walk = {
		.dentry = dentry ? dentry : alias_of(inode),
		.id = id,
		.need_ns = need_ns,
	};
	struct counts *c;

	key_of(inode, &walk.key);
	if (bpf_loop(DEPTH_MAX, send_node, &walk, 0) < DEPTH_MAX)
		return 0;
	c = counts();
	if (c)
		c->lost_records++;
	return 0;
}

/* Notes that an inode was used; returns its number, 0 when it couldn't be noted. */
__noinline u32 note_inode(u64 inode_pointer, u64 dentry_pointer, u32 uses)
{
	struct inode *inode = (struct inode *)inode_pointer;
	struct dentry *dentry = (struct dentry *)dentry_pointer;
	struct inode_key key = {};
	struct inode_value *value;
	bool is_new;

	if (!inode)
		return 0;
	key_of(inode, &key);
	value = inode_entry(inode, &key, ACCESS, &is_new);
	if (!value)
		return 0;
	if ((value->uses & uses) != uses)
		__sync_fetch_and_or(&value->uses, uses);
	if (is_new)
		send_nodes((u64)inode, (u64)dentry, value->id, value->need_ns);
	return value->id;
}

static __always_inline void take_waited(u32 tid, struct waited *taken)
{
	struct waited *found = bpf_map_lookup_elem(&waited, &tid);

	taken->all_ns = 0;
	taken->first_ns = 0;
	if (!found)
		return;
	*taken = *found;
	bpf_map_delete_elem(&waited, &tid);
}

static __always_inline void add_waited(u32 tid, u64 ns)
{
	struct waited *found = bpf_map_lookup_elem(&waited, &tid);
	struct waited fresh = { .all_ns = ns, .first_ns = ns };
	struct counts *c;

	if (found) {
		found->all_ns += ns;
		return;
	}
	if (bpf_map_update_elem(&waited, &tid, &fresh, BPF_ANY)) {
		c = counts();
		if (c)
			c->lost_processes++;
	}
}

/* What a record of a trace says besides who, when and how long it waited. */
struct seen {
	u64 inode;
	u64 start_bytes;
	u64 length_bytes;
	u64 file;
	u64 asked_bytes;
	u64 map_start_bytes;
	u64 map_end_bytes;
	u32 mapping;
	u32 advice;
	u32 kind;
	u32 pad;
};

/* Which file a record of a trace is about; false when none can be. */
static __always_inline bool name_file(struct access_record *record, u64 inode_pointer)
{
	struct inode *inode = (struct inode *)inode_pointer;

	if (!inode)
		return false;
	record->size_bytes = BPF_CORE_READ(inode, i_size);
	if (record->kind == ACCESS_METADATA || record->kind == ACCESS_BLOCK) {
		record->device = BPF_CORE_READ(inode, i_rdev);
		return true;
	}
	if ((BPF_CORE_READ(inode, i_mode) & S_IFMT) != S_IFREG)
		return false;
	record->id = note_inode(inode_pointer, 0, 0);
	return record->id; /* if not, that is counted */
}

/* Fills a record for a trace; false when there is nothing to say. */
static __always_inline bool fill_access(struct access_record *record, const struct seen *seen)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct waited taken;

	record->type = RECORD_ACCESS;
	record->kind = seen->kind;
	record->pid = task->tgid;
	record->tid = task->pid;
	take_waited(task->pid, &taken);
	if (seen->kind == ACCESS_CALL && !taken.all_ns)
		return false;
	if (seen->kind != ACCESS_EXIT && seen->kind != ACCESS_CALL &&
	    !name_file(record, seen->inode))
		return false;
	record->parent_tid = task->tgid == task->pid ? BPF_CORE_READ(task, real_parent, pid) :
						       task->tgid;
	record->time_ns = since_start_ns();
	record->start_bytes = seen->start_bytes;
	record->length_bytes = seen->length_bytes;
	record->file = seen->file;
	record->asked_bytes = seen->asked_bytes;
	record->map_start_bytes = seen->map_start_bytes;
	record->map_end_bytes = seen->map_end_bytes;
	record->mapping = seen->mapping;
	record->advice = seen->advice;
	record->waited_ns = taken.all_ns;
	record->first_waited_ns = taken.first_ns;
	bpf_get_current_comm(record->name, sizeof(record->name));
	return true;
}

/*
 * Sends a record for a trace. It is put together in a scratch buffer: before Linux 6.13, functions
 * that call each other share a stack of 512 bytes.
 */
__noinline int send_access(const struct seen *seen)
{
	struct scratch *scratch = bpf_map_lookup_elem(&scratches, &ZERO);
	struct counts *c;

	if (!seen || !scratch)
		return 0;
	__builtin_memset(&scratch->access, 0, sizeof(scratch->access));
	if (!fill_access(&scratch->access, seen))
		return 0;
	if (bpf_ringbuf_output(&records, &scratch->access, sizeof(scratch->access),
			       BPF_RB_NO_WAKEUP)) {
		c = counts();
		if (c)
			c->lost_records++;
	}
	return 0;
}

/* Sends what concerns no file. */
static __noinline void send_mere(u32 kind)
{
	struct seen seen = { .kind = kind };

	send_access(&seen);
}

static __always_inline void send_pages(struct inode *inode, u64 start_page, u64 end_page, u32 kind)
{
	struct seen seen = {
		.kind = kind,
		.inode = (u64)inode,
		.start_bytes = start_page << 12,
		.length_bytes = (end_page - start_page) << 12,
	};

	if (sends_accesses)
		send_access(&seen);
}

/* A bit of a block's state: BH_Uptodate of <linux/buffer_head.h>. */
#define BLOCK_IS_READ 0

#define VM_EXEC 0x4
#define VM_SEQ_READ 0x8000
#define VM_RAND_READ 0x10000

/* Where a fault is, and what of which file is mapped there. */
struct place {
	u64 address;
	u64 mapping;
	u64 page;
	struct seen *seen;
};

static long find_place(struct task_struct *task, struct vm_area_struct *vma, struct place *place)
{
	struct file *file = BPF_CORE_READ(vma, vm_file);
	struct seen *seen = place->seen;
	u64 start = BPF_CORE_READ(vma, vm_start), end = BPF_CORE_READ(vma, vm_end);
	u64 first = BPF_CORE_READ(vma, vm_pgoff);
	u64 flags = BPF_CORE_READ(vma, vm_flags);

	if (!file || !seen || (u64)BPF_CORE_READ(file, f_mapping) != place->mapping)
		return 0;
	place->page = first + ((place->address - start) >> 12);
	seen->file = (u64)file;
	seen->map_start_bytes = first << 12;
	seen->map_end_bytes = (first << 12) + (end - start);
	seen->mapping = MAPPING_KNOWN;
	if (flags & VM_EXEC)
		seen->mapping |= MAPPING_EXEC;
	if (flags & VM_SEQ_READ)
		seen->mapping |= MAPPING_SEQUENTIAL;
	if (flags & VM_RAND_READ)
		seen->mapping |= MAPPING_RANDOM;
	return 0;
}

/* The same, whatever the file. */
static long find_any_place(struct task_struct *task, struct vm_area_struct *vma,
			   struct place *place)
{
	struct file *file = BPF_CORE_READ(vma, vm_file);

	if (file)
		place->mapping = (u64)BPF_CORE_READ(file, f_mapping);
	return find_place(task, vma, place);
}

/*
 * Sends a fault, or what was mapped for one; of which page it was is asked of the mapping. That may
 * be being changed by another thread, or the address be unknown after a move to another CPU: then
 * only the pages are known.
 */
static __noinline void send_fault(struct address_space *mapping, u64 start_page, u64 end_page,
				  u32 kind, struct recent *recent)
{
	struct seen seen = {
		.kind = kind,
		.inode = (u64)BPF_CORE_READ(mapping, host),
		.start_bytes = start_page << 12,
		.length_bytes = (end_page - start_page) << 12,
	};
	struct place place = {
		.address = recent->traced_address,
		.mapping = (u64)mapping,
		.seen = &seen,
	};

	if (!sends_accesses)
		return;
	if (place.address)
		bpf_find_vma(bpf_get_current_task_btf(), place.address, find_place, &place, 0);
	if (place.page >= start_page && place.page < end_page) {
		seen.start_bytes = place.page << 12;
		seen.length_bytes = (end_page - place.page) << 12;
	} else {
		/* The address is of another fault. */
		seen.mapping = 0;
		seen.file = 0;
	}
	send_access(&seen);
}

static __always_inline u64 chunk_bits(u64 chunk, u64 start_page, u64 end_page)
{
	u64 base = chunk << CHUNK_SHIFT;
	u64 from = start_page > base ? start_page - base : 0;
	u64 to = end_page - base;
	u64 bits = ~0ULL;

	if (to < CHUNK_PAGES)
		bits = (1ULL << (to & 63)) - 1;
	return bits & (~0ULL << (from & 63));
}

static __always_inline u32 ones(u64 bits)
{
	/* BPF has no popcount instruction before v4. */
	bits = bits - ((bits >> 1) & 0x5555555555555555ULL);
	bits = (bits & 0x3333333333333333ULL) + ((bits >> 2) & 0x3333333333333333ULL);
	bits = (bits + (bits >> 4)) & 0x0f0f0f0f0f0f0f0fULL;
	return (bits * 0x0101010101010101ULL) >> 56;
}

/* Returns 1 when a bit was new. */
static __always_inline int note_chunk(struct chunk_value *value, u64 bits, enum what what,
				      struct counts *c)
{
	u64 fresh;

	if (what == FETCH) {
		__sync_fetch_and_or(&value->fetched, bits & ~value->used);
		return 0;
	}
	fresh = bits & ~value->used;
	if (!fresh)
		return 0;
	if (!value->need_ns)
		value->need_ns = since_start_ns();
	c->accessed_pages += ones(fresh);
	c->used_pages += ones(fresh & value->fetched);
	__sync_fetch_and_or(&value->used, fresh);
	return 1;
}

struct span {
	u64 start_page;
	u64 end_page;
	u32 id;
	u32 what;
	u32 news;
	u32 lost;
};

/* Notes one chunk of a span, chunk 0 excepted. */
static long note_span(u64 step, struct span *span)
{
	u64 chunk = (span->start_page >> CHUNK_SHIFT) + step;
	struct chunk_key key = { .id = span->id, .chunk = (u32)chunk };
	struct counts *c = counts();
	struct chunk_value *value;
	struct chunk_value fresh = {};

	if (!c || (chunk << CHUNK_SHIFT) >= span->end_page)
		return 1;
	if (chunk == 0)
		return 0;
	value = bpf_map_lookup_elem(&chunks, &key);
	if (!value) {
		bpf_map_update_elem(&chunks, &key, &fresh, BPF_NOEXIST);
		value = bpf_map_lookup_elem(&chunks, &key);
		if (!value) {
			c->lost_chunks++;
			span->lost++;
			return 0;
		}
	}
	span->news += note_chunk(value, chunk_bits(chunk, span->start_page, span->end_page),
				 span->what, c);
	return 0;
}

/* Whether the replay fetched a page; with `unused`, and nobody has used it yet. */
static __always_inline bool chunk_fetched(struct inode_value *inode, u64 page, bool unused)
{
	struct chunk_key key = { .id = inode->id, .chunk = (u32)(page >> CHUNK_SHIFT) };
	struct chunk_value *chunk = &inode->first;
	u64 bits;

	if (key.chunk)
		chunk = bpf_map_lookup_elem(&chunks, &key);
	if (!chunk)
		return false;
	bits = unused ? chunk->fetched & ~chunk->used : chunk->fetched;
	return bits & (1ULL << (page & 63));
}

/*
 * Chunks noted for one event. filemap_get_pages() returns at most 31 folios,
 * of 512 pages at most where a PMD maps 2 MiB: 248 chunks. What a longer read
 * still wants comes with its next event.
 */
#define CHUNKS_PER_EVENT_MAX 250
/* Chunks noted for one system call: as much as read() transfers at most, 2 GiB. */
#define CHUNKS_PER_CALL_MAX 8192

/* How pages were accessed, and how many chunks of them may be noted at once. */
#define HOW(uses, chunks_max) ((uses) | (u64)(chunks_max) << 32)
/* The program brought them in itself. */
#define MISSED (1ULL << 63)
#define BY_READ HOW(USE_READ, CHUNKS_PER_EVENT_MAX)
#define BY_MAPPING HOW(USE_MAPPED, CHUNKS_PER_EVENT_MAX)
#define BY_READ_CALL HOW(USE_READ, CHUNKS_PER_CALL_MAX)
#define BY_MAPPING_CALL HOW(USE_MAPPED, CHUNKS_PER_CALL_MAX)

/*
 * Not static, as others below: the kernel then checks it once, and not at each
 * place where it is called, which makes loading take half the time.
 */
__noinline int note_pages(u64 inode_pointer, u64 start_page, u64 end_page, u64 how,
			  struct recent *recent)
{
	struct inode *inode = (struct inode *)inode_pointer;
	u32 uses = (u32)how, chunks_max = (how & ~MISSED) >> 32;
	struct counts *c = counts();
	struct inode_key key = {};
	struct inode_value *value;
	struct span span;
	u64 file_pages, limit_page, recent_start;
	u64 asked_page = start_page;
	u32 has_waited;
	bool is_new = false;

	if (!c || !recent)
		return 0;
	c->calls++;
	has_waited = recent->has_waited;
	recent->has_waited = 0;
	recent->is_fault = 0;
	recent->brings_metadata = 0;
	recent_start = start_page;
	if (recent->host == (u64)inode && recent->uses == uses &&
	    start_page >= recent->start_page && start_page <= recent->end_page) {
		if (end_page <= recent->end_page)
			return 0;
		/*
		 * Each event of one long read asks for all that is left of it. Only its
		 * end is new.
		 */
		recent_start = recent->start_page;
		start_page = recent->end_page;
	}
	if ((BPF_CORE_READ(inode, i_mode) & S_IFMT) != S_IFREG)
		return 0;
	file_pages = ((u64)BPF_CORE_READ(inode, i_size) + 4095) >> 12;
	if (end_page > file_pages)
		end_page = file_pages;
	limit_page = start_page + ((u64)chunks_max << CHUNK_SHIFT);
	if (end_page > limit_page)
		end_page = limit_page;
	if (start_page >= end_page)
		return 0;
	key_of(inode, &key);
	if (only_brought_in && !(how & MISSED))
		value = known_entry(&key);
	else
		value = inode_entry(inode, &key, ACCESS, &is_new);
	if (!value)
		return 0;
	if ((value->uses & uses) != uses)
		__sync_fetch_and_or(&value->uses, uses);
	/* The event of a read comes after the wait, and begins where it waited. */
	if (has_waited && uses == USE_READ && chunk_fetched(value, asked_page, true))
		c->late_pages++;
	span.start_page = start_page;
	span.end_page = end_page;
	span.id = value->id;
	span.what = ACCESS;
	span.news = 0;
	span.lost = 0;
	if (start_page < CHUNK_PAGES)
		span.news +=
			note_chunk(&value->first, chunk_bits(0, start_page, end_page), ACCESS, c);
	if (end_page > CHUNK_PAGES)
		bpf_loop(chunks_max + 1, note_span, &span, 0);
	if (span.news)
		c->news++;
	if (!span.lost) {
		recent->host = (u64)inode;
		recent->uses = uses;
		recent->start_page = recent_start;
		recent->end_page = end_page;
	}
	if (is_new)
		send_nodes((u64)inode, 0, value->id, value->need_ns);
	return 0;
}

/* A read asks for pages index to last_index, cached or not. */
static __always_inline int on_get_pages(void *context, struct address_space *mapping, u64 index,
					u64 last_index)
{
	struct recent *recent = traced_now();

	if (!recent)
		return 0;
	send_pages(BPF_CORE_READ(mapping, host), index, last_index + 1, ACCESS_READ);
	note_pages((u64)BPF_CORE_READ(mapping, host), index, last_index + 1, BY_READ, recent);
	return 0;
}

HOOK_GET_PAGES("tp_btf", get_pages, on_get_pages)

/* Pages that a PMD maps. */
#define HUGE_PAGES 512

/*
 * Whether a fault maps all of a folio at once: when a PMD can map it, and since
 * Linux 6.18 always, unless the end of the mapping is in the way.
 */
static __always_inline bool is_mapped_whole(u64 pages)
{
	return pages >= HUGE_PAGES || (maps_whole_folios && pages > 1);
}

/*
 * Fault-around maps what is cached among 16 pages around a fault, or all of
 * the folio there. Which of them the program touches can't be seen any more,
 * so all count.
 */
static __always_inline int on_map_pages(void *context, struct address_space *mapping,
					u64 start_page, u64 last_page)
{
	struct recent *recent = traced_now();
	u64 end_page = last_page + 1;
	struct inode_key key = {};
	struct inode *host;
	struct found folio;

	if (!recent)
		return 0;
	recent->fault_address = 0;
	recent->fault_owed = 0;
	host = BPF_CORE_READ(mapping, host);
	if (only_brought_in) {
		key_of(host, &key);
		if (!known_entry(&key))
			return 0;
	}
	if (maps_whole_folios) {
		if (cached_folio(number_of(mapping, recent), start_page, &folio) &&
		    folio.start_page < start_page)
			start_page = folio.start_page;
		if (cached_folio(number_of(mapping, recent), end_page - 1, &folio) &&
		    folio.end_page > end_page)
			end_page = folio.end_page;
	}
	send_fault(mapping, start_page, end_page, ACCESS_MAPPED, recent);
	note_pages((u64)host, start_page, end_page, BY_MAPPING, recent);
	return 0;
}

HOOK_MAP_PAGES("tp_btf", map_pages, on_map_pages)

/* The page isn't there, or isn't ready: the program waits for it. */
static __always_inline int on_fault(void *context, struct address_space *mapping, u64 index)
{
	struct recent *recent = traced_now();
	struct found mapped = { .start_page = index, .end_page = index + 1 };
	struct found folio;
	u64 how = BY_MAPPING;

	if (!recent)
		return 0;
	recent->fault_address = 0;
	recent->fault_mapping = 0;
	send_fault(mapping, index, (u64)index + 1, ACCESS_FAULT, recent);
	if (!cached_folio(number_of(mapping, recent), index, &folio)) {
		/* It is brought in by this very fault: see page_added(). */
		recent->fault_mapping = (u64)mapping;
		how |= MISSED;
	} else if (is_mapped_whole(folio.end_page - folio.start_page)) {
		mapped = folio;
	}
	note_pages((u64)BPF_CORE_READ(mapping, host), mapped.start_page, mapped.end_page, how,
		   recent);
	/* The event of a fault comes before the wait; a page brought in by it was never late. */
	recent->fault_page = index;
	recent->is_fault = !recent->fault_mapping;
	key_of(BPF_CORE_READ(mapping, host), &recent->fault_key);
	return 0;
}

HOOK_FAULT("tp_btf", fault, on_fault)

struct huge {
	u64 address;
	u64 mapping;
	u64 start_page;
};

/* Finds what of which file a PMD would map at an address, when one could. */
static long find_huge(struct task_struct *task, struct vm_area_struct *vma, struct huge *huge)
{
	u64 bytes = HUGE_PAGES << 12;
	u64 address = huge->address & ~(bytes - 1);
	struct file *file = BPF_CORE_READ(vma, vm_file);
	u64 start = BPF_CORE_READ(vma, vm_start);
	u64 page;

	if (!file || address < start || address + bytes > BPF_CORE_READ(vma, vm_end))
		return 0;
	page = BPF_CORE_READ(vma, vm_pgoff) + ((address - start) >> 12);
	if (page & (HUGE_PAGES - 1))
		return 0;
	huge->start_page = page;
	huge->mapping = (u64)BPF_CORE_READ(file, f_mapping);
	return 0;
}

/* Notes what a PMD mapped at an address; false when the mappings are being changed. */
__noinline int note_huge(u64 address, struct recent *recent)
{
	struct huge huge = { .address = address };
	struct address_space *mapping;
	struct found folio;

	if (!recent)
		return true;
	if (bpf_find_vma(bpf_get_current_task_btf(), address, find_huge, &huge, 0) == -EBUSY)
		return false;
	if (!huge.mapping || !cached_folio(huge.mapping, huge.start_page, &folio) ||
	    folio.end_page - folio.start_page < HUGE_PAGES)
		return true;
	mapping = (struct address_space *)huge.mapping;
	note_pages((u64)BPF_CORE_READ(mapping, host), huge.start_page, huge.start_page + HUGE_PAGES,
		   BY_MAPPING, recent);
	return true;
}

/* Another thread was changing mappings when a fault was to be looked at. It may be done by now. */
static __always_inline void settle_fault(struct recent *recent)
{
	u64 address = recent->fault_owed;

	if (!address)
		return;
	recent->fault_owed = 0;
	if (!note_huge(address, recent))
		lose_fault();
}

/*
 * A PMD that maps 2 MiB of a cached file is set without any event of the page
 * cache, and no fault follows for what it maps. So the address of each fault is
 * kept, and when file pages were mapped without such an event, they are looked
 * up: at the change of the counter of mapped pages, where the kernel may be
 * asked for the mapping without a detour by an interrupt.
 */
static __always_inline int keep_fault_address(u64 address, u64 error_code)
{
	struct recent *recent;

	/* The lowest bit: there is a page, but it can't be used so. */
	if (error_code & 1)
		return 0;
	recent = traced_now();
	if (recent) {
		recent->fault_address = address;
		recent->traced_address = address;
	}
	return 0;
}

SEC("tp_btf/page_fault_user")
int BPF_PROG(user_fault, unsigned long address, struct pt_regs *regs, unsigned long error_code)
{
	return keep_fault_address(address, error_code);
}

SEC("tp_btf/page_fault_kernel")
int BPF_PROG(kernel_fault, unsigned long address, struct pt_regs *regs, unsigned long error_code)
{
	return keep_fault_address(address, error_code);
}

/* Of the kernel's counters of mapped pages, that of pages of files. */
#define MM_FILEPAGES 0

SEC("tp_btf/rss_stat")
int BPF_PROG(file_pages_mapped__tp2, struct mm_struct *mm, int member)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct recent *recent = bpf_map_lookup_elem(&recents, &ZERO);
	u64 address;

	if (!recent || !(recent->fault_address | recent->fault_owed) ||
	    BPF_CORE_READ(task, mm) != mm || !task_is_traced(task, recent))
		return 0;
	settle_fault(recent);
	address = recent->fault_address;
	recent->fault_address = 0;
	/* Whatever else was mapped, the fault is over. */
	if (address && member == MM_FILEPAGES && !note_huge(address, recent))
		recent->fault_owed = address;
	return 0;
}

/*
 * Before Linux 6.2 that counter changes once in 64 faults. There the end of filemap_map_pages() is
 * seen, which a PMD that it sets leads to as well.
 */
SEC("fexit/filemap_map_pages")
int BPF_PROG(file_pages_mapped__fn3, struct vm_fault *vmf, unsigned long start, unsigned long end,
	     unsigned int ret)
{
	struct recent *recent = ret & VM_FAULT_NOPAGE ? traced_now() : NULL;

	if (recent && !note_huge(BPF_CORE_READ(vmf, address), recent))
		lose_fault();
	return 0;
}

/* A fault found no folio: this one may be for it, and is mapped whole. */
static __always_inline void fault_brought(struct folio *folio, struct inode *inode, u64 pages,
					  struct recent *recent)
{
	u64 start_page = folio->index;

	if (!recent->fault_mapping || recent->fault_mapping != (u64)BPF_CORE_READ(folio, mapping) ||
	    recent->fault_page < start_page || recent->fault_page - start_page >= pages)
		return;
	recent->fault_mapping = 0;
	if (is_mapped_whole(pages))
		note_pages((u64)inode, start_page, start_page + pages, BY_MAPPING | MISSED, recent);
}

/* Pages come in: for the program (a miss), or for the replay. */
SEC("tp_btf/mm_filemap_add_to_page_cache")
int BPF_PROG(page_added, struct folio *folio)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct recent *recent = bpf_map_lookup_elem(&recents, &ZERO);
	struct counts *c = counts();
	struct inode_value *value;
	struct inode_key key = {};
	struct inode *inode;
	struct span span;
	u64 pages;
	u32 mode;
	bool is_new;
	bool is_replay;

	if (!recent || !c)
		return 0;
	is_replay = replay_tgid && (u32)task->tgid == replay_tgid;
	if (!is_replay && !task_is_traced(task, recent))
		return 0;
	inode = BPF_CORE_READ(folio, mapping, host);
	mode = BPF_CORE_READ(inode, i_mode) & S_IFMT;
	pages = folio_pages(folio, folio_flags(folio));
	if (mode == S_IFBLK) {
		if (is_replay)
			c->fetched_metadata_pages += pages;
		else
			c->missed_metadata_pages += pages;
		recent->brings_metadata = !is_replay;
		if (!is_replay)
			send_pages(inode, folio->index, folio->index + pages, ACCESS_METADATA);
		return 0;
	}
	if (mode != S_IFREG)
		return 0;
	if (!is_replay) {
		c->missed_pages += pages;
		/*
		 * Without get_pages, what was read for the program stands for what it
		 * read, until user space has seen the misses and attached it again.
		 */
		if (misses_only)
			note_pages((u64)inode, folio->index, folio->index + pages, BY_READ | MISSED,
				   recent);
		else if (only_brought_in)
			note_inode((u64)inode, 0, 0); /* its accesses now count */
		fault_brought(folio, inode, pages, recent);
		return 0;
	}
	c->fetched_pages += pages;
	key_of(inode, &key);
	value = inode_entry(inode, &key, FETCH, &is_new);
	if (!value)
		return 0;
	span.start_page = folio->index;
	span.end_page = folio->index + pages;
	span.id = value->id;
	span.what = FETCH;
	span.news = 0;
	span.lost = 0;
	if (span.start_page < CHUNK_PAGES)
		note_chunk(&value->first, chunk_bits(0, span.start_page, span.end_page), FETCH, c);
	if (span.end_page > CHUNK_PAGES)
		bpf_loop(CHUNKS_PER_EVENT_MAX + 1, note_span, &span, 0);
	if (is_new)
		send_nodes((u64)inode, 0, value->id, 0);
	return 0;
}

/* What a task of the program is about to wait for. */
static __always_inline bool waits_for_read(struct task_struct *task, struct recent *recent,
					   struct counts *c)
{
	struct inode_value *value;

	if (!recent || recent->task != (u64)task)
		return true;
	if (recent->is_fault) {
		recent->is_fault = 0;
		value = bpf_map_lookup_elem(&inodes, &recent->fault_key);
		if (value && chunk_fetched(value, recent->fault_page, false))
			c->late_pages++;
		return false;
	}
	if (recent->brings_metadata) {
		recent->brings_metadata = 0;
		return false;
	}
	return true;
}

/* The program waits for I/O: io_schedule() marks the task. */
SEC("tp_btf/sched_switch")
int BPF_PROG(switched, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct recent *recent;
	struct wait fresh = {};
	struct wait *wait;
	struct counts *c;
	u64 now;
	u32 pid;

	if (BPF_CORE_READ_BITFIELD(prev, in_iowait) && tgid_is_traced(prev->tgid)) {
		c = counts();
		recent = bpf_map_lookup_elem(&recents, &ZERO);
		if (!c)
			return 0;
		c->stalls++;
		pid = prev->pid;
		fresh.since_ns = bpf_ktime_get_ns();
		fresh.is_for_read = waits_for_read(prev, recent, c);
		bpf_map_update_elem(&waiting, &pid, &fresh, BPF_ANY);
	}
	if (!BPF_CORE_READ_BITFIELD(next, in_iowait))
		return 0;
	pid = next->pid;
	wait = bpf_map_lookup_elem(&waiting, &pid);
	if (!wait)
		return 0;
	now = bpf_ktime_get_ns();
	c = counts();
	recent = bpf_map_lookup_elem(&recents, &ZERO);
	if (c && now > wait->since_ns)
		c->stall_ns += now - wait->since_ns;
	if (sends_accesses && now > wait->since_ns)
		add_waited(pid, now - wait->since_ns);
	/* It may have slept on another CPU. */
	if (recent && wait->is_for_read && task_is_traced(next, recent))
		recent->has_waited = 1;
	bpf_map_delete_elem(&waiting, &pid);
	return 0;
}

/*
 * A block of metadata is looked for that isn't read yet: its page may be on its way already, for
 * another thread. For a trace.
 */
SEC("tp_btf/block_touch_buffer")
int BPF_PROG(block_touched, struct buffer_head *buffer)
{
	u64 start_page;
	struct inode *inode;

	if ((BPF_CORE_READ(buffer, b_state) & (1UL << BLOCK_IS_READ)) || !traced_now())
		return 0;
	inode = BPF_CORE_READ(buffer_folio(buffer), mapping, host);
	if (!inode || (BPF_CORE_READ(inode, i_mode) & S_IFMT) != S_IFBLK)
		return 0;
	start_page = (BPF_CORE_READ(buffer, b_blocknr) * BPF_CORE_READ(buffer, b_size)) >> 12;
	send_pages(inode, start_page, start_page + 1, ACCESS_BLOCK);
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(forked, struct task_struct *parent, struct task_struct *child)
{
	u32 parent_tgid = parent->tgid, child_tgid = child->tgid;
	struct counts *c;
	u8 state = TRACED_ACTIVE;

	if (parent_tgid == child_tgid)
		return 0;
	if (adopt_pid && (u32)parent->pid == adopt_pid) {
		adopt_pid = 0;
		/* What runs between fork and exec is still Foreread. */
		state = TRACED_UNTIL_EXEC;
	} else if (!tgid_is_traced(parent_tgid)) {
		return 0;
	}
	if (bpf_map_update_elem(&traced, &child_tgid, &state, BPF_ANY)) {
		c = counts();
		if (c)
			c->lost_processes++;
	}
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(exited, struct task_struct *task)
{
	u32 tgid = task->tgid;

	if (sends_accesses && tgid_is_traced(tgid))
		send_mere(ACCESS_EXIT);
	/*
	 * The last thread, which need not be the leader: that may leave before the
	 * others, or be replaced by one of them that calls exec.
	 */
	if (BPF_CORE_READ(task, signal, live.counter) == 0)
		bpf_map_delete_elem(&traced, &tgid);
	return 0;
}

static __always_inline u32 note_dentry(struct dentry *dentry, u32 uses)
{
	return dentry ? note_inode((u64)BPF_CORE_READ(dentry, d_inode), (u64)dentry, uses) : 0;
}

/* Where a path given to a system call starts: a node's number. */
static __always_inline u32 start_of_path(struct task_struct *task, long dirfd, u8 first_byte,
					 struct recent *recent)
{
	struct file *file;
	u64 dentry, inode;

	if (first_byte == '/') {
		dentry = (u64)BPF_CORE_READ(task, fs, root.dentry);
	} else if ((s32)dirfd == AT_FDCWD) {
		dentry = (u64)BPF_CORE_READ(task, fs, pwd.dentry);
	} else {
		file = file_of(task, (s32)dirfd);
		dentry = file ? (u64)BPF_CORE_READ(file, f_path.dentry) : 0;
	}
	if (!dentry)
		return 0;
	inode = (u64)BPF_CORE_READ((struct dentry *)dentry, d_inode);
	/* One name after the other is looked up from the same place. */
	if (dentry == recent->start_dentry && inode == recent->start_inode)
		return recent->start_id;
	recent->start_dentry = dentry;
	recent->start_inode = inode;
	recent->start_id = note_inode(inode, dentry, USE_LOOKED_UP);
	return recent->start_id;
}

static __always_inline void send_path(struct path_record *record, u32 directory, long length,
				      u32 uses, u32 flags, long result)
{
	struct counts *c;

	record->type = RECORD_PATH;
	record->directory = directory;
	record->result = (s32)result;
	record->uses = uses;
	record->need_ns = since_start_ns();
	record->path_length = (u32)length - 1;
	record->flags = flags;
	if (bpf_ringbuf_output(&records, record,
			       __builtin_offsetof(struct path_record, path) +
				       (length & (PATH_BYTES_MAX - 1)),
			       BPF_RB_NO_WAKEUP)) {
		c = counts();
		if (c)
			c->lost_records++;
	}
}

/*
 * filemap_get_pages() returns without its event when the last folio it found
 * wasn't ready and others came before it; the event that follows covers the
 * rest only. So when the last event covers less than a read returned, what
 * was read is taken from the file's position.
 */
static __noinline void note_whole_read(struct task_struct *task, struct pt_regs *regs,
				       bool has_position, long bytes, struct recent *recent)
{
	struct file *file = file_of(task, (s32)SYSCALL_ARGUMENT_0(regs));
	struct inode *host, *last = (struct inode *)recent->host;
	s64 position;

	if (!file)
		return;
	host = BPF_CORE_READ(file, f_mapping, host);
	if (BPF_CORE_READ(host, i_sb, s_magic) == OVERLAYFS_SUPER_MAGIC) {
		/* An overlay's file has no pages; the last event was of the real one. */
		if (!last || BPF_CORE_READ(last, i_size) != BPF_CORE_READ(host, i_size))
			return;
		host = last;
	}
	position = has_position ? (s64)SYSCALL_ARGUMENT_3(regs) : -1;
	if (position < 0)
		position = BPF_CORE_READ(file, f_pos) - bytes;
	if (position < 0)
		return;
	note_pages((u64)host, (u64)position >> 12, ((u64)position + bytes + 4095) >> 12,
		   BY_READ_CALL, recent);
}

/* A call with a descriptor has returned: for a trace, what it did to which open file. */
static __always_inline void send_call(struct file *file, struct seen *seen)
{
	struct inode *host;

	if (!file)
		return;
	host = BPF_CORE_READ(file, f_mapping, host);
	/* An overlay's file has no pages; those of the real one have been sent. */
	if (BPF_CORE_READ(host, i_sb, s_magic) == OVERLAYFS_SUPER_MAGIC)
		return;
	seen->inode = (u64)host;
	seen->file = (u64)file;
	send_access(seen);
}

/* A read has returned: for a trace, which bytes of which open file. */
static __noinline void send_read(struct task_struct *task, struct pt_regs *regs, u32 class,
				 long bytes)
{
	struct file *file = file_of(task, (s32)SYSCALL_ARGUMENT_0(regs));
	struct seen seen = { .kind = ACCESS_READ_CALL, .length_bytes = bytes };
	s64 position;

	if (!file)
		return;
	position = (class & SYSCALL_CLASS_MASK) == CALL_PREAD ? (s64)SYSCALL_ARGUMENT_3(regs) :
								BPF_CORE_READ(file, f_pos) - bytes;
	if (position < 0)
		return;
	seen.start_bytes = position;
	if (class & CALL_COUNT_2)
		seen.asked_bytes = SYSCALL_ARGUMENT_2(regs);
	send_call(file, &seen);
}

#define ADVICE_WILLNEED 3

/* Advice was given, or readahead asked for: for a trace. */
static __noinline void send_advice(struct task_struct *task, struct pt_regs *regs, u32 class)
{
	struct seen seen = {
		.kind = ACCESS_ADVICE,
		.start_bytes = SYSCALL_ARGUMENT_1(regs),
		.length_bytes = SYSCALL_ARGUMENT_2(regs),
		.advice = class == CALL_AHEAD ? ADVICE_WILLNEED : (u32)SYSCALL_ARGUMENT_3(regs),
	};

	send_call(file_of(task, (s32)SYSCALL_ARGUMENT_0(regs)), &seen);
}

/* The same of a mapping. What else it is advised, its faults say. */
static __noinline void send_mapping_advice(struct task_struct *task, struct pt_regs *regs)
{
	struct seen seen = { .kind = ACCESS_ADVICE, .advice = ADVICE_WILLNEED };
	struct place place = { .address = SYSCALL_ARGUMENT_0(regs), .seen = &seen };

	if (SYSCALL_ARGUMENT_2(regs) != ADVICE_WILLNEED ||
	    bpf_find_vma(task, place.address, find_any_place, &place, 0) || !seen.file)
		return;
	seen.start_bytes = place.page << 12;
	seen.length_bytes = SYSCALL_ARGUMENT_1(regs);
	send_call((struct file *)seen.file, &seen);
}

static long find_mapped(struct task_struct *task, struct vm_area_struct *vma, u64 *mapping)
{
	struct file *file = BPF_CORE_READ(vma, vm_file);

	*mapping = file ? (u64)BPF_CORE_READ(file, f_mapping) : 0;
	return 0;
}

/*
 * Pages brought in and mapped by mmap() itself come without a fault. The file
 * is asked of the mapping: that of an overlay is of the real file.
 */
static __noinline void note_populated(struct task_struct *task, struct pt_regs *regs, u64 address,
				      struct recent *recent)
{
	u64 start_page = SYSCALL_ARGUMENT_5(regs) >> 12;
	u64 pages = (SYSCALL_ARGUMENT_1(regs) + 4095) >> 12;
	u64 mapping = 0;

	if (bpf_find_vma(task, address, find_mapped, &mapping, 0)) {
		lose_fault();
		return;
	}
	if (mapping)
		note_pages((u64)BPF_CORE_READ((struct address_space *)mapping, host), start_page,
			   start_page + pages, BY_MAPPING_CALL, recent);
}

/* Whether a call of this class and its arguments follows a symlink at the end of its path. */
static __always_inline bool follows_link(u32 class, struct pt_regs *regs)
{
	u64 flags = 0;

	if (class & CALL_FLAGS_2)
		flags = SYSCALL_ARGUMENT_2(regs);
	else if (class & CALL_FLAGS_3)
		flags = SYSCALL_ARGUMENT_3(regs);
	return !(class & CALL_NO_FOLLOW) && !(flags & AT_SYMLINK_NOFOLLOW);
}

/* A call that takes a name has returned: for a trace, what it opened. */
static __noinline void send_opened(struct task_struct *task, u32 class, long ret)
{
	struct seen seen = { .kind = ACCESS_OPEN };

	if ((class == CALL_OPENAT || class == CALL_OPEN) && ret >= 0)
		send_call(file_of(task, ret), &seen);
}

/*
 * One hook for all calls that take a name: at the exit the arguments are still
 * in the registers, the name is surely in memory, and the result is known.
 */
SEC("tp_btf/sys_exit")
int BPF_PROG(call_done, struct pt_regs *regs, long ret)
{
	unsigned long number = SYSCALL_NUMBER(regs);
	struct task_struct *task;
	struct scratch *scratch;
	struct recent *recent;
	struct dentry *dentry;
	struct counts *c;
	struct file *file;
	long dirfd = AT_FDCWD, length;
	u64 path;
	u32 class, directory, flags, uses;

	if (number >= SYSCALLS_MAX)
		return 0;
	flags = syscall_class[number];
	class = flags & SYSCALL_CLASS_MASK;
	if (class == CALL_NONE || (class >= CALL_ADVISE && !sends_accesses))
		return 0;
	task = bpf_get_current_task_btf();
	if (class == CALL_READ || class == CALL_PREAD) {
		recent = bpf_map_lookup_elem(&recents, &ZERO);
		if (ret <= 0 || !recent || !task_is_traced(task, recent) || SYSCALL_FOREIGN(regs))
			return 0;
		if (sends_accesses)
			send_read(task, regs, flags, ret);
		if ((recent->end_page - recent->start_page) << 12 < (u64)ret)
			note_whole_read(task, regs, class == CALL_PREAD, ret, recent);
		return 0;
	}
	if (class == CALL_MAP) {
		recent = SYSCALL_ARGUMENT_3(regs) & MAP_POPULATE ? traced_now() : NULL;
		if (recent && ret > 0 && !SYSCALL_FOREIGN(regs))
			note_populated(task, regs, ret, recent);
		return 0;
	}
	recent = SYSCALL_FOREIGN(regs) ? NULL : traced_now();
	if (!recent)
		return 0;
	settle_fault(recent);
	if (class == CALL_ADVISE || class == CALL_AHEAD) {
		if (!ret)
			send_advice(task, regs, class);
		return 0;
	}
	if (class == CALL_ADVISE_MAPPING) {
		if (!ret)
			send_mapping_advice(task, regs);
		return 0;
	}
	/* What a call that looks names up waited for is none of the next access's. */
	if (sends_accesses) {
		send_opened(task, class, ret);
		send_mere(ACCESS_CALL);
	}
	if (class == CALL_LIST) {
		file = file_of(task, SYSCALL_ARGUMENT_0(regs));
		if (file && ret >= 0)
			note_dentry(BPF_CORE_READ(file, f_path.dentry), USE_LISTED);
		return 0;
	}
	if (class == CALL_EXEC && ret == 0)
		return 0;
	scratch = bpf_map_lookup_elem(&scratches, &ZERO);
	if (!scratch)
		return 0;
	uses = USE_LOOKED_UP;
	path = SYSCALL_ARGUMENT_0(regs);
	if (class == CALL_OPENAT || class == CALL_LOOKAT) {
		dirfd = (s32)SYSCALL_ARGUMENT_0(regs);
		path = SYSCALL_ARGUMENT_1(regs);
	}
	if (class == CALL_LOOKAT || class == CALL_LOOK)
		uses |= USE_STATTED;
	length = bpf_probe_read_user_str(scratch->path.path, PATH_BYTES_MAX, (void *)path);
	if (length <= 1) {
		/* An empty path names the descriptor itself; a null one (statx) too. */
		if (length < 0 && path) {
			c = counts();
			if (c)
				c->lost_paths++;
		}
		if (class == CALL_LOOKAT && ret >= 0) {
			file = file_of(task, dirfd);
			if (file)
				note_dentry(BPF_CORE_READ(file, f_path.dentry), USE_STATTED);
		}
		return 0;
	}
	if ((class == CALL_OPENAT || class == CALL_OPEN) && ret >= 0) {
		file = file_of(task, ret);
		if (file) {
			dentry = BPF_CORE_READ(file, f_path.dentry);
			note_dentry(dentry, USE_OPENED);
			/*
			 * A name of one component that ended where it points was no
			 * symlink: the node says all, unless the inode has other
			 * names. Tools that walk trees open nothing but such names.
			 */
			if (scratch->path.path[0] != '/' &&
			    BPF_CORE_READ(dentry, d_name.len) == (u32)length - 1 &&
			    BPF_CORE_READ(dentry, d_inode, i_nlink) <= 1)
				return 0;
		}
		uses |= USE_OPENED;
	}
	directory = start_of_path(task, dirfd, scratch->path.path[0], recent);
	flags = follows_link(flags, regs) ? 0 : PATH_NO_FOLLOW;
	send_path(&scratch->path, directory, length, uses, flags, ret < 0 ? ret : 0);
	return 0;
}

/*
 * A read by io_uring that had to wait is begun again, and what it found before
 * comes without an event. At its end it is known what it has read.
 */
static __always_inline int on_ring_done(void *request, s32 result)
{
	struct recent *recent = traced_now();
	u64 start, end;
	struct file *file;

	if (!recent || !ring_has_read(request, result, &file, &start, &end))
		return 0;
	note_pages((u64)BPF_CORE_READ(file, f_mapping, host), start >> 12, (end + 4095) >> 12,
		   BY_READ_CALL, recent);
	return 0;
}

HOOK_RING_DONE(ring_read_done, on_ring_done)

static __always_inline int send_executed(struct task_struct *task, const char *name,
					 struct recent *recent)
{
	struct scratch *scratch = bpf_map_lookup_elem(&scratches, &ZERO);
	u32 directory;
	long length;

	if (!scratch)
		return 0;
	length = bpf_probe_read_kernel_str(scratch->path.path, PATH_BYTES_MAX, name);
	if (length <= 1)
		return 0;
	directory = start_of_path(task, AT_FDCWD, scratch->path.path[0], recent);
	send_path(&scratch->path, directory, length, USE_LOOKED_UP | USE_EXECUTED, 0, 0);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(executed, struct task_struct *task, int old_pid, struct linux_binprm *bprm)
{
	u32 tgid = task->tgid;
	u8 *state = bpf_map_lookup_elem(&traced, &tgid);
	struct recent *recent = bpf_map_lookup_elem(&recents, &ZERO);

	if (!state || !recent)
		return 0;
	if (*state == TRACED_UNTIL_EXEC) {
		*state = TRACED_ACTIVE;
		__sync_fetch_and_add(&epoch, 1);
		if (!start_ns)
			start_ns = bpf_ktime_get_ns();
	}
	note_dentry(BPF_CORE_READ(bprm, file, f_path.dentry), USE_EXECUTED | USE_OPENED);
	send_executed(task, bprm->filename, recent);
	/* A script's interpreter, by the name that the script gives. */
	if (bprm->interp != bprm->filename)
		send_executed(task, bprm->interp, recent);
	return 0;
}
