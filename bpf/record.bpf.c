// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The recorder of the reads of a process tree, or of the whole machine.
 *
 * Accesses are aggregated here: one bit per page, and a time of first need for each chunk of 64
 * pages. An access that sets no new bit costs a compare with the CPU's last chunk, or one hash
 * lookup. It sends nothing to user space. User space gets one record for each new inode, and one
 * for each name given to a system call. It fetches the tables at the end. Only while a trace is
 * recorded, each access sends a record.
 *
 * Accesses that could not be noted are counted in struct counts, never dropped silently.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "hooks.h"
#include "record_process.h"
#include "record_inode.h"
#include "record_trace.h"
#include "record_page.h"
#include "record_fault.h"
#include "record_path.h"
#include "record_call.h"
#include "record_resident.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* A read asks for pages index to last_index, cached or not. */
static __always_inline int on_get_pages(void *context, struct address_space *mapping, u64 index,
					u64 last_index)
{
	struct recent *recent = traced_now();

	if (!recent)
		return 0;
	send_pages(BPF_CORE_READ(mapping, host), index, last_index + 1, ACCESS_READ);
	note_pages((u64)BPF_CORE_READ(mapping, host), index, last_index + 1, BY_READ, recent);
	return 0;
}

HOOK_GET_PAGES("tp_btf", fr_rec_get_pages, on_get_pages)

/*
 * Fault-around maps the cached ones of 16 pages around a fault, or all of the folio there. The uses
 * of these pages by the program can't be seen any more, so all count.
 */
static __always_inline int on_map_pages(void *context, struct address_space *mapping,
					u64 start_page, u64 last_page)
{
	struct recent *recent = traced_now();
	u64 end_page = last_page + 1;
	struct inode_key key = {};
	struct inode *host;
	struct found folio;

	if (!recent)
		return 0;
	recent->fault_address = 0;
	recent->fault_owed = 0;
	host = BPF_CORE_READ(mapping, host);
	if (only_brought_in) {
		key_of(host, &key);
		if (!known_entry(&key, group_now()))
			return 0;
	}
	if (maps_whole_folios) {
		if (cached_folio(number_of(mapping, recent), start_page, &folio) &&
		    folio.start_page < start_page)
			start_page = folio.start_page;
		if (cached_folio(number_of(mapping, recent), end_page - 1, &folio) &&
		    folio.end_page > end_page)
			end_page = folio.end_page;
	}
	send_fault(mapping, start_page, end_page, ACCESS_MAPPED, recent);
	note_pages((u64)host, start_page, end_page, BY_MAPPING, recent);
	return 0;
}

HOOK_MAP_PAGES("tp_btf", fr_rec_map_pages, on_map_pages)

/* The page isn't there, or isn't ready: the program waits for it. */
static __always_inline int on_fault(void *context, struct address_space *mapping, u64 index)
{
	struct recent *recent = traced_now();
	struct found mapped = { .start_page = index, .end_page = index + 1 };
	struct found folio;
	u64 how = BY_MAPPING;

	if (!recent)
		return 0;
	recent->fault_address = 0;
	recent->fault_mapping = 0;
	send_fault(mapping, index, (u64)index + 1, ACCESS_FAULT, recent);
	if (!cached_folio(number_of(mapping, recent), index, &folio)) {
		/* It is brought in by this very fault: see page_added(). */
		recent->fault_mapping = (u64)mapping;
		how |= MISSED;
	} else if (is_mapped_whole(folio.end_page - folio.start_page)) {
		mapped = folio;
	}
	note_pages((u64)BPF_CORE_READ(mapping, host), mapped.start_page, mapped.end_page, how,
		   recent);
	/* The event of a fault comes before the wait; a page brought in by it was never late. */
	recent->fault_page = index;
	recent->is_fault = !recent->fault_mapping;
	key_of(BPF_CORE_READ(mapping, host), &recent->fault_key);
	return 0;
}

HOOK_FAULT("tp_btf", fr_rec_fault, on_fault)

SEC("tp_btf/page_fault_user")
int BPF_PROG(fr_rec_user_fault, unsigned long address, struct pt_regs *regs,
	     unsigned long error_code)
{
	return keep_fault_address(address, error_code);
}

SEC("tp_btf/page_fault_kernel")
int BPF_PROG(fr_rec_kernel_fault, unsigned long address, struct pt_regs *regs,
	     unsigned long error_code)
{
	return keep_fault_address(address, error_code);
}

/* The kernel's counter of mapped pages of files. */
#define MM_FILEPAGES 0

SEC("tp_btf/rss_stat")
int BPF_PROG(fr_rec_file_pages_mapped__tp2, struct mm_struct *mm, int member)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct recent *recent = bpf_map_lookup_elem(&fr_rec_recents, &ZERO);
	u64 address;

	if (!recent || !(recent->fault_address | recent->fault_owed) ||
	    BPF_CORE_READ(task, mm) != mm || !task_is_traced(task, recent))
		return 0;
	settle_fault(recent);
	address = recent->fault_address;
	recent->fault_address = 0;
	/* Any other counter of the mapping also means that the fault is over. */
	if (address && member == MM_FILEPAGES && !note_huge(address, recent))
		recent->fault_owed = address;
	return 0;
}

/*
 * Before Linux 6.2 that counter changes once in 64 faults. There the end of filemap_map_pages() is
 * seen, which a PMD that it sets leads to as well.
 */
SEC("fexit/filemap_map_pages")
int BPF_PROG(fr_rec_file_pages_mapped__fn3, struct vm_fault *vmf, unsigned long start,
	     unsigned long end, unsigned int ret)
{
	struct recent *recent = ret & VM_FAULT_NOPAGE ? traced_now() : NULL;

	if (recent && !note_huge(BPF_CORE_READ(vmf, address), recent))
		lose_fault();
	return 0;
}

/* Pages come in: for the program (a miss), or for the replay. */
SEC("tp_btf/mm_filemap_add_to_page_cache")
int BPF_PROG(fr_rec_page_added, struct folio *folio)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct recent *recent = bpf_map_lookup_elem(&fr_rec_recents, &ZERO);
	struct counts *c = counts();
	struct inode_value *value;
	struct inode_key key = {};
	struct inode *inode;
	struct span span;
	u64 pages;
	u32 mode;
	bool is_new;
	bool is_replay;

	if (!recent || !c)
		return 0;
	is_replay = is_of_replay(task->tgid);
	if (!is_replay && !task_is_traced(task, recent))
		return 0;
	inode = BPF_CORE_READ(folio, mapping, host);
	mode = BPF_CORE_READ(inode, i_mode) & S_IFMT;
	pages = folio_pages(folio, folio_flags(folio));
	if (mode == S_IFBLK) {
		if (is_replay)
			c->fetched_metadata_pages += pages;
		else
			c->missed_metadata_pages += pages;
		recent->brings_metadata = !is_replay;
		if (!is_replay)
			send_pages(inode, folio->index, folio->index + pages, ACCESS_METADATA);
		if (!is_replay && records_machine)
			send_device_pages(inode, folio->index, pages, c);
		return 0;
	}
	if (mode != S_IFREG)
		return 0;
	if (!is_replay) {
		c->missed_pages += pages;
		/*
		 * Without get_pages, pages read for the program stand for pages that it read, until
		 * user space has seen the misses and attached it again.
		 */
		if (misses_only)
			note_pages((u64)inode, folio->index, folio->index + pages, BY_READ | MISSED,
				   recent);
		else if (only_brought_in)
			note_inode((u64)inode, 0, 0); /* its accesses now count */
		fault_brought(folio, inode, pages, recent);
		return 0;
	}
	c->fetched_pages += pages;
	key_of(inode, &key);
	value = inode_entry(inode, &key, FETCH, 0, &is_new);
	if (!value)
		return 0;
	span.start_page = folio->index;
	span.end_page = folio->index + pages;
	span.id = value->id;
	span.what = FETCH;
	span.group = 0;
	span.news = 0;
	span.lost = 0;
	if (span.start_page < CHUNK_PAGES)
		note_chunk(&value->first, chunk_bits(0, span.start_page, span.end_page), FETCH, 0,
			   c);
	if (span.end_page > CHUNK_PAGES)
		bpf_loop(CHUNKS_PER_EVENT_MAX + 1, note_span, &span, 0);
	if (is_new)
		send_nodes((u64)inode, 0, value->id, 0, 0);
	return 0;
}

/* Whether a task of the program is about to wait for a read, not for a fault or for metadata. */
static __always_inline bool waits_for_read(struct task_struct *task, struct recent *recent,
					   struct counts *c)
{
	struct inode_value *value;

	if (!recent || recent->task != (u64)task)
		return true;
	if (recent->is_fault) {
		recent->is_fault = 0;
		value = bpf_map_lookup_elem(&fr_rec_inodes, &recent->fault_key);
		if (value && chunk_fetched(value, recent->fault_page, false))
			c->late_pages++;
		return false;
	}
	if (recent->brings_metadata) {
		recent->brings_metadata = 0;
		return false;
	}
	return true;
}

#define PF_KTHREAD 0x00200000

/* A wait of the kernel's own threads, such as that of a journal, holds no program up. */
static __always_inline bool is_of_kernel(struct task_struct *task)
{
	return records_machine && (task->flags & PF_KTHREAD);
}

/* The program waits for I/O: io_schedule() marks the task. */
SEC("tp_btf/sched_switch")
int BPF_PROG(fr_rec_switched, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct recent *recent;
	struct wait fresh = {};
	struct wait *wait;
	struct counts *c;
	u64 now;
	u32 pid;

	if (BPF_CORE_READ_BITFIELD(prev, in_iowait) && !is_of_kernel(prev) &&
	    tgid_is_traced(prev->tgid)) {
		c = counts();
		recent = bpf_map_lookup_elem(&fr_rec_recents, &ZERO);
		if (!c)
			return 0;
		c->stalls++;
		pid = prev->pid;
		fresh.since_ns = bpf_ktime_get_ns();
		fresh.is_for_read = waits_for_read(prev, recent, c);
		bpf_map_update_elem(&fr_rec_waiting, &pid, &fresh, BPF_ANY);
	}
	if (!BPF_CORE_READ_BITFIELD(next, in_iowait))
		return 0;
	pid = next->pid;
	wait = bpf_map_lookup_elem(&fr_rec_waiting, &pid);
	if (!wait)
		return 0;
	now = bpf_ktime_get_ns();
	c = counts();
	recent = bpf_map_lookup_elem(&fr_rec_recents, &ZERO);
	if (c && now > wait->since_ns)
		c->stall_ns += now - wait->since_ns;
	if (sends_accesses && now > wait->since_ns)
		add_waited(pid, now - wait->since_ns);
	/* It may have slept on another CPU. */
	if (recent && wait->is_for_read && task_is_traced(next, recent))
		recent->has_waited = 1;
	bpf_map_delete_elem(&fr_rec_waiting, &pid);
	return 0;
}

/* A bit of a block's state: BH_Uptodate of <linux/buffer_head.h>. */
#define BLOCK_IS_READ 0

/*
 * A block of metadata is looked for that isn't read yet: its page may be on its way already, for
 * another thread. For a trace.
 */
SEC("tp_btf/block_touch_buffer")
int BPF_PROG(fr_rec_block_touched, struct buffer_head *buffer)
{
	u64 start_page;
	struct inode *inode;

	if ((BPF_CORE_READ(buffer, b_state) & (1UL << BLOCK_IS_READ)) || !traced_now())
		return 0;
	inode = BPF_CORE_READ(buffer_folio(buffer), mapping, host);
	if (!inode || (BPF_CORE_READ(inode, i_mode) & S_IFMT) != S_IFBLK)
		return 0;
	start_page = (BPF_CORE_READ(buffer, b_blocknr) * BPF_CORE_READ(buffer, b_size)) >> 12;
	send_pages(inode, start_page, start_page + 1, ACCESS_BLOCK);
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(fr_rec_forked, struct task_struct *parent, struct task_struct *child)
{
	u32 parent_tgid = parent->tgid, child_tgid = child->tgid;
	struct counts *c;
	u8 state = TRACED_ACTIVE;

	if (parent_tgid == child_tgid)
		return 0;
	if (adopt_pid && (u32)parent->pid == adopt_pid) {
		adopt_pid = 0;
		/* The child is still Foreread between fork and exec. */
		state = TRACED_UNTIL_EXEC;
	} else if (!tgid_is_traced(parent_tgid)) {
		return 0;
	}
	if (bpf_map_update_elem(&fr_rec_traced, &child_tgid, &state, BPF_ANY)) {
		c = counts();
		if (c)
			c->lost_processes++;
	}
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(fr_rec_exited, struct task_struct *task)
{
	u32 tgid = task->tgid;

	if (sends_accesses && tgid_is_traced(tgid))
		send_mere(ACCESS_EXIT);
	/*
	 * The last thread, which need not be the leader: that may leave before the
	 * others, or be replaced by one of them that calls exec.
	 */
	if (BPF_CORE_READ(task, signal, live.counter) == 0)
		bpf_map_delete_elem(&fr_rec_traced, &tgid);
	return 0;
}

/*
 * One hook for all calls that take a name. At the exit the arguments are still in the registers,
 * the name is in memory, and the result is known.
 */
SEC("tp_btf/sys_exit")
int BPF_PROG(fr_rec_call_done, struct pt_regs *regs, long ret)
{
	unsigned long number = SYSCALL_NUMBER(regs);
	struct task_struct *task;
	struct scratch *scratch;
	struct recent *recent;
	struct dentry *dentry;
	struct counts *c;
	struct file *file;
	long dirfd = AT_FDCWD, length;
	u64 path;
	u32 class, directory, flags, uses;

	if (number >= SYSCALLS_MAX)
		return 0;
	flags = syscall_class[number];
	class = flags & SYSCALL_CLASS_MASK;
	if (class == CALL_NONE || (class >= CALL_ADVISE && !sends_accesses))
		return 0;
	task = bpf_get_current_task_btf();
	if (class == CALL_READ || class == CALL_PREAD) {
		recent = bpf_map_lookup_elem(&fr_rec_recents, &ZERO);
		if (ret <= 0 || !recent || !task_is_traced(task, recent) || SYSCALL_FOREIGN(regs))
			return 0;
		if (sends_accesses)
			send_read(task, regs, flags, ret);
		if ((recent->end_page - recent->start_page) << 12 < (u64)ret)
			note_whole_read(task, regs, class == CALL_PREAD, ret, recent);
		return 0;
	}
	if (class == CALL_MAP) {
		recent = SYSCALL_ARGUMENT_3(regs) & MAP_POPULATE ? traced_now() : NULL;
		if (recent && ret > 0 && !SYSCALL_FOREIGN(regs))
			note_populated(task, regs, ret, recent);
		return 0;
	}
	recent = SYSCALL_FOREIGN(regs) ? NULL : traced_now();
	if (!recent)
		return 0;
	settle_fault(recent);
	if (class == CALL_ADVISE || class == CALL_AHEAD) {
		if (!ret)
			send_advice(task, regs, class);
		return 0;
	}
	if (class == CALL_ADVISE_MAPPING) {
		if (!ret)
			send_mapping_advice(task, regs);
		return 0;
	}
	/* The wait of a call that looks up names doesn't belong to the next access. */
	if (sends_accesses) {
		send_opened(task, class, ret);
		send_mere(ACCESS_CALL);
	}
	if (class == CALL_LIST) {
		file = file_of(task, SYSCALL_ARGUMENT_0(regs));
		if (file && ret >= 0)
			note_dentry(BPF_CORE_READ(file, f_path.dentry), USE_LISTED);
		return 0;
	}
	if (class == CALL_EXEC && ret == 0)
		return 0;
	scratch = bpf_map_lookup_elem(&fr_rec_scratches, &ZERO);
	if (!scratch)
		return 0;
	uses = USE_LOOKED_UP;
	path = SYSCALL_ARGUMENT_0(regs);
	if (class == CALL_OPENAT || class == CALL_LOOKAT) {
		dirfd = (s32)SYSCALL_ARGUMENT_0(regs);
		path = SYSCALL_ARGUMENT_1(regs);
	}
	if (class == CALL_LOOKAT || class == CALL_LOOK)
		uses |= USE_STATTED;
	length = bpf_probe_read_user_str(scratch->path.path, PATH_BYTES_MAX, (void *)path);
	if (length <= 1) {
		/* An empty path names the descriptor itself; a null one (statx) too. */
		if (length < 0 && path) {
			c = counts();
			if (c)
				c->lost_paths++;
		}
		if (class == CALL_LOOKAT && ret >= 0) {
			file = file_of(task, dirfd);
			if (file)
				note_dentry(BPF_CORE_READ(file, f_path.dentry), USE_STATTED);
		}
		return 0;
	}
	if ((class == CALL_OPENAT || class == CALL_OPEN) && ret >= 0) {
		file = file_of(task, ret);
		if (file) {
			dentry = BPF_CORE_READ(file, f_path.dentry);
			note_dentry(dentry, USE_OPENED);
			/*
			 * A name of one component that ended where it points was no
			 * symlink: the node says all, unless the inode has other
			 * names. Tools that walk trees open nothing but such names.
			 */
			if (scratch->path.path[0] != '/' &&
			    BPF_CORE_READ(dentry, d_name.len) == (u32)length - 1 &&
			    BPF_CORE_READ(dentry, d_inode, i_nlink) <= 1)
				return 0;
		}
		uses |= USE_OPENED;
	}
	directory = start_of_path(task, dirfd, scratch->path.path[0], recent);
	flags = follows_link(flags, regs) ? 0 : PATH_NO_FOLLOW;
	send_path(&scratch->path, directory, length, uses, flags, ret < 0 ? ret : 0);
	return 0;
}

/*
 * A read by io_uring that had to wait is begun again, and the pages found before come without an
 * event. At its end the range that it has read is known.
 */
static __always_inline int on_ring_done(void *request, s32 result)
{
	struct recent *recent = traced_now();
	u64 start, end;
	struct file *file;

	if (!recent || !ring_has_read(request, result, &file, &start, &end))
		return 0;
	note_pages((u64)BPF_CORE_READ(file, f_mapping, host), start >> 12, (end + 4095) >> 12,
		   BY_READ_CALL, recent);
	return 0;
}

HOOK_RING_DONE(fr_rec_ring_read_done, on_ring_done)

SEC("tp_btf/sched_process_exec")
int BPF_PROG(fr_rec_executed, struct task_struct *task, int old_pid, struct linux_binprm *bprm)
{
	u32 tgid = task->tgid;
	u8 *state = bpf_map_lookup_elem(&fr_rec_traced, &tgid);
	struct recent *recent = bpf_map_lookup_elem(&fr_rec_recents, &ZERO);

	if (!recent || !(state || (records_machine && tgid_is_traced(tgid))))
		return 0;
	if (state && *state == TRACED_UNTIL_EXEC) {
		*state = TRACED_ACTIVE;
		__sync_fetch_and_add(&epoch, 1);
		if (!start_ns)
			start_ns = bpf_ktime_get_ns();
	}
	note_dentry(BPF_CORE_READ(bprm, file, f_path.dentry), USE_EXECUTED | USE_OPENED);
	send_executed(task, bprm->filename, recent);
	/* A script's interpreter, by the name that the script gives. */
	if (bprm->interp != bprm->filename)
		send_executed(task, bprm->interp, recent);
	return 0;
}
