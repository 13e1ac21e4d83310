// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state that a policy keeps for one open file.

/// Advice of posix_fadvise(2) for a whole file. `WILLNEED` is an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Advice {
    /// `POSIX_FADV_NORMAL`: the device's maximum window.
    Normal = 0,
    /// `POSIX_FADV_SEQUENTIAL`: twice that.
    Sequential = 1,
    /// `POSIX_FADV_RANDOM`: no windows.
    Random = 2,
}

/// Events of pages that a policy asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Feedback {
    /// All of them were cached already.
    Cached = 0,
    /// Some had to be read.
    Read = 1,
    /// They were evicted before the program read them.
    Thrashed = 2,
    /// They were dropped, and the program did not read them. The simulator reports this; no
    /// policy uses it.
    Wasted = 3,
    /// The program waited for them while they were on their way.
    Late = 4,
    /// The device could not read them.
    Error = 5,
}

/// The state that a policy keeps for one open file: `struct fr_state`, 64 bytes of plain data.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// First page of the window decided last.
    pub start: u64,
    /// Byte after the last one that the previous read returned; `u64::MAX` before the first.
    pub prev_end_bytes: u64,
    /// `linux-2.6.13`: first page of the ahead window.
    pub ahead_start: u64,
    /// `linux-2.6.13`: last page looked at; `adaptive-2006`: where the last mark was hit.
    pub prev_page: u64,
    /// `adaptive-2006`: [`Limits::aged_pages`](super::Limits::aged_pages) when the last window was
    /// decided.
    pub aged_pages: u64,
    /// Pages of the window decided last; 0 for none.
    pub size: u32,
    /// Pages of its tail that count as read ahead.
    pub async_size: u32,
    /// This file's maximum window.
    pub ra_pages: u32,
    /// `linux-2.6.13`: pages of the ahead window; `adaptive-2006`: of the last backward window.
    pub ahead_size: u32,
    /// `linux-2.6.13`: pages in a row asked for and found cached.
    pub cache_hit_pages: u32,
    /// Faults that missed, less those that hit; 0 to 1000.
    pub mmap_miss: u16,
    /// Folio order of the window decided last.
    pub order: u8,
    /// `FLAG_*`, or-ed.
    pub flags: u8,
}

impl State {
    /// `POSIX_FADV_RANDOM` holds.
    pub const FLAG_RANDOM: u8 = 0x01;
    /// A seek since the last read.
    pub const FLAG_SEEKED: u8 = 0x02;
    /// `safe-2010`: pages read ahead were evicted unread.
    pub const FLAG_THRASHED: u8 = 0x04;
    /// `linux-2.6.13`: the same, once.
    pub const FLAG_MISS: u8 = 0x08;
    /// `linux-2.6.13`: everything is cached.
    pub const FLAG_IN_CACHE: u8 = 0x10;
    /// `whole-file`: the file was asked for.
    pub const FLAG_WHOLE: u8 = 0x20;

    /// All zero, for the core to fill.
    pub(super) const ZERO: Self = Self {
        start: 0,
        prev_end_bytes: 0,
        ahead_start: 0,
        prev_page: 0,
        aged_pages: 0,
        size: 0,
        async_size: 0,
        ra_pages: 0,
        ahead_size: 0,
        cache_hit_pages: 0,
        mmap_miss: 0,
        order: 0,
        flags: 0,
    };

    /// The page that carries the mark of the window decided last, if it has one.
    #[must_use]
    pub fn mark(&self) -> Option<u64> {
        let size = u64::from(self.size);
        let behind = size.checked_sub(u64::from(self.async_size))?;
        (self.async_size > 0).then(|| self.start.saturating_add(behind))
    }
}
