// SPDX-License-Identifier: MIT OR Apache-2.0
//! A file, the pages that are wanted of it, and where they lie.

use std::fmt;

use foreread_prefetch::order::Piece;
use foreread_profile::{NodeId, PAGE_BYTES};

/// Bytes of a file that lie together on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Run {
    /// Where they start in the file.
    pub offset_bytes: u64,
    /// Where they start on the device.
    pub place_bytes: u64,
    /// How many they are.
    pub length_bytes: u64,
}

impl Run {
    /// The first byte of the file after it.
    #[must_use]
    pub const fn end_bytes(&self) -> u64 {
        self.offset_bytes.saturating_add(self.length_bytes)
    }

    /// The part of it that lies in this part of the file.
    #[must_use]
    pub fn part(&self, start_bytes: u64, end_bytes: u64) -> Option<Self> {
        let start = self.offset_bytes.max(start_bytes);
        let end = self.end_bytes().min(end_bytes);
        (start < end).then(|| Self {
            offset_bytes: start,
            place_bytes: self.place_bytes.saturating_add(start - self.offset_bytes),
            length_bytes: end - start,
        })
    }
}

/// Pages that are wanted of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WantedPages {
    /// First page of 4 KiB.
    pub start_page: u64,
    /// Number of pages.
    pub pages: u64,
    /// When the first of them is needed.
    pub need_ns: u64,
}

impl WantedPages {
    /// The first wanted byte.
    #[must_use]
    pub const fn start_bytes(&self) -> u64 {
        self.start_page.saturating_mul(PAGE_BYTES)
    }

    /// The byte after the last.
    #[must_use]
    pub const fn end_bytes(&self) -> u64 {
        let end_page = self.start_page.saturating_add(self.pages);
        end_page.saturating_mul(PAGE_BYTES)
    }
}

/// A property of a file for which it can't be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Obstacle {
    /// `chattr +i` or `+a`: it can't be opened for writing.
    Immutable,
    /// Its blocks are in an indirect map, from a time before ext4.
    NoExtents,
    /// Its data lie inside the inode.
    Inline,
    /// It is encrypted: the key belongs to the inode.
    Encrypted,
    /// fs-verity: it can't be opened for writing.
    Verity,
    /// Its blocks belong to other files, too; moving them would double them.
    Shared,
    /// Swap space: the kernel knows its blocks by their numbers.
    Swap,
    /// It is read and written past the page cache (`chattr +x`).
    Dax,
    /// Its changes go through the journal (`chattr +j`).
    JournalledData,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Immutable => "it is immutable or append-only",
            Self::NoExtents => "its blocks are mapped without extents",
            Self::Inline => "its data lie inside the inode",
            Self::Encrypted => "it is encrypted",
            Self::Verity => "it is protected by fs-verity",
            Self::Shared => "it shares blocks with other files",
            Self::Swap => "it is swap space",
            Self::Dax => "it is accessed past the page cache (DAX)",
            Self::JournalledData => "its data go through the journal",
        })
    }
}

/// See the [module](self).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileOnDisk {
    /// The file in the profile.
    pub node: NodeId,
    /// Its size.
    pub size_bytes: u64,
    /// All of its runs, in order of the file, without overlaps. Holes and unwritten space have
    /// none.
    pub runs: Vec<Run>,
    /// The pages that are wanted, in order of the file, without overlaps.
    pub wanted: Vec<WantedPages>,
    /// Why it can't be moved, if it can't.
    pub obstacle: Option<Obstacle>,
}

impl FileOnDisk {
    /// The parts of runs that hold wanted pages, with the time of need: in order of the file, as
    /// long as they can be.
    pub fn wanted_runs(&self) -> impl Iterator<Item = (Run, u64)> + '_ {
        self.wanted.iter().flat_map(move |wanted| {
            let (start, end) = (wanted.start_bytes(), wanted.end_bytes());
            let runs = self.runs.iter();
            runs.filter_map(move |run| Some((run.part(start, end)?, wanted.need_ns)))
        })
    }

    /// What a replay reads of it.
    pub fn pieces(&self) -> impl Iterator<Item = Piece> + '_ {
        self.wanted_runs().map(|(run, need_ns)| Piece {
            node: self.node,
            start_page: run.offset_bytes / PAGE_BYTES,
            pages: run.length_bytes.div_ceil(PAGE_BYTES),
            need_ns,
            place_bytes: run.place_bytes,
        })
    }

    /// Bytes that are wanted and lie on the disk.
    #[must_use]
    pub fn wanted_bytes(&self) -> u64 {
        let lengths = self.wanted_runs().map(|(run, _)| run.length_bytes);
        lengths.fold(0, u64::saturating_add)
    }

    /// How many pieces the wanted bytes are in, if the file is read from its beginning to its end.
    #[must_use]
    pub fn fragments(&self) -> u64 {
        fragments(self.wanted_runs().map(|(run, _)| run))
    }

    /// When the first wanted page is needed; `None` when none is.
    #[must_use]
    pub fn first_need_ns(&self) -> Option<u64> {
        self.wanted.iter().map(|wanted| wanted.need_ns).min()
    }
}

/// How many pieces the wanted runs are in, if the file is read from its beginning to its end.
#[must_use]
pub(crate) fn fragments(runs: impl Iterator<Item = Run>) -> u64 {
    let mut fragments = 0;
    let mut end = None;
    for run in runs {
        fragments += u64::from(end != Some(run.place_bytes));
        end = Some(run.place_bytes.saturating_add(run.length_bytes));
    }
    fragments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(offset_bytes: u64, place_bytes: u64, length_bytes: u64) -> Run {
        Run {
            offset_bytes,
            place_bytes,
            length_bytes,
        }
    }

    #[test]
    fn wanted_pages_are_where_their_runs_are() {
        let file = FileOnDisk {
            node: NodeId(1),
            size_bytes: 40_000,
            runs: vec![run(0, 1 << 20, 8192), run(16_384, 5 << 20, 24_576)],
            wanted: vec![
                WantedPages {
                    start_page: 1,
                    pages: 4,
                    need_ns: 7,
                },
                WantedPages {
                    start_page: 9,
                    pages: 9,
                    need_ns: 3,
                },
            ],
            obstacle: None,
        };
        let runs: Vec<(Run, u64)> = file.wanted_runs().collect();
        // Pages 2 and 3 are a hole.
        let expected = [
            (run(4096, (1 << 20) + 4096, 4096), 7),
            (run(16_384, 5 << 20, 4096), 7),
            (run(36_864, (5 << 20) + 20_480, 4096), 3),
        ];
        assert_eq!(runs, expected);
        assert_eq!(file.wanted_bytes(), 3 * 4096);
        assert_eq!(file.first_need_ns(), Some(3));
        let pieces: Vec<(u64, u64)> = file.pieces().map(|p| (p.start_page, p.pages)).collect();
        assert_eq!(pieces, [(1, 1), (4, 1), (9, 1)]);
    }

    #[test]
    fn runs_that_touch_are_one_fragment() {
        let runs = [
            run(0, 100, 50),
            run(50, 150, 10),
            run(60, 0, 10),
            run(70, 160, 1),
        ];
        assert_eq!(fragments(runs.into_iter()), 3);
        assert_eq!(fragments([].into_iter()), 0);
    }
}
