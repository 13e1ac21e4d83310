/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The streams of one file: which are known, and to which of them an access belongs.
 *
 * A file has up to 64 streams, for all of its readers, descriptors and mappings together. Three
 * questions are asked of an access, the cheapest first:
 *
 *   1. Is it where the stream that this thread read last goes on, or the stream that
 *      followed the last one the last time? (Readers that take turns.)
 *   2. Is it where any stream goes on, or near it: a few pages skipped, or requests that
 *      overtook each other?
 *   3. Is it near one of the last 64 accesses that belonged to no stream, or a step from
 *      two of them by the same thread that are the same step apart?
 *
 * The third makes a stream of it; otherwise it is remembered as one of those 64. So a
 * random access never costs a stream its place, and a stream of single pages is known
 * at its second one.
 */
#ifndef FOREREAD_STREAMS_H
#define FOREREAD_STREAMS_H

#include "device.h"

#define FR_STREAMS 64U
/* Single accesses that are remembered; a power of two. */
#define FR_STREAMS_LONE 64U
/* Threads whose last stream is remembered; a power of two. */
#define FR_STREAMS_THREADS 16U
/* Last single accesses of a thread that are tried for a step. */
#define FR_STREAMS_STEPS 4U
/* The longest run that is a piece of a stream that steps: 4 MiB. */
#define FR_STREAMS_PIECE_MAX 1024U
/* An access this many requests away from where a stream goes on belongs to it ... */
#define FR_STREAMS_NEAR_REQUESTS 32U
/*
 * ... but at least FR_STREAMS_NEAR_MIN pages, and at most FR_STREAMS_NEAR_MAX (16 MiB, as in ZFS).
 */
#define FR_STREAMS_NEAR_MIN 64U
#define FR_STREAMS_NEAR_MAX 4096U
/* Limit of a stream's remembered run, in pages: longer runs are halved. */
#define FR_STREAM_SPAN_MAX 8192U
#define FR_STREAM_NONE 0xffU
/* With the slack of a fault: its page is cached, or is being read. */
#define FR_FAULT_THERE 0x100U
/* fr_streams.by_thread: its last access belonged to no stream. */
#define FR_STREAM_LEFT 0x80U

/* Direction of a stream. */
enum fr_course {
	FR_COURSE_UP = 0,
	FR_COURSE_DOWN = 1,
	FR_COURSE_STEP_UP = 2,
	FR_COURSE_STEP_DOWN = 3,
};

/* fr_stream.flags */
#define FR_STREAM_NEWS 0x01U /* a miss or a wait since it last fell silent */
#define FR_STREAM_START 0x02U /* began at the start of the file */
#define FR_STREAM_ENDED 0x04U /* counted among the runs that ended */

/**
 * struct fr_stream - one stream
 * @first: lowest page of what is remembered of its run; downward, the page after the
 *	highest; with a step, where the present piece starts
 * @end: page after the highest one read; downward, the lowest page read
 * @ahead: upward, the page after the last one asked for; downward, the lowest page
 *	asked for; with a step, where the next piece starts that was not asked for
 * @step_pages: from the start of one piece to the start of the next; 0 without
 * @used_ns: when it was last read, and 1; 0 means never
 * @waited_ns: how long its reader waited since then
 * @touched_pages: pages that were read of the remembered part of its run
 * @run_pages: pages that were read of its run
 * @distance_pages: the distance ahead that was decided last
 * @ask_pages: with more pages ahead than this, nothing is requested yet
 * @last_pages: pages requested last, without those that are requested too late for it
 * @back_pages: how far back its accesses went lately, where they come out of order
 * @ceiling_pages: no further, since pages were evicted unread; 0 means no such bound
 * @consume_ns: time that its reader takes for a page, waits apart
 * @boost_pages: pages read since its requests last grew
 * @piece_pages: pages of a request; with a step, of a piece
 * @quiet_pages: pages read since its reader last waited
 * @cached_pages: pages asked for in a row that were cached
 * @stamp: when it was last read, in accesses
 * @epoch: of the budget, in which it last acted
 * @thread: the thread that reads it
 * @asks: of the device, when it was last asked for this stream
 * @pieces: with a step, pieces that came as expected
 * @course: enum fr_course
 * @boost: doublings of the request size
 * @lone: its place among the single accesses, so that its run's length is noted there
 * @follower: one more than the stream that was read after it the last time; 0 is none
 * @flags: FR_STREAM_*
 * @alone: how often nothing else was asked of the device since, of 255
 */
struct fr_stream {
	fr_u64 first;
	fr_u64 end;
	fr_u64 ahead;
	fr_u64 step_pages;
	fr_u64 used_ns;
	fr_u64 waited_ns;
	fr_u32 touched_pages;
	fr_u32 run_pages;
	fr_u32 distance_pages;
	fr_u32 ask_pages;
	fr_u32 last_pages;
	fr_u32 back_pages;
	fr_u32 ceiling_pages;
	fr_u32 consume_ns;
	fr_u32 boost_pages;
	fr_u32 piece_pages;
	fr_u32 quiet_pages;
	fr_u32 cached_pages;
	fr_u32 stamp;
	fr_u32 epoch;
	fr_u32 thread;
	fr_u32 asks;
	fr_u16 pieces;
	fr_u8 course;
	fr_u8 boost;
	fr_u8 lone;
	fr_u8 follower;
	fr_u8 flags;
	fr_u8 alone;
};

/* fr_lone.thread, highest bit: it became a stream. */
#define FR_LONE_GREW 0x80000000U

/**
 * struct fr_lone - an access that belonged to no stream
 * @start: its first page
 * @pages: how many; grows with the run that begins here
 * @thread: whose
 */
struct fr_lone {
	fr_u64 start;
	fr_u32 pages;
	fr_u32 thread;
};

/**
 * struct fr_streams - the state kept for a file's streams
 * @key: by stream: the page at which its next access is expected to start
 * @stream: the streams
 * @lone: single accesses, the latest at @lone_at - 1
 * @key_low: by stream: the lower half of @key, so that many are looked through at once
 * @lone_low: the same of where a single access starts
 * @lone_end: the same of the page after it
 * @recent: by the low bits of a thread: the places of its last four single accesses, a byte
 *	each, the latest lowest
 * @by_thread: by the low bits of a thread: one more than its last stream, FR_STREAM_LEFT
 * @count: streams in use; they lie at the front
 * @lone_at: accesses that belonged to no stream; the low bits are the place of the next
 * @accesses: seen so far; wraps after 2^32
 * @last: the stream that was read last
 * @around_pages: how much is read around a fault that belongs to no stream
 * @around_misses: faults in a row that belonged to no stream and found nothing
 * @around_hits: faults in a row that belonged to no stream and found their page
 * @reserved: 0
 * @missed_at: the access that last found a page missing
 * @hand: the stream to look at next for whether it has ended
 * @runs: how long runs are that begin within the file
 *
 * All zero bytes is a file just opened.
 */
struct fr_streams {
	fr_u64 key[FR_STREAMS];
	struct fr_stream stream[FR_STREAMS];
	struct fr_lone lone[FR_STREAMS_LONE];
	fr_u32 key_low[FR_STREAMS];
	fr_u32 lone_low[FR_STREAMS_LONE];
	fr_u32 lone_end[FR_STREAMS_LONE];
	fr_u32 recent[FR_STREAMS_THREADS];
	fr_u8 by_thread[FR_STREAMS_THREADS];
	fr_u32 count;
	fr_u32 lone_at;
	fr_u32 accesses;
	fr_u32 last;
	fr_u32 around_pages;
	fr_u32 around_misses;
	fr_u32 around_hits;
	fr_u32 reserved;
	fr_u32 missed_at;
	fr_u32 hand;
	struct fr_runs runs;
};

_Static_assert(sizeof(struct fr_stream) == 120, "no hidden padding, under 256 bytes a stream");
_Static_assert(sizeof(struct fr_lone) == 16, "no hidden padding");
_Static_assert(sizeof(struct fr_streams) == 512 + 64 * 120 + 1024 + 3 * 256 + 64 + 88,
	       "no hidden padding");

FR_INLINE fr_u32 fr_stream_steps(const struct fr_stream *stream)
{
	return stream->course >= FR_COURSE_STEP_UP;
}

FR_INLINE fr_u32 fr_stream_down(const struct fr_stream *stream)
{
	return stream->course == FR_COURSE_DOWN || stream->course == FR_COURSE_STEP_DOWN;
}

/* One more than the stream that a thread read last; 0 is none. */
FR_INLINE fr_u32 fr_stream_of(const struct fr_streams *streams, fr_u32 thread)
{
	return streams->by_thread[thread & (FR_STREAMS_THREADS - 1)] & ~FR_STREAM_LEFT;
}

/* The last access of a thread belonged to no stream. */
FR_INLINE void fr_stream_leave(struct fr_streams *streams, fr_u32 thread)
{
	streams->by_thread[thread & (FR_STREAMS_THREADS - 1)] |= FR_STREAM_LEFT;
}

FR_INLINE fr_u32 fr_stream_left(const struct fr_streams *streams, fr_u32 thread)
{
	return (streams->by_thread[thread & (FR_STREAMS_THREADS - 1)] & FR_STREAM_LEFT) != 0;
}

/*
 * Distance from the expected place within which an access of @pages pages still belongs to a
 * stream.
 */
FR_INLINE fr_u64 fr_near_pages(fr_u64 pages)
{
	return fr_clamp(fr_min(pages, FR_STREAMS_NEAR_MAX) * FR_STREAMS_NEAR_REQUESTS,
			FR_STREAMS_NEAR_MIN, FR_STREAMS_NEAR_MAX);
}

/*
 * Whether an access belongs to a stream: at its expected place, or as near to that as the stream's
 * earlier accesses were; or within its piece. @slack is the number of pages that fault-around
 * leaves out.
 */
FR_INLINE fr_u32 fr_stream_takes(const struct fr_streams *streams, fr_u32 number, fr_u64 index,
				 fr_u64 near, fr_u32 slack)
{
	const struct fr_stream *stream = &streams->stream[number & (FR_STREAMS - 1)];
	fr_u64 key = streams->key[number & (FR_STREAMS - 1)];

	if (!fr_stream_steps(stream)) {
		/*
		 * Threads that share a mapping are far apart. A page that is cached because it was
		 * read for the stream belongs to the stream, passed or not.
		 */
		if ((slack & FR_FAULT_THERE) && stream->course == FR_COURSE_UP &&
		    index < stream->ahead)
			near = FR_STREAMS_NEAR_MAX;
		return fr_apart(index, key) <=
		       fr_min(near, 2 * (fr_u64)stream->touched_pages + (slack & ~FR_FAULT_THERE));
	}
	/* A piece has an end; between pieces nothing is expected, but one may be left out. */
	return fr_apart(index, key) < fr_max(stream->piece_pages / 2, 1) ||
	       fr_apart(index, key) == stream->step_pages ||
	       (index >= stream->first &&
		fr_sub(index, stream->first) <
			(fr_u64)stream->piece_pages + (slack & ~FR_FAULT_THERE));
}

/* Whether an access ends where a stream that goes down was last: it goes on there, of any size. */
FR_INLINE fr_u32 fr_stream_abuts(const struct fr_stream *stream, fr_u64 index, fr_u64 pages)
{
	return stream->course == FR_COURSE_DOWN && fr_add(index, pages) == stream->end;
}

/* Single accesses that are remembered. */
FR_INLINE fr_u32 fr_streams_lones(const struct fr_streams *streams)
{
	return (fr_u32)fr_min(streams->lone_at, FR_STREAMS_LONE);
}

/* Where a stream's next access is expected. */
FR_INLINE void fr_stream_expect(struct fr_streams *streams, fr_u32 number, fr_u64 key)
{
	streams->key[number & (FR_STREAMS - 1)] = key;
	streams->key_low[number & (FR_STREAMS - 1)] = fr_low(key);
}

/* The stream nearest to an access, or FR_STREAM_NONE. */
FR_ONCE fr_u32 fr_streams_scan(const struct fr_streams *streams, fr_u64 index, fr_u64 near,
			       fr_u32 slack)
{
	fr_u64 best_apart = FR_U64_MAX;
	fr_u64 most = slack & FR_FAULT_THERE ? FR_STREAMS_NEAR_MAX : near;
	fr_u32 from = fr_low_less(fr_low(index), fr_low(most)), width = fr_low(most * 2);
	fr_u32 best = 0, any = 0, count, number;

	if (!streams)
		return FR_STREAM_NONE;
	count = (fr_u32)fr_min(streams->count, FR_STREAMS);
	/* Most random accesses are near none: the low halves show it, four at a time. */
	for (number = 0; number < FR_STREAMS; number++)
		any |= fr_within(fr_low_less(streams->key_low[number], from), width);
	if (!any)
		return FR_STREAM_NONE;
	for (number = 0; number < FR_STREAMS; number++) {
		fr_u64 apart = fr_apart(index, streams->key[number]);

		apart = fr_if_less(number, count, apart, FR_U64_MAX);
		best = (fr_u32)fr_if_less(apart, best_apart, number, best);
		best_apart = fr_min(apart, best_apart);
	}
	if (best_apart > most)
		return FR_STREAM_NONE;
	return fr_stream_takes(streams, best, index, near, slack) ? best : FR_STREAM_NONE;
}

/**
 * fr_streams_find() - the stream that an access belongs to
 * @streams: of the file
 * @index: where the access starts
 * @pages: its size
 * @thread: whose it is
 * @slack: pages that fault-around may have left out, and FR_FAULT_THERE
 *
 * Return: its number, or FR_STREAM_NONE.
 */
FR_ONCE fr_u32 fr_streams_find(const struct fr_streams *streams, fr_u64 index, fr_u64 pages,
			       fr_u32 thread, fr_u32 slack)
{
	fr_u64 near = fr_near_pages(pages);
	fr_u32 own, next;

	if (!streams)
		return FR_STREAM_NONE;
	own = fr_stream_of(streams, thread);
	next = streams->stream[streams->last & (FR_STREAMS - 1)].follower;
	/* Numbers are kept one higher, so that zero bytes mean none. */
	if (own != 0 && own <= streams->count) {
		own = (own - 1) & (FR_STREAMS - 1);
		if (streams->key[own] == index ||
		    fr_stream_abuts(&streams->stream[own], index, pages) ||
		    (fr_stream_steps(&streams->stream[own]) &&
		     fr_stream_takes(streams, own, index, near, slack)))
			return own;
	}
	if (next != 0 && next <= streams->count) {
		next = (next - 1) & (FR_STREAMS - 1);
		if (streams->key[next] == index)
			return next;
	}
	return fr_streams_scan(streams, index, near, slack);
}

/* The match of a new access with the earlier unmatched accesses. */
struct fr_kin {
	fr_u64 step;
	fr_u64 pages;
	fr_u32 lone;
	fr_u32 down;
	fr_u32 steps;
	fr_u32 slack;
};

/* The single access nearest to one: it begins where that ends, or ends where that begins. */
FR_ONCE fr_u64 fr_streams_next_to(const struct fr_streams *streams, fr_u64 index, fr_u64 pages,
				  struct fr_kin *kin)
{
	fr_u64 best = FR_U64_MAX;
	fr_u32 known, back;

	if (!streams || !kin)
		return best;
	known = fr_streams_lones(streams);
	for (back = 1; back <= FR_STREAMS_LONE; back++) {
		const struct fr_lone *lone;
		fr_u64 apart, down;
		fr_u32 at;

		if (back > known)
			break;
		at = (fr_u32)fr_sub(streams->lone_at, back) & (FR_STREAMS_LONE - 1);
		lone = &streams->lone[at];
		down = fr_if_less(index, lone->start, 1, 0);
		apart = fr_if_less(0, down, fr_apart(fr_add(index, pages), lone->start),
				   fr_apart(index, fr_add(lone->start, lone->pages)));
		kin->lone = (fr_u32)fr_if_less(apart, best, at, kin->lone);
		kin->down = (fr_u32)fr_if_less(apart, best, down, kin->down);
		best = fr_min(apart, best);
	}
	return best;
}

/* Whether an access is in step with two of the last single ones of its thread. */
FR_ONCE fr_u32 fr_streams_in_step(const struct fr_streams *streams, fr_u64 index, fr_u64 pages,
				  fr_u32 thread, struct fr_kin *kin)
{
	fr_u64 starts[FR_STREAMS_STEPS] = { 0, 0, 0, 0 };
	fr_u32 places, have = 0, kept, older;
	fr_u64 length = 0;

	if (!streams || !kin)
		return 0;
	places = streams->recent[thread & (FR_STREAMS_THREADS - 1)];
	for (kept = 0; kept < FR_STREAMS_STEPS; kept++) {
		fr_u32 at = (places >> kept * 8) & (FR_STREAMS_LONE - 1);
		const struct fr_lone *lone = &streams->lone[at];

		/* Another thread with the same low bits, or one that came later. */
		if (at >= streams->lone_at || ((lone->thread ^ thread) & ~FR_LONE_GREW))
			break;
		starts[kept] = lone->start;
		length = fr_max(length, lone->pages);
		have++;
	}
	kin->pages = length;
	/* Longer runs are streams themselves, and soon seen as such. */
	if (length > FR_STREAMS_PIECE_MAX)
		return 0;
	for (kept = 0; kept < FR_STREAMS_STEPS; kept++) {
		for (older = kept + 1; older < FR_STREAMS_STEPS; older++) {
			fr_u64 step = fr_apart(index, starts[kept]);
			fr_u32 down = index < starts[kept];

			if (older >= have || step <= pages || kin->steps)
				continue;
			if (step == fr_apart(starts[kept], starts[older]) &&
			    down == (starts[kept] < starts[older])) {
				kin->step = step;
				kin->down = down;
				kin->steps = 1;
			}
		}
	}
	return kin->steps;
}

/*
 * Looks for kin among the single accesses: one that this goes on from (@lone is its
 * place), or two that it is in step with (@steps). Returns whether there are any.
 */
FR_ONCE fr_u32 fr_streams_kin(const struct fr_streams *streams, fr_u64 index, fr_u64 pages,
			      fr_u32 thread, struct fr_kin *kin)
{
	fr_u64 near = fr_min(pages, FR_STREAMS_NEAR_MAX) * 4;
	fr_u32 above, below, width, any = 0, at;

	if (!streams || !kin)
		return 0;
	near += kin->slack;
	kin->lone = FR_STREAM_NONE;
	kin->step = 0;
	kin->pages = 0;
	kin->down = 0;
	kin->steps = 0;
	width = fr_low(near * 2);
	above = fr_low_less(fr_low(index), fr_low(near));
	below = fr_low_less(fr_low(fr_add(index, pages)), fr_low(near));
	for (at = 0; at < FR_STREAMS_LONE; at++) {
		any |= fr_within(fr_low_less(streams->lone_end[at], above), width);
		any |= fr_within(fr_low_less(streams->lone_low[at], below), width);
	}
	if (any && fr_streams_next_to(streams, index, pages, kin) <= near)
		return 1;
	kin->lone = FR_STREAM_NONE;
	kin->down = 0;
	return fr_streams_in_step(streams, index, pages, thread, kin);
}

/* Remembers an access that belonged to no stream; its place. */
FR_INLINE fr_u32 fr_streams_lone(struct fr_streams *streams, fr_u64 index, fr_u64 pages,
				 fr_u32 thread)
{
	fr_u32 at = streams->lone_at & (FR_STREAMS_LONE - 1), own;

	/* The access that makes room for this one went no further: its run has ended. */
	if (streams->lone_at >= FR_STREAMS_LONE && !(streams->lone[at].thread & FR_LONE_GREW))
		fr_runs_end(&streams->runs, streams->lone[at].pages);
	streams->lone[at].start = index;
	streams->lone[at].pages = fr_u32_of(pages);
	streams->lone[at].thread = thread;
	streams->lone_low[at] = fr_low(index);
	streams->lone_end[at] = fr_low(fr_add(index, fr_u32_of(pages)));
	own = streams->recent[thread & (FR_STREAMS_THREADS - 1)];
	streams->recent[thread & (FR_STREAMS_THREADS - 1)] = (own & 0xffffffU) << 8 | at;
	/* Above the number of places only the low bits matter. */
	streams->lone_at = streams->lone_at >= FR_U32_MAX - FR_STREAMS_LONE ?
				   FR_STREAMS_LONE + ((at + 1) & (FR_STREAMS_LONE - 1)) :
				   streams->lone_at + 1;
	return at;
}

/* A single access became a stream, and that has grown. */
FR_INLINE void fr_lone_grow(struct fr_streams *streams, fr_u32 at, fr_u64 first, fr_u32 pages)
{
	if (at >= FR_STREAMS_LONE || streams->lone[at & (FR_STREAMS_LONE - 1)].start != first)
		return;
	at &= FR_STREAMS_LONE - 1;
	streams->lone[at].pages = pages;
	streams->lone_end[at] = fr_low(fr_add(first, pages));
}

/* A stream's run has ended. One that came to the end of its file says nothing of runs. */
FR_INLINE void fr_streams_retire(struct fr_streams *streams, struct fr_stream *stream)
{
	if (stream->flags & FR_STREAM_ENDED)
		return;
	stream->flags |= FR_STREAM_ENDED;
	if (!fr_stream_steps(stream) && !(stream->flags & FR_STREAM_START))
		fr_runs_end(&streams->runs, stream->run_pages);
}

/*
 * Looks at one stream, each time at another: one that was left alone for four rounds of all
 * of them has ended.
 */
FR_INLINE void fr_streams_age(struct fr_streams *streams)
{
	fr_u32 number = streams->hand & (FR_STREAMS - 1);
	struct fr_stream *stream = &streams->stream[number];

	streams->hand = number + 1 < streams->count ? number + 1 : 0;
	if (number < streams->count &&
	    fr_sub(streams->accesses, stream->stamp) > (fr_u64)streams->count * 4 + FR_STREAMS)
		fr_streams_retire(streams, stream);
}

/**
 * fr_streams_place() - a place for a new stream
 * @streams: of the file
 *
 * Return: its number; the one that was read least lately makes room.
 */
FR_ONCE fr_u32 fr_streams_place(struct fr_streams *streams)
{
	fr_u32 oldest = 0, age = 0, number;

	if (!streams)
		return 0;
	if (streams->count < FR_STREAMS) {
		number = streams->count;
		streams->count = number + 1;
		return number;
	}
	for (number = 0; number < FR_STREAMS; number++) {
		const struct fr_stream *stream = &streams->stream[number];
		fr_u64 idle = fr_if_less(streams->accesses, stream->stamp, FR_U32_MAX,
					 fr_sub(streams->accesses, stream->stamp));

		oldest = (fr_u32)fr_if_less(age, idle, number, oldest);
		age = (fr_u32)fr_max(age, idle);
	}
	fr_streams_retire(streams, &streams->stream[oldest & (FR_STREAMS - 1)]);
	return oldest & (FR_STREAMS - 1);
}

#endif /* FOREREAD_STREAMS_H */
