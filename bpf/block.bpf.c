// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Events of the block layer for requests of chosen disks, for `foreread analyze`. */
#include "block_kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "block.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define SECTOR_SHIFT 9

/* Set before loading: the disks to watch, major number in the upper half. */
const volatile u64 disks[BLOCK_DISKS_MAX];
const volatile u32 disk_count;

/* Events that found no room. */
u64 lost;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 16 << 20);
} fr_blk_events SEC(".maps");

KNOWN_STRUCT(block_event);

/* The request that an event is about. */
struct subject {
	struct gendisk *disk;
	u64 sector;
	u32 bytes;
	u32 opf;
};

static __always_inline bool is_watched(u32 major, u32 minor)
{
	u64 disk = (u64)major << 32 | minor;
	u32 index;

	for (index = 0; index < BLOCK_DISKS_MAX; index++)
		if (index < disk_count && disks[index] == disk)
			return true;
	return false;
}

#define FLAG(opf, bit, flag) ((opf)&1U << bpf_core_enum_value(enum req_flag_bits, bit) ? (flag) : 0)

static __always_inline u32 flags_of(u32 opf)
{
	return FLAG(opf, __REQ_RAHEAD, BLOCK_READAHEAD) | FLAG(opf, __REQ_SYNC, BLOCK_SYNC) |
	       FLAG(opf, __REQ_META, BLOCK_META) | FLAG(opf, __REQ_FUA, BLOCK_FUA) |
	       FLAG(opf, __REQ_PREFLUSH, BLOCK_PREFLUSH);
}

/* A command that is passed through to the device has no sectors. */
static __always_inline bool has_sectors(u32 opf)
{
	u32 operation = opf & REQ_OP_MASK;

	return operation != bpf_core_enum_value(enum req_op, REQ_OP_DRV_IN) &&
	       operation != bpf_core_enum_value(enum req_op, REQ_OP_DRV_OUT);
}

static __always_inline int tell(u32 action, const struct subject *subject, u64 value)
{
	struct gendisk *disk = subject->disk;
	u32 major = BPF_CORE_READ(disk, major);
	u32 minor = BPF_CORE_READ(disk, first_minor);
	struct block_event *event;
	u64 thread;

	if (!is_watched(major, minor))
		return 0;
	event = bpf_ringbuf_reserve(&fr_blk_events, sizeof(*event), 0);
	if (!event) {
		__sync_fetch_and_add(&lost, 1);
		return 0;
	}
	event->time_ns = bpf_ktime_get_ns();
	event->value = value;
	event->major = major;
	event->minor = minor;
	event->group = bpf_get_current_cgroup_id();
	thread = bpf_get_current_pid_tgid();
	event->pid = thread;
	event->process = thread >> 32;
	event->cpu = bpf_get_smp_processor_id();
	event->action = action;
	event->operation = subject->opf & REQ_OP_MASK;
	event->flags = flags_of(subject->opf);
	event->padding = 0;
	event->sectors = has_sectors(subject->opf) ? subject->bytes >> SECTOR_SHIFT : 0;
	event->sector = event->sectors ? subject->sector : 0;
	if (bpf_get_current_comm(event->comm, sizeof(event->comm)))
		event->comm[0] = 0;
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	return 0;
}

static __always_inline int tell_bio(u32 action, struct bio *bio, u64 value)
{
	struct subject subject = {
		.disk = BPF_CORE_READ(bio, bi_bdev, bd_disk),
		.sector = BPF_CORE_READ(bio, bi_iter.bi_sector),
		.bytes = BPF_CORE_READ(bio, bi_iter.bi_size),
		.opf = BPF_CORE_READ(bio, bi_opf),
	};

	return tell(action, &subject, value);
}

static __always_inline int tell_request(u32 action, struct request *request, u64 value)
{
	struct subject subject = {
		.disk = BPF_CORE_READ(request, q, disk),
		.sector = BPF_CORE_READ(request, __sector),
		.bytes = BPF_CORE_READ(request, __data_len),
		.opf = BPF_CORE_READ(request, cmd_flags),
	};

	return tell(action, &subject, value);
}

static __always_inline int tell_queue(u32 action, struct request_queue *queue, u64 value)
{
	struct subject subject = { .disk = BPF_CORE_READ(queue, disk) };

	return tell(action, &subject, value);
}

SEC("tp_btf/block_bio_queue")
int BPF_PROG(fr_blk_queued, struct bio *bio)
{
	return tell_bio(BLOCK_QUEUED, bio, 0);
}

SEC("tp_btf/block_getrq")
int BPF_PROG(fr_blk_got_request, struct bio *bio)
{
	return tell_bio(BLOCK_GOT_REQUEST, bio, 0);
}

SEC("tp_btf/block_bio_backmerge")
int BPF_PROG(fr_blk_back_merged, struct bio *bio)
{
	return tell_bio(BLOCK_BACK_MERGED, bio, 0);
}

SEC("tp_btf/block_bio_frontmerge")
int BPF_PROG(fr_blk_front_merged, struct bio *bio)
{
	return tell_bio(BLOCK_FRONT_MERGED, bio, 0);
}

SEC("tp_btf/block_split")
int BPF_PROG(fr_blk_split, struct bio *bio, unsigned int at_sector)
{
	return tell_bio(BLOCK_SPLIT, bio, at_sector);
}

SEC("tp_btf/block_plug")
int BPF_PROG(fr_blk_plugged, struct request_queue *queue)
{
	return tell_queue(BLOCK_PLUGGED, queue, 0);
}

SEC("tp_btf/block_unplug")
int BPF_PROG(fr_blk_unplugged, struct request_queue *queue, unsigned int requests, bool explicit)
{
	return tell_queue(explicit ? BLOCK_UNPLUGGED : BLOCK_TIMER_UNPLUGGED, queue, requests);
}

SEC("tp_btf/block_rq_insert")
int BPF_PROG(fr_blk_inserted, struct request *request)
{
	return tell_request(BLOCK_INSERTED, request, 0);
}

/* A whole request goes to the end of another one, like a bio. */
SEC("tp_btf/block_rq_merge")
int BPF_PROG(fr_blk_request_merged, struct request *request)
{
	return tell_request(BLOCK_BACK_MERGED, request, 0);
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(fr_blk_issued, struct request *request)
{
	return tell_request(BLOCK_ISSUED, request, 0);
}

SEC("tp_btf/block_rq_requeue")
int BPF_PROG(fr_blk_requeued, struct request *request)
{
	return tell_request(BLOCK_REQUEUED, request, 0);
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(fr_blk_completed, struct request *request, u8 status, unsigned int bytes)
{
	struct subject subject = {
		.disk = BPF_CORE_READ(request, q, disk),
		.sector = BPF_CORE_READ(request, __sector),
		.bytes = bytes,
		.opf = BPF_CORE_READ(request, cmd_flags),
	};

	return tell(BLOCK_COMPLETED, &subject, status);
}
