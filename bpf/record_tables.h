/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The tables of record.bpf.c, its settings before loading, and its counters. */
#ifndef FOREREAD_RECORD_TABLES_H
#define FOREREAD_RECORD_TABLES_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "record.h"
#define OWN(name) fr_rec_##name
#include "whoami.h"

/* Set before loading. */
const volatile u8 syscall_class[SYSCALLS_MAX];
/* Whether a fault maps all of a large folio (Linux 6.18), and not 16 pages of it. */
const volatile u32 maps_whole_folios;
/*
 * Whether only pages count that were read in, by the replay or for the program. A refresh learns
 * nothing from pages that were in memory all along, and noting a file for the first time costs as
 * much as opening it.
 */
const volatile u32 only_brought_in;

/* Whether all processes of the machine are recorded, and not those of one program. */
const volatile u32 records_machine;

/* Whether each access is sent, for a trace. */
const volatile u32 sends_accesses;

/* The process that replays, 0 none. */
u32 replay_tgid;
/* Those that read for it, 0 none. */
#define REPLAY_HELPERS_MAX 8
u32 replay_helpers[REPLAY_HELPERS_MAX];
/* The thread whose next child is the program to record, 0 none. */
u32 adopt_pid;
/* Whether get_pages isn't attached: hits are not seen. */
u32 misses_only;
/* Raised whenever a process becomes traced; makes caches ask again. */
u32 epoch;
u32 next_id = 1;
u32 next_group = 1;
u64 start_ns; /* CLOCK_MONOTONIC when the program was executed, 0 not yet */
/* Stands for the time of an access before the recorder began: see record_resident.h. */
u64 earlier_ns;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, u8);
} fr_rec_traced SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 262144);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct inode_key);
	__type(value, struct inode_value);
} fr_rec_inodes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 262144);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct chunk_key);
	__type(value, struct chunk_value);
} fr_rec_chunks SEC(".maps");

/* Numbers of control groups, by the kernel's. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64);
	__type(value, u32);
} fr_rec_groups SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20);
} fr_rec_records SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct counts);
} fr_rec_totals SEC(".maps");

/*
 * The last access on this CPU. A task that reads in a loop is recognised by its
 * pointer and start time, without a lookup. Pages that its last access covered
 * need no second lookup.
 */
struct recent {
	u64 task;
	u64 task_start_ns;
	u32 is_traced;
	u32 epoch;
	u64 host;
	u64 start_page;
	u64 end_page;
	u32 uses;
	u32 pad;
	/* The page that a fault is for: a wait that follows is for it. */
	struct inode_key fault_key;
	/* Where the last path began. */
	u64 start_dentry;
	u64 start_inode;
	u32 start_id;
	u32 pad_3;
	/* The task waited since its last access. */
	u32 has_waited;
	/* It has brought in a page of a block device, and will wait for that. */
	u32 brings_metadata;
	/* Address of the current page fault, until its mapping is known. */
	u64 fault_address;
	/* Where the last page fault was: for a trace. */
	u64 traced_address;
	/* Where one was whose mapping couldn't be looked at. */
	u64 fault_owed;
	/* The fault that found no folio and brings one in. */
	u64 fault_mapping;
	u64 fault_page;
	u32 is_fault;
	u32 pad_2;
	volatile u64 number;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct recent);
} fr_rec_recents SEC(".maps");

struct wait {
	u64 since_ns;
	u32 is_for_read; /* of file data, as far as can be told */
	u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, struct wait);
} fr_rec_waiting SEC(".maps");

/* The waits of a thread since its last access, by its number; for a trace. */
struct waited {
	u64 all_ns;
	u64 first_ns; /* the first of these waits */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, struct waited);
} fr_rec_waited SEC(".maps");

/* Records are put together here: a path is larger than a BPF stack. */
struct scratch {
	struct node_record node;
	struct path_record path;
	struct access_record access;
	struct inode_value inode;
	struct group_record group;
	struct device_record device;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct scratch);
} fr_rec_scratches SEC(".maps");

static const u32 ZERO = 0;

/*
 * Converts a pointer that the verifier trusts to a number: functions that it checks separately take
 * no pointers. Memory behind such a number is read by BPF_CORE_READ(), not by plain loads. For each
 * plain load the verifier searches all types of the kernel by name, which takes half a millisecond.
 */
static __always_inline u64 number_of(const void *pointer, struct recent *recent)
{
	recent->number = (u64)pointer;
	return recent->number;
}

static __always_inline struct counts *counts(void)
{
	return bpf_map_lookup_elem(&fr_rec_totals, &ZERO);
}

static __always_inline u64 since_start_ns(void)
{
	u64 now = bpf_ktime_get_ns();

	/* 0 stands for never. */
	return now > start_ns ? now - start_ns : 1;
}

static __always_inline void lose_fault(void)
{
	struct counts *c = counts();

	if (c)
		c->lost_faults++;
}

#endif
