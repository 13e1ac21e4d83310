/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The range that a thread's system call reads, where events don't tell it. */
#ifndef FOREREAD_STAT_READ_H
#define FOREREAD_STAT_READ_H

#include "stat_page.h"
#include "open_file.h"

#define OVERLAYFS_SUPER_MAGIC 0x794c7630
/* Bits of task_struct.flags: a thread with one is in no system call of its own. */
#define PF_IO_WORKER 0x00000010
#define PF_KTHREAD 0x00200000

/*
 * The range of the read that a thread is in. The kernel moves the file's position when the read
 * ends. For a file of an overlay, which has no pages, only the range is known; the inode is 0.
 */
static __always_inline bool read_now(struct task_struct *task, struct span *span)
{
	struct pt_regs *regs;
	struct inode *inode;
	struct file *file;
	u64 bytes = 16 << 20;
	long number;
	s64 position;
	u32 class;

	if (task->flags & (PF_IO_WORKER | PF_KTHREAD))
		return false;
	regs = (struct pt_regs *)bpf_task_pt_regs(task);
	number = SYSCALL_NUMBER(regs);
	if (number < 0 || number >= SYSCALLS_MAX || SYSCALL_FOREIGN(regs))
		return false;
	class = syscall_class[number];
	if ((class & SYSCALL_CLASS_MASK) != CALL_READ && (class & SYSCALL_CLASS_MASK) != CALL_PREAD)
		return false;
	file = file_of(task, (s32)SYSCALL_ARGUMENT_0(regs));
	if (!file)
		return false;
	inode = BPF_CORE_READ(file, f_mapping, host);
	position = (class & SYSCALL_CLASS_MASK) == CALL_PREAD ? (s64)SYSCALL_ARGUMENT_3(regs) :
								BPF_CORE_READ(file, f_pos);
	if (class & CALL_COUNT_2)
		bytes = SYSCALL_ARGUMENT_2(regs);
	if (position < 0 || !inode)
		return false;
	if (bytes > 1ULL << 31)
		bytes = 1ULL << 31;
	span->inode = (u64)inode;
	if (BPF_CORE_READ(inode, i_sb, s_magic) == OVERLAYFS_SUPER_MAGIC)
		span->inode = 0;
	span->start_page = (u64)position >> 12;
	span->end_page = ((u64)position + bytes + 4095) >> 12;
	return true;
}

/*
 * filemap_get_pages() returns without its event if the last folio it found wasn't ready and others
 * came before it. The event that follows covers the rest only. So the start of the read is taken
 * from the system call.
 */
__noinline int use_read(u64 inode, u64 start_page, u64 end_page)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct clean *clean = bpf_map_lookup_elem(&fr_stat_cleans, &ZERO);
	struct task_state *t = state_now(true);
	u64 seen = windows_seen;
	struct span span = {};

	if (!t || !clean)
		return 0;
	t->fault_inode = 0;
	t->read_inode = 0;
	t->miss.inode = 0;
	t->window.inode = 0;
	if (read_now(task, &span) && (span.inode == inode || !span.inode) &&
	    span.start_page < start_page) {
		if (start_page - span.start_page > PAGES_PER_EVENT_MAX)
			span.start_page = start_page - PAGES_PER_EVENT_MAX;
		use_pages(inode, span.start_page, start_page, USE_READY);
	}
	t->progress.inode = inode;
	t->progress.start_page = start_page;
	if (use_pages(inode, start_page, end_page, USE_READY))
		return 0;
	clean->inode = inode;
	clean->start_page = start_page;
	clean->end_page = end_page;
	if (end_page - start_page > PAGES_PER_EVENT_MAX)
		clean->end_page = start_page + PAGES_PER_EVENT_MAX;
	clean->windows_seen = seen;
	return 0;
}

#endif
