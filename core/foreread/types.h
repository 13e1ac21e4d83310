/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The types of the policy core: the inputs of a decision and its output.
 *
 * This directory is freestanding C11. It includes nothing but itself, allocates
 * nothing, has no globals, no floats, no function pointers, no recursion and no
 * signed division. Functions that BPF does not inline (FR_ONCE) take at most five
 * arguments, the limit of a call in BPF. So the same text compiles for the host,
 * with -target bpf and with the flags of a kernel.
 *
 * All page counts and indices are in pages of one size, the caller's (4 KiB in
 * every example). A decision takes two calls:
 *
 *	fr_wants(policy, &state, &access, &limits, &wants);
 *	... the caller fills near with what wants asks for ...
 *	fr_decide(policy, &call, &decision);
 *
 * struct fr_call points to the state, the access, near and the limits. Most
 * decisions want nothing, so the page cache is looked at only when its answer
 * matters. Everything is total: any bits in any input give a defined answer that
 * respects the limits.
 */
#ifndef FOREREAD_TYPES_H
#define FOREREAD_TYPES_H

typedef unsigned char fr_u8;
typedef unsigned short fr_u16;
typedef unsigned int fr_u32;
typedef unsigned long long fr_u64;

/* BPF inlines almost everything; elsewhere inlining makes a decision cost nanoseconds. */
#define FR_INLINE static inline __attribute__((always_inline, unused))

/*
 * For functions with loops, and for those that many paths reach. The BPF verifier checks a function
 * with a name of its own once, for any arguments. It checks an inlined one for each path that
 * reaches it. Such a function may be given pointers to memory and numbers, and must expect a null
 * pointer.
 */
#ifdef __bpf__
#define FR_ONCE __attribute__((noinline, weak))
#else
#define FR_ONCE FR_INLINE
#endif

#define FR_U32_MAX 0xffffffffU
#define FR_U64_MAX 0xffffffffffffffffULL
/* As the core counts them: limits in bytes (2 MiB, 128 KiB) are turned into pages with this. */
#define FR_PAGE_SHIFT 12
#define FR_PAGE_BYTES (1U << FR_PAGE_SHIFT)

/* Which policy decides. The numbers are part of the interface: they never change. */
enum fr_policy {
	FR_LINUX = 0,
	FR_LINUX_2_6_13 = 1,
	FR_ADAPTIVE_2005 = 2,
	FR_ADAPTIVE_2006 = 3,
	FR_SAFE_2010 = 4,
	FR_NONE = 5,
	FR_WHOLE_FILE = 6,
	FR_LEAP = 7,
	FR_DISTANCE = 8,
	FR_FOREREAD = 9,
	FR_LINUX_6_1 = 10,
	FR_LINUX_6_12 = 11,
	FR_LINUX_7_3 = 12,
	FR_POLICIES = 13,
};

/**
 * enum fr_kind - the kind of an access
 * @FR_READ_MISS: read(2) found no page at the index (page_cache_sync_ra)
 * @FR_READ_MARK: read(2) found a marked page at the index (page_cache_async_ra)
 * @FR_READ_LOOK: read(2) is at the first page of a request, cached or not. Two kinds
 *	of policies get it. Those of which fr_policy_looks() is true (linux-2.6.13)
 *	also get it at decision.next_look; they answer as the kernel's
 *	page_cache_readahead() did before 2.6.23. Those of which fr_policy_sees() is
 *	true (leap, distance, foreread) get it once for each read(2), with
 *	FR_ACCESS_MISSED if a page of it is not cached
 * @FR_FAULT_MISS: a fault on a mapping found no page
 * @FR_FAULT_MARK: a fault on a mapping found a marked page
 * @FR_FAULT_HIT: a fault on a mapping found an unmarked page
 * @FR_FORCE: POSIX_FADV_WILLNEED, readahead(2), MADV_WILLNEED
 */
enum fr_kind {
	FR_READ_MISS = 0,
	FR_READ_MARK = 1,
	FR_READ_LOOK = 2,
	FR_FAULT_MISS = 3,
	FR_FAULT_MARK = 4,
	FR_FAULT_HIT = 5,
	FR_FORCE = 6,
	FR_KINDS = 7,
};

/* fr_access.flags: of the mapping, as in vm_flags, and of the moment. */
#define FR_VMA_SEQUENTIAL 0x01U /* VM_SEQ_READ: MADV_SEQUENTIAL */
#define FR_VMA_RANDOM 0x02U /* VM_RAND_READ: MADV_RANDOM */
#define FR_VMA_EXEC 0x04U /* VM_EXEC */
#define FR_VMA_HUGE 0x08U /* VM_HUGEPAGE, and the mapping allows it */
#define FR_ACCESS_CONGESTED 0x10U /* the task's block cgroup is congested */
#define FR_ACCESS_WRITEBACK 0x20U /* the folio is under writeback: its mark is not one */
#define FR_ACCESS_LOCKED 0x40U /* the folio is still being read: no hit for mmap_miss */
#define FR_ACCESS_NO_FILE 0x80U /* no struct file: a file system reads its own metadata */
#define FR_ACCESS_MISSED 0x100U /* looks: a page asked for is not in the cache */

/**
 * struct fr_access - one access
 * @index: page read or faulted; for FR_READ_MARK the first page of the marked folio
 * @req_pages: for reads, pages from @index to the end of what is left of the
 *	system call; for FR_FORCE, pages asked for; for FR_FAULT_HIT, pages that
 *	fault-around has mapped from @index on, where the caller sees that, else 0
 *	or 1; ignored for other faults
 * @vma_start: first page of the file that the mapping covers; faults only
 * @vma_end: page after the last one that the mapping covers; 0 means unknown
 * @hit_pages: pages that this stream has read since its last window, where the
 *	caller counts them; 0 means not counted, and the distance is taken. For looks
 *	with FR_ACCESS_MISSED, pages from @index on that are cached
 * @time_ns: time, by any clock that does not go back; 0 where the caller has none
 * @kind: enum fr_kind
 * @folio_order: order of the folio that was found, for marks and hits
 * @flags: FR_VMA_* and FR_ACCESS_*
 * @thread: the thread, so that the streams of several threads are told apart; 0 where the
 *	caller doesn't know
 */
struct fr_access {
	fr_u64 index;
	fr_u64 req_pages;
	fr_u64 vma_start;
	fr_u64 vma_end;
	fr_u64 hit_pages;
	fr_u64 time_ns;
	fr_u8 kind;
	fr_u8 folio_order;
	fr_u16 flags;
	fr_u32 thread;
};

/* fr_state.flags */
#define FR_STATE_RANDOM 0x01U /* FMODE_RANDOM: POSIX_FADV_RANDOM */
#define FR_STATE_SEEKED 0x02U /* lseek(2) since the last read */
#define FR_STATE_THRASHED 0x04U /* safe-2010, foreread: read-ahead pages were evicted unread */
#define FR_STATE_MISS 0x08U /* linux-2.6.13: the same, once; distance: the reader waited */
#define FR_STATE_IN_CACHE 0x10U /* linux-2.6.13: everything is cached, don't bother */
#define FR_STATE_WHOLE 0x20U /* whole-file: the file was asked for */
#define FR_STATE_READS 0x40U /* distance: something had to be read lately */

/**
 * struct fr_state - the state that a policy keeps for one open file
 * @start: first page of the window decided last
 * @prev_end_bytes: byte after the last one that the previous read(2) returned;
 *	all ones before the first (the kernel's prev_pos)
 * @ahead_start: linux-2.6.13: first page of the ahead window
 * @prev_page: linux-2.6.13: last page looked at; all ones before the first.
 *	adaptive-2006: where the last mark was hit (its la_index)
 * @aged_pages: adaptive-2006: fr_limits.aged_pages when the last window was decided
 * @size: pages of the window decided last; 0 means none
 * @async_size: pages of the tail of that window that count as read ahead; the
 *	mark is on page @start + @size - @async_size
 * @ra_pages: this file's maximum window, copied from the device at open
 * @ahead_size: linux-2.6.13: pages of the ahead window; 0 means none.
 *	adaptive-2006: pages of the previous backward window
 * @cache_hit_pages: linux-2.6.13: pages in a row asked for and found cached
 * @mmap_miss: faults that missed, less those that hit; 0 to 1000
 * @order: folio order of the window decided last
 * @flags: FR_STATE_*
 *
 * Plain data: copy it, store it in a BPF map, send it. All zero bytes is not
 * the state of a file just opened; fr_open() makes that.
 */
struct fr_state {
	fr_u64 start;
	fr_u64 prev_end_bytes;
	fr_u64 ahead_start;
	fr_u64 prev_page;
	fr_u64 aged_pages;
	fr_u32 size;
	fr_u32 async_size;
	fr_u32 ra_pages;
	fr_u32 ahead_size;
	fr_u32 cache_hit_pages;
	fr_u16 mmap_miss;
	fr_u8 order;
	fr_u8 flags;
};

/*
 * fr_limits.quirks: defects by which a kernel departs from its own rule. fr_linux_quirks() returns
 * those of each kernel.
 */

/*
 * Measured on all four kernels: page_cache_next_miss() searches for the hole behind a foreign mark.
 * If the search starts inside a large folio, it walks out of step with its index, and reports the
 * hole late or misses it. The result depends on the folios. So only a caller who knows them
 * (near.after_pages) can answer as the kernel does; the core itself does not look at this.
 */
#define FR_QUIRK_LATE_HOLE 0x01U
/*
 * Until Linux 6.18, measured: page by page, do_page_cache_ra() cuts a window at the end of the file
 * and keeps its lookahead. The mark is then counted back from the cut end, so it comes too early,
 * or not at all. With large folios the mark is at the intended place.
 */
#define FR_QUIRK_EOF_MARK 0x02U
/*
 * Measured on all four kernels: page_cache_prev_miss() searches for history behind a miss. If the
 * search starts inside a large folio, it continues before the folio's first page. It counts that as
 * one page only, and so reports too little history. The caller must answer this, too
 * (near.before_pages).
 */
#define FR_QUIRK_SHORT_HISTORY 0x04U
/*
 * Until Linux 6.18, measured: if all pages that it may examine are cached, page_cache_prev_miss()
 * returns the last one of them instead of the one before. The history then counts one page less
 * than the maximum.
 */
#define FR_QUIRK_HISTORY_CAP 0x08U
/*
 * Linux 6.1, measured: if all pages that it may examine are cached, page_cache_next_miss() returns
 * the last of them as if it were the hole. The window behind a foreign mark then starts on a cached
 * page. Later kernels read nothing in this case.
 */
#define FR_QUIRK_NO_HOLE 0x10U
/*
 * Until Linux 6.12, measured: when page_cache_ra_order() meets a cached page, it leaves the window
 * to do_page_cache_ra() from the place that it has reached, with the full size instead of the rest.
 * So more is read than was decided, and the mark moves along.
 */
#define FR_QUIRK_LONG_FALLBACK 0x20U
/*
 * Linux 6.1, measured: if a window starts behind the end of the file, page_cache_ra_order() adds
 * the distance to its size.
 */
#define FR_QUIRK_PAST_END 0x40U

/**
 * struct fr_limits - limits that a decision must respect, and parameters
 * @file_pages: size of the file in pages, the last one counted whole
 * @memory_pages: memory that a read-around may take its share of: the available
 *	memory, or all of it; 0 means unknown
 * @reclaim_pages: memory that pages read now pass through before they are
 *	evicted: inactive + free - low watermark; 0 means unknown
 * @aged_pages: a counter that grows by one for each page that reclaim scans
 * @ra_pages: the device's maximum window (read_ahead_kb); 0 turns readahead off
 * @io_pages: the device's largest request (max_sectors_kb)
 * @pages_max: no window is larger, whatever else says so; 0 means no such bound
 * @whole_pages_max: whole-file: the most that is read of one file at once
 * @readahead_ratio: adaptive: percent of the estimated thrashing threshold to use
 * @readahead_hit_rate: adaptive-2006: a window is worthwhile when at least one page
 *	in this many of it is read
 * @min_pages: the smallest window of policies that have one; 0 means their own.
 *	foreread: streams that go up are read ahead of when this many pages of them were
 *	read, where the kernel reads ahead of shorter ones
 * @folio_order_max: largest folio of the file's mapping; 0 is a file system
 *	without large folios
 * @exec_order: folio order that the architecture wants for program text (4 on
 *	arm64 with 4 KiB pages, 0 elsewhere)
 * @quirks: FR_QUIRK_*
 * @reserved: 0
 */
struct fr_limits {
	fr_u64 file_pages;
	fr_u64 memory_pages;
	fr_u64 reclaim_pages;
	fr_u64 aged_pages;
	fr_u32 ra_pages;
	fr_u32 io_pages;
	fr_u32 pages_max;
	fr_u32 whole_pages_max;
	fr_u32 readahead_ratio;
	fr_u32 readahead_hit_rate;
	fr_u32 min_pages;
	fr_u8 folio_order_max;
	fr_u8 exec_order;
	fr_u8 quirks;
	fr_u8 reserved;
};

/* How the history of a stream is probed; see probe.h. */
enum fr_probing {
	FR_PROBE_NONE = 0,
	FR_PROBE_WALK = 1,
	FR_PROBE_SAMPLE = 2,
};

/**
 * struct fr_wants - facts about the page cache that a policy needs
 * @before_max: count cached pages directly before the index, at most this many
 * @gap_max: count pages that are not cached directly before the index, at most
 *	this many
 * @after_from: where counting forward starts
 * @after_max: count cached pages from @after_from on, at most this many
 * @around_from: first page of a range to look for any cached page
 * @around_max: pages of that range
 * @history_max: pages of history to probe, before the index
 * @probing: enum fr_probing; the caller runs fr_probe_*() from probe.h
 * @reserved: 0
 *
 * A maximum of 0 means: not needed.
 */
struct fr_wants {
	fr_u64 before_max;
	fr_u64 gap_max;
	fr_u64 after_from;
	fr_u64 after_max;
	fr_u64 around_from;
	fr_u64 around_max;
	fr_u64 history_max;
	fr_u32 probing;
	fr_u32 reserved;
};

/**
 * struct fr_near - the answers to struct fr_wants
 * @before_pages: cached pages directly before the index
 * @gap_pages: pages directly before the index that are not cached
 * @after_pages: cached pages from after_from on
 * @around_pages: cached pages in the range around; any number above 0 means some
 * @history_pages: FR_PROBE_WALK: length of the history that the probes found
 * @sampled: FR_PROBE_SAMPLE: pages looked at; FR_PROBE_WALK: 1
 * @sampled_hits: FR_PROBE_SAMPLE: how many of them had been read; FR_PROBE_WALK:
 *	whether the page before the index had
 *
 * An evicted page that has left a shadow entry is not cached. Counts above what
 * was asked for are cut to it, so that a wrong answer breaks no limit.
 */
struct fr_near {
	fr_u64 before_pages;
	fr_u64 gap_pages;
	fr_u64 after_pages;
	fr_u64 around_pages;
	fr_u64 history_pages;
	fr_u32 sampled;
	fr_u32 sampled_hits;
};

/**
 * enum fr_reason - the reason of a decision
 * @FR_REASON_NOTHING: nothing to do here: past the end of the file, or not a case
 *	in which this policy acts
 * @FR_REASON_INITIAL: a new stream: at page 0, or right after the previous read
 * @FR_REASON_OVERSIZE: a new stream: the request is larger than the maximum window
 * @FR_REASON_SUBSEQUENT: the stream reached the mark: its next window
 * @FR_REASON_FOREIGN: a mark that this state did not set (interleaved streams):
 *	the next window behind what is cached
 * @FR_REASON_CONTEXT: cached pages before the index show a stream
 * @FR_REASON_RANDOM: no sign of a stream: only the requested pages
 * @FR_REASON_AROUND: a fault on a mapping: the pages around it
 * @FR_REASON_EXEC: a fault on program text: the pages from it on
 * @FR_REASON_HUGE: a fault on a huge-page mapping
 * @FR_REASON_FORCED: the program asked for these pages
 * @FR_REASON_ADVISED_RANDOM: the program said random: only the requested pages
 * @FR_REASON_DISABLED: readahead is off, or the cgroup is congested: one page
 * @FR_REASON_MISSES: too many faults missed: reading around does not pay
 * @FR_REASON_AHEAD: the window after the next one is due
 * @FR_REASON_WITHIN: a stream inside the pages already looked after
 * @FR_REASON_IN_CACHE: everything was cached lately: no looking for a while
 * @FR_REASON_FULL: everything in reach is cached already
 * @FR_REASON_THRASHED: pages read ahead were evicted unread: smaller windows
 * @FR_REASON_RESCUE: pages read ahead are about to be evicted: keep them instead
 *	of reading more
 * @FR_REASON_BACKWARD: a stream that reads backward
 * @FR_REASON_WHOLE: the whole file
 * @FR_REASON_SEEKED: page 0 after a seek does not start a stream
 * @FR_REASON_STREAM: foreread, distance: the pages ahead of a forward stream
 * @FR_REASON_STRIDE: foreread, leap: pieces a fixed step apart
 * @FR_REASON_REVERSE: foreread: the pages before a stream that reads backward
 * @FR_REASON_SILENT: foreread: all that was asked for lately was cached
 */
enum fr_reason {
	FR_REASON_NOTHING = 0,
	FR_REASON_INITIAL = 1,
	FR_REASON_OVERSIZE = 2,
	FR_REASON_SUBSEQUENT = 3,
	FR_REASON_FOREIGN = 4,
	FR_REASON_CONTEXT = 5,
	FR_REASON_RANDOM = 6,
	FR_REASON_AROUND = 7,
	FR_REASON_EXEC = 8,
	FR_REASON_HUGE = 9,
	FR_REASON_FORCED = 10,
	FR_REASON_ADVISED_RANDOM = 11,
	FR_REASON_DISABLED = 12,
	FR_REASON_MISSES = 13,
	FR_REASON_AHEAD = 14,
	FR_REASON_WITHIN = 15,
	FR_REASON_IN_CACHE = 16,
	FR_REASON_FULL = 17,
	FR_REASON_THRASHED = 18,
	FR_REASON_RESCUE = 19,
	FR_REASON_BACKWARD = 20,
	FR_REASON_WHOLE = 21,
	FR_REASON_SEEKED = 22,
	FR_REASON_STREAM = 23,
	FR_REASON_STRIDE = 24,
	FR_REASON_REVERSE = 25,
	FR_REASON_SILENT = 26,
	FR_REASONS = 27,
};

/* fr_window.flags */
#define FR_WINDOW_FOLIOS 0x01U /* issued as folios of its order (page_cache_ra_order) */
#define FR_WINDOW_CHUNKS 0x02U /* issued in chunks of 2 MiB (force_page_cache_ra) */
#define FR_WINDOW_NO_PAIRS 0x04U /* no folios of two pages (Linux 6.1) */
#define FR_WINDOW_END_UNMARKED 0x08U /* no mark when it reaches the end of the file */

/**
 * struct fr_window - pages to bring in
 * @start: first page
 * @size: pages, as the policy counts them and its state remembers them
 * @async_size: pages of the tail that count as read ahead; the mark goes on page
 *	@start + @size - @async_size; 0 means no mark
 * @read_pages: pages to read: @size cut at the end of the file and at pages_max
 * @order: folio order to build, with FR_WINDOW_FOLIOS
 * @flags: FR_WINDOW_*
 * @reserved: 0
 */
struct fr_window {
	fr_u64 start;
	fr_u32 size;
	fr_u32 async_size;
	fr_u32 read_pages;
	fr_u8 order;
	fr_u8 flags;
	fr_u16 reserved;
};

/* fr_decision.flags */
#define FR_DECIDED_STATE 0x01U /* the state's window changed */
#define FR_DECIDED_CLEAR_MARK 0x02U /* the mark that was hit is used up: clear it */
#define FR_DECIDED_RETAIN 0x04U /* keep the retain_* pages from eviction */
#define FR_DECIDED_FORCED 0x08U /* goes round the policy */
#define FR_DECIDED_DOWN 0x10U /* the last window is repeated downward */

/**
 * struct fr_decision - the decision of a policy
 * @window: windows to issue, in this order
 * @retain_start: with FR_DECIDED_RETAIN, first page to move away from reclaim
 * @step_pages: how far apart the repetitions of the last window start
 * @next_look: for policies that look: the page at which the next FR_READ_LOOK of
 *	this request is due
 * @retain_pages: pages to move away from reclaim
 * @max_pages: the maximum window that held for this decision
 * @repeats: how often the last window is to be read once more, each @step_pages
 *	further up, with FR_DECIDED_DOWN further down; those that leave the file are
 *	left out
 * @saw_pages: what the policy found in the cache: pages of history behind the
 *	index (context), or pages cached ahead of it (foreign marks)
 * @windows: how many of @window are set: 0, 1 or 2
 * @reason: enum fr_reason
 * @flags: FR_DECIDED_*
 * @reserved: 0
 * @reserved_2: 0
 *
 * If a page is still missing when the program needs it, the caller reads it alone, as the kernel
 * does. No decision changes that.
 */
struct fr_decision {
	struct fr_window window[2];
	fr_u64 retain_start;
	fr_u64 next_look;
	fr_u64 step_pages;
	fr_u32 retain_pages;
	fr_u32 max_pages;
	fr_u32 saw_pages;
	fr_u32 repeats;
	fr_u8 windows;
	fr_u8 reason;
	fr_u8 flags;
	fr_u8 reserved;
	fr_u32 reserved_2;
};

struct fr_streams;
struct fr_device;
struct fr_budget;

/**
 * struct fr_call - the arguments of a decision
 * @state: changed by the decision
 * @access: the access
 * @near: the answers to fr_wants()
 * @limits: the limits
 * @streams: the state of the file's streams (streams.h), for policies with
 *	fr_policy_remembers(); 0 where there is none: these policies then read only the
 *	requested pages
 * @device: measurements of the file's device (device.h); 0 means unknown
 * @budget: the memory that all streams share (budget.h); 0 means unbounded
 */
struct fr_call {
	struct fr_state *state;
	const struct fr_access *access;
	const struct fr_near *near;
	const struct fr_limits *limits;
	struct fr_streams *streams;
	struct fr_device *device;
	struct fr_budget *budget;
};

/* posix_fadvise(2); WILLNEED is an access (FR_FORCE), the others don't touch the window. */
enum fr_advice {
	FR_ADVICE_NORMAL = 0,
	FR_ADVICE_SEQUENTIAL = 1,
	FR_ADVICE_RANDOM = 2,
};

/**
 * enum fr_feedback - an event of a window
 * @FR_FEEDBACK_CACHED: all pages asked for were cached already. linux-2.6.13 turns
 *	readahead off after 256 of them in a row
 * @FR_FEEDBACK_READ: some of the pages had to be read. linux-2.6.13 restarts that count
 * @FR_FEEDBACK_THRASHED: pages were evicted before the program read them.
 *	linux-2.6.13 makes its next window two pages smaller; safe-2010 takes the size
 *	of windows from the history that is still cached; foreread halves the distance
 *	of the stream
 * @FR_FEEDBACK_WASTED: pages were dropped, and the program did not read them. No policy
 *	uses this: only the simulator sends it, and its accounts count the waste
 * @FR_FEEDBACK_LATE: the program waited for pages that were in flight. distance doubles
 *	its distance
 * @FR_FEEDBACK_ERROR: the device could not read. Every policy cuts the file's maximum
 *	window to a quarter, as shrink_readahead_size_eio() does
 *
 * Feedback that a policy is not named for does not change its state. foreread learns of
 * waits through fr_waited(), and of cached pages through fr_issued().
 */
enum fr_feedback {
	FR_FEEDBACK_CACHED = 0,
	FR_FEEDBACK_READ = 1,
	FR_FEEDBACK_THRASHED = 2,
	FR_FEEDBACK_WASTED = 3,
	FR_FEEDBACK_LATE = 4,
	FR_FEEDBACK_ERROR = 5,
	FR_FEEDBACKS = 6,
};

_Static_assert(sizeof(fr_u8) == 1 && sizeof(fr_u16) == 2, "small types");
_Static_assert(sizeof(fr_u32) == 4 && sizeof(fr_u64) == 8, "large types");
_Static_assert(sizeof(struct fr_access) == 56, "no hidden padding");
_Static_assert(sizeof(struct fr_state) == 64, "no hidden padding; one cache line");
_Static_assert(sizeof(struct fr_limits) == 64, "no hidden padding");
_Static_assert(sizeof(struct fr_wants) == 64, "no hidden padding");
_Static_assert(sizeof(struct fr_near) == 48, "no hidden padding");
_Static_assert(sizeof(struct fr_window) == 24, "no hidden padding");
_Static_assert(sizeof(struct fr_decision) == 96, "no hidden padding");

#endif /* FOREREAD_TYPES_H */
