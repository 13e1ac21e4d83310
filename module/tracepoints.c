// SPDX-License-Identifier: GPL-2.0-only
/*
 * Listens to tracepoints that the kernel doesn't export.
 *
 * Input: names, and functions to call. Output: they are called, all of them or none.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <linux/printk.h>
#include <linux/string.h>
#include <linux/tracepoint.h>

#include "tracepoints.h"

static void fm_tracepoint_find(struct tracepoint *tracepoint, void *data)
{
	struct fm_tracepoint *wanted = data;

	if (strcmp(tracepoint->name, wanted->name) == 0)
		wanted->found = tracepoint;
}

/**
 * fm_tracepoints_remove() - calls the probes no more; none is running behind that
 * @list: the tracepoints
 * @count: how many
 *
 * Sleeps.
 */
void fm_tracepoints_remove(struct fm_tracepoint *list, unsigned int count)
{
	unsigned int i;

	for (i = 0; i < count; i++) {
		if (list[i].is_added)
			tracepoint_probe_unregister(list[i].found, list[i].probe, NULL);
		list[i].is_added = false;
	}
	tracepoint_synchronize_unregister();
}

/**
 * fm_tracepoints_add() - begins to call the probes
 * @list: the tracepoints
 * @count: how many
 * @loss: what isn't known without them, for the log
 *
 * Return: 0, or a negative error after a line in the log; then none is called.
 */
int fm_tracepoints_add(struct fm_tracepoint *list, unsigned int count, const char *loss)
{
	unsigned int i;
	int error;

	for (i = 0; i < count; i++) {
		struct fm_tracepoint *wanted = &list[i];

		for_each_kernel_tracepoint(fm_tracepoint_find, wanted);
		error = -ENOENT;
		if (wanted->found)
			error = tracepoint_probe_register(wanted->found, wanted->probe, NULL);
		if (error) {
			pr_err("no tracepoint %s (%d): %s\n", wanted->name, error, loss);
			fm_tracepoints_remove(list, count);
			return error;
		}
		wanted->is_added = true;
	}
	return 0;
}
