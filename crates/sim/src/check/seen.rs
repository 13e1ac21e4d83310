// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a machine says of a step.

use std::collections::BTreeSet;
use std::fmt;

use super::program::DESCRIPTORS;

/// What holds for a file on a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Maximum window of the device, in pages.
    pub ra_pages: u32,
    /// Largest request of the device, in pages.
    pub io_pages: u32,
    /// Largest folio of the file; 0 is a file system without large folios.
    pub folio_order_max: u8,
}

/// A folio in the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Placed {
    /// First page.
    pub index: u64,
    /// It has 2^`order` pages.
    pub order: u8,
}

impl fmt::Display for Placed {
    /// `12+4`: four pages from page 12 on.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.index, 1u64 << self.order)
    }
}

/// What a descriptor remembers: `struct file_ra_state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remembered {
    /// First page of the window issued last.
    pub start: u64,
    /// Its pages.
    pub size: u32,
    /// Pages of its tail that count as read ahead.
    pub async_size: u32,
    /// Maximum window.
    pub ra_pages: u32,
    /// Folio order of the window issued last.
    pub order: u32,
    /// Misses of mappings in advance of hits.
    pub mmap_miss: u32,
    /// Where the last read ended; all ones before the first.
    pub prev_pos: u64,
}

impl fmt::Display for Remembered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "start {} size {} async_size {} ra_pages {} order {} mmap_miss {} prev_pos {}",
            self.start,
            self.size,
            self.async_size,
            self.ra_pages,
            self.order,
            self.mmap_miss,
            self.prev_pos.cast_signed(),
        )
    }
}

/// Something that happened during a step, told in the history. It is not compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event(pub String);

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a machine did in a step, and how things stand after it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Folios that went into the page cache, in order.
    pub inserted: Vec<Placed>,
    /// Folios that left it, by index.
    pub removed: Vec<Placed>,
    /// Runs of mapped pages of the file, as first page and length.
    pub mapped: Vec<(u64, u64)>,
    /// What each descriptor remembers; `None` for one that is not open.
    pub remembered: [Option<Remembered>; DESCRIPTORS],
    /// When a fault was taken again after its wait: the first pages of folios that had been
    /// inserted during this step and had not arrived yet. That is the device's doing, not the
    /// kernel's, so the model is told.
    pub late: BTreeSet<u64>,
    /// Whether the step proves nothing: more of them may have arrived than `late` says, or somebody
    /// else dropped pages of the file.
    pub is_unsure: bool,
    /// What happened, for people.
    pub events: Vec<Event>,
    /// `Limits::QUIRK_*`, or-ed: known defects of the kernel that changed what was decided.
    pub misled: u8,
}
