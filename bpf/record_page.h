/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Pages that are accessed or brought in: a bit each. */
#ifndef FOREREAD_RECORD_PAGE_H
#define FOREREAD_RECORD_PAGE_H

#include "record_inode.h"

static __always_inline u64 chunk_bits(u64 chunk, u64 start_page, u64 end_page)
{
	u64 base = chunk << CHUNK_SHIFT;
	u64 from = start_page > base ? start_page - base : 0;
	u64 to = end_page - base;
	u64 bits = ~0ULL;

	if (to < CHUNK_PAGES)
		bits = (1ULL << (to & 63)) - 1;
	return bits & (~0ULL << (from & 63));
}

static __always_inline u32 ones(u64 bits)
{
	/* BPF has no popcount instruction before v4. */
	bits = bits - ((bits >> 1) & 0x5555555555555555ULL);
	bits = (bits & 0x3333333333333333ULL) + ((bits >> 2) & 0x3333333333333333ULL);
	bits = (bits + (bits >> 4)) & 0x0f0f0f0f0f0f0f0fULL;
	return (bits * 0x0101010101010101ULL) >> 56;
}

/* Returns 1 when a bit was new. */
static __always_inline int note_chunk(struct chunk_value *value, u64 bits, enum what what,
				      u32 group, struct counts *c)
{
	u64 fresh;

	if (what == FETCH) {
		__sync_fetch_and_or(&value->fetched, bits & ~value->used);
		return 0;
	}
	fresh = bits & ~value->used;
	if (!fresh)
		return 0;
	if (!value->need_ns) {
		value->need_ns = time_of(what);
		value->group = group;
	}
	c->accessed_pages += ones(fresh);
	c->used_pages += ones(fresh & value->fetched);
	__sync_fetch_and_or(&value->used, fresh);
	return 1;
}

struct span {
	u64 start_page;
	u64 end_page;
	u32 id;
	u32 what;
	/* These two change, and so have a slot of the stack for themselves: see docs/recorder.md.
	 */
	u32 news;
	u32 lost;
	u64 group;
};

/* A chunk of an inode, chunk 0 excepted; made when missing. NULL, and counted, without room. */
static __always_inline struct chunk_value *chunk_entry(const struct chunk_key *key,
						       struct counts *c)
{
	struct chunk_value *value = bpf_map_lookup_elem(&fr_rec_chunks, key);
	struct chunk_value fresh = {};

	if (value)
		return value;
	bpf_map_update_elem(&fr_rec_chunks, key, &fresh, BPF_NOEXIST);
	value = bpf_map_lookup_elem(&fr_rec_chunks, key);
	if (!value)
		c->lost_chunks++;
	return value;
}

/* Notes one chunk of a span, chunk 0 excepted. */
static long note_span(u64 step, struct span *span)
{
	u64 chunk = (span->start_page >> CHUNK_SHIFT) + step;
	struct chunk_key key = { .id = span->id, .chunk = (u32)chunk };
	struct counts *c = counts();
	struct chunk_value *value;

	if (!c || (chunk << CHUNK_SHIFT) >= span->end_page)
		return 1;
	if (chunk == 0)
		return 0;
	value = chunk_entry(&key, c);
	if (!value) {
		span->lost++;
		return 0;
	}
	span->news += note_chunk(value, chunk_bits(chunk, span->start_page, span->end_page),
				 span->what, (u32)span->group, c);
	return 0;
}

/* Whether the replay fetched a page; with `unused`, whether also no program has used it yet. */
static __always_inline bool chunk_fetched(struct inode_value *inode, u64 page, bool unused)
{
	struct chunk_key key = { .id = inode->id, .chunk = (u32)(page >> CHUNK_SHIFT) };
	struct chunk_value *chunk = &inode->first;
	u64 bits;

	if (key.chunk)
		chunk = bpf_map_lookup_elem(&fr_rec_chunks, &key);
	if (!chunk)
		return false;
	bits = unused ? chunk->fetched & ~chunk->used : chunk->fetched;
	return bits & (1ULL << (page & 63));
}

/* Sends pages of a block device that are brought in. */
static __always_inline void send_device_pages(struct inode *inode, u64 start_page, u64 pages,
					      struct counts *c)
{
	struct scratch *scratch = bpf_map_lookup_elem(&fr_rec_scratches, &ZERO);
	struct device_record *record;

	if (!scratch)
		return;
	record = &scratch->device;
	record->type = RECORD_DEVICE;
	record->device = BPF_CORE_READ(inode, i_rdev);
	record->start_page = start_page;
	record->pages = pages;
	record->need_ns = since_start_ns();
	if (bpf_ringbuf_output(&fr_rec_records, record, sizeof(*record), BPF_RB_NO_WAKEUP))
		c->lost_records++;
}

/*
 * Chunks noted for one event. filemap_get_pages() returns at most 31 folios,
 * of 512 pages at most where a PMD maps 2 MiB: 248 chunks. A longer read makes
 * further events.
 */
#define CHUNKS_PER_EVENT_MAX 250
/* Chunks noted for one system call: as much as read() transfers at most, 2 GiB. */
#define CHUNKS_PER_CALL_MAX 8192

/* How pages were accessed, and how many chunks of them may be noted at once. */
#define HOW(uses, chunks_max) ((uses) | (u64)(chunks_max) << 32)
/* The program brought them in itself. */
#define MISSED (1ULL << 63)
#define BY_READ HOW(USE_READ, CHUNKS_PER_EVENT_MAX)
#define BY_MAPPING HOW(USE_MAPPED, CHUNKS_PER_EVENT_MAX)
#define BY_READ_CALL HOW(USE_READ, CHUNKS_PER_CALL_MAX)
#define BY_MAPPING_CALL HOW(USE_MAPPED, CHUNKS_PER_CALL_MAX)

/*
 * Not static, as others below: the kernel then checks it once, not at each place where it is
 * called. That halves the time of loading.
 */
__noinline int note_pages(u64 inode_pointer, u64 start_page, u64 end_page, u64 how,
			  struct recent *recent)
{
	struct inode *inode = (struct inode *)inode_pointer;
	u32 uses = (u32)how, chunks_max = (how & ~MISSED) >> 32;
	struct counts *c = counts();
	struct inode_key key = {};
	struct inode_value *value;
	struct span span;
	u64 file_pages, limit_page, recent_start;
	u64 asked_page = start_page;
	u32 has_waited, group;
	bool is_new = false;

	if (!c || !recent)
		return 0;
	c->calls++;
	has_waited = recent->has_waited;
	recent->has_waited = 0;
	recent->is_fault = 0;
	recent->brings_metadata = 0;
	recent_start = start_page;
	if (recent->host == (u64)inode && recent->uses == uses &&
	    start_page >= recent->start_page && start_page <= recent->end_page) {
		if (end_page <= recent->end_page)
			return 0;
		/*
		 * Each event of one long read asks for all that is left of it. Only its
		 * end is new.
		 */
		recent_start = recent->start_page;
		start_page = recent->end_page;
	}
	if ((BPF_CORE_READ(inode, i_mode) & S_IFMT) != S_IFREG)
		return 0;
	file_pages = ((u64)BPF_CORE_READ(inode, i_size) + 4095) >> 12;
	if (end_page > file_pages)
		end_page = file_pages;
	limit_page = start_page + ((u64)chunks_max << CHUNK_SHIFT);
	if (end_page > limit_page)
		end_page = limit_page;
	if (start_page >= end_page)
		return 0;
	key_of(inode, &key);
	/* Here, and not in callbacks: the frames of nested functions have 512 bytes in all. */
	group = group_now();
	if (only_brought_in && !(how & MISSED))
		value = known_entry(&key, group);
	else
		value = inode_entry(inode, &key, ACCESS, group, &is_new);
	if (!value)
		return 0;
	if ((value->uses & uses) != uses)
		__sync_fetch_and_or(&value->uses, uses);
	/* The event of a read comes after the wait, and begins where it waited. */
	if (has_waited && uses == USE_READ && chunk_fetched(value, asked_page, true))
		c->late_pages++;
	span.start_page = start_page;
	span.end_page = end_page;
	span.id = value->id;
	span.what = ACCESS;
	span.group = group;
	span.news = 0;
	span.lost = 0;
	if (start_page < CHUNK_PAGES)
		span.news += note_chunk(&value->first, chunk_bits(0, start_page, end_page), ACCESS,
					group, c);
	if (end_page > CHUNK_PAGES)
		bpf_loop(chunks_max + 1, note_span, &span, 0);
	if (span.news)
		c->news++;
	if (!span.lost) {
		recent->host = (u64)inode;
		recent->uses = uses;
		recent->start_page = recent_start;
		recent->end_page = end_page;
	}
	if (is_new)
		send_nodes((u64)inode, 0, value->id, value->need_ns, group);
	return 0;
}

#endif
