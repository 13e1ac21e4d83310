/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The way of a page through its account: it comes in, is come to, or is dropped. */
#ifndef FOREREAD_STAT_PAGE_H
#define FOREREAD_STAT_PAGE_H

#include "stat_cache.h"

/* filemap_get_pages() returns at most 31 folios, of 512 pages at most where a PMD maps 2 MiB. */
#define CHUNKS_PER_EVENT_MAX 250
#define PAGES_PER_EVENT_MAX ((CHUNKS_PER_EVENT_MAX - 1) * STAT_CHUNK_PAGES)

enum end {
	END_ON_TIME,
	END_LATE,
	END_WASTED,
};

/*
 * Ends the accounting of pages of one account. The program that clears a bit counts its page, so
 * each page is counted once. Its arrival is counted before its end.
 */
static __always_inline void end_run(struct stat_chunk *chunk, u32 *place, u64 mask, u32 owner,
				    u32 end)
{
	struct stat_account *account = account_at(owner);
	u64 before = __sync_fetch_and_and(&chunk->unused, ~mask);
	u64 won = before & mask, fresh;
	u32 pages = ones(won);

	if (!won)
		return;
	fresh = won & ~__sync_fetch_and_or(&chunk->arrived, won);
	if (fresh)
		__sync_fetch_and_add(&account->arrived, ones(fresh));
	if (end == END_ON_TIME)
		__sync_fetch_and_add(&account->used_on_time, pages);
	else if (end == END_LATE)
		__sync_fetch_and_add(&account->used_late, pages);
	else
		__sync_fetch_and_add(&account->wasted, pages);
	if (before == won)
		__sync_fetch_and_sub(place, 1);
}

/* Ends pages of a chunk, account by account. */
__noinline int end_pages(u64 inode, u64 number, u64 bits, u32 end)
{
	struct chunk_place key = { .inode = inode, .chunk = number };
	struct stat_chunk *chunk = bpf_map_lookup_elem(&fr_stat_chunk_table, &key);
	u32 *place = filter_at(inode, number);
	u64 left, mask;
	u32 at, owner, bit;

	if (!chunk)
		return 0;
	left = bits & chunk->unused;
	if (!left)
		return 0;
	at = lowest(left) & 63;
	owner = chunk->owner[at];
	mask = 0;
	for (bit = 0; bit < STAT_CHUNK_PAGES; bit++) {
		if (!(left >> bit & 1))
			continue;
		if (chunk->owner[bit] != owner) {
			end_run(chunk, place, mask, owner, end);
			mask = 0;
			owner = chunk->owner[bit];
		}
		mask |= 1ULL << bit;
	}
	end_run(chunk, place, mask, owner, end);
	return 0;
}

/* How pages are come to. */
enum use {
	USE_READY, /* those that are up to date */
	USE_IF_MAPPED, /* those that are mapped */
	USE_UNTIL_WAIT, /* up to the first that isn't: that is waited for */
};

struct use_span {
	u64 inode;
	u64 start_page;
	u64 end_page;
	u32 use;
	u32 unused_left; /* unused pages that aren't ready were met */
};

/* The pages that are come to in one chunk. */
static long use_chunk(u64 step, struct use_span *span)
{
	u64 number = (span->start_page >> CHUNK_SHIFT) + step;
	struct chunk_place key = { .inode = span->inode, .chunk = number };
	struct stat_chunk *chunk;
	struct found found;
	u64 bits, ready, unready;

	if (number << CHUNK_SHIFT >= span->end_page)
		return 1;
	if (!*filter_at(span->inode, number))
		return 0;
	chunk = bpf_map_lookup_elem(&fr_stat_chunk_table, &key);
	if (!chunk)
		return 0;
	bits = chunk_bits(number, span->start_page, span->end_page) & chunk->unused;
	if (!bits)
		return 0;
	if (span->use == USE_IF_MAPPED) {
		ready = mapped_pages(span->inode, number, bits);
	} else {
		ready = bits & chunk->arrived;
		if (ready != bits)
			ready |= ready_pages(span->inode, number, bits & ~ready);
	}
	unready = bits & ~ready;
	if (unready)
		span->unused_left = 1;
	if (span->use == USE_UNTIL_WAIT && unready)
		/* The reader has not yet reached the pages behind the one that it waits for. */
		ready &= (unready & -unready) - 1;
	if (ready)
		end_pages(span->inode, number, ready, END_ON_TIME);
	if (span->use != USE_UNTIL_WAIT || !unready)
		return 0;
	bits = unready & -unready;
	if (inode_folio(span->inode, (number << CHUNK_SHIFT) + (lowest(unready) & 63), &found))
		bits = unready & chunk_bits(number, found.start_page, found.end_page);
	end_pages(span->inode, number, bits, END_LATE);
	return 1;
}

/* Pages of a file are come to. */
__noinline int use_pages(u64 inode, u64 start_page, u64 end_page, u32 use)
{
	struct use_span span = {
		.inode = inode,
		.start_page = start_page,
		.end_page = end_page,
		.use = use,
	};

	bpf_loop(CHUNKS_PER_EVENT_MAX, use_chunk, &span, 0);
	return span.unused_left;
}

/* Counts unused pages of a chunk that are dropped as wasted. */
static long waste_chunk(u64 step, struct span *span)
{
	u64 number = (span->start_page >> CHUNK_SHIFT) + step;

	if (number << CHUNK_SHIFT >= span->end_page)
		return 1;
	if (*filter_at(span->inode, number))
		end_pages(span->inode, number, chunk_bits(number, span->start_page, span->end_page),
			  END_WASTED);
	return 0;
}

struct put_span {
	u64 inode;
	u64 start_page;
	u64 end_page;
	u32 account;
	u32 pad;
};

static __always_inline void lose_pages(u64 bits)
{
	__sync_fetch_and_add(&losses.unfollowed_pages, ones(bits));
}

/* Pages come in; from now on they are followed. */
static long put_chunk(u64 step, struct put_span *span)
{
	u64 number = (span->start_page >> CHUNK_SHIFT) + step;
	struct chunk_place key = { .inode = span->inode, .chunk = number };
	struct stat_chunk *chunk;
	struct stat_chunk fresh = {};
	u32 bit;
	u64 bits;

	if (number << CHUNK_SHIFT >= span->end_page)
		return 1;
	bits = chunk_bits(number, span->start_page, span->end_page);
	chunk = bpf_map_lookup_elem(&fr_stat_chunk_table, &key);
	if (!chunk) {
		bpf_map_update_elem(&fr_stat_chunk_table, &key, &fresh, BPF_NOEXIST);
		chunk = bpf_map_lookup_elem(&fr_stat_chunk_table, &key);
		if (!chunk) {
			lose_pages(bits);
			return 0;
		}
	}
	/* Against sweep(): it sees that we are here, or we see that it was. */
	__sync_fetch_and_add(&chunk->busy, 1);
	if (__sync_fetch_and_or(&chunk->is_dead, 0)) {
		__sync_fetch_and_sub(&chunk->busy, 1);
		lose_pages(bits);
		return 0;
	}
	if (chunk->unused & bits)
		/* They went without a word. */
		end_pages(span->inode, number, bits, END_WASTED);
	for (bit = 0; bit < STAT_CHUNK_PAGES; bit++)
		if (bits >> bit & 1)
			chunk->owner[bit] = span->account;
	chunk->sweep = sweeps;
	__sync_fetch_and_and(&chunk->arrived, ~bits);
	__sync_fetch_and_and(&chunk->requested, ~bits);
	if (span->end_page - span->start_page > 1)
		__sync_fetch_and_or(&chunk->large, bits);
	else
		__sync_fetch_and_and(&chunk->large, ~bits);
	__sync_fetch_and_add(&account_at(span->account)->fetched, ones(bits));
	if (!__sync_fetch_and_or(&chunk->unused, bits))
		__sync_fetch_and_add(filter_at(span->inode, number), 1);
	__sync_fetch_and_sub(&chunk->busy, 1);
	return 0;
}

#endif
