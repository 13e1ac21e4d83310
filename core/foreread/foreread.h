/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * foreread: our own.
 *
 * The policy minimizes time. An unneeded page and an unneeded request both cost device time, and
 * both costs were measured (device.h), so the policy compares them. The bound of readahead for a
 * stream follows from the stream's length and from the lengths of others (runs.h). Where it sees no
 * stream, it reads only the requested pages. Within that bound, the distance ahead follows from two
 * times: the device's latency and the reader's time per page. Feedback corrects their errors.
 * Requests grow while readers wait and larger ones make the device faster, and shrink if no reader
 * has waited for long. A stream whose pages were evicted unread halves its distance. Where memory
 * is short, streams share it by the square roots of their rates (budget.h). The policy detects
 * programs that read upward, downward, and in steps, several streams in one file, out of order and
 * with holes (streams.h).
 */
#ifndef FOREREAD_FOREREAD_H
#define FOREREAD_FOREREAD_H

#include "sight.h"
#include "budget.h"
#include "streams.h"

/*
 * Requests start at the break-even size (as many pages as cost as much as a request), and double up
 * to 64 times that.
 */
#define FR_FOREREAD_BOOST 5U
#define FR_FOREREAD_BOOST_MAX 11U
#define FR_FOREREAD_BOOST_BLIND 8U
#define FR_FOREREAD_BOOST_MIN 0U
/* No request keeps a device busy for longer: others wait behind it. */
#define FR_FOREREAD_REQUEST_NS 100000000U
/* Least request where a busy device makes small ones cheap: the distance divided by this. */
#define FR_FOREREAD_AHEAD_REQUESTS 4U
/* A stream that has not waited for this many distances may read in smaller requests. */
#define FR_FOREREAD_HOLD_OFF 8U
/* Pages that fault-around maps at a time (fault_around_bytes of 64 KiB). */
#define FR_FOREREAD_FAULT_PAGES 16U
#define FR_FOREREAD_AROUND_MAX 256U
/* Faults in a row without use of the pages around, before less is read around. */
#define FR_FOREREAD_AROUND_MISSES 8U
/* Faults in a row that found their page, before more is read around. */
#define FR_FOREREAD_AROUND_HITS 4U
/* Most pieces ahead of a strided stream: in all, and for each piece that came as expected. */
#define FR_FOREREAD_PIECES_MAX 128U
#define FR_FOREREAD_PIECES_EACH 4U
/* A stream falls silent after this many requested pages in a row were found cached. */
#define FR_FOREREAD_SILENT_PAGES 8192U
/* A stream of at most this many requests may still change its direction. */
#define FR_FOREREAD_TURN_REQUESTS 4U
/* How far a stream's accesses went back is forgotten by 1/64 at each access. */
#define FR_FOREREAD_BACK_SHIFT 6U
/* Reads that ended for each that was followed by another, before a few in a row may be chance. */
#define FR_FOREREAD_CHANCE 16U
/* As many reads in a row are no chance. */
#define FR_FOREREAD_CHANCE_READS 4U
/* Runs that must be known before a run inside a file is read ahead of from its first page on. */
#define FR_FOREREAD_RUNS_MIN 8U

/* Pages ahead of a stream that goes up or down. */
FR_INLINE fr_u64 fr_foreread_have(const struct fr_stream *stream)
{
	return stream->course == FR_COURSE_DOWN ? fr_sub(stream->end, stream->ahead) :
						  fr_sub(stream->ahead, stream->end);
}

/*
 * Rounds down to whole requests of the reader, since it waits for the rest of one as for all of it.
 */
FR_INLINE fr_u64 fr_foreread_whole(fr_u64 pages, fr_u32 piece_pages)
{
	fr_u64 whole = fr_mul(fr_div(pages, piece_pages), piece_pages);

	return whole != 0 ? whole : pages;
}

/*
 * Whether the reads of a stream may be near each other by chance: they are few, and hardly any read
 * inside this file was followed by another one. 500 random reads of 16,384 pages come to 13 such
 * pairs, and 2 of these are followed by a third one. Remembered single reads count as ended, though
 * they may still be followed: else the first pairs of a random reader would all be read ahead of.
 */
FR_ONCE fr_u32 fr_foreread_may_be_chance(const struct fr_streams *streams,
					 const struct fr_stream *stream)
{
	fr_u32 octave, ended;

	if (!streams || !stream || (stream->flags & FR_STREAM_START) ||
	    stream->run_pages >= (fr_u64)stream->piece_pages * FR_FOREREAD_CHANCE_READS)
		return 0;
	octave = fr_runs_octave(stream->piece_pages) & (FR_RUNS_OCTAVES - 1);
	ended = fr_streams_lones(streams) + streams->runs.ended[octave];
	return ended >= fr_max(streams->runs.passed[octave], 1) * FR_FOREREAD_CHANCE;
}

/* Pages ahead of a stream that are worth reading, by the length of its run so far. */
FR_INLINE fr_u64 fr_foreread_worth(const struct fr_call *call, const struct fr_stream *stream,
				   fr_u32 even)
{
	fr_u64 touched = stream->touched_pages;
	fr_u64 span = fr_max(fr_apart(stream->end, stream->first), 1);
	const struct fr_runs *runs = &call->streams->runs;
	fr_u64 worth;

	/* A stream with holes is worth reading through while enough of its pages are wanted. */
	if (touched * fr_min(even, 16) < fr_mul(span, 2) ||
	    fr_foreread_may_be_chance(call->streams, stream))
		return 0;
	if ((stream->flags & FR_STREAM_START) && call->device)
		runs = &call->device->starts;
	worth = fr_foreread_whole(fr_runs_worth(runs, stream->run_pages, even),
				  stream->piece_pages);
	return touched * 4 < fr_mul(span, 3) ? worth / 2 : worth;
}

/*
 * Pages of a request: the break-even size, doubled after waits and halved after quiet periods. It
 * is not more than the break-even size while readers wait for pages that no stream predicts.
 */
FR_INLINE fr_u64 fr_foreread_request(const struct fr_call *call, const struct fr_stream *stream,
				     fr_u32 even)
{
	fr_u32 boost = (fr_u32)fr_min(stream->boost, FR_FOREREAD_BOOST_MAX);
	fr_u64 pages = ((fr_u64)even << boost) >> FR_FOREREAD_BOOST;

	if (call->device && call->device->page_ns != 0)
		pages = fr_min(pages, fr_div(FR_FOREREAD_REQUEST_NS, call->device->page_ns));
	if (fr_device_crowded(call->device, stream->thread) && call->device->line_ns != 0)
		pages = fr_min(pages, even);
	/*
	 * Mapped files are requested as they are mapped, 16 pages at a time. With less than two
	 * such requests in flight, a disk turns to other streams in between.
	 */
	pages = fr_max(pages, FR_DEFAULT_PAGES);
	/* With less, the reader would wait for the rest of its own request. */
	return fr_max(pages, fr_max(stream->piece_pages, 1));
}

/* Upper bound, by memory, of the pages ahead of a stream. */
FR_INLINE fr_u64 fr_foreread_memory(const struct fr_call *call, struct fr_stream *stream,
				    fr_u64 want)
{
	const struct fr_limits *limits = call->limits;
	fr_u64 pages = limits->pages_max != 0 ? limits->pages_max : FR_U32_MAX;
	fr_u64 rate, life_ns, consume_ns, half = limits->reclaim_pages / 2;
	fr_u64 now_ns = call->access->time_ns;

	if (stream->ceiling_pages != 0)
		pages = fr_min(pages, stream->ceiling_pages);
	pages = fr_min(pages, want);
	if (half == 0 || !call->budget)
		return pages;
	/* Pages a second; the device holds up a reader faster than 2^20 anyway. */
	rate = stream->consume_ns == 0 ? 0 :
					 fr_div(1000000000U, fr_max(stream->consume_ns, 1000)) + 1;
	/*
	 * A page must be used before it is evicted: while half of the pages that reclaim leaves are
	 * read.
	 */
	life_ns = fr_budget_life_ns(call->budget, half, now_ns);
	consume_ns = stream->consume_ns;
	/* A new stream is assumed to be read at the rate of the others. */
	if (consume_ns == 0)
		consume_ns = call->budget->consume_ns;
	if (life_ns != 0 && consume_ns != 0)
		pages = fr_min(pages, fr_div(life_ns, consume_ns));
	return fr_budget_share(call->budget, half, pages, fr_root(rate), &stream->epoch);
}

/* Distance ahead of a stream: as much as latency and rate require, within every bound. */
FR_INLINE fr_u64 fr_foreread_distance(const struct fr_call *call, struct fr_stream *stream,
				      fr_u64 request, fr_u64 worth, fr_u32 even)
{
	fr_u64 page_ns = call->device ? call->device->page_ns : 0;
	fr_u64 pages = 0;

	/*
	 * A reader that is slower than the device needs the pages that it reads during the device's
	 * latency, queueing included. For a faster reader, queueing is no reason to request more.
	 */
	if (stream->consume_ns > fr_add(page_ns, page_ns))
		pages = fr_div(fr_device_wait_ns(call->device), stream->consume_ns);
	pages = fr_min(fr_max(pages, even), FR_U32_MAX);
	pages += request;
	if (!fr_device_crowded(call->device, stream->thread))
		pages *= 2;
	/* Accesses that come out of order jump ahead as far as they go back. */
	pages += stream->back_pages;
	return fr_foreread_memory(call, stream, fr_min(pages, worth));
}

FR_INLINE void fr_foreread_asked(const struct fr_call *call, fr_u64 pages)
{
	if (call->device)
		call->device->asks = call->device->asks == FR_U32_MAX ? 0 : call->device->asks + 1;
	if (call->budget)
		call->budget->asked_pages = fr_add(call->budget->asked_pages, pages);
}

/*
 * Upper bound of the pages that are read together with those that the reader waits for. A reader
 * that goes on at once would otherwise wait for a second request, and so would the next reader. A
 * slow reader would only wait longer, for these pages.
 */
FR_INLINE fr_u64 fr_foreread_together(const struct fr_call *call, const struct fr_stream *stream,
				      fr_u32 even)
{
	const struct fr_device *device = call->device;

	if (!device || stream->consume_ns == 0 || device->follow_ns == 0)
		return fr_min(even, FR_DEVICE_EVEN_PAGES);
	if (fr_mul(stream->consume_ns, stream->piece_pages) > device->latency_ns)
		return 0;
	return fr_div(fr_add(device->follow_ns, device->follow_ns), device->page_ns);
}

/* Reads pages behind those that the reader waits for. */
FR_INLINE void fr_foreread_behind(const struct fr_call *call, struct fr_decision *decision,
				  fr_u64 start, fr_u64 pages, fr_u64 together)
{
	const struct fr_window *needed = &decision->window[0];

	if (decision->windows == 1 && pages <= together &&
	    start == fr_add(needed->start, needed->size)) {
		start = needed->start;
		pages = fr_add(pages, needed->size);
		decision->windows = 0;
	}
	fr_read_ahead(call, decision, start, fr_u32_of(pages));
}

/*
 * Pages that arrive before a slow reader has used the pages that it has. With more, it would wait
 * for the end of a request of which it needs the start.
 */
FR_INLINE fr_u64 fr_foreread_in_time(const struct fr_call *call, const struct fr_stream *stream,
				     fr_u64 have)
{
	const struct fr_device *device = call->device;
	fr_u64 left_ns = fr_mul(fr_add(have, stream->piece_pages), stream->consume_ns);

	/* A reader that is faster than the device waits anyway, and so does one that is late. */
	if (!device || stream->consume_ns <= device->page_ns || left_ns <= device->latency_ns)
		return FR_U32_MAX;
	/*
	 * Without the line through requests: no page takes longer than the pages of a whole request
	 * did. Where every request continues the one before, nothing else is known.
	 */
	if (device->line_ns == 0) {
		if (stream->consume_ns <= device->busy_ns)
			return FR_U32_MAX;
		return fr_max(fr_div(left_ns, device->busy_ns), stream->piece_pages);
	}
	return fr_max(fr_div(fr_sub(left_ns, device->latency_ns), device->page_ns),
		      stream->piece_pages);
}

/*
 * Pages of a request where a busy device makes small ones cheap. Each still costs processor time,
 * and a quarter of the distance at once arrives in time, too. Without this bound, eight threads on
 * a mapped file on a disk with a latency of 1 ms made requests of 43 pages (docs/kernel-module.md).
 */
FR_INLINE fr_u64 fr_foreread_few(fr_u64 request, fr_u64 distance, fr_u32 even)
{
	return fr_max(request, fr_min(distance / FR_FOREREAD_AHEAD_REQUESTS, even));
}

/* Requests the next pages of a stream that goes up or down. */
FR_INLINE void fr_foreread_ask(const struct fr_call *call, struct fr_stream *stream,
			       fr_u64 distance, fr_u64 request, fr_u32 even,
			       struct fr_decision *decision)
{
	fr_u32 down = stream->course == FR_COURSE_DOWN;
	fr_u64 have, left, want;

	if (fr_foreread_have(stream) == 0)
		stream->ahead = stream->end;
	have = fr_foreread_have(stream);
	/* Not for less than a request, or than half of a small distance. */
	request = fr_min(request, (distance + 1) / 2);
	stream->ask_pages = fr_u32_of(fr_sub(distance, request));
	if (distance == 0 || have > fr_max(stream->ask_pages, stream->last_pages))
		return;
	left = down ? stream->ahead : fr_sub(call->limits->file_pages, stream->ahead);
	want = fr_min(fr_min(left, fr_sub(distance, have)),
		      fr_foreread_in_time(call, stream, have));
	if (want == 0)
		return;
	/*
	 * Also request when the reader reaches the last request, so that the next one is there when
	 * the device has finished that one.
	 */
	stream->last_pages = fr_u32_of(fr_min(want, fr_sub(distance, request / 2)));
	stream->ask_pages = fr_u32_of(fr_max(stream->ask_pages, stream->last_pages));
	if (stream->ceiling_pages != 0)
		stream->ceiling_pages =
			fr_u32_of(fr_add(stream->ceiling_pages, stream->ceiling_pages / 8 + 1));
	decision->reason = down ? FR_REASON_REVERSE : FR_REASON_STREAM;
	if (down) {
		stream->ahead = fr_sub(stream->ahead, want);
		fr_read_ahead(call, decision, stream->ahead, fr_u32_of(want));
	} else {
		fr_foreread_behind(call, decision, stream->ahead, want,
				   fr_foreread_together(call, stream, even));
		stream->ahead = fr_add(stream->ahead, want);
	}
	fr_foreread_asked(call, want);
	if (call->budget)
		call->budget->ahead_pages = fr_add(call->budget->ahead_pages, want);
}

/*
 * Requests pieces ahead of a strided stream. The pages between them are read, too, where that takes
 * a device less time than a request (@cost pages).
 */
FR_INLINE void fr_foreread_ask_pieces(const struct fr_call *call, struct fr_stream *stream,
				      fr_u64 key, fr_u64 distance, fr_u32 cost,
				      struct fr_decision *decision)
{
	fr_u32 down = fr_stream_down(stream);
	fr_u64 step = fr_max(stream->step_pages, 1);
	fr_u64 piece = fr_max(stream->piece_pages, 1);
	fr_u64 between = fr_sub(step, piece);
	fr_u32 through = call->device && call->device->line_ns != 0 && between < cost;
	fr_u64 each = through ? step : piece;
	fr_u64 have, most, pieces;

	/* Pieces that were left out, or were never asked for, are behind. */
	if (down ? stream->ahead > key : stream->ahead < key)
		stream->ahead = key;
	have = fr_div(fr_apart(stream->ahead, key), step);
	most = fr_min(fr_div(fr_add(distance, each - 1), each), FR_FOREREAD_PIECES_MAX);
	most = fr_min(most, (fr_u64)stream->pieces * FR_FOREREAD_PIECES_EACH);
	if (fr_add(have, fr_max(most / 4, 1)) > most)
		return;
	pieces = fr_sub(most, have);
	if (down)
		pieces = fr_min(pieces, fr_add(fr_div(stream->ahead, step), 1));
	else if (stream->ahead < call->limits->file_pages)
		pieces = fr_min(
			pieces,
			fr_add(fr_div(fr_sub(call->limits->file_pages, stream->ahead), step), 1));
	else
		return;
	decision->reason = FR_REASON_STRIDE;
	if (down)
		decision->flags |= FR_DECIDED_DOWN;
	if (through) {
		fr_u64 last = fr_mul(step, fr_u32_of(fr_sub(pieces, 1)));

		fr_read_ahead(call, decision, down ? fr_sub(stream->ahead, last) : stream->ahead,
			      fr_u32_of(fr_add(last, piece)));
	} else {
		decision->step_pages = step;
		decision->repeats = fr_u32_of(fr_sub(pieces, 1));
		fr_read_ahead(call, decision, stream->ahead, fr_u32_of(piece));
	}
	step = fr_mul(step, fr_u32_of(pieces));
	stream->ahead = down ? fr_sub(stream->ahead, step) : fr_add(stream->ahead, step);
	fr_foreread_asked(call, fr_mul(each, fr_u32_of(pieces)));
}

/* Updates the reader's time per page, and counts the pages that it has read. */
FR_INLINE void fr_foreread_measure(const struct fr_call *call, struct fr_stream *stream,
				   fr_u64 pages)
{
	fr_u64 now_ns = call->access->time_ns;
	fr_u64 took_ns = fr_sub(fr_sub(fr_add(now_ns, 1), stream->used_ns), stream->waited_ns);

	/* The time since the last access was spent on the pages of that access. */
	if (stream->used_ns != 0) {
		took_ns = fr_min(fr_div(took_ns, fr_max(stream->piece_pages, 1)), FR_U32_MAX);
		stream->consume_ns = fr_u32_of(fr_learned(stream->consume_ns, took_ns, 3));
		if (call->budget)
			call->budget->consume_ns = fr_learned(call->budget->consume_ns, took_ns, 6);
	}
	stream->used_ns = fr_add(now_ns, 1);
	stream->waited_ns = 0;
	stream->boost_pages = fr_u32_of(fr_add(stream->boost_pages, pages));
	stream->quiet_pages = fr_u32_of(fr_add(stream->quiet_pages, pages));
}

/* Halves the request size of a stream without waits, down to the size that its rate needs. */
FR_INLINE void fr_foreread_calm(struct fr_stream *stream)
{
	fr_u64 hold = fr_max((fr_u64)stream->distance_pages * FR_FOREREAD_HOLD_OFF, 64);

	if (stream->quiet_pages < hold)
		return;
	stream->quiet_pages = 0;
	if (stream->boost > FR_FOREREAD_BOOST_MIN)
		stream->boost = (fr_u8)fr_sub(stream->boost, 1);
}

/*
 * A reader waited: the request size doubles if larger requests make the device faster, else it
 * halves. At most once per two distances, since the effect of a size shows only then.
 */
FR_INLINE void fr_foreread_boost(struct fr_stream *stream, const struct fr_device *device)
{
	/* Where nothing is known of the device, a few doublings show it. */
	fr_u32 most = device && device->line_ns != 0 ? FR_FOREREAD_BOOST_MAX :
						       FR_FOREREAD_BOOST_BLIND;

	if (stream->boost_pages < 2 * (fr_u64)stream->distance_pages)
		return;
	stream->boost_pages = 0;
	if (!fr_device_strained(device) || stream->boost > most) {
		if (stream->boost > FR_FOREREAD_BOOST)
			stream->boost = (fr_u8)fr_sub(stream->boost, 1);
	} else if (stream->boost < most) {
		stream->boost = (fr_u8)fr_min(stream->boost + 1ULL, 0xff);
	}
}

/* Halves the remembered part of a long run, so that old accesses fade. */
FR_INLINE void fr_foreread_forget(struct fr_stream *stream)
{
	fr_u64 span = fr_apart(stream->end, stream->first);

	if (span < FR_STREAM_SPAN_MAX)
		return;
	span /= 2;
	stream->touched_pages /= 2;
	stream->first = stream->course == FR_COURSE_DOWN ? fr_sub(stream->first, span) :
							   fr_add(stream->first, span);
}

/*
 * Corrects the direction of a stream. Two requests that overtook each other can make a forward
 * stream look backward. It is forward if it is read above its start before many of its pages were
 * read.
 */
FR_INLINE void fr_foreread_turn(struct fr_stream *stream, fr_u64 index, fr_u64 pages)
{
	fr_u64 low = stream->end;

	if (stream->course != FR_COURSE_DOWN || index < stream->first ||
	    stream->touched_pages > pages * FR_FOREREAD_TURN_REQUESTS)
		return;
	stream->course = FR_COURSE_UP;
	stream->end = stream->first;
	stream->first = low;
	stream->ahead = stream->end;
}

/* How far back an access of a stream goes, or how far earlier ones went, which fades. */
FR_ONCE fr_u32 fr_foreread_back(const struct fr_stream *stream, fr_u64 index, fr_u64 end)
{
	fr_u64 back, fades;

	if (!stream)
		return 0;
	back = stream->course == FR_COURSE_DOWN ? fr_sub(end, stream->end) :
						  fr_sub(stream->end, index);
	fades = fr_add(stream->back_pages, (1U << FR_FOREREAD_BACK_SHIFT) - 1) >>
		FR_FOREREAD_BACK_SHIFT;
	return fr_u32_of(fr_max(fr_sub(stream->back_pages, fades), back));
}

/*
 * An access moves its stream on; @slack is the number of pages that fault-around may have left out.
 */
FR_INLINE void fr_foreread_move(const struct fr_call *call, struct fr_stream *stream, fr_u64 pages,
				fr_u32 slack)
{
	struct fr_streams *streams = call->streams;
	fr_u64 index = call->access->index;
	fr_u64 end = fr_add(index, pages);
	fr_u64 run = stream->run_pages, have = fr_foreread_have(stream), hole;
	fr_u32 passed;

	fr_foreread_turn(stream, index, pages);
	/* Threads that fault in one mapping may be far apart, each of them in order. */
	if (slack == 0)
		stream->back_pages = fr_foreread_back(stream, index, end);
	passed = stream->course == FR_COURSE_UP && index < stream->end;
	if (stream->course == FR_COURSE_DOWN) {
		hole = fr_sub(stream->end, end);
		stream->end = fr_min(stream->end, index);
		stream->first = fr_max(stream->first, end);
	} else {
		hole = fr_sub(index, stream->end);
		stream->end = fr_max(stream->end, end);
		stream->first = fr_min(stream->first, index);
	}
	if (call->budget)
		call->budget->ahead_pages =
			fr_sub(call->budget->ahead_pages, fr_sub(have, fr_foreread_have(stream)));
	/*
	 * Fault-around mapped, unseen, the pages between, or those around a page that was passed.
	 */
	if (passed)
		pages += slack;
	else if (hole <= slack)
		pages += hole;
	stream->touched_pages = fr_u32_of(
		fr_min(fr_add(stream->touched_pages, pages), fr_apart(stream->end, stream->first)));
	stream->run_pages = fr_u32_of(fr_add(run, pages));
	stream->flags &= 0xffU & ~FR_STREAM_ENDED;
	if (!(stream->flags & FR_STREAM_START)) {
		fr_runs_grew(&streams->runs, run, stream->run_pages);
	} else if (call->device) {
		struct fr_start *start =
			&call->device->start[stream->thread & (FR_DEVICE_STARTS - 1)];

		fr_runs_grew(&call->device->starts, run, stream->run_pages);
		/* A file that was read to its end says nothing about the length of runs. */
		if (start->thread == stream->thread)
			start->pages = stream->end >= call->limits->file_pages ? 0 :
										 stream->run_pages;
	}
	fr_foreread_forget(stream);
}

/*
 * A requested page is not there: it was evicted, since the stream reads ahead further than memory
 * holds, or there was no memory for it.
 */
FR_INLINE void fr_foreread_gone(const struct fr_call *call, struct fr_stream *stream, fr_u64 pages)
{
	if (call->state->flags & FR_STATE_THRASHED) {
		call->state->flags &= 0xffU & ~FR_STATE_THRASHED;
		stream->ceiling_pages = fr_u32_of(fr_max(stream->distance_pages / 2, pages));
		stream->quiet_pages = 0;
	}
	if (call->budget)
		call->budget->ahead_pages =
			fr_sub(call->budget->ahead_pages, fr_foreread_have(stream));
	stream->ahead = stream->end;
	stream->ask_pages = FR_U32_MAX;
}

FR_INLINE fr_u64 fr_foreread_key(const struct fr_stream *stream)
{
	if (stream->course == FR_COURSE_STEP_UP)
		return fr_add(stream->first, stream->step_pages);
	if (stream->course == FR_COURSE_STEP_DOWN)
		return fr_sub(stream->first, stream->step_pages);
	if (stream->course == FR_COURSE_DOWN)
		return fr_sub(stream->end, stream->piece_pages);
	return stream->end;
}

FR_INLINE void fr_foreread_is_last(struct fr_streams *streams, fr_u32 number, fr_u32 thread)
{
	struct fr_stream *last = &streams->stream[streams->last & (FR_STREAMS - 1)];

	last->follower = (fr_u8)(number + 1);
	streams->last = number;
	streams->by_thread[thread & (FR_STREAMS_THREADS - 1)] = (fr_u8)(number + 1);
}

/*
 * Begins a new stream. The reader's properties from its thread's last stream hold for it, too. It
 * is written in its place, which may be that stream's: in BPF a copy would take a quarter of the
 * stack.
 */
FR_INLINE fr_u32 fr_foreread_begin(const struct fr_call *call, fr_u64 first, fr_u64 end,
				   fr_u8 course)
{
	struct fr_streams *streams = call->streams;
	fr_u32 thread = call->access->thread;
	fr_u32 own = fr_stream_of(streams, thread);
	fr_u32 number = fr_streams_place(streams) & (FR_STREAMS - 1);
	struct fr_stream *stream = &streams->stream[number];
	fr_u32 consume_ns = 0;
	fr_u8 boost = FR_FOREREAD_BOOST, alone = 0;

	if (own != 0 && own <= streams->count) {
		const struct fr_stream *before = &streams->stream[(own - 1) & (FR_STREAMS - 1)];

		boost = before->boost;
		consume_ns = before->consume_ns;
		alone = before->alone;
	}
	stream->first = course == FR_COURSE_DOWN ? end : first;
	stream->end = course == FR_COURSE_DOWN ? first : end;
	stream->ahead = stream->end;
	stream->step_pages = 0;
	stream->used_ns = 0;
	stream->waited_ns = 0;
	stream->touched_pages = fr_u32_of(fr_sub(end, first));
	stream->run_pages = stream->touched_pages;
	stream->distance_pages = 0;
	stream->ask_pages = FR_U32_MAX;
	stream->last_pages = 0;
	stream->back_pages = 0;
	stream->ceiling_pages = 0;
	stream->consume_ns = consume_ns;
	stream->boost_pages = 0;
	stream->piece_pages = 0;
	stream->quiet_pages = 0;
	stream->cached_pages = 0;
	stream->stamp = 0;
	stream->epoch = 0;
	stream->thread = thread;
	stream->asks = 0;
	stream->pieces = 0;
	stream->course = course;
	stream->boost = boost;
	stream->lone = FR_STREAM_NONE;
	stream->follower = 0;
	stream->flags = 0;
	stream->alone = alone;
	/* While everything is cached a stream is worth nothing. */
	if (streams->missed_at != 0 && streams->accesses >= streams->missed_at &&
	    fr_sub(streams->accesses, streams->missed_at) <= FR_STREAMS_LONE)
		stream->flags = FR_STREAM_NEWS;
	return number;
}

/* Pages at the start of an access that are cached; less than all of it. */
FR_INLINE fr_u64 fr_foreread_cached(const struct fr_call *call, fr_u64 pages)
{
	if (call->access->kind != FR_READ_LOOK)
		return 0;
	return fr_min(call->access->hit_pages, fr_sub(pages, 1));
}

/* Whether a page ahead of a stream had been requested. */
FR_INLINE fr_u32 fr_foreread_asked_for(const struct fr_stream *stream, fr_u64 page)
{
	if (stream->course == FR_COURSE_DOWN)
		return page >= stream->ahead && page < stream->end;
	return page < stream->ahead && page >= stream->end;
}

/*
 * Whether a stream is long enough to be read ahead of, where the kernel reads ahead of shorter ones
 * that go up. For a stream that goes down, two adjacent accesses may be chance, where many threads
 * read at random.
 */
FR_INLINE fr_u32 fr_foreread_is_due(const struct fr_call *call, const struct fr_stream *stream,
				    fr_u64 pages)
{
	fr_u64 least = 0;

	if (call->limits->min_pages == 0)
		return 1;
	if (stream->course == FR_COURSE_UP)
		least = call->limits->min_pages;
	else if (stream->course == FR_COURSE_DOWN)
		least = pages * 3;
	return stream->run_pages >= least;
}

/* An access that belongs to a stream. */
FR_INLINE void fr_foreread_stream(const struct fr_call *call, fr_u32 number, fr_u64 pages,
				  fr_u32 missed, fr_u32 slack, struct fr_decision *decision)
{
	struct fr_streams *streams = call->streams;
	struct fr_stream *stream = &streams->stream[number & (FR_STREAMS - 1)];
	fr_u64 index = call->access->index;
	fr_u64 have = fr_foreread_cached(call, pages);
	fr_u64 request, worth, distance, demand = pages;
	fr_u32 even, cost, inside = 0;

	fr_foreread_measure(call, stream, pages);
	if (call->device) {
		fr_u64 alone = call->device->asks == stream->asks ? 255 : 0;

		stream->alone = (fr_u8)((stream->alone * 3U + alone) / 4);
	}
	stream->stamp = streams->accesses;
	if (fr_stream_steps(stream)) {
		inside = index >= stream->first &&
			 fr_sub(index, stream->first) < (fr_u64)stream->piece_pages + slack;
		if (inside) {
			fr_u64 run = fr_add(fr_sub(index, stream->first), pages);

			stream->piece_pages = fr_u32_of(fr_max(stream->piece_pages, run));
		} else {
			stream->first = index;
			stream->piece_pages = fr_u32_of(fr_max(stream->piece_pages, pages));
			stream->pieces = (fr_u16)fr_min(stream->pieces + 1U, 0xffff);
			demand = stream->piece_pages;
		}
	} else {
		if (missed && fr_foreread_asked_for(stream, fr_add(index, have)))
			fr_foreread_gone(call, stream, pages);
		fr_foreread_move(call, stream, pages, slack);
		stream->piece_pages = fr_u32_of(pages);
		fr_lone_grow(streams, stream->lone, stream->first, stream->touched_pages);
	}
	fr_stream_expect(streams, number, fr_foreread_key(stream));
	if (missed) {
		stream->flags |= FR_STREAM_NEWS;
		stream->cached_pages = 0;
		decision->reason = FR_REASON_RANDOM;
		demand = fr_sub(demand, have);
		fr_read_ahead(call, decision, fr_add(index, have), fr_u32_of(demand));
		fr_foreread_asked(call, demand);
	}
	if (!(stream->flags & FR_STREAM_NEWS)) {
		decision->reason = FR_REASON_SILENT;
		return;
	}
	if (call->device && missed)
		stream->asks = call->device->asks;
	if (!fr_foreread_is_due(call, stream, pages))
		return;
	if (!missed && !fr_stream_steps(stream) && fr_foreread_have(stream) > stream->ask_pages)
		return;
	even = fr_device_even_pages(call->device, stream->alone);
	cost = fr_device_cost_pages(call->device, even);
	request = fr_foreread_request(call, stream, cost);
	worth = fr_stream_steps(stream) ? FR_U32_MAX : fr_foreread_worth(call, stream, cost);
	distance = fr_foreread_distance(call, stream, request, worth, even);
	if (fr_stream_steps(stream)) {
		stream->distance_pages = fr_u32_of(distance);
		fr_foreread_calm(stream);
		if (!inside)
			fr_foreread_ask_pieces(call, stream,
					       streams->key[number & (FR_STREAMS - 1)], distance,
					       cost, decision);
		return;
	}
	stream->distance_pages = fr_u32_of(distance);
	if (cost < even)
		request = fr_foreread_few(request, fr_sub(distance, stream->back_pages), even);
	decision->max_pages = fr_u32_of(distance);
	decision->saw_pages = stream->touched_pages;
	fr_foreread_calm(stream);
	fr_foreread_ask(call, stream, distance, request, even, decision);
	if (call->device)
		stream->asks = call->device->asks;
}

/* A fault that shows no stream: reads the block of pages that it lies in, or text from it on. */
FR_INLINE void fr_foreread_around(const struct fr_call *call, struct fr_decision *decision)
{
	struct fr_streams *streams = call->streams;
	const struct fr_access *access = call->access;
	fr_u64 most, start, end;

	if (streams->around_pages == 0)
		streams->around_pages = (fr_u32)fr_clamp(fr_device_even_pages(call->device, 0),
							 FR_FOREREAD_FAULT_PAGES, FR_DEFAULT_PAGES);
	if (streams->around_misses >= FR_FOREREAD_AROUND_MISSES) {
		streams->around_misses = 0;
		streams->around_pages = (fr_u32)fr_max(streams->around_pages / 2, 1);
	}
	streams->around_misses = fr_u32_of(streams->around_misses + 1ULL);
	streams->around_hits = 0;
	most = fr_min(streams->around_pages, fr_around_max_pages(call->limits->memory_pages));
	most = fr_max(most, 1);
	start = fr_round_down(access->index, fr_log2(most));
	if (access->flags & FR_VMA_EXEC)
		start = access->index;
	end = fr_add(start, most);
	start = fr_min(fr_max(start, access->vma_start), access->index);
	if (access->vma_end > access->index)
		end = fr_min(end, access->vma_end);
	decision->reason = FR_REASON_AROUND;
	decision->max_pages = fr_u32_of(most);
	fr_read_ahead(call, decision, start, fr_u32_of(fr_max(fr_sub(end, start), 1)));
	fr_foreread_asked(call, fr_sub(end, start));
}

/* Counts a fault whose page had been read around. */
FR_INLINE void fr_foreread_around_hit(struct fr_streams *streams)
{
	streams->around_misses = 0;
	streams->around_hits = fr_u32_of(streams->around_hits + 1ULL);
	if (streams->around_hits < FR_FOREREAD_AROUND_HITS)
		return;
	streams->around_hits = 0;
	if (streams->around_pages != 0)
		streams->around_pages =
			(fr_u32)fr_min((fr_u64)streams->around_pages * 2, FR_FOREREAD_AROUND_MAX);
}

/*
 * Share, of 255, of the accesses of a thread's last stream with no other request of the device in
 * between.
 */
FR_INLINE fr_u32 fr_foreread_alone_of(const struct fr_call *call)
{
	const struct fr_streams *streams = call->streams;
	fr_u32 own = fr_stream_of(streams, call->access->thread);

	if (own == 0 || own > streams->count)
		return 0;
	return streams->stream[(own - 1) & (FR_STREAMS - 1)].alone;
}

/* A thread begins to read a file from its start: its previous run from a start has ended. */
FR_INLINE void fr_foreread_starts(const struct fr_call *call, fr_u64 pages)
{
	fr_u32 thread = call->access->thread;
	struct fr_start *start;

	if (!call->device)
		return;
	start = &call->device->start[thread & (FR_DEVICE_STARTS - 1)];
	if (start->pages != 0 && start->thread == thread)
		fr_runs_end(&call->device->starts, start->pages);
	start->thread = thread;
	start->pages = pages >= call->limits->file_pages ? 0 : fr_u32_of(pages);
}

/*
 * Pages to read ahead of an access that may begin a stream: at the start of a file, with advice, or
 * if runs within this file continue more often than they end.
 */
FR_INLINE fr_u64 fr_foreread_initial(const struct fr_call *call, fr_u64 pages, fr_u32 slack)
{
	const struct fr_access *access = call->access;
	const struct fr_runs *runs = &call->streams->runs;
	fr_u32 octave = fr_runs_octave(pages) & (FR_RUNS_OCTAVES - 1);
	fr_u32 advised = call->state->ra_pages > call->limits->ra_pages ||
			 (access->flags & FR_VMA_SEQUENTIAL);
	fr_u32 starts = access->index == 0 && slack == 0, even;
	fr_u64 worth;

	if (pages < call->limits->min_pages)
		return 0;
	if (!advised && !starts &&
	    (runs->passed[octave] < FR_FOREREAD_RUNS_MIN ||
	     runs->passed[octave] <= runs->ended[octave]))
		return 0;
	even = fr_device_even_pages(call->device, fr_foreread_alone_of(call));
	if (advised)
		return even;
	if (!starts)
		return fr_foreread_whole(fr_runs_worth(runs, pages, even), fr_u32_of(pages));
	worth = fr_runs_worth(call->device ? &call->device->starts : runs, pages, even);
	/* A device that may be slow is not asked for more than its known break-even size. */
	if (call->device && call->device->line_ns == 0)
		worth = fr_min(worth, fr_max(fr_sub(even, pages), pages));
	return worth;
}

/* An access that continues a single one. */
FR_INLINE fr_u32 fr_foreread_promote(const struct fr_call *call, const struct fr_kin *kin)
{
	struct fr_streams *streams = call->streams;
	struct fr_lone *lone = &streams->lone[kin->lone & (FR_STREAMS_LONE - 1)];
	fr_u32 number;

	number = fr_foreread_begin(call, lone->start, fr_add(lone->start, lone->pages),
				   kin->down ? FR_COURSE_DOWN : FR_COURSE_UP);
	streams->stream[number & (FR_STREAMS - 1)].lone = (fr_u8)kin->lone;
	lone->thread |= FR_LONE_GREW;
	return number;
}

/* An access that is in step with two single ones. */
FR_INLINE fr_u32 fr_foreread_step(const struct fr_call *call, const struct fr_kin *kin,
				  fr_u64 pages)
{
	struct fr_streams *streams = call->streams;
	fr_u64 index = call->access->index;
	fr_u32 even = fr_device_even_pages(call->device, 0);
	fr_u32 number;
	struct fr_stream *stream;

	number = fr_foreread_begin(call, index, fr_add(index, pages),
				   kin->down ? FR_COURSE_STEP_DOWN : FR_COURSE_STEP_UP);
	stream = &streams->stream[number & (FR_STREAMS - 1)];
	stream->step_pages = kin->step;
	/* A fault shows one page, and fault-around may have mapped others with it. */
	pages = fr_max(pages, kin->slack != 0 ? fr_min(even, kin->slack + 1U) : 0);
	stream->piece_pages = fr_u32_of(fr_min(fr_max(pages, kin->pages), kin->step));
	stream->pieces = 1;
	/* The access itself then counts as a piece that came as expected. */
	stream->first = kin->down ? fr_add(index, kin->step) : fr_sub(index, kin->step);
	return number;
}

/* The first access of a stream that is read ahead of at once. */
FR_INLINE void fr_foreread_first(const struct fr_call *call, fr_u64 pages, fr_u64 initial,
				 struct fr_decision *decision)
{
	struct fr_streams *streams = call->streams;
	const struct fr_access *access = call->access;
	fr_u32 number =
		fr_foreread_begin(call, access->index, fr_add(access->index, pages), FR_COURSE_UP);
	struct fr_stream *stream = &streams->stream[number & (FR_STREAMS - 1)];

	fr_foreread_is_last(streams, number, access->thread);
	if (access->index == 0)
		stream->flags |= FR_STREAM_START;
	stream->stamp = streams->accesses;
	stream->used_ns = fr_add(access->time_ns, 1);
	stream->piece_pages = fr_u32_of(pages);
	fr_stream_expect(streams, number, stream->end);
	fr_read_ahead(call, decision, access->index, fr_u32_of(pages));
	fr_foreread_asked(call, pages);
	initial = fr_foreread_memory(call, stream, initial);
	stream->distance_pages = fr_u32_of(initial);
	fr_foreread_ask(call, stream, initial, 1, fr_device_even_pages(call->device, stream->alone),
			decision);
	stream->asks = call->device ? call->device->asks : 0;
	decision->reason = FR_REASON_INITIAL;
}

/*
 * An access that belongs to no known stream. Returns the stream that begins with it, which still
 * has to process the access, or FR_STREAM_NONE.
 */
FR_INLINE fr_u32 fr_foreread_alone(const struct fr_call *call, fr_u64 pages, fr_u32 missed,
				   fr_u32 slack, struct fr_decision *decision)
{
	struct fr_streams *streams = call->streams;
	const struct fr_access *access = call->access;
	struct fr_kin kin = { 0, 0, FR_STREAM_NONE, 0, 0, slack };
	fr_u64 initial;

	fr_streams_age(streams);
	fr_stream_leave(streams, access->thread);
	if (access->index == 0)
		fr_foreread_starts(call, pages);
	fr_streams_kin(streams, access->index, pages, access->thread, &kin);
	if (kin.lone != FR_STREAM_NONE)
		return fr_foreread_promote(call, &kin);
	if (kin.steps)
		return fr_foreread_step(call, &kin, pages);
	initial = missed ? fr_foreread_initial(call, pages, slack) : 0;
	if (initial != 0) {
		/* Its place is remembered too, in case it is a step from others. */
		fr_streams_lone(streams, access->index, pages, access->thread | FR_LONE_GREW);
		fr_foreread_first(call, pages, initial, decision);
		return FR_STREAM_NONE;
	}
	fr_streams_lone(streams, access->index, pages, access->thread);
	if (slack != 0 && missed) {
		fr_foreread_around(call, decision);
	} else if (slack != 0) {
		fr_foreread_around_hit(streams);
	} else if (missed) {
		decision->reason = FR_REASON_RANDOM;
		fr_read_ahead(call, decision, access->index, fr_u32_of(pages));
		fr_foreread_asked(call, pages);
	}
	return FR_STREAM_NONE;
}

/* Each access: a look of read(2), or a fault. */
FR_INLINE void fr_foreread_access(const struct fr_call *call, const struct fr_sight *sight,
				  struct fr_decision *decision)
{
	const struct fr_access *access = call->access;
	struct fr_streams *streams = call->streams;
	fr_u64 pages = fr_min(sight->pages, FR_U32_MAX);
	fr_u32 slack = sight->fault ? FR_FOREREAD_FAULT_PAGES - 1 : 0;
	fr_u32 number, known, exact = 1;

	streams->accesses = streams->accesses == FR_U32_MAX ? 1 : streams->accesses + 1;
	if (sight->missed)
		streams->missed_at = streams->accesses;
	number = fr_streams_find(streams, access->index, pages, access->thread,
				 sight->fault && !sight->missed ? slack | FR_FAULT_THERE : slack);
	known = number != FR_STREAM_NONE;
	if (known)
		exact = streams->key[number & (FR_STREAMS - 1)] == access->index;
	else
		number = fr_foreread_alone(call, pages, sight->missed, slack, decision);
	if (number == FR_STREAM_NONE)
		return;
	fr_foreread_is_last(streams, number, access->thread);
	/* An inexact lookup may be near some stream by chance. */
	if (!exact && slack == 0)
		fr_stream_leave(streams, access->thread);
	/* One call for all cases, since all of it is inlined. */
	fr_foreread_stream(call, number, pages, sight->missed, slack, decision);
	/* A fault near a stream that is not read ahead of is read around, like any other. */
	if (known && sight->fault && sight->missed && decision->windows == 1) {
		decision->windows = 0;
		fr_foreread_around(call, decision);
	}
}

FR_INLINE void fr_foreread_decide(const struct fr_call *call, struct fr_decision *decision)
{
	struct fr_sight sight;

	if (!fr_see(call, decision, &sight))
		return;
	if ((call->state->flags & FR_STATE_RANDOM) || (call->access->flags & FR_VMA_RANDOM))
		fr_read_missed(call, decision, &sight, FR_REASON_ADVISED_RANDOM);
	else if (!call->streams || call->state->ra_pages == 0)
		fr_read_missed(call, decision, &sight, FR_REASON_DISABLED);
	else
		fr_foreread_access(call, &sight, decision);
}

/**
 * fr_foreread_waited() - a reader waited for a page
 * @call: only the thread and the kept state are used; its streams are not 0
 * @waited_ns: how long
 * @asked: whether the page was on its way when the reader came to it
 */
FR_INLINE void fr_foreread_waited(const struct fr_call *call, fr_u64 waited_ns, fr_u32 asked)
{
	struct fr_streams *streams = call->streams;
	fr_u32 thread = call->access->thread;
	fr_u32 own = fr_stream_of(streams, thread);
	struct fr_stream *stream;

	/* A thread that reads a stream waits for its own readahead, however late that came. */
	if (call->device && !asked && fr_stream_left(streams, thread))
		fr_device_waited(call->device, waited_ns, thread);
	if (own == 0 || own > streams->count)
		return;
	stream = &streams->stream[(own - 1) & (FR_STREAMS - 1)];
	stream->waited_ns = fr_add(stream->waited_ns, waited_ns);
	stream->flags |= FR_STREAM_NEWS;
	/* A wait away from its stream says nothing about the stream's requests. */
	if (fr_stream_left(streams, thread))
		return;
	fr_foreread_boost(stream, call->device);
	stream->quiet_pages = 0;
}

/**
 * fr_foreread_issued() - the windows of a decision were issued
 * @streams: of the file
 * @thread: the thread of the access
 * @pages: asked for
 * @read_pages: of those, read; the others were cached
 */
FR_INLINE void fr_foreread_issued(struct fr_streams *streams, fr_u32 thread, fr_u64 pages,
				  fr_u64 read_pages)
{
	fr_u32 own = fr_stream_of(streams, thread);
	struct fr_stream *stream;

	if (own == 0 || own > streams->count)
		return;
	stream = &streams->stream[(own - 1) & (FR_STREAMS - 1)];
	if (read_pages != 0) {
		stream->cached_pages = 0;
		return;
	}
	stream->cached_pages = fr_u32_of(fr_add(stream->cached_pages, pages));
	if (stream->cached_pages >= FR_FOREREAD_SILENT_PAGES)
		stream->flags &= 0xffU & ~FR_STREAM_NEWS;
}

#endif /* FOREREAD_FOREREAD_H */
