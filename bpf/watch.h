/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Records from watch.bpf.c to user space: crates/linux-watch/src/abi.rs reads it. */
#ifndef FOREREAD_WATCH_H
#define FOREREAD_WATCH_H

#include <linux/types.h>

#define WATCH_PATH_BYTES 2048

enum watch_kind {
	WATCH_MISS = 1, /* a file's page was not in memory; the names follow */
	WATCH_HIT = 2, /* a process in a traversal read the start of a file from memory */
	WATCH_EXIT = 3, /* a process in a traversal has ended */
	WATCH_LOOK = 4, /* a call waits for metadata; its path follows, and where that starts */
	WATCH_LOOKED = 5, /* a process in a traversal has looked this inode up */
	WATCH_LOOKED_LATE = 6, /* the same, and waited for metadata */
};

struct watch_walker {
	__u32 leader; /* the process that began the traversal */
	__u16 looks; /* whether looks are told */
	__u16 takes_children; /* whether they share the walk */
};

struct watch_seen {
	__u64 inode;
	__u64 time_ns; /* CLOCK_MONOTONIC */
	__u32 device; /* as in the kernel: 12 bits major, 20 bits minor */
	__u32 process;
	__u32 kind;
	__u32 path_bytes; /* names from the file up, each with a NUL */
	__u32 thread;
	__u32 parent; /* the process that began this one */
	__u32 member; /* the process itself, if `process` is the one that began the traversal */
	__u32 user; /* the real user of the process, as the first user namespace numbers it */
	__u8 path[WATCH_PATH_BYTES + 256];
};

#endif
