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

/* The load of a disk: the first part of its entry in the map of disks. */
struct streams_load {
	fr_u64 in_flight_pages; /* being read, as a signed number */
	fr_u64 least_ns; /* minimum latency of recent requests; 0 unknown */
	fr_u64 page_ns; /* time for a page at the best throughput; 0 unknown */
	fr_u64 latency_ns; /* latency of a request without its pages; 0 unknown */
	fr_u64 turns; /* whether it is rotational: its claim is false if user space lists it */
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
