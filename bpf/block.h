/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Records from block.bpf.c to user space: crates/linux-blocks/src/abi.rs reads it. */
#ifndef FOREREAD_BLOCK_H
#define FOREREAD_BLOCK_H

#include <linux/types.h>

/* Disks that can be watched at once. */
#define BLOCK_DISKS_MAX 16

#define BLOCK_COMM_BYTES 16

/* The letters of blkparse, but for a timer's unplug, which has two. */
enum block_action {
	BLOCK_QUEUED = 'Q',
	BLOCK_GOT_REQUEST = 'G',
	BLOCK_PLUGGED = 'P',
	BLOCK_UNPLUGGED = 'U',
	BLOCK_TIMER_UNPLUGGED = 'T',
	BLOCK_INSERTED = 'I',
	BLOCK_BACK_MERGED = 'M',
	BLOCK_FRONT_MERGED = 'F',
	BLOCK_ISSUED = 'D',
	BLOCK_COMPLETED = 'C',
	BLOCK_REQUEUED = 'R',
	BLOCK_SPLIT = 'X',
};

/* Flags of the operation. */
#define BLOCK_READAHEAD 1
#define BLOCK_SYNC 2
#define BLOCK_META 4
#define BLOCK_FUA 8
#define BLOCK_PREFLUSH 16

/**
 * struct block_event - one event of the block layer
 * @time_ns: CLOCK_MONOTONIC
 * @sector: where
 * @value: requests of an unplug, status of a completion, where a split is
 * @group: control group of the thread, in the unified hierarchy
 * @sectors: how much
 * @major: of the disk
 * @minor: of the disk
 * @pid: of the thread
 * @process: of the thread's process
 * @cpu: on which it happened
 * @action: enum block_action
 * @operation: enum req_op of the kernel
 * @flags: BLOCK_READAHEAD and so on
 * @comm: name of the thread
 */
struct block_event {
	__u64 time_ns;
	__u64 sector;
	__u64 value;
	__u64 group;
	__u32 sectors;
	__u32 major;
	__u32 minor;
	__u32 pid;
	__u32 process;
	__u32 cpu;
	__u32 action;
	__u32 operation;
	__u32 flags;
	__u32 padding;
	__u8 comm[BLOCK_COMM_BYTES];
};

#endif
