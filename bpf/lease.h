/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Write leases: files that a server (Samba, NFS) lets a client change in the client's own memory.
 * Whoever opens such a file makes the kernel break the lease.
 */
#ifndef FOREREAD_LEASE_H
#define FOREREAD_LEASE_H

#define LEASE_WRITE 1 /* F_WRLCK of <fcntl.h> */

/*
 * Whether somebody has a write lease on a file. The kernel grants one only to the only opener of a
 * file (check_conflicting_open() of fs/locks.c). A write lease is therefore the only lease in the
 * list.
 */
static __always_inline bool has_write_lease(struct inode *inode)
{
	struct file_lock_context *context = BPF_CORE_READ(inode, i_flctx);
	struct list_head *first;
	u64 offset;
	u8 type = 0;

	if (!context)
		return false;
	offset = bpf_core_field_offset(struct file_lock_context, flc_lease);
	first = BPF_CORE_READ(context, flc_lease.next);
	if ((u64)first == (u64)context + offset)
		return false;
	if (bpf_core_type_exists(struct file_lease)) {
		offset = bpf_core_field_offset(struct file_lease, c.flc_list);
		offset -= bpf_core_field_offset(struct file_lease, c.flc_type);
		/* Keeps clang from computing both: the kernel knows one of them only. */
		barrier_var(offset);
	} else {
		offset = bpf_core_field_offset(struct file_lock, fl_list);
		offset -= bpf_core_field_offset(struct file_lock, fl_type);
		barrier_var(offset);
	}
	bpf_probe_read_kernel(&type, sizeof(type), (void *)((u64)first - offset));
	return type == LEASE_WRITE;
}

#endif
