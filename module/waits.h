/* SPDX-License-Identifier: GPL-2.0-only */
/* How long readers wait for pages; see waits.c. */
#ifndef FM_WAITS_H
#define FM_WAITS_H

int fm_waits_add(void);
void fm_waits_remove(void);

#endif /* FM_WAITS_H */
