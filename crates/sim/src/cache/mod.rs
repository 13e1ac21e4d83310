// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page cache: which pages of which files are in memory, in folios, on an active and an
//! inactive list, with the accounts of what became of them. It knows no time.

mod account;
mod folio;
mod index;
mod reclaim;
mod view;
mod walk;
mod warm;

pub use account::Account;
pub use folio::FolioId;
pub use view::FileView;

use std::collections::VecDeque;
use std::ops::Range;

use folio::{Folio, List, NONE, Slab};
use index::{Index, LEAF_PAGES, bits, pieces};

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

/// Whoever fetches pages or uses them: one open file of one program. Each has its [`Account`].
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

/// What is known of a folio.
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

/// How a program uses pages.
#[derive(Clone, Copy, Debug)]
pub struct Use {
    /// Who.
    pub stream: StreamId,
    /// The page that the previous read ended in: the same folio again is no second access.
    pub previous_page: Option<u64>,
    /// The arrival that the program waited for.
    pub late: Option<u32>,
    /// Through a mapping, not by read(2).
    pub mapped: bool,
}

/// Pages in a row that were evicted one after the other, while they are remembered.
#[derive(Clone, Copy, Debug)]
struct Shadow {
    index: u64,
    file: u32,
    pages: u32,
    /// Of the first page; each further one is one older.
    age: u32,
}

/// A bit of a shadow's slot: the page was evicted before anything came to it.
const SHADOW_UNUSED: u32 = 1 << 31;

/// The cached pages of all files. Without a capacity nothing is ever evicted.
#[derive(Clone, Debug)]
pub struct PageCache {
    capacity_pages: Option<u64>,
    folios: Slab,
    files: Vec<Index>,
    accounts: Vec<Account>,
    inactive: List,
    active: List,
    shadows: VecDeque<Shadow>,
    /// Pages that shadows stand for.
    shadow_pages: u64,
    /// Grows with each page evicted or activated: what refaults are measured with.
    nonresident_age: u64,
    /// Grows with each page that reclaim looks at.
    aged_pages: u64,
    arrivals: u32,
}

impl PageCache {
    /// An empty cache of so many pages; `None` for as many as it takes.
    #[must_use]
    pub fn new(capacity_pages: Option<u64>) -> Self {
        Self {
            capacity_pages,
            folios: Slab::default(),
            files: Vec::new(),
            accounts: Vec::new(),
            inactive: List::EMPTY,
            active: List::EMPTY,
            shadows: VecDeque::new(),
            shadow_pages: 0,
            nonresident_age: 0,
            aged_pages: 0,
            arrivals: 0,
        }
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

    /// What became of the pages that a stream fetched.
    #[must_use]
    pub fn account(&self, stream: StreamId) -> Account {
        self.accounts[stream.0 as usize]
    }

    /// What became of all pages.
    #[must_use]
    pub fn total(&self) -> Account {
        let mut total = Account::default();
        for account in &self.accounts {
            total += *account;
        }
        total
    }

    /// What is cached around an access, for a policy.
    #[must_use]
    pub fn view(&self, file: FileId) -> FileView<'_> {
        FileView::new(&self.files[file.0 as usize], &self.folios)
    }

    /// All memory, in pages; `None` when nothing bounds it.
    #[must_use]
    pub fn capacity_pages(&self) -> Option<u64> {
        self.capacity_pages
    }

    /// Pages in the cache, arrived or not.
    #[must_use]
    pub fn resident_pages(&self) -> u64 {
        self.inactive.pages + self.active.pages
    }

    /// Pages of the inactive list and free ones: what pages read now pass through before they are
    /// evicted. 0 without a capacity.
    #[must_use]
    pub fn reclaim_pages(&self) -> u64 {
        let capacity = self.capacity_pages.unwrap_or(0);
        capacity.saturating_sub(self.active.pages)
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

    /// What is known of a folio.
    #[must_use]
    pub fn info(&self, id: FolioId) -> FolioInfo {
        let folio = self.folios.get(id.0);
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
        self.folios.get_mut(id.0).flags &= !Folio::MARKED;
    }

    /// Keeps a folio from eviction until [`PageCache::unpin`]: a program waits for it.
    pub fn pin(&mut self, id: FolioId) {
        let folio = self.folios.get_mut(id.0);
        folio.pins = folio.pins.saturating_add(1);
    }

    /// One program less waits for a folio.
    pub fn unpin(&mut self, id: FolioId) {
        let folio = self.folios.get_mut(id.0);
        folio.pins = folio.pins.saturating_sub(1);
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
        let pages = 1 << new.order;
        let end = new.index + pages;
        if self.files[file.0 as usize].any(new.index, end) {
            return Err(Refused::Cached);
        }
        if !self.make_room(pages) {
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
        if self.files[file.0 as usize].any(page, page + 1) {
            return Err(Refused::Cached);
        }
        self.make_room(1);
        let new = NewFolio {
            index: page,
            order: 0,
            marked: false,
        };
        Ok(self.insert_anyway(file, stream, new))
    }

    fn insert_anyway(&mut self, file: FileId, stream: StreamId, new: NewFolio) -> FolioId {
        let pages = 1u64 << new.order;
        let id = self.folios.add(Folio {
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
        let mut evicted_at = None;
        let index = &mut self.files[file.0 as usize];
        for (leaf, bits) in pieces(new.index, new.index + pages) {
            let leaf = index.leaf_made(leaf);
            if leaf.shadow & bits != 0 {
                let at = (leaf.shadow & bits).trailing_zeros() as usize;
                evicted_at = evicted_at.or(Some(leaf.slots[at]));
                leaf.shadow &= !bits;
            }
            leaf.present |= bits;
            let (first, count) = (bits.trailing_zeros() as usize, bits.count_ones() as usize);
            leaf.slots[first..first + count].fill(id);
        }
        let account = &mut self.accounts[stream.0 as usize];
        account.fetched += pages;
        account.in_flight += pages;
        match evicted_at {
            Some(slot) if self.refault(id, slot) => self.active.push(&mut self.folios, id),
            _ => self.inactive.push(&mut self.folios, id),
        }
        FolioId(id)
    }

    /// A folio comes back; whether it belongs on the active list at once (workingset_refault).
    fn refault(&mut self, id: u32, slot: u32) -> bool {
        let folio = self.folios.get_mut(id);
        self.accounts[folio.stream as usize].refaults += folio.pages();
        let now = self.nonresident_age as u32 & !SHADOW_UNUSED;
        let distance = now.wrapping_sub(slot & !SHADOW_UNUSED) & !SHADOW_UNUSED;
        if u64::from(distance) > self.active.pages {
            return false;
        }
        folio.flags |= Folio::ACTIVE | Folio::WORKINGSET;
        self.nonresident_age += folio.pages();
        true
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
        let mut at = pages.start;
        while at < pages.end {
            let Some(id) = self.files[file.0 as usize].folio(at) else {
                at += 1;
                continue;
            };
            let folio = self.folios.get_mut(id);
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
        while left != 0 {
            let at = left.trailing_zeros();
            let id = self.files[file.0 as usize]
                .leaf(number)
                .map_or(NONE, |leaf| leaf.slots[at as usize]);
            let folio = self.folios.get_mut(id);
            let base = number * LEAF_PAGES;
            let whole = bits_of(folio, base);
            let fresh = u64::from((first_use & whole).count_ones());
            if fresh > 0 {
                let account = &mut self.accounts[folio.stream as usize];
                account.resident_unused -= fresh;
                if how.late == Some(folio.stamp) {
                    account.used_late += fresh;
                } else {
                    account.used_on_time += fresh;
                }
            }
            left &= !whole;
            if how.mapped {
                folio.flags |= Folio::YOUNG;
            } else if skip.replace(FolioId(id)) != Some(FolioId(id)) {
                self.mark_accessed(id);
            }
        }
    }

    /// A second read of an inactive folio makes it active (folio_mark_accessed).
    fn mark_accessed(&mut self, id: u32) {
        let folio = self.folios.get_mut(id);
        if !folio.has(Folio::REFERENCED) {
            folio.flags |= Folio::REFERENCED;
        } else if !folio.has(Folio::ACTIVE) {
            self.activate(id);
        }
    }

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
        self.folios.get_mut(id.0).flags |= Folio::EXEC;
    }
}

/// The bits that a folio takes in the leaf that starts at page `base`.
fn bits_of(folio: &Folio, base: u64) -> u64 {
    let first = folio.index.saturating_sub(base);
    bits(first, (folio.end() - base).min(LEAF_PAGES))
}
