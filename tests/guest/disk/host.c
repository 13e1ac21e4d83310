// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Runs the model on the host, to hold it against crates/model.
 *
 * Input: the fifteen parameters on a line, then lines of a request each: time, offset, length.
 * Output: a line for each request that is done, in order: its number and its time; then the
 * counters.
 */
#include <stdio.h>
#include <stdlib.h>

#include "model.h"

/* No request of a test ends behind it. */
#define SIZE_BYTES (4ULL << 30)

static struct fr_disk disk;

static void tell_done(void)
{
	unsigned int i;

	for (i = 0; i < disk.done_count; i++)
		printf("%llu %llu\n", disk.done[i].id, disk.done[i].done_ns);
	disk.done_count = 0;
}

int main(void)
{
	fr_u64 *numbers = (fr_u64 *)&disk.parameters;
	fr_u64 now_ns, offset_bytes, length_bytes, id = 0;
	unsigned int i;

	for (i = 0; i < sizeof(disk.parameters) / sizeof(fr_u64); i++)
		if (scanf("%llu", &numbers[i]) != 1)
			return 1;
	disk.touches.block_count = fr_disk_block_count(&disk, SIZE_BYTES);
	disk.touches.there_ns = calloc(disk.touches.block_count + 1, sizeof(fr_u64));
	if (!disk.touches.there_ns)
		return 1;
	while (scanf("%llu %llu %llu", &now_ns, &offset_bytes, &length_bytes) == 3) {
		/* The kernel waits for a free tag. */
		while (disk.waiting_count + disk.served_count >= FR_DISK_QUEUE_MAX) {
			fr_disk_run(&disk, fr_disk_next_ns(&disk));
			tell_done();
		}
		fr_disk_submit(&disk, now_ns, id++, offset_bytes, length_bytes);
		tell_done();
	}
	while (fr_disk_next_ns(&disk) != FR_DISK_NEVER) {
		fr_disk_run(&disk, fr_disk_next_ns(&disk));
		tell_done();
	}
	printf("counters %llu %llu %llu %llu %llu %llu\n", disk.counters.requests,
	       disk.counters.bytes, disk.counters.busy_ns, disk.counters.seeks, disk.counters.gaps,
	       disk.counters.first_touches);
	return 0;
}
