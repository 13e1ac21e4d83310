/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * distance: grow only on a wait, as modern databases do (PostgreSQL 19's read stream).
 *
 * The distance ahead and the size of a request are two separate questions. The distance doubles
 * only if the reader had to wait, for requested pages or for others. As long as the device keeps
 * up, a larger one would cost memory and gain nothing. It shrinks by a page for each page that was
 * there in time, but not before a whole maximum distance has been read without a wait. The size of
 * a request doubles with every request, up to the maximum window, because a waiting reader gains
 * from large ones. A database tells PostgreSQL's read stream what will be read. This policy takes a
 * file to be read in order, from the place of the last access, and starts again where that turns
 * out wrong.
 */
#ifndef FOREREAD_DISTANCE_H
#define FOREREAD_DISTANCE_H

#include "sight.h"

/* effective_io_concurrency: the number of largest requests that may be ahead. */
#define FR_DISTANCE_REQUESTS 16U

/*
 * Use of the fields of struct fr_state: @start is where the next access is expected, @ahead_start
 * the page after the last requested one, @ahead_size the distance, @size the pages of a request,
 * @cache_hit_pages the rest of the hold-off.
 */
FR_INLINE fr_u32 fr_distance_max(const struct fr_call *call)
{
	fr_u64 most = (fr_u64)fr_file_max_pages(call) * FR_DISTANCE_REQUESTS;

	if (call->limits->pages_max != 0)
		most = fr_min(most, call->limits->pages_max);
	return fr_u32_of(most);
}

FR_INLINE void fr_distance_waited(struct fr_state *state, fr_u32 most)
{
	state->ahead_size = (fr_u32)fr_clamp((fr_u64)state->ahead_size * 2, 1, most);
	state->cache_hit_pages = most;
}

/* Pages that were there in time reduce the distance, after the hold-off. */
FR_INLINE void fr_distance_in_time(struct fr_state *state, fr_u64 pages)
{
	fr_u64 left = fr_sub(pages, state->cache_hit_pages);

	state->cache_hit_pages = (fr_u32)fr_sub(state->cache_hit_pages, pages);
	state->ahead_size = (fr_u32)fr_max(fr_sub(state->ahead_size, left), 1);
}

FR_INLINE void fr_distance_look(const struct fr_call *call, fr_u64 pages, fr_u32 missed,
				struct fr_decision *decision)
{
	struct fr_state *state = call->state;
	fr_u64 index = call->access->index;
	fr_u64 end = fr_add(index, pages);
	fr_u32 most = fr_distance_max(call);
	fr_u32 largest = fr_file_max_pages(call);
	fr_u64 until, size;

	/* Faults come where fault-around ended, so a few pages further on is the same. */
	if (index < state->start || fr_sub(index, state->start) > 16 || state->size == 0) {
		state->ahead_size = 1;
		state->size = 1;
		state->cache_hit_pages = 0;
		state->ahead_start = end;
	} else if (missed || (state->flags & FR_STATE_MISS)) {
		fr_distance_waited(state, most);
	} else {
		fr_distance_in_time(state, pages);
	}
	state->flags &= 0xffU & ~FR_STATE_MISS;
	state->start = end;
	state->ahead_start = fr_max(state->ahead_start, end);
	decision->max_pages = most;
	if (missed) {
		decision->reason = FR_REASON_RANDOM;
		fr_read_ahead(call, decision, index, fr_u32_of(pages));
		/* A hit that follows no miss starts nothing: all may be cached. */
		state->flags |= FR_STATE_READS;
	}
	if (state->ahead_size <= 1 || !(state->flags & FR_STATE_READS))
		return;
	until = fr_min(fr_add(end, state->ahead_size), call->limits->file_pages);
	size = fr_sub(until, state->ahead_start);
	if (size < fr_min(state->size, (state->ahead_size + 1ULL) / 2) || size == 0)
		return;
	decision->reason = FR_REASON_STREAM;
	fr_read_ahead(call, decision, state->ahead_start, fr_u32_of(size));
	state->ahead_start = until;
	state->size = (fr_u32)fr_clamp((fr_u64)state->size * 2, 1, largest);
}

FR_INLINE void fr_distance_decide(const struct fr_call *call, struct fr_decision *decision)
{
	struct fr_sight sight;

	if (!fr_see(call, decision, &sight))
		return;
	if (call->state->ra_pages == 0 || (call->state->flags & FR_STATE_RANDOM))
		fr_read_missed(call, decision, &sight, FR_REASON_DISABLED);
	else
		fr_distance_look(call, sight.pages, sight.missed, decision);
}

#endif /* FOREREAD_DISTANCE_H */
