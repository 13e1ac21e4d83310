// SPDX-License-Identifier: MIT OR Apache-2.0
//! Things by number, and by the sector where they begin or end.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

/// Maximum number of entries with one first sector that are examined.
const LOOKED_AT: usize = 64;

/// An entry of an [`Index`].
pub trait Placed {
    /// First sector.
    fn start(&self) -> u64;
    /// The sector behind the last.
    fn end(&self) -> u64;
}

/// Things with their places, oldest first.
#[derive(Debug)]
pub struct Index<T> {
    by_id: BTreeMap<u64, T>,
    by_start: BTreeSet<(u64, u64)>,
    by_end: BTreeSet<(u64, u64)>,
}

impl<T> Default for Index<T> {
    fn default() -> Self {
        Self {
            by_id: BTreeMap::new(),
            by_start: BTreeSet::new(),
            by_end: BTreeSet::new(),
        }
    }
}

fn at(sector: u64) -> RangeInclusive<(u64, u64)> {
    (sector, 0)..=(sector, u64::MAX)
}

impl<T: Placed> Index<T> {
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    pub fn insert(&mut self, id: u64, item: T) {
        self.by_start.insert((item.start(), id));
        self.by_end.insert((item.end(), id));
        self.by_id.insert(id, item);
    }

    pub fn remove(&mut self, id: u64) -> Option<T> {
        let item = self.by_id.remove(&id)?;
        self.by_start.remove(&(item.start(), id));
        self.by_end.remove(&(item.end(), id));
        Some(item)
    }

    pub fn get(&self, id: u64) -> Option<&T> {
        self.by_id.get(&id)
    }

    /// Gives access to change an entry, except for its place.
    pub fn get_mut(&mut self, id: u64) -> Option<&mut T> {
        self.by_id.get_mut(&id)
    }

    pub fn first_id(&self) -> Option<u64> {
        self.by_id.first_key_value().map(|(id, _)| *id)
    }

    pub fn pop_first(&mut self) -> Option<(u64, T)> {
        let id = self.first_id()?;
        Some((id, self.remove(id)?))
    }

    /// The entry that begins at `sector` and has the best value of `suits`; the oldest of equals.
    pub fn starting(&self, sector: u64, suits: impl Fn(&T) -> u8) -> Option<u64> {
        self.best(self.by_start.range(at(sector)), suits)
    }

    /// The entry that ends at `sector` and has the best value of `suits`; the oldest of equals.
    pub fn ending(&self, sector: u64, suits: impl Fn(&T) -> u8) -> Option<u64> {
        self.best(self.by_end.range(at(sector)), suits)
    }

    /// Numbers of those that begin in these sectors, at most `most`.
    pub fn starting_in(&self, from: u64, to: u64, most: usize) -> Vec<u64> {
        let from_to = self.by_start.range((from, 0)..(to.max(from), 0));
        from_to.take(most).map(|(_, id)| *id).collect()
    }

    /// The best mark, not 0; the oldest of equals.
    fn best<'a>(
        &self,
        candidates: impl Iterator<Item = &'a (u64, u64)>,
        suits: impl Fn(&T) -> u8,
    ) -> Option<u64> {
        let marked = candidates.take(LOOKED_AT).filter_map(|(_, id)| {
            let mark = suits(self.by_id.get(id)?);
            (mark > 0).then_some((mark, *id))
        });
        let best = marked.max_by_key(|(mark, id)| (*mark, std::cmp::Reverse(*id)));
        best.map(|(_, id)| id)
    }
}
