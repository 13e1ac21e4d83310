/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Open files, by descriptor and by request of io_uring. */
#ifndef FOREREAD_OPEN_FILE_H
#define FOREREAD_OPEN_FILE_H

/* The includer has brought in the kernel's types and <bpf/bpf_core_read.h>. */

/* From <linux/io_uring.h>. */
#define IORING_OP_READV 1
#define IORING_OP_READ_FIXED 4
#define IORING_OP_READ 22

static __always_inline struct file *file_of(struct task_struct *task, long fd)
{
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file **slots = BPF_CORE_READ(table, fd);
	struct file *file = NULL;

	if (fd < 0 || (unsigned long)fd >= BPF_CORE_READ(table, max_fds))
		return NULL;
	bpf_probe_read_kernel(&file, sizeof(file), slots + fd);
	return file;
}

/* The range that a finished io_uring request has read, in bytes; false when it read nothing. */
static __always_inline bool ring_has_read(void *request, s32 result, struct file **file, u64 *start,
					  u64 *end)
{
	struct io_kiocb *io = request;
	/* The kernel keeps the read's own struct at the start of the request. */
	struct kiocb *kiocb = request;
	s64 bytes = result, position;
	u8 opcode;

	opcode = BPF_CORE_READ(io, opcode);
	if (opcode != IORING_OP_READ && opcode != IORING_OP_READV && opcode != IORING_OP_READ_FIXED)
		return false;
	position = BPF_CORE_READ(kiocb, ki_pos);
	*file = BPF_CORE_READ(kiocb, ki_filp);
	if (bytes <= 0 || position < bytes || !*file)
		return false;
	*start = position - bytes;
	*end = position;
	return true;
}

#endif
