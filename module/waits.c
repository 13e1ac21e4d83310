// SPDX-License-Identifier: GPL-2.0-only
/*
 * How long readers wait for pages.
 *
 * Input: each sleep of a thread until a folio is unlocked that is being read. Output: the account
 * of its pages knows of it (pages.c). When the thread has its page, `foreread` is told how long
 * that took, and whether the page had been fetched before it was asked for.
 *
 * folio_wait_bit_common() is marked as notrace, so ftrace can't stop there, and it gets a
 * kretprobe. No read of a page that is in memory comes to it. Between its begin and its end a
 * thread may sleep for any time, and the module may be unloaded. So nothing is held meanwhile: what
 * is noted are numbers, which are looked up again. A wait for which no note is free is not told.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/kprobes.h>
#include <linux/pagemap.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/timekeeping.h>

#include "ask.h"
#include "compat.h"
#include "device.h"
#include "page_events.h"
#include "pages.h"
#include "stream_table.h"
#include "waits.h"

/* Threads whose waits are timed at once. */
#define FM_WAITS_MAX 512

/* Of a thread that waits, in its note. */
struct fm_wait {
	const struct address_space *mapping; /* a key: it is not followed */
	u64 streams_id;
	u64 begin_ns;
	dev_t device;
	bool was_asked;
};

/* The streams of a folio's file, if its policy remembers. The inode stays for an RCU period. */
static u64 fm_wait_streams(const struct address_space *mapping, dev_t *number)
{
	struct fm_device *device;
	u64 id = 0;

	rcu_read_lock();
	device = fm_device_get(mapping);
	if (device) {
		*number = device->number;
		if (READ_ONCE(device->policy) == FR_FOREREAD)
			id = fm_streams_id(mapping, FR_FOREREAD);
		fm_device_put(device);
	}
	rcu_read_unlock();
	return id;
}

/* folio_wait_bit_common(folio, bit, state, behavior). Return: 0 to be called at its end, too. */
static int fm_on_wait(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	struct folio *folio = fm_folio_at(regs_get_kernel_argument(regs, 0));
	struct fm_wait *wait = (struct fm_wait *)instance->data;

	if (!folio || (int)regs_get_kernel_argument(regs, 1) != PG_locked ||
	    folio_test_uptodate(folio))
		return 1;
	wait->was_asked = fm_pages_waited(folio);
	wait->mapping = READ_ONCE(folio->mapping);
	if (!wait->mapping || fm_is_other_mapping(wait->mapping))
		return 1;
	wait->streams_id = fm_wait_streams(wait->mapping, &wait->device);
	if (wait->streams_id == 0)
		return 1;
	wait->begin_ns = ktime_get_mono_fast_ns();
	return 0;
}

static int fm_on_waited(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	const struct fm_wait *wait = (const struct fm_wait *)instance->data;
	struct fm_streams *streams = fm_streams_get_known(wait->mapping, wait->streams_id);
	struct fm_device *device;

	if (!streams)
		return 0;
	device = fm_device_get_named(wait->device);
	fm_tell_waited(streams, device, ktime_get_mono_fast_ns() - wait->begin_ns, wait->was_asked);
	if (device)
		fm_device_put(device);
	fm_streams_put(streams);
	return 0;
}

static struct kretprobe fm_wait_probe = {
	.kp.symbol_name = "folio_wait_bit_common",
	.entry_handler = fm_on_wait,
	.handler = fm_on_waited,
	.data_size = sizeof(struct fm_wait),
	.maxactive = FM_WAITS_MAX,
};

/**
 * fm_waits_add() - begins to look at waits
 *
 * Return: 0, or a negative error after a line in the log.
 */
int fm_waits_add(void)
{
	int error = register_kretprobe(&fm_wait_probe);

	if (error)
		pr_err("no kretprobe at %s (%d): what becomes of pages can't be known\n",
		       fm_wait_probe.kp.symbol_name, error);
	return error;
}

/* Ends it. No thread is in a handler behind that. Sleeps. */
void fm_waits_remove(void)
{
	unregister_kretprobe(&fm_wait_probe);
}
