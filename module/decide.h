/* SPDX-License-Identifier: GPL-2.0-only */
/* From a call of the kernel's readahead to a decision of a policy; see decide.c. */
#ifndef FM_DECIDE_H
#define FM_DECIDE_H

#include <linux/fs.h>
#include <linux/pagemap.h>

#include <foreread/policy.h>

struct fm_device;
struct fm_fetch;

/**
 * struct fm_call - one decision: where it comes from, what went in, what came out
 * @device: whose policy decides
 * @fetch: notes which pages are read for it
 * @ractl: of the kernel's call
 * @folio: with the mark that was reached, or NULL for a miss
 * @req_count: of the kernel's call
 * @policy: enum fr_policy
 * @is_steered: whether the kernel's function reads the windows, where it can
 * @access: the access that the policy is told of
 * @near: the state of the page cache around it
 * @limits: sizes of file, device and memory
 * @before: the state before the decision
 * @after: the state after it
 * @made: the decision
 * @streams_id: the file's streams (fm_streams.id), or 0
 * @event: fm_streams.events after the decision, or 0
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
	unsigned long req_count;
	u32 policy;
	bool is_steered;
	struct fr_access access;
	struct fr_near near;
	struct fr_limits limits;
	struct fr_state before;
	struct fr_state after;
	struct fr_decision made;
	u64 streams_id;
	u64 event;
	struct fr_device costs;
	struct fr_budget budget;
	bool knows_costs;
	bool knows_budget;
};

bool fm_readahead(struct readahead_control *ractl, struct folio *folio, unsigned long req_count);

#endif /* FM_DECIDE_H */
