/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Folios, and where the page cache has them. */
#ifndef FOREREAD_FOLIO_H
#define FOREREAD_FOLIO_H

/* The includer has brought in the kernel's types and <bpf/bpf_core_read.h>. */

static __always_inline u64 folio_flags(struct folio *folio)
{
	u64 flags = 0;

	/* The flags come first, whatever their type is called. */
	bpf_probe_read_kernel(&flags, sizeof(flags), folio);
	return flags;
}

#define HAS_FLAG(flags, flag) ((flags)&1ULL << bpf_core_enum_value(enum pageflags, flag))

/* folio_order(): with the second page's flags, where there is one. */
static __always_inline u32 folio_order(struct folio *folio, u64 flags)
{
	struct folio___order *old = (void *)folio;

	if (!HAS_FLAG(flags, PG_head))
		return 0;
	if (bpf_core_field_exists(old->_folio_order))
		return BPF_CORE_READ(old, _folio_order) & 31;
	return BPF_CORE_READ(folio, _flags_1) & 31;
}

static __always_inline u64 folio_pages(struct folio *folio, u64 flags)
{
	return 1ULL << folio_order(folio, flags);
}

/* The folio of a block of metadata. */
static __always_inline struct folio *buffer_folio(struct buffer_head *buffer)
{
	struct buffer_head___page *old = (void *)buffer;

	/* Pages of metadata are single ones there. */
	if (!bpf_core_field_exists(buffer->b_folio))
		return (struct folio *)BPF_CORE_READ(old, b_page);
	return BPF_CORE_READ(buffer, b_folio);
}

/* Entries of the page cache's tree, as <linux/xarray.h> has them. */
#define TREE_MASK 63
#define TREE_LEVELS_MAX 8

static __always_inline bool tree_is_node(u64 entry)
{
	return (entry & 3) == 2 && entry > 4096;
}

static __always_inline u64 tree_slot(struct xa_node *node, u64 slot)
{
	u64 entry = 0;

	bpf_probe_read_kernel(&entry, sizeof(entry),
			      (void *)node + bpf_core_field_offset(struct xa_node, slots) +
				      (slot & TREE_MASK) * sizeof(entry));
	return entry;
}

struct found {
	u64 folio;
	u64 start_page;
	u64 end_page;
	u64 flags;
};

/*
 * The folio of a page in the page cache; false when there is none. Of one that was evicted,
 * found->folio is the shadow that it has left, an odd number.
 */
__noinline int cached_folio(u64 mapping_pointer, u64 page, struct found *found)
{
	struct address_space *mapping = (struct address_space *)mapping_pointer;
	u64 entry = (u64)BPF_CORE_READ(mapping, i_pages.xa_head);
	struct xa_node *node;
	struct folio *folio;
	u64 flags, index, pages, slot;
	u32 level;

	if (!found)
		return false;
	for (level = 0; level < TREE_LEVELS_MAX && tree_is_node(entry); level++) {
		node = (struct xa_node *)(entry - 2);
		slot = page >> (BPF_CORE_READ(node, shift) & TREE_MASK);
		if (level == 0 && slot > TREE_MASK)
			return false;
		entry = tree_slot(node, slot);
		/* A large folio stands in its first slot, the others point there. */
		if ((entry & 3) == 2 && !tree_is_node(entry))
			entry = tree_slot(node, entry >> 2);
	}
	found->folio = entry;
	if (!entry || (entry & 3))
		return false;
	folio = (struct folio *)entry;
	flags = folio_flags(folio);
	index = BPF_CORE_READ(folio, index);
	pages = folio_pages(folio, flags);
	if (page < index || page - index >= pages)
		return false;
	found->start_page = index;
	found->end_page = index + pages;
	found->flags = flags;
	return true;
}

#endif
