/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Files that were read before the recorder of a boot began.
 *
 * A boot starts cold, so each page that was accessed was read in it. The kernel adds each new
 * inode at the head of the list of its file system (inode_sb_list_add()). From there back to the
 * inode of the recorder's own program are those that were needed while it was started. A replay can
 * be no sooner than this program, so what was needed before is of no use to it.
 *
 * The list is read without its lock. An inode that was freed meanwhile is not of this file system
 * any more, or is linked to itself; then the walk ends.
 */
#ifndef FOREREAD_RECORD_RESIDENT_H
#define FOREREAD_RECORD_RESIDENT_H

#include "folio.h"
#include "record_page.h"

#define RESIDENT_INODES_MAX 8192
/* Pages of one file that are looked for, cached or not: 256 MiB. */
#define RESIDENT_PAGES_MAX 65536

struct resident_file {
	struct inode_key key;
	u64 mapping;
	u64 page;
	u64 pages_left; /* cached ones that weren't met yet */
};

struct resident_walk {
	u64 file_system;
	u64 own_inode;
	u64 link; /* of the next inode */
};

/* Whether a process has accessed a page, and not only readahead. */
static __always_inline bool was_accessed(const struct found *found)
{
	struct folio *folio = (struct folio *)found->folio;
	struct folio___large *large = (void *)folio;

	if (HAS_FLAG(found->flags, PG_referenced) || HAS_FLAG(found->flags, PG_active))
		return true;
	if (HAS_FLAG(found->flags, PG_head))
		return !bpf_core_field_exists(large->_large_mapcount) ||
		       BPF_CORE_READ(large, _large_mapcount.counter) >= 0;
	return !bpf_core_field_exists(folio->_mapcount) ||
	       BPF_CORE_READ(folio, _mapcount.counter) >= 0;
}

/* Notes those pages of a folio that are in the chunk of file->page; returns the page after. */
static __always_inline u64 note_earlier(struct resident_file *file, u64 end_page)
{
	u64 chunk = file->page >> CHUNK_SHIFT;
	struct chunk_key chunk_key = { .chunk = (u32)chunk };
	struct inode *inode = (struct inode *)file->key.pointer;
	struct inode_value *value;
	struct chunk_value *noted;
	struct counts *c = counts();
	u32 uses = USE_OPENED | USE_READ;
	u64 bits;
	bool is_new;

	if (end_page > (chunk + 1) << CHUNK_SHIFT)
		end_page = (chunk + 1) << CHUNK_SHIFT;
	value = inode_entry(inode, &file->key, EARLIER, 0, &is_new);
	if (!c || !value)
		return end_page;
	if ((value->uses & uses) != uses)
		__sync_fetch_and_or(&value->uses, uses);
	if (is_new)
		send_nodes((u64)inode, 0, value->id, value->need_ns, 0);
	chunk_key.id = value->id;
	noted = chunk ? chunk_entry(&chunk_key, c) : &value->first;
	bits = chunk_bits(chunk, file->page, end_page);
	if (noted)
		note_chunk(noted, bits, EARLIER, 0, c);
	return end_page;
}

static long note_cached_pages(u64 step, struct resident_file *file)
{
	struct found found;
	u64 next, passed;

	if (!file->pages_left)
		return 1;
	if (!cached_folio(file->mapping, file->page, &found)) {
		file->page++;
		return 0;
	}
	next = found.end_page;
	if (was_accessed(&found))
		next = note_earlier(file, next);
	passed = next - file->page;
	file->pages_left = passed < file->pages_left ? file->pages_left - passed : 0;
	file->page = next;
	return 0;
}

static long note_resident_inode(u64 step, struct resident_walk *walk)
{
	struct inode *inode =
		(struct inode *)(walk->link - bpf_core_field_offset(struct inode, i_sb_list));
	struct resident_file file = {};
	u64 next;

	if ((u64)inode == walk->own_inode || (u64)BPF_CORE_READ(inode, i_sb) != walk->file_system)
		return 1;
	if ((BPF_CORE_READ(inode, i_mode) & S_IFMT) == S_IFREG) {
		file.mapping = (u64)BPF_CORE_READ(inode, i_mapping);
		file.pages_left = BPF_CORE_READ(inode, i_mapping, nrpages);
		key_of(inode, &file.key);
		/* Later ones come first. */
		earlier_ns = RESIDENT_INODES_MAX - step;
		bpf_loop(RESIDENT_PAGES_MAX, note_cached_pages, &file, 0);
	}
	next = (u64)BPF_CORE_READ(inode, i_sb_list.next);
	if (!next || next == walk->link)
		return 1;
	walk->link = next;
	return 0;
}

/* Run once by user space, after the other programs are attached. */
SEC("raw_tp")
int fr_rec_resident(void *context)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct resident_walk walk = {};
	struct super_block *file_system = NULL;
	struct inode *inode = NULL;

	if (!records_machine || !bpf_core_field_exists(file_system->s_inodes) ||
	    !bpf_core_field_exists(inode->i_sb_list))
		return 0;
	file_system = BPF_CORE_READ(task, fs, root.dentry, d_inode, i_sb);
	walk.file_system = (u64)file_system;
	walk.own_inode = (u64)BPF_CORE_READ(task, mm, exe_file, f_inode);
	walk.link = (u64)BPF_CORE_READ(file_system, s_inodes.next);
	bpf_loop(RESIDENT_INODES_MAX, note_resident_inode, &walk, 0);
	return 0;
}

#endif
