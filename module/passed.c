// SPDX-License-Identifier: GPL-2.0-only
/*
 * The pages that a reader has passed unseen, between two accesses that the module is told of.
 *
 * Input: the streams of a file, as `foreread` keeps them, and an access. Output: the pages that lie
 * between where a stream was seen last and the access, if the access is within what was read ahead
 * for that stream. Nobody else reads these pages as a rule, so its reader did.
 *
 * The stream that the thread has read last comes first. Otherwise it is the one with the fewest
 * such pages.
 *
 * A read may also miss a little beyond what was read ahead. Where reads come out of order, it is
 * of the stream, and all that was read ahead was passed. Without this, the stream was lost: the
 * next reads were alone, and looked like a stream that goes down.
 */
#include <linux/minmax.h>
#include <linux/spinlock.h>

#include "passed.h"
#include "stream_table.h"

/*
 * A stream's last access was told when it began. What its reader has waited since is over before
 * the next page.
 */
static u64 fm_passed_since(const struct fr_stream *stream)
{
	return stream->used_ns ? fr_add(stream->used_ns - 1, stream->waited_ns) : 0;
}

static bool fm_is_read(const struct fr_access *access)
{
	return access->kind == FR_READ_MISS || access->kind == FR_READ_MARK;
}

/*
 * Whether a read is as near to what was read ahead as the policy looks for a stream.
 *
 * The stream must have read as many pages as it would have passed. After a guess from two random
 * reads, a third one near its end would pass for a reader of all of it. 500 random reads then
 * fetched 27.6 MiB.
 */
static bool fm_is_near(const struct fr_stream *stream, u64 apart, const struct fr_access *access)
{
	u64 have = fr_foreread_have(stream);

	return have != 0 && have <= stream->run_pages && fm_is_read(access) &&
	       apart <= fr_near_pages(access->req_pages);
}

/*
 * Pages that were passed between a stream and an access; all bits set where the access is not ahead
 * of it.
 */
static u64 fm_passed_of(const struct fr_stream *stream, const struct fr_access *access,
			struct fm_passed *passed)
{
	u64 end = fr_add(access->index, max(access->req_pages, 1ULL));

	switch (stream->course) {
	case FR_COURSE_UP:
		if (access->index < stream->end ||
		    (access->index > stream->ahead &&
		     !fm_is_near(stream, access->index - stream->ahead, access)))
			return U64_MAX;
		passed->start = stream->end;
		passed->pages = fr_sub(min(access->index, stream->ahead), stream->end);
		passed->nearest = access->index < stream->ahead ? access->index - 1 : FM_NO_PAGE;
		break;
	case FR_COURSE_DOWN:
		if (end > stream->end ||
		    (end < stream->ahead && !fm_is_near(stream, stream->ahead - end, access)))
			return U64_MAX;
		passed->start = max(end, stream->ahead);
		passed->pages = fr_sub(stream->end, passed->start);
		passed->nearest = end > stream->ahead ? end : FM_NO_PAGE;
		break;
	default:
		/* What lies between the pieces of a stream that steps was not passed. */
		return U64_MAX;
	}
	passed->since_ns = fm_passed_since(stream);
	return passed->pages;
}

/*
 * Whether an access goes back into what its stream has just read, as reads that come out of order
 * do. Its thread has passed nothing then, whatever other streams there are: one that began at an
 * earlier such read, and has not been read since, would seem to have been read up to here.
 */
static bool fm_goes_back(const struct fr_stream *stream, const struct fr_access *access)
{
	u64 near = fr_near_pages(access->req_pages);

	return stream->course == FR_COURSE_UP && access->index < stream->end &&
	       stream->end - access->index <= near;
}

/**
 * fm_passed_by_streams() - the pages that a reader has passed on its way to an access
 * @streams: of the file
 * @access: that the reader is at
 *
 * Return: them; none where the access is not on the way of any stream.
 */
struct fm_passed fm_passed_by_streams(struct fm_streams *streams, const struct fr_access *access)
{
	const struct fr_streams *known = &streams->streams;
	struct fm_passed passed = { .nearest = FM_NO_PAGE }, found;
	u64 least = U64_MAX, pages;
	u32 own, count, number;
	bool is_known = false;

	spin_lock(&streams->lock);
	count = min_t(u32, known->count, FR_STREAMS);
	own = fr_stream_of(known, access->thread);
	if (own != 0 && own <= count) {
		least = fm_passed_of(&known->stream[own - 1], access, &passed);
		is_known = least != U64_MAX || fm_goes_back(&known->stream[own - 1], access);
	}
	for (number = 0; !is_known && number < count; number++) {
		pages = fm_passed_of(&known->stream[number], access, &found);
		if (pages >= least)
			continue;
		least = pages;
		passed = found;
	}
	spin_unlock(&streams->lock);
	return passed;
}

/**
 * fm_passed_end_within() - where a stream ends within an access
 * @streams: of the file
 * @access: a mark, told by the first page of its folio
 *
 * Return: the page behind a stream that goes up, behind the first page of the access and before its
 * end; 0 where there is none. The stream that the thread has read last comes first.
 */
u64 fm_passed_end_within(struct fm_streams *streams, const struct fr_access *access)
{
	const struct fr_streams *known = &streams->streams;
	u64 access_end = fr_add(access->index, access->req_pages), found = 0;
	u32 own, count, number;

	spin_lock(&streams->lock);
	count = min_t(u32, known->count, FR_STREAMS);
	own = fr_stream_of(known, access->thread);
	for (number = 0; number < count; number++) {
		const struct fr_stream *stream = &known->stream[number];

		if (stream->course != FR_COURSE_UP || stream->end <= access->index ||
		    stream->end >= access_end)
			continue;
		if (number + 1 == own || found == 0)
			found = stream->end;
	}
	spin_unlock(&streams->lock);
	return found;
}
