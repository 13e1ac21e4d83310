// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Decisions on two domains: a small one, exhausted, and the edges of the large one,
 * drawn from. Prints how many of each.
 */
#include <stdio.h>

#include "check.h"

static const fr_u64 edges[] = {
	0,
	1,
	2,
	3,
	31,
	32,
	33,
	63,
	64,
	127,
	128,
	511,
	512,
	4095,
	4096,
	65535,
	65536,
	1ULL << 31,
	FR_U32_MAX - 1,
	FR_U32_MAX,
	1ULL << 32,
	1ULL << 40,
	1ULL << 51,
	1ULL << 52,
	1ULL << 63,
	FR_U64_MAX - 1,
	FR_U64_MAX,
};

static fr_u64 seed = 0x9e3779b97f4a7c15ULL;

/* xorshift64: no multiplication that -fsanitize=integer would report. */
static fr_u64 drawn(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static fr_u64 edge(void)
{
	return edges[drawn() % (sizeof(edges) / sizeof(edges[0]))];
}

static fr_u32 edge32(void)
{
	return (fr_u32)(edge() & FR_U32_MAX);
}

static struct memory memory;

/* Some words of the memory, of each size, and those on which much depends. */
static void draw_memory(void)
{
	fr_u64 *words = (fr_u64 *)(void *)&memory;
	fr_u32 *halves = (fr_u32 *)(void *)&memory;
	fr_u8 *bytes = (fr_u8 *)&memory;

	for (int count = 0; count < 12; count++) {
		words[drawn() % (sizeof(memory) / 8)] = edge();
		halves[drawn() % (sizeof(memory) / 4)] = edge32();
		bytes[drawn() % sizeof(memory)] = (fr_u8)(drawn() & 0xff);
	}
	words[(sizeof(memory.streams) + drawn() % sizeof(memory.device)) / 8] = edge();
	memory.streams.count = (fr_u32)(drawn() % (FR_STREAMS + 2));
	memory.streams.lone_at = drawn() % 8 == 0 ? edge32() : (fr_u32)(drawn() % 200);
	memory.streams.by_thread[drawn() % FR_STREAMS_THREADS] = (fr_u8)(drawn() % 70);
	memory.done = (struct fr_done){
		.now_ns = edge(),
		.took_ns = edge(),
		.pages = edge32(),
		.first = (fr_u8)(drawn() & 1),
		.left = (fr_u8)(drawn() & 1),
		.next = (fr_u8)(drawn() & 1),
	};
}

/* An access where a stream goes on, or a single one was. */
static void draw_near(struct input *in)
{
	struct fr_streams *streams = &memory.streams;
	fr_u64 number = drawn();

	in->access.thread = (fr_u32)(number & 3);
	if (number & 4)
		in->access.index = streams->key[number >> 8 & (FR_STREAMS - 1)];
	else
		in->access.index = streams->lone[number >> 8 & (FR_STREAMS_LONE - 1)].start;
	in->access.index = number & 8 ? fr_add(in->access.index, number >> 16 & 31) :
					fr_sub(in->access.index, number >> 16 & 31);
	in->access.kind = number & 16 ? FR_READ_LOOK : in->access.kind;
}

static void draw(struct input *in)
{
	in->state = (struct fr_state){
		.start = edge(),
		.prev_end_bytes = edge(),
		.ahead_start = edge(),
		.prev_page = edge(),
		.aged_pages = edge(),
		.size = edge32(),
		.async_size = edge32(),
		.ra_pages = edge32(),
		.ahead_size = edge32(),
		.cache_hit_pages = edge32(),
		.mmap_miss = (fr_u16)(edge() & 0xffff),
		.order = (fr_u8)(drawn() & 0xff),
		.flags = (fr_u8)(drawn() & 0xff),
	};
	in->access = (struct fr_access){
		.index = edge(),
		.req_pages = edge(),
		.vma_start = edge(),
		.vma_end = edge(),
		.hit_pages = edge(),
		.time_ns = edge(),
		.thread = edge32(),
		.kind = (fr_u8)(drawn() % (FR_KINDS + 1)),
		.folio_order = (fr_u8)(edge() & 0xff),
		.flags = (fr_u16)(drawn() & drawn() & 0xffff),
	};
	in->near = (struct fr_near){ edge(), edge(), edge(), edge(), edge(), edge32(), edge32() };
	in->limits = (struct fr_limits){
		.file_pages = edge(),
		.memory_pages = edge(),
		.reclaim_pages = edge(),
		.aged_pages = edge(),
		.ra_pages = edge32(),
		.io_pages = edge32(),
		.pages_max = edge32(),
		.whole_pages_max = edge32(),
		.readahead_ratio = edge32(),
		.readahead_hit_rate = edge32(),
		.min_pages = edge32(),
		.folio_order_max = (fr_u8)(edge() & 0xff),
		.exec_order = (fr_u8)(edge() & 0xff),
		.quirks = (fr_u8)(drawn() & 0xff),
	};
	in->policy = (fr_u32)(drawn() % (FR_POLICIES + 1));
	in->refusals = (fr_u32)(drawn() & drawn() & FR_U32_MAX);
	draw_memory();
	if (drawn() & 1)
		draw_near(in);
}

/* All values of a few bits of everything that decisions turn on. */
static void small(struct input *in, fr_u64 number)
{
	fr_u64 rest = number;

#define TAKE(values)                            \
	({                                      \
		fr_u64 taken = rest % (values); \
		rest /= (values);               \
		taken;                          \
	})
	in->policy = (fr_u32)TAKE(FR_POLICIES);
	in->access.kind = (fr_u8)TAKE(FR_KINDS);
	in->access.index = TAKE(6);
	in->access.req_pages = TAKE(4);
	in->state.start = TAKE(3);
	in->state.size = (fr_u32)TAKE(4);
	in->state.async_size = (fr_u32)TAKE(4);
	in->state.ra_pages = (fr_u32)TAKE(5);
	in->near.before_pages = TAKE(4);
	in->near.after_pages = TAKE(3);
	in->state.prev_page = in->access.index - TAKE(2) * (in->access.index > 0);
	in->state.prev_end_bytes = in->state.prev_page * FR_PAGE_BYTES;
	in->state.ahead_start = in->state.start + in->state.size;
	in->state.ahead_size = in->state.size & in->state.async_size;
	in->near.history_pages = in->near.before_pages;
	in->near.sampled = 2;
	in->near.sampled_hits = (fr_u32)in->near.before_pages & 1;
	in->limits.file_pages = 8;
	in->limits.ra_pages = in->state.ra_pages;
	in->limits.io_pages = 3;
	in->limits.whole_pages_max = 5;
	in->limits.readahead_ratio = 50;
	in->limits.readahead_hit_rate = 2;
	in->limits.folio_order_max = (fr_u8)(in->near.after_pages & 2);
	in->refusals = (fr_u32)(number & (number >> 7) & FR_U32_MAX);
	must(rest == 0);
}

#define SMALL_COUNT (1ULL * FR_POLICIES * FR_KINDS * 6 * 4 * 3 * 4 * 4 * 5 * 4 * 3 * 2)
#define EDGES_COUNT 2000000ULL

int main(void)
{
	struct input in = { 0 };

	/* Nothing is remembered in the small domain: what is, is drawn. */
	for (fr_u64 number = 0; number < SMALL_COUNT; number++) {
		small(&in, number);
		check(&in, &memory);
	}
	for (fr_u64 count = 0; count < EDGES_COUNT; count++) {
		draw(&in);
		check(&in, &memory);
	}
	printf("%llu decisions of the small domain, %llu of the edges\n", SMALL_COUNT, EDGES_COUNT);
	return 0;
}
