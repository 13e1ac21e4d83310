/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Paths that the program gives to system calls. */
#ifndef FOREREAD_RECORD_PATH_H
#define FOREREAD_RECORD_PATH_H

#include "open_file.h"
#include "record_inode.h"

#define AT_FDCWD -100

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
	record->group = group_now();
	if (bpf_ringbuf_output(&fr_rec_records, record,
			       __builtin_offsetof(struct path_record, path) +
				       (length & (PATH_BYTES_MAX - 1)),
			       BPF_RB_NO_WAKEUP)) {
		c = counts();
		if (c)
			c->lost_records++;
	}
}

static __always_inline int send_executed(struct task_struct *task, const char *name,
					 struct recent *recent)
{
	struct scratch *scratch = bpf_map_lookup_elem(&fr_rec_scratches, &ZERO);
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

#endif
