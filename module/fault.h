/* SPDX-License-Identifier: GPL-2.0-only */
/* The fault that a thread is in, while the kernel may ask for readahead; see fault.c. */
#ifndef FM_FAULT_H
#define FM_FAULT_H

#include <linux/list.h>
#include <linux/mm.h>
#include <linux/types.h>

/**
 * struct fm_fault - a fault on the mapping of a file
 * @node: in its bucket
 * @task: whose fault it is
 * @mapping: of the file; others that the thread reads meanwhile have nothing to do with it
 * @index: page of the file that is wanted
 * @vma_start: first page of the file that is mapped there
 * @vma_end: page behind the last one
 * @flags: FR_VMA_*
 * @asks: whether a policy is to answer; no more once it was asked
 */
struct fm_fault {
	struct hlist_node node;
	const struct task_struct *task;
	const struct address_space *mapping;
	u64 index;
	u64 vma_start;
	u64 vma_end;
	u16 flags;
	bool asks;
};

void fm_faults_init(void);
vm_fault_t fm_fault(struct vm_fault *vmf);
bool fm_fault_asks(const struct address_space *mapping);
const struct fm_fault *fm_fault_take(const struct address_space *mapping);

#endif /* FM_FAULT_H */
