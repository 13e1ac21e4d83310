/* SPDX-License-Identifier: GPL-2.0-only */
/* Calls the core, under the locks that its states need; see ask.c. */
#ifndef FM_ASK_H
#define FM_ASK_H

#include <linux/bits.h>
#include <linux/types.h>

struct fm_call;
struct fm_device;
struct fm_streams;

/* Events that the policy is told of before it decides. */
#define FM_THRASHED BIT(0) /* the page that is missing was read ahead and evicted unread */
#define FM_LATE BIT(1) /* the page with the mark is still being read */

void fm_ask(struct fm_call *call, u32 events);
void fm_ask_streams(struct fm_call *call, struct fm_streams *streams, u32 events);
void fm_tell_waited(struct fm_streams *streams, struct fm_device *device, u64 waited_ns,
		    bool was_asked);
void fm_tell_issued(const struct fm_call *call, struct fm_streams *streams, u64 pages,
		    u64 read_pages);

#endif /* FM_ASK_H */
