/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The hooks of the page cache, with the form in which each kernel offers them.
 *
 * A hook is defined by one macro. It takes the program's name and a handler, and makes one program
 * for each way in which some kernel offers the hook: NAME for the tracepoint, NAME__fnN for the
 * function with N arguments, NAME__tpN for the tracepoint with N arguments. All of them call the
 * handler with the arguments of the tracepoint. User space (crates/bpf) reads these names, and
 * loads of each hook the first program that the running kernel has.
 *
 * The first argument of a handler is the context of a tracepoint, and NULL in a program that is
 * attached to a function. Such a program can't be left by bpf_tail_call(), since a table of
 * programs holds programs of one function only.
 *
 * - mm_filemap_get_pages, _map_pages, _fault: functions in 6.1, tracepoints since 6.12.
 * - page_cache_sync_ra, _async_ra, _ra_order, _ra_unbounded: functions in 6.1 and 6.12, tracepoints
 *   since 6.18.
 * - io_uring_complete: a tracepoint with 7 arguments in 6.1 and 6.12, and with 3 since 6.18.
 * - mmap_lock_acquire_returned: one with 4 arguments in 6.1 and 6.12, and with 3 since 6.18.
 */
#ifndef FOREREAD_HOOKS_H
#define FOREREAD_HOOKS_H

/* The includer has brought in the kernel's types, <bpf/bpf_core_read.h> and <bpf/bpf_tracing.h>. */
#include "folio.h"

#define VM_FAULT_NOPAGE 0x100

static __always_inline struct inode *ractl_inode(struct readahead_control *ractl)
{
	return BPF_CORE_READ(ractl, mapping, host);
}

/* The tracepoints of both kinds of readahead pass the same. */
#define RA_TRACEPOINT(section, name, handler)                                                  \
	SEC(section)                                                                           \
	int BPF_PROG(name, struct inode *inode, unsigned long index, struct file_ra_state *ra, \
		     unsigned long request)                                                    \
	{                                                                                      \
		return handler(ctx, inode, index, ra, request);                                \
	}

/* handler(ctx, inode, index, ra, request): a read or fault misses page `index`. */
#define HOOK_SYNC_RA(type, name, handler)                                                 \
	RA_TRACEPOINT(type "/page_cache_sync_ra", name, handler)                          \
	SEC("fentry/page_cache_sync_ra")                                                  \
	int BPF_PROG(name##__fn2, struct readahead_control *ractl, unsigned long request) \
	{                                                                                 \
		return handler(NULL, ractl_inode(ractl), BPF_CORE_READ(ractl, _index),    \
			       BPF_CORE_READ(ractl, ra), request);                        \
	}

/*
 * Whether page_cache_async_ra() reaches its tracepoint. It does not without readahead, nor for a
 * folio under writeback, which uses the mark's bit for another purpose.
 */
static __always_inline bool async_ra_acts(struct readahead_control *ractl, struct folio *folio)
{
	return BPF_CORE_READ(ractl, ra, ra_pages) && !HAS_FLAG(folio_flags(folio), PG_writeback);
}

/* handler(ctx, inode, index, ra, request): a read or fault meets the mark at page `index`. */
#define HOOK_ASYNC_RA(type, name, handler)                                              \
	RA_TRACEPOINT(type "/page_cache_async_ra", name, handler)                       \
	SEC("fentry/page_cache_async_ra")                                               \
	int BPF_PROG(name##__fn3, struct readahead_control *ractl, struct folio *folio, \
		     unsigned long request)                                             \
	{                                                                               \
		if (!async_ra_acts(ractl, folio))                                       \
			return 0;                                                       \
		return handler(NULL, ractl_inode(ractl), BPF_CORE_READ(ractl, _index),  \
			       BPF_CORE_READ(ractl, ra), request);                      \
	}

/* Folio order of the file_ra_state; 0 on kernels without that field. */
static __always_inline u32 ra_order_of(struct file_ra_state *ra)
{
	return bpf_core_field_exists(ra->order) ? BPF_CORE_READ(ra, order) : 0;
}

/* handler(ctx, inode, index, ra, order): a window is about to be read, `ra` says which. */
#define HOOK_RA_ORDER(type, name, handler)                                                         \
	SEC(type "/page_cache_ra_order")                                                           \
	int BPF_PROG(name, struct inode *inode, unsigned long index, struct file_ra_state *ra)     \
	{                                                                                          \
		return handler(ctx, inode, index, ra, ra_order_of(ra));                            \
	}                                                                                          \
	SEC("fentry/page_cache_ra_order")                                                          \
	int BPF_PROG(name##__fn2, struct readahead_control *ractl, struct file_ra_state *ra)       \
	{                                                                                          \
		return handler(NULL, ractl_inode(ractl), BPF_CORE_READ(ractl, _index), ra,         \
			       ra_order_of(ra));                                                   \
	}                                                                                          \
	SEC("fentry/page_cache_ra_order")                                                          \
	int BPF_PROG(name##__fn3, struct readahead_control *ractl, struct file_ra_state *ra,       \
		     unsigned int order)                                                           \
	{                                                                                          \
		return handler(NULL, ractl_inode(ractl), BPF_CORE_READ(ractl, _index), ra, order); \
	}

/* handler(ctx, inode, index, pages, lookahead): pages are about to be read one by one. */
#define HOOK_RA_UNBOUNDED(type, name, handler)                                                \
	SEC(type "/page_cache_ra_unbounded")                                                  \
	int BPF_PROG(name, struct inode *inode, unsigned long index, unsigned long pages,     \
		     unsigned long lookahead)                                                 \
	{                                                                                     \
		return handler(ctx, inode, index, pages, lookahead);                          \
	}                                                                                     \
	SEC("fentry/page_cache_ra_unbounded")                                                 \
	int BPF_PROG(name##__fn3, struct readahead_control *ractl, unsigned long pages,       \
		     unsigned long lookahead)                                                 \
	{                                                                                     \
		return handler(NULL, ractl_inode(ractl), BPF_CORE_READ(ractl, _index), pages, \
			       lookahead);                                                    \
	}

/* The body of a program at the end of filemap_get_pages(), which was asked for `bytes`. */
#define GET_PAGES_RETURNS(iocb, bytes, ret, handler)                                       \
	do {                                                                               \
		u64 start = BPF_CORE_READ(iocb, ki_pos);                                   \
                                                                                           \
		if ((ret) || !(bytes))                                                     \
			return 0;                                                          \
		return handler(NULL, BPF_CORE_READ(iocb, ki_filp, f_mapping), start >> 12, \
			       (start + (bytes)-1) >> 12);                                 \
	} while (0)

/*
 * handler(ctx, mapping, index, last_index): a read has looked for these pages and has at least the
 * first of them. filemap_get_pages() passes its tracepoint only if all folios that it found are
 * ready. A program at the function also runs when it returns the folios before one that isn't
 * ready.
 */
#define HOOK_GET_PAGES(type, name, handler)                                                        \
	SEC(type "/mm_filemap_get_pages")                                                          \
	int BPF_PROG(name, struct address_space *mapping, unsigned long index,                     \
		     unsigned long last_index)                                                     \
	{                                                                                          \
		return handler(ctx, mapping, index, last_index);                                   \
	}                                                                                          \
	SEC("fexit/filemap_get_pages")                                                             \
	int BPF_PROG(name##__fn3, struct kiocb *iocb, struct iov_iter *iter, void *batch, int ret) \
	{                                                                                          \
		u64 bytes = BPF_CORE_READ(iter, count);                                            \
                                                                                                   \
		GET_PAGES_RETURNS(iocb, bytes, ret, handler);                                      \
	}                                                                                          \
	SEC("fexit/filemap_get_pages")                                                             \
	int BPF_PROG(name##__fn4, struct kiocb *iocb, unsigned long bytes, void *batch,            \
		     bool need_uptodate, int ret)                                                  \
	{                                                                                          \
		GET_PAGES_RETURNS(iocb, bytes, ret, handler);                                      \
	}

static __always_inline struct address_space *fault_mapping(struct vm_fault *vmf)
{
	return BPF_CORE_READ(vmf, vma, vm_file, f_mapping);
}

/* handler(ctx, mapping, index): a page isn't mapped, nor could it be mapped around. */
#define HOOK_FAULT(type, name, handler)                                                \
	SEC(type "/mm_filemap_fault")                                                  \
	int BPF_PROG(name, struct address_space *mapping, unsigned long index)         \
	{                                                                              \
		return handler(ctx, mapping, index);                                   \
	}                                                                              \
	SEC("fentry/filemap_fault")                                                    \
	int BPF_PROG(name##__fn1, struct vm_fault *vmf)                                \
	{                                                                              \
		struct address_space *mapping = fault_mapping(vmf);                    \
		u64 index = BPF_CORE_READ(vmf, pgoff);                                 \
                                                                                       \
		/* Behind the end of the file there is a signal and nothing else. */   \
		if (index >= ((u64)BPF_CORE_READ(mapping, host, i_size) + 4095) >> 12) \
			return 0;                                                      \
		return handler(NULL, mapping, index);                                  \
	}

/* A search for a page that fault-around can map. */
struct ready_search {
	u64 mapping;
	u64 page;
	u64 end_page;
	u32 is_found;
	u32 pad;
};

/* Fault-around passes over folios that are locked, or bear the mark of readahead. */
static long search_ready(u64 step, struct ready_search *search)
{
	struct found found;

	if (search->page >= search->end_page)
		return 1;
	if (cached_folio(search->mapping, search->page, &found) &&
	    HAS_FLAG(found.flags, PG_uptodate) && !HAS_FLAG(found.flags, PG_locked) &&
	    !HAS_FLAG(found.flags, PG_reclaim)) {
		search->is_found = 1;
		return 1;
	}
	search->page++;
	return 0;
}

/*
 * Whether filemap_map_pages() found anything to map, when it has not mapped the page of the fault.
 * It looks at 16 pages at most, or at what fault_around_bytes says, up to the pages of one table.
 */
__noinline int any_ready(u64 mapping, u64 start_page, u64 end_page)
{
	struct ready_search search = {
		.mapping = mapping,
		.page = start_page,
		.end_page = end_page,
	};

	bpf_loop(512, search_ready, &search, 0);
	return search.is_found;
}

/* handler(ctx, mapping, start, end): the ready ones of these pages, `end` included, were mapped. */
#define HOOK_MAP_PAGES(type, name, handler)                                                       \
	SEC(type "/mm_filemap_map_pages")                                                         \
	int BPF_PROG(name, struct address_space *mapping, unsigned long start, unsigned long end) \
	{                                                                                         \
		return handler(ctx, mapping, start, end);                                         \
	}                                                                                         \
	SEC("fexit/filemap_map_pages")                                                            \
	int BPF_PROG(name##__fn3, struct vm_fault *vmf, unsigned long start, unsigned long end,   \
		     unsigned int ret)                                                            \
	{                                                                                         \
		struct address_space *mapping = fault_mapping(vmf);                               \
		u64 pages = ((u64)BPF_CORE_READ(mapping, host, i_size) + 4095) >> 12;             \
                                                                                                  \
		if (end >= pages)                                                                 \
			end = pages - 1;                                                          \
		if (!pages || end < start)                                                        \
			return 0;                                                                 \
		if (!(ret & VM_FAULT_NOPAGE) && !any_ready((u64)mapping, start, end + 1))         \
			return 0;                                                                 \
		return handler(NULL, mapping, start, end);                                        \
	}

/*
 * handler(write, success): a thread has tried to take the lock of the mappings. Until 6.12 the
 * tracepoint also passes the path of the memory cgroup.
 */
#define HOOK_MMAP_LOCK_ACQUIRED(name, handler)                                              \
	SEC("tp_btf/mmap_lock_acquire_returned")                                            \
	int BPF_PROG(name##__tp3, struct mm_struct *mm, bool write, bool success)           \
	{                                                                                   \
		return handler(write, success);                                             \
	}                                                                                   \
	SEC("tp_btf/mmap_lock_acquire_returned")                                            \
	int BPF_PROG(name##__tp4, struct mm_struct *mm, const char *memcg_path, bool write, \
		     bool success)                                                          \
	{                                                                                   \
		return handler(write, success);                                             \
	}

/* handler(request, result): a request of io_uring is done; `result` is its bytes, or an errno. */
#define HOOK_RING_DONE(name, handler)                                                   \
	SEC("tp_btf/io_uring_complete")                                                 \
	int BPF_PROG(name##__tp3, struct io_ring_ctx *ring, void *request,              \
		     struct io_uring_cqe *cqe)                                          \
	{                                                                               \
		return handler(request, BPF_CORE_READ(cqe, res));                       \
	}                                                                               \
	SEC("tp_btf/io_uring_complete")                                                 \
	int BPF_PROG(name##__tp7, void *ring, void *request, u64 user_data, int result) \
	{                                                                               \
		return handler(request, result);                                        \
	}

#endif
