/* SPDX-License-Identifier: GPL-2.0-only */
/* The streams of files, for policies that remember; see stream_table.c. */
#ifndef FM_STREAM_TABLE_H
#define FM_STREAM_TABLE_H

#include <linux/fs.h>
#include <linux/refcount.h>
#include <linux/spinlock.h>
#include <linux/types.h>

#include <foreread/policy.h>

/**
 * struct fm_streams - the streams of a file, whoever reads it
 * @node: in its bucket
 * @users: threads that have it, and the table
 * @lock: guards all that follows
 * @id: no two have the same; for replays
 * @events: number of calls of the core so far; for replays
 * @state: of the policy
 * @streams: of the policy
 * @mapping, @inode_number, @generation, @policy: the key
 * @used: when it was, in jiffies; under the lock of the bucket
 */
struct fm_streams {
	struct hlist_node node;
	refcount_t users;
	spinlock_t lock;
	u64 id;
	u64 events;
	struct fr_state state;
	struct fr_streams streams;
	const struct address_space *mapping;
	unsigned long inode_number;
	unsigned long used;
	u32 generation;
	u32 policy;
};

int fm_streams_init(void);
void fm_streams_exit(void);
struct fm_streams *fm_streams_get(const struct address_space *mapping, u32 policy);
u64 fm_streams_id(const struct address_space *mapping, u32 policy);
struct fm_streams *fm_streams_get_known(const struct address_space *mapping, u64 id);
void fm_streams_put(struct fm_streams *streams);
unsigned long fm_streams_count(void);

#endif /* FM_STREAM_TABLE_H */
