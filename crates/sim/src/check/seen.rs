// SPDX-License-Identifier: MIT OR Apache-2.0
//! Observations of a machine after a step.

use std::collections::BTreeSet;
use std::fmt;

use super::program::DESCRIPTORS;

/// The events that a machine can observe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Sight {
    /// It reports each folio that comes and goes, and the readahead state of each descriptor.
    #[default]
    Events,
    /// It only sees the cached and the mapped pages after each step.
    Residency,
}

/// Facts about a file on a machine.
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

impl Placed {
    /// Its pages.
    #[must_use]
    pub fn pages(&self) -> std::ops::Range<u64> {
        self.index..self.index + (1 << self.order)
    }
}

/// Number of pages in these folios.
#[must_use]
pub fn pages_of(folios: &[Placed]) -> u64 {
    folios.iter().map(|folio| 1u64 << folio.order).sum()
}

impl fmt::Display for Placed {
    /// `12+4`: four pages from page 12 on.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.index, 1u64 << self.order)
    }
}

/// The readahead state of a descriptor: `struct file_ra_state`.
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

/// Pages in a row: the first one, and how many.
pub type Run = (u64, u64);

/// Pages in ascending order, in runs.
#[must_use]
pub fn runs(pages: impl IntoIterator<Item = u64>) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for page in pages {
        match runs.last_mut() {
            Some((start, pages)) if *start + *pages == page => *pages += 1,
            _ => runs.push((page, 1)),
        }
    }
    runs
}

/// Observations of a step, and of the state after it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Folios that went into the page cache, in order; none by [`Sight::Residency`].
    pub inserted: Vec<Placed>,
    /// Folios that left it, by index; none by [`Sight::Residency`].
    pub removed: Vec<Placed>,
    /// Number of pages that entered the page cache; not compared.
    pub new_pages: u64,
    /// Pages of the file that are cached; none by [`Sight::Events`].
    pub cached: Vec<Run>,
    /// Pages of the file that are mapped.
    pub mapped: Vec<Run>,
    /// The readahead state of each descriptor; `None` for one that is not open, and by
    /// [`Sight::Residency`].
    pub remembered: [Option<Remembered>; DESCRIPTORS],
    /// If a fault was taken again after its wait: the first pages of folios that were inserted
    /// during this step and had not arrived yet. That depends on the device, not on the kernel, so
    /// it is passed to the model.
    pub late: BTreeSet<u64>,
    /// Whether the step proves nothing: more of them may have arrived than `late` says, or another
    /// process dropped pages of the file.
    pub is_unsure: bool,
    /// The events of the step, for people.
    pub events: Vec<Event>,
    /// `Limits::QUIRK_*`, or-ed: known defects of the kernel that changed the decision.
    pub misled: u8,
}
