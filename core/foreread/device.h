/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a device costs, as measured on its own requests: so long for a request of
 * any size, so long for each page of it.
 *
 * A request of n pages that finds the device idle takes latency + n * page_ns. The
 * line through such requests is found by least squares over moving averages, which
 * need no history; what a busy device delivers corrects it. From the two follows how many pages
 * cost as much as a request (fr_device_even_pages()), the one number by which a policy can weigh a
 * page too many against a request more: 7 on a slow USB stick, 33 on an NVMe drive, 350 on a hard
 * disk, where a request is a seek.
 */
#ifndef FOREREAD_DEVICE_H
#define FOREREAD_DEVICE_H

#include "runs.h"

/* The averages give a new request a weight of 1/16. */
#define FR_DEVICE_WEIGHT 4U
/* Fractional bits of the averages, so that small requests are not rounded away. */
#define FR_DEVICE_FRACTION 8U
/* Times are averaged in units of 64 ns: their products with pages stay below 2^62. */
#define FR_DEVICE_TIME 6U
#define FR_DEVICE_PAGES_MAX 0xffffU
#define FR_DEVICE_TOOK_NS_MAX 0xfffffffffULL /* 68 s */
/* Requests that must have been seen before the line through them is believed. */
#define FR_DEVICE_REQUESTS_MIN 4U
/* Pages and requests in a row that make a measurement of a busy device. */
#define FR_DEVICE_BUSY_PAGES 64U
#define FR_DEVICE_BUSY_REQUESTS 4U
/* Where nothing is known: the kernel's default window, and a request of 1 ms. */
#define FR_DEVICE_EVEN_PAGES 32U
#define FR_DEVICE_LATENCY_NS 1000000U
/* No device is taken to be better or worse than this. */
#define FR_DEVICE_EVEN_PAGES_MIN 4U
#define FR_DEVICE_EVEN_PAGES_MAX 1024U
/* Threads whose run from the start of a file is followed; a power of two. */
#define FR_DEVICE_STARTS 16U

/**
 * struct fr_start - a run from the start of a file
 * @thread: whose
 * @pages: how long it is; 0 means none
 */
struct fr_start {
	fr_u32 thread;
	fr_u32 pages;
};

/**
 * struct fr_done - a request of a device that is done
 * @now_ns: when
 * @took_ns: from asking to having
 * @pages: its size
 * @first: whether the device had nothing to do when it came
 * @left: whether the device has something to do still
 * @next: whether it starts where the request before it ended
 * @reserved: 0
 */
struct fr_done {
	fr_u64 now_ns;
	fr_u64 took_ns;
	fr_u32 pages;
	fr_u8 first;
	fr_u8 left;
	fr_u8 next;
	fr_u8 reserved;
};

/**
 * struct fr_device - what was measured of a device, and of the files on it
 * @pages: average pages of a request, with 8 fractional bits
 * @took: average time, in 64 ns, with 8 fractional bits
 * @square: average of the squares of pages, with 8 fractional bits
 * @product: average of the products of pages and time, with 8 fractional bits
 * @latency_ns: time of a request without its pages
 * @next_ns: the same of one that goes on where the one before it ended, which spares a
 *	disk the seek
 * @page_ns: time of a page
 * @line_ns: the same, by the line through requests alone; 0 means unknown
 * @busy_ns: at most that: the least that a page took of a request, or of what a busy
 *	device delivers; 0 means unknown
 * @busy_since_ns: since when it is busy, as far as it is measured; 0 means it is not
 * @load_ns: time for a page while it is busy, of late, whatever it is busy with
 * @demand_ns: how long readers wait, of late, for what nobody had asked for ahead
 * @wait_ns: average time from asking to having, with all that was queued before
 * @busy_pages: pages delivered since @busy_since_ns
 * @busy_requests: requests since then
 * @requests: seen that found the device idle; stops counting at its maximum
 * @asks: times that something was asked of it; wraps
 * @demand_thread: who waited so last
 * @reserved: 0
 * @starts: how long runs from the start of a file are
 * @start: those under way, by the low bits of the thread
 *
 * All zero bytes is a device of which nothing is known.
 */
struct fr_device {
	fr_u64 pages;
	fr_u64 took;
	fr_u64 square;
	fr_u64 product;
	fr_u64 latency_ns;
	fr_u64 next_ns;
	fr_u64 page_ns;
	fr_u64 line_ns;
	fr_u64 busy_ns;
	fr_u64 busy_since_ns;
	fr_u64 load_ns;
	fr_u64 demand_ns;
	fr_u64 wait_ns;
	fr_u32 busy_pages;
	fr_u32 busy_requests;
	fr_u32 requests;
	fr_u32 asks;
	fr_u32 demand_thread;
	fr_u32 reserved;
	struct fr_runs starts;
	struct fr_start start[FR_DEVICE_STARTS];
};

_Static_assert(sizeof(struct fr_done) == 24, "no hidden padding");
_Static_assert(sizeof(struct fr_device) == 288, "no hidden padding");

FR_INLINE void fr_device_line(struct fr_device *device)
{
	fr_u64 mean = device->pages;
	fr_u64 spread = fr_sub(device->square, fr_mul(mean, fr_u32_of(mean)) >> FR_DEVICE_FRACTION);
	fr_u64 both = fr_mul(device->took, fr_u32_of(mean)) >> FR_DEVICE_FRACTION;
	fr_u64 page_ns;

	/*
	 * Requests of about one size say nothing about pages, and noise may even tilt the line:
	 * their sizes must differ by a quarter of the mean.
	 */
	if (device->requests < FR_DEVICE_REQUESTS_MIN || spread < 1U << FR_DEVICE_FRACTION ||
	    spread < fr_mul(mean, fr_u32_of(mean)) >> (FR_DEVICE_FRACTION + 4) ||
	    device->product <= both) {
		device->line_ns = 0;
		return;
	}
	page_ns = fr_div(fr_mul(fr_sub(device->product, both), 1U << FR_DEVICE_TIME), spread);
	device->line_ns = fr_clamp(page_ns, 1, FR_DEVICE_TOOK_NS_MAX);
}

/*
 * While a device has more to do, what it delivers is as much as it can, or less: so its
 * time for a page is at most what is measured then.
 */
FR_INLINE void fr_device_busy(struct fr_device *device, const struct fr_done *done)
{
	fr_u64 page_ns;

	if (device->busy_since_ns == 0) {
		if (done->left)
			device->busy_since_ns = done->now_ns;
		device->busy_pages = 0;
		device->busy_requests = 0;
		return;
	}
	device->busy_pages = fr_u32_of((fr_u64)device->busy_pages + done->pages);
	device->busy_requests = fr_u32_of((fr_u64)device->busy_requests + 1);
	if (device->busy_pages >= FR_DEVICE_BUSY_PAGES &&
	    device->busy_requests >= FR_DEVICE_BUSY_REQUESTS) {
		page_ns = fr_div(fr_sub(done->now_ns, device->busy_since_ns), device->busy_pages);
		page_ns = fr_clamp(page_ns, 1, FR_DEVICE_TOOK_NS_MAX);
		device->load_ns = device->load_ns == 0 ? page_ns :
							 fr_average(device->load_ns, page_ns, 2);
		/* Better is believed at once, worse may be the load. */
		if (device->busy_ns == 0 || page_ns < device->busy_ns)
			device->busy_ns = page_ns;
		else
			device->busy_ns = fr_average(device->busy_ns, page_ns, 6);
		device->busy_since_ns = done->now_ns;
		device->busy_pages = 0;
		device->busy_requests = 0;
	}
	if (!done->left)
		device->busy_since_ns = 0;
}

/**
 * fr_device_done() - a request of the device is done
 * @device: to learn
 * @done: which
 */
FR_INLINE void fr_device_done(struct fr_device *device, const struct fr_done *done)
{
	fr_u64 size = fr_min(done->pages, FR_DEVICE_PAGES_MAX);
	fr_u64 took = fr_min(done->took_ns, FR_DEVICE_TOOK_NS_MAX);
	fr_u32 share = FR_DEVICE_WEIGHT;
	fr_u64 mean;

	device->wait_ns = device->wait_ns == 0 ? took : fr_average(device->wait_ns, took, 3);
	fr_device_busy(device, done);
	if (done->first && done->next && size != 0) {
		mean = fr_sub(took, fr_mul(size, fr_u32_of(device->page_ns)));
		device->next_ns = device->next_ns == 0 ? mean + 1 :
							 fr_average(device->next_ns, mean, 3);
	} else if (done->first && size != 0) {
		device->requests = fr_u32_of((fr_u64)device->requests + 1);
		/* The first ones weigh as much as all before them: a plain average. */
		if (device->requests <= 1U << FR_DEVICE_WEIGHT)
			share = fr_log2(device->requests);
		took >>= FR_DEVICE_TIME;
		device->pages = fr_average(device->pages, size << FR_DEVICE_FRACTION, share);
		device->took = fr_average(device->took, took << FR_DEVICE_FRACTION, share);
		device->square =
			fr_average(device->square, size * size << FR_DEVICE_FRACTION, share);
		device->product =
			fr_average(device->product, size * took << FR_DEVICE_FRACTION, share);
		fr_device_line(device);
	}
	/* A request takes at least its pages' time. */
	took = fr_clamp(fr_div(fr_min(done->took_ns, FR_DEVICE_TOOK_NS_MAX), size), 1,
			FR_DEVICE_TOOK_NS_MAX);
	if (size != 0 && (device->busy_ns == 0 || took < device->busy_ns))
		device->busy_ns = took;
	device->page_ns = device->line_ns;
	/* Where no line can be drawn, requests are taken to cost the default's pages. */
	if (device->page_ns == 0 || device->page_ns > device->busy_ns)
		device->page_ns =
			fr_div(fr_mul(device->took, 1U << FR_DEVICE_TIME),
			       fr_add(device->pages, FR_DEVICE_EVEN_PAGES << FR_DEVICE_FRACTION));
	if (device->busy_ns != 0)
		device->page_ns = fr_min(device->page_ns, device->busy_ns);
	mean = fr_mul(device->pages, fr_u32_of(device->page_ns)) >> FR_DEVICE_FRACTION;
	device->latency_ns =
		fr_sub(fr_mul(device->took, 1U << FR_DEVICE_TIME) >> FR_DEVICE_FRACTION, mean);
}

/**
 * fr_device_even_pages() - how many pages cost as much as a request
 * @device: 0 or without measurements: the kernel's default window
 * @alone: how likely the request goes on where the one before it ended, of 256
 *
 * Return: 4 to 1024.
 */
FR_INLINE fr_u32 fr_device_even_pages(const struct fr_device *device, fr_u32 alone)
{
	fr_u64 latency_ns, next_ns;

	if (!device || device->page_ns == 0)
		return FR_DEVICE_EVEN_PAGES;
	latency_ns = device->latency_ns;
	next_ns = device->next_ns == 0 ? latency_ns : fr_min(device->next_ns, latency_ns);
	alone = (fr_u32)fr_min(alone, 256);
	latency_ns = fr_sub(latency_ns, fr_mul(fr_sub(latency_ns, next_ns), alone) >> 8);
	return (fr_u32)fr_clamp(fr_div(latency_ns, device->page_ns), FR_DEVICE_EVEN_PAGES_MIN,
				FR_DEVICE_EVEN_PAGES_MAX);
}

/*
 * Whether larger requests would make the device faster: that is not known yet, or it takes an
 * eighth longer for a page than it would if it did nothing but transfer.
 */
FR_INLINE fr_u32 fr_device_strained(const struct fr_device *device)
{
	return !device || device->line_ns == 0 || device->load_ns == 0 ||
	       device->load_ns > fr_add(device->page_ns, device->page_ns / 8);
}

/* Whether other threads than this wait long behind what is read ahead: twice a request's time. */
FR_INLINE fr_u32 fr_device_crowded(const struct fr_device *device, fr_u32 thread)
{
	return device && device->latency_ns != 0 && device->demand_thread != thread &&
	       device->demand_ns / 2 > device->latency_ns;
}

/**
 * fr_device_waited() - a reader waited for a page that nobody had asked for ahead
 * @device: to learn
 * @waited_ns: how long
 * @thread: who
 */
FR_INLINE void fr_device_waited(struct fr_device *device, fr_u64 waited_ns, fr_u32 thread)
{
	device->demand_ns =
		fr_average(device->demand_ns, fr_min(waited_ns, FR_DEVICE_TOOK_NS_MAX), 3);
	device->demand_thread = thread;
}

/* How long asking takes at present. */
FR_INLINE fr_u64 fr_device_wait_ns(const struct fr_device *device)
{
	if (!device || device->wait_ns == 0)
		return FR_DEVICE_LATENCY_NS;
	return device->wait_ns;
}

#endif /* FOREREAD_DEVICE_H */
