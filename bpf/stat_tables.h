/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The tables of stat.bpf.c, and its settings before loading. */
#ifndef FOREREAD_STAT_TABLES_H
#define FOREREAD_STAT_TABLES_H

#include "block_kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "record.h"
#include "stat.h"
#define OWN(name) fr_stat_##name
#include "children.h"
#include "whoami.h"

/* Set before loading. */
const volatile u32 by_device;
const volatile u32 by_file;
const volatile u32 by_process;
const volatile u32 by_cgroup;
/* Whether only pages are followed that one process tree brings in. */
const volatile u32 only_tree;
const volatile u8 syscall_class[SYSCALLS_MAX];

struct bpf_map;

struct stat_losses losses;
/* Accounts in use, but for account 0. */
u32 accounts_used;
/* Raised by each sweep(). */
u32 sweeps;
/* Results of survey(): chunks in the table, and how many of them may be removed. */
u64 chunk_count;
u64 chunks_dead;
/* Raised by each window: pages may have come in anywhere. */
u64 windows_seen;

struct stat_account accounts[STAT_ACCOUNTS] SEC(".bss.accounts");

/* Number of chunks with unused pages for each place: most reads find a 0 and need no lookup. */
#define FILTER_PLACES 65536
u32 filter[FILTER_PLACES] SEC(".bss.filter");

struct chunk_place {
	u64 inode;
	u64 chunk;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 262144);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct chunk_place);
	__type(value, struct stat_chunk);
} fr_stat_chunk_table SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, STAT_ACCOUNTS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct stat_key);
	__type(value, u32);
} fr_stat_account_table SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} fr_stat_names SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct stat_name);
} fr_stat_scratches SEC(".maps");

/* The range that a CPU has searched last without finding an unused page. */
struct clean {
	u64 inode;
	u64 start_page;
	u64 end_page;
	u64 windows_seen;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct clean);
} fr_stat_cleans SEC(".maps");

/* The cause of the readahead that a thread is in. */
enum cause {
	CAUSE_NONE,
	CAUSE_SYNC,
	CAUSE_ASYNC,
	CAUSE_ORDER, /* the window has been issued, and may be taken page by page */
	CAUSE_RANDOM, /* the same, of a forced one, in parts */
};

struct span {
	u64 inode;
	u64 start_page;
	u64 end_page;
};

struct task_state {
	u32 cause;
	u32 cause_kind;
	u64 cause_inode;
	u64 cause_page;
	/* Readahead that is being issued. */
	struct span window;
	u32 window_account;
	/* Pages that the thread asked for and didn't find. */
	struct span miss;
	u64 fault_inode;
	u64 fault_ns;
	/* The file of a read that missed, until its pages are there. */
	u64 read_inode;
	/* The pages that a read has reached. */
	struct span progress;
	u64 wait_since_ns;
	u32 wait_account;
	u32 pad;
	volatile u64 number;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_state);
} fr_stat_tasks SEC(".maps");

static const u32 ZERO = 0;

static __always_inline struct task_state *state_now(bool create)
{
	return bpf_task_storage_get(&fr_stat_tasks, bpf_get_current_task_btf(), 0,
				    create ? BPF_LOCAL_STORAGE_GET_F_CREATE : 0);
}

/*
 * A pointer that the kernel vouches for, as a mere number: functions that it checks apart take no
 * other.
 */
static __always_inline u64 number_of(const void *pointer, struct task_state *t)
{
	t->number = (u64)pointer;
	return t->number;
}

static __always_inline u32 ones(u64 bits)
{
	/* BPF has no popcount instruction before v4. */
	bits = bits - ((bits >> 1) & 0x5555555555555555ULL);
	bits = (bits & 0x3333333333333333ULL) + ((bits >> 2) & 0x3333333333333333ULL);
	bits = (bits + (bits >> 4)) & 0x0f0f0f0f0f0f0f0fULL;
	return (bits * 0x0101010101010101ULL) >> 56;
}

/* The lowest set bit's number; 64 of none. */
static __always_inline u32 lowest(u64 bits)
{
	return ones((bits & -bits) - 1);
}

static __always_inline struct stat_account *account_at(u32 number)
{
	return &accounts[number & (STAT_ACCOUNTS - 1)];
}

static __always_inline u32 *filter_at(u64 inode, u64 chunk)
{
	u64 mixed = ((inode >> 6) + chunk * 0x9e3779b97f4a7c15ULL) * 0xff51afd7ed558ccdULL;

	return &filter[mixed >> 48 & (FILTER_PLACES - 1)];
}

static __always_inline u64 chunk_bits(u64 chunk, u64 start_page, u64 end_page)
{
	u64 base = chunk << CHUNK_SHIFT;
	u64 from = start_page > base ? start_page - base : 0;
	u64 to = end_page > base ? end_page - base : 0;
	u64 bits = ~0ULL;

	if (from >= STAT_CHUNK_PAGES || !to)
		return 0;
	if (to < STAT_CHUNK_PAGES)
		bits = (1ULL << (to & 63)) - 1;
	return bits & (~0ULL << (from & 63));
}

#endif
