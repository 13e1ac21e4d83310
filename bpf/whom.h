/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The scope: all processes but our own, a process tree, or a cgroup. */
#ifndef FOREREAD_WHOM_H
#define FOREREAD_WHOM_H

/* The includer has brought in the kernel's types and <bpf/bpf_core_read.h>. */
#include "children.h"
#include "whoami.h"

/* Set before loading. */
const volatile u32 only_tree;
const volatile u64 only_cgroup;
const volatile u32 cgroup_level;

static __always_inline bool is_watched(u32 tgid)
{
	if (tgid == whoami_tgid)
		return false;
	if (only_tree && !bpf_map_lookup_elem(&fr_tree, &tgid))
		return false;
	return !only_cgroup || bpf_get_current_ancestor_cgroup_id(cgroup_level) == only_cgroup;
}

#endif
