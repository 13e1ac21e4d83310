/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Sizes of windows: the ramps, the maximum that holds for a request, and the
 * defaults by device and by memory.
 */
#ifndef FOREREAD_SIZING_H
#define FOREREAD_SIZING_H

#include "arith.h"

/* VM_READAHEAD_PAGES: 128 KiB, the default of mainline since 2002. */
#define FR_DEFAULT_PAGES (131072U / FR_PAGE_BYTES)
/* The default of the thrashing-safe series of 2010. */
#define FR_DEFAULT_2010_PAGES (524288U / FR_PAGE_BYTES)
/* force_page_cache_ra() submits this much at a time. */
#define FR_CHUNK_PAGES (2097152U / FR_PAGE_BYTES)

/**
 * fr_initial_size() - the first window of a stream (get_init_ra_size)
 * @req: pages of the request
 * @max: the maximum window
 *
 * Steven Pratt's rule, in mainline since 2.6.16.
 */
FR_INLINE fr_u64 fr_initial_size(fr_u64 req, fr_u64 max)
{
	fr_u64 size = fr_pow2_up(fr_min(req, fr_max(max, 1)));

	if (size <= max / 32)
		return size * 4;
	if (size <= max / 4)
		return size * 2;
	return max;
}

/**
 * fr_next_size() - the window after one of @size pages (get_next_ra_size)
 * @size: pages of the last window
 * @max: the maximum window
 */
FR_INLINE fr_u64 fr_next_size(fr_u64 size, fr_u64 max)
{
	if (size < max / 16)
		return size * 4;
	if (size <= max / 2)
		return size * 2;
	return max;
}

/**
 * fr_max_pages() - the maximum window for one request (ractl_max_pages)
 * @state: of the file
 * @limits: of the device
 * @req: pages of the request
 *
 * A request larger than the window may use what the device takes in one piece.
 */
FR_INLINE fr_u32 fr_max_pages(const struct fr_state *state, const struct fr_limits *limits,
			      fr_u64 req)
{
	fr_u64 max = state->ra_pages;

	if (req > max && limits->io_pages > max)
		max = fr_min(req, limits->io_pages);
	if (limits->pages_max != 0)
		max = fr_min(max, limits->pages_max);
	return (fr_u32)max;
}

/**
 * fr_capacity_cap_pages() - the largest window that suits a device of a capacity
 * @capacity_bytes: of the device; 0 means unknown
 *
 * The square root of the capacity, in steps of powers of two: 4 KiB for 2 MiB,
 * 128 KiB for 2 GiB, 1 MiB for 128 GiB ("limit readahead size for small
 * devices", Message-ID <20100301052651.857984880@intel.com>). An unknown capacity
 * gives no cap, FR_U32_MAX: a multipath device that reported 0 and got 4 KiB lost
 * 40 % in the first tests of that series.
 */
FR_INLINE fr_u32 fr_capacity_cap_pages(fr_u64 capacity_bytes)
{
	if (capacity_bytes == 0)
		return FR_U32_MAX;
	return 1U << (fr_log2(capacity_bytes >> 21) / 2);
}

/**
 * fr_device_default_pages() - ra_pages after an update of a queue's limits
 * @current_pages: what it is now; never lowered, so that an administrator's
 *	setting survives
 * @io_opt_bytes: the optimal request that the device reports; 0 none
 * @max_sectors_pages: the largest request
 * @rotational: whether the queue says so
 *
 * blk_apply_bdi_limits(). Since Linux 6.17 (commit 459779d04ae8) a rotational queue
 * without an optimal request takes its largest request for one.
 */
FR_INLINE fr_u32 fr_device_default_pages(fr_u32 current_pages, fr_u64 io_opt_bytes,
					 fr_u32 max_sectors_pages, fr_u32 rotational)
{
	fr_u64 twice = fr_add(io_opt_bytes, io_opt_bytes) >> FR_PAGE_SHIFT;

	if (io_opt_bytes == 0 && rotational)
		twice = (fr_u64)max_sectors_pages * 2;
	return fr_u32_of(fr_max(fr_max(current_pages, twice), FR_DEFAULT_PAGES));
}

/**
 * fr_around_max_pages() - the largest read-around of a mapping that suits a memory
 * @memory_pages: the available memory, or all of it; 0 means unknown
 *
 * A 1024th of the memory: 512 KiB on a machine of 512 MiB, 32 KiB on one of 32 MiB
 * ("readahead: limit read-ahead size for small memory systems" of the series
 * <20100301052651.857984880@intel.com>). Sequential readahead is not bound by it: it
 * proves itself with every window, a read-around does not.
 */
FR_INLINE fr_u32 fr_around_max_pages(fr_u64 memory_pages)
{
	if (memory_pages == 0)
		return FR_U32_MAX;
	return fr_u32_of(fr_max(memory_pages / 1024, 1));
}

#endif /* FOREREAD_SIZING_H */
