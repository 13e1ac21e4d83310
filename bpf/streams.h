/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Records from streams.bpf.c to user space: crates/linux-watch/src/streams/abi.rs reads it. */
#ifndef FOREREAD_STREAMS_BPF_H
#define FOREREAD_STREAMS_BPF_H

#include "../core/foreread/policy.h"

#define STREAMS_PATH_BYTES 2048

enum streams_kind {
	STREAMS_BEGIN = 1, /* a miss in a large file while hits are not seen yet */
	STREAMS_FILE = 2, /* the file of later records with the same key; the names follow */
	STREAMS_ASK = 3, /* the policy asks for pages */
	STREAMS_PACE = 4, /* what a reader has read and waited for */
};

/* Identifies a file, also after its inode has left memory. */
struct streams_key {
	fr_u64 inode;
	fr_u32 device; /* as in the kernel: 12 bits major, 20 bits minor */
	fr_u32 generation;
};

struct streams_file {
	fr_u32 kind;
	fr_u32 process;
	struct streams_key key;
	fr_u32 call_pages_max; /* maximum that one readahead(2) reads of it */
	fr_u32 path_bytes; /* names from the file up, each with a NUL */
	fr_u8 path[STREAMS_PATH_BYTES + 256];
};

enum streams_ask_flags {
	STREAMS_ASK_DOWN = 1, /* the reader goes backward */
	STREAMS_ASK_LEASED = 2, /* the file has a write lease, which opening it would break */
};

struct streams_ask {
	fr_u32 kind;
	fr_u32 process;
	struct streams_key key;
	fr_u32 thread;
	fr_u32 even_pages; /* break-even: they take as long as one request without pages */
	fr_u64 start_page;
	fr_u64 step_pages;
	fr_u32 pages;
	fr_u32 repeats; /* repetitions, each this many steps further */
	fr_u32 flags; /* enum streams_ask_flags */
	fr_u32 busy_pages; /* the same while the disk is busy */
	fr_u64 disk; /* a key of the map of disks */
};

/*
 * The accesses of a thread to followed files, since it was first seen. An access that finds its
 * first page in memory, or on its way, counts as found. Pages of accesses that repeat the one
 * before them count for none.
 */
struct streams_counts {
	fr_u64 forward_pages; /* found, right after those of the access before */
	fr_u64 jumped_pages; /* found, elsewhere */
	fr_u64 jumps_up; /* the accesses of these pages: above the one before in the file */
	fr_u64 jumps_down; /* the same: below it, or in another file */
	fr_u64 away_up_pages; /* sum of the distances of these accesses from those before */
	fr_u64 away_down_pages;
	fr_u64 missed_pages;
	fr_u64 misses; /* the accesses of these pages */
	fr_u64 found_wait_ns; /* time that it waited after accesses that found their page */
	fr_u64 missed_wait_ns; /* the same after misses */
};

/* Tells how fast a thread that is read ahead of reads. */
struct streams_pace {
	fr_u32 kind;
	fr_u32 process;
	fr_u32 thread;
	fr_u32 is_mapped; /* whether it reads a mapping */
	fr_u64 disk; /* a key of the map of disks */
	fr_u64 time_ns; /* of the last access that is counted; CLOCK_MONOTONIC */
	struct streams_counts counts;
	fr_u32 kernel_pages; /* window of the kernel's readahead for such a read */
	fr_u32 reserved;
};

/* The load of a disk: the first part of its entry in the map of disks. */
struct streams_load {
	fr_u64 in_flight_pages; /* being read, as a signed number */
	fr_u64 least_ns; /* minimum latency of recent requests; 0 unknown */
	fr_u64 page_ns; /* time for a page at the best throughput; 0 unknown */
	fr_u64 latency_ns; /* latency of a request without its pages; 0 unknown */
	fr_u64 turns; /* whether it is rotational: its claim is false if user space lists it */
	fr_u64 fit_ns; /* time for a page, by the line through requests */
	fr_u64 next_ns; /* latency of a request that goes on where the one before it ended */
	fr_u64 cost_ns; /* cost of a request to a busy device besides its pages; 0 unknown */
	fr_u64 least_pages; /* the size of the request that took least_ns */
};

/* Calls of the core that are logged. */
enum streams_event_kind {
	STREAMS_ACCESS = 1, /* fr_decide() */
	STREAMS_WAITED = 2, /* fr_waited(): access.thread, access.time_ns, asked: access.flags */
	STREAMS_ISSUED = 3, /* fr_issued(): access.thread, access.req_pages, access.hit_pages */
	STREAMS_DONE = 4, /* fr_device_done() */
	STREAMS_TURNS = 5, /* fr_device_turns() */
};

/* A call of the core: its arguments without the state, and its answer. */
struct streams_event {
	fr_u64 number; /* of the disk's calls in order, from 1: a missing number was lost */
	fr_u32 kind; /* enum streams_event_kind */
	fr_u32 process;
	struct streams_key key; /* none for STREAMS_DONE and STREAMS_TURNS */
	fr_u64 disk; /* 0 unknown */
	fr_u32 is_new; /* whether the file's state begins here */
	fr_u32 state_ra_pages; /* the descriptor's maximum window */
	fr_u32 state_flags; /* FR_STATE_*, set before the call */
	fr_u32 reserved;
	struct fr_access access;
	struct fr_limits limits;
	struct fr_done done;
	struct fr_budget budget; /* before the call */
	struct fr_decision decision;
};

#endif
