// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Reports the readahead of one file, folio by folio, and the kernel's readahead state of a
 * descriptor: for `foreread check-kernel`.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "check.h"
#include "hooks.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* The inode that is watched, 0 none. */
u64 watched_host;
/* Events that found no room. */
u64 lost;
struct check_look looked;

/* As many folios as one step can bring in: a page each, of 8 MiB. */
#define AWAITED_MAX 2048

/* The thread that runs the programs; found by look(). */
u64 checked_thread;
/* Whether the step is an access to memory. */
u32 is_touch;
/* Folios of this step that may be on their way, and how many. User space sets it to 0. */
u64 awaited[AWAITED_MAX];
u32 awaited_count;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20);
} fr_chk_events SEC(".maps");

KNOWN_STRUCT(check_event);

static __always_inline void tell(u64 host, u32 kind, u32 order, u64 index, u64 pages,
				 u64 async_pages)
{
	struct check_event event = {
		.kind = kind,
		.order = order,
		.index = index,
		.pages = pages,
		.async_pages = async_pages,
	};

	if (host != watched_host || !host)
		return;
	if (bpf_ringbuf_output(&fr_chk_events, &event, sizeof(event), BPF_RB_NO_WAKEUP))
		__sync_fetch_and_add(&lost, 1);
}

static __always_inline u64 host_of(struct folio *folio)
{
	return (u64)BPF_CORE_READ(folio, mapping, host);
}

static __always_inline u32 order_of(struct folio *folio)
{
	return folio_order(folio, folio_flags(folio));
}

SEC("tp_btf/mm_filemap_add_to_page_cache")
int BPF_PROG(fr_chk_inserted, struct folio *folio)
{
	u64 index = BPF_CORE_READ(folio, index);

	u32 number;

	if (host_of(folio) != watched_host || !watched_host)
		return 0;
	/*
	 * khugepaged reads files of executable mappings by itself, page after page
	 * (collapse_file).
	 */
	if (checked_thread && bpf_get_current_pid_tgid() != checked_thread)
		tell(watched_host, CHECK_OTHERS, 0, index, 0, 0);
	tell(watched_host, CHECK_INSERTED, order_of(folio), index, 0, 0);
	number = awaited_count;
	if (number < AWAITED_MAX) {
		awaited[number] = (u64)folio;
		awaited_count = number + 1;
	}
	return 0;
}

struct survey {
	u32 locked;
	u32 kind;
};

static long tell_if_late(u64 number, struct survey *survey)
{
	u64 flags = 0;
	u64 folio;

	if (number >= awaited_count || number >= AWAITED_MAX)
		return 1;
	folio = awaited[number];
	/* A folio that was given up since is not locked either. */
	bpf_probe_read_kernel(&flags, sizeof(flags), (void *)folio);
	if (flags & 1ULL << survey->locked)
		tell(watched_host, survey->kind, 0, BPF_CORE_READ((struct folio *)folio, index), 0,
		     0);
	return 0;
}

static __always_inline void tell_late(u32 kind)
{
	struct survey survey = {
		.locked = bpf_core_enum_value(enum pageflags, PG_locked),
		.kind = kind,
	};

	if (awaited_count && bpf_get_current_pid_tgid() == checked_thread)
		bpf_loop(AWAITED_MAX, tell_if_late, &survey, 0);
}

/*
 * A fault that had to wait is taken again under the lock of the mappings. It then maps around it
 * any further pages that have arrived by then (filemap_map_pages). Those depend on the device, so
 * they are reported: right before, and right after.
 */
static __always_inline int on_lock_acquired(bool write, bool success)
{
	if (!write && is_touch)
		tell_late(CHECK_LATE);
	return 0;
}

HOOK_MMAP_LOCK_ACQUIRED(fr_chk_taken_again, on_lock_acquired)

static __always_inline int on_mapped(void *context, struct address_space *mapping, u64 start,
				     u64 last)
{
	if (!is_touch || (u64)BPF_CORE_READ(mapping, host) != watched_host)
		return 0;
	tell(watched_host, CHECK_MAPPED, 0, start, last - start + 1, 0);
	tell_late(CHECK_STILL_LATE);
	return 0;
}

HOOK_MAP_PAGES("tp_btf", fr_chk_mapped, on_mapped)

SEC("tp_btf/mm_filemap_delete_from_page_cache")
int BPF_PROG(fr_chk_removed, struct folio *folio)
{
	u64 index = BPF_CORE_READ(folio, index);

	tell(host_of(folio), CHECK_REMOVED, order_of(folio), index, 0, 0);
	return 0;
}

static __always_inline int on_sync_ra(void *context, struct inode *inode, u64 index,
				      struct file_ra_state *ra, u64 request)
{
	tell((u64)inode, CHECK_SYNC, 0, index, request, 0);
	return 0;
}

HOOK_SYNC_RA("tp_btf", fr_chk_sync_ra, on_sync_ra)

static __always_inline int on_async_ra(void *context, struct inode *inode, u64 index,
				       struct file_ra_state *ra, u64 request)
{
	tell((u64)inode, CHECK_ASYNC, 0, index, request, 0);
	return 0;
}

HOOK_ASYNC_RA("tp_btf", fr_chk_async_ra, on_async_ra)

static __always_inline int on_ra_order(void *context, struct inode *inode, u64 index,
				       struct file_ra_state *ra, u32 order)
{
	tell((u64)inode, CHECK_ORDER, order, index, BPF_CORE_READ(ra, size),
	     BPF_CORE_READ(ra, async_size));
	return 0;
}

HOOK_RA_ORDER("tp_btf", fr_chk_ra_order, on_ra_order)

static __always_inline int on_ra_unbounded(void *context, struct inode *inode, u64 index, u64 pages,
					   u64 lookahead)
{
	tell((u64)inode, CHECK_UNBOUNDED, 0, index, pages, lookahead);
	return 0;
}

HOOK_RA_UNBOUNDED("tp_btf", fr_chk_ra_unbounded, on_ra_unbounded)

static __always_inline int on_fault(void *context, struct address_space *mapping, u64 index)
{
	tell((u64)BPF_CORE_READ(mapping, host), CHECK_FAULT, 0, index, 0, 0);
	return 0;
}

HOOK_FAULT("tp_btf", fr_chk_fault, on_fault)

/* The largest folios of a mapping: so large where the kernel only says that they may be large. */
#define ORDER_OF_LARGE 9

/* Smallest and largest order of the folios of a mapping. */
static __always_inline void look_at_orders(u64 flags)
{
	looked.folio_order_min = 0;
	looked.folio_order_max = 0;
	if (bpf_core_enum_value_exists(enum mapping_flags, AS_FOLIO_ORDER_MAX)) {
		looked.folio_order_min =
			flags >> bpf_core_enum_value(enum mapping_flags, AS_FOLIO_ORDER_MIN) & 31;
		looked.folio_order_max =
			flags >> bpf_core_enum_value(enum mapping_flags, AS_FOLIO_ORDER_MAX) & 31;
	} else if (flags >> bpf_core_enum_value(enum mapping_flags, AS_LARGE_FOLIO_SUPPORT) & 1) {
		looked.folio_order_max = ORDER_OF_LARGE;
	}
}

/* Run by user space: fills `looked` for the descriptor that it names. */
SEC("raw_tp")
int fr_chk_look(void *context)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct file **table = BPF_CORE_READ(task, files, fdt, fd);
	u32 open_max = BPF_CORE_READ(task, files, fdt, max_fds);
	struct address_space *mapping;
	struct file *file = NULL;
	struct super_block *sb;
	u64 flags;

	looked.found = 0;
	checked_thread = bpf_get_current_pid_tgid();
	if (looked.descriptor >= open_max)
		return 0;
	bpf_probe_read_kernel(&file, sizeof(file), table + looked.descriptor);
	if (!file)
		return 0;
	mapping = BPF_CORE_READ(file, f_mapping);
	flags = BPF_CORE_READ(mapping, flags);
	sb = BPF_CORE_READ(file, f_inode, i_sb);
	looked.host = (u64)BPF_CORE_READ(file, f_inode);
	looked.start = BPF_CORE_READ(file, f_ra.start);
	looked.size = BPF_CORE_READ(file, f_ra.size);
	looked.async_size = BPF_CORE_READ(file, f_ra.async_size);
	looked.ra_pages = BPF_CORE_READ(file, f_ra.ra_pages);
	looked.order = ra_order_of(&file->f_ra);
	looked.mmap_miss = BPF_CORE_READ(file, f_ra.mmap_miss);
	looked.prev_pos = BPF_CORE_READ(file, f_ra.prev_pos);
	look_at_orders(flags);
	looked.bdi_ra_pages = BPF_CORE_READ(sb, s_bdi, ra_pages);
	looked.bdi_io_pages = BPF_CORE_READ(sb, s_bdi, io_pages);
	looked.found = 1;
	return 0;
}
