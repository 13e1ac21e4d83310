/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Pages that a page fault maps besides its own: a large folio at once. */
#ifndef FOREREAD_RECORD_FAULT_H
#define FOREREAD_RECORD_FAULT_H

#include "folio.h"
#include "record_page.h"
#include "record_process.h"

#define EBUSY 16

/* Pages that a PMD maps. */
#define HUGE_PAGES 512

/*
 * Whether a fault maps all of a folio at once. It does if a PMD can map the folio. Since Linux 6.18
 * it always does, unless the end of the mapping is in the way.
 */
static __always_inline bool is_mapped_whole(u64 pages)
{
	return pages >= HUGE_PAGES || (maps_whole_folios && pages > 1);
}

struct huge {
	u64 address;
	u64 mapping;
	u64 start_page;
};

/* Finds the file and the pages that a PMD would map at an address, if one could. */
static long find_huge(struct task_struct *task, struct vm_area_struct *vma, struct huge *huge)
{
	u64 bytes = HUGE_PAGES << 12;
	u64 address = huge->address & ~(bytes - 1);
	struct file *file = BPF_CORE_READ(vma, vm_file);
	u64 start = BPF_CORE_READ(vma, vm_start);
	u64 page;

	if (!file || address < start || address + bytes > BPF_CORE_READ(vma, vm_end))
		return 0;
	page = BPF_CORE_READ(vma, vm_pgoff) + ((address - start) >> 12);
	if (page & (HUGE_PAGES - 1))
		return 0;
	huge->start_page = page;
	huge->mapping = (u64)BPF_CORE_READ(file, f_mapping);
	return 0;
}

/* Notes the pages that a PMD mapped at an address; false when the mappings are being changed. */
__noinline int note_huge(u64 address, struct recent *recent)
{
	struct huge huge = { .address = address };
	struct address_space *mapping;
	struct found folio;

	if (!recent)
		return true;
	if (bpf_find_vma(bpf_get_current_task_btf(), address, find_huge, &huge, 0) == -EBUSY)
		return false;
	if (!huge.mapping || !cached_folio(huge.mapping, huge.start_page, &folio) ||
	    folio.end_page - folio.start_page < HUGE_PAGES)
		return true;
	mapping = (struct address_space *)huge.mapping;
	note_pages((u64)BPF_CORE_READ(mapping, host), huge.start_page, huge.start_page + HUGE_PAGES,
		   BY_MAPPING, recent);
	return true;
}

/* Another thread was changing mappings when a fault was to be looked at. It may be done by now. */
static __always_inline void settle_fault(struct recent *recent)
{
	u64 address = recent->fault_owed;

	if (!address)
		return;
	recent->fault_owed = 0;
	if (!note_huge(address, recent))
		lose_fault();
}

/*
 * A PMD that maps 2 MiB of a cached file is set without any event of the page cache, and no fault
 * follows for its pages. So the address of each fault is kept. If file pages are mapped without
 * such an event, the address is looked up when the counter of mapped pages changes. There the
 * kernel may be asked for the mapping without a detour by an interrupt.
 */
static __always_inline int keep_fault_address(u64 address, u64 error_code)
{
	struct recent *recent;

	/* The lowest bit: there is a page, but it can't be used so. */
	if (error_code & 1)
		return 0;
	recent = traced_now();
	if (recent) {
		recent->fault_address = address;
		recent->traced_address = address;
	}
	return 0;
}

/* A fault found no folio: this one may be for it, and is mapped whole. */
static __always_inline void fault_brought(struct folio *folio, struct inode *inode, u64 pages,
					  struct recent *recent)
{
	u64 start_page = folio->index;

	if (!recent->fault_mapping || recent->fault_mapping != (u64)BPF_CORE_READ(folio, mapping) ||
	    recent->fault_page < start_page || recent->fault_page - start_page >= pages)
		return;
	recent->fault_mapping = 0;
	if (is_mapped_whole(pages))
		note_pages((u64)inode, start_page, start_page + pages, BY_MAPPING | MISSED, recent);
}

#endif
