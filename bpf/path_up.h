/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The names that lead to an inode, from itself up to the root of its file system. */
#ifndef FOREREAD_PATH_UP_H
#define FOREREAD_PATH_UP_H

/* The includer has brought in the kernel's types and <bpf/bpf_core_read.h>. */

#define PATH_UP_BYTES 2048
#define PATH_UP_NAME_BYTES_MAX 255
#define PATH_UP_DEPTH_MAX 64

struct path_up {
	u32 bytes;
	u8 names[PATH_UP_BYTES + PATH_UP_NAME_BYTES_MAX + 1]; /* each with a NUL */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct path_up);
} paths_up SEC(".maps");

static __always_inline struct dentry *alias_of(struct inode *inode)
{
	struct hlist_node *first = BPF_CORE_READ(inode, i_dentry.first);

	if (!first)
		return NULL;
	return (struct dentry *)((u64)first - bpf_core_field_offset(struct dentry, d_u.d_alias));
}

static long path_up_step(u64 depth, struct dentry **at)
{
	u32 zero = 0;
	struct path_up *up = bpf_map_lookup_elem(&paths_up, &zero);
	struct dentry *dentry = *at;
	struct dentry *parent = BPF_CORE_READ(dentry, d_parent);
	u32 place, length;

	if (!up || !dentry || parent == dentry)
		return 1;
	place = up->bytes;
	if (place >= PATH_UP_BYTES)
		return 1;
	length = BPF_CORE_READ(dentry, d_name.len) & PATH_UP_NAME_BYTES_MAX;
	bpf_probe_read_kernel(&up->names[place & (PATH_UP_BYTES - 1)], length,
			      BPF_CORE_READ(dentry, d_name.name));
	up->names[(place & (PATH_UP_BYTES - 1)) + length] = 0;
	up->bytes = place + length + 1;
	*at = parent;
	return 0;
}

/* NULL where it has no name, or where the top of what is deeper or longer isn't known. */
static __always_inline struct path_up *path_up_of(struct inode *inode)
{
	u32 zero = 0;
	struct path_up *up = bpf_map_lookup_elem(&paths_up, &zero);
	struct dentry *dentry = alias_of(inode);

	if (!up || !dentry)
		return NULL;
	up->bytes = 0;
	bpf_loop(PATH_UP_DEPTH_MAX, path_up_step, &dentry, 0);
	if (BPF_CORE_READ(dentry, d_parent) != dentry)
		return NULL;
	return up;
}

#endif
