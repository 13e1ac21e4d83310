// SPDX-License-Identifier: GPL-2.0-only
/*
 * Finds kernel functions by name that modules can't link to. Input: the name. Output: the address.
 *
 * kallsyms_lookup_name() isn't exported since 5.7. register_kprobe() looks a name up the same way,
 * by binary search. The probe is disabled, so no code of the kernel is changed for it.
 *
 * ftrace_set_filter() finds a function by name, too. But it looks up the name of each function that
 * ftrace knows, and those of other modules one symbol after another: on Linux 7.3 in an emulated
 * guest that took 20 s for a name.
 */
#include <linux/kprobes.h>

#include "symbol.h"

/**
 * fm_symbol_find() - finds a function
 * @name: as in /proc/kallsyms
 * @address: of its first instruction, or behind ENDBR
 *
 * Return: 0, or a negative error. Sleeps.
 */
int fm_symbol_find(const char *name, unsigned long *address)
{
	struct kprobe probe = { .symbol_name = name, .flags = KPROBE_FLAG_DISABLED };
	int error = register_kprobe(&probe);

	if (error)
		return error;
	*address = (unsigned long)probe.addr;
	unregister_kprobe(&probe);
	return 0;
}
