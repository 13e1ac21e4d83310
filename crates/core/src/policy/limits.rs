// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits that a decision must respect, and parameters that it may use.

/// The kernel's default maximum window: 128 KiB.
pub const DEFAULT_PAGES: u32 = 32;

/// Limits and parameters of a decision: `struct fr_limits`. Any values are valid.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Size of the file, the last page counted whole.
    pub file_pages: u64,
    /// Memory that a read-around may take its share of: the available memory, or all of it; 0 when
    /// not known.
    pub memory_pages: u64,
    /// Memory that pages read now pass through before they are evicted: inactive + free - low
    /// watermark; 0 when not known.
    pub reclaim_pages: u64,
    /// A counter that grows by one for each page that reclaim scans.
    pub aged_pages: u64,
    /// The device's maximum window (`read_ahead_kb`); 0 turns readahead off. Copied into the state
    /// at open.
    pub ra_pages: u32,
    /// The device's largest request (`max_sectors_kb`).
    pub io_pages: u32,
    /// No window is larger, whatever else says so; 0 for no such bound.
    pub pages_max: u32,
    /// `whole-file`: the most that is read of one file at once.
    pub whole_pages_max: u32,
    /// `adaptive-*`: percent of the estimated thrashing threshold to use.
    pub readahead_ratio: u32,
    /// `adaptive-2006`: a window is worthwhile when at least one page in this many of it is read.
    pub readahead_hit_rate: u32,
    /// The smallest window of policies that have one; 0 for their own.
    pub min_pages: u32,
    /// Largest folio order of the file's mapping; 0 for a file system without large folios.
    pub folio_order_max: u8,
    /// Folio order that the architecture wants for program text.
    pub exec_order: u8,
    /// `QUIRK_*`, or-ed.
    pub quirks: u8,
    /// 0.
    pub reserved: u8,
}

impl Limits {
    /// A hole behind a foreign mark inside a large folio is found one page late.
    pub const QUIRK_LATE_HOLE: u8 = 0x01;
    /// Until Linux 6.18: page by page, the mark of a window that the end of the file cuts is
    /// counted back from there.
    pub const QUIRK_EOF_MARK: u8 = 0x02;
    /// History before a miss that ends in a large folio is taken for too short.
    pub const QUIRK_SHORT_HISTORY: u8 = 0x04;
    /// Until Linux 6.18: history as long as the maximum counts a page less.
    pub const QUIRK_HISTORY_CAP: u8 = 0x08;
    /// Linux 6.1: where all pages behind a foreign mark are cached, the last is taken for a hole.
    pub const QUIRK_NO_HOLE: u8 = 0x10;
    /// Until Linux 6.12: a window that meets a cached page starts again at its full size there.
    pub const QUIRK_LONG_FALLBACK: u8 = 0x20;
    /// Linux 6.1: a window behind the end of the file grows by the distance.
    pub const QUIRK_PAST_END: u8 = 0x40;

    /// Those of Linux 6.18.
    pub const QUIRKS_6_18: u8 = Self::QUIRK_LATE_HOLE
        | Self::QUIRK_EOF_MARK
        | Self::QUIRK_SHORT_HISTORY
        | Self::QUIRK_HISTORY_CAP;

    /// The quirks by name. Which kernel has which: [`Policy::quirks`](super::Policy::quirks).
    pub const QUIRKS: [(&str, u8); 7] = [
        ("late-hole", Self::QUIRK_LATE_HOLE),
        ("eof-mark", Self::QUIRK_EOF_MARK),
        ("short-history", Self::QUIRK_SHORT_HISTORY),
        ("history-cap", Self::QUIRK_HISTORY_CAP),
        ("no-hole", Self::QUIRK_NO_HOLE),
        ("long-fallback", Self::QUIRK_LONG_FALLBACK),
        ("past-end", Self::QUIRK_PAST_END),
    ];

    /// Limits for a file of `file_pages` on a device with windows of `ra_pages`. The others:
    /// requests of 1280 KiB, no large folios, `readahead_ratio` 50, `readahead_hit_rate` 1, at most
    /// 1 GiB at once for `whole-file`.
    #[must_use]
    pub const fn new(file_pages: u64, ra_pages: u32) -> Self {
        Self {
            file_pages,
            memory_pages: 0,
            reclaim_pages: 0,
            aged_pages: 0,
            ra_pages,
            io_pages: 320,
            pages_max: 0,
            whole_pages_max: 1 << 18,
            readahead_ratio: 50,
            readahead_hit_rate: 1,
            min_pages: 0,
            folio_order_max: 0,
            exec_order: 0,
            quirks: 0,
            reserved: 0,
        }
    }
}

impl Default for Limits {
    /// [`Limits::new`] for a file without an end and the kernel's default window.
    fn default() -> Self {
        Self::new(u64::MAX, DEFAULT_PAGES)
    }
}
