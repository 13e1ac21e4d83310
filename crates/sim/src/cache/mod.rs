// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page cache: the pages of files in memory, in folios, on an active and an inactive list, with
//! accounts of their use. It has no clock.

mod access;
mod account;
mod fates;
mod folio;
mod index;
mod mapped;
mod reclaim;
mod view;
mod walk;
mod warm;

pub use access::{FolioRun, Use};
pub use account::Account;
pub use fates::{Fate, Met};
pub use folio::{FolioId, Generations};
pub use view::FileView;

use std::collections::VecDeque;
use std::ops::Range;

use fates::Fates;
use folio::{Folio, Lists, NONE};
use index::{Index, LEAF_PAGES, folio_bits, folio_leaves};

/// A file in a [`PageCache`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(u32);

impl FileId {
    /// The file that was added first.
    pub(crate) const FIRST: Self = Self(0);

    /// Files are numbered from 0, as they were added.
    #[must_use]
    pub fn number(self) -> usize {
        self.0 as usize
    }
}

/// The origin of fetches and uses of pages: one open file of one program. Each has its [`Account`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(u32);

impl StreamId {
    /// Streams are numbered from 0, as they were added.
    #[must_use]
    pub fn number(self) -> usize {
        self.0 as usize
    }

    pub(crate) fn from_number(number: usize) -> Self {
        Self(number as u32)
    }
}

/// Why a folio was not inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// One of its pages is cached already.
    Cached,
    /// There is no memory for it, and nothing that could be evicted now.
    NoMemory,
}

/// A folio to insert.
#[derive(Clone, Copy, Debug)]
pub struct NewFolio {
    /// First page, a multiple of its size.
    pub index: u64,
    /// It has 2^`order` pages.
    pub order: u8,
    /// Whether it carries the mark.
    pub marked: bool,
}

impl NewFolio {
    /// A single page, without the mark.
    #[must_use]
    pub const fn page(index: u64) -> Self {
        Self {
            index,
            order: 0,
            marked: false,
        }
    }
}

/// Properties of a folio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FolioInfo {
    /// First page.
    pub index: u64,
    /// It has 2^`order` pages.
    pub order: u8,
    /// Whether reaching it is to cause the next window.
    pub marked: bool,
    /// Whether all of it has arrived.
    pub up_to_date: bool,
    /// Whether it was in use before and came back soon after its eviction.
    pub workingset: bool,
    /// Which arrival completed it; only equality says something.
    pub stamp: u32,
}

impl FolioInfo {
    /// The page after its last one.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.index + (1 << self.order)
    }
}

/// Pages in a row that were evicted one after the other, while they are remembered.
#[derive(Clone, Copy, Debug)]
struct Shadow {
    index: u64,
    file: u32,
    pages: u32,
    /// Age of the first page; each further page is one older.
    age: u32,
}

/// A bit of a shadow's slot: the page was evicted before its first use.
const SHADOW_UNUSED: u32 = 1 << 31;

/// The cached pages of all files. Without a capacity nothing is ever evicted.
#[derive(Clone, Debug)]
pub struct PageCache {
    capacity_pages: Option<u64>,
    lists: Lists,
    files: Vec<Index>,
    accounts: Vec<Account>,
    shadows: VecDeque<Shadow>,
    /// Pages that shadows stand for.
    shadow_pages: u64,
    /// Grows with each page that reclaim looks at.
    aged_pages: u64,
    arrivals: u32,
    /// How the multi-generational LRU takes reads; `None` for the classic one.
    generations: Option<Generations>,
    fates: Fates,
}

impl PageCache {
    /// An empty cache of `capacity_pages` pages; `None` for no limit.
    #[must_use]
    pub fn new(capacity_pages: Option<u64>) -> Self {
        Self {
            capacity_pages,
            lists: Lists::EMPTY,
            files: Vec::new(),
            accounts: Vec::new(),
            shadows: VecDeque::new(),
            shadow_pages: 0,
            aged_pages: 0,
            arrivals: 0,
            generations: None,
            fates: Fates::default(),
        }
    }

    /// The same with marks as the multi-generational LRU makes them. How that reclaims is not
    /// modelled, so without a capacity only.
    #[must_use]
    pub fn with_generations(mut self, generations: Option<Generations>) -> Self {
        debug_assert!(self.capacity_pages.is_none());
        self.generations = generations;
        self
    }

    /// A file of which nothing is cached yet.
    pub fn add_file(&mut self) -> FileId {
        self.files.push(Index::default());
        FileId((self.files.len() - 1) as u32)
    }

    /// A stream with an empty account.
    pub fn add_stream(&mut self) -> StreamId {
        self.accounts.push(Account::default());
        StreamId((self.accounts.len() - 1) as u32)
    }

    /// Counts of the pages that a stream fetched.
    #[must_use]
    pub fn account(&self, stream: StreamId) -> Account {
        self.accounts[stream.0 as usize]
    }

    /// Counts of all pages.
    #[must_use]
    pub fn total(&self) -> Account {
        let mut total = Account::default();
        for account in &self.accounts {
            total += *account;
        }
        total
    }

    /// The cached pages around an access, for a policy.
    #[must_use]
    pub fn view(&self, file: FileId) -> FileView<'_> {
        FileView::new(&self.files[file.0 as usize], &self.lists.folios)
    }

    /// All memory, in pages; `None` when nothing bounds it.
    #[must_use]
    pub fn capacity_pages(&self) -> Option<u64> {
        self.capacity_pages
    }

    /// Pages in the cache, arrived or not.
    #[must_use]
    pub fn resident_pages(&self) -> u64 {
        self.lists.pages()
    }

    /// Pages of the inactive list and free ones: pages read now pass through these before they are
    /// evicted. 0 without a capacity.
    #[must_use]
    pub fn reclaim_pages(&self) -> u64 {
        let capacity = self.capacity_pages.unwrap_or(0);
        capacity.saturating_sub(self.lists.active.pages)
    }

    /// Pages that reclaim has looked at.
    #[must_use]
    pub fn aged_pages(&self) -> u64 {
        self.aged_pages
    }

    /// Runs of cached pages in order, as first page and length, within the first `file_pages`.
    #[must_use]
    pub fn resident_runs(&self, file: FileId, file_pages: u64) -> Vec<(u64, u64)> {
        self.files[file.0 as usize].runs(file_pages)
    }

    /// The folio that holds a page.
    #[must_use]
    pub fn find(&self, file: FileId, page: u64) -> Option<FolioId> {
        self.files[file.0 as usize].folio(page).map(FolioId)
    }

    /// The first run of pages of a range that are not cached; an empty one where all are.
    #[must_use]
    pub fn missing_run(&self, file: FileId, pages: Range<u64>) -> Range<u64> {
        let index = &self.files[file.0 as usize];
        let length = pages.end.saturating_sub(pages.start);
        let start = pages.start + index.run_after(pages.start, length, true);
        let left = pages.end.saturating_sub(start);
        start..start + index.run_after(start, left, false)
    }

    /// Properties of a folio.
    #[must_use]
    pub fn info(&self, id: FolioId) -> FolioInfo {
        let folio = self.lists.folios.get(id.0);
        FolioInfo {
            index: folio.index,
            order: folio.order,
            marked: folio.has(Folio::MARKED),
            up_to_date: folio.is_up_to_date(),
            workingset: folio.has(Folio::WORKINGSET),
            stamp: folio.stamp,
        }
    }

    /// Takes the mark off a folio.
    pub fn clear_mark(&mut self, id: FolioId) {
        self.lists.folios.get_mut(id.0).flags &= !Folio::MARKED;
    }

    /// Keeps a folio from eviction until [`PageCache::unpin`]: a program waits for it.
    pub fn pin(&mut self, id: FolioId) {
        let folio = self.lists.folios.get_mut(id.0);
        folio.pins = folio.pins.saturating_add(1);
    }

    /// One program less waits for a folio.
    pub fn unpin(&mut self, id: FolioId) {
        let folio = self.lists.folios.get_mut(id.0);
        folio.pins = folio.pins.saturating_sub(1);
    }

    /// Checks a pinned folio that a program waits for. If it is up to date, it is unpinned, and the
    /// stamp of its arrival is returned.
    pub fn arrived(&mut self, id: FolioId) -> Option<u32> {
        let info = self.info(id);
        if !info.up_to_date {
            return None;
        }
        self.unpin(id);
        Some(info.stamp)
    }

    /// Inserts a folio whose pages are on their way.
    ///
    /// # Errors
    /// When a page of it is cached, or there is no room.
    pub fn insert(
        &mut self,
        file: FileId,
        stream: StreamId,
        new: NewFolio,
    ) -> Result<FolioId, Refused> {
        let index = &self.files[file.0 as usize];
        if index.any_of_folio(new.index, new.order) {
            return Err(Refused::Cached);
        }
        if !self.make_room(1 << new.order) {
            return Err(Refused::NoMemory);
        }
        Ok(self.insert_anyway(file, stream, new))
    }

    /// Inserts one page that a program can't do without, even where memory is full.
    ///
    /// # Errors
    /// When it is cached.
    pub fn insert_needed(
        &mut self,
        file: FileId,
        stream: StreamId,
        page: u64,
    ) -> Result<FolioId, Refused> {
        if self.find(file, page).is_some() {
            return Err(Refused::Cached);
        }
        self.make_room(1);
        Ok(self.insert_anyway(file, stream, NewFolio::page(page)))
    }

    #[inline]
    fn insert_anyway(&mut self, file: FileId, stream: StreamId, new: NewFolio) -> FolioId {
        let pages = 1u64 << new.order;
        let id = self.lists.folios.add(Folio {
            index: new.index,
            file: file.0,
            stream: stream.0,
            previous: NONE,
            next: NONE,
            stamp: 0,
            missing: pages as u32,
            pins: 0,
            order: new.order,
            flags: if new.marked { Folio::MARKED } else { 0 },
        });
        let evicted_at = self.files[file.0 as usize].put(new.index, new.order, id);
        let account = &mut self.accounts[stream.0 as usize];
        account.fetched += pages;
        account.in_flight += pages;
        if self.fates.are_kept() {
            let bits = folio_bits(new.index, new.order);
            for leaf in folio_leaves(new.index, new.order) {
                self.fates.note(file.0, leaf, bits, None);
            }
        }
        if let Some(slot) = evicted_at {
            self.refault(id, slot);
        }
        self.lists.add(id);
        FolioId(id)
    }

    /// A folio comes back; it may belong on the active list at once (workingset_refault).
    #[inline(never)]
    fn refault(&mut self, id: u32, slot: u32) {
        let folio = self.lists.folios.get_mut(id);
        self.accounts[folio.stream as usize].refaults += folio.pages();
        let now = self.lists.nonresident_age as u32 & !SHADOW_UNUSED;
        let distance = now.wrapping_sub(slot & !SHADOW_UNUSED) & !SHADOW_UNUSED;
        if u64::from(distance) <= self.lists.active.pages {
            folio.flags |= Folio::ACTIVE | Folio::WORKINGSET;
            self.lists.nonresident_age += folio.pages();
        }
    }

    /// Counts a miss; whether the page had been fetched and was evicted before its use.
    pub fn miss(&mut self, file: FileId, page: u64, stream: StreamId) -> bool {
        let leaf = self.files[file.0 as usize].leaf(page / LEAF_PAGES);
        let at = page % LEAF_PAGES;
        let thrashed = leaf.is_some_and(|leaf| {
            leaf.shadow >> at & 1 == 1 && leaf.slots[at as usize] & SHADOW_UNUSED != 0
        });
        self.accounts[stream.0 as usize].thrashes += u64::from(thrashed);
        thrashed
    }

    /// Pages of a file have arrived from the device, all at one time. Folios that are up to date
    /// now and that programs wait for are added to `awaited`.
    pub fn arrive(&mut self, file: FileId, pages: Range<u64>, awaited: &mut Vec<FolioId>) {
        self.arrivals = self.arrivals.wrapping_add(1);
        let index = &self.files[file.0 as usize];
        let mut at = pages.start;
        while at < pages.end {
            let number = at / LEAF_PAGES;
            let Some(leaf) = index.leaf(number) else {
                at = (number + 1) * LEAF_PAGES;
                continue;
            };
            while at < pages.end && at / LEAF_PAGES == number {
                let Some(id) = leaf.folio(at % LEAF_PAGES) else {
                    at += 1;
                    continue;
                };
                let folio = self.lists.folios.get_mut(id);
                let end = folio.end().min(pages.end);
                let arrived = ((end - at) as u32).min(folio.missing);
                folio.missing -= arrived;
                folio.stamp = self.arrivals;
                let account = &mut self.accounts[folio.stream as usize];
                account.in_flight -= u64::from(arrived);
                account.resident_unused += u64::from(arrived);
                if folio.is_up_to_date() && folio.pins > 0 {
                    awaited.push(FolioId(id));
                }
                at = end;
            }
        }
    }
}
