/* SPDX-License-Identifier: GPL-2.0-only */
/* Tracepoints of the kernel, found by name; see tracepoints.c. */
#ifndef FM_TRACEPOINTS_H
#define FM_TRACEPOINTS_H

#include <linux/types.h>

struct tracepoint;

/**
 * struct fm_tracepoint - one that is listened to
 * @name: as in the kernel's source
 * @probe: is called with NULL and the arguments of the tracepoint
 * @found: it, after fm_tracepoints_add()
 * @is_added: whether the probe is called
 */
struct fm_tracepoint {
	const char *name;
	void *probe;
	struct tracepoint *found;
	bool is_added;
};

int fm_tracepoints_add(struct fm_tracepoint *list, unsigned int count, const char *loss);
void fm_tracepoints_remove(struct fm_tracepoint *list, unsigned int count);

#endif /* FM_TRACEPOINTS_H */
