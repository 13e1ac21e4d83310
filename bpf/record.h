/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The interface of the recorder's BPF programs and user space.
 * crates/linux-recorder/src/abi.rs reads these structs by the names of their fields, which it has
 * from the compiled programs: see crates/bpf/src/layout.rs.
 */
#ifndef FOREREAD_RECORD_H
#define FOREREAD_RECORD_H

/* A chunk is as many pages as a bitmap has bits: 256 KiB. */
#define CHUNK_SHIFT 6
#define CHUNK_PAGES (1u << CHUNK_SHIFT)

#define NAME_BYTES_MAX 255
#define PATH_BYTES_MAX 4096

/*
 * The pointer distinguishes inodes that share number and device (btrfs subvolumes). Number and
 * generation distinguish inodes that used the same memory one after the other.
 */
struct inode_key {
	u64 pointer;
	u64 number;
	u32 generation;
	u32 device;
};

/* Pages of one chunk; the first chunk of every inode lives in its inode_value. */
struct chunk_value {
	u64 need_ns; /* first access by the program, 0 never */
	u64 used; /* a bit a page: accessed by the program */
	u64 fetched; /* a bit a page: brought in by the replay */
	u32 group; /* of the first access, 0 unknown */
	u32 pad;
};

struct inode_value {
	struct chunk_value first;
	u64 need_ns; /* first seen */
	u32 id; /* 1.. in order of appearance */
	u32 uses; /* USE_ bits */
	u64 size_bytes;
	u16 mode;
	u16 pad;
	u32 group; /* of whoever saw it first, 0 unknown */
};

struct chunk_key {
	u32 id;
	u32 chunk;
};

#define USE_LOOKED_UP (1u << 0)
#define USE_LISTED (1u << 1)
#define USE_READ (1u << 2)
#define USE_MAPPED (1u << 3)
#define USE_EXECUTED (1u << 4)
#define USE_OPENED (1u << 5)
#define USE_STATTED (1u << 6)

/* The call doesn't follow a symlink at the end of the path. */
#define PATH_NO_FOLLOW (1u << 0)

enum record_type {
	RECORD_NODE = 1,
	RECORD_PATH = 2,
	RECORD_ACCESS = 3,
	RECORD_GROUP = 4,
	RECORD_DEVICE = 5,
};

/* An inode seen for the first time, with its name in its parent. */
struct node_record {
	u32 type;
	u32 id;
	u32 parent; /* 0: root of its file system, or nameless */
	u32 generation;
	u64 number;
	u32 device; /* as in the kernel: 12 bits major, 20 bits minor */
	u16 mode;
	u16 name_length;
	u64 need_ns;
	u8 name[NAME_BYTES_MAX + 1];
};

/* A name that the program gave to a system call. */
struct path_record {
	u32 type;
	u32 directory; /* node that the path starts from */
	s32 result; /* of the call: a negative errno, or not */
	u32 uses;
	u64 need_ns;
	u32 path_length; /* without the NUL */
	u32 flags; /* PATH_ bits */
	u32 group; /* of the process, 0 unknown */
	u8 path[PATH_BYTES_MAX];
};

/* A control group that is seen for the first time; of a recording of the machine only. */
struct group_record {
	u32 type;
	u32 number; /* 1.. */
	u32 parent; /* 0: the root of the hierarchy */
	u32 name_length;
	u8 name[NAME_BYTES_MAX + 1];
};

/* Pages of a block device that are brought in; of a recording of the machine only. */
struct device_record {
	u32 type;
	u32 device; /* as in the kernel: 12 bits major, 20 bits minor */
	u64 start_page;
	u64 pages;
	u64 need_ns;
};

/* How a file was accessed, of a trace. */
enum access_kind {
	ACCESS_READ = 0, /* pages that a read asks for; more of the same may follow */
	ACCESS_READ_CALL = 1, /* a call has returned: these bytes */
	ACCESS_FAULT = 2, /* before its wait */
	ACCESS_MAPPED = 3, /* pages mapped around a fault, from its page on where that is known */
	ACCESS_EXIT = 4, /* none: the thread ends */
	ACCESS_METADATA = 5, /* pages of a block device are brought in, before their wait */
	ACCESS_CALL = 6, /* none: a call that has waited for no data returns */
	ACCESS_OPEN = 7,
	ACCESS_ADVICE = 8, /* to a range of the file; which is in `advice` */
	ACCESS_BLOCK = 9, /* a block of metadata that isn't read yet is asked for, in its page */
};

/* Flags of the mapping that a fault is in. */
#define MAPPING_KNOWN (1u << 0) /* and the first page is the one that faulted */
#define MAPPING_EXEC (1u << 1)
#define MAPPING_SEQUENTIAL (1u << 2)
#define MAPPING_RANDOM (1u << 3)

/* An access, while a trace is recorded. */
struct access_record {
	u32 type;
	u32 kind; /* ACCESS_ */
	u32 id; /* node of the file; 0 none */
	u32 pid;
	u32 tid;
	u32 parent_tid;
	u64 time_ns;
	u64 start_bytes;
	u64 length_bytes;
	u64 file; /* tells open files apart; 0 not known */
	u64 size_bytes; /* of the file */
	u64 waited_ns; /* for reads since the thread's last record */
	u64 first_waited_ns; /* the first of these waits */
	u8 name[16]; /* of the thread */
	u64 asked_bytes; /* by a call; 0 not known */
	u64 map_start_bytes; /* what of the file the mapping of a fault covers */
	u64 map_end_bytes;
	u32 mapping; /* MAPPING_ bits */
	u32 advice; /* as for posix_fadvise() */
	u32 device; /* of metadata: the block device */
	u32 pad;
};

/* Classes of system calls, by number in syscall_class[]. */
enum syscall_class {
	CALL_NONE = 0,
	CALL_OPENAT = 1, /* (dirfd, path, ...) -> fd */
	CALL_OPEN = 2, /* (path, ...) -> fd */
	CALL_LOOKAT = 3, /* (dirfd, path, ...) */
	CALL_LOOK = 4, /* (path, ...) */
	CALL_LIST = 5, /* (fd, ...) */
	CALL_EXEC = 6, /* (path, ...); success is seen elsewhere */
	CALL_READ = 7, /* (fd, ...) -> bytes, at the file's position */
	CALL_PREAD = 8, /* (fd, ., ., position) -> bytes */
	CALL_MAP = 9, /* (., bytes, ., flags, fd, position) -> address */
	CALL_ADVISE = 10, /* (fd, position, bytes, advice) */
	CALL_AHEAD = 11, /* (fd, position, bytes) */
	CALL_ADVISE_MAPPING = 12, /* (address, bytes, advice) */
};

#define SYSCALL_CLASS_MASK 0x0f
/* Beside the class: a symlink at the end is never followed, or not if the flags say so. */
#define CALL_NO_FOLLOW 0x10
#define CALL_FLAGS_2 0x20 /* flags are the third argument */
#define CALL_FLAGS_3 0x40 /* the fourth */
#define CALL_COUNT_2 0x80 /* the third argument is how many bytes it asks for */

#define SYSCALLS_MAX 512

/* Values of the table of processes. */
#define TRACED_UNTIL_EXEC 1
#define TRACED_ACTIVE 2

/* A CPU's share of the counters; user space adds them up. */
struct counts {
	u64 calls; /* page accesses seen, hits included */
	u64 news; /* of these, with a page not accessed before */
	u64 stall_ns; /* time that threads of the program waited for reads */
	u64 stalls;
	u64 missed_pages; /* added to the page cache by the program: file data */
	u64 missed_metadata_pages; /* the same, of a block device */
	u64 fetched_pages; /* added by the replay: file data */
	u64 fetched_metadata_pages;
	u64 used_pages; /* fetched by the replay, then accessed */
	u64 late_pages; /* of these, waited for */
	u64 accessed_pages; /* distinct pages accessed by the program */
	u64 lost_records; /* ring buffer full */
	u64 lost_inodes; /* table of inodes full */
	u64 lost_chunks; /* table of chunks full */
	u64 lost_processes; /* table of processes full */
	u64 lost_paths; /* a path that couldn't be read */
	u64 lost_faults; /* a page fault whose mapping couldn't be looked at */
};

#endif
