// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the machine's memory is doing: how much is available, how much passes by before reclaim
 * comes to a page read now, and how far reclaim has come.
 *
 * The sums go over all processors and zones, so they are made once a tick at most and kept. A
 * thread that reads them while another writes may get some old and some new ones. These are
 * estimates, and what was used is in the record of the decision.
 */
#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/percpu.h>
#include <linux/vmstat.h>

#include "memory.h"

static struct {
	unsigned long at;
	u64 memory_pages;
	u64 reclaim_pages;
	u64 aged_pages;
} fm_memory;

/* Pages of the low watermarks: where free memory falls below, reclaim begins. */
static u64 fm_low_watermarks(void)
{
	u64 sum = 0;
	int node, i;

	for_each_online_node(node)
		for (i = 0; i < MAX_NR_ZONES; i++) {
			struct zone *zone = &NODE_DATA(node)->node_zones[i];

			if (managed_zone(zone))
				sum += low_wmark_pages(zone);
		}
	return sum;
}

/* Pages that reclaim has looked at since boot. */
static u64 fm_scanned(void)
{
	u64 sum = 0;
#ifdef CONFIG_VM_EVENT_COUNTERS
	int cpu;

	for_each_possible_cpu(cpu) {
		const struct vm_event_state *events = &per_cpu(vm_event_states, cpu);

		sum += READ_ONCE(events->event[PGSCAN_KSWAPD]) +
		       READ_ONCE(events->event[PGSCAN_DIRECT]);
	}
#endif
	return sum;
}

static void fm_memory_look(void)
{
	u64 free = global_zone_page_state(NR_FREE_PAGES);
	u64 inactive = global_node_page_state(NR_INACTIVE_FILE);
	u64 low = fm_low_watermarks();
	long available = si_mem_available();

	WRITE_ONCE(fm_memory.memory_pages, available > 0 ? (u64)available : 1);
	WRITE_ONCE(fm_memory.reclaim_pages, inactive + free > low ? inactive + free - low : 1);
	WRITE_ONCE(fm_memory.aged_pages, fm_scanned());
}

/**
 * fm_memory_now() - fills in what is known of memory
 * @limits: gets memory_pages, reclaim_pages and aged_pages
 */
void fm_memory_now(struct fr_limits *limits)
{
	unsigned long now = jiffies;

	if (READ_ONCE(fm_memory.at) != now) {
		WRITE_ONCE(fm_memory.at, now);
		fm_memory_look();
	}
	limits->memory_pages = READ_ONCE(fm_memory.memory_pages);
	limits->reclaim_pages = READ_ONCE(fm_memory.reclaim_pages);
	limits->aged_pages = READ_ONCE(fm_memory.aged_pages);
}
