// SPDX-License-Identifier: GPL-2.0-only
/*
 * Takes over the kernel's functions for readahead, by ftrace.
 *
 *	page_cache_sync_ra()	a read that misses
 *	page_cache_async_ra()	a read or a fault that comes to a mark
 *	page_cache_ra_order()	a fault that misses, where filemap_fault() calls it
 *	filemap_fault()		so that it is known which page a fault is at (fault.c)
 *
 * Input: each call of these functions. Output: calls for mappings of devices with a policy go to
 * fm_readahead() and fm_fault(); all others go on to the kernel's function, after one lookup.
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
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>

#include "compat.h"
#include "decide.h"
#include "device.h"
#include "fault.h"
#include "hook.h"
#include "symbol.h"

/**
 * struct fm_hook - a function that is taken over
 * @name: its name
 * @target: its address; 0 where the module can't link to it, until it was looked up
 * @replacement: the module's function
 * @is_taken: whether a call with this first argument goes there; called by ftrace
 */
struct fm_hook {
	const char *name;
	unsigned long target;
	unsigned long replacement;
	bool (*is_taken)(unsigned long argument);
};

/* Threads that are in a replacement, or sent there: the sum. A single one may be below 0. */
static DEFINE_PER_CPU(long, fm_inside);

/* The discount comes last in each, so that the call before it returns here. */
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

/*
 * The kernel's function isn't exported, and is not called. Where no policy answers any more,
 * nothing is read ahead; the fault then reads its page.
 */
static noinline void fm_order_ra(struct readahead_control *ractl)
{
	fm_readahead(ractl, NULL, FM_FAULTED);
	this_cpu_dec(fm_inside);
}

static noinline vm_fault_t fm_filemap_fault(struct vm_fault *vmf)
{
	vm_fault_t result = fm_fault(vmf);

	this_cpu_dec(fm_inside);
	return result;
}

static bool notrace fm_takes_readahead(unsigned long argument)
{
	const struct readahead_control *ractl = (void *)argument;

	return fm_device_is_taken(ractl->mapping);
}

/* Others that call it are the kernel's own readahead, with windows that it has decided. */
static bool notrace fm_takes_order(unsigned long argument)
{
	const struct readahead_control *ractl = (void *)argument;

	return fm_takes_readahead(argument) && fm_fault_asks(ractl->mapping);
}

static bool notrace fm_takes_fault(unsigned long argument)
{
	const struct vm_fault *vmf = (void *)argument;

	return fm_device_is_taken(vmf->vma->vm_file->f_mapping);
}

static struct fm_hook fm_hooks[] = {
	{ "page_cache_sync_ra", (unsigned long)page_cache_sync_ra, (unsigned long)fm_sync_ra,
	  fm_takes_readahead },
	{ "page_cache_async_ra", (unsigned long)page_cache_async_ra, (unsigned long)fm_async_ra,
	  fm_takes_readahead },
	{ "page_cache_ra_order", 0, (unsigned long)fm_order_ra, fm_takes_order },
	{ "filemap_fault", (unsigned long)filemap_fault, (unsigned long)fm_filemap_fault,
	  fm_takes_fault },
};

static void notrace fm_enter(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *ops,
			     struct ftrace_regs *fregs)
{
	const struct fm_hook *hook;

	if (within_module(parent_ip, THIS_MODULE))
		return;
	for (hook = fm_hooks; hook < fm_hooks + ARRAY_SIZE(fm_hooks); hook++)
		if (fm_symbol_has(hook->target, ip)) {
			if (!hook->is_taken(fm_argument(fregs, 0)))
				return;
			this_cpu_inc(fm_inside);
			fm_go_to(fregs, hook->replacement);
			return;
		}
}

/* One for all functions, so that all are taken, and given back, at once. */
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

static int fm_hook_look_up(struct fm_hook *hook)
{
	int error = fm_symbol_find(hook->name, &hook->target);

	if (error)
		pr_err("%s can't be found (%d); is CONFIG_KPROBES off?\n", hook->name, error);
	return error;
}

static int fm_hook_filter(void)
{
	int error, i;

	for (i = 0; i < ARRAY_SIZE(fm_hooks); i++) {
		error = fm_hooks[i].target ? 0 : fm_hook_look_up(&fm_hooks[i]);
		if (error)
			return error;
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
	pr_err("a function for readahead is replaced already by another user of ftrace\n");
	pr_err("unload that first: a live patch in /sys/kernel/livepatch, or what has an I in /sys/kernel/tracing/enabled_functions\n");
}

/**
 * fm_hook_add() - takes over the functions
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
		pr_err("ftrace refuses to replace the functions for readahead (%d)\n", error);
free:
	ftrace_free_filter(&fm_ops);
	return error;
}

/* Gives the functions back, and waits until nobody is in this module. Sleeps. */
void fm_hook_remove(void)
{
	unregister_ftrace_function(&fm_ops);
	ftrace_free_filter(&fm_ops);
	fm_hook_wait();
}
