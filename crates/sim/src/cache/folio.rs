// SPDX-License-Identifier: MIT OR Apache-2.0
//! Folios in a slab, and lists of them.

/// A folio in the cache. Its number is used again after it was evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FolioId(pub(super) u32);

/// No folio.
pub(super) const NONE: u32 = u32::MAX;

/// A folio.
#[derive(Clone, Copy, Debug)]
pub(super) struct Folio {
    pub index: u64,
    pub file: u32,
    /// The stream that fetched it.
    pub stream: u32,
    pub previous: u32,
    pub next: u32,
    /// Which arrival made it up to date.
    pub stamp: u32,
    /// Pages that are on their way.
    pub missing: u32,
    /// Programs that wait for it.
    pub pins: u16,
    pub order: u8,
    pub flags: u8,
}

/// Which read of a folio marks it as one of the working set by the multi-generational LRU
/// (CONFIG_LRU_GEN), as if it had been evicted before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generations {
    /// The second, before Linux 6.14 (folio_inc_refs).
    Second,
    /// The fifth, since (lru_gen_inc_refs).
    Fifth,
}

impl Folio {
    /// PG_readahead.
    pub const MARKED: u8 = 0x01;
    /// PG_referenced.
    pub const REFERENCED: u8 = 0x02;
    /// PG_active.
    pub const ACTIVE: u8 = 0x04;
    /// Accessed through a mapping since reclaim last looked.
    pub const YOUNG: u8 = 0x08;
    /// PG_workingset: it was active, or was fetched again soon after its eviction.
    pub const WORKINGSET: u8 = 0x10;
    /// Text: an executable mapping has it.
    pub const EXEC: u8 = 0x20;
    /// LRU_REFS_MASK: reads after the one that set PG_referenced, up to three; of the
    /// multi-generational LRU only.
    const REFERENCES: u8 = 0xc0;
    const REFERENCE: u8 = 0x40;

    pub fn pages(&self) -> u64 {
        1 << self.order
    }

    pub fn end(&self) -> u64 {
        self.index + self.pages()
    }

    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// A read by the multi-generational LRU (lru_gen_inc_refs).
    pub fn read_by_generations(&mut self, generations: Generations) {
        if !self.has(Self::REFERENCED) {
            self.flags |= Self::REFERENCED;
        } else if generations == Generations::Second
            || self.flags & Self::REFERENCES == Self::REFERENCES
        {
            self.flags |= Self::WORKINGSET;
        } else {
            self.flags += Self::REFERENCE;
        }
    }

    pub fn is_up_to_date(&self) -> bool {
        self.missing == 0
    }

    /// Whether reclaim may take it at all: no thread waits for it or for its pages.
    pub fn is_idle(&self) -> bool {
        self.is_up_to_date() && self.pins == 0
    }
}

/// All folios.
#[derive(Clone, Debug)]
pub(super) struct Slab {
    folios: Vec<Folio>,
    free: Vec<u32>,
}

impl Slab {
    pub const EMPTY: Self = Self {
        folios: Vec::new(),
        free: Vec::new(),
    };

    pub fn add(&mut self, folio: Folio) -> u32 {
        if let Some(id) = self.free.pop() {
            self.folios[id as usize] = folio;
            return id;
        }
        self.folios.push(folio);
        (self.folios.len() - 1) as u32
    }

    pub fn remove(&mut self, id: u32) {
        self.free.push(id);
    }

    pub fn get(&self, id: u32) -> &Folio {
        &self.folios[id as usize]
    }

    pub fn get_mut(&mut self, id: u32) -> &mut Folio {
        &mut self.folios[id as usize]
    }
}

/// A list of folios, newest first.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    head: u32,
    tail: u32,
    /// Pages of its folios.
    pub pages: u64,
}

impl List {
    pub const EMPTY: Self = Self {
        head: NONE,
        tail: NONE,
        pages: 0,
    };

    pub fn oldest(&self) -> Option<u32> {
        (self.tail != NONE).then_some(self.tail)
    }

    pub fn push(&mut self, slab: &mut Slab, id: u32) {
        let folio = slab.get_mut(id);
        folio.previous = NONE;
        folio.next = self.head;
        self.pages += folio.pages();
        if self.head == NONE {
            self.tail = id;
        } else {
            slab.get_mut(self.head).previous = id;
        }
        self.head = id;
    }

    /// Takes off all folios older than `oldest`, or all for [`NONE`]: `pages` pages together.
    pub fn cut_before(&mut self, slab: &mut Slab, oldest: u32, pages: u64) {
        self.pages -= pages;
        self.tail = oldest;
        if oldest == NONE {
            self.head = NONE;
        } else {
            slab.get_mut(oldest).next = NONE;
        }
    }

    pub fn remove(&mut self, slab: &mut Slab, id: u32) {
        let folio = *slab.get(id);
        self.pages -= folio.pages();
        if folio.previous == NONE {
            self.head = folio.next;
        } else {
            slab.get_mut(folio.previous).next = folio.next;
        }
        if folio.next == NONE {
            self.tail = folio.previous;
        } else {
            slab.get_mut(folio.next).previous = folio.previous;
        }
    }
}

/// All folios and the two lists that they are on (struct lruvec).
#[derive(Clone, Debug)]
pub(super) struct Lists {
    pub folios: Slab,
    pub inactive: List,
    pub active: List,
    /// Grows with each page evicted or activated: the clock of refault distances.
    pub nonresident_age: u64,
}

impl Lists {
    pub const EMPTY: Self = Self {
        folios: Slab::EMPTY,
        inactive: List::EMPTY,
        active: List::EMPTY,
        nonresident_age: 0,
    };

    /// Pages on both lists.
    pub fn pages(&self) -> u64 {
        self.inactive.pages + self.active.pages
    }

    /// To the head of the list that its flags say.
    pub fn add(&mut self, id: u32) {
        if self.folios.get(id).has(Folio::ACTIVE) {
            self.active.push(&mut self.folios, id);
        } else {
            self.inactive.push(&mut self.folios, id);
        }
    }

    /// To the head of the inactive list, where it is already.
    pub fn rotate(&mut self, id: u32) {
        self.inactive.remove(&mut self.folios, id);
        self.inactive.push(&mut self.folios, id);
    }

    /// From the inactive list to the active one.
    pub fn activate(&mut self, id: u32) {
        self.inactive.remove(&mut self.folios, id);
        let folio = self.folios.get_mut(id);
        folio.flags |= Folio::ACTIVE;
        folio.flags &= !Folio::REFERENCED;
        self.nonresident_age += folio.pages();
        self.active.push(&mut self.folios, id);
    }

    /// Takes a folio off its list; its number is free then.
    pub fn take_out(&mut self, id: u32) {
        let list = if self.folios.get(id).has(Folio::ACTIVE) {
            &mut self.active
        } else {
            &mut self.inactive
        };
        list.remove(&mut self.folios, id);
        self.folios.remove(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two pages.
    const FOLIO: Folio = Folio {
        index: 0,
        file: 0,
        stream: 0,
        previous: NONE,
        next: NONE,
        stamp: 0,
        missing: 0,
        pins: 0,
        order: 1,
        flags: 0,
    };

    #[test]
    fn generations_mark_what_is_read_often() {
        let reads_until_marked = |generations| {
            let mut folio = FOLIO;
            (1..10).find(|_| {
                folio.read_by_generations(generations);
                folio.has(Folio::WORKINGSET)
            })
        };
        assert_eq!(reads_until_marked(Generations::Second), Some(2));
        assert_eq!(reads_until_marked(Generations::Fifth), Some(5));
        let mut folio = FOLIO;
        for _ in 0..10 {
            folio.read_by_generations(Generations::Fifth);
        }
        let others = Folio::MARKED | Folio::ACTIVE | Folio::YOUNG | Folio::EXEC;
        assert!(
            !folio.has(others),
            "counting does not carry: {:#x}",
            folio.flags
        );
    }

    #[test]
    fn a_list_gives_the_oldest_first() {
        let (mut slab, mut list) = (Slab::EMPTY, List::EMPTY);
        let ids: Vec<u32> = (0..4).map(|_| slab.add(FOLIO)).collect();
        for id in &ids {
            list.push(&mut slab, *id);
        }
        list.remove(&mut slab, ids[1]);
        list.remove(&mut slab, ids[3]);
        assert_eq!((list.pages, list.oldest()), (4, Some(ids[0])));
        list.remove(&mut slab, ids[0]);
        assert_eq!((list.pages, list.oldest()), (2, Some(ids[2])));
        list.remove(&mut slab, ids[2]);
        assert_eq!((list.pages, list.oldest()), (0, None));
        slab.remove(ids[1]);
        assert_eq!(slab.add(FOLIO), ids[1]);
    }

    #[test]
    fn a_list_loses_its_oldest_together() {
        let (mut slab, mut list) = (Slab::EMPTY, List::EMPTY);
        let ids: Vec<u32> = (0..4).map(|_| slab.add(FOLIO)).collect();
        for id in &ids {
            list.push(&mut slab, *id);
        }
        list.cut_before(&mut slab, ids[2], 4);
        assert_eq!((list.pages, list.oldest()), (4, Some(ids[2])));
        list.remove(&mut slab, ids[2]);
        assert_eq!((list.pages, list.oldest()), (2, Some(ids[3])));
        list.cut_before(&mut slab, NONE, 2);
        assert_eq!((list.pages, list.oldest()), (0, None));
        list.push(&mut slab, ids[0]);
        assert_eq!((list.pages, list.oldest()), (2, Some(ids[0])));
    }
}
