/* SPDX-License-Identifier: GPL-2.0-only */
/* What requests cost a disk; see costs.c. */
#ifndef FM_COSTS_H
#define FM_COSTS_H

#include <linux/types.h>

struct request;

/* Requests of a disk that are followed at once; a power of two. */
#define FM_FLIGHTS 128U

/**
 * struct fm_flight - a read that a disk works on
 * @request: a key, which is not followed; NULL where this place is free
 * @begin_ns: when it was made
 * @is_first: whether the disk had nothing to do when it came
 * @is_next: whether it starts where the request before it ended
 */
struct fm_flight {
	const struct request *request;
	u64 begin_ns;
	bool is_first;
	bool is_next;
};

/**
 * struct fm_flights - reads that a disk works on
 * @count: how many
 * @epoch: that of the device in which they were issued
 * @end_sector: behind the request that was issued last
 * @moved_ns: when one was issued or completed last
 * @flight: them, by their address
 */
struct fm_flights {
	u32 count;
	u32 epoch;
	u64 end_sector;
	u64 moved_ns;
	struct fm_flight flight[FM_FLIGHTS];
};

int fm_costs_add(void);
void fm_costs_remove(void);

#endif /* FM_COSTS_H */
