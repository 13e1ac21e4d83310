/* SPDX-License-Identifier: GPL-2.0-only */
/* The devices that have a policy; see device.c. */
#ifndef FM_DEVICE_H
#define FM_DEVICE_H

#include <linux/kobject.h>
#include <linux/rcupdate.h>
#include <linux/spinlock.h>
#include <linux/types.h>

#include <foreread/policy.h>

#include "costs.h"
#include "watchdog.h"

struct address_space;

/* The value of fm_device.policy for a device that is left to the kernel. */
#define FM_OFF FR_POLICIES

/**
 * enum fm_act - how a window is read
 * @FM_AUTO: @FM_STEER for mappings with large folios, @FM_ISSUE for others
 * @FM_ISSUE: by page_cache_ra_unbounded(), in folios of the smallest size
 * @FM_STEER: by the kernel's own function, told to make that window, where it can
 */
enum fm_act {
	FM_AUTO = 0,
	FM_ISSUE = 1,
	FM_STEER = 2,
	FM_ACTS = 3,
};

/* Counters of a device, in the order of the file `stat`. */
enum fm_count {
	FM_COUNT_SYNC, /* misses that a policy was asked about */
	FM_COUNT_ASYNC, /* marks */
	FM_COUNT_DECISIONS, /* calls of the policy */
	FM_COUNT_WINDOWS, /* windows that were decided */
	FM_COUNT_PAGES, /* pages of these, within the file */
	FM_COUNT_ISSUED, /* windows that were read by this module */
	FM_COUNT_STEERED, /* windows that were read by the kernel's function */
	FM_COUNT_AGREED, /* policy of this kernel: calls in which the kernel decided the same */
	FM_COUNT_DIFFERED, /* and those in which it did not */
	FM_COUNT_STATELESS, /* decisions without the state of earlier ones: no memory for it */
	FM_COUNT_LATE_MARKS, /* marks on pages that were still being read */
	FM_COUNT_THRASHED, /* misses on pages that were read ahead and evicted before their use */
	FM_COUNT_UNKEPT, /* pages that a policy wanted to keep from eviction, which is not done */
	FM_COUNT_WAITS, /* times that a thread waited for a folio, but for the page that it missed
			 */
	FM_COUNT_CORE_CALLS, /* calls of the core */
	FM_COUNT_CORE_NS, /* time that they took */
	/* Each fetched page is counted once below, or is held: see pages.c. */
	FM_COUNT_FETCHED, /* pages that were added to the page cache for a decision */
	FM_COUNT_USED_ON_TIME, /* of these, those that were read, and that nobody waited for */
	FM_COUNT_USED_LATE, /* those that a reader missed or waited for */
	FM_COUNT_WASTED, /* those that left memory and had not been read */
	FM_COUNT_UNKNOWN, /* those that could not be followed */
	/* The watchdog goes by these. Pages that were fetched before the policy was set don't
	   count. */
	FM_COUNT_JUDGED_USED, /* pages that were read */
	FM_COUNT_JUDGED_WASTED, /* pages that left memory and had not been read */
	FM_COUNT_JUDGED_AHEAD, /* pages that were read, and had been fetched before they were asked
				  for */
	FM_COUNT_JUDGED_AHEAD_LATE, /* of these, those that a reader waited for */
	FM_COUNT_JUDGED_NS, /* time that calls of the core took, an outlier being cut */
	FM_COUNTS,
};

/**
 * struct fm_counters - of one processor
 * @count: by enum fm_count
 * @core_longest_ns: longest call of the core
 */
struct fm_counters {
	u64 count[FM_COUNTS];
	u64 core_longest_ns;
};

/**
 * struct fm_device - a device that was named
 * @kobject: its folder in sysfs, which holds a reference to it
 * @rcu: for its release
 * @counters: of its calls
 * @number: what people call it, a device number
 * @policy: enum fr_policy, or FM_OFF
 * @act: enum fm_act
 * @pages_max: no window is larger; 0 means no such bound
 * @epoch: number of times that the policy was set
 * @watch: what the watchdog keeps, under its lock
 * @lock: guards what follows, also from interrupts
 * @is_known: whether the disk below it was looked at
 * @has_costs: whether something is known of that disk, or will be
 * @disk: its number where its requests are measured, else 0
 * @costs: what the policy knows of the disk; unused in `default`, which may be several
 * @flights: reads that the disk works on
 */
struct fm_device {
	struct kobject kobject;
	struct rcu_head rcu;
	struct fm_counters __percpu *counters;
	dev_t number;
	u32 policy;
	u32 act;
	u32 pages_max;
	u32 epoch;
	struct fm_watch watch;
	raw_spinlock_t lock;
	bool is_known;
	bool has_costs;
	dev_t disk;
	struct fr_device costs;
	struct fm_flights flights;
};

static inline void fm_count(struct fm_device *device, enum fm_count which, u64 by)
{
	this_cpu_add(device->counters->count[which], by);
}

int fm_devices_init(struct kobject *parent);
void fm_devices_exit(void);
int fm_device_add(dev_t number);
int fm_device_remove(dev_t number);
bool fm_device_is_taken(const struct address_space *mapping);
struct fm_device *fm_device_get(const struct address_space *mapping);
struct fm_device *fm_device_get_named(dev_t number);
void fm_device_put(struct fm_device *device);
struct fr_device *fm_device_costs(struct fm_device *device, const struct address_space *mapping);
u64 fm_device_count(const struct fm_device *device, enum fm_count which);
void fm_device_count_call(struct fm_device *device, u64 took_ns);
u64 fm_device_core_longest_ns(const struct fm_device *device);
void fm_devices_each(void (*act)(struct fm_device *device));
bool fm_devices_are_measured(void);
void fm_devices_each_on(dev_t disk,
			void (*act)(struct fm_device *device, const struct request *request,
				    u32 bytes),
			const struct request *request, u32 bytes);

/* sysfs.c: the folder of a device. */
extern const struct kobj_type fm_device_type;
void fm_device_release(struct kobject *kobject);

#endif /* FM_DEVICE_H */
