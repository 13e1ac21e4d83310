// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decides the number of files that are fetched ahead of a program.

use foreread_profile::PAGE_BYTES;

/// A walk's first window: enough files for a disk's head to go through them in order.
const FILES_START: u64 = 512;
const FILES_MIN: u64 = 64;
const FILES_MAX: u64 = 8192;
/// Inodes take less: 256 bytes, sixteen of them a page.
const INODES_START: u64 = 8192;
const INODES_MAX: u64 = 65_536;
/// Assumed pages per file until the first files have been fetched.
const PAGES_PER_FILE_START: u64 = 8;

/// A window counted in files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    files: u64,
    files_max: u64,
    pages_per_file_start: u64,
    budget_pages: u64,
    fetched_files: u64,
    fetched_pages: u64,
}

impl Window {
    /// A first window, of files that together fit into `budget_bytes`.
    #[must_use]
    pub fn new(budget_bytes: u64) -> Self {
        Self {
            files: FILES_START,
            files_max: FILES_MAX,
            pages_per_file_start: PAGES_PER_FILE_START,
            budget_pages: budget_bytes / PAGE_BYTES,
            fetched_files: 0,
            fetched_pages: 0,
        }
    }

    /// A first window of files of which only the inodes are fetched.
    #[must_use]
    pub fn of_inodes(budget_bytes: u64) -> Self {
        Self {
            files: INODES_START,
            files_max: INODES_MAX,
            pages_per_file_start: 1,
            ..Self::new(budget_bytes)
        }
    }

    /// Files that may be in memory ahead of the program; 0 when not one fits into the budget.
    #[must_use]
    pub fn files(&self) -> u64 {
        self.files.min(self.budget_pages / self.pages_per_file())
    }

    /// Bytes that may come in while `files_ahead` files are ahead.
    #[must_use]
    pub fn bytes_left(&self, files_ahead: u64) -> u64 {
        let ahead_pages = files_ahead.saturating_mul(self.pages_per_file());
        self.budget_pages
            .saturating_sub(ahead_pages)
            .saturating_mul(PAGE_BYTES)
    }

    /// The program waited for a file that was not fetched yet.
    pub fn grow(&mut self) {
        self.files = self.files.saturating_mul(2).min(self.files_max);
    }

    /// Shrinks the window: most of the fetched files were not used.
    pub fn shrink(&mut self) {
        self.files = (self.files / 2).max(FILES_MIN);
    }

    /// `files` files had `pages` pages together.
    pub fn fetched(&mut self, files: u64, pages: u64) {
        self.fetched_files = self.fetched_files.saturating_add(files);
        self.fetched_pages = self.fetched_pages.saturating_add(pages);
    }

    fn pages_per_file(&self) -> u64 {
        match self.fetched_files {
            0 => self.pages_per_file_start,
            files => self.fetched_pages.div_ceil(files).max(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn it_doubles_when_waited_for_and_halves_on_waste() {
        let mut window = Window::new(1 << 40);
        window.grow();
        assert_eq!(window.files(), 1024);
        window.shrink();
        window.shrink();
        assert_eq!(window.files(), 256);
    }

    #[test]
    fn large_files_leave_room_for_few() {
        let mut window = Window::new(1 << 20);
        assert_eq!(window.files(), 32);
        window.fetched(10, 640);
        assert_eq!(window.files(), 4);
        assert_eq!(window.bytes_left(3), 64 * PAGE_BYTES);
        assert_eq!(window.bytes_left(5), 0);
        assert_eq!(Window::new(100).files(), 0);
    }

    proptest! {
        #[test]
        fn it_stays_within_bounds_and_budget(
            budget_bytes in any::<u64>(),
            steps in prop::collection::vec((0u8..3, any::<u64>(), any::<u64>()), 0..50)
        ) {
            let mut window = Window::new(budget_bytes);
            for (step, files, pages) in steps {
                match step {
                    0 => window.grow(),
                    1 => window.shrink(),
                    _ => window.fetched(files, pages),
                }
                prop_assert!(window.files() <= FILES_MAX);
                let pages = window.files().saturating_mul(window.pages_per_file());
                prop_assert!(pages <= budget_bytes / PAGE_BYTES);
                prop_assert!(window.bytes_left(files) <= budget_bytes);
            }
        }
    }
}
