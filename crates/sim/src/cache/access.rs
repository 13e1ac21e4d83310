// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lookups of programs in the cache, and the use that they make of its pages.

use std::ops::Range;

use super::fates::{Fate, Fates};
use super::folio::{Folio, FolioId};
use super::index::{LEAF_PAGES, folio_bits, pieces};
use super::{Account, FileId, PageCache, StreamId};

/// Cached folios in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FolioRun {
    /// The page after the last folio, or the end that was given.
    pub end: u64,
    /// The first page of the last folio, or the page to begin at.
    pub last_start: u64,
    /// The last folio.
    pub last: FolioId,
}

/// How a program uses pages.
#[derive(Clone, Copy, Debug)]
pub struct Use {
    /// The stream that uses them.
    pub stream: StreamId,
    /// The page that the previous read ended in: the same folio again is no second access.
    pub previous_page: Option<u64>,
    /// The arrival that the program waited for.
    pub late: Option<u32>,
    /// Through a mapping, not by read(2).
    pub mapped: bool,
}

impl PageCache {
    /// The folios from a page on, at most `folios_max`. They end at a hole, at a folio that is not
    /// up to date or is marked, or at the end of the range (filemap_get_read_batch). `None` if the
    /// first page is not cached.
    #[must_use]
    pub fn folio_run(
        &self,
        file: FileId,
        pages: Range<u64>,
        folios_max: usize,
    ) -> Option<FolioRun> {
        let index = &self.files[file.0 as usize];
        let mut found = None;
        let (mut at, mut left) = (pages.start, folios_max);
        while at < pages.end {
            let number = at / LEAF_PAGES;
            let Some(leaf) = index.leaf(number) else {
                break;
            };
            while at < pages.end && at / LEAF_PAGES == number {
                let Some(id) = leaf.folio(at % LEAF_PAGES).filter(|_| left > 0) else {
                    return found;
                };
                left -= 1;
                let folio = self.lists.folios.get(id);
                let end = folio.end().min(pages.end);
                found = Some(FolioRun {
                    end,
                    last_start: at,
                    last: FolioId(id),
                });
                if !folio.is_up_to_date() || folio.has(Folio::MARKED) {
                    return found;
                }
                at = end;
            }
        }
        found
    }

    /// A program uses pages, all of them cached and up to date. Others are passed over.
    pub fn use_pages(&mut self, file: FileId, pages: Range<u64>, how: &Use) {
        let mut skip = how.previous_page.and_then(|page| self.find(file, page));
        if how.mapped {
            skip = None;
        }
        for (leaf, bits) in pieces(pages.start, pages.end) {
            self.use_leaf(file, leaf, bits, how, &mut skip);
        }
        let account = &mut self.accounts[how.stream.0 as usize];
        account.accesses += pages.end.saturating_sub(pages.start);
    }

    fn use_leaf(
        &mut self,
        file: FileId,
        number: u64,
        bits: u64,
        how: &Use,
        skip: &mut Option<FolioId>,
    ) {
        let index = &mut self.files[file.0 as usize];
        let distinct = index.touch(number, bits);
        self.accounts[how.stream.0 as usize].distinct += distinct;
        let Some(leaf) = index.leaf_mut(number) else {
            return;
        };
        let mut left = bits & leaf.present;
        let first_use = left & !leaf.used;
        leaf.used |= left;
        if how.mapped {
            leaf.mapped |= left;
        }
        let mut first_used = FirstUsed::NONE;
        let mut books = Books {
            accounts: &mut self.accounts,
            fates: &mut self.fates,
            file: file.0,
            leaf: number,
        };
        while left != 0 {
            let id = leaf.slots[left.trailing_zeros() as usize];
            let folio = self.lists.folios.get_mut(id);
            let whole = folio_bits(folio.index, folio.order);
            if first_use & whole != 0 {
                let is_late = how.late == Some(folio.stamp);
                first_used.add(&mut books, folio.stream, is_late, first_use & whole);
            }
            left &= !whole;
            if how.mapped {
                folio.flags |= Folio::YOUNG;
            } else if skip.replace(FolioId(id)) != Some(FolioId(id)) {
                // A second read of an inactive folio makes it active (folio_mark_accessed).
                if let Some(generations) = self.generations {
                    folio.read_by_generations(generations);
                } else if !folio.has(Folio::REFERENCED) {
                    folio.flags |= Folio::REFERENCED;
                } else if !folio.has(Folio::ACTIVE) {
                    self.lists.activate(id);
                }
            }
        }
        first_used.book(&mut books);
    }
}

/// Pages of a leaf that are used for the first time, not yet in the account of the stream that
/// fetched them. Pages of a row of folios are booked together, because counting bits is expensive.
struct FirstUsed {
    stream: u32,
    is_late: bool,
    bits: u64,
}

/// Where first uses of a leaf's pages are booked.
struct Books<'a> {
    accounts: &'a mut [Account],
    fates: &'a mut Fates,
    file: u32,
    leaf: u64,
}

impl FirstUsed {
    const NONE: Self = Self {
        stream: 0,
        is_late: false,
        bits: 0,
    };

    fn add(&mut self, books: &mut Books, stream: u32, is_late: bool, bits: u64) {
        if (self.stream, self.is_late) != (stream, is_late) {
            self.book(books);
            *self = Self {
                stream,
                is_late,
                bits: 0,
            };
        }
        self.bits |= bits;
    }

    fn book(&self, books: &mut Books) {
        let pages = u64::from(self.bits.count_ones());
        let fate = match self.is_late {
            true => Fate::Late,
            false => Fate::OnTime,
        };
        books
            .fates
            .note(books.file, books.leaf, self.bits, Some(fate));
        let account = &mut books.accounts[self.stream as usize];
        account.resident_unused -= pages;
        if self.is_late {
            account.used_late += pages;
        } else {
            account.used_on_time += pages;
        }
    }
}
