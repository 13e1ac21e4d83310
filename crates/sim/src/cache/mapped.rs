// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which cached pages programs have mapped.

use std::ops::Range;

use super::folio::{Folio, FolioId};
use super::index::{LEAF_PAGES, pieces};
use super::{FileId, PageCache};

impl PageCache {
    /// Pages in a row from the start of the range that are mapped into a program.
    #[must_use]
    pub fn mapped_run(&self, file: FileId, pages: Range<u64>) -> u64 {
        let index = &self.files[file.0 as usize];
        let mut at = pages.start;
        while at < pages.end {
            let offset = at % LEAF_PAGES;
            let mapped = index.leaf(at / LEAF_PAGES).map_or(0, |leaf| leaf.mapped);
            let run = u64::from((mapped >> offset).trailing_ones()).min(LEAF_PAGES - offset);
            at += run;
            if offset + run < LEAF_PAGES {
                break;
            }
        }
        at.min(pages.end) - pages.start
    }

    /// Maps the cached pages of a range into a program, without using them.
    pub fn map_pages(&mut self, file: FileId, pages: Range<u64>) {
        for (number, bits) in pieces(pages.start, pages.end) {
            if let Some(leaf) = self.files[file.0 as usize].leaf_mut(number) {
                leaf.mapped |= bits & leaf.present;
            }
        }
    }

    /// Whether a program has mapped any page of a range.
    #[must_use]
    pub fn any_mapped(&self, file: FileId, pages: Range<u64>) -> bool {
        let index = &self.files[file.0 as usize];
        pieces(pages.start, pages.end)
            .any(|(number, bits)| index.leaf(number).is_some_and(|l| l.mapped & bits != 0))
    }

    /// Forgets that pages of a range are mapped: munmap(2).
    pub fn unmap_pages(&mut self, file: FileId, pages: Range<u64>) {
        for (number, bits) in pieces(pages.start, pages.end) {
            if let Some(leaf) = self.files[file.0 as usize].leaf_mut(number) {
                leaf.mapped &= !bits;
            }
        }
    }

    /// Runs of mapped pages in order, as first page and length, within the first `file_pages`.
    #[must_use]
    pub fn mapped_runs(&self, file: FileId, file_pages: u64) -> Vec<(u64, u64)> {
        let mut runs = Vec::new();
        let mut at = 0;
        while at < file_pages {
            let pages = self.mapped_run(file, at..file_pages);
            if pages > 0 {
                runs.push((at, pages));
            }
            at += pages.max(1);
        }
        runs
    }

    /// Notes that a mapping that executes uses a folio: reclaim gives text a second chance.
    pub fn mark_exec(&mut self, id: FolioId) {
        self.lists.folios.get_mut(id.0).flags |= Folio::EXEC;
    }
}
