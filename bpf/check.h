/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Records from check.bpf.c to user space: crates/linux-check/src/events.rs reads it. */
#ifndef FOREREAD_CHECK_H
#define FOREREAD_CHECK_H

#include <linux/types.h>

/**
 * enum check_kind - what the kernel did
 * @CHECK_INSERTED: a folio entered the page cache: @order, @index
 * @CHECK_REMOVED: a folio left the page cache: @order, @index
 * @CHECK_SYNC: page_cache_sync_ra(): @index, @pages of the request
 * @CHECK_ASYNC: page_cache_async_ra(): @index, @pages of the request
 * @CHECK_ORDER: page_cache_ra_order(): @index, @pages and @async_pages of the window,
 *	@order
 * @CHECK_UNBOUNDED: page_cache_ra_unbounded(): @index, @pages, @async_pages
 * @CHECK_FAULT: filemap_fault(): @index
 * @CHECK_LATE: a folio of this step is still locked when a fault is taken again: @index
 * @CHECK_STILL_LATE: the same, after the fault mapped pages: @index
 * @CHECK_MAPPED: filemap_map_pages(): @index, @pages
 * @CHECK_OTHERS: another thread than the checked one inserted a folio: @index
 */
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
 * @kind: enum check_kind, which says what the other fields hold; those that it does
 *	not name are 0
 * @order: of the folio, or of the window
 * @index: page of the file
 * @pages: pages of the request, of the window or of the mapping
 * @async_pages: pages of the window's tail behind its marker
 */
struct check_event {
	__u32 kind;
	__u32 order;
	__u64 index;
	__u64 pages;
	__u64 async_pages;
};

/**
 * struct check_look - a descriptor and its readahead state, as look() reads them
 * @descriptor: of the current process; user space sets it before it runs look()
 * @found: 1 if the descriptor is open; only then the fields below hold
 * @host: address of its inode
 * @start: of struct file_ra_state, as @prev_pos, @size, @async_size, @ra_pages, @order
 *	and @mmap_miss
 * @order: 0 on kernels where the struct has no such field
 * @folio_order_min: smallest folio order of the mapping
 * @folio_order_max: largest folio order of the mapping; 0 without large folios, and 9
 *	where the kernel only says that they are allowed
 * @reserved: 0
 * @bdi_ra_pages: maximum window of the device (ra_pages), in pages
 * @bdi_io_pages: its largest request (io_pages), in pages
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
