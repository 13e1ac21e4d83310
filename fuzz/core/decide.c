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
	struct input in;

	if (size < sizeof(in))
		return 0;
	__builtin_memcpy(&in, data, sizeof(in));
	/* One more than there are: an unknown policy has an answer too. */
	in.policy %= FR_POLICIES + 1;
	check(&in);
	return 0;
}
