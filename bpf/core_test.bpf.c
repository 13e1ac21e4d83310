// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The policy core inside the kernel, for its tests. One run makes one decision. User space writes
 * the inputs to the variables below, and reads the results from them. If this object loads, the
 * verifier accepts the core unchanged.
 */
#include <linux/types.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "../core/foreread/policy.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct {
	struct fr_state state;
	struct fr_access access;
	struct fr_near near;
	struct fr_limits limits;
	struct fr_wants wants;
	struct fr_decision decision;
	struct fr_issue issue;
	struct fr_folio folio;
	fr_u32 policy;
	fr_u32 reserved;
	struct fr_streams streams;
	struct fr_device device;
	struct fr_budget budget;
	struct fr_done done;
	/* The arguments of core_waited(), core_issued() and core_feedback(). */
	fr_u64 waited_ns;
	fr_u64 pages;
	fr_u64 read_pages;
	fr_u32 asked;
	fr_u32 kind;
} test;

/* The arguments of a decision. */
#define CALL                                                                                      \
	{                                                                                         \
		&test.state, &test.access, &test.near, &test.limits, &test.streams, &test.device, \
			&test.budget,                                                             \
	}

SEC("syscall")
int fr_core_wants(void *ctx)
{
	(void)ctx;
	fr_wants(test.policy, &test.state, &test.access, &test.limits, &test.wants);
	return 0;
}

SEC("syscall")
int fr_core_decide(void *ctx)
{
	struct fr_call call = CALL;

	(void)ctx;
	fr_decide(test.policy, &call, &test.decision);
	return test.decision.reason;
}

/* The first window of the decision is to be issued. */
SEC("syscall")
int fr_core_issue_begin(void *ctx)
{
	(void)ctx;
	fr_issue_begin(&test.issue, &test.decision.window[0], &test.limits);
	return 0;
}

/* One folio of it. */
SEC("syscall")
int fr_core_issue_next(void *ctx)
{
	(void)ctx;
	return (int)fr_issue_next(&test.issue, &test.folio);
}

SEC("syscall")
int fr_core_device_done(void *ctx)
{
	(void)ctx;
	fr_device_done(&test.device, &test.done);
	return 0;
}

SEC("syscall")
int fr_core_waited(void *ctx)
{
	struct fr_call call = CALL;

	(void)ctx;
	fr_waited(test.policy, &call, test.waited_ns, test.asked);
	return 0;
}

SEC("syscall")
int fr_core_issued(void *ctx)
{
	(void)ctx;
	fr_issued(test.policy, &test.streams, test.access.thread, test.pages, test.read_pages);
	return 0;
}

SEC("syscall")
int fr_core_feedback(void *ctx)
{
	(void)ctx;
	fr_feedback(test.policy, &test.state, test.kind, test.pages);
	return 0;
}
