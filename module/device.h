/* SPDX-License-Identifier: GPL-2.0-only */
/* The devices that have a policy; see device.c. */
#ifndef FM_DEVICE_H
#define FM_DEVICE_H

#include <linux/kobject.h>
#include <linux/rcupdate.h>
#include <linux/spinlock.h>
#include <linux/types.h>

#include <foreread/policy.h>

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
	FM_COUNT_LATE, /* marks on pages that were still being read */
	FM_COUNT_THRASHED, /* misses on pages that were read ahead and evicted before their use */
	FM_COUNT_UNKEPT, /* pages that a policy wanted to keep from eviction, which is not done */
	FM_COUNTS,
};

struct fm_counters {
	u64 count[FM_COUNTS];
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
 * @lock: guards what follows
 * @is_known: whether the policy was told if the disk turns
 * @costs: what the policy knows of the disk; unused in `default`, which may be several
 */
struct fm_device {
	struct kobject kobject;
	struct rcu_head rcu;
	struct fm_counters __percpu *counters;
	dev_t number;
	u32 policy;
	u32 act;
	u32 pages_max;
	spinlock_t lock;
	bool is_known;
	struct fr_device costs;
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
void fm_device_put(struct fm_device *device);
struct fr_device *fm_device_costs(struct fm_device *device, const struct address_space *mapping);
u64 fm_device_count(const struct fm_device *device, enum fm_count which);

/* sysfs.c: the folder of a device. */
extern const struct kobj_type fm_device_type;
void fm_device_release(struct kobject *kobject);

#endif /* FM_DEVICE_H */
