// SPDX-License-Identifier: GPL-2.0-only
/*
 * foreread.ko: the readahead policies of Foreread inside the kernel.
 *
 * Loading it changes nothing. A device that is given a policy, in /sys/kernel/foreread, is read
 * ahead of by that policy; all others by the kernel's own. Unloading it gives all devices back.
 *
 *	hook.c		takes over the kernel's functions
 *	fault.c		which page a fault of a mapping is at
 *	decide.c	a call of these becomes a decision of the core
 *	issue.c, steer.c  the windows of a decision are read
 *	mark.c		where the policy is asked next
 *	device.c	which device has which policy
 *	file_table.c, stream_table.c  the state of policies
 *	pages.c, page_events.c  what became of the pages that were read
 *	waits.c		how long readers wait for them
 *	costs.c		what requests cost a disk
 *	watchdog.c	takes a policy away that misbehaves
 *	near.c, passed.c, memory.c  what a policy wants to know
 *	record.h	tracepoints: each decision with all of its input
 *	sysfs.c		what people see and set
 *
 * The policies are core/foreread/, unchanged.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <linux/utsname.h>

#include "compat.h"
#include "costs.h"
#include "fault.h"
#include "file_table.h"
#include "hook.h"
#include "page_events.h"
#include "pages.h"
#include "steer.h"
#include "stream_table.h"
#include "sysfs.h"
#include "version.h"
#include "waits.h"
#include "watchdog.h"

static bool force;
module_param(force, bool, 0444);
MODULE_PARM_DESC(force, "load on a kernel that the module was not tested on");

static int __init fm_check_kernel(void)
{
	if (FM_KERNEL_IS_KNOWN)
		return 0;
	if (!force) {
		pr_err("not tested on %s: tested are 6.1, 6.12 and 7.3; force=1 loads it all the same\n",
		       utsname()->release);
		return -EOPNOTSUPP;
	}
	pr_warn("not tested on %s; loaded by force\n", utsname()->release);
	return 0;
}

static int __init fm_init(void)
{
	int error = fm_check_kernel();

	if (error)
		return error;
	fm_faults_init();
	error = fm_files_init();
	if (error)
		return error;
	error = fm_streams_init();
	if (error)
		goto files;
	error = fm_pages_init();
	if (error)
		goto streams;
	error = fm_steer_init();
	if (error)
		goto pages;
	error = fm_page_events_add();
	if (error)
		goto steer;
	error = fm_waits_add();
	if (error)
		goto events;
	error = fm_costs_add();
	if (error)
		goto waits;
	error = fm_watchdog_init();
	if (error)
		goto costs;
	error = fm_sysfs_init();
	if (error)
		goto watchdog;
	error = fm_hook_add();
	if (error)
		goto sysfs;
	return 0;
sysfs:
	fm_sysfs_exit();
watchdog:
	fm_watchdog_exit();
costs:
	fm_costs_remove();
waits:
	fm_waits_remove();
events:
	fm_page_events_remove();
steer:
	fm_steer_exit();
pages:
	fm_pages_exit();
streams:
	fm_streams_exit();
files:
	fm_files_exit();
	return error;
}

static void __exit fm_exit(void)
{
	fm_hook_remove();
	/* It looks at the devices, and pages have references to them. */
	fm_watchdog_exit();
	fm_costs_remove();
	fm_waits_remove();
	fm_page_events_remove();
	fm_steer_exit();
	fm_pages_exit();
	fm_sysfs_exit();
	fm_streams_exit();
	fm_files_exit();
}

module_init(fm_init);
module_exit(fm_exit);

MODULE_DESCRIPTION("Readahead policies for the devices that are told to have one");
MODULE_AUTHOR("The Foreread authors");
MODULE_VERSION(FM_VERSION);
MODULE_LICENSE("GPL");
