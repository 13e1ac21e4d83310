// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The policy core inside the kernel, for its tests: one run makes one decision, on
 * inputs that user space puts into the variables below and with results that it takes
 * from them. That it loads shows that the verifier accepts the core unchanged.
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
} test;

SEC("syscall")
int core_wants(void *ctx)
{
	(void)ctx;
	fr_wants(test.policy, &test.state, &test.access, &test.limits, &test.wants);
	return 0;
}

SEC("syscall")
int core_decide(void *ctx)
{
	struct fr_call call = { &test.state, &test.access, &test.near, &test.limits };

	(void)ctx;
	fr_decide(test.policy, &call, &test.decision);
	return test.decision.reason;
}

/* The first window of the decision is to be issued. */
SEC("syscall")
int core_issue_begin(void *ctx)
{
	(void)ctx;
	fr_issue_begin(&test.issue, &test.decision.window[0], &test.limits);
	return 0;
}

/* One folio of it. */
SEC("syscall")
int core_issue_next(void *ctx)
{
	(void)ctx;
	return (int)fr_issue_next(&test.issue, &test.folio);
}
