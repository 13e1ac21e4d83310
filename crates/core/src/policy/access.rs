// SPDX-License-Identifier: MIT OR Apache-2.0
//! One access of a program.

/// The kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// read(2) found no page.
    ReadMiss = 0,
    /// read(2) found a marked page.
    ReadMark = 1,
    /// read(2) is at the first page of a request, or where the last look ended.
    ReadLook = 2,
    /// A fault on a mapping found no page.
    FaultMiss = 3,
    /// A fault on a mapping found a marked page.
    FaultMark = 4,
    /// A fault on a mapping found an unmarked page.
    FaultHit = 5,
    /// The program asked for pages ahead of time.
    Force = 6,
}

impl Kind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 7] = [
        Self::ReadMiss,
        Self::ReadMark,
        Self::ReadLook,
        Self::FaultMiss,
        Self::FaultMark,
        Self::FaultHit,
        Self::Force,
    ];
}

/// One access: `struct fr_access`. Any values are valid; the constructors set the usual ones.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    /// Page read or faulted; for [`Kind::ReadMark`] the first page of the marked folio.
    pub index: u64,
    /// For reads, pages from `index` to the end of the rest of the system call; for
    /// [`Kind::Force`], requested pages.
    pub req_pages: u64,
    /// Faults: first page of the file that the mapping covers.
    pub vma_start: u64,
    /// Faults: page after the last one that the mapping covers; 0 when that is not known.
    pub vma_end: u64,
    /// Pages that this stream has read since its last window; 0 when they are not counted.
    pub hit_pages: u64,
    /// When, by any clock that does not go back; 0 where there is none.
    pub time_ns: u64,
    /// The kind of the access.
    pub kind: Kind,
    /// Order of the folio that was found; 0 for misses.
    pub folio_order: u8,
    /// `VMA_*` and others of the constants below, or-ed.
    pub flags: u16,
    /// The thread, so that the streams of several threads are told apart; 0 when that is not known.
    pub thread: u32,
}

impl Access {
    /// `MADV_SEQUENTIAL` mapping.
    pub const VMA_SEQUENTIAL: u16 = 0x01;
    /// `MADV_RANDOM` mapping.
    pub const VMA_RANDOM: u16 = 0x02;
    /// Mapping that is executed.
    pub const VMA_EXEC: u16 = 0x04;
    /// `MADV_HUGEPAGE` mapping whose place allows huge pages.
    pub const VMA_HUGE: u16 = 0x08;
    /// The task's block cgroup is congested.
    pub const CONGESTED: u16 = 0x10;
    /// The folio is under writeback.
    pub const WRITEBACK: u16 = 0x20;
    /// The folio is still being read.
    pub const LOCKED: u16 = 0x40;
    /// There is no open file: a file system reads its own metadata.
    pub const NO_FILE: u16 = 0x80;
    /// Looks: a page asked for is not in the cache.
    pub const MISSED: u16 = 0x100;

    /// An access of a kind.
    #[must_use]
    pub const fn new(kind: Kind, index: u64, req_pages: u64) -> Self {
        Self {
            index,
            req_pages,
            vma_start: 0,
            vma_end: 0,
            hit_pages: 0,
            time_ns: 0,
            kind,
            folio_order: 0,
            flags: 0,
            thread: 0,
        }
    }

    /// read(2) finds no page at `index`, `req_pages` from the end of its request.
    #[must_use]
    pub const fn read_miss(index: u64, req_pages: u64) -> Self {
        Self::new(Kind::ReadMiss, index, req_pages)
    }

    /// read(2) finds a marked folio that starts at `index` and has 2^`folio_order` pages.
    #[must_use]
    pub const fn read_mark(index: u64, req_pages: u64, folio_order: u8) -> Self {
        let access = Self::new(Kind::ReadMark, index, req_pages);
        Self {
            folio_order,
            ..access
        }
    }

    /// read(2) is at `index`, `req_pages` from the end of its request; for policies that look.
    #[must_use]
    pub const fn read_look(index: u64, req_pages: u64) -> Self {
        Self::new(Kind::ReadLook, index, req_pages)
    }

    /// A fault at `index` of the file; `flags` are those of the mapping.
    #[must_use]
    pub const fn fault(kind: Kind, index: u64, flags: u16) -> Self {
        let access = Self::new(kind, index, 1);
        Self { flags, ..access }
    }

    /// `WILLNEED` or readahead(2) on `pages` from `index` on.
    #[must_use]
    pub const fn force(index: u64, pages: u64) -> Self {
        Self::new(Kind::Force, index, pages)
    }
}
