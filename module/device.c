// SPDX-License-Identifier: GPL-2.0-only
/*
 * The devices that were named, by number.
 *
 * Input: device numbers that people write to sysfs. Output: for a mapping, the device whose policy
 * holds for it. A device number is that of a disk, of a partition, or of a mounted file system (the
 * third column of /proc/self/mountinfo), so that file systems without a disk of their own (NFS,
 * btrfs) have one, too. The narrowest one that was named holds:
 *
 * 1. that of the file system, or of the block device that is read itself;
 * 2. that of the whole disk below it;
 * 3. `default`, which has no number.
 *
 * Lookups take no lock. A device stays until the last thread that uses it is through.
 */
#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/fs.h>
#include <linux/moduleparam.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/slab.h>
#include <linux/time64.h>
#include <linux/xarray.h>

#include "compat.h"
#include "device.h"
#include "pages.h"

/* A thread that is preempted during a call does not make it slow: no call counts for more. */
#define FM_JUDGED_NS_MAX ((u64)NSEC_PER_MSEC)
/* More are refused: each is a folder in sysfs. */
#define FM_DEVICES_MAX 4096

static DEFINE_XARRAY(fm_devices);
/* Devices come and go one at a time. Lookups don't take it. */
static DEFINE_MUTEX(fm_devices_lock);
static struct kobject *fm_devices_folder;
static struct fm_device *fm_default;
static unsigned int fm_devices_count;
/* Whether the requests of any disk were ever measured. */
static bool fm_any_is_measured;

/*
 * Without it, `foreread` takes a request of a disk that does not turn to cost 1 ms.
 * docs/kernel-module.md compares the two.
 */
static bool measure_all = true;
module_param(measure_all, bool, 0444);
MODULE_PARM_DESC(measure_all, "measure disks that do not turn, too (on)");

static struct block_device *fm_block_device(const struct inode *inode)
{
	if (S_ISBLK(inode->i_mode))
		return I_BDEV((struct inode *)inode);
	return inode->i_sb->s_bdev;
}

/* The device that holds for a mapping. Under rcu_read_lock(). */
static struct fm_device *notrace fm_device_find(const struct address_space *mapping)
{
	const struct inode *inode = mapping ? mapping->host : NULL;
	struct block_device *block;
	struct fm_device *found;
	dev_t number;

	if (!inode)
		return NULL;
	number = S_ISBLK(inode->i_mode) ? inode->i_rdev : inode->i_sb->s_dev;
	found = xa_load(&fm_devices, number);
	if (found)
		return found;
	block = fm_block_device(inode);
	if (block && block->bd_disk)
		found = xa_load(&fm_devices, disk_devt(block->bd_disk));
	return found ? found : fm_default;
}

/**
 * fm_device_is_taken() - whether readahead of a mapping is this module's business
 * @mapping: any
 */
bool notrace fm_device_is_taken(const struct address_space *mapping)
{
	struct fm_device *device;
	bool is_taken;

	rcu_read_lock();
	device = fm_device_find(mapping);
	is_taken = device && READ_ONCE(device->policy) != FM_OFF;
	rcu_read_unlock();
	return is_taken;
}

/**
 * fm_device_get() - the device that holds for a mapping
 * @mapping: any
 *
 * Return: it, with a reference, or NULL where there is none (any more).
 */
struct fm_device *fm_device_get(const struct address_space *mapping)
{
	struct fm_device *device;

	rcu_read_lock();
	device = fm_device_find(mapping);
	if (device && !kobject_get_unless_zero(&device->kobject))
		device = NULL;
	rcu_read_unlock();
	return device;
}

/* The device that was named by a number, with a reference, or NULL. */
struct fm_device *fm_device_get_named(dev_t number)
{
	struct fm_device *device;

	rcu_read_lock();
	device = number ? xa_load(&fm_devices, number) : NULL;
	if (device && !kobject_get_unless_zero(&device->kobject))
		device = NULL;
	rcu_read_unlock();
	return device;
}

void fm_device_put(struct fm_device *device)
{
	kobject_put(&device->kobject);
}

/**
 * fm_device_costs() - what a policy knows of a disk
 * @device: whose lock is held
 * @mapping: that is read
 *
 * Nothing is known of a disk that does not turn, unless it is measured (costs.c). Policies are told
 * so: of a disk without measurements `foreread` expects some soon.
 *
 * Return: it, or NULL where nothing will be known, or the device is not one disk.
 */
struct fr_device *fm_device_costs(struct fm_device *device, const struct address_space *mapping)
{
	struct block_device *block;
	bool turns, is_measured;

	if (device == fm_default)
		return NULL;
	if (!device->is_known) {
		block = fm_block_device(mapping->host);
		turns = block && fm_is_rotational(block);
		if (turns)
			fr_device_turns(&device->costs);
		is_measured = block && queue_is_mq(bdev_get_queue(block)) && (turns || measure_all);
		if (is_measured) {
			WRITE_ONCE(device->disk, disk_devt(block->bd_disk));
			WRITE_ONCE(fm_any_is_measured, true);
		}
		device->has_costs = turns || is_measured;
		device->is_known = true;
	}
	return device->has_costs ? &device->costs : NULL;
}

/* The sum of a counter over all processors. */
u64 fm_device_count(const struct fm_device *device, enum fm_count which)
{
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(per_cpu_ptr(device->counters, cpu)->count[which]);
	return sum;
}

/* A call of the core that took @took_ns. */
void fm_device_count_call(struct fm_device *device, u64 took_ns)
{
	struct fm_counters *counters = get_cpu_ptr(device->counters);

	counters->count[FM_COUNT_CORE_CALLS]++;
	counters->count[FM_COUNT_CORE_NS] += took_ns;
	counters->count[FM_COUNT_JUDGED_NS] += min(took_ns, FM_JUDGED_NS_MAX);
	if (took_ns > counters->core_longest_ns)
		counters->core_longest_ns = took_ns;
	put_cpu_ptr(device->counters);
}

/* The longest call of the core. */
u64 fm_device_core_longest_ns(const struct fm_device *device)
{
	u64 longest = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		longest = max(longest,
			      READ_ONCE(per_cpu_ptr(device->counters, cpu)->core_longest_ns));
	return longest;
}

/**
 * fm_devices_each() - calls a function with each device, `default` included
 * @act: the function, which may sleep
 */
void fm_devices_each(void (*act)(struct fm_device *device))
{
	struct fm_device *device;
	unsigned long number;

	mutex_lock(&fm_devices_lock);
	xa_for_each(&fm_devices, number, device)
		act(device);
	if (fm_default)
		act(fm_default);
	mutex_unlock(&fm_devices_lock);
}

/* Whether any request is worth a look. */
bool fm_devices_are_measured(void)
{
	return READ_ONCE(fm_any_is_measured);
}

/**
 * fm_devices_each_on() - calls a function with each device that needs the costs of a disk
 * @disk: its number
 * @act: the function, which may not sleep
 * @request: for the function
 * @bytes: for the function
 *
 * In any context but NMI.
 */
void fm_devices_each_on(dev_t disk,
			void (*act)(struct fm_device *device, const struct request *request,
				    u32 bytes),
			const struct request *request, u32 bytes)
{
	struct fm_device *device;
	unsigned long number;

	rcu_read_lock();
	xa_for_each(&fm_devices, number, device) {
		if (READ_ONCE(device->disk) == disk && READ_ONCE(device->policy) == FR_FOREREAD)
			act(device, request, bytes);
	}
	rcu_read_unlock();
}

static void fm_device_free(struct rcu_head *rcu)
{
	struct fm_device *device = container_of(rcu, struct fm_device, rcu);

	free_percpu(device->counters);
	kfree(device);
}

/* The last reference is gone. Lookups may still look at it until a grace period is over. */
void fm_device_release(struct kobject *kobject)
{
	struct fm_device *device = container_of(kobject, struct fm_device, kobject);

	if (!device->counters)
		kfree(device);
	else
		call_rcu(&device->rcu, fm_device_free);
}

static struct fm_device *fm_device_make(dev_t number, const char *name)
{
	struct fm_device *device = kzalloc(sizeof(*device), GFP_KERNEL);
	int error;

	if (!device)
		return ERR_PTR(-ENOMEM);
	device->number = number;
	raw_spin_lock_init(&device->lock);
	device->policy = FM_OFF;
	device->act = FM_AUTO;
	device->counters = alloc_percpu(struct fm_counters);
	if (!device->counters) {
		kfree(device);
		return ERR_PTR(-ENOMEM);
	}
	error = kobject_init_and_add(&device->kobject, &fm_device_type, fm_devices_folder, "%s",
				     name);
	if (error) {
		kobject_put(&device->kobject);
		return ERR_PTR(error);
	}
	return device;
}

/**
 * fm_device_add() - makes the folder of a device, with policy `off`
 * @number: of it; whether there is such a device doesn't matter, it may come later
 *
 * Return: 0, -EEXIST, -ENOSPC or -ENOMEM.
 */
int fm_device_add(dev_t number)
{
	struct fm_device *device;
	char name[24];
	int error;

	snprintf(name, sizeof(name), "%u:%u", MAJOR(number), MINOR(number));
	mutex_lock(&fm_devices_lock);
	error = -EEXIST;
	if (xa_load(&fm_devices, number))
		goto out;
	error = -ENOSPC;
	if (fm_devices_count >= FM_DEVICES_MAX)
		goto out;
	device = fm_device_make(number, name);
	error = PTR_ERR_OR_ZERO(device);
	if (error)
		goto out;
	error = xa_err(xa_store(&fm_devices, number, device, GFP_KERNEL));
	if (error)
		kobject_put(&device->kobject);
	else
		fm_devices_count++;
out:
	mutex_unlock(&fm_devices_lock);
	return error;
}

static void fm_device_drop(struct fm_device *device)
{
	kobject_del(&device->kobject);
	fm_pages_forget(device);
	kobject_put(&device->kobject);
}

/**
 * fm_device_remove() - gives a device back to the kernel and removes its folder
 * @number: of it
 *
 * Return: 0, or -ENODEV where it was not named.
 */
int fm_device_remove(dev_t number)
{
	struct fm_device *device;

	mutex_lock(&fm_devices_lock);
	device = xa_erase(&fm_devices, number);
	if (device)
		fm_devices_count--;
	mutex_unlock(&fm_devices_lock);
	if (!device)
		return -ENODEV;
	fm_device_drop(device);
	return 0;
}

/* Makes the folder of devices, with `default` in it. Before the hooks. */
int fm_devices_init(struct kobject *parent)
{
	struct fm_device *device;

	fm_devices_folder = kobject_create_and_add("devices", parent);
	if (!fm_devices_folder)
		return -ENOMEM;
	device = fm_device_make(0, "default");
	if (IS_ERR(device)) {
		kobject_put(fm_devices_folder);
		return PTR_ERR(device);
	}
	fm_default = device;
	return 0;
}

/* Behind the hooks: nobody looks devices up any more. */
void fm_devices_exit(void)
{
	struct fm_device *device;
	unsigned long number;

	xa_for_each(&fm_devices, number, device) {
		xa_erase(&fm_devices, number);
		fm_device_drop(device);
	}
	xa_destroy(&fm_devices);
	fm_device_drop(fm_default);
	fm_default = NULL;
	kobject_put(fm_devices_folder);
	/* fm_device_free() is code of this module. */
	rcu_barrier();
}
