/* SPDX-License-Identifier: GPL-2.0-only */
/* From a call of the kernel's readahead to a decision of a policy; see decide.c. */
#ifndef FM_DECIDE_H
#define FM_DECIDE_H

#include <linux/fs.h>
#include <linux/pagemap.h>

#include <foreread/policy.h>

struct fm_device;
struct fm_fault;
struct fm_fetch;

/**
 * struct fm_ahead - the part of a stream that was asked for and not read yet
 * @start: its lowest page
 * @end: page behind the highest one; equal to @start where there is none
 * @ask_pages: with no more than this ahead, the policy asks for more
 * @is_down: whether the stream goes down
 */
struct fm_ahead {
	u64 start;
	u64 end;
	u32 ask_pages;
	bool is_down;
};

/**
 * struct fm_call - one decision: where it comes from, what went in, what came out
 * @device: whose policy decides
 * @fetch: notes which pages are read for it
 * @ractl: of the kernel's call
 * @folio: with the mark that was reached, or NULL for a miss
 * @fault: of a mapping, or NULL for a read
 * @index: first page that is wanted
 * @req_count: pages that are wanted
 * @policy: enum fr_policy
 * @is_steered: whether the kernel's function reads the windows, where it can
 * @access: the access that the policy is told of
 * @near: the state of the page cache around it
 * @limits: sizes of file, device and memory
 * @before: the state before the decision
 * @after: the state after it
 * @made: the decision
 * @ahead: what of the thread's stream is ahead of it after the decision, where it is known
 * @streams_id: the file's streams (fm_streams.id), or 0
 * @event: fm_streams.events after the decision, or 0
 * @core_ns: time that the core took, and the answers to what it wanted to know
 * @costs: what the policy knew of the disk before the decision
 * @budget: what it knew of memory before the decision
 * @knows_costs: whether @costs was given to the policy
 * @knows_budget: whether @budget was
 */
struct fm_call {
	struct fm_device *device;
	struct fm_fetch *fetch;
	struct readahead_control *ractl;
	struct folio *folio;
	const struct fm_fault *fault;
	pgoff_t index;
	unsigned long req_count;
	u32 policy;
	bool is_steered;
	struct fr_access access;
	struct fr_near near;
	struct fr_limits limits;
	struct fr_state before;
	struct fr_state after;
	struct fr_decision made;
	struct fm_ahead ahead;
	u64 streams_id;
	u64 event;
	u64 core_ns;
	struct fr_device costs;
	struct fr_budget budget;
	bool knows_costs;
	bool knows_budget;
};

/* Pages of a request that a fault makes which found nothing. */
#define FM_FAULTED 0UL

bool fm_readahead(struct readahead_control *ractl, struct folio *folio, unsigned long req_count);

#endif /* FM_DECIDE_H */
