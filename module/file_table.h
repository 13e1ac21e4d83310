/* SPDX-License-Identifier: GPL-2.0-only */
/* The state of policies for open files; see file_table.c. */
#ifndef FM_FILE_TABLE_H
#define FM_FILE_TABLE_H

#include <linux/fs.h>
#include <linux/types.h>

#include <foreread/types.h>

/**
 * struct fm_kept - what is kept of an open file
 * @state: the policy's
 * @told_end: page behind the last access that the policy was told of; 0 none
 * @asked_end: page behind the last window that was read for it
 */
struct fm_kept {
	struct fr_state state;
	u64 told_end;
	u64 asked_end;
};

int fm_files_init(void);
void fm_files_exit(void);
bool fm_file_load(const struct file_ra_state *ra, const struct address_space *mapping, u32 policy,
		  struct fm_kept *kept);
bool fm_file_store(struct file_ra_state *ra, const struct address_space *mapping, u32 policy,
		   const struct fm_kept *kept);
unsigned long fm_files_count(void);

#endif /* FM_FILE_TABLE_H */
