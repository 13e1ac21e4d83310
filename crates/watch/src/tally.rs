// SPDX-License-Identifier: MIT OR Apache-2.0
//! Use of the files that a walk or a profile replay fetched ahead of a program.

/// Files, and pages of 4 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Directories listed; none of a profile.
    pub directories: u64,
    /// Files asked for, of which a use would be seen.
    pub fetched_files: u64,
    /// Pages that came in for them, and for uncounted files.
    pub fetched_pages: u64,
    /// Fetched files that the program read from memory.
    pub used_files: u64,
    /// Files below the top, or of the rest of a profile, that were not fetched when the program
    /// came to them.
    pub missed_files: u64,
    /// Requested files whose use can't be seen: files of a profile that are mapped, or read from
    /// their midst.
    pub uncounted_files: u64,
}

impl Tally {
    /// Files that were fetched, and that the program didn't use.
    #[must_use]
    pub fn wasted_files(&self) -> u64 {
        self.fetched_files.saturating_sub(self.used_files)
    }

    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            directories: self.directories + other.directories,
            fetched_files: self.fetched_files + other.fetched_files,
            fetched_pages: self.fetched_pages + other.fetched_pages,
            used_files: self.used_files + other.used_files,
            missed_files: self.missed_files + other.missed_files,
            uncounted_files: self.uncounted_files + other.uncounted_files,
        }
    }
}
