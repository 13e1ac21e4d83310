/* SPDX-License-Identifier: GPL-2.0-only */
/* Reads the windows of a decision; see issue.c. */
#ifndef FM_ISSUE_H
#define FM_ISSUE_H

#include <linux/types.h>

struct fm_call;

u64 fm_issue(const struct fm_call *call, u64 *asked_end);

#endif /* FM_ISSUE_H */
