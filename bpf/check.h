/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What check.bpf.c tells user space: crates/linux/src/check_kernel/abi.rs reads it. */
#ifndef FOREREAD_CHECK_H
#define FOREREAD_CHECK_H

#include <linux/types.h>

enum check_kind {
	CHECK_INSERTED = 1,
	CHECK_REMOVED = 2,
	CHECK_SYNC = 3,
	CHECK_ASYNC = 4,
	CHECK_ORDER = 5,
	CHECK_UNBOUNDED = 6,
	CHECK_FAULT = 7,
	CHECK_LATE = 8,
	CHECK_STILL_LATE = 9,
	CHECK_MAPPED = 10,
	CHECK_OTHERS = 11,
};

/**
 * struct check_event - one thing that the kernel did to the file
 * @kind: enum check_kind
 * @order: of the folio, or of the window
 * @index: page
 * @pages: asked for, or of the window
 * @async_pages: of the window
 */
struct check_event {
	__u32 kind;
	__u32 order;
	__u64 index;
	__u64 pages;
	__u64 async_pages;
};

/**
 * struct check_look - what look() is asked and answers about a descriptor
 * @descriptor: of the current process
 * @found: whether it is open
 * @host: address of its inode
 * @start: and the next ones: file_ra_state
 * @mapping_flags: of the address space
 * @bdi_ra_pages: maximum window of the device
 * @bdi_io_pages: its largest request
 */
struct check_look {
	__u32 descriptor;
	__u32 found;
	__u64 host;
	__u64 start;
	__u64 prev_pos;
	__u32 size;
	__u32 async_size;
	__u32 ra_pages;
	__u32 order;
	__u32 mmap_miss;
	__u32 folio_order_min;
	__u32 folio_order_max;
	__u32 reserved;
	__u64 bdi_ra_pages;
	__u64 bdi_io_pages;
};

#endif
