// SPDX-License-Identifier: GPL-2.0-only
/*
 * What memory is doing: how much is available, how much passes by before reclaim comes to a page
 * read now, and how far reclaim has come. All of it is the machine's, and no more than the thread's
 * cgroup may have: 300 readers in a cgroup of 128 MiB on a machine of 2 GiB lost 14 of 100 windows
 * of `foreread` by the machine's alone.
 *
 * The sums go over all processors and zones, so they are made once a tick at most and kept. A
 * thread that reads them while another writes may get some old and some new ones. These are
 * estimates, and what was used is in the record of the decision.
 */
#include <linux/jiffies.h>
#include <linux/memcontrol.h>
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

/* Pages that this thread's cgroup, or one above it, may have; U64_MAX without a limit. */
static u64 fm_group_pages(void)
{
	u64 pages = U64_MAX;
#ifdef CONFIG_MEMCG
	struct mem_cgroup *group;

	if (mem_cgroup_disabled())
		return pages;
	rcu_read_lock();
	for (group = mem_cgroup_from_task(current); group; group = parent_mem_cgroup(group)) {
		/* Both are PAGE_COUNTER_MAX without a limit; more than any machine has. */
		pages = min_t(u64, pages, READ_ONCE(group->memory.max));
		pages = min_t(u64, pages, READ_ONCE(group->memory.high));
	}
	rcu_read_unlock();
#endif
	return pages;
}

/**
 * fm_memory_now() - fills in what is known of memory
 * @limits: gets memory_pages, reclaim_pages and aged_pages
 */
void fm_memory_now(struct fr_limits *limits)
{
	unsigned long now = jiffies;
	u64 group_pages = fm_group_pages();

	if (READ_ONCE(fm_memory.at) != now) {
		WRITE_ONCE(fm_memory.at, now);
		fm_memory_look();
	}
	limits->memory_pages = min(READ_ONCE(fm_memory.memory_pages), group_pages);
	limits->reclaim_pages = min(READ_ONCE(fm_memory.reclaim_pages), group_pages);
	limits->aged_pages = READ_ONCE(fm_memory.aged_pages);
}
