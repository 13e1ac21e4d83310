/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Page cache lookups of stat.bpf.c: the folio of a page, whether it is ready or mapped. */
#ifndef FOREREAD_STAT_CACHE_H
#define FOREREAD_STAT_CACHE_H

#include "stat_tables.h"
#include "folio.h"

/* The folio of a page of a file in the page cache; false when there is none. */
static __always_inline int inode_folio(u64 inode_pointer, u64 page, struct found *found)
{
	struct inode *inode = (struct inode *)inode_pointer;

	return cached_folio((u64)BPF_CORE_READ(inode, i_mapping), page, found);
}

struct look {
	u64 inode;
	u64 number; /* of the chunk */
	u64 left;
	u64 ready; /* up to date */
	u64 mapped; /* in any page table */
	u64 uptodate; /* the flag */
	u32 asks_mapped;
	u32 pad;
};

/* Whether a page is in any page table, by itself or in a folio that a PMD maps. */
static __always_inline bool is_mapped(const struct found *found, u64 page)
{
	u64 struct_bytes = bpf_core_type_size(struct page);
	u64 of_page = found->folio + (page - found->start_page) * struct_bytes;
	struct folio *folio = (struct folio *)found->folio;
	struct folio___order *old = (void *)folio;

	/* Counts begin at -1. */
	if (BPF_CORE_READ((struct page *)of_page, _mapcount.counter) >= 0)
		return true;
	if (!HAS_FLAG(found->flags, PG_head))
		return false;
	if (bpf_core_field_exists(folio->_entire_mapcount))
		return BPF_CORE_READ(folio, _entire_mapcount.counter) >= 0;
	return bpf_core_field_exists(old->_folio_order) &&
	       BPF_CORE_READ(old, _total_mapcount.counter) >= 0;
}

static long look_at_folio(u64 step, struct look *look)
{
	struct found found;
	u64 page, bits;

	if (!look->left)
		return 1;
	bits = look->left & -look->left;
	page = (look->number << CHUNK_SHIFT) + (lowest(look->left) & 63);
	if (!inode_folio(look->inode, page, &found)) {
		look->left &= ~bits;
		return 0;
	}
	/* Whether it is mapped is each page's own. */
	if (look->asks_mapped && is_mapped(&found, page))
		look->mapped |= bits;
	if (!look->asks_mapped)
		bits = chunk_bits(look->number, found.start_page, found.end_page) & look->left;
	if (found.flags & look->uptodate)
		look->ready |= bits;
	look->left &= ~bits;
	return 0;
}

static __always_inline void look_at(struct look *look, u64 inode, u64 number, u64 bits)
{
	look->inode = inode;
	look->number = number;
	look->left = bits;
	look->uptodate = 1ULL << bpf_core_enum_value(enum pageflags, PG_uptodate);
	bpf_loop(STAT_CHUNK_PAGES, look_at_folio, look, 0);
}

/* Pages among `bits` of a chunk that are cached and up to date. */
static __always_inline u64 ready_pages(u64 inode, u64 number, u64 bits)
{
	struct look look = {};

	look_at(&look, inode, number, bits);
	return look.ready;
}

/* Pages among `bits` of a chunk that are mapped. */
static __always_inline u64 mapped_pages(u64 inode, u64 number, u64 bits)
{
	struct look look = { .asks_mapped = true };

	look_at(&look, inode, number, bits);
	return look.mapped;
}

#endif
