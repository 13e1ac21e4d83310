/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Metadata lookups: calls that need an inode or a name. They wait for blocks of metadata, which are
 * read while the call is in the kernel. The arguments of the call then tell the path. An inode that
 * is not read yet has no number here and no dentry.
 */
#ifndef FOREREAD_WATCH_LOOK_H
#define FOREREAD_WATCH_LOOK_H

/* The including file has brought in the kernel's types, and its functions to report events. */

/* Metadata of some file systems, and its readahead, is in the cache of the device. */
static __always_inline bool is_metadata(struct bio *bio)
{
	u32 opf = bio->bi_opf;
	struct bio_vec *vector;
	struct folio *folio;
	struct inode *inode;

	if ((opf & REQ_OP_MASK) != REQ_OP_READ)
		return false;
	if (opf & 1U << bpf_core_enum_value(enum req_flag_bits, __REQ_META))
		return true;
	if (!(opf & 1U << bpf_core_enum_value(enum req_flag_bits, __REQ_RAHEAD)))
		return false;
	vector = BPF_CORE_READ(bio, bi_io_vec);
	folio = (struct folio *)BPF_CORE_READ(vector, bv_page);
	inode = BPF_CORE_READ(folio, mapping, host);
	return inode && (BPF_CORE_READ(inode, i_mode) & S_IFMT) == S_IFBLK;
}

/* Where a path starts. */
static __always_inline struct dentry *start_of(struct task_struct *task, s32 dirfd, u8 first_byte)
{
	struct file *file;

	if (first_byte == '/')
		return BPF_CORE_READ(task, fs, root.dentry);
	if (dirfd == AT_FDCWD)
		return BPF_CORE_READ(task, fs, pwd.dentry);
	file = file_of(task, dirfd);
	return file ? BPF_CORE_READ(file, f_path.dentry) : NULL;
}

static __always_inline u32 class_of(unsigned long number)
{
	return number < SYSCALLS_MAX ? syscall_class[number] & SYSCALL_CLASS_MASK : CALL_NONE;
}

SEC("tp_btf/block_bio_queue")
int BPF_PROG(fr_watch_look_waits, struct bio *bio)
{
	u32 tgid = bpf_get_current_pid_tgid() >> 32, class;
	struct of_thread *thread;
	struct task_struct *task;
	struct watch_seen *seen;
	struct dentry *start;
	struct pt_regs *regs;
	s32 dirfd = AT_FDCWD;
	u64 path = 0;
	long length;

	if (!is_watched(tgid) || !is_metadata(bio))
		return 0;
	task = bpf_get_current_task_btf();
	/* Without memory of its own it makes no calls. */
	if (!task->mm)
		return 0;
	regs = (struct pt_regs *)bpf_task_pt_regs(task);
	if (SYSCALL_FOREIGN(regs))
		return 0;
	class = class_of(SYSCALL_NUMBER(regs));
	if (class == CALL_OPENAT || class == CALL_LOOKAT) {
		dirfd = SYSCALL_ARGUMENT_0(regs);
		path = SYSCALL_ARGUMENT_1(regs);
	} else if (class == CALL_OPEN || class == CALL_LOOK) {
		path = SYSCALL_ARGUMENT_0(regs);
	} else if (class == CALL_LIST) {
		dirfd = SYSCALL_ARGUMENT_0(regs);
	} else {
		return 0;
	}
	thread = this_thread();
	seen = begin(WATCH_LOOK);
	if (!thread || !seen)
		return 0;
	thread->waits = true;
	seen->path[0] = 0;
	length = 1;
	if (path)
		length = bpf_probe_read_user_str(seen->path, WATCH_PATH_BYTES / 2, (void *)path);
	if (length < 1 || length > WATCH_PATH_BYTES / 2)
		return 0;
	start = start_of(task, dirfd, seen->path[0]);
	if (!start)
		return 0;
	seen->path_bytes = length;
	seen->inode = 0;
	seen->device = BPF_CORE_READ(start, d_inode, i_sb, s_dev);
	name_leader(seen);
	if (climb_to_root(seen, start))
		tell(seen, BPF_RB_FORCE_WAKEUP);
	return 0;
}

/* Offsets in struct stat and struct statx that are the same on all architectures. */
#define STAT_DEVICE 0
#define STAT_INODE 8
#define STATX_INODE 32
#define STATX_DEVICE 136

static __always_inline bool take_stat(struct watch_seen *seen, u64 buffer)
{
	u64 words[2];

	if (bpf_probe_read_user(words, sizeof(words), (void *)buffer))
		return false;
	seen->inode = words[STAT_INODE / 8];
	/* As programs have it: the middle of the number is the major one. */
	seen->device = (words[0] >> 8 & 0xfff) << 20 | (words[0] >> 12 & 0xfff00) |
		       (words[0] & 0xff);
	return true;
}

static __always_inline bool take_statx(struct watch_seen *seen, u64 buffer)
{
	u32 device[2];

	if (bpf_probe_read_user(&seen->inode, sizeof(seen->inode), (void *)(buffer + STATX_INODE)))
		return false;
	if (bpf_probe_read_user(device, sizeof(device), (void *)(buffer + STATX_DEVICE)))
		return false;
	seen->device = device[0] << 20 | device[1];
	return true;
}

static __always_inline bool take_file(struct watch_seen *seen, struct task_struct *task, s32 fd)
{
	struct file *file = file_of(task, fd);
	struct inode *inode = file ? BPF_CORE_READ(file, f_inode) : NULL;

	if (!inode)
		return false;
	seen->inode = BPF_CORE_READ(inode, i_ino);
	seen->device = BPF_CORE_READ(inode, i_sb, s_dev);
	return true;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(fr_watch_looked, struct pt_regs *regs, long result)
{
	unsigned long number = SYSCALL_NUMBER(regs);
	u32 class = class_of(number), tgid;
	struct of_thread *thread;
	struct watch_seen *seen;
	struct watch_walker *walker;
	bool is_known;

	if (class == CALL_NONE || class > CALL_LIST || SYSCALL_FOREIGN(regs))
		return 0;
	tgid = bpf_get_current_pid_tgid() >> 32;
	walker = bpf_map_lookup_elem(&fr_watch_walkers, &tgid);
	if (!walker || !walker->looks)
		return 0;
	thread = this_thread();
	seen = begin(WATCH_LOOKED);
	if (!thread || !seen)
		return 0;
	seen->process = walker->leader;
	if (result < 0)
		is_known = false;
	else if (class == CALL_OPENAT || class == CALL_OPEN)
		is_known = take_file(seen, bpf_get_current_task_btf(), result);
	else if (class == CALL_LIST)
		is_known = take_file(seen, bpf_get_current_task_btf(), SYSCALL_ARGUMENT_0(regs));
	else if (number == call_stat || number == call_lstat)
		is_known = take_stat(seen, SYSCALL_ARGUMENT_1(regs));
	else if (class != CALL_LOOKAT)
		is_known = false;
	else if (syscall_class[number] & CALL_FLAGS_2)
		is_known = take_statx(seen, SYSCALL_ARGUMENT_4(regs));
	else
		is_known = (syscall_class[number] & CALL_FLAGS_3) &&
			   take_stat(seen, SYSCALL_ARGUMENT_2(regs));
	if (thread->waits)
		seen->kind = WATCH_LOOKED_LATE;
	thread->waits = false;
	if (is_known)
		tell(seen, BPF_RB_NO_WAKEUP);
	return 0;
}

#endif
