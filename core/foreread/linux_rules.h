/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Differences between the readahead of Linux 6.1, 6.12, 6.18 and 7.3.
 *
 * Each of the four has a policy of its own, and each rule that is not the same in all
 * of them has a bit here; the code asks for the bit, never for the version. The bits
 * below FR_RULE_MAPS_FOLIOS change decisions. The others change what a caller with a
 * page cache does before and after them (crates/sim), and the core does not look at
 * them.
 *
 *	rule			6.1	6.12	6.18	7.3
 *	ONDEMAND		yes	-	-	-
 *	NO_PAIRS		yes	-	-	-
 *	TABLE_FIRST		yes	-	-	-
 *	COUNTS_REFAULTS		yes	-	-	-
 *	PREV_BY_PIECE		yes	-	-	-
 *	SMALL_BATCH		yes	-	-	-
 *	ALWAYS_TRIED		yes	-	-	-
 *	ORDER_OF_FOLIO		yes	yes	-	-
 *	COUNTS_LOCKED		yes	yes	-	-
 *	HUGE_ALWAYS		yes	yes	yes	-
 *	TEXT_WINDOW		-	-	yes	yes
 *	MAPS_FOLIOS		-	-	yes	yes
 *	FAIR_MISSES		-	-	-	yes
 *	END_UNMARKED		-	-	-	yes
 *
 * The columns were read in the sources of 6.1.192, 6.12.95 and 7.3.4 and compared with
 * those kernels, and with 6.18.44, by check-kernel. Releases between them have some of
 * the changes and not others; they were not compared.
 */
#ifndef FOREREAD_LINUX_RULES_H
#define FOREREAD_LINUX_RULES_H

#include "types.h"

/*
 * Misses and marks are handled by one function, ondemand_readahead(). Page 0 always starts a
 * stream. A miss at the mark or at the end of the window continues it. A window is merged with the
 * next one if its mark would be on the page that is read now.
 */
#define FR_RULE_ONDEMAND 0x0001U
/*
 * The folio order is that of the folio that carried the mark, and 2 more; the state has
 * none. Window ends are not rounded, and windows below 4 pages go page by page.
 */
#define FR_RULE_ORDER_OF_FOLIO 0x0002U
/* There are no folios of two pages. */
#define FR_RULE_NO_PAIRS 0x0004U
/*
 * A fault on program text reads from the fault on, and does so in a mapping that is
 * advised to be random, too. Without, text is read around as other mappings are.
 */
#define FR_RULE_TEXT_WINDOW 0x0008U
/*
 * A huge-page mapping reads huge windows on any file system, always. Without, only with
 * large folios, of up to their size, and misses are counted as for other mappings.
 */
#define FR_RULE_HUGE_ALWAYS 0x0010U
/* A fault that finds its page still being read is a hit for mmap_miss. */
#define FR_RULE_COUNTS_LOCKED 0x0020U
/*
 * mmap_miss falls by the same rule as it rises: text and sequential mappings count neither way.
 * Fault-around takes back one miss for the fault that it serves, and none if the fault is taken
 * again. Without this rule, each page that it walks over takes one back.
 */
#define FR_RULE_FAIR_MISSES 0x0040U
/* A window that reaches the end of the file is not marked. */
#define FR_RULE_END_UNMARKED 0x0080U

/* Fault-around and faults map whole folios. Without, only pages that fault-around covers. */
#define FR_RULE_MAPS_FOLIOS 0x0100U
/*
 * Fault-around always has a page table. Without, it installs one only if the first folio
 * that it finds does not reach the end of the file, and else maps nothing.
 */
#define FR_RULE_TABLE_FIRST 0x0200U
/* Pages that came back soon after their eviction are hits for mmap_miss, too. */
#define FR_RULE_COUNTS_REFAULTS 0x0400U
/* Each piece of a read(2) that was copied moves prev_pos. Without, its end does. */
#define FR_RULE_PREV_BY_PIECE 0x0800U
/* read(2) takes 15 folios at a time. Without, 31. */
#define FR_RULE_SMALL_BATCH 0x1000U
/*
 * A fault that is taken again knows it (FAULT_FLAG_TRIED). Without, one that held the lock
 * of its mapping only and found its page does not: it counts as a fault of its own.
 */
#define FR_RULE_ALWAYS_TRIED 0x2000U

/**
 * fr_linux_rules() - the rules of a kernel
 * @policy: enum fr_policy; one that is none of Linux has those of FR_LINUX
 *
 * Return: FR_RULE_*, or-ed.
 */
FR_INLINE fr_u32 fr_linux_rules(fr_u32 policy)
{
	switch (policy) {
	case FR_LINUX_6_1:
		return FR_RULE_ONDEMAND | FR_RULE_ORDER_OF_FOLIO | FR_RULE_NO_PAIRS |
		       FR_RULE_HUGE_ALWAYS | FR_RULE_COUNTS_LOCKED | FR_RULE_TABLE_FIRST |
		       FR_RULE_COUNTS_REFAULTS | FR_RULE_PREV_BY_PIECE | FR_RULE_SMALL_BATCH |
		       FR_RULE_ALWAYS_TRIED;
	case FR_LINUX_6_12:
		return FR_RULE_ORDER_OF_FOLIO | FR_RULE_HUGE_ALWAYS | FR_RULE_COUNTS_LOCKED;
	case FR_LINUX_7_3:
		return FR_RULE_TEXT_WINDOW | FR_RULE_FAIR_MISSES | FR_RULE_END_UNMARKED |
		       FR_RULE_MAPS_FOLIOS;
	default:
		return FR_RULE_TEXT_WINDOW | FR_RULE_HUGE_ALWAYS | FR_RULE_MAPS_FOLIOS;
	}
}

/**
 * fr_linux_quirks() - where a kernel departs from its own rules
 * @policy: enum fr_policy; one that is none of Linux has no quirks
 *
 * Return: FR_QUIRK_*, or-ed, for fr_limits.quirks.
 */
FR_INLINE fr_u32 fr_linux_quirks(fr_u32 policy)
{
	fr_u32 all = FR_QUIRK_LATE_HOLE | FR_QUIRK_SHORT_HISTORY;

	switch (policy) {
	case FR_LINUX_6_1:
		return all | FR_QUIRK_EOF_MARK | FR_QUIRK_HISTORY_CAP | FR_QUIRK_LONG_FALLBACK |
		       FR_QUIRK_NO_HOLE | FR_QUIRK_PAST_END;
	case FR_LINUX_6_12:
		return all | FR_QUIRK_EOF_MARK | FR_QUIRK_HISTORY_CAP | FR_QUIRK_LONG_FALLBACK;
	case FR_LINUX:
		return all | FR_QUIRK_EOF_MARK | FR_QUIRK_HISTORY_CAP;
	case FR_LINUX_7_3:
		return all;
	default:
		return 0;
	}
}

#endif /* FOREREAD_LINUX_RULES_H */
