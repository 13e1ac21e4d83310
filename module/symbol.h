/* SPDX-License-Identifier: GPL-2.0-only */
/* Addresses of kernel functions that modules can't link to; see symbol.c. */
#ifndef FM_SYMBOL_H
#define FM_SYMBOL_H

int fm_symbol_find(const char *name, unsigned long *address);

#endif /* FM_SYMBOL_H */
