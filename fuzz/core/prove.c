// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * For Frama-C's Eva (scripts/prove.sh): one decision on inputs of which nothing is
 * known, one step of each iteration, and all that is told to a state. No alarm means
 * that no input at all makes any of it overflow (unsigned wrap-around counts), divide
 * by zero, shift too far, or reach outside of its arguments.
 */
#include "foreread/policy.h"
#include "foreread/names.h"

extern volatile fr_u64 any64;
extern volatile fr_u32 any32;
extern volatile fr_u16 any16;
extern volatile fr_u8 any8;

static struct fr_state state;
static struct fr_access access;
static struct fr_near near;
static struct fr_limits limits;
static struct fr_wants wants;
static struct fr_decision decision;
static struct fr_streams streams;
static struct fr_device device;
static struct fr_budget budget, budget_before, budget_after;

static void any_input(void)
{
	struct fr_state any_state = { any64, any64, any64, any64, any64, any32, any32,
				      any32, any32, any32, any16, any8,	 any8 };
	struct fr_access any_access = { any64, any64, any64, any64, any64,
					any64, any8,  any8,  any16, any32 };
	struct fr_near any_near = { any64, any64, any64, any64, any64, any32, any32 };
	struct fr_limits any_limits = { any64, any64, any64, any64, any32, any32, any32, any32,
					any32, any32, any32, any8,  any8,  any8,  any8 };

	state = any_state;
	access = any_access;
	near = any_near;
	limits = any_limits;
}

static void decide(fr_u32 policy)
{
	struct fr_call call = {
		&state,
		&access,
		&near,
		&limits,
		any8 ? &streams : 0,
		any8 ? &device : 0,
		any8 ? &budget : 0,
	};

	any_input();
	fr_wants(policy, &state, &access, &limits, &wants);
	fr_decide(policy, &call, &decision);
}

/* Any bits: each byte is written as one that nothing is known of. */
static void any_bytes(fr_u8 *bytes, fr_u64 size)
{
	fr_u64 at;

	for (at = 0; at < size; at++)
		bytes[at] = any8;
}

/* A policy that remembers, on a memory of which nothing is known, and what it is told. */
static void remember(fr_u32 policy)
{
	struct fr_done done = { any64, any64, any32, any8, any8, any8, any8 };
	struct fr_call call = { &state, &access, &near, &limits, &streams, &device, &budget };
	struct fr_window window;

	any_bytes((fr_u8 *)&streams, sizeof(streams));
	any_bytes((fr_u8 *)&device, sizeof(device));
	any_bytes((fr_u8 *)&budget, sizeof(budget));
	decide(policy);
	fr_decision_window(&decision, &limits, any32, &window);
	fr_waited(policy, &call, any64, any32);
	fr_issued(policy, &streams, any32, any64, any64);
	fr_device_turns(&device);
	fr_device_done(&device, &done);
	any32 = fr_device_even_pages(&device, any32);
	any_bytes((fr_u8 *)&budget_before, sizeof(budget_before));
	any_bytes((fr_u8 *)&budget_after, sizeof(budget_after));
	fr_budget_merge(&budget, &budget_before, &budget_after);
}

static void iterate(void)
{
	struct fr_window window = { any64, any32, any32, any32, any8, any8, any16 };
	struct fr_folio folio = { any64, any8, any8, any8, { 0 } };
	struct fr_issue issue;
	struct fr_wants any_wants = {
		any64, any64, any64, any64, any64, any64, any64, any32, any32
	};
	struct fr_probe probe;
	fr_u64 page;

	any_input();
	fr_issue_begin(&issue, &window, &limits);
	while (any8 && fr_issue_next(&issue, &folio))
		if (any8)
			fr_issue_refuse(&issue, &folio);
	fr_probe_begin(&probe, &any_wants, &near, any64);
	while (any8 && fr_probe_next(&probe, &page))
		fr_probe_answer(&probe, any32);
	fr_probe_end(&probe, &near);
}

static void tell(void)
{
	any_input();
	fr_feedback(any32, &state, any32, any64);
	fr_advise(&state, &limits, any32);
	fr_fault_mapped(&state, any64);
	fr_read_done(&state, any64);
	fr_seek(&state);
	fr_open(&state, &limits);
	any64 = fr_initial_size(any64, any64 & FR_U32_MAX);
	any64 = fr_next_size(any64, any64 & FR_U32_MAX);
	any32 = fr_capacity_cap_pages(any64);
	any32 = fr_device_default_pages(any32, any64, any32, any32);
	any32 = fr_around_max_pages(any64);
}

void prove(void);

void prove(void)
{
	/* Each policy by its number, so that the analysis keeps them apart. */
	decide(FR_LINUX);
	decide(FR_LINUX_6_1);
	decide(FR_LINUX_6_12);
	decide(FR_LINUX_7_3);
	decide(FR_LINUX_2_6_13);
	decide(FR_ADAPTIVE_2005);
	decide(FR_ADAPTIVE_2006);
	decide(FR_SAFE_2010);
	decide(FR_NONE);
	decide(FR_WHOLE_FILE);
	decide(FR_POLICIES);
	remember(FR_DISTANCE);
	remember(FR_LEAP);
	remember(FR_FOREREAD);
	iterate();
	tell();
	fr_policy_name(any32);
	fr_reason_name(any32);
}
