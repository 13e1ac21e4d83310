// SPDX-License-Identifier: GPL-2.0-only
/*
 * Calls the core, under the locks that its states need.
 *
 * Input: a call with access, limits and the state before. Output: the same with the decision and
 * the state after, and a record of each call of the core.
 *
 * Locks, outer ones first: that of a file's streams, that of a device, that of the budget. They are
 * held for one call of the core; the latter two with interrupts off, since one tells a device of
 * the end of a request (costs.c). The call has a copy of the core's input, made before, for the
 * record.
 */
#include <linux/fs.h>
#include <linux/spinlock.h>
#include <linux/timekeeping.h>

#include "ask.h"
#include "decide.h"
#include "device.h"
#include "near.h"
#include "record.h"
#include "stream_table.h"

/* The memory that all streams share. */
static struct fr_budget fm_budget;
static DEFINE_RAW_SPINLOCK(fm_budget_lock);

/*
 * Answers what the policy wants to know of the page cache. Never under a raw lock: the last
 * reference to a folio may be given back here, and freeing a folio may sleep on the real-time
 * flavour.
 */
static void fm_look_near(struct fm_call *call)
{
	u64 begin_ns = ktime_get_mono_fast_ns();
	struct fr_wants wants;

	fr_wants(call->policy, &call->before, &call->access, &call->limits, &wants);
	fm_near_fill(call->ractl->mapping, call->access.index, &wants, &call->near);
	call->core_ns = ktime_get_mono_fast_ns() - begin_ns;
}

/* Adds the time that it takes to that of the look at the page cache; waits for locks are apart. */
static noinline void fm_decide_with(struct fm_call *call, struct fr_streams *streams,
				    struct fr_device *costs, struct fr_budget *budget)
{
	u64 begin_ns = ktime_get_mono_fast_ns();
	struct fr_call core = {
		.state = &call->after,
		.access = &call->access,
		.near = &call->near,
		.limits = &call->limits,
		.streams = streams,
		.device = costs,
		.budget = budget,
	};

	call->after = call->before;
	fr_decide(call->policy, &core, &call->made);
	call->core_ns += ktime_get_mono_fast_ns() - begin_ns;
}

static void fm_tell_events(struct fm_call *call, u32 events)
{
	if (events & FM_THRASHED)
		fr_feedback(call->policy, &call->before, FR_FEEDBACK_THRASHED, 1);
	if (events & FM_LATE)
		fr_feedback(call->policy, &call->before, FR_FEEDBACK_LATE, 1);
}

/**
 * fm_ask() - asks a policy without streams
 * @call: the decision is filled in
 * @events: FM_THRASHED and FM_LATE
 */
void fm_ask(struct fm_call *call, u32 events)
{
	fm_tell_events(call, events);
	fm_look_near(call);
	fm_decide_with(call, NULL, NULL, NULL);
	fm_device_count_call(call->device, call->core_ns);
}

static void fm_ask_costs(struct fm_call *call, struct fm_streams *streams)
{
	struct fr_device *costs = fm_device_costs(call->device, call->ractl->mapping);

	call->knows_costs = costs != NULL;
	call->knows_budget = true;
	if (costs)
		call->costs = *costs;
	raw_spin_lock(&fm_budget_lock);
	call->budget = fm_budget;
	fm_decide_with(call, &streams->streams, costs, &fm_budget);
	raw_spin_unlock(&fm_budget_lock);
}

/* What the kernel keeps itself is fresh in the call; the rest is the streams' own. */
static void fm_join_state(struct fm_call *call, const struct fr_state *kept)
{
	struct fr_state fresh = call->before;

	call->before = *kept;
	call->before.prev_end_bytes = fresh.prev_end_bytes;
	call->before.ra_pages = fresh.ra_pages;
	call->before.mmap_miss = fresh.mmap_miss;
	call->before.flags &= 0xffU & ~FR_STATE_RANDOM;
	call->before.flags |= fresh.flags & FR_STATE_RANDOM;
}

/*
 * The pages ahead of the stream that the thread has read last. The thread may seem to have left
 * that stream: a read in a large folio seems to go back where its start isn't known. Without a
 * mark, the stream would not be told of before it misses.
 */
static struct fm_ahead fm_ahead_of(const struct fr_streams *streams, u32 thread)
{
	u32 own = fr_stream_of(streams, thread);
	const struct fr_stream *stream;

	if (own == 0 || own > streams->count)
		return (struct fm_ahead){};
	stream = &streams->stream[(own - 1) & (FR_STREAMS - 1)];
	if (stream->course == FR_COURSE_UP && stream->ahead > stream->end)
		return (struct fm_ahead){ stream->end, stream->ahead, stream->ask_pages, false };
	if (stream->course == FR_COURSE_DOWN && stream->ahead < stream->end)
		return (struct fm_ahead){ stream->ahead, stream->end, stream->ask_pages, true };
	return (struct fm_ahead){};
}

/**
 * fm_ask_streams() - asks a policy that remembers the streams of a file
 * @call: with what the kernel keeps of the file in its state; the decision is filled in
 * @streams: of the file
 * @events: FM_THRASHED and FM_LATE
 */
void fm_ask_streams(struct fm_call *call, struct fm_streams *streams, u32 events)
{
	unsigned long irq;

	spin_lock(&streams->lock);
	if (streams->events == 0)
		fr_open(&streams->state, &call->limits);
	fm_join_state(call, &streams->state);
	call->streams_id = streams->id;
	fm_tell_events(call, events);
	fm_look_near(call);
	if (call->policy == FR_FOREREAD) {
		raw_spin_lock_irqsave(&call->device->lock, irq);
		fm_ask_costs(call, streams);
		raw_spin_unlock_irqrestore(&call->device->lock, irq);
		call->ahead = fm_ahead_of(&streams->streams, call->access.thread);
	} else {
		fm_decide_with(call, &streams->streams, NULL, NULL);
	}
	fm_device_count_call(call->device, call->core_ns);
	streams->state = call->after;
	call->event = ++streams->events;
	spin_unlock(&streams->lock);
}

/**
 * fm_tell_waited() - this thread has waited for a page, and has it
 * @streams: of the file, under `foreread`
 * @device: that was read, or NULL where it has no name
 * @waited_ns: how long
 * @was_asked: whether the page was on its way when the thread came to it
 */
void fm_tell_waited(struct fm_streams *streams, struct fm_device *device, u64 waited_ns,
		    bool was_asked)
{
	struct fr_access access = { .thread = (u32)current->pid };
	struct fr_call core = {
		.state = &streams->state,
		.access = &access,
		.streams = &streams->streams,
	};
	struct fr_device costs;
	unsigned long irq;
	u64 event;

	spin_lock(&streams->lock);
	if (device) {
		raw_spin_lock_irqsave(&device->lock, irq);
		core.device = device->has_costs ? &device->costs : NULL;
		costs = device->costs;
	}
	fr_waited(FR_FOREREAD, &core, waited_ns, was_asked);
	if (device)
		raw_spin_unlock_irqrestore(&device->lock, irq);
	event = ++streams->events;
	spin_unlock(&streams->lock);
	trace_waited(FR_FOREREAD, streams->id, event, access.thread, waited_ns, was_asked,
		     core.device ? &costs : NULL);
}

/**
 * fm_tell_issued() - the windows of a decision are being read
 * @call: the decision
 * @streams: of the file
 * @pages: of the windows
 * @read_pages: how many of them were not cached
 */
void fm_tell_issued(const struct fm_call *call, struct fm_streams *streams, u64 pages,
		    u64 read_pages)
{
	u64 event;

	spin_lock(&streams->lock);
	fr_issued(call->policy, &streams->streams, call->access.thread, pages, read_pages);
	event = ++streams->events;
	spin_unlock(&streams->lock);
	trace_issued(call->policy, streams->id, event, call->access.thread, pages, read_pages);
}
