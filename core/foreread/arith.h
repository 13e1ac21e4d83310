/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Arithmetic that has an answer for every input.
 *
 * Page indices are 64 bits wide and come from outside, so sums saturate instead of wrapping. Sizes
 * are at most 32 bits wide, and their products with small factors are computed in 64 bits. Nothing
 * here relies on unsigned wrap-around, which -fsanitize=integer would report.
 */
#ifndef FOREREAD_ARITH_H
#define FOREREAD_ARITH_H

#include "types.h"

#ifdef __bpf__
/*
 * @yes where @a < @b, else @no; both are worked out.
 *
 * BPF compares by branches only, and its verifier follows both ways of each until it finds itself
 * where it has been before, which in a loop it seldom looks for. So here a comparison is
 * arithmetic. The barrier hides from clang, which would make a branch of it, and from the
 * verifier, which would follow what it knows of the result, that two numbers are the same.
 */
FR_INLINE fr_u64 fr_if_less(fr_u64 a, fr_u64 b, fr_u64 yes, fr_u64 no)
{
	fr_u64 less = ((~a & b) | (~(a ^ b) & (a - b))) >> 63;
	fr_u64 apart = a - b, same = apart;

	__asm__("" : "+r"(same));
	return no ^ ((yes ^ no) * (less ^ apart ^ same));
}

FR_INLINE fr_u64 fr_min(fr_u64 a, fr_u64 b)
{
	return fr_if_less(a, b, a, b);
}

FR_INLINE fr_u64 fr_max(fr_u64 a, fr_u64 b)
{
	return fr_if_less(a, b, b, a);
}

FR_INLINE fr_u64 fr_add(fr_u64 a, fr_u64 b)
{
	return fr_if_less(~b, a, FR_U64_MAX, a + b);
}

FR_INLINE fr_u64 fr_sub(fr_u64 a, fr_u64 b)
{
	return fr_if_less(b, a, a - b, 0);
}

/* Distance between two places. */
FR_INLINE fr_u64 fr_apart(fr_u64 a, fr_u64 b)
{
	return fr_if_less(a, b, b - a, a - b);
}

/* Whether @value is at most @most. */
FR_INLINE fr_u32 fr_within(fr_u32 value, fr_u32 most)
{
	return (fr_u32)fr_if_less(most, value, 0, 1);
}
#else
FR_INLINE fr_u64 fr_min(fr_u64 a, fr_u64 b)
{
	return a < b ? a : b;
}

FR_INLINE fr_u64 fr_max(fr_u64 a, fr_u64 b)
{
	return a > b ? a : b;
}

FR_INLINE fr_u64 fr_add(fr_u64 a, fr_u64 b)
{
	return a > FR_U64_MAX - b ? FR_U64_MAX : a + b;
}

FR_INLINE fr_u64 fr_sub(fr_u64 a, fr_u64 b)
{
	return a > b ? a - b : 0;
}

FR_INLINE fr_u64 fr_if_less(fr_u64 a, fr_u64 b, fr_u64 yes, fr_u64 no)
{
	return a < b ? yes : no;
}

FR_INLINE fr_u64 fr_apart(fr_u64 a, fr_u64 b)
{
	return a > b ? a - b : b - a;
}

FR_INLINE fr_u32 fr_within(fr_u32 value, fr_u32 most)
{
	return value <= most;
}
#endif

/* @low wins where the two bounds contradict each other, as in the kernel's clamps by hand. */
FR_INLINE fr_u64 fr_clamp(fr_u64 value, fr_u64 low, fr_u64 high)
{
	return fr_max(low, fr_min(value, high));
}

FR_INLINE fr_u32 fr_u32_of(fr_u64 value)
{
	return (fr_u32)fr_min(value, FR_U32_MAX);
}

/*
 * a * b, saturating. By halves: clang makes a compare with FR_U64_MAX / b into a
 * multiplication of 128 bits, which BPF does not have.
 */
FR_INLINE fr_u64 fr_mul(fr_u64 a, fr_u32 b)
{
	fr_u64 low = (a & FR_U32_MAX) * b;
	fr_u64 high;

	if (a <= FR_U32_MAX)
		return low;
	high = (a >> 32) * b;
	return high > FR_U32_MAX ? FR_U64_MAX : fr_add(high << 32, low);
}

/* a / b, and 0 for a @b of 0. Many processors divide 32 bits several times faster than 64. */
FR_INLINE fr_u64 fr_div(fr_u64 a, fr_u64 b)
{
	if (b == 0)
		return 0;
#ifndef __bpf__
	if (a <= FR_U32_MAX && b <= FR_U32_MAX)
		return (fr_u32)a / (fr_u32)b;
#endif
	return a / b;
}

/* The lower half. */
FR_INLINE fr_u32 fr_low(fr_u64 value)
{
	return (fr_u32)(value & FR_U32_MAX);
}

/* A difference of lower halves, around the end of their range. */
FR_INLINE fr_u32 fr_low_less(fr_u32 value, fr_u32 less)
{
	return (fr_u32)((0x100000000ULL + value - less) & FR_U32_MAX);
}

/* floor(log2(value)); 0 for 0. */
FR_INLINE fr_u32 fr_log2_portable(fr_u64 value)
{
	fr_u32 log = (fr_u32)(value > 0xffffffffULL) << 5;
	fr_u32 step;

	value >>= log;
	step = (fr_u32)(value > 0xffff) << 4;
	value >>= step;
	log += step;
	step = (fr_u32)(value > 0xff) << 3;
	value >>= step;
	log += step;
	step = (fr_u32)(value > 0xf) << 2;
	value >>= step;
	log += step;
	step = (fr_u32)(value > 0x3) << 1;
	value >>= step;
	return log + step + (value > 1);
}

/*
 * The same without comparisons: the verifier of BPF would follow each of 64 ways. All bits
 * below the highest are set, and then counted.
 */
FR_INLINE fr_u32 fr_log2_bits(fr_u64 value)
{
	value |= value >> 1;
	value |= value >> 2;
	value |= value >> 4;
	value |= value >> 8;
	value |= value >> 16;
	value |= value >> 32;
	/* But for the lowest, which does not count. */
	value >>= 1;
	value -= value >> 1 & 0x5555555555555555ULL;
	value = (value & 0x3333333333333333ULL) + (value >> 2 & 0x3333333333333333ULL);
	value = (value + (value >> 4)) & 0x0f0f0f0f0f0f0f0fULL;
	value += value >> 8;
	value += value >> 16;
	value += value >> 32;
	return (fr_u32)(value & 0x7f);
}

/*
 * The same; one instruction where there is one. BPF has none, and clang no builtin there.
 */
FR_INLINE fr_u32 fr_log2(fr_u64 value)
{
#if (defined(__x86_64__) || defined(__aarch64__)) && !defined(__FRAMAC__)
	return 63U ^ (fr_u32)__builtin_clzll(value | 1);
#elif defined(__bpf__)
	return fr_log2_bits(value);
#else
	return fr_log2_portable(value);
#endif
}

/* Index of the lowest set bit; 63 for 0: zero is a multiple of every power of two. */
FR_INLINE fr_u32 fr_low_bit(fr_u64 value)
{
	return value == 0 ? 63 : fr_log2(value & (~value + 1));
}

/* The smallest power of two that is not below @value, for values of at most 33 bits. */
FR_INLINE fr_u64 fr_pow2_up(fr_u64 value)
{
	if (value <= 1)
		return 1;
	return 2ULL << fr_min(fr_log2(value - 1), 32);
}

/* @value rounded down to a multiple of 2^@order; an order above 63 counts as 63. */
FR_INLINE fr_u64 fr_round_down(fr_u64 value, fr_u32 order)
{
	fr_u32 shift = order < 63 ? order : 63;

	return value & ~((1ULL << shift) - 1);
}

/*
 * The square root, about: within 7 % from 2 on, and 0 for 0. A power of two near it and one
 * step of Newton's; rules that weigh costs need no more, and a division is cheap.
 */
FR_INLINE fr_u32 fr_root(fr_u64 value)
{
	fr_u64 near = 1ULL << (fr_log2(value) / 2);

	return fr_u32_of((near + fr_div(value, near)) / 2);
}

/*
 * An index into @places places, a power of two. Where clang knows that it is one already, it would
 * leave out the mask by which the verifier of BPF knows it.
 */
FR_INLINE fr_u32 fr_place(fr_u32 index, fr_u32 places)
{
#ifdef __bpf__
	__asm__("" : "+r"(index));
#endif
	return index & (places - 1);
}

/* A moving average: a new value has a weight of one in 2^@share. */
FR_INLINE fr_u64 fr_average(fr_u64 average, fr_u64 value, fr_u32 share)
{
	if (value >= average)
		return fr_add(average, (value - average) >> share);
	return fr_sub(average, fr_sub(average, value) >> share);
}

/*
 * The same for a value that is 0 while it was never measured: the first value stands for all before
 * it.
 */
FR_INLINE fr_u64 fr_learned(fr_u64 average, fr_u64 value, fr_u32 share)
{
	return average == 0 ? value : fr_average(average, value, share);
}

#endif /* FOREREAD_ARITH_H */
