// SPDX-License-Identifier: GPL-2.0-only
/*
 * The module for kernels that it was not tested on: it refuses to be loaded, and says why. See
 * Kbuild for why it is built at all.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <linux/utsname.h>

#include "version.h"

static int __init fm_refuse(void)
{
	pr_err("not tested on %s, and built without its policies: FOREREAD_FORCE=1 builds them\n",
	       utsname()->release);
	return -EOPNOTSUPP;
}

module_init(fm_refuse);

MODULE_DESCRIPTION("Readahead policies, left out: not tested on this kernel");
MODULE_AUTHOR("The Foreread authors");
MODULE_VERSION(FM_VERSION);
MODULE_LICENSE("GPL");
