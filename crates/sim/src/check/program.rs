// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs: sequences of steps on a file.

use std::fmt;

use foreread_core::policy::Advice;

/// Maximum number of descriptors of the file that a program has open at once.
pub const DESCRIPTORS: usize = 3;

/// Sizes of the files that programs read. They are whole pages and not, smaller than a window and
/// larger than the largest. Others are around the 64 pages of a node of the page cache's tree, and
/// around the size of a huge page.
pub const FILE_BYTES: [u64; 16] = [
    1,
    4096,
    5 * 4096 + 17,
    16 * 4096,
    31 * 4096 + 4095,
    63 * 4096 + 1,
    64 * 4096,
    65 * 4096,
    100 * 4096 + 2048,
    200 * 4096 + 1,
    256 * 4096,
    511 * 4096 + 100,
    513 * 4096,
    777 * 4096 + 7,
    1024 * 4096,
    1500 * 4096 + 1234,
];

/// madvise(2) on a whole mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MapAdvice {
    /// `MADV_NORMAL`.
    Normal,
    /// `MADV_SEQUENTIAL`.
    Sequential,
    /// `MADV_RANDOM`.
    Random,
}

/// One step: one system call, or one access to memory. A step on a descriptor that is not open, or
/// without a mapping, does nothing, so that any part of a program is a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// open(2); closes the file that was open under the number.
    Open {
        /// Which descriptor, below [`DESCRIPTORS`].
        descriptor: usize,
    },
    /// pread(2).
    Read {
        /// Which descriptor.
        descriptor: usize,
        /// Offset of the first byte.
        offset_bytes: u64,
        /// Number of bytes; 1 or more.
        bytes: u64,
    },
    /// read(2), from where the descriptor is.
    ReadOn {
        /// Which descriptor.
        descriptor: usize,
        /// Number of bytes; 1 or more.
        bytes: u64,
    },
    /// lseek(2).
    Seek {
        /// Which descriptor.
        descriptor: usize,
        /// Where to.
        offset_bytes: u64,
    },
    /// posix_fadvise(2) on the whole file.
    Advise {
        /// Which descriptor.
        descriptor: usize,
        /// The advice.
        advice: Advice,
    },
    /// `POSIX_FADV_WILLNEED`.
    WillNeed {
        /// Which descriptor.
        descriptor: usize,
        /// Offset of the first byte.
        offset_bytes: u64,
        /// Number of bytes; 1 or more.
        bytes: u64,
    },
    /// readahead(2).
    Readahead {
        /// Which descriptor.
        descriptor: usize,
        /// Offset of the first byte.
        offset_bytes: u64,
        /// Number of bytes; 1 or more.
        bytes: u64,
    },
    /// `POSIX_FADV_DONTNEED`.
    DontNeed {
        /// Which descriptor.
        descriptor: usize,
        /// Offset of the first byte.
        offset_bytes: u64,
        /// Number of bytes; 1 or more.
        bytes: u64,
    },
    /// mmap(2); ends the mapping that there was.
    Map {
        /// Which descriptor.
        descriptor: usize,
        /// First page of the file.
        start: u64,
        /// Number of pages; may reach beyond the end of the file.
        pages: u64,
        /// The place of the mapping in a page table: below 512.
        slot: u64,
        /// With `PROT_EXEC`.
        exec: bool,
    },
    /// munmap(2).
    Unmap,
    /// Reads a byte of a page of the file through the mapping.
    Touch {
        /// The page of the file.
        page: u64,
    },
    /// madvise(2) on the whole mapping.
    MapAdvise {
        /// The advice.
        advice: MapAdvice,
    },
    /// `MADV_WILLNEED`, on pages of the file.
    MapWillNeed {
        /// First page of the file.
        start: u64,
        /// Number of pages.
        pages: u64,
    },
}

impl fmt::Display for Step {
    /// `pread 0, 4096 +8192`: the descriptor, the offset and the length in bytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Open { descriptor } => write!(f, "open {descriptor}"),
            Self::Read {
                descriptor,
                offset_bytes,
                bytes,
            } => write!(f, "pread {descriptor}, {offset_bytes} +{bytes}"),
            Self::ReadOn { descriptor, bytes } => write!(f, "read {descriptor}, +{bytes}"),
            Self::Seek {
                descriptor,
                offset_bytes,
            } => write!(f, "lseek {descriptor}, {offset_bytes}"),
            Self::Advise { descriptor, advice } => {
                let advice = match advice {
                    Advice::Normal => "NORMAL",
                    Advice::Sequential => "SEQUENTIAL",
                    Advice::Random => "RANDOM",
                };
                write!(f, "fadvise {descriptor}, {advice}")
            }
            Self::WillNeed {
                descriptor,
                offset_bytes,
                bytes,
            } => write!(f, "fadvise {descriptor}, WILLNEED {offset_bytes} +{bytes}"),
            Self::Readahead {
                descriptor,
                offset_bytes,
                bytes,
            } => write!(f, "readahead {descriptor}, {offset_bytes} +{bytes}"),
            Self::DontNeed {
                descriptor,
                offset_bytes,
                bytes,
            } => write!(f, "fadvise {descriptor}, DONTNEED {offset_bytes} +{bytes}"),
            Self::Map {
                descriptor,
                start,
                pages,
                slot,
                exec,
            } => {
                let exec = if exec { ", PROT_EXEC" } else { "" };
                write!(
                    f,
                    "mmap {descriptor}, pages {start}+{pages}, slot {slot}{exec}"
                )
            }
            Self::Unmap => f.write_str("munmap"),
            Self::Touch { page } => write!(f, "touch page {page}"),
            Self::MapAdvise { advice } => {
                let advice = match advice {
                    MapAdvice::Normal => "NORMAL",
                    MapAdvice::Sequential => "SEQUENTIAL",
                    MapAdvice::Random => "RANDOM",
                };
                write!(f, "madvise {advice}")
            }
            Self::MapWillNeed { start, pages } => {
                write!(f, "madvise WILLNEED, pages {start}+{pages}")
            }
        }
    }
}

/// A program: its file, its windows, and its steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The seed that it was drawn from.
    pub seed: u64,
    /// Its number among those of the seed.
    pub number: u64,
    /// Which of [`FILE_BYTES`] it reads.
    pub file: usize,
    /// The value for the device's read_ahead_kb, where that may be set.
    pub read_ahead_kib: u64,
    /// Its steps.
    pub steps: Vec<Step>,
}

impl Program {
    /// Size of its file.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        FILE_BYTES.get(self.file).copied().unwrap_or(0)
    }

    /// The same with other steps.
    #[must_use]
    pub fn with_steps(&self, steps: Vec<Step>) -> Self {
        Self {
            steps,
            ..self.clone()
        }
    }
}
