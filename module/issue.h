/* SPDX-License-Identifier: GPL-2.0-only */
/* Reads the windows of a decision; see issue.c. */
#ifndef FM_ISSUE_H
#define FM_ISSUE_H

#include <linux/types.h>

#include <foreread/policy.h>

struct fm_call;

/* Pages of a window that are read at once. */
struct fm_piece {
	u64 start;
	u32 pages;
};

/* The page behind what is read of a window. */
static inline u64 fm_window_end(const struct fr_window *window)
{
	return fr_add(window->start, window->read_pages);
}

struct fm_piece fm_next_piece(const struct fm_call *call, const struct fr_window *window, u32 done,
			      u32 most);

u64 fm_issue(const struct fm_call *call, u64 *asked_end);

#endif /* FM_ISSUE_H */
