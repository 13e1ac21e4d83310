/* SPDX-License-Identifier: GPL-2.0-only */
/* Addresses of kernel functions that modules can't link to; see symbol.c. */
#ifndef FM_SYMBOL_H
#define FM_SYMBOL_H

#include <linux/types.h>

/* ftrace stops at a function within so many bytes of its start: behind ENDBR, at most. */
#define FM_ENTRY_BYTES 16

int fm_symbol_find(const char *name, unsigned long *address);

/* Whether ftrace has stopped, at @ip, at the function with this address; 0 is no function. */
static inline bool fm_symbol_has(unsigned long address, unsigned long ip)
{
	return ip - address < FM_ENTRY_BYTES;
}

#endif /* FM_SYMBOL_H */
