/* SPDX-License-Identifier: GPL-2.0-only */
/* Has the kernel's own functions read a window; see steer.c. */
#ifndef FM_STEER_H
#define FM_STEER_H

#include <linux/types.h>

#include <foreread/types.h>

struct fm_call;

int fm_steer_init(void);
void fm_steer_exit(void);
void fm_steer_own(const struct fm_call *call);
bool fm_steer(const struct fm_call *call, const struct fr_window *window, u32 lookahead);

#endif /* FM_STEER_H */
