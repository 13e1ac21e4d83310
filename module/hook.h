/* SPDX-License-Identifier: GPL-2.0-only */
/* Takes over the kernel's functions for readahead; see hook.c. */
#ifndef FM_HOOK_H
#define FM_HOOK_H

int fm_hook_add(void);
void fm_hook_remove(void);

#endif /* FM_HOOK_H */
