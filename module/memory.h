/* SPDX-License-Identifier: GPL-2.0-only */
/* What the machine's memory is doing; see memory.c. */
#ifndef FM_MEMORY_H
#define FM_MEMORY_H

#include <foreread/types.h>

void fm_memory_now(struct fr_limits *limits);

#endif /* FM_MEMORY_H */
