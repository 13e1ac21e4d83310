/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Inodes that are used, each with the name that leads to it. */
#ifndef FOREREAD_RECORD_INODE_H
#define FOREREAD_RECORD_INODE_H

#include "dentry.h"
#include "record_group.h"

static __always_inline void key_of(struct inode *inode, struct inode_key *key)
{
	key->pointer = (u64)inode;
	key->number = BPF_CORE_READ(inode, i_ino);
	key->generation = BPF_CORE_READ(inode, i_generation);
	key->device = BPF_CORE_READ(inode, i_sb, s_dev);
}

enum what {
	ACCESS, /* by the program */
	FETCH, /* by the replay */
	EARLIER, /* by some process, before the recorder began */
};

static __always_inline u64 time_of(enum what what)
{
	return what == EARLIER ? earlier_ns : since_start_ns();
}

/* The entry of an inode that a process of `group` accesses, if there is one. */
static __always_inline struct inode_value *known_entry(const struct inode_key *key, u32 group)
{
	struct inode_value *value = bpf_map_lookup_elem(&fr_rec_inodes, key);

	if (value && !value->need_ns) {
		value->need_ns = since_start_ns();
		value->group = group;
	}
	return value;
}

/*
 * The entry of an inode, made when missing. *is_new tells which. Two CPUs may
 * race; the loser takes the winner's entry, its number stays unused.
 */
static __always_inline struct inode_value *inode_entry(struct inode *inode,
						       const struct inode_key *key, enum what what,
						       u32 group, bool *is_new)
{
	/* The replay may have been there first. */
	struct inode_value *value = what == ACCESS ? known_entry(key, group) :
						     bpf_map_lookup_elem(&fr_rec_inodes, key);
	struct scratch *scratch = bpf_map_lookup_elem(&fr_rec_scratches, &ZERO);
	struct inode_value *fresh;
	struct counts *c;

	*is_new = false;
	if (value || !scratch)
		return value;
	fresh = &scratch->inode;
	__builtin_memset(fresh, 0, sizeof(*fresh));
	fresh->need_ns = what == FETCH ? 0 : time_of(what);
	fresh->group = what == ACCESS ? group : 0;
	fresh->id = __sync_fetch_and_add(&next_id, 1);
	fresh->size_bytes = BPF_CORE_READ(inode, i_size);
	fresh->mode = BPF_CORE_READ(inode, i_mode);
	if (!bpf_map_update_elem(&fr_rec_inodes, key, fresh, BPF_NOEXIST)) {
		*is_new = true;
	}
	value = bpf_map_lookup_elem(&fr_rec_inodes, key);
	if (!value) {
		c = counts();
		if (c)
			c->lost_inodes++;
	}
	return value;
}

/* As many directories as a path of 4,096 bytes can name. */
#define DEPTH_MAX 2048

struct walk {
	struct dentry *dentry;
	struct inode_key key;
	u32 id;
	u32 group;
	u64 need_ns;
};

/* Sends one node and steps to its parent; stops at a parent that was sent before. */
static long send_node(u64 depth, struct walk *walk)
{
	struct scratch *scratch = bpf_map_lookup_elem(&fr_rec_scratches, &ZERO);
	struct dentry *dentry = walk->dentry;
	struct dentry *parent = BPF_CORE_READ(dentry, d_parent);
	struct inode *inode = (struct inode *)walk->key.pointer;
	struct inode *parent_inode = NULL;
	struct inode_value *parent_value = NULL;
	struct inode_key parent_key = {};
	struct node_record *node;
	struct counts *c;
	bool is_new = false;
	u32 length = 0;

	if (!scratch)
		return 1;
	node = &scratch->node;
	node->type = RECORD_NODE;
	node->id = walk->id;
	node->parent = 0;
	node->generation = walk->key.generation;
	node->number = walk->key.number;
	node->device = walk->key.device;
	node->mode = BPF_CORE_READ(inode, i_mode);
	node->need_ns = walk->need_ns;
	if (dentry && parent != dentry) {
		parent_inode = BPF_CORE_READ(parent, d_inode);
		length = BPF_CORE_READ(dentry, d_name.len) & NAME_BYTES_MAX;
		bpf_probe_read_kernel(node->name, length, BPF_CORE_READ(dentry, d_name.name));
	}
	if (parent_inode) {
		key_of(parent_inode, &parent_key);
		parent_value = inode_entry(parent_inode, &parent_key,
					   walk->need_ns ? ACCESS : FETCH, walk->group, &is_new);
		if (parent_value) {
			node->parent = parent_value->id;
			if (is_new)
				parent_value->uses |= USE_LOOKED_UP;
		}
	}
	node->name_length = length;
	if (bpf_ringbuf_output(&fr_rec_records, node,
			       __builtin_offsetof(struct node_record, name) + length,
			       BPF_RB_NO_WAKEUP)) {
		c = counts();
		if (c)
			c->lost_records++;
	}
	if (!is_new || !parent_value)
		return 1;
	walk->dentry = parent;
	walk->key = parent_key;
	walk->id = parent_value->id;
	return 0;
}

__noinline int send_nodes(u64 inode_pointer, u64 dentry_pointer, u32 id, u64 need_ns, u32 group)
{
	struct inode *inode = (struct inode *)inode_pointer;
	struct dentry *dentry = (struct dentry *)dentry_pointer;
	struct walk walk = {
		.dentry = dentry ? dentry : alias_of(inode),
		.id = id,
		.group = group,
		.need_ns = need_ns,
	};
	struct counts *c;

	key_of(inode, &walk.key);
	if (bpf_loop(DEPTH_MAX, send_node, &walk, 0) < DEPTH_MAX)
		return 0;
	c = counts();
	if (c)
		c->lost_records++;
	return 0;
}

/* Notes that an inode was used; returns its number, 0 when it couldn't be noted. */
__noinline u32 note_inode(u64 inode_pointer, u64 dentry_pointer, u32 uses)
{
	struct inode *inode = (struct inode *)inode_pointer;
	struct dentry *dentry = (struct dentry *)dentry_pointer;
	struct inode_key key = {};
	struct inode_value *value;
	u32 group;
	bool is_new;

	if (!inode)
		return 0;
	key_of(inode, &key);
	group = group_now();
	value = inode_entry(inode, &key, ACCESS, group, &is_new);
	if (!value)
		return 0;
	if ((value->uses & uses) != uses)
		__sync_fetch_and_or(&value->uses, uses);
	if (is_new)
		send_nodes((u64)inode, (u64)dentry, value->id, value->need_ns, group);
	return value->id;
}

static __always_inline u32 note_dentry(struct dentry *dentry, u32 uses)
{
	return dentry ? note_inode((u64)BPF_CORE_READ(dentry, d_inode), (u64)dentry, uses) : 0;
}

#endif
