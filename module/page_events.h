/* SPDX-License-Identifier: GPL-2.0-only */
/* Where the kernel tells what becomes of pages; see page_events.c. */
#ifndef FM_PAGE_EVENTS_H
#define FM_PAGE_EVENTS_H

struct folio;

int fm_page_events_add(void);
void fm_page_events_remove(void);
struct folio *fm_folio_at(unsigned long address);

#endif /* FM_PAGE_EVENTS_H */
