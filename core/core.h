/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The policy core as a library; see core.c. Each function is the inline one of the
 * same name with fr_ for foreread_.
 */
#ifndef FOREREAD_CORE_H
#define FOREREAD_CORE_H

#include "foreread/policy.h"

void foreread_open(struct fr_state *state, const struct fr_limits *limits);
void foreread_advise(struct fr_state *state, const struct fr_limits *limits, fr_u32 advice);
void foreread_seek(struct fr_state *state);
void foreread_read_done(struct fr_state *state, fr_u64 end_bytes);
void foreread_fault_mapped(struct fr_state *state, fr_u64 pages);
void foreread_feedback(fr_u32 policy, struct fr_state *state, fr_u32 kind, fr_u64 pages);

fr_u32 foreread_policy_looks(fr_u32 policy);
void foreread_wants(fr_u32 policy, const struct fr_state *state, const struct fr_access *access,
		    const struct fr_limits *limits, struct fr_wants *wants);
void foreread_decide(fr_u32 policy, const struct fr_call *call, struct fr_decision *decision);

fr_u32 foreread_linux_rules(fr_u32 policy);
fr_u32 foreread_linux_quirks(fr_u32 policy);

fr_u32 foreread_policy_sees(fr_u32 policy);
fr_u32 foreread_policy_remembers(fr_u32 policy);
void foreread_waited(fr_u32 policy, const struct fr_call *call, fr_u64 waited_ns, fr_u32 asked);
void foreread_issued(fr_u32 policy, struct fr_streams *streams, fr_u32 thread, fr_u64 pages,
		     fr_u64 read_pages);
void foreread_device_turns(struct fr_device *device);
void foreread_device_done(struct fr_device *device, const struct fr_done *done);
void foreread_budget_merge(struct fr_budget *budget, const struct fr_budget *before,
			   const struct fr_budget *after);
fr_u32 foreread_device_even_pages(const struct fr_device *device, fr_u32 alone);
fr_u32 foreread_decision_window(const struct fr_decision *decision, const struct fr_limits *limits,
				fr_u32 number, struct fr_window *window);

void foreread_probe_begin(struct fr_probe *probe, const struct fr_wants *wants,
			  const struct fr_near *near, fr_u64 index);
fr_u32 foreread_probe_next(const struct fr_probe *probe, fr_u64 *page);
void foreread_probe_answer(struct fr_probe *probe, fr_u32 read);
void foreread_probe_end(const struct fr_probe *probe, struct fr_near *near);

void foreread_issue_begin(struct fr_issue *issue, const struct fr_window *window,
			  const struct fr_limits *limits);
fr_u32 foreread_issue_next(struct fr_issue *issue, struct fr_folio *folio);
void foreread_issue_refuse(struct fr_issue *issue, const struct fr_folio *folio);

fr_u32 foreread_capacity_cap_pages(fr_u64 capacity_bytes);
fr_u32 foreread_device_default_pages(fr_u32 current_pages, fr_u64 io_opt_bytes,
				     fr_u32 max_sectors_pages, fr_u32 rotational);
fr_u32 foreread_around_max_pages(fr_u64 memory_pages);

const char *foreread_policy_name(fr_u32 policy);
const char *foreread_reason_name(fr_u32 reason);

/* Sizes and offsets of the types, by number; FR_U32_MAX after the last. */
fr_u32 foreread_layout(fr_u32 item);

#endif /* FOREREAD_CORE_H */
