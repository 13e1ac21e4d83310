/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Programs that user space runs before it reads the counters, and to free entries. */
#ifndef FOREREAD_STAT_SURVEY_H
#define FOREREAD_STAT_SURVEY_H

#include "stat_page.h"

/*
 * Finds two kinds of pages of each chunk that no event reports: pages that have arrived since, and
 * pages of large folios that were mapped together with another page.
 */
static long survey_chunk(struct bpf_map *map, struct chunk_place *key, struct stat_chunk *chunk,
			 void *context)
{
	u64 bits, fresh;
	u32 bit;

	chunk_count++;
	bits = chunk->unused & chunk->large;
	if (bits)
		bits = mapped_pages(key->inode, key->chunk, bits);
	if (bits)
		end_pages(key->inode, key->chunk, bits, END_ON_TIME);
	bits = chunk->unused & ~chunk->arrived;
	if (!bits)
		return 0;
	/* Pages that ended meanwhile are counted by the program that ended them. */
	fresh = ready_pages(key->inode, key->chunk, bits) & chunk->unused;
	fresh &= ~__sync_fetch_and_or(&chunk->arrived, fresh);
	for (bit = 0; bit < STAT_CHUNK_PAGES; bit++)
		if (fresh >> bit & 1)
			__sync_fetch_and_add(&account_at(chunk->owner[bit])->arrived, 1);
	return 0;
}

/* Run before the counters are read. */
SEC("syscall")
int fr_stat_survey(void *context)
{
	chunk_count = 0;
	bpf_for_each_map_elem(&fr_stat_chunk_table, survey_chunk, NULL, 0);
	return 0;
}

static long doom_chunk(struct bpf_map *map, struct chunk_place *key, struct stat_chunk *chunk,
		       void *context)
{
	if (chunk->unused || chunk->is_dead || sweeps - chunk->sweep < 2)
		return 0;
	__sync_fetch_and_or(&chunk->is_dead, 1);
	if (__sync_fetch_and_or(&chunk->busy, 0) || chunk->unused)
		__sync_fetch_and_and(&chunk->is_dead, 0);
	else
		chunks_dead++;
	return 0;
}

/*
 * Marks chunks without unused pages. They are removed by remove_dead() when all programs that may
 * have found them before have ended: user space waits for that in between.
 */
SEC("syscall")
int fr_stat_sweep(void *context)
{
	chunks_dead = 0;
	sweeps++;
	bpf_for_each_map_elem(&fr_stat_chunk_table, doom_chunk, NULL, 0);
	return 0;
}

static long remove_chunk(struct bpf_map *map, struct chunk_place *key, struct stat_chunk *chunk,
			 void *context)
{
	struct chunk_place place = *key;

	if (chunk->is_dead)
		bpf_map_delete_elem(&fr_stat_chunk_table, &place);
	return 0;
}

SEC("syscall")
int fr_stat_remove_dead(void *context)
{
	bpf_for_each_map_elem(&fr_stat_chunk_table, remove_chunk, NULL, 0);
	return 0;
}

#endif
