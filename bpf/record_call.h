/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Accesses to files that a returning system call shows by its arguments and its result. */
#ifndef FOREREAD_RECORD_CALL_H
#define FOREREAD_RECORD_CALL_H

#include "record_page.h"
#include "record_path.h"
#include "record_trace.h"

#define MAP_POPULATE 0x8000
#define AT_SYMLINK_NOFOLLOW 0x100
#define OVERLAYFS_SUPER_MAGIC 0x794c7630

/*
 * filemap_get_pages() returns without its event if the last folio it found wasn't ready and others
 * came before it. The event that follows covers the rest only. So if the last event covers less
 * than a read returned, the range of the read is taken from the file's position.
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

/* A call with a descriptor has returned: for a trace, sends its access to the open file. */
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

/* The same of a mapping. Other advice shows in its faults. */
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

/* A call that takes a name has returned: for a trace, sends the file that it opened. */
static __noinline void send_opened(struct task_struct *task, u32 class, long ret)
{
	struct seen seen = { .kind = ACCESS_OPEN };

	if ((class == CALL_OPENAT || class == CALL_OPEN) && ret >= 0)
		send_call(file_of(task, ret), &seen);
}

#endif
