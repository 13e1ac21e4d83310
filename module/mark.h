/* SPDX-License-Identifier: GPL-2.0-only */
/* Marks the page at which a policy is asked next; see mark.c. */
#ifndef FM_MARK_H
#define FM_MARK_H

#include <linux/fs.h>

struct fm_call;

void fm_mark(struct address_space *mapping, u64 index);
void fm_mark_next(const struct fm_call *call);

#endif /* FM_MARK_H */
