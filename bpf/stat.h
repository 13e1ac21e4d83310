/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The interface of stat.bpf.c and user space: crates/linux-stat/src/abi.rs reads it.
 *
 * Each page that is brought in has an account, and moves through it one way:
 *
 *	fetched -> arrived -> used_on_time, used_late or wasted
 *
 * The counters of an account only grow. A page is added to a later counter after the one before
 * it. A reader that reads the later counters first therefore counts each page exactly once:
 * arrived - (used + wasted) pages are in memory and unused, fetched - arrived are in flight.
 */
#ifndef FOREREAD_STAT_H
#define FOREREAD_STAT_H

#include <linux/types.h>

/* Account 0 is for everything that finds no room in the table of accounts. */
#define STAT_ACCOUNTS 65536
#define STAT_CHUNK_PAGES 64

/* The kind of readahead that fetched a page. */
enum stat_kind {
	STAT_NONE = 0, /* an account of waits only */
	STAT_INITIAL = 1, /* the first window of a stream */
	STAT_SUBSEQUENT = 2, /* the next one, at its marker */
	STAT_CONTEXT = 3, /* a stream found by what is cached around it */
	STAT_AROUND = 4, /* around a fault */
	STAT_RANDOM = 5, /* as much as was asked for, and no more */
	STAT_FORCED = 6, /* fadvise, readahead(2), madvise */
	STAT_DEMAND = 7, /* the page that was missing, without readahead */
};

/* Key of an account. Properties that accounts aren't told apart by are 0. */
struct stat_key {
	__u64 inode;
	__u64 cgroup;
	__u64 started_ns; /* of the process: tells apart those that had the same number */
	__u32 generation; /* of the inode */
	__u32 device; /* as in the kernel: 12 bits major, 20 bits minor */
	__u32 process;
	__u32 kind;
};

/* Pages, but for the last ones. */
struct stat_account {
	__u64 used_on_time;
	__u64 used_late;
	__u64 wasted;
	__u64 arrived;
	__u64 fetched;
	__u64 windows;
	__u64 requests;
	__u64 request_bytes;
	__u64 stall_ns;
	__u64 stalls;
};

#define STAT_COMM_BYTES 16
#define STAT_PATH_BYTES 2048

/* A new account, with the names of its subject; account 0 is a process that has executed. */
struct stat_name {
	struct stat_key key;
	__u32 account;
	__u32 path_bytes; /* names from the file up, each with a NUL */
	__u8 comm[STAT_COMM_BYTES];
	__u8 path[STAT_PATH_BYTES + 256];
};

/* Pages of one file that are followed: 64 from a multiple of 64 on. */
struct stat_chunk {
	__u64 unused; /* read in, and not accessed yet */
	__u64 arrived; /* of these, up to date when last looked */
	__u64 requested; /* a request for them went to a device */
	__u64 large; /* they came in a folio of several pages */
	__u32 is_dead; /* about to be removed */
	__u32 busy; /* processors that put pages in */
	__u32 sweep; /* when pages were last put in */
	__u32 pad;
	__u16 owner[STAT_CHUNK_PAGES]; /* account */
};

/* Counts of everything that could not be noted. */
struct stat_losses {
	__u64 unfollowed_pages; /* brought in, but the table of pages was full */
	__u64 shared_accounts; /* accounts that found no room and share account 0 */
	__u64 names; /* ring full: an account without its names */
	__u64 processes; /* table of processes full */
};

#endif
