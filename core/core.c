// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The policy core as a library: each inline function once, under a name that can be linked to. Code
 * that includes the headers does not need this file.
 */
#include "foreread/policy.h"
#include "foreread/names.h"
#include "core.h"

void foreread_open(struct fr_state *state, const struct fr_limits *limits)
{
	fr_open(state, limits);
}

void foreread_advise(struct fr_state *state, const struct fr_limits *limits, fr_u32 advice)
{
	fr_advise(state, limits, advice);
}

void foreread_seek(struct fr_state *state)
{
	fr_seek(state);
}

void foreread_read_done(struct fr_state *state, fr_u64 end_bytes)
{
	fr_read_done(state, end_bytes);
}

void foreread_fault_mapped(struct fr_state *state, fr_u64 pages)
{
	fr_fault_mapped(state, pages);
}

void foreread_feedback(fr_u32 policy, struct fr_state *state, fr_u32 kind, fr_u64 pages)
{
	fr_feedback(policy, state, kind, pages);
}

fr_u32 foreread_policy_looks(fr_u32 policy)
{
	return fr_policy_looks(policy);
}

void foreread_wants(fr_u32 policy, const struct fr_state *state, const struct fr_access *access,
		    const struct fr_limits *limits, struct fr_wants *wants)
{
	fr_wants(policy, state, access, limits, wants);
}

void foreread_decide(fr_u32 policy, const struct fr_call *call, struct fr_decision *decision)
{
	fr_decide(policy, call, decision);
}

fr_u32 foreread_linux_rules(fr_u32 policy)
{
	return fr_linux_rules(policy);
}

fr_u32 foreread_linux_quirks(fr_u32 policy)
{
	return fr_linux_quirks(policy);
}

fr_u32 foreread_policy_sees(fr_u32 policy)
{
	return fr_policy_sees(policy);
}

fr_u32 foreread_policy_remembers(fr_u32 policy)
{
	return fr_policy_remembers(policy);
}

void foreread_waited(fr_u32 policy, const struct fr_call *call, fr_u64 waited_ns, fr_u32 asked)
{
	fr_waited(policy, call, waited_ns, asked);
}

void foreread_issued(fr_u32 policy, struct fr_streams *streams, fr_u32 thread, fr_u64 pages,
		     fr_u64 read_pages)
{
	fr_issued(policy, streams, thread, pages, read_pages);
}

void foreread_device_turns(struct fr_device *device)
{
	fr_device_turns(device);
}

void foreread_device_done(struct fr_device *device, const struct fr_done *done)
{
	fr_device_done(device, done);
}

void foreread_budget_merge(struct fr_budget *budget, const struct fr_budget *before,
			   const struct fr_budget *after)
{
	fr_budget_merge(budget, before, after);
}

fr_u32 foreread_device_even_pages(const struct fr_device *device, fr_u32 alone)
{
	return fr_device_even_pages(device, alone);
}

fr_u32 foreread_decision_window(const struct fr_decision *decision, const struct fr_limits *limits,
				fr_u32 number, struct fr_window *window)
{
	return fr_decision_window(decision, limits, number, window);
}

void foreread_probe_begin(struct fr_probe *probe, const struct fr_wants *wants,
			  const struct fr_near *near, fr_u64 index)
{
	fr_probe_begin(probe, wants, near, index);
}

fr_u32 foreread_probe_next(const struct fr_probe *probe, fr_u64 *page)
{
	return fr_probe_next(probe, page);
}

void foreread_probe_answer(struct fr_probe *probe, fr_u32 read)
{
	fr_probe_answer(probe, read);
}

void foreread_probe_end(const struct fr_probe *probe, struct fr_near *near)
{
	fr_probe_end(probe, near);
}

void foreread_issue_begin(struct fr_issue *issue, const struct fr_window *window,
			  const struct fr_limits *limits)
{
	fr_issue_begin(issue, window, limits);
}

fr_u32 foreread_issue_next(struct fr_issue *issue, struct fr_folio *folio)
{
	return fr_issue_next(issue, folio);
}

void foreread_issue_refuse(struct fr_issue *issue, const struct fr_folio *folio)
{
	fr_issue_refuse(issue, folio);
}

fr_u32 foreread_capacity_cap_pages(fr_u64 capacity_bytes)
{
	return fr_capacity_cap_pages(capacity_bytes);
}

fr_u32 foreread_device_default_pages(fr_u32 current_pages, fr_u64 io_opt_bytes,
				     fr_u32 max_sectors_pages, fr_u32 rotational)
{
	return fr_device_default_pages(current_pages, io_opt_bytes, max_sectors_pages, rotational);
}

fr_u32 foreread_around_max_pages(fr_u64 memory_pages)
{
	return fr_around_max_pages(memory_pages);
}

const char *foreread_policy_name(fr_u32 policy)
{
	return fr_policy_name(policy);
}

const char *foreread_reason_name(fr_u32 reason)
{
	return fr_reason_name(reason);
}

/* Sizes and offsets, for code that mirrors the types in another language. */
#define FR_FIELD(type, field) __builtin_offsetof(struct type, field)

/* One a line, so that a diff shows each change. */
/* clang-format off */
static const fr_u32 foreread_layouts[] = {
	sizeof(struct fr_state),
	FR_FIELD(fr_state, prev_end_bytes),
	FR_FIELD(fr_state, aged_pages),
	FR_FIELD(fr_state, ra_pages),
	FR_FIELD(fr_state, mmap_miss),
	FR_FIELD(fr_state, flags),
	sizeof(struct fr_access),
	FR_FIELD(fr_access, req_pages),
	FR_FIELD(fr_access, hit_pages),
	FR_FIELD(fr_access, time_ns),
	FR_FIELD(fr_access, kind),
	FR_FIELD(fr_access, flags),
	FR_FIELD(fr_access, thread),
	sizeof(struct fr_limits),
	FR_FIELD(fr_limits, aged_pages),
	FR_FIELD(fr_limits, ra_pages),
	FR_FIELD(fr_limits, pages_max),
	FR_FIELD(fr_limits, min_pages),
	FR_FIELD(fr_limits, quirks),
	sizeof(struct fr_wants),
	FR_FIELD(fr_wants, after_from),
	FR_FIELD(fr_wants, history_max),
	FR_FIELD(fr_wants, probing),
	sizeof(struct fr_near),
	FR_FIELD(fr_near, after_pages),
	FR_FIELD(fr_near, history_pages),
	FR_FIELD(fr_near, sampled_hits),
	sizeof(struct fr_window),
	FR_FIELD(fr_window, read_pages),
	FR_FIELD(fr_window, flags),
	sizeof(struct fr_decision),
	FR_FIELD(fr_decision, retain_start),
	FR_FIELD(fr_decision, next_look),
	FR_FIELD(fr_decision, step_pages),
	FR_FIELD(fr_decision, saw_pages),
	FR_FIELD(fr_decision, repeats),
	FR_FIELD(fr_decision, reason),
	sizeof(struct fr_call),
	FR_FIELD(fr_call, streams),
	FR_FIELD(fr_call, device),
	FR_FIELD(fr_call, budget),
	sizeof(struct fr_streams),
	sizeof(struct fr_done),
	FR_FIELD(fr_done, pages),
	FR_FIELD(fr_done, first),
	FR_FIELD(fr_done, left),
	FR_FIELD(fr_done, next),
	sizeof(struct fr_device),
	FR_FIELD(fr_device, latency_ns),
	FR_FIELD(fr_device, page_ns),
	FR_FIELD(fr_device, demand_ns),
	FR_FIELD(fr_device, wait_ns),
	FR_FIELD(fr_device, requests),
	sizeof(struct fr_budget),
	FR_FIELD(fr_budget, ahead_pages),
	sizeof(struct fr_probe),
	FR_FIELD(fr_probe, kind),
	sizeof(struct fr_issue),
	FR_FIELD(fr_issue, order),
	FR_FIELD(fr_issue, again_end),
	sizeof(struct fr_folio),
	FR_FIELD(fr_folio, starts_request),
};
/* clang-format on */

fr_u32 foreread_layout(fr_u32 item)
{
	if (item >= sizeof(foreread_layouts) / sizeof(foreread_layouts[0]))
		return FR_U32_MAX;
	return foreread_layouts[item];
}
