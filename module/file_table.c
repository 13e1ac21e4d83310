// SPDX-License-Identifier: GPL-2.0-only
/*
 * The state that policies keep for open files, where `struct file_ra_state` has no room for it.
 *
 * Input: the file_ra_state of an open file, as a key. Output: a copy of what was stored for it, or
 * nothing. Nothing here follows the pointers of a key, so it doesn't matter when a file is closed:
 * what is left of it is dropped by the shrinker, or by the bound.
 *
 * An address is used again for another file. So the mapping, the inode's number and its generation
 * must be the same, too. That leaves a file that is opened again and gets the same address. A file
 * just opened has a file_ra_state without a window. fm_file_store() always leaves one there, so a
 * file without a window has no state here.
 *
 * Bounds: `files_max` files. Where that is reached the file that was used least lately in the same
 * bucket makes room. No allocation waits.
 */
#include <linux/hash.h>
#include <linux/jiffies.h>
#include <linux/moduleparam.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

#include "compat.h"
#include "file_table.h"

#define FM_FILE_BUCKETS_LOG2 10
#define FM_FILE_BUCKETS (1U << FM_FILE_BUCKETS_LOG2)
/* The shrinker spares files that were used in the last seconds: their readers go on. */
#define FM_FILE_FRESH (5 * HZ)

static unsigned int files_max = 16384;
module_param(files_max, uint, 0444);
MODULE_PARM_DESC(files_max, "most open files whose state is kept");

struct fm_file {
	struct hlist_node node;
	const struct file_ra_state *ra;
	const struct address_space *mapping;
	unsigned long inode_number;
	unsigned long used;
	u32 generation;
	u32 policy;
	struct fm_kept kept;
};

struct fm_file_bucket {
	spinlock_t lock;
	struct hlist_head files;
};

static struct fm_file_bucket fm_file_buckets[FM_FILE_BUCKETS];
static struct kmem_cache *fm_file_cache;
static atomic_long_t fm_file_count = ATOMIC_LONG_INIT(0);
static struct fm_shrinker fm_file_shrinker;

static struct fm_file_bucket *fm_file_bucket(const struct file_ra_state *ra)
{
	return &fm_file_buckets[hash_ptr(ra, FM_FILE_BUCKETS_LOG2)];
}

static bool fm_file_is(const struct fm_file *file, const struct file_ra_state *ra,
		       const struct address_space *mapping)
{
	return file->ra == ra && file->mapping == mapping &&
	       file->inode_number == mapping->host->i_ino &&
	       file->generation == mapping->host->i_generation;
}

static struct fm_file *fm_file_find(struct fm_file_bucket *bucket, const struct file_ra_state *ra,
				    const struct address_space *mapping)
{
	struct fm_file *file;

	hlist_for_each_entry(file, &bucket->files, node)
		if (fm_file_is(file, ra, mapping))
			return file;
	return NULL;
}

static void fm_file_drop(struct fm_file *file)
{
	hlist_del(&file->node);
	kmem_cache_free(fm_file_cache, file);
	atomic_long_dec(&fm_file_count);
}

/**
 * fm_file_load() - what is kept of an open file
 * @ra: of the file
 * @mapping: that it reads
 * @policy: that the state must be of
 * @kept: filled when the answer is true
 */
bool fm_file_load(const struct file_ra_state *ra, const struct address_space *mapping, u32 policy,
		  struct fm_kept *kept)
{
	struct fm_file_bucket *bucket = fm_file_bucket(ra);
	struct fm_file *file;
	bool is_known = false;

	if (READ_ONCE(ra->size) == 0 && READ_ONCE(ra->start) == 0)
		return false;
	spin_lock(&bucket->lock);
	file = fm_file_find(bucket, ra, mapping);
	if (file && file->policy == policy) {
		*kept = file->kept;
		file->used = jiffies;
		is_known = true;
	}
	spin_unlock(&bucket->lock);
	return is_known;
}

/* The file of a bucket that was used least lately makes room. */
static void fm_file_make_room(struct fm_file_bucket *bucket)
{
	struct fm_file *file, *oldest = NULL;

	hlist_for_each_entry(file, &bucket->files, node)
		if (!oldest || time_before(file->used, oldest->used))
			oldest = file;
	if (oldest)
		fm_file_drop(oldest);
}

static struct fm_file *fm_file_new(struct fm_file_bucket *bucket, const struct file_ra_state *ra,
				   const struct address_space *mapping)
{
	struct fm_file *file;

	if (atomic_long_read(&fm_file_count) >= files_max)
		fm_file_make_room(bucket);
	if (atomic_long_read(&fm_file_count) >= files_max)
		return NULL;
	file = kmem_cache_zalloc(fm_file_cache, GFP_NOWAIT | __GFP_NOWARN);
	if (!file)
		return NULL;
	file->ra = ra;
	file->mapping = mapping;
	file->inode_number = mapping->host->i_ino;
	file->generation = mapping->host->i_generation;
	hlist_add_head(&file->node, &bucket->files);
	atomic_long_inc(&fm_file_count);
	return file;
}

/**
 * fm_file_store() - keeps the state of an open file
 * @ra: of the file; gets the window of the state, and never none
 * @mapping: that it reads
 * @policy: that the state is of
 * @kept: to keep
 *
 * Return: false where there is no room.
 */
bool fm_file_store(struct file_ra_state *ra, const struct address_space *mapping, u32 policy,
		   const struct fm_kept *kept)
{
	struct fm_file_bucket *bucket = fm_file_bucket(ra);
	struct fm_file *file;

	spin_lock(&bucket->lock);
	file = fm_file_find(bucket, ra, mapping);
	if (!file)
		file = fm_file_new(bucket, ra, mapping);
	if (file) {
		file->kept = *kept;
		file->policy = policy;
		file->used = jiffies;
	}
	spin_unlock(&bucket->lock);
	ra->start = kept->state.start;
	ra->size = max(kept->state.size, 1U);
	ra->async_size = min(kept->state.async_size, ra->size);
	return file != NULL;
}

unsigned long fm_files_count(void)
{
	return atomic_long_read(&fm_file_count);
}

static unsigned long fm_file_shrink_count(struct shrinker *shrinker, struct shrink_control *control)
{
	return fm_files_count();
}

static unsigned long fm_file_shrink(struct shrinker *shrinker, struct shrink_control *control)
{
	/* Goes on where it ended the last time, so that all buckets are shrunk alike. */
	static atomic_t next = ATOMIC_INIT(0);
	unsigned long freed = 0;
	unsigned int i;

	for (i = 0; i < FM_FILE_BUCKETS && freed < control->nr_to_scan; i++) {
		unsigned int at = (unsigned int)atomic_inc_return(&next) % FM_FILE_BUCKETS;
		struct fm_file_bucket *bucket = &fm_file_buckets[at];
		struct hlist_node *after;
		struct fm_file *file;

		spin_lock(&bucket->lock);
		hlist_for_each_entry_safe(file, after, &bucket->files, node)
			if (time_after(jiffies, file->used + FM_FILE_FRESH)) {
				fm_file_drop(file);
				freed++;
			}
		spin_unlock(&bucket->lock);
	}
	return freed != 0 ? freed : SHRINK_STOP;
}

int fm_files_init(void)
{
	unsigned int i;
	int error;

	for (i = 0; i < FM_FILE_BUCKETS; i++)
		spin_lock_init(&fm_file_buckets[i].lock);
	fm_file_cache = kmem_cache_create("foreread_file", sizeof(struct fm_file), 0, 0, NULL);
	if (!fm_file_cache)
		return -ENOMEM;
	error = fm_shrinker_add(&fm_file_shrinker, "foreread-files", fm_file_shrink_count,
				fm_file_shrink);
	if (error)
		kmem_cache_destroy(fm_file_cache);
	return error;
}

/* Behind the hooks: nobody asks any more. */
void fm_files_exit(void)
{
	struct hlist_node *after;
	struct fm_file *file;
	unsigned int i;

	fm_shrinker_remove(&fm_file_shrinker);
	for (i = 0; i < FM_FILE_BUCKETS; i++)
		hlist_for_each_entry_safe(file, after, &fm_file_buckets[i].files, node)
			fm_file_drop(file);
	kmem_cache_destroy(fm_file_cache);
}
