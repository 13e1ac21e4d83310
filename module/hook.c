// SPDX-License-Identifier: GPL-2.0-only
/*
 * Takes over page_cache_sync_ra() and page_cache_async_ra(), by ftrace.
 *
 * Input: each call of these two functions. Output: calls for mappings of devices with a policy go
 * to fm_readahead(); all others go on to the kernel's function, after one lookup.
 *
 * Guarantee: after fm_hook_remove() no thread runs in this module, and the kernel's functions are
 * untouched. Replacements may sleep, so RCU alone can't tell when the last one has returned. A
 * thread is counted before it is sent to a replacement, and discounted at the end of it:
 *
 * 1. unregister_ftrace_function() waits for all threads in the ftrace handler. No count rises after
 *    that.
 * 2. fm_hook_remove() waits until the count is 0.
 * 3. A thread may still be at the last instructions of a replacement, preempted behind its
 *    discount. synchronize_rcu_tasks() waits until it has left.
 *
 * The replacements call the kernel's functions themselves. The handler knows these calls by their
 * return address in this module, and lets them pass.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>

#include "compat.h"
#include "decide.h"
#include "device.h"
#include "hook.h"

/* A function that is taken over. */
struct fm_hook {
	const char *name;
	unsigned long target;
	unsigned long replacement;
};

/* ftrace stops at a function within so many bytes of its start: behind ENDBR, at most. */
#define FM_ENTRY_BYTES 16

/* Threads that are in a replacement, or sent there: the sum. A single one may be below 0. */
static DEFINE_PER_CPU(long, fm_inside);

/* The discount comes last in both, so that the call before it returns here. */
static noinline void fm_sync_ra(struct readahead_control *ractl, unsigned long req_count)
{
	if (!fm_readahead(ractl, NULL, req_count))
		page_cache_sync_ra(ractl, req_count);
	this_cpu_dec(fm_inside);
}

static noinline void fm_async_ra(struct readahead_control *ractl, struct folio *folio,
				 unsigned long req_count)
{
	if (!fm_readahead(ractl, folio, req_count))
		page_cache_async_ra(ractl, folio, req_count);
	this_cpu_dec(fm_inside);
}

static const struct fm_hook fm_hooks[] = {
	{ "page_cache_sync_ra", (unsigned long)page_cache_sync_ra, (unsigned long)fm_sync_ra },
	{ "page_cache_async_ra", (unsigned long)page_cache_async_ra, (unsigned long)fm_async_ra },
};

static void notrace fm_enter(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *ops,
			     struct ftrace_regs *fregs)
{
	const struct readahead_control *ractl;
	int i;

	if (within_module(parent_ip, THIS_MODULE))
		return;
	ractl = (void *)fm_argument(fregs, 0);
	if (!fm_device_is_taken(ractl->mapping))
		return;
	for (i = 0; i < ARRAY_SIZE(fm_hooks); i++)
		if (ip - fm_hooks[i].target < FM_ENTRY_BYTES) {
			this_cpu_inc(fm_inside);
			fm_go_to(fregs, fm_hooks[i].replacement);
			return;
		}
}

/* One for both functions, so that both are taken, and given back, at once. */
static struct ftrace_ops fm_ops = {
	.func = fm_enter,
	.flags = FTRACE_OPS_FL_SAVE_REGS_IF_SUPPORTED | FTRACE_OPS_FL_IPMODIFY |
		 FTRACE_OPS_FL_RECURSION,
};

/* Counts only fall when this is called, so a sum of 0 is right although it is read bit by bit. */
static bool fm_nobody_is_inside(void)
{
	long sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(*per_cpu_ptr(&fm_inside, cpu));
	return sum == 0;
}

static void fm_hook_wait(void)
{
	unsigned int waited_ms = 0;

	while (!fm_nobody_is_inside()) {
		msleep(1);
		if (++waited_ms == 10000)
			pr_info("waiting for a reader that is still issuing its requests\n");
	}
	synchronize_rcu_tasks();
}

static int fm_hook_filter(void)
{
	int error, i;

	for (i = 0; i < ARRAY_SIZE(fm_hooks); i++) {
		error = ftrace_set_filter_ip(&fm_ops, fm_hooks[i].target, 0, 0);
		if (error) {
			pr_err("ftrace can't stop at %s (%d); is CONFIG_DYNAMIC_FTRACE off?\n",
			       fm_hooks[i].name, error);
			return error;
		}
	}
	return 0;
}

static void fm_hook_say_busy(void)
{
	pr_err("page_cache_sync_ra or page_cache_async_ra is replaced already by another user of ftrace\n");
	pr_err("unload that first: a live patch in /sys/kernel/livepatch, or what has an I in /sys/kernel/tracing/enabled_functions\n");
}

/**
 * fm_hook_add() - takes over both functions
 *
 * Return: 0, or a negative error after a line in the log that says what is in the way.
 */
int fm_hook_add(void)
{
	int error = fm_hook_filter();

	if (error)
		goto free;
	error = register_ftrace_function(&fm_ops);
	if (!error)
		return 0;
	if (error == -EBUSY)
		fm_hook_say_busy();
	else
		pr_err("ftrace refuses to replace page_cache_sync_ra and page_cache_async_ra (%d)\n",
		       error);
free:
	ftrace_free_filter(&fm_ops);
	return error;
}

/* Gives both functions back, and waits until nobody is in this module. Sleeps. */
void fm_hook_remove(void)
{
	unregister_ftrace_function(&fm_ops);
	ftrace_free_filter(&fm_ops);
	fm_hook_wait();
}
