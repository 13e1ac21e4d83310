/* SPDX-License-Identifier: GPL-2.0-only */
/* Takes the policy of a device away when it misbehaves; see watchdog.c. */
#ifndef FM_WATCHDOG_H
#define FM_WATCHDOG_H

#include <linux/types.h>

struct fm_device;

/* Why a policy was taken away. */
enum fm_verdict {
	FM_VERDICT_OK,
	FM_VERDICT_WASTE, /* pages left memory unused */
	FM_VERDICT_LATE, /* readers waited for pages that were read ahead */
	FM_VERDICT_SLOW, /* decisions took too long */
};

/* Two counters of a device, one of which is to be small beside the other. */
struct fm_ratio {
	u64 part;
	u64 whole;
};

/**
 * struct fm_watch - what the watchdog keeps of a device
 * @waste: wasted and settled pages, when the last window ended
 * @late: pages ahead that a reader waited for, and all that were read
 * @slow: nanoseconds and calls of the core
 * @verdict: on the policy that was set last
 * @seen: the window that led to it
 * @policy: that was taken away
 */
struct fm_watch {
	struct fm_ratio waste;
	struct fm_ratio late;
	struct fm_ratio slow;
	enum fm_verdict verdict;
	struct fm_ratio seen;
	u32 policy;
};

/* Holds what fm_watchdog_say() writes. */
#define FM_VERDICT_BYTES 160

int fm_watchdog_init(void);
void fm_watchdog_exit(void);
void fm_watchdog_wake(void);
void fm_watchdog_arm(struct fm_device *device, u32 policy);
void fm_watchdog_say(struct fm_device *device, char *text, size_t bytes);

#endif /* FM_WATCHDOG_H */
