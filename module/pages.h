/* SPDX-License-Identifier: GPL-2.0-only */
/* The pages that policies had read, until it is known what became of them; see pages.c. */
#ifndef FM_PAGES_H
#define FM_PAGES_H

#include <linux/fs.h>
#include <linux/types.h>

struct fm_call;
struct fm_device;
struct folio;

/**
 * struct fm_fetch - a thread that reads the windows of a decision
 * @node: in its bucket, while pages that the thread adds count as fetched
 * @task: the thread
 * @mapping: that it reads; pages of others that it adds meanwhile are metadata
 * @device: whose policy decided
 * @asked_start: page at which the reader's own request begins
 * @asked_end: page behind it
 * @missed: the page that the reader is missing, or FM_NO_PAGE
 * @added_start: lowest page that was added
 * @added_end: page behind the highest one
 * @epoch: of the device's policy
 * @spares: entries of the table, since none can be allocated where pages are added
 */
struct fm_fetch {
	struct hlist_node node;
	struct task_struct *task;
	struct address_space *mapping;
	struct fm_device *device;
	u64 asked_start;
	u64 asked_end;
	u64 missed;
	u64 added_start;
	u64 added_end;
	u32 epoch;
	struct hlist_head spares;
};

#define FM_NO_PAGE U64_MAX

/* Pages whose use has not been seen. */
struct fm_held {
	u64 resident_pages;
	u64 in_flight_pages;
};

/* What PG_active is worth where a folio is looked at. */
enum fm_active {
	FM_ACTIVE_IS_USE, /* a second read has set it, unless the folio was added with it */
	FM_ACTIVE_IS_NOTHING, /* reclaim may have set it */
};

int fm_pages_init(void);
void fm_pages_exit(void);
void fm_pages_forget(const struct fm_device *device);

void fm_fetch_begin(struct fm_fetch *fetch, const struct fm_call *call);
void fm_fetch_reserve(struct fm_fetch *fetch, u64 pages);
void fm_fetch_end(struct fm_fetch *fetch);

void fm_pages_added(const struct folio *folio);
bool fm_pages_waited(const struct folio *folio);
void fm_pages_seen(struct folio *folio, enum fm_active active);
void fm_pages_left(struct folio *folio);
void fm_pages_lose_use(void);

void fm_pages_sweep(const struct fm_device *device, struct fm_held *held);
unsigned long fm_pages_count(void);

#endif /* FM_PAGES_H */
