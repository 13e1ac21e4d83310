/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The names that lead to a dentry, from its own up to the root of its file system. */
#ifndef FOREREAD_PATH_UP_H
#define FOREREAD_PATH_UP_H

/* The includer has brought in the kernel's types and <bpf/bpf_core_read.h>. */
#include "dentry.h"

#define PATH_UP_BYTES 2048
#define PATH_UP_NAME_BYTES_MAX 255
#define PATH_UP_DEPTH_MAX 64
/* Size of a buffer of names: the last name begins before PATH_UP_BYTES. */
#define PATH_UP_ROOM (PATH_UP_BYTES + PATH_UP_NAME_BYTES_MAX + 1)

struct path_up {
	struct dentry *at;
	u8 *names; /* each with a NUL */
	u32 bytes;
};

static long path_up_step(u64 depth, struct path_up *up)
{
	struct dentry *dentry = up->at;
	struct dentry *parent = BPF_CORE_READ(dentry, d_parent);
	u32 place = up->bytes, length;
	u8 *names = up->names;

	if (parent == dentry || place >= PATH_UP_BYTES)
		return 1;
	length = BPF_CORE_READ(dentry, d_name.len) & PATH_UP_NAME_BYTES_MAX;
	bpf_probe_read_kernel(&names[place & (PATH_UP_BYTES - 1)], length,
			      BPF_CORE_READ(dentry, d_name.name));
	names[(place & (PATH_UP_BYTES - 1)) + length] = 0;
	up->bytes = place + length + 1;
	up->at = parent;
	return 0;
}

/*
 * Appends the names to a buffer of PATH_UP_ROOM bytes. Returns false if the path is too deep or
 * too long, or if the inode has no dentry.
 */
static __always_inline bool path_up(struct dentry *dentry, u8 *names, u32 *bytes)
{
	struct path_up up = { .at = dentry, .names = names, .bytes = *bytes };

	if (!dentry)
		return false;
	bpf_loop(PATH_UP_DEPTH_MAX, path_up_step, &up, 0);
	*bytes = up.bytes;
	dentry = up.at;
	return BPF_CORE_READ(dentry, d_parent) == dentry;
}

#endif
