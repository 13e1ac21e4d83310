// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * libFuzzer: any bytes are an input of a decision.
 *
 *	clang -g -O1 -fsanitize=fuzzer,address,undefined,integer -fno-sanitize-recover=all \
 *		-I core fuzz/core/decide.c -o decide && ./decide
 */
#include "check.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, unsigned long size);

int LLVMFuzzerTestOneInput(const unsigned char *data, unsigned long size)
{
	static struct memory memory;
	struct input in;
	unsigned char *bytes = (unsigned char *)&memory;

	if (size < sizeof(in))
		return 0;
	__builtin_memcpy(&in, data, sizeof(in));
	/* One more than there are: an unknown policy has an answer too. */
	in.policy %= FR_POLICIES + 1;
	/* The memory is larger than what a fuzzer likes to change: the rest, over and over. */
	data += sizeof(in);
	size -= sizeof(in);
	for (unsigned long at = 0; fr_policy_sees(in.policy) && at < sizeof(memory); at++)
		bytes[at] = size == 0 ? 0 : data[at % size];
	check(&in, &memory);
	return 0;
}
