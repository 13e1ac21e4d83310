/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The dentries of an inode. */
#ifndef FOREREAD_DENTRY_H
#define FOREREAD_DENTRY_H

/* The includer has brought in the kernel's types and <bpf/bpf_core_read.h>. */

/* One dentry of an inode, of which a directory has one at most; NULL when it has none. */
static __always_inline struct dentry *alias_of(struct inode *inode)
{
	struct hlist_node *first = BPF_CORE_READ(inode, i_dentry.first);
	struct dentry___flat *flat = NULL;
	u64 offset;

	if (!first)
		return NULL;
	if (bpf_core_field_exists(flat->d_alias))
		offset = bpf_core_field_offset(struct dentry___flat, d_alias);
	else
		offset = bpf_core_field_offset(struct dentry, d_u.d_alias);
	return (struct dentry *)((u64)first - offset);
}

#endif
