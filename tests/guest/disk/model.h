/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A modelled disk and its queue, in virtual time: crates/model in C, for the guests' kernels.
 *
 * Input: parameters, requests with their times of arrival, and the time now. Output: the requests
 * that are done, each with its time, and the time of the next event. The same requests give the
 * same times as in crates/model; crates/guest/tests/disk_model.rs holds both against each other.
 *
 * No libc, no allocation, no floats, no division of 128 bits. Times are in ns, and saturate.
 */
#ifndef FR_DISK_MODEL_H
#define FR_DISK_MODEL_H

/* Requests that are with the disk at most; the caller keeps to it. */
#define FR_DISK_QUEUE_MAX 128

typedef unsigned long long fr_u64;
typedef unsigned __int128 fr_u128;

enum fr_disk_kind {
	FR_DISK_HEAD,
	FR_DISK_PARALLEL,
	FR_DISK_INSTANT,
};

/* As DiskParameters of crates/model, without transfer_times. */
struct fr_disk_parameters {
	fr_u64 kind;
	fr_u64 capacity_bytes;
	fr_u64 bandwidth_bytes_per_s;
	fr_u64 latency_ns;
	fr_u64 parallel_requests;
	fr_u64 rate_requests_per_s;
	fr_u64 seek_min_ns;
	fr_u64 seek_span_ns;
	fr_u64 half_turn_ns;
	fr_u64 gap_limit_bytes;
	fr_u64 gap_ns;
	fr_u64 first_touch_bytes;
	fr_u64 first_touch_ns;
	/* At most FR_DISK_QUEUE_MAX of these. */
	fr_u64 first_touch_parallel_requests;
	fr_u64 first_touch_rate_requests_per_s;
};

struct fr_disk_request {
	fr_u64 id;
	fr_u64 offset_bytes;
	fr_u64 length_bytes;
	fr_u64 sequence;
	/* The end of this part of its service. */
	fr_u64 done_ns;
	/* Its bytes are on their way to the pipe, which they need for transfer_ns. */
	fr_u64 is_coming;
	fr_u64 transfer_ns;
};

struct fr_disk_counters {
	fr_u64 requests;
	fr_u64 bytes;
	fr_u64 busy_ns;
	fr_u64 seeks;
	fr_u64 gaps;
	fr_u64 first_touches;
};

/*
 * Blocks that are fetched from elsewhere when they are first read.
 *
 * @there_ns: of each block, 1 and when it is there; 0 if it was not touched. From the caller, all 0
 * @block_count: numbers in there_ns, for all blocks of the disk
 */
struct fr_disk_touches {
	fr_u64 *there_ns;
	fr_u64 block_count;
	fr_u64 allowed_ns;
	/* Ends of the last fetches, as many as run at once, from first_end on. */
	fr_u64 ends_ns[FR_DISK_QUEUE_MAX];
	unsigned int first_end;
	unsigned int end_count;
};

struct fr_disk {
	struct fr_disk_parameters parameters;
	struct fr_disk_counters counters;
	fr_u64 clock_ns;
	fr_u64 sequence;
	fr_u64 head_bytes;
	fr_u64 pipe_free_ns;
	fr_u64 start_allowed_ns;
	fr_u64 busy_since_ns;
	struct fr_disk_touches touches;
	unsigned int waiting_count;
	unsigned int served_count;
	unsigned int done_count;
	struct fr_disk_request waiting[FR_DISK_QUEUE_MAX];
	struct fr_disk_request served[FR_DISK_QUEUE_MAX];
	struct fr_disk_request done[FR_DISK_QUEUE_MAX];
};

#define FR_DISK_NEVER (~0ULL)

/* Limits of blocks: as in crates/model/src/first_touch.rs. */
#define FR_DISK_BLOCK_BYTES_MIN 4096ULL
#define FR_DISK_BLOCKS_MAX 1024

static inline fr_u64 fr_disk_add(fr_u64 a, fr_u64 b)
{
	return a + b < a ? FR_DISK_NEVER : a + b;
}

/* numerator / denominator, rounded down, by shifts: a kernel has no division of 128 bits. */
static inline fr_u128 fr_disk_divide(fr_u128 numerator, fr_u64 denominator)
{
	fr_u128 rest = 0, quotient = 0;
	int bit;

	for (bit = 127; bit >= 0; bit--) {
		rest = (rest << 1) | ((numerator >> bit) & 1);
		if (rest >= denominator) {
			rest -= denominator;
			quotient |= (fr_u128)1 << bit;
		}
	}
	return quotient;
}

/* The root of a value below 2^66, rounded down. */
static inline fr_u64 fr_disk_root(fr_u128 value)
{
	fr_u64 root = 0;
	int bit;

	for (bit = 32; bit >= 0; bit--) {
		fr_u64 tried = root | (1ULL << bit);

		if ((fr_u128)tried * tried <= value)
			root = tried;
	}
	return root;
}

static inline fr_u64 fr_disk_transfer_ns(const struct fr_disk *disk, fr_u64 bytes)
{
	fr_u64 bandwidth = disk->parameters.bandwidth_bytes_per_s;
	fr_u128 ns;

	bandwidth = bandwidth ? bandwidth : 1;
	ns = fr_disk_divide((fr_u128)bytes * 1000000000ULL + (bandwidth - 1), bandwidth);
	return ns > FR_DISK_NEVER ? FR_DISK_NEVER : (fr_u64)ns;
}

static inline fr_u64 fr_disk_seek_ns(const struct fr_disk *disk, fr_u64 distance_bytes)
{
	const struct fr_disk_parameters *parameters = &disk->parameters;
	fr_u64 capacity = parameters->capacity_bytes ? parameters->capacity_bytes : 1;
	fr_u64 distance = distance_bytes < capacity ? distance_bytes : capacity;
	fr_u64 root = fr_disk_root(fr_disk_divide((fr_u128)distance << 64, capacity));
	fr_u128 span = ((fr_u128)parameters->seek_span_ns * root) >> 32;
	fr_u64 ns = span > FR_DISK_NEVER ? FR_DISK_NEVER : (fr_u64)span;

	return fr_disk_add(fr_disk_add(ns, parameters->seek_min_ns), parameters->half_turn_ns);
}

static inline fr_u64 fr_disk_distance(fr_u64 a, fr_u64 b)
{
	return a > b ? a - b : b - a;
}

/* Moves the head; returns how long that takes. */
static inline fr_u64 fr_disk_position(struct fr_disk *disk, fr_u64 offset_bytes)
{
	if (offset_bytes == disk->head_bytes)
		return 0;
	if (offset_bytes > disk->head_bytes &&
	    offset_bytes - disk->head_bytes < disk->parameters.gap_limit_bytes) {
		disk->counters.gaps++;
		return fr_disk_add(fr_disk_transfer_ns(disk, offset_bytes - disk->head_bytes),
				   disk->parameters.gap_ns);
	}
	disk->counters.seeks++;
	return fr_disk_seek_ns(disk, fr_disk_distance(offset_bytes, disk->head_bytes));
}

/* The time between two starts at so many a second; 0 is no cap. */
static inline fr_u64 fr_disk_pace_ns(fr_u64 per_s)
{
	return per_s ? (fr_u64)fr_disk_divide((fr_u128)1000000000ULL + (per_s - 1), per_s) : 0;
}

/* Size of the blocks that are fetched. */
static inline fr_u64 fr_disk_block_bytes(const struct fr_disk_parameters *parameters)
{
	fr_u64 bytes = parameters->first_touch_bytes;

	return bytes < FR_DISK_BLOCK_BYTES_MIN ? FR_DISK_BLOCK_BYTES_MIN : bytes;
}

/* Begins a fetch now or as soon as the others allow it; returns its end. */
static inline fr_u64 fr_disk_fetch(struct fr_disk *disk)
{
	const struct fr_disk_parameters *parameters = &disk->parameters;
	struct fr_disk_touches *touches = &disk->touches;
	fr_u64 at_once = parameters->first_touch_parallel_requests;
	fr_u64 start_ns = disk->clock_ns, end_ns;

	if (start_ns < touches->allowed_ns)
		start_ns = touches->allowed_ns;
	at_once = at_once ? at_once : 1;
	if (touches->end_count >= at_once || touches->end_count == FR_DISK_QUEUE_MAX) {
		if (start_ns < touches->ends_ns[touches->first_end])
			start_ns = touches->ends_ns[touches->first_end];
		touches->first_end = (touches->first_end + 1) % FR_DISK_QUEUE_MAX;
		touches->end_count--;
	}
	touches->allowed_ns =
		fr_disk_add(start_ns, fr_disk_pace_ns(parameters->first_touch_rate_requests_per_s));
	end_ns = fr_disk_add(start_ns, parameters->first_touch_ns);
	touches->ends_ns[(touches->first_end + touches->end_count++) % FR_DISK_QUEUE_MAX] = end_ns;
	return end_ns;
}

/* Returns when the blocks of a request are there. */
static inline fr_u64 fr_disk_touch(struct fr_disk *disk, const struct fr_disk_request *request)
{
	struct fr_disk_touches *touches = &disk->touches;
	fr_u64 block_bytes = fr_disk_block_bytes(&disk->parameters);
	fr_u64 length_bytes = request->length_bytes ? request->length_bytes : 1;
	fr_u64 block = request->offset_bytes / block_bytes;
	fr_u64 last = fr_disk_add(request->offset_bytes, length_bytes - 1) / block_bytes;
	fr_u64 there_ns = disk->clock_ns;
	unsigned int i;

	for (i = 0; i < FR_DISK_BLOCKS_MAX && block <= last && block < touches->block_count;
	     i++, block++) {
		if (!touches->there_ns[block]) {
			touches->there_ns[block] = fr_disk_add(1, fr_disk_fetch(disk));
			disk->counters.first_touches++;
		}
		if (there_ns < touches->there_ns[block] - 1)
			there_ns = touches->there_ns[block] - 1;
	}
	return there_ns;
}

/* Sends bytes that are ready at `ready_ns` through the pipe; returns when they are out of it. */
static inline fr_u64 fr_disk_pipe(struct fr_disk *disk, fr_u64 ready_ns, fr_u64 transfer_ns)
{
	if (disk->pipe_free_ns < ready_ns)
		disk->pipe_free_ns = ready_ns;
	disk->pipe_free_ns = fr_disk_add(disk->pipe_free_ns, transfer_ns);
	return disk->pipe_free_ns;
}

/* Takes a request into service; returns when the first part of that ends. */
static inline fr_u64 fr_disk_serve(struct fr_disk *disk, struct fr_disk_request *request)
{
	const struct fr_disk_parameters *parameters = &disk->parameters;
	fr_u64 transfer_ns, position_ns, ready_ns, there_ns;

	if (parameters->kind == FR_DISK_INSTANT)
		return disk->clock_ns;
	transfer_ns = fr_disk_transfer_ns(disk, request->length_bytes);
	if (parameters->kind == FR_DISK_HEAD) {
		position_ns = fr_disk_position(disk, request->offset_bytes);
		disk->head_bytes = fr_disk_add(request->offset_bytes, request->length_bytes);
		return fr_disk_add(fr_disk_add(disk->clock_ns, position_ns), transfer_ns);
	}
	disk->start_allowed_ns =
		fr_disk_add(disk->clock_ns, fr_disk_pace_ns(parameters->rate_requests_per_s));
	ready_ns = fr_disk_add(disk->clock_ns, parameters->latency_ns);
	if (!parameters->first_touch_bytes)
		return fr_disk_pipe(disk, ready_ns, transfer_ns);
	there_ns = fr_disk_touch(disk, request);
	request->is_coming = 1;
	request->transfer_ns = transfer_ns;
	return ready_ns < there_ns ? there_ns : ready_ns;
}

static inline int fr_disk_has_slot(const struct fr_disk *disk)
{
	const struct fr_disk_parameters *parameters = &disk->parameters;
	fr_u64 slots = FR_DISK_NEVER;

	if (parameters->kind == FR_DISK_HEAD)
		slots = 1;
	else if (parameters->kind == FR_DISK_PARALLEL)
		slots = parameters->parallel_requests ? parameters->parallel_requests : 1;
	return disk->served_count < slots;
}

/* The waiting request to serve next: the nearest to the head, or the first that came. */
static inline unsigned int fr_disk_pick(const struct fr_disk *disk)
{
	unsigned int best = 0, i;

	for (i = 1; i < disk->waiting_count; i++) {
		const struct fr_disk_request *a = &disk->waiting[i], *b = &disk->waiting[best];
		fr_u64 of_a = 0, of_b = 0;

		if (disk->parameters.kind == FR_DISK_HEAD) {
			of_a = fr_disk_distance(a->offset_bytes, disk->head_bytes);
			of_b = fr_disk_distance(b->offset_bytes, disk->head_bytes);
		}
		if (of_a < of_b || (of_a == of_b && a->sequence < b->sequence))
			best = i;
	}
	return best;
}

static inline void fr_disk_start(struct fr_disk *disk)
{
	while (disk->waiting_count && fr_disk_has_slot(disk) &&
	       disk->clock_ns >= disk->start_allowed_ns) {
		unsigned int at = fr_disk_pick(disk);
		struct fr_disk_request request = disk->waiting[at];

		disk->waiting[at] = disk->waiting[--disk->waiting_count];
		if (!disk->served_count)
			disk->busy_since_ns = disk->clock_ns;
		request.done_ns = fr_disk_serve(disk, &request);
		disk->served[disk->served_count++] = request;
	}
}

/* The request in service that is done first; of several, the one that came first. */
static inline unsigned int fr_disk_first_done(const struct fr_disk *disk)
{
	unsigned int best = 0, i;

	for (i = 1; i < disk->served_count; i++) {
		const struct fr_disk_request *a = &disk->served[i], *b = &disk->served[best];

		if (a->done_ns < b->done_ns ||
		    (a->done_ns == b->done_ns && a->sequence < b->sequence))
			best = i;
	}
	return best;
}

static inline void fr_disk_finish(struct fr_disk *disk)
{
	while (disk->served_count) {
		unsigned int at = fr_disk_first_done(disk);
		struct fr_disk_request request = disk->served[at];

		if (request.done_ns > disk->clock_ns)
			return;
		if (request.is_coming) {
			disk->served[at].is_coming = 0;
			disk->served[at].done_ns =
				fr_disk_pipe(disk, request.done_ns, request.transfer_ns);
			continue;
		}
		disk->served[at] = disk->served[--disk->served_count];
		disk->done[disk->done_count++] = request;
		if (!disk->served_count)
			disk->counters.busy_ns += request.done_ns - disk->busy_since_ns;
	}
}

static inline fr_u64 fr_disk_next_internal_ns(const struct fr_disk *disk)
{
	fr_u64 next = FR_DISK_NEVER, start = disk->start_allowed_ns;

	if (disk->served_count)
		next = disk->served[fr_disk_first_done(disk)].done_ns;
	if (start < disk->clock_ns)
		start = disk->clock_ns;
	if (disk->waiting_count && fr_disk_has_slot(disk) && start < next)
		next = start;
	return next;
}

/* Lets time pass. Events between two calls happen at their own times. */
static inline void fr_disk_run(struct fr_disk *disk, fr_u64 now_ns)
{
	for (;;) {
		fr_u64 event_ns;

		fr_disk_start(disk);
		event_ns = fr_disk_next_internal_ns(disk);
		if (event_ns == FR_DISK_NEVER ||
		    event_ns > (now_ns > disk->clock_ns ? now_ns : disk->clock_ns))
			break;
		if (disk->clock_ns < event_ns)
			disk->clock_ns = event_ns;
		fr_disk_finish(disk);
	}
	if (disk->clock_ns < now_ns)
		disk->clock_ns = now_ns;
}

/* Hands the disk a request. The caller has made sure that fewer than FR_DISK_QUEUE_MAX are with it.
 */
static inline void fr_disk_submit(struct fr_disk *disk, fr_u64 now_ns, fr_u64 id,
				  fr_u64 offset_bytes, fr_u64 length_bytes)
{
	struct fr_disk_request *request;

	fr_disk_run(disk, now_ns);
	request = &disk->waiting[disk->waiting_count++];
	request->id = id;
	request->offset_bytes = offset_bytes;
	request->length_bytes = length_bytes;
	request->sequence = disk->sequence++;
	request->done_ns = 0;
	request->is_coming = 0;
	request->transfer_ns = 0;
	disk->counters.requests++;
	disk->counters.bytes = fr_disk_add(disk->counters.bytes, length_bytes);
	fr_disk_run(disk, now_ns);
}

/* Numbers that a disk of this size needs in touches.there_ns. */
static inline fr_u64 fr_disk_block_count(const struct fr_disk *disk, fr_u64 size_bytes)
{
	if (disk->parameters.kind != FR_DISK_PARALLEL || !disk->parameters.first_touch_bytes)
		return 0;
	return size_bytes / fr_disk_block_bytes(&disk->parameters) + 1;
}

/* When the disk next does something by itself; FR_DISK_NEVER when it has nothing to do. */
static inline fr_u64 fr_disk_next_ns(const struct fr_disk *disk)
{
	return disk->done_count ? disk->done[0].done_ns : fr_disk_next_internal_ns(disk);
}

#endif
