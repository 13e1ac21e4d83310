// SPDX-License-Identifier: GPL-2.0-only
/*
 * Takes the policy of a device away when it misbehaves.
 *
 * Input: the counters of a device since its policy was set. Output: where one of three bounds is
 * exceeded, the policy is `off`, so the kernel's own readahead is back; a line in the log says why,
 * once; and the file `watchdog` says it until a policy is written again.
 *
 * It looks once a second at most, and only after decisions. Each bound is judged over a window of
 * its own, which ends when it is large enough:
 *
 * - Waste: more than 85 of 100 settled pages left memory unused. A reader that stops where it does
 *   most harm makes stock waste 10 of 12 pages: it has read two pages, the second of which had the
 *   mark of the first window of 4, and so began the window of 8. That is 83 of 100.
 * - Late: for more than half of the pages that were read ahead and used a reader waited. A request
 *   completes as a whole, so a reader waits for one page of each. Stock's smallest window has three
 *   pages ahead: that is one of three.
 * - Slow: a call of the core takes more than 100 us on average, which is what a request to a flash
 *   disk takes. Then a decision costs more than it can save. A call counts for 1 ms at most, since
 *   its thread may have been preempted.
 *
 * The policy of this kernel is not judged by its pages: what would replace it does the same.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/mutex.h>
#include <linux/workqueue.h>

#include "compat.h"
#include "device.h"
#include "pages.h"
#include "sysfs.h"
#include "watchdog.h"

static unsigned int waste_max_percent = 85;
module_param(waste_max_percent, uint, 0644);
MODULE_PARM_DESC(waste_max_percent,
		 "share of wasted pages above which a policy is taken away; 100 never");

static unsigned int late_max_percent = 50;
module_param(late_max_percent, uint, 0644);
MODULE_PARM_DESC(
	late_max_percent,
	"share of late pages, of those used that were read ahead, above which a policy is taken away; 100 never");

static unsigned int core_max_ns = 100000;
module_param(core_max_ns, uint, 0644);
MODULE_PARM_DESC(core_max_ns,
		 "mean time of a decision above which a policy is taken away; 0 never");

/* Of the default size of a window, 128 KiB, that is 128 windows. */
#define FM_WINDOW_PAGES 4096U
#define FM_WINDOW_CALLS 256U
#define FM_WATCH_EVERY HZ

/* Guards fm_device.watch. */
static DEFINE_MUTEX(fm_watchdog_lock);
static struct workqueue_struct *fm_watchdog_queue;

static struct fm_ratio fm_waste_of(const struct fm_device *device)
{
	u64 wasted = fm_device_count(device, FM_COUNT_JUDGED_WASTED);

	return (struct fm_ratio){ wasted, wasted + fm_device_count(device, FM_COUNT_JUDGED_USED) };
}

static struct fm_ratio fm_late_of(const struct fm_device *device)
{
	return (struct fm_ratio){ fm_device_count(device, FM_COUNT_JUDGED_AHEAD_LATE),
				  fm_device_count(device, FM_COUNT_JUDGED_AHEAD) };
}

static struct fm_ratio fm_slow_of(const struct fm_device *device)
{
	return (struct fm_ratio){ fm_device_count(device, FM_COUNT_JUDGED_NS),
				  fm_device_count(device, FM_COUNT_CORE_CALLS) };
}

/* What was counted since @begin. Counters are read one by one, so a part may be ahead. */
static struct fm_ratio fm_since(const struct fm_ratio *begin, const struct fm_ratio *now)
{
	u64 whole = now->whole - begin->whole;

	return (struct fm_ratio){ now->part - begin->part, whole };
}

/*
 * Judges a window that is large enough, and begins the next one. The share is in hundredths, and
 * for times the mean.
 */
static bool fm_exceeds(struct fm_ratio *begin, struct fm_ratio now, u64 window, u64 times, u64 most,
		       struct fm_ratio *seen)
{
	*seen = fm_since(begin, &now);
	if (seen->whole < window)
		return false;
	*begin = now;
	return seen->part * times > seen->whole * most;
}

static enum fm_verdict fm_judge(struct fm_device *device, struct fm_ratio *seen)
{
	struct fm_watch *watch = &device->watch;
	u64 slow_ns = READ_ONCE(core_max_ns);

	if (fm_exceeds(&watch->slow, fm_slow_of(device), FM_WINDOW_CALLS, 1,
		       slow_ns ? slow_ns : U32_MAX, seen))
		return FM_VERDICT_SLOW;
	if (READ_ONCE(device->policy) == fm_own_policy())
		return FM_VERDICT_OK;
	if (fm_exceeds(&watch->waste, fm_waste_of(device), FM_WINDOW_PAGES, 100,
		       READ_ONCE(waste_max_percent), seen))
		return FM_VERDICT_WASTE;
	if (fm_exceeds(&watch->late, fm_late_of(device), FM_WINDOW_PAGES, 100,
		       READ_ONCE(late_max_percent), seen))
		return FM_VERDICT_LATE;
	return FM_VERDICT_OK;
}

static void fm_say(const struct fm_watch *watch, char *text, size_t bytes)
{
	const char *policy = fm_policy_label(watch->policy);
	const struct fm_ratio *seen = &watch->seen;

	switch (watch->verdict) {
	case FM_VERDICT_WASTE:
		snprintf(text, bytes, "waste: %llu of %llu pages read by %s left memory unused",
			 seen->part, seen->whole, policy);
		return;
	case FM_VERDICT_LATE:
		snprintf(text, bytes,
			 "late: readers waited for %llu of %llu pages read ahead by %s", seen->part,
			 seen->whole, policy);
		return;
	case FM_VERDICT_SLOW:
		snprintf(text, bytes, "slow: %llu decisions of %s took %llu ns each", seen->whole,
			 policy, div64_u64(seen->part, seen->whole));
		return;
	case FM_VERDICT_OK:
		break;
	}
	snprintf(text, bytes, "ok");
}

/* Under fm_watchdog_lock. */
static void fm_watch(struct fm_device *device)
{
	struct fm_watch *watch = &device->watch;
	u32 policy = READ_ONCE(device->policy);
	char text[FM_VERDICT_BYTES];
	enum fm_verdict verdict;
	struct fm_held held;
	struct fm_ratio seen;

	if (policy == FM_OFF)
		return;
	fm_pages_sweep(device, &held);
	verdict = fm_judge(device, &seen);
	if (verdict == FM_VERDICT_OK)
		return;
	WRITE_ONCE(device->policy, FM_OFF);
	watch->verdict = verdict;
	watch->seen = seen;
	watch->policy = policy;
	fm_say(watch, text, sizeof(text));
	pr_warn("%s: %s; the kernel reads ahead again, until a policy is written to devices/%s/policy\n",
		kobject_name(&device->kobject), text, kobject_name(&device->kobject));
}

static void fm_watchdog_work(struct work_struct *work)
{
	mutex_lock(&fm_watchdog_lock);
	fm_devices_each(fm_watch);
	mutex_unlock(&fm_watchdog_lock);
}

static DECLARE_DELAYED_WORK(fm_watchdog, fm_watchdog_work);

/* There has been a decision. */
void fm_watchdog_wake(void)
{
	if (!delayed_work_pending(&fm_watchdog))
		queue_delayed_work(fm_watchdog_queue, &fm_watchdog, FM_WATCH_EVERY);
}

/**
 * fm_watchdog_arm() - sets the policy of a device, with windows that begin now
 * @device: which
 * @policy: or FM_OFF
 */
void fm_watchdog_arm(struct fm_device *device, u32 policy)
{
	struct fm_watch *watch = &device->watch;

	mutex_lock(&fm_watchdog_lock);
	/* From here on, pages of the policy before are not counted for this one. */
	WRITE_ONCE(device->epoch, device->epoch + 1);
	watch->waste = fm_waste_of(device);
	watch->late = fm_late_of(device);
	watch->slow = fm_slow_of(device);
	watch->verdict = FM_VERDICT_OK;
	WRITE_ONCE(device->policy, policy);
	mutex_unlock(&fm_watchdog_lock);
}

/**
 * fm_watchdog_say() - the verdict on the policy of a device
 * @device: which
 * @text: gets `ok`, or a cause with its figures
 * @bytes: of @text; FM_VERDICT_BYTES are enough
 */
void fm_watchdog_say(struct fm_device *device, char *text, size_t bytes)
{
	mutex_lock(&fm_watchdog_lock);
	fm_say(&device->watch, text, bytes);
	mutex_unlock(&fm_watchdog_lock);
}

int fm_watchdog_init(void)
{
	fm_watchdog_queue = alloc_workqueue("foreread", WQ_UNBOUND | WQ_FREEZABLE, 1);
	return fm_watchdog_queue ? 0 : -ENOMEM;
}

/* Behind the hooks: nobody wakes it any more. */
void fm_watchdog_exit(void)
{
	cancel_delayed_work_sync(&fm_watchdog);
	destroy_workqueue(fm_watchdog_queue);
}
