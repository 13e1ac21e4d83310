/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The process number of user space in the initial PID namespace. */
#ifndef FOREREAD_WHOAMI_H
#define FOREREAD_WHOAMI_H

/* The result of whoami(). */
u32 whoami_tgid;
u32 whoami_pid;

/* Run once by user space: its own number as the kernel sees it, in any PID namespace. */
SEC("raw_tp")
int OWN(whoami)(void *context)
{
	u64 both = bpf_get_current_pid_tgid();

	whoami_tgid = both >> 32;
	whoami_pid = (u32)both;
	return 0;
}

#endif
