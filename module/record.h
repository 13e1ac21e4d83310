/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The tracepoints `foreread:decision`, `foreread:waited` and `foreread:issued`: each call of the
 * core with all of its input and its output, so that the core on another machine can be held
 * against it.
 *
 * Structs are printed as their bytes, in hexadecimal digits: struct fr_state, fr_access, fr_near,
 * fr_limits, fr_decision, fr_device (costs) and fr_budget of core/foreread. `-` stands for a struct
 * that the core was not given.
 *
 * The state of a file's streams is too large to be printed. It begins as zero bytes at the first
 * event of a `streams` number, and the events of this number, in their order, lead from there on.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM foreread

#if !defined(FM_RECORD_H) || defined(TRACE_HEADER_MULTI_READ)
#define FM_RECORD_H

#include <linux/tracepoint.h>

#include "decide.h"
#include "device.h"

/* Laid out as the kernel lays out such macros. */
/* clang-format off */
TRACE_EVENT(decision,
	TP_PROTO(const struct fm_call *call),
	TP_ARGS(call),
	TP_STRUCT__entry(
		__field(dev_t, device)
		__field(unsigned long, inode)
		__field(u32, policy)
		__field(u64, streams)
		__field(u64, event)
		__array(u8, before, sizeof(struct fr_state))
		__array(u8, access, sizeof(struct fr_access))
		__array(u8, near, sizeof(struct fr_near))
		__array(u8, limits, sizeof(struct fr_limits))
		__array(u8, made, sizeof(struct fr_decision))
		__array(u8, after, sizeof(struct fr_state))
		__field(bool, knows_costs)
		__field(bool, knows_budget)
		__array(u8, costs, sizeof(struct fr_device))
		__array(u8, budget, sizeof(struct fr_budget))
	),
	TP_fast_assign(
		__entry->device = call->ractl->mapping->host->i_sb->s_dev;
		__entry->inode = call->ractl->mapping->host->i_ino;
		__entry->policy = call->policy;
		__entry->streams = call->streams_id;
		__entry->event = call->event;
		memcpy(__entry->before, &call->before, sizeof(struct fr_state));
		memcpy(__entry->access, &call->access, sizeof(struct fr_access));
		memcpy(__entry->near, &call->near, sizeof(struct fr_near));
		memcpy(__entry->limits, &call->limits, sizeof(struct fr_limits));
		memcpy(__entry->made, &call->made, sizeof(struct fr_decision));
		memcpy(__entry->after, &call->after, sizeof(struct fr_state));
		__entry->knows_costs = call->knows_costs;
		__entry->knows_budget = call->knows_budget;
		memcpy(__entry->costs, &call->costs, sizeof(struct fr_device));
		memcpy(__entry->budget, &call->budget, sizeof(struct fr_budget));
	),
	TP_printk("device=%u:%u inode=%lu policy=%u streams=%llu event=%llu before=%s access=%s near=%s "
		  "limits=%s made=%s after=%s costs=%s budget=%s",
		  MAJOR(__entry->device), MINOR(__entry->device), __entry->inode,
		  __entry->policy, __entry->streams, __entry->event,
		  __print_hex_str(__entry->before, sizeof(struct fr_state)),
		  __print_hex_str(__entry->access, sizeof(struct fr_access)),
		  __print_hex_str(__entry->near, sizeof(struct fr_near)),
		  __print_hex_str(__entry->limits, sizeof(struct fr_limits)),
		  __print_hex_str(__entry->made, sizeof(struct fr_decision)),
		  __print_hex_str(__entry->after, sizeof(struct fr_state)),
		  __entry->knows_costs ?
			  __print_hex_str(__entry->costs, sizeof(struct fr_device)) : "-",
		  __entry->knows_budget ?
			  __print_hex_str(__entry->budget, sizeof(struct fr_budget)) : "-")
);

TRACE_EVENT(waited,
	TP_PROTO(u32 policy, u64 streams, u64 event, u32 thread, u64 waited_ns, bool was_asked,
		 const struct fr_device *costs),
	TP_ARGS(policy, streams, event, thread, waited_ns, was_asked, costs),
	TP_STRUCT__entry(
		__field(u32, policy)
		__field(u64, streams)
		__field(u64, event)
		__field(u32, thread)
		__field(u64, waited_ns)
		__field(bool, was_asked)
		__field(bool, knows_costs)
		__array(u8, costs, sizeof(struct fr_device))
	),
	TP_fast_assign(
		__entry->policy = policy;
		__entry->streams = streams;
		__entry->event = event;
		__entry->thread = thread;
		__entry->waited_ns = waited_ns;
		__entry->was_asked = was_asked;
		__entry->knows_costs = costs != NULL;
		if (costs)
			memcpy(__entry->costs, costs, sizeof(struct fr_device));
	),
	TP_printk("policy=%u streams=%llu event=%llu thread=%u waited=%llu asked=%u costs=%s",
		  __entry->policy, __entry->streams, __entry->event, __entry->thread,
		  __entry->waited_ns, __entry->was_asked,
		  __entry->knows_costs ?
			  __print_hex_str(__entry->costs, sizeof(struct fr_device)) : "-")
);

TRACE_EVENT(issued,
	TP_PROTO(u32 policy, u64 streams, u64 event, u32 thread, u64 pages, u64 read_pages),
	TP_ARGS(policy, streams, event, thread, pages, read_pages),
	TP_STRUCT__entry(
		__field(u32, policy)
		__field(u64, streams)
		__field(u64, event)
		__field(u32, thread)
		__field(u64, pages)
		__field(u64, read_pages)
	),
	TP_fast_assign(
		__entry->policy = policy;
		__entry->streams = streams;
		__entry->event = event;
		__entry->thread = thread;
		__entry->pages = pages;
		__entry->read_pages = read_pages;
	),
	TP_printk("policy=%u streams=%llu event=%llu thread=%u pages=%llu read=%llu",
		  __entry->policy, __entry->streams, __entry->event, __entry->thread,
		  __entry->pages, __entry->read_pages)
);
/* clang-format on */

#endif /* FM_RECORD_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE record
#include <trace/define_trace.h>
