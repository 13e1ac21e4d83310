/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Records from streams.bpf.c to user space: crates/linux-watch/src/streams/abi.rs reads it. */
#ifndef FOREREAD_STREAMS_BPF_H
#define FOREREAD_STREAMS_BPF_H

#include "../core/foreread/policy.h"

#define STREAMS_PATH_BYTES 2048

enum streams_kind {
	STREAMS_BEGIN = 1, /* a miss in a large file while hits are not seen yet */
	STREAMS_FILE = 2, /* a file that the records after it are about; the names follow */
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
	fr_u32 call_pages_max; /* the most that one readahead(2) reads of it */
	fr_u32 path_bytes; /* names from the file up, each with a NUL */
	fr_u8 path[STREAMS_PATH_BYTES + 256];
};

struct streams_ask {
	fr_u32 kind;
	fr_u32 process;
	struct streams_key key;
	fr_u32 thread;
	fr_u32 even_pages; /* that cost the disk as much as a request */
	fr_u64 start_page;
	fr_u64 step_pages;
	fr_u32 pages;
	fr_u32 repeats; /* once more each, this many steps further */
	fr_u32 down; /* the reader goes down */
	fr_u32 busy_pages; /* that cost it as much as a request when it has more to do */
	fr_u64 disk; /* a key of the map of disks */
};

/* The load of a disk: the first part of its entry in the map of disks. */
struct streams_load {
	fr_u64 in_flight_pages; /* being read, as a signed number */
	fr_u64 least_ns; /* that a request took of late; 0 unknown */
	fr_u64 page_ns; /* that a page took while it did most; 0 unknown */
	fr_u64 latency_ns; /* of a request besides its pages; 0 unknown */
	fr_u64 turns; /* whether it says that it has a head, and is believed */
};

/* Calls of the core that the log has. */
enum streams_event_kind {
	STREAMS_ACCESS = 1, /* fr_decide() */
	STREAMS_WAITED = 2, /* fr_waited() of access.thread: access.time_ns long, access.flags asked
			     */
	STREAMS_ISSUED = 3, /* fr_issued() of access.thread: access.req_pages, access.hit_pages read
			     */
	STREAMS_DONE = 4, /* fr_device_done() */
	STREAMS_TURNS = 5, /* fr_device_turns() */
};

/* A call of the core: its arguments without the state, and its answer. */
struct streams_event {
	fr_u64 number; /* of the disk, from 1, in the order of its calls: a missing one was lost */
	fr_u32 kind; /* enum streams_event_kind */
	fr_u32 process;
	struct streams_key key; /* none for STREAMS_DONE and STREAMS_TURNS */
	fr_u64 disk; /* 0 unknown */
	fr_u32 is_new; /* the file's memory begins here */
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
