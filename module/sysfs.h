/* SPDX-License-Identifier: GPL-2.0-only */
/* /sys/kernel/foreread; see sysfs.c. */
#ifndef FM_SYSFS_H
#define FM_SYSFS_H

#include <linux/types.h>

int fm_sysfs_init(void);
void fm_sysfs_exit(void);
const char *fm_policy_label(u32 policy);

#endif /* FM_SYSFS_H */
