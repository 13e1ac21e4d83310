// SPDX-License-Identifier: GPL-2.0-only
/*
 * Faults of mappings: what page is wanted, when the kernel asks for readahead.
 *
 * Input: each call of filemap_fault() for a mapping with a policy. Output: the same call of the
 * kernel's function; while that runs, the thread's fault can be looked up.
 *
 * A fault that finds nothing calls page_cache_ra_order(), and one that finds a mark calls
 * page_cache_async_ra(). The first is given a window that do_sync_mmap_readahead() has centred on
 * the fault already, so it does not tell which page is wanted. By then the fault's own struct can't
 * be read any more: the kernel may have given up the lock that keeps its mapping alive. So what a
 * policy has to know is noted on the stack, before. A fault takes one policy's answer at most.
 * The kernel keeps to its locks, waits for the page, and counts the fault, as always.
 *
 * Not noted, so that the kernel answers alone: faults of mappings that are to have huge pages, and
 * those under the policy of this kernel.
 */
#include <linux/fs.h>
#include <linux/hash.h>
#include <linux/pagemap.h>
#include <linux/sched.h>
#include <linux/spinlock.h>

#include <foreread/policy.h>

#include "compat.h"
#include "device.h"
#include "fault.h"

#define FM_FAULT_BUCKETS_LOG2 7
#define FM_FAULT_BUCKETS (1U << FM_FAULT_BUCKETS_LOG2)

struct fm_fault_bucket {
	spinlock_t lock;
	struct hlist_head faults;
};

static struct fm_fault_bucket fm_fault_buckets[FM_FAULT_BUCKETS];

static struct fm_fault_bucket *notrace fm_fault_bucket(void)
{
	return &fm_fault_buckets[hash_ptr(current, FM_FAULT_BUCKETS_LOG2)];
}

static void fm_fault_begin(struct fm_fault *fault)
{
	struct fm_fault_bucket *bucket = fm_fault_bucket();

	spin_lock(&bucket->lock);
	hlist_add_head(&fault->node, &bucket->faults);
	spin_unlock(&bucket->lock);
}

static void fm_fault_end(struct fm_fault *fault)
{
	struct fm_fault_bucket *bucket = fm_fault_bucket();

	spin_lock(&bucket->lock);
	hlist_del(&fault->node);
	spin_unlock(&bucket->lock);
}

/*
 * The fault that this thread is in, or NULL. Only the thread itself begins and ends it, so it stays
 * when the lock is given up.
 */
static struct fm_fault *notrace fm_fault_now(void)
{
	struct fm_fault_bucket *bucket = fm_fault_bucket();
	struct fm_fault *fault, *found = NULL;

	if (hlist_empty(&bucket->faults))
		return NULL;
	spin_lock(&bucket->lock);
	hlist_for_each_entry(fault, &bucket->faults, node)
		if (fault->task == current) {
			found = fault;
			break;
		}
	spin_unlock(&bucket->lock);
	return found;
}

/**
 * fm_fault_asks() - whether this thread is in a fault that no policy was asked about yet
 * @mapping: that it must be of
 */
bool notrace fm_fault_asks(const struct address_space *mapping)
{
	const struct fm_fault *fault = fm_fault_now();

	return fault && fault->asks && fault->mapping == mapping;
}

/**
 * fm_fault_take() - the fault that a policy is to answer
 * @mapping: that it must be of
 *
 * Return: that of this thread, once; NULL where it is not in a fault, or has the answer already.
 */
const struct fm_fault *fm_fault_take(const struct address_space *mapping)
{
	struct fm_fault *fault = fm_fault_now();

	if (!fault || !fault->asks || fault->mapping != mapping)
		return NULL;
	fault->asks = false;
	return fault;
}

static u16 fm_fault_flags(const struct vm_area_struct *vma)
{
	u16 flags = 0;

	if (vma->vm_flags & VM_SEQ_READ)
		flags |= FR_VMA_SEQUENTIAL;
	if (vma->vm_flags & VM_RAND_READ)
		flags |= FR_VMA_RANDOM;
	if (vma->vm_flags & VM_EXEC)
		flags |= FR_VMA_EXEC;
	return flags;
}

/* The policy that answers faults of a mapping, or FM_OFF. */
static u32 fm_fault_policy(const struct address_space *mapping)
{
	struct fm_device *device = fm_device_get(mapping);
	u32 policy;

	if (!device)
		return FM_OFF;
	policy = READ_ONCE(device->policy);
	fm_device_put(device);
	return policy == fm_own_policy() ? FM_OFF : policy;
}

/**
 * fm_fault() - filemap_fault()
 * @vmf: as the kernel's function gets it
 *
 * Return: what that returns.
 */
vm_fault_t fm_fault(struct vm_fault *vmf)
{
	const struct vm_area_struct *vma = vmf->vma;
	struct file *file = vma->vm_file;
	u32 policy = fm_fault_policy(file->f_mapping);
	struct fm_fault fault = {
		.task = current,
		.mapping = file->f_mapping,
		.index = vmf->pgoff,
		.vma_start = vma->vm_pgoff,
		.vma_end = vma->vm_pgoff + vma_pages(vma),
		.flags = fm_fault_flags(vma),
		.asks = true,
	};
	vm_fault_t result;

	if (policy >= FR_POLICIES || (vma->vm_flags & VM_HUGEPAGE))
		return filemap_fault(vmf);
	/*
	 * After some hundred misses that no hits make up for, the kernel asks for no readahead any
	 * more. Policies that are told of every access find out for themselves what is worth it.
	 */
	if (fr_policy_sees(policy))
		WRITE_ONCE(file->f_ra.mmap_miss, 0);
	fm_fault_begin(&fault);
	result = filemap_fault(vmf);
	fm_fault_end(&fault);
	return result;
}

void fm_faults_init(void)
{
	unsigned int number;

	for (number = 0; number < FM_FAULT_BUCKETS; number++)
		spin_lock_init(&fm_fault_buckets[number].lock);
}
