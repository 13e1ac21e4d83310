// SPDX-License-Identifier: GPL-2.0-only
/*
 * /sys/kernel/foreread: what people and programs see of the module, and set.
 *
 *	add			write MAJOR:MINOR: makes the folder of a device
 *	remove			write MAJOR:MINOR: gives it back to the kernel
 *	policies		the policies, one a line
 *	kept			open files, and files with streams, whose state is kept
 *	devices/default/	holds for all that has no folder of its own
 *	devices/MAJOR:MINOR/	a disk, a partition, or a mounted file system
 *		policy		`off`, or one of the policies
 *		act		`auto`, `issue`, `steer`: how windows are read
 *		pages_max	no window is larger; 0 means no such bound
 *		stat		counters, a name and a number a line
 *		watchdog	`ok`, or why the policy was taken away
 */
#include <linux/blkdev.h>
#include <linux/kobject.h>
#include <linux/module.h>
#include <linux/sysfs.h>

#include <foreread/names.h>

#include "compat.h"
#include "device.h"
#include "file_table.h"
#include "pages.h"
#include "stream_table.h"
#include "sysfs.h"
#include "watchdog.h"

static struct kobject *fm_root;

static const char *const fm_act_names[FM_ACTS] = { "auto", "issue", "steer" };

static const char *const fm_count_names[FM_COUNTS] = {
	[FM_COUNT_SYNC] = "sync",
	[FM_COUNT_ASYNC] = "async",
	[FM_COUNT_DECISIONS] = "decisions",
	[FM_COUNT_WINDOWS] = "windows",
	[FM_COUNT_PAGES] = "pages",
	[FM_COUNT_ISSUED] = "issued",
	[FM_COUNT_STEERED] = "steered",
	[FM_COUNT_AGREED] = "agreed",
	[FM_COUNT_DIFFERED] = "differed",
	[FM_COUNT_STATELESS] = "stateless",
	[FM_COUNT_LATE_MARKS] = "late_marks",
	[FM_COUNT_THRASHED] = "thrashed",
	[FM_COUNT_UNKEPT] = "unkept_pages",
	[FM_COUNT_WAITS] = "waits",
	[FM_COUNT_CORE_CALLS] = "core_calls",
	[FM_COUNT_CORE_NS] = "core_ns",
	[FM_COUNT_FETCHED] = "fetched_pages",
	[FM_COUNT_USED_ON_TIME] = "used_on_time_pages",
	[FM_COUNT_USED_LATE] = "used_late_pages",
	[FM_COUNT_WASTED] = "wasted_pages",
	[FM_COUNT_UNKNOWN] = "unknown_pages",
	[FM_COUNT_JUDGED_USED] = "judged_used_pages",
	[FM_COUNT_JUDGED_WASTED] = "judged_wasted_pages",
	[FM_COUNT_JUDGED_AHEAD] = "judged_ahead_pages",
	[FM_COUNT_JUDGED_AHEAD_LATE] = "judged_ahead_late_pages",
	[FM_COUNT_JUDGED_NS] = "judged_core_ns",
};

/*
 * The core calls the readahead of Linux 6.18 `linux`. Here `linux` is that of the running kernel,
 * and the other one has its release in its name. The running kernel's own may be written with its
 * release, too.
 */
const char *fm_policy_label(u32 policy)
{
	if (policy == fm_own_policy())
		return "linux";
	if (policy == FR_LINUX)
		return "linux-6.18";
	return policy < FR_POLICIES ? fr_policy_name(policy) : "off";
}

static int fm_policy_of(const char *label)
{
	u32 policy;

	for (policy = 0; policy <= FM_OFF; policy++)
		if (sysfs_streq(label, fm_policy_label(policy)))
			return (int)policy;
	for (policy = 0; policy < FR_POLICIES; policy++)
		if (policy != FR_LINUX && sysfs_streq(label, fr_policy_name(policy)))
			return (int)policy;
	return -EINVAL;
}

struct fm_device_attribute {
	struct attribute attribute;
	ssize_t (*show)(struct fm_device *device, char *buffer);
	ssize_t (*store)(struct fm_device *device, const char *text, size_t length);
};

static ssize_t policy_show(struct fm_device *device, char *buffer)
{
	return sysfs_emit(buffer, "%s\n", fm_policy_label(READ_ONCE(device->policy)));
}

static ssize_t policy_store(struct fm_device *device, const char *text, size_t length)
{
	int policy = fm_policy_of(text);

	if (policy < 0)
		return policy;
	fm_watchdog_arm(device, (u32)policy);
	return (ssize_t)length;
}

static ssize_t act_show(struct fm_device *device, char *buffer)
{
	return sysfs_emit(buffer, "%s\n", fm_act_names[READ_ONCE(device->act)]);
}

static ssize_t act_store(struct fm_device *device, const char *text, size_t length)
{
	int act = __sysfs_match_string(fm_act_names, FM_ACTS, text);

	if (act < 0)
		return act;
	WRITE_ONCE(device->act, (u32)act);
	return (ssize_t)length;
}

static ssize_t pages_max_show(struct fm_device *device, char *buffer)
{
	return sysfs_emit(buffer, "%u\n", READ_ONCE(device->pages_max));
}

static ssize_t pages_max_store(struct fm_device *device, const char *text, size_t length)
{
	u32 pages;
	int error = kstrtou32(text, 10, &pages);

	if (error)
		return error;
	WRITE_ONCE(device->pages_max, pages);
	return (ssize_t)length;
}

static ssize_t stat_show(struct fm_device *device, char *buffer)
{
	struct fm_held held;
	ssize_t at = 0;
	int i;

	/* Counts what has been used meanwhile. */
	fm_pages_sweep(device, &held);
	for (i = 0; i < FM_COUNTS; i++)
		at += sysfs_emit_at(buffer, at, "%s %llu\n", fm_count_names[i],
				    fm_device_count(device, i));
	at += sysfs_emit_at(buffer, at, "resident_unused_pages %llu\nin_flight_pages %llu\n",
			    held.resident_pages, held.in_flight_pages);
	at += sysfs_emit_at(buffer, at, "core_longest_ns %llu\n",
			    fm_device_core_longest_ns(device));
	return at;
}

static ssize_t watchdog_show(struct fm_device *device, char *buffer)
{
	char text[FM_VERDICT_BYTES];

	fm_watchdog_say(device, text, sizeof(text));
	return sysfs_emit(buffer, "%s\n", text);
}

#define FM_DEVICE_FILE(_name, _mode, _store)                                                    \
	static struct fm_device_attribute fm_device_##_name = { .attribute = { .name = #_name,  \
									       .mode = _mode }, \
								.show = _name##_show,           \
								.store = _store }

FM_DEVICE_FILE(policy, 0644, policy_store);
FM_DEVICE_FILE(act, 0644, act_store);
FM_DEVICE_FILE(pages_max, 0644, pages_max_store);
FM_DEVICE_FILE(stat, 0444, NULL);
FM_DEVICE_FILE(watchdog, 0444, NULL);

static struct attribute *fm_device_attrs[] = {
	&fm_device_policy.attribute, &fm_device_act.attribute,	    &fm_device_pages_max.attribute,
	&fm_device_stat.attribute,   &fm_device_watchdog.attribute, NULL,
};
ATTRIBUTE_GROUPS(fm_device);

static ssize_t fm_device_show(struct kobject *kobject, struct attribute *attribute, char *buffer)
{
	const struct fm_device_attribute *own =
		container_of(attribute, struct fm_device_attribute, attribute);

	return own->show(container_of(kobject, struct fm_device, kobject), buffer);
}

static ssize_t fm_device_store(struct kobject *kobject, struct attribute *attribute,
			       const char *text, size_t length)
{
	const struct fm_device_attribute *own =
		container_of(attribute, struct fm_device_attribute, attribute);

	if (!own->store)
		return -EIO;
	return own->store(container_of(kobject, struct fm_device, kobject), text, length);
}

static const struct sysfs_ops fm_device_ops = {
	.show = fm_device_show,
	.store = fm_device_store,
};

const struct kobj_type fm_device_type = {
	.sysfs_ops = &fm_device_ops,
	.default_groups = fm_device_groups,
	.release = fm_device_release,
};

static int fm_parse_number(const char *text, dev_t *number)
{
	unsigned int major, minor;
	char rest;

	if (sscanf(text, "%u:%u %c", &major, &minor, &rest) != 2)
		return -EINVAL;
	if (major > MINORMASK || minor > MINORMASK || MAJOR(MKDEV(major, minor)) != major)
		return -EINVAL;
	*number = MKDEV(major, minor);
	return 0;
}

static ssize_t add_store(struct kobject *kobject, struct kobj_attribute *attribute,
			 const char *text, size_t length)
{
	dev_t number;
	int error = fm_parse_number(text, &number);

	if (!error)
		error = fm_device_add(number);
	return error ? error : (ssize_t)length;
}

static ssize_t remove_store(struct kobject *kobject, struct kobj_attribute *attribute,
			    const char *text, size_t length)
{
	dev_t number;
	int error = fm_parse_number(text, &number);

	if (!error)
		error = fm_device_remove(number);
	return error ? error : (ssize_t)length;
}

static ssize_t policies_show(struct kobject *kobject, struct kobj_attribute *attribute,
			     char *buffer)
{
	ssize_t at = 0;
	u32 policy;

	for (policy = 0; policy < FR_POLICIES; policy++)
		at += sysfs_emit_at(buffer, at, "%s\n", fm_policy_label(policy));
	return at;
}

static ssize_t kept_show(struct kobject *kobject, struct kobj_attribute *attribute, char *buffer)
{
	return sysfs_emit(buffer, "files %lu\nstreams %lu\npages %lu\n", fm_files_count(),
			  fm_streams_count(), fm_pages_count());
}

static struct kobj_attribute fm_add = __ATTR_WO(add);
static struct kobj_attribute fm_remove = __ATTR_WO(remove);
static struct kobj_attribute fm_policies = __ATTR_RO(policies);
static struct kobj_attribute fm_kept_file = __ATTR_RO(kept);

static struct attribute *fm_root_attrs[] = {
	&fm_add.attr, &fm_remove.attr, &fm_policies.attr, &fm_kept_file.attr, NULL,
};

static const struct attribute_group fm_root_group = { .attrs = fm_root_attrs };

/* Makes the folder and what is in it. */
int fm_sysfs_init(void)
{
	int error;

	fm_root = kobject_create_and_add("foreread", kernel_kobj);
	if (!fm_root)
		return -ENOMEM;
	error = fm_devices_init(fm_root);
	if (error)
		goto put;
	error = sysfs_create_group(fm_root, &fm_root_group);
	if (!error)
		return 0;
	fm_devices_exit();
put:
	kobject_put(fm_root);
	return error;
}

/* Removes it. Nobody is in its files behind that. */
void fm_sysfs_exit(void)
{
	sysfs_remove_group(fm_root, &fm_root_group);
	fm_devices_exit();
	kobject_put(fm_root);
}
