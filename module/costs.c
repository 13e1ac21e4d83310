// SPDX-License-Identifier: GPL-2.0-only
/*
 * Measures the costs of a disk: a time for each request, and a time for each page.
 *
 * Input: the reads that the block layer issues to disks, and their completions. Output: the costs
 * of each device that has the policy `foreread` and is on that disk. Reads of all programs count,
 * the kernel's own as well.
 *
 * A read is followed from its issue to its completion. One that finds no place isn't measured. The
 * completion of a read is missed where the disk is reset, or the device has another policy
 * meanwhile. Such reads are forgotten. Devices without requests, those
 * of the device mapper and of md, are not measured, nor are the disks below them for their sake.
 */
#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/hash.h>
#include <linux/kernel.h>
#include <linux/log2.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/time64.h>
#include <linux/timekeeping.h>

#include "costs.h"
#include "device.h"
#include "tracepoints.h"

/* Places that are looked at for a request. */
#define FM_FLIGHT_TRIES 8U
/* After so long without any request of a busy disk, those under way are not coming back. */
#define FM_FLIGHTS_LOST_NS (10 * (u64)NSEC_PER_SEC)
/* The core counts pages of 4 KiB, whatever those of the processor are. */
#define FM_PAGE_SHIFT 12

/* The place of a request, or where it is NULL a free one for @at; NULL where there is none. */
static struct fm_flight *fm_flight_find(struct fm_flights *flights, const struct request *request,
					const struct request *at)
{
	u32 hash = hash_ptr((void *)at, ilog2(FM_FLIGHTS));
	u32 try;

	for (try = 0; try < FM_FLIGHT_TRIES; try++) {
		struct fm_flight *flight = &flights->flight[(hash + try) & (FM_FLIGHTS - 1)];

		if (flight->request == request)
			return flight;
	}
	return NULL;
}

static void fm_flights_begin(struct fm_device *device, u64 now_ns)
{
	struct fm_flights *flights = &device->flights;
	u32 epoch = READ_ONCE(device->epoch);
	bool are_lost = flights->count && now_ns - flights->moved_ns > FM_FLIGHTS_LOST_NS;

	if (are_lost || flights->epoch != epoch)
		memset(flights, 0, sizeof(*flights));
	flights->epoch = epoch;
	flights->moved_ns = now_ns;
}

static void fm_issued_to(struct fm_device *device, const struct request *request, u32 bytes)
{
	struct fm_flights *flights = &device->flights;
	u64 now_ns = ktime_get_ns();
	struct fm_flight *flight = NULL;
	unsigned long irq;

	raw_spin_lock_irqsave(&device->lock, irq);
	fm_flights_begin(device, now_ns);
	/* It may be issued again, after the disk was too busy to take it. */
	if (!fm_flight_find(flights, request, request))
		flight = fm_flight_find(flights, NULL, request);
	if (flight) {
		flight->request = request;
		/* 0 where nobody keeps statistics of the disk. */
		flight->begin_ns = request->start_time_ns ? request->start_time_ns : now_ns;
		flight->is_first = flights->count++ == 0;
		flight->is_next = blk_rq_pos(request) == flights->end_sector;
	}
	flights->end_sector = blk_rq_pos(request) + blk_rq_sectors(request);
	raw_spin_unlock_irqrestore(&device->lock, irq);
}

static void fm_completed_by(struct fm_device *device, const struct request *request, u32 bytes)
{
	struct fm_flights *flights = &device->flights;
	struct fr_done done = { .now_ns = ktime_get_ns(), .pages = bytes >> FM_PAGE_SHIFT };
	struct fm_flight *flight;
	unsigned long irq;

	raw_spin_lock_irqsave(&device->lock, irq);
	fm_flights_begin(device, done.now_ns);
	flight = fm_flight_find(flights, request, request);
	if (flight) {
		flights->count--;
		done.took_ns = done.now_ns - min(flight->begin_ns, done.now_ns);
		done.first = flight->is_first;
		done.next = flight->is_next;
		done.left = flights->count > 0;
		flight->request = NULL;
		/* A read that failed is told with 0 bytes, and says nothing of its cost. */
		if (bytes)
			fr_device_done(&device->costs, &done);
	}
	raw_spin_unlock_irqrestore(&device->lock, irq);
}

static bool fm_is_measured(const struct request *request)
{
	return fm_devices_are_measured() && req_op(request) == REQ_OP_READ && request->q->disk;
}

static void fm_on_issue(void *data, struct request *request)
{
	if (fm_is_measured(request))
		fm_devices_each_on(disk_devt(request->q->disk), fm_issued_to, request, 0);
}

static void fm_on_complete(void *data, struct request *request, blk_status_t status,
			   unsigned int bytes)
{
	if (fm_is_measured(request))
		fm_devices_each_on(disk_devt(request->q->disk), fm_completed_by, request,
				   status == BLK_STS_OK ? bytes : 0);
}

static struct fm_tracepoint fm_costs_tracepoints[] = {
	{ .name = "block_rq_issue", .probe = fm_on_issue },
	{ .name = "block_rq_complete", .probe = fm_on_complete },
};

/**
 * fm_costs_add() - begins to measure
 *
 * Return: 0, or a negative error after a line in the log.
 */
int fm_costs_add(void)
{
	return fm_tracepoints_add(fm_costs_tracepoints, ARRAY_SIZE(fm_costs_tracepoints),
				  "what requests cost can't be measured");
}

/* Ends it. No thread is in a probe behind that. Sleeps. */
void fm_costs_remove(void)
{
	fm_tracepoints_remove(fm_costs_tracepoints, ARRAY_SIZE(fm_costs_tracepoints));
}
