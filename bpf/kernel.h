/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The kernel types that the programs read, each with only the fields used. preserve_access_index
 * lets libbpf find every field in the running kernel by name (CO-RE). So neither order nor size
 * matters here, and no generated vmlinux.h is needed to build.
 */
#ifndef FOREREAD_KERNEL_H
#define FOREREAD_KERNEL_H

#include <linux/types.h>
#include <linux/bpf.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;
typedef _Bool bool;
#define true 1
#define false 0

/* From <linux/stat.h>, which can't be included: it brings in types of its own. */
#define S_IFMT 0170000
#define S_IFREG 0100000
#define S_IFBLK 0060000

/*
 * Names of maps and programs start with that of their object, so that bpftool shows the owner. The
 * prefixes are fr_rec_, fr_watch_, fr_str_ (streams), fr_stat_, fr_chk_, fr_blk_ and fr_core_
 * (core_test). The kernel keeps 15 characters of a name. Headers of several objects write
 * OWN(name), which each of these objects defines. libbpf itself names the maps of variables, after
 * the object's file or a section.
 */

/*
 * Puts a struct among the types of the object, from which user space's reader of it is made. One
 * that is in a map or a variable is there anyway; one that is only sent is not.
 */
#define KNOWN_STRUCT(name) struct name *name##_is_known

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct hlist_node {
	struct hlist_node *next;
};

struct hlist_head {
	struct hlist_node *first;
};

struct list_head {
	struct list_head *next;
};

struct page;

struct backing_dev_info {
	unsigned long ra_pages;
	unsigned long io_pages;
};

struct block_device;

struct super_block {
	u32 s_dev;
	unsigned long s_magic;
	struct backing_dev_info *s_bdi;
	struct block_device *s_bdev;
	struct list_head s_inodes;
};

struct file_lock_context {
	struct list_head flc_lease;
};

struct file_lock_core {
	struct list_head flc_list;
	unsigned char flc_type;
};

/* A lease since Linux 6.9. */
struct file_lease {
	struct file_lock_core c;
};

/* The same before. */
struct file_lock {
	struct list_head fl_list;
	unsigned char fl_type;
};

struct inode {
	unsigned short i_mode;
	struct super_block *i_sb;
	unsigned long i_ino;
	u32 i_generation;
	unsigned int i_nlink;
	u32 i_rdev;
	s64 i_size;
	struct address_space *i_mapping;
	struct hlist_head i_dentry;
	struct list_head i_sb_list;
	struct file_lock_context *i_flctx;
};

struct xarray {
	void *xa_head;
};

struct xa_node {
	unsigned char shift;
	void *slots[64];
};

struct address_space {
	struct inode *host;
	struct xarray i_pages;
	unsigned long nrpages;
	unsigned long flags;
};

struct qstr {
	union {
		struct {
			u32 hash;
			u32 len;
		};
		u64 hash_len;
	};
	const unsigned char *name;
};

struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
	struct inode *d_inode;
	union {
		struct hlist_node d_alias;
	} d_u;
};

/* The same since Linux 7.2, without a name for the union. */
struct dentry___flat {
	struct hlist_node d_alias;
};

struct path {
	struct dentry *dentry;
};

/* `order` since Linux 6.17. */
struct file_ra_state {
	unsigned long start;
	unsigned int size;
	unsigned int async_size;
	unsigned int ra_pages;
	unsigned short order;
	unsigned short mmap_miss;
	s64 prev_pos;
};

struct file {
	struct inode *f_inode;
	struct path f_path;
	struct address_space *f_mapping;
	s64 f_pos;
	unsigned int f_mode;
	struct file_ra_state f_ra;
};

struct readahead_control {
	struct address_space *mapping;
	struct file_ra_state *ra;
	unsigned long _index;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct fs_struct {
	struct path root;
	struct path pwd;
};

typedef struct {
	int counter;
} atomic_t;

struct signal_struct {
	atomic_t live;
};

struct file;

struct mm_struct {
	struct file *exe_file;
};

struct io_ring_ctx;

struct vm_area_struct {
	unsigned long vm_start;
	unsigned long vm_end;
	unsigned long vm_pgoff;
	unsigned long vm_flags;
	struct file *vm_file;
};

struct vm_fault {
	struct vm_area_struct *vma;
	unsigned long pgoff;
	unsigned long address;
};

struct iov_iter {
	unsigned long count;
};

struct kiocb {
	struct file *ki_filp;
	s64 ki_pos;
};

struct io_kiocb {
	u8 opcode;
};

struct io_uring_cqe {
	s32 res;
};

struct kernfs_node {
	const char *name;
	u64 id;
};

struct cgroup;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
};

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

struct task_struct {
	int pid;
	int tgid;
	unsigned int flags;
	unsigned in_iowait:1;
	u64 start_time;
	char comm[16];
	struct mm_struct *mm;
	struct fs_struct *fs;
	struct files_struct *files;
	struct signal_struct *signal;
	struct task_struct *group_leader;
	struct task_struct *real_parent;
	struct css_set *cgroups;
};

struct linux_binprm {
	struct file *file;
	const char *filename;
	const char *interp;
};

struct folio {
	struct address_space *mapping;
	unsigned long index;
	unsigned long _flags_1;
	atomic_t _mapcount; /* one less than how often it is mapped */
	atomic_t _entire_mapcount;
};

/* A large one since Linux 6.10. */
struct folio___large {
	atomic_t _large_mapcount; /* one less than how often any of it is mapped */
};

/* The same in Linux 6.1, where the order has a byte of its own. */
struct folio___order {
	unsigned char _folio_order;
	atomic_t _total_mapcount; /* how often a PMD maps all of it */
};

struct buffer_head {
	unsigned long b_state;
	struct folio *b_folio;
	u64 b_blocknr;
	u64 b_size;
};

/* The same before Linux 6.2. */
struct buffer_head___page {
	struct page *b_page;
};

#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	unsigned long r10, r9, r8, dx, si, di, orig_ax, cs;
};
#define SYSCALL_NUMBER(regs) ((regs)->orig_ax)
#define SYSCALL_ARGUMENT_0(regs) ((regs)->di)
#define SYSCALL_ARGUMENT_1(regs) ((regs)->si)
#define SYSCALL_ARGUMENT_2(regs) ((regs)->dx)
#define SYSCALL_ARGUMENT_3(regs) ((regs)->r10)
#define SYSCALL_ARGUMENT_4(regs) ((regs)->r8)
#define SYSCALL_ARGUMENT_5(regs) ((regs)->r9)
/* 0x23 is the code segment of 32-bit programs, whose numbers differ. */
#define SYSCALL_FOREIGN(regs) (((regs)->cs & 0xffff) == 0x23)
#elif defined(__TARGET_ARCH_arm64)
struct user_pt_regs {
	u64 regs[31];
};
struct pt_regs {
	u64 regs[31];
	u64 orig_x0;
	s32 syscallno;
};
#define SYSCALL_NUMBER(regs) ((unsigned long)(regs)->syscallno)
#define SYSCALL_ARGUMENT_0(regs) ((regs)->orig_x0)
#define SYSCALL_ARGUMENT_1(regs) ((regs)->regs[1])
#define SYSCALL_ARGUMENT_2(regs) ((regs)->regs[2])
#define SYSCALL_ARGUMENT_3(regs) ((regs)->regs[3])
#define SYSCALL_ARGUMENT_4(regs) ((regs)->regs[4])
#define SYSCALL_ARGUMENT_5(regs) ((regs)->regs[5])
#define SYSCALL_FOREIGN(regs) 0
#else
#error "system call registers of this architecture are not known to Foreread yet"
#endif

enum pageflags {
	PG_locked,
	PG_writeback,
	PG_uptodate,
	PG_head,
	PG_reclaim,
	PG_referenced,
	PG_active,
};

enum mapping_flags {
	AS_LARGE_FOLIO_SUPPORT = 6, /* before Linux 6.12 */
	AS_FOLIO_ORDER_MIN = 16,
	AS_FOLIO_ORDER_MAX = 21,
};

#pragma clang attribute pop

#endif
