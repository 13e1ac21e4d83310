/* SPDX-License-Identifier: GPL-2.0-only */
/* The pages that a reader has passed unseen; see passed.c. */
#ifndef FM_PASSED_H
#define FM_PASSED_H

#include <linux/limits.h>
#include <linux/types.h>

#include <foreread/policy.h>

struct fm_streams;

/**
 * struct fm_passed - pages of a file
 * @start: the lowest
 * @pages: how many; 0 is none
 * @since_ns: when the reader began with them, waits apart; 0 where that isn't known
 * @nearest: the one next to the access, if more was read ahead than these; else FM_NO_PAGE
 */
struct fm_passed {
	u64 start;
	u64 pages;
	u64 since_ns;
	u64 nearest;
};

#define FM_NO_PAGE U64_MAX

u64 fm_passed_end_within(struct fm_streams *streams, const struct fr_access *access);
struct fm_passed fm_passed_by_streams(struct fm_streams *streams, const struct fr_access *access);

#endif /* FM_PASSED_H */
