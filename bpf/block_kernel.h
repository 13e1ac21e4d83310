/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The kernel's types of the block layer, as in kernel.h. They are apart because the
 * recorder is loaded with the types of that file only, and does not need these.
 */
#ifndef FOREREAD_BLOCK_KERNEL_H
#define FOREREAD_BLOCK_KERNEL_H

#include "kernel.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct queue_limits {
	unsigned int features; /* blk_features_t */
};

struct request_queue {
	struct queue_limits limits;
	struct gendisk *disk;
};

/* The same before Linux 6.11, where a flag said that there is no head. */
struct request_queue___flags {
	unsigned long queue_flags;
};

struct gendisk {
	int major;
	int first_minor;
	char disk_name[32];
	struct request_queue *queue;
};

struct block_device {
	struct gendisk *bd_disk;
};

/* BLK_FEAT_ROTATIONAL: a disk says that it has a head. */
#define DISK_ROTATES (1U << 2)
/* QUEUE_FLAG_NONROT, where the queue has flags. */
#define QUEUE_STANDS (1UL << 6)

struct bvec_iter {
	u64 bi_sector;
	unsigned int bi_size;
	unsigned int bi_idx;
} __attribute__((packed));

struct page {
	unsigned long compound_head;
	atomic_t _mapcount;
};

/* The same since Linux 7.1. */
struct page___info {
	unsigned long compound_info;
};

struct bio_vec {
	struct page *bv_page;
	unsigned int bv_offset;
};

struct bio {
	struct block_device *bi_bdev;
	u32 bi_opf;
	struct bvec_iter bi_iter;
	struct bio_vec *bi_io_vec;
};

struct request {
	struct request_queue *q;
	u32 cmd_flags;
	unsigned int __data_len;
	struct bio *bio;
	u64 __sector;
	u64 start_time_ns;
};

/* Flags of a request. */
#define REQ_OP_MASK 0xff
#define REQ_OP_READ 0

enum req_op {
	REQ_OP_DRV_IN = 34,
	REQ_OP_DRV_OUT = 35,
};

enum req_flag_bits {
	__REQ_SYNC,
	__REQ_META,
	__REQ_FUA,
	__REQ_PREFLUSH,
	__REQ_RAHEAD,
};

#pragma clang attribute pop

#endif
