/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Costs of a device, as measured on its own requests: a time for each request of any size, and a
 * time for each of its pages.
 *
 * A request of n pages that finds the device idle takes latency + n * page_ns. The line through
 * such requests is found by least squares over moving averages, which need no history. The
 * throughput of a busy device corrects it. The two costs give the break-even size: the number of
 * pages that cost as much as a request (fr_device_even_pages()). With this number a policy can
 * compare the cost of an unneeded page with that of another request. It is 7 on a slow USB stick,
 * 33 on an NVMe drive, and 350 on a hard disk, where a request is a seek.
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
/* Requests that must have been seen before the line through them is used. */
#define FR_DEVICE_REQUESTS_MIN 4U
/* The same for requests to a busy device: their times vary more. */
#define FR_DEVICE_GAPS_MIN 16U
/* Pages and requests in a row that make a measurement of a busy device. */
#define FR_DEVICE_BUSY_PAGES 64U
#define FR_DEVICE_BUSY_REQUESTS 4U
/* Without measurements: the kernel's default window, and a request of 1 ms. */
#define FR_DEVICE_EVEN_PAGES 32U
#define FR_DEVICE_LATENCY_NS 1000000U
/* No device is taken to be better or worse than this. */
#define FR_DEVICE_EVEN_PAGES_MIN 4U
#define FR_DEVICE_EVEN_PAGES_MAX 1024U
/* Costs of a rotational disk before its measurement: 8 ms, half a turn at 7200 rpm; 136 MB/s. */
#define FR_DEVICE_TURNS_LATENCY_NS 12000000U
#define FR_DEVICE_TURNS_PAGE_NS 30000U
/* Threads whose run from the start of a file is followed; a power of two. */
#define FR_DEVICE_STARTS 16U

/**
 * struct fr_start - a run from the start of a file
 * @thread: the thread that reads it
 * @pages: its length; 0 means none
 */
struct fr_start {
	fr_u32 thread;
	fr_u32 pages;
};

/**
 * struct fr_done - a request of a device that is done
 * @now_ns: time of its end
 * @took_ns: time from submission to completion
 * @pages: its size
 * @first: whether the device was idle when it came
 * @left: whether the device still has requests
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
 * struct fr_line - sizes and times of requests, for the line through them
 * @pages: average pages of a request, with 8 fractional bits
 * @took: average time, in 64 ns, with 8 fractional bits
 * @square: average of the squares of pages, with 8 fractional bits
 * @product: average of the products of pages and time, with 8 fractional bits
 */
struct fr_line {
	fr_u64 pages;
	fr_u64 took;
	fr_u64 square;
	fr_u64 product;
};

/**
 * struct fr_device - measured properties of a device, and of the files on it
 * @idle: requests that found the device idle, from submission to completion
 * @busy: requests that found it busy, from the end of the one before to their own
 * @latency_ns: time of a request without its pages
 * @next_ns: the same of one that goes on where the one before it ended, which spares a
 *	disk the seek
 * @page_ns: time of a page
 * @cost_ns: cost of a request to a busy device besides its pages; 0 means unknown
 * @follow_ns: the same of one that goes on where the one under way ends
 * @line_ns: time of a page, by the line through requests alone; 0 means unknown
 * @busy_ns: upper bound of the time of a page: the least that a page took in a request, or
 *	at the throughput of a busy device; 0 means unknown
 * @busy_since_ns: time since which it is busy, as far as it is measured; 0 means it is not
 * @load_ns: recent time for a page while it is busy, whatever the requests
 * @demand_ns: recent time that readers wait for pages that were not read ahead
 * @wait_ns: average time from submission to completion, with the requests queued before
 * @done_ns: when its last request ended, with others waiting; 0 where none was
 * @least_ns: recent lowest latency of a request; 0 means unknown
 * @least_pages: the size of that request
 * @busy_pages: pages delivered since @busy_since_ns
 * @busy_requests: requests since then
 * @requests: seen that found the device idle; stops counting at its maximum
 * @gaps: seen that found it busy; stops counting at its maximum
 * @asks: number of requests made of it; wraps
 * @demand_thread: the thread that waited so last
 * @reserved: 0
 * @starts: lengths of runs from the start of a file
 * @start: those under way, by the low bits of the thread
 *
 * All zero bytes is a device of which nothing is known.
 */
struct fr_device {
	struct fr_line idle;
	struct fr_line busy;
	fr_u64 latency_ns;
	fr_u64 next_ns;
	fr_u64 page_ns;
	fr_u64 cost_ns;
	fr_u64 follow_ns;
	fr_u64 line_ns;
	fr_u64 busy_ns;
	fr_u64 busy_since_ns;
	fr_u64 load_ns;
	fr_u64 demand_ns;
	fr_u64 wait_ns;
	fr_u64 done_ns;
	fr_u64 least_ns;
	fr_u32 least_pages;
	fr_u32 reserved;
	fr_u32 busy_pages;
	fr_u32 busy_requests;
	fr_u32 requests;
	fr_u32 gaps;
	fr_u32 asks;
	fr_u32 demand_thread;
	struct fr_runs starts;
	struct fr_start start[FR_DEVICE_STARTS];
};

_Static_assert(sizeof(struct fr_done) == 24, "no hidden padding");
_Static_assert(sizeof(struct fr_device) == 360, "no hidden padding");

/* Adds a request. */
FR_INLINE void fr_line_add(struct fr_line *line, fr_u32 *count, fr_u64 size, fr_u64 took_ns)
{
	fr_u64 took = took_ns >> FR_DEVICE_TIME;
	fr_u32 share = FR_DEVICE_WEIGHT;

	*count = fr_u32_of((fr_u64)*count + 1);
	/* The first requests weigh as much as all before them: a plain average. */
	if (*count <= 1U << FR_DEVICE_WEIGHT)
		share = fr_log2(*count);
	line->pages = fr_average(line->pages, size << FR_DEVICE_FRACTION, share);
	line->took = fr_average(line->took, took << FR_DEVICE_FRACTION, share);
	line->square = fr_average(line->square, size * size << FR_DEVICE_FRACTION, share);
	line->product = fr_average(line->product, size * took << FR_DEVICE_FRACTION, share);
}

/* The time of a page by the line through requests; 0 where there is none. */
FR_INLINE fr_u64 fr_line_page_ns(const struct fr_line *line)
{
	fr_u64 mean = line->pages;
	fr_u64 spread = fr_sub(line->square, fr_mul(mean, fr_u32_of(mean)) >> FR_DEVICE_FRACTION);
	fr_u64 both = fr_mul(line->took, fr_u32_of(mean)) >> FR_DEVICE_FRACTION;
	fr_u64 page_ns;

	/*
	 * Requests of about one size give no cost of a page, and noise may even tilt the line.
	 * Their sizes must differ by a quarter of the mean.
	 */
	if (spread < 1U << FR_DEVICE_FRACTION ||
	    spread < fr_mul(mean, fr_u32_of(mean)) >> (FR_DEVICE_FRACTION + 4) ||
	    line->product <= both)
		return 0;
	page_ns = fr_div(fr_mul(fr_sub(line->product, both), 1U << FR_DEVICE_TIME), spread);
	return fr_clamp(page_ns, 1, FR_DEVICE_TOOK_NS_MAX);
}

/* The time of a request without its pages. */
FR_INLINE fr_u64 fr_line_latency_ns(const struct fr_line *line, fr_u64 page_ns)
{
	return fr_sub(fr_mul(line->took, 1U << FR_DEVICE_TIME),
		      fr_mul(line->pages, fr_u32_of(page_ns))) >>
	       FR_DEVICE_FRACTION;
}

/*
 * While a device has more to do, its throughput is at most its maximum. So its time for a page is
 * at most the time measured then.
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
		device->load_ns = fr_learned(device->load_ns, page_ns, 2);
		/* A better value is taken at once; a worse one may be the load. */
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

/* Fits the costs of a request and of a page to the measurements so far. */
FR_INLINE void fr_device_fit(struct fr_device *device)
{
	const struct fr_line *line = &device->idle;
	fr_u64 page_ns = 0, idle_ns = 0;

	if (device->gaps >= FR_DEVICE_GAPS_MIN) {
		page_ns = fr_line_page_ns(&device->busy);
		if (page_ns != 0)
			device->cost_ns = fr_line_latency_ns(&device->busy, page_ns) + 1;
		/* On a device that is never idle, the gaps between requests show the costs. */
		if (device->requests < FR_DEVICE_REQUESTS_MIN)
			line = &device->busy;
	}
	if (device->requests >= FR_DEVICE_REQUESTS_MIN)
		idle_ns = fr_line_page_ns(&device->idle);
	if (idle_ns != 0)
		page_ns = idle_ns;
	/*
	 * The time of a page, found from requests of different sizes, holds while all requests are
	 * of one size.
	 */
	if (page_ns != 0)
		device->line_ns = page_ns;
	device->page_ns = device->line_ns;
	/* Where no line can be drawn, requests are taken to cost the default's pages. */
	if (device->page_ns == 0 || device->page_ns > device->busy_ns)
		device->page_ns =
			fr_div(fr_mul(line->took, 1U << FR_DEVICE_TIME),
			       fr_add(line->pages, FR_DEVICE_EVEN_PAGES << FR_DEVICE_FRACTION));
	if (device->busy_ns != 0)
		device->page_ns = fr_min(device->page_ns, device->busy_ns);
	device->latency_ns = fr_line_latency_ns(line, device->page_ns);
	/* The gaps between requests show the cost of each, not its latency. */
	if (line == &device->busy)
		device->latency_ns =
			fr_max(device->latency_ns,
			       fr_sub(device->least_ns,
				      fr_mul(device->least_pages, fr_u32_of(device->page_ns))));
}

/*
 * Lowest latency of a request. A request that found the device idle and is no larger also shows
 * when the latency has grown.
 */
FR_INLINE void fr_device_least(struct fr_device *device, const struct fr_done *done, fr_u64 size,
			       fr_u64 took)
{
	if (device->least_ns == 0 || took < device->least_ns) {
		device->least_ns = fr_max(took, 1);
		device->least_pages = (fr_u32)size;
	} else if (done->first && size <= device->least_pages) {
		device->least_ns = fr_average(device->least_ns, took, 4);
	}
}

/*
 * Average time of requests beyond that of their pages; unchanged while the time of a page is
 * unknown.
 */
FR_INLINE fr_u64 fr_device_beyond(const struct fr_device *device, fr_u64 average, fr_u64 size,
				  fr_u64 took)
{
	fr_u64 beyond = fr_sub(took, fr_mul(size, fr_u32_of(device->page_ns)));

	if (device->line_ns == 0)
		return average;
	/* The first one is at least 1, since 0 is unknown. */
	return average == 0 ? beyond + 1 : fr_average(average, beyond, 3);
}

/**
 * fr_device_done() - a request of the device is done
 * @device: to learn
 * @done: the request
 */
FR_INLINE void fr_device_done(struct fr_device *device, const struct fr_done *done)
{
	fr_u64 size = fr_min(done->pages, FR_DEVICE_PAGES_MAX);
	fr_u64 took = fr_min(done->took_ns, FR_DEVICE_TOOK_NS_MAX);
	fr_u64 gap = fr_min(fr_sub(done->now_ns, device->done_ns), FR_DEVICE_TOOK_NS_MAX);

	device->wait_ns = fr_learned(device->wait_ns, took, 3);
	fr_device_least(device, done, size, took);
	fr_device_busy(device, done);
	if (size != 0 && done->first) {
		if (done->next)
			device->next_ns = fr_device_beyond(device, device->next_ns, size, took);
		else
			fr_line_add(&device->idle, &device->requests, size, took);
	} else if (size != 0 && device->done_ns != 0) {
		if (done->next)
			device->follow_ns = fr_device_beyond(device, device->follow_ns, size, gap);
		else
			fr_line_add(&device->busy, &device->gaps, size, gap);
	}
	device->done_ns = done->left ? done->now_ns : 0;
	/* A request takes at least its pages' time. */
	took = fr_clamp(fr_div(took, size), 1, FR_DEVICE_TOOK_NS_MAX);
	if (size != 0 && (device->busy_ns == 0 || took < device->busy_ns))
		device->busy_ns = took;
	fr_device_fit(device);
}

/**
 * fr_device_turns() - a device is rotational, and nothing was measured of it
 * @device: to initialize
 *
 * The initial values count as many requests as are needed for a line; measurements soon count for
 * more. Without them, the first windows on a disk are a tenth of the suitable size, until requests
 * of different sizes have shown their costs. The kernel's own requests, all of one size, don't show
 * them.
 */
FR_INLINE void fr_device_turns(struct fr_device *device)
{
	const fr_u64 sizes[2] = { 8, 256 };
	fr_u32 number;

	for (number = 0; number < FR_DEVICE_REQUESTS_MIN; number++) {
		fr_u64 size = sizes[number & 1];

		fr_line_add(&device->idle, &device->requests, size,
			    FR_DEVICE_TURNS_LATENCY_NS + size * FR_DEVICE_TURNS_PAGE_NS);
	}
	device->busy_ns = FR_DEVICE_TURNS_PAGE_NS;
	fr_device_fit(device);
}

/**
 * fr_device_even_pages() - how many pages cost as much as a request
 * @device: 0 or without measurements: the kernel's default window
 * @alone: the probability that the request continues the one before it, of 256
 *
 * Return: 4 to 1024.
 */
FR_ONCE fr_u32 fr_device_even_pages(const struct fr_device *device, fr_u32 alone)
{
	fr_u64 latency_ns, next_ns;

	if (!device || device->page_ns == 0)
		return FR_DEVICE_EVEN_PAGES;
	/* Requests of one size say nothing: they differ until the line is found. */
	if (device->line_ns == 0 && device->busy_since_ns != 0 &&
	    device->gaps >= FR_DEVICE_GAPS_MIN)
		return FR_DEVICE_EVEN_PAGES / 2 << (device->asks & 3);
	latency_ns = device->latency_ns;
	next_ns = device->next_ns == 0 ? latency_ns : fr_min(device->next_ns, latency_ns);
	alone = (fr_u32)fr_min(alone, 256);
	latency_ns = fr_sub(latency_ns, fr_mul(fr_sub(latency_ns, next_ns), alone) >> 8);
	return (fr_u32)fr_clamp(fr_div(latency_ns, device->page_ns), FR_DEVICE_EVEN_PAGES_MIN,
				FR_DEVICE_EVEN_PAGES_MAX);
}

/*
 * The break-even size on a busy device. A device that serves many requests at once may have a high
 * latency for each, and yet another request costs the others next to nothing.
 */
FR_ONCE fr_u32 fr_device_busy_pages(const struct fr_device *device, fr_u32 even)
{
	if (!device || device->cost_ns == 0 || device->page_ns == 0)
		return even;
	return (fr_u32)fr_clamp(fr_div(device->cost_ns, device->page_ns), FR_DEVICE_EVEN_PAGES_MIN,
				even);
}

/* Cost of a request now, in pages. */
FR_INLINE fr_u32 fr_device_cost_pages(const struct fr_device *device, fr_u32 even)
{
	if (!device || device->busy_since_ns == 0)
		return even;
	return fr_device_busy_pages(device, even);
}

/*
 * Whether larger requests would make the device faster: this is unknown, or a page takes an eighth
 * longer than in a pure transfer.
 */
FR_INLINE fr_u32 fr_device_strained(const struct fr_device *device)
{
	return !device || device->line_ns == 0 || device->load_ns == 0 ||
	       device->load_ns > fr_add(device->page_ns, device->page_ns / 8);
}

/* Whether other threads wait long behind readahead: twice a request's time. */
FR_INLINE fr_u32 fr_device_crowded(const struct fr_device *device, fr_u32 thread)
{
	return device && device->latency_ns != 0 && device->demand_thread != thread &&
	       device->demand_ns / 2 > device->latency_ns;
}

/**
 * fr_device_waited() - a reader waited for a page that was not read ahead
 * @device: to learn
 * @waited_ns: the time that it waited
 * @thread: the thread that waited
 */
FR_INLINE void fr_device_waited(struct fr_device *device, fr_u64 waited_ns, fr_u32 thread)
{
	device->demand_ns =
		fr_average(device->demand_ns, fr_min(waited_ns, FR_DEVICE_TOOK_NS_MAX), 3);
	device->demand_thread = thread;
}

/* The present latency of a request, with queueing. */
FR_INLINE fr_u64 fr_device_wait_ns(const struct fr_device *device)
{
	if (!device || device->wait_ns == 0)
		return FR_DEVICE_LATENCY_NS;
	return device->wait_ns;
}

#endif /* FOREREAD_DEVICE_H */
