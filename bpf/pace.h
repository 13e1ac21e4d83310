/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Counts what a thread reads and waits for, so that user space can compare the waits with those
 * that the kernel's own readahead would have left (crates/watch/src/saved/streams/).
 */
#ifndef FOREREAD_PACE_BPF_H
#define FOREREAD_PACE_BPF_H

#include "streams.h"

/* After so many accesses or pages, user space is told. */
#define PACE_ACCESSES 64
#define PACE_PAGES 256
/* The first pages of a request may not be seen: only its end is told of, below this size. */
#define PACE_GAP_PAGES 16

struct pace {
	struct streams_counts counts;
	u64 start_page; /* of the last access */
	u64 end_page;
	u32 accesses; /* since user space was told */
	u32 pages;
	u32 is_ahead; /* whether pages were fetched ahead of the thread */
	u32 is_mapped;
};

/* The thread has waited since its last access. */
static __always_inline void pace_waited(struct pace *pace, u64 waited_ns, bool missed)
{
	if (missed)
		pace->counts.missed_wait_ns += waited_ns;
	else
		pace->counts.found_wait_ns += waited_ns;
}

/* The thread reads pages. `stays`: the access before this was to the same file. */
static __always_inline void pace_read(struct pace *pace, u64 start, u64 pages, bool missed,
				      bool stays)
{
	u64 before = pace->start_page, end = pace->end_page;
	bool goes_on = pages > 1 && start > end && start - end < PACE_GAP_PAGES;

	if (stays && start >= before && start + pages <= end)
		return;
	pace->start_page = start;
	pace->end_page = start + pages;
	pace->accesses++;
	pace->pages += pages;
	if (missed) {
		pace->counts.misses++;
		pace->counts.missed_pages += pages;
	} else if (stays && (start == end || goes_on)) {
		pace->counts.forward_pages += start + pages - end;
	} else if (stays && start > before) {
		pace->counts.jumps_up++;
		pace->counts.jumped_pages += pages;
		pace->counts.away_up_pages += start - before;
	} else {
		pace->counts.jumps_down++;
		pace->counts.jumped_pages += pages;
		if (stays)
			pace->counts.away_down_pages += before - start;
	}
}

/* Whether user space is to be told now. */
static __always_inline bool pace_is_due(struct pace *pace, bool has_windows)
{
	if (!pace->is_ahead)
		return false;
	if (!has_windows && pace->accesses < PACE_ACCESSES && pace->pages < PACE_PAGES)
		return false;
	pace->accesses = 0;
	pace->pages = 0;
	return true;
}

#endif
