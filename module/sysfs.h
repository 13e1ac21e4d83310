/* SPDX-License-Identifier: GPL-2.0-only */
/* /sys/kernel/foreread; see sysfs.c. */
#ifndef FM_SYSFS_H
#define FM_SYSFS_H

int fm_sysfs_init(void);
void fm_sysfs_exit(void);

#endif /* FM_SYSFS_H */
