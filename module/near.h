/* SPDX-License-Identifier: GPL-2.0-only */
/* What a policy wants to know of the page cache; see near.c. */
#ifndef FM_NEAR_H
#define FM_NEAR_H

#include <linux/fs.h>

#include <foreread/types.h>

void fm_near_fill(struct address_space *mapping, u64 index, const struct fr_wants *wants,
		  struct fr_near *near);
u64 fm_near_cached_to(struct address_space *mapping, u64 end, u64 most);
u64 fm_near_cached_from(struct address_space *mapping, u64 from, u64 most);
u64 fm_near_left_out(struct address_space *mapping, u64 end, u64 most);
bool fm_near_is_cached(struct address_space *mapping, u64 index);
bool fm_near_was_evicted(struct address_space *mapping, u64 index);

#endif /* FM_NEAR_H */
