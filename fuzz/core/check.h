/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Checks the rules of every decision of the policy core, for any input. Traps if one is broken. */
#ifndef FOREREAD_CHECK_H
#define FOREREAD_CHECK_H

#include "foreread/policy.h"
#include "foreread/names.h"

/* Folios looked at of one window; a window of 2^32 pages would take a while. */
#define STEPS_MAX 300U

struct input {
	struct fr_state state;
	struct fr_access access;
	struct fr_near near;
	struct fr_limits limits;
	fr_u32 policy;
	fr_u32 refusals; /* bit N: folio N of a window is refused */
};

/* The state of a policy; any bits. */
struct memory {
	struct fr_streams streams;
	struct fr_device device;
	struct fr_budget budget;
	struct fr_done done;
};

static inline void must(int holds)
{
	if (!holds)
		__builtin_trap();
}

static inline void check_wants(const struct input *in)
{
	struct fr_wants wants;
	struct fr_probe probe;
	struct fr_near near = in->near;
	fr_u64 page;
	fr_u32 rounds = 0;

	fr_wants(in->policy, &in->state, &in->access, &in->limits, &wants);
	must(wants.before_max <= in->access.index);
	fr_probe_begin(&probe, &wants, &near, in->access.index);
	while (fr_probe_next(&probe, &page)) {
		must(page < in->access.index);
		fr_probe_answer(&probe, in->refusals >> rounds % 32 & 1);
		must(++rounds <= FR_WALK_ROUNDS_MAX);
	}
	fr_probe_end(&probe, &near);
	must(near.sampled_hits <= near.sampled);
}

static inline void check_issue(const struct input *in, const struct fr_window *window)
{
	struct fr_issue issue;
	struct fr_folio folio;
	fr_u64 next = window->start;
	fr_u32 steps = 0, marks = 0;
	fr_u32 again = (in->limits.quirks & FR_QUIRK_LONG_FALLBACK) ? 1 : 0;
	fr_u64 most = window->read_pages;

	/* From a refusal on, all of the window once more, and with a mark of its own. */
	if (again)
		most = fr_readable(&in->limits, window->start,
				   fr_u32_of(fr_add(window->size, window->size)));
	fr_issue_begin(&issue, window, &in->limits);
	while (steps < STEPS_MAX && fr_issue_next(&issue, &folio)) {
		fr_u32 refused = in->refusals >> steps % 32 & 1;
		fr_u64 pages = 1ULL << folio.order;

		must(folio.order <= in->limits.folio_order_max);
		must(folio.index == next);
		must(folio.index % pages == 0);
		must(folio.index - window->start + pages <= most);
		must(steps != 0 || folio.starts_request);
		if (!refused) {
			marks += folio.marked;
			next = folio.index + pages;
		} else {
			fr_issue_refuse(&issue, &folio);
			must(issue.index > folio.index || folio.order > 0 || issue.broken);
			next = issue.index;
		}
		steps++;
	}
	must(marks <= 1 + again);
}

static inline void check_window(const struct input *in, const struct fr_window *window)
{
	const struct fr_limits *limits = &in->limits;
	fr_u64 most = fr_max(in->state.ra_pages, limits->io_pages);

	if (window->read_pages != 0) {
		must(window->start < limits->file_pages);
		must(window->read_pages <= limits->file_pages - window->start);
	}
	must(limits->pages_max == 0 || window->read_pages <= limits->pages_max);
	check_issue(in, window);
	/* Those that see every access count in windows of their own. */
	if (fr_policy_sees(in->policy) && in->access.kind != FR_FORCE)
		return;
	/* Windows of huge pages are of their own size, and stay. */
	most = fr_max(most, fr_max(2U << FR_HUGE_ORDER, in->state.size));
	if (in->policy == FR_WHOLE_FILE)
		most = fr_max(most, limits->whole_pages_max);
	must(window->size <= most);
	must(window->async_size <= window->size);
	must(window->read_pages <= window->size);
	must(limits->pages_max == 0 || window->size <= limits->pages_max);
}

/* Every repetition stays in the file, a step from the one before. */
static inline void check_repeats(const struct input *in, const struct fr_decision *decision)
{
	const struct fr_limits *limits = &in->limits;
	struct fr_window window;
	fr_u32 number = 0;

	must(decision->repeats < FR_FOREREAD_PIECES_MAX);
	must(decision->repeats == 0 || (decision->windows != 0 && decision->step_pages != 0));
	while (fr_decision_window(decision, limits, number, &window)) {
		number++;
		must(number <= decision->windows + decision->repeats);
		must(limits->pages_max == 0 || window.read_pages <= limits->pages_max);
		must(window.read_pages <= window.size);
		if (window.read_pages == 0)
			continue;
		must(window.start < limits->file_pages);
		must(window.read_pages <= limits->file_pages - window.start);
	}
	must(number == (decision->windows == 0 ? 0 : decision->windows + decision->repeats));
}

/* The events that a policy gets between decisions. */
static inline void check_told(const struct input *in, struct memory *memory)
{
	struct fr_state state = in->state;
	struct fr_call call = { &state,		  &in->access,	   &in->near,	   &in->limits,
				&memory->streams, &memory->device, &memory->budget };
	fr_u32 even;

	fr_issued(in->policy, &memory->streams, in->access.thread, in->near.before_pages,
		  in->near.after_pages);
	fr_waited(in->policy, &call, in->near.gap_pages, in->refusals & 1);
	fr_device_done(&memory->device, &memory->done);
	even = fr_device_even_pages(&memory->device, in->refusals);
	must(even >= FR_DEVICE_EVEN_PAGES_MIN && even <= FR_DEVICE_EVEN_PAGES_MAX);
}

static inline void check(const struct input *in, const struct memory *memory)
{
	static struct memory first, second;
	fr_u32 remembers = fr_policy_sees(in->policy);
	struct fr_state state = in->state, again = in->state;
	struct fr_call call = { &state, &in->access, &in->near, &in->limits, 0, 0, 0 };
	struct fr_decision one, two;

	must(fr_log2(in->access.index) == fr_log2_portable(in->access.index));
	must(fr_log2(in->access.index) == fr_log2_bits(in->access.index));
	if (remembers) {
		first = *memory;
		second = *memory;
		/* A few go without. */
		call.streams = (in->refusals & 0x700) == 0x700 ? 0 : &first.streams;
		call.device = (in->refusals & 0x3800) == 0x3800 ? 0 : &first.device;
		call.budget = (in->refusals & 0x1c000) == 0x1c000 ? 0 : &first.budget;
	}
	check_wants(in);
	fr_decide(in->policy, &call, &one);
	must(one.windows <= 2);
	must(one.reason < FR_REASONS && fr_reason_name(one.reason) != 0);
	for (fr_u32 i = 0; i < one.windows; i++)
		check_window(in, &one.window[i]);
	check_repeats(in, &one);
	must(one.windows != 0 || !(one.flags & FR_DECIDED_FORCED));
	must(state.ra_pages == in->state.ra_pages);
	must(state.prev_end_bytes == in->state.prev_end_bytes);

	/* The same again: a decision depends on nothing else. */
	call.state = &again;
	call.streams = call.streams ? &second.streams : 0;
	call.device = call.device ? &second.device : 0;
	call.budget = call.budget ? &second.budget : 0;
	fr_decide(in->policy, &call, &two);
	must(__builtin_memcmp(&one, &two, sizeof(one)) == 0);
	must(__builtin_memcmp(&state, &again, sizeof(state)) == 0);
	if (remembers) {
		must(__builtin_memcmp(&first, &second, sizeof(first)) == 0);
		check_told(in, &first);
	}

	fr_feedback(in->policy, &state, in->refusals, in->near.before_pages);
	fr_advise(&state, &in->limits, in->refusals % 4);
	fr_fault_mapped(&state, in->near.after_pages);
	fr_seek(&state);
	fr_read_done(&state, in->near.after_pages);
	must(fr_capacity_cap_pages(in->limits.file_pages) != 0);
	must(fr_device_default_pages(in->limits.ra_pages, in->limits.file_pages,
				     in->limits.io_pages, in->refusals & 1) >= FR_DEFAULT_PAGES);
}

#endif /* FOREREAD_CHECK_H */
