// SPDX-License-Identifier: GPL-2.0-only
/*
 * The streams of files, for policies that remember them (`leap`, `foreread`): about 10 KiB a file.
 *
 * Input: a mapping, as a key. Output: its streams, with a lock of their own, until they are put.
 * As in file_table.c, nothing follows the pointers of a key; the inode's number and generation tell
 * a new inode at an old address.
 *
 * Bounds: `streams_max` files, and what the shrinker leaves. Where there is no room, or no memory
 * at once, there are no streams, and the policy reads as asked.
 */
#include <linux/hash.h>
#include <linux/jiffies.h>
#include <linux/moduleparam.h>
#include <linux/slab.h>

#include "compat.h"
#include "stream_table.h"

#define FM_STREAM_BUCKETS_LOG2 8
#define FM_STREAM_BUCKETS (1U << FM_STREAM_BUCKETS_LOG2)
/* The shrinker spares files that were read in the last seconds. */
#define FM_STREAM_FRESH (5 * HZ)

static unsigned int streams_max = 2048;
module_param(streams_max, uint, 0444);
MODULE_PARM_DESC(streams_max, "most files whose streams are kept, of about 10 KiB each");

struct fm_stream_bucket {
	spinlock_t lock;
	struct hlist_head files;
};

static struct fm_stream_bucket fm_stream_buckets[FM_STREAM_BUCKETS];
static struct kmem_cache *fm_stream_cache;
static atomic_long_t fm_stream_count = ATOMIC_LONG_INIT(0);
static atomic64_t fm_stream_ids = ATOMIC64_INIT(0);
static struct fm_shrinker fm_stream_shrinker;

void fm_streams_put(struct fm_streams *streams)
{
	if (streams && refcount_dec_and_test(&streams->users))
		kmem_cache_free(fm_stream_cache, streams);
}

/* Takes it out of its bucket, under the lock of that. Whoever has it may go on. */
static void fm_streams_drop(struct fm_streams *streams)
{
	hlist_del(&streams->node);
	atomic_long_dec(&fm_stream_count);
	fm_streams_put(streams);
}

static struct fm_stream_bucket *fm_stream_bucket(const struct address_space *mapping)
{
	return &fm_stream_buckets[hash_ptr(mapping, FM_STREAM_BUCKETS_LOG2)];
}

static struct fm_streams *fm_streams_find(struct fm_stream_bucket *bucket,
					  const struct address_space *mapping)
{
	struct fm_streams *streams;

	hlist_for_each_entry(streams, &bucket->files, node)
		if (streams->mapping == mapping && streams->inode_number == mapping->host->i_ino &&
		    streams->generation == mapping->host->i_generation)
			return streams;
	return NULL;
}

static void fm_streams_make_room(struct fm_stream_bucket *bucket)
{
	struct fm_streams *streams, *oldest = NULL;

	hlist_for_each_entry(streams, &bucket->files, node)
		if (!oldest || time_before(streams->used, oldest->used))
			oldest = streams;
	if (oldest)
		fm_streams_drop(oldest);
}

static struct fm_streams *fm_streams_new(struct fm_stream_bucket *bucket,
					 const struct address_space *mapping, u32 policy)
{
	struct fm_streams *streams;

	if (atomic_long_read(&fm_stream_count) >= streams_max)
		fm_streams_make_room(bucket);
	if (atomic_long_read(&fm_stream_count) >= streams_max)
		return NULL;
	streams = kmem_cache_zalloc(fm_stream_cache, GFP_NOWAIT | __GFP_NOWARN);
	if (!streams)
		return NULL;
	refcount_set(&streams->users, 1);
	spin_lock_init(&streams->lock);
	streams->id = (u64)atomic64_inc_return(&fm_stream_ids);
	streams->mapping = mapping;
	streams->inode_number = mapping->host->i_ino;
	streams->generation = mapping->host->i_generation;
	streams->policy = policy;
	hlist_add_head(&streams->node, &bucket->files);
	atomic_long_inc(&fm_stream_count);
	return streams;
}

/**
 * fm_streams_get() - the streams of a file
 * @mapping: of the file
 * @policy: that they must be of; those of another one are forgotten
 *
 * Return: them, with a reference, or NULL where there is no room.
 */
struct fm_streams *fm_streams_get(const struct address_space *mapping, u32 policy)
{
	struct fm_stream_bucket *bucket = fm_stream_bucket(mapping);
	struct fm_streams *streams;

	spin_lock(&bucket->lock);
	streams = fm_streams_find(bucket, mapping);
	if (streams && streams->policy != policy) {
		fm_streams_drop(streams);
		streams = NULL;
	}
	if (!streams)
		streams = fm_streams_new(bucket, mapping, policy);
	if (streams) {
		refcount_inc(&streams->users);
		streams->used = jiffies;
	}
	spin_unlock(&bucket->lock);
	return streams;
}

/**
 * fm_streams_id() - the number of a file's streams, if there are any
 * @mapping: of the file
 * @policy: that they must be of
 *
 * Return: it, or 0.
 */
u64 fm_streams_id(const struct address_space *mapping, u32 policy)
{
	struct fm_stream_bucket *bucket = fm_stream_bucket(mapping);
	const struct fm_streams *streams;
	u64 id = 0;

	spin_lock(&bucket->lock);
	streams = fm_streams_find(bucket, mapping);
	if (streams && streams->policy == policy)
		id = streams->id;
	spin_unlock(&bucket->lock);
	return id;
}

/**
 * fm_streams_get_known() - streams by their number
 * @mapping: of their file, which may be gone
 * @id: from fm_streams_id()
 *
 * Return: them, with a reference, or NULL where they are gone.
 */
struct fm_streams *fm_streams_get_known(const struct address_space *mapping, u64 id)
{
	struct fm_stream_bucket *bucket = fm_stream_bucket(mapping);
	struct fm_streams *streams, *found = NULL;

	spin_lock(&bucket->lock);
	hlist_for_each_entry(streams, &bucket->files, node)
		if (streams->id == id) {
			refcount_inc(&streams->users);
			found = streams;
			break;
		}
	spin_unlock(&bucket->lock);
	return found;
}

unsigned long fm_streams_count(void)
{
	return atomic_long_read(&fm_stream_count);
}

static unsigned long fm_stream_shrink_count(struct shrinker *shrinker,
					    struct shrink_control *control)
{
	return fm_streams_count();
}

static unsigned long fm_stream_shrink(struct shrinker *shrinker, struct shrink_control *control)
{
	static atomic_t next = ATOMIC_INIT(0);
	unsigned long freed = 0;
	unsigned int i;

	for (i = 0; i < FM_STREAM_BUCKETS && freed < control->nr_to_scan; i++) {
		unsigned int at = (unsigned int)atomic_inc_return(&next) % FM_STREAM_BUCKETS;
		struct fm_stream_bucket *bucket = &fm_stream_buckets[at];
		struct fm_streams *streams;
		struct hlist_node *after;

		spin_lock(&bucket->lock);
		hlist_for_each_entry_safe(streams, after, &bucket->files, node)
			if (time_after(jiffies, streams->used + FM_STREAM_FRESH)) {
				fm_streams_drop(streams);
				freed++;
			}
		spin_unlock(&bucket->lock);
	}
	return freed != 0 ? freed : SHRINK_STOP;
}

int fm_streams_init(void)
{
	unsigned int i;
	int error;

	for (i = 0; i < FM_STREAM_BUCKETS; i++)
		spin_lock_init(&fm_stream_buckets[i].lock);
	fm_stream_cache =
		kmem_cache_create("foreread_streams", sizeof(struct fm_streams), 0, 0, NULL);
	if (!fm_stream_cache)
		return -ENOMEM;
	error = fm_shrinker_add(&fm_stream_shrinker, "foreread-streams", fm_stream_shrink_count,
				fm_stream_shrink);
	if (error)
		kmem_cache_destroy(fm_stream_cache);
	return error;
}

/* Behind the hooks: nobody has streams any more. */
void fm_streams_exit(void)
{
	struct fm_streams *streams;
	struct hlist_node *after;
	unsigned int i;

	fm_shrinker_remove(&fm_stream_shrinker);
	for (i = 0; i < FM_STREAM_BUCKETS; i++)
		hlist_for_each_entry_safe(streams, after, &fm_stream_buckets[i].files, node)
			fm_streams_drop(streams);
	kmem_cache_destroy(fm_stream_cache);
}
