/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Each access by itself, while a trace is recorded. */
#ifndef FOREREAD_RECORD_TRACE_H
#define FOREREAD_RECORD_TRACE_H

#include "record_inode.h"

static __always_inline void take_waited(u32 tid, struct waited *taken)
{
	struct waited *found = bpf_map_lookup_elem(&fr_rec_waited, &tid);

	taken->all_ns = 0;
	taken->first_ns = 0;
	if (!found)
		return;
	*taken = *found;
	bpf_map_delete_elem(&fr_rec_waited, &tid);
}

static __always_inline void add_waited(u32 tid, u64 ns)
{
	struct waited *found = bpf_map_lookup_elem(&fr_rec_waited, &tid);
	struct waited fresh = { .all_ns = ns, .first_ns = ns };
	struct counts *c;

	if (found) {
		found->all_ns += ns;
		return;
	}
	if (bpf_map_update_elem(&fr_rec_waited, &tid, &fresh, BPF_ANY)) {
		c = counts();
		if (c)
			c->lost_processes++;
	}
}

/* The part of a trace record besides the thread, the time and the wait. */
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
	struct scratch *scratch = bpf_map_lookup_elem(&fr_rec_scratches, &ZERO);
	struct counts *c;

	if (!seen || !scratch)
		return 0;
	__builtin_memset(&scratch->access, 0, sizeof(scratch->access));
	if (!fill_access(&scratch->access, seen))
		return 0;
	if (bpf_ringbuf_output(&fr_rec_records, &scratch->access, sizeof(scratch->access),
			       BPF_RB_NO_WAKEUP)) {
		c = counts();
		if (c)
			c->lost_records++;
	}
	return 0;
}

/* Sends an access without a file. */
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

#define VM_EXEC 0x4
#define VM_SEQ_READ 0x8000
#define VM_RAND_READ 0x10000

/* The place of a fault, and the file and pages mapped there. */
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
 * Sends a fault, or the pages mapped for one. The page of the fault is looked up in the mapping.
 * Another thread may be changing the mapping, or the address may be unknown after a move to another
 * CPU. Then only the pages are known.
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

#endif
