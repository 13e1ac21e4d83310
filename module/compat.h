/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Differences between the kernels that the module is built for, behind one set of names. No other
 * file asks for the kernel's version.
 */
#ifndef FM_COMPAT_H
#define FM_COMPAT_H

#include <linux/blkdev.h>
#include <linux/ftrace.h>
#include <linux/mm_inline.h>
#include <linux/pagemap.h>
#include <linux/shrinker.h>
#include <linux/version.h>

#include <foreread/policy.h>

/*
 * Kernels on which the module was tested. `check-kernel` compares the core's policies with the same
 * ones.
 */
#define FM_SERIES(major, minor)                                   \
	(LINUX_VERSION_CODE >= KERNEL_VERSION(major, minor, 0) && \
	 LINUX_VERSION_CODE < KERNEL_VERSION(major, (minor) + 1, 0))

#define FM_KERNEL_IS_KNOWN (FM_SERIES(6, 1) || FM_SERIES(6, 12) || FM_SERIES(7, 3))

/* The policy that is the readahead of this kernel. For others it is that of the nearest one. */
static inline fr_u32 fm_own_policy(void)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 11, 0)
	return FR_LINUX_6_1;
#elif LINUX_VERSION_CODE < KERNEL_VERSION(6, 16, 0)
	return FR_LINUX_6_12;
#elif LINUX_VERSION_CODE < KERNEL_VERSION(7, 0, 0)
	return FR_LINUX;
#else
	return FR_LINUX_7_3;
#endif
}

/* Whether a disk says that it turns. */
static inline bool fm_is_rotational(struct block_device *block)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 0, 0)
	return !bdev_nonrot(block);
#else
	return bdev_rot(block);
#endif
}

/* An argument of the function that ftrace has stopped at, from 0. */
static __always_inline unsigned long fm_argument(struct ftrace_regs *fregs, unsigned int number)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
	return regs_get_kernel_argument(&fregs->regs, number);
#else
	return ftrace_regs_get_argument(fregs, number);
#endif
}

/* Where to go on instead of at that function. */
static __always_inline void fm_go_to(struct ftrace_regs *fregs, unsigned long address)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
	ftrace_instruction_pointer_set(fregs, address);
#else
	ftrace_regs_set_instruction_pointer(fregs, address);
#endif
}

/* The folio at an index with a reference to it, or NULL. */
static inline struct folio *fm_get_folio(struct address_space *mapping, pgoff_t index)
{
	struct folio *folio = filemap_get_folio(mapping, index);

	return IS_ERR_OR_NULL(folio) ? NULL : folio;
}

/* Whether a folio's mapping is not that of a file. */
static inline bool fm_is_other_mapping(const struct address_space *mapping)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 16, 0)
	return (unsigned long)mapping & PAGE_MAPPING_FLAGS;
#else
	return (unsigned long)mapping & FOLIO_MAPPING_FLAGS;
#endif
}

/* The generation of a folio on a list of the multi-generation LRU, or below 0. */
static inline int fm_generation(const struct folio *folio)
{
#ifdef CONFIG_LRU_GEN
	return folio_lru_gen((struct folio *)folio);
#else
	return -1;
#endif
}

/* Whether that LRU was in use at boot. */
static inline bool fm_began_with_generations(void)
{
#ifdef CONFIG_LRU_GEN
	return NODE_DATA(first_online_node)->__lruvec.lrugen.enabled;
#else
	return false;
#endif
}

/*
 * Up to 6.13 the multi-generation LRU clears PG_referenced of what it isolates, before it asks
 * folio_referenced(). It isolates from the tail of the oldest list of each zone.
 */
#define FM_ISOLATION_FORGETS \
	(IS_ENABLED(CONFIG_LRU_GEN) && LINUX_VERSION_CODE < KERNEL_VERSION(6, 14, 0))

#if FM_ISOLATION_FORGETS
static inline const struct list_head *fm_oldest_list(const struct lruvec *lruvec, int zone)
{
	int oldest = lru_gen_from_seq(lruvec->lrugen.min_seq[LRU_GEN_FILE]);

	return &lruvec->lrugen.folios[oldest][LRU_GEN_FILE][zone];
}
#endif

/* Since Linux 6.16 a file remembers the folio order of its window. */
static inline fr_u8 fm_ra_order(const struct file_ra_state *ra)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 16, 0)
	return 0;
#else
	return (fr_u8)ra->order;
#endif
}

/* Since then, too, a window is never smaller than the one before. */
#define FM_NEXT_IS_BOUND (LINUX_VERSION_CODE >= KERNEL_VERSION(6, 16, 0))

static inline void fm_set_ra_order(struct file_ra_state *ra, fr_u8 order)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 16, 0)
	ra->order = order;
#endif
}

/* Up to 6.1.0-50 of Debian it is in mm/readahead.c only, with the same value. */
#ifndef MAX_PAGECACHE_ORDER
#ifdef CONFIG_TRANSPARENT_HUGEPAGE
#define MAX_PAGECACHE_ORDER HPAGE_PMD_ORDER
#else
#define MAX_PAGECACHE_ORDER 8
#endif
#endif

/* Order of the largest folio that readahead makes for a mapping; 0 without large folios. */
static inline fr_u8 fm_folio_order_max(struct address_space *mapping)
{
	if (!mapping_large_folio_support(mapping))
		return 0;
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 12, 0)
	return MAX_PAGECACHE_ORDER;
#else
	return (fr_u8)mapping_max_folio_order(mapping);
#endif
}

/*
 * page_cache_ra_unbounded() wants the caller to hold the mapping's invalidate_lock since 7.x.
 * Before, it takes it itself.
 */
static inline void fm_ra_unbounded(struct readahead_control *ractl, unsigned long pages,
				   unsigned long lookahead)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 0, 0)
	filemap_invalidate_lock_shared(ractl->mapping);
	page_cache_ra_unbounded(ractl, pages, lookahead);
	filemap_invalidate_unlock_shared(ractl->mapping);
#else
	page_cache_ra_unbounded(ractl, pages, lookahead);
#endif
}

/* A shrinker: registered from fm_shrinker_add() to fm_shrinker_remove(). */
struct fm_shrinker {
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 7, 0)
	struct shrinker shrinker;
#else
	struct shrinker *shrinker;
#endif
};

typedef unsigned long (*fm_shrink_t)(struct shrinker *shrinker, struct shrink_control *control);

static inline int fm_shrinker_add(struct fm_shrinker *own, const char *name, fm_shrink_t count,
				  fm_shrink_t scan)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 7, 0)
	own->shrinker.count_objects = count;
	own->shrinker.scan_objects = scan;
	own->shrinker.seeks = DEFAULT_SEEKS;
	return register_shrinker(&own->shrinker, "%s", name);
#else
	own->shrinker = shrinker_alloc(0, "%s", name);
	if (!own->shrinker)
		return -ENOMEM;
	own->shrinker->count_objects = count;
	own->shrinker->scan_objects = scan;
	shrinker_register(own->shrinker);
	return 0;
#endif
}

static inline void fm_shrinker_remove(struct fm_shrinker *own)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 7, 0)
	unregister_shrinker(&own->shrinker);
#else
	shrinker_free(own->shrinker);
#endif
}

#endif /* FM_COMPAT_H */
