// SPDX-License-Identifier: MIT OR Apache-2.0
//! In which order a program goes through a directory.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::memory_budget::ELEMENT_BYTES;

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: Vec<u8>,
    /// Its inode number.
    pub inode: u64,
    /// A directory; else a regular file. Nothing else is listed.
    pub is_directory: bool,
}

impl Entry {
    /// Bytes that it holds in a list.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        size_of::<Self>() as u64 + ELEMENT_BYTES + self.name.len() as u64
    }
}

/// Directories, and the entries of each as they are listed.
pub type Lists = BTreeMap<Vec<u8>, Vec<Entry>>;

/// How entries follow on each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// As the file system lists them: grep, tar, find.
    #[default]
    Listed,
    /// By their names: shells, git.
    Name,
    /// By their inode numbers: cp, and other programs that sort to save seeks.
    Inode,
}

impl Order {
    /// All of them, the first ones preferred.
    pub const ALL: [Self; 3] = [Self::Listed, Self::Name, Self::Inode];

    /// `listed`, `name`, `inode`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Listed => "listed",
            Self::Name => "name",
            Self::Inode => "inode",
        }
    }

    /// Puts entries, which are in the order of the list, into this one.
    pub fn sort(self, entries: &mut [Entry]) {
        match self {
            Self::Listed => {}
            Self::Name => entries.sort_by(|a, b| a.name.cmp(&b.name)),
            Self::Inode => entries.sort_by_key(|entry| entry.inode),
        }
    }
}

/// Entries between those that a program came through may be in memory already, or not be wanted.
const STEPS_PER_CHILD_MAX: usize = 4;

/// Orders that explain the accesses of a program; of several, the first is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Orders(u8);

impl FromIterator<Order> for Orders {
    fn from_iter<I: IntoIterator<Item = Order>>(orders: I) -> Self {
        Self(
            orders
                .into_iter()
                .fold(0, |all, order| all | 1 << order as u8),
        )
    }
}

impl Orders {
    /// Those in which a program can have come through `children` of a directory that is listed so.
    /// None when it jumps, or leaves too many out between them: then it goes elsewhere.
    #[must_use]
    pub fn of(entries: &[Entry], children: &[Vec<u8>]) -> Self {
        Self::within(entries, children, STEPS_PER_CHILD_MAX)
    }

    /// The same, however many are left out between them: of most looks nothing is seen.
    #[must_use]
    pub fn of_looks(entries: &[Entry], children: &[Vec<u8>]) -> Self {
        Self::within(entries, children, usize::MAX)
    }

    fn within(entries: &[Entry], children: &[Vec<u8>], steps_per_child_max: usize) -> Self {
        let explains = |order: &Order| {
            let mut sorted = entries.to_vec();
            order.sort(&mut sorted);
            follows(&sorted, children, steps_per_child_max)
        };
        Order::ALL.into_iter().filter(explains).collect()
    }

    /// Those that are in both.
    #[must_use]
    pub fn both(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Whether this is one of them.
    #[must_use]
    pub fn contains(self, order: Order) -> bool {
        self.0 & 1 << order as u8 != 0
    }

    /// The one to go by.
    #[must_use]
    pub fn first(self) -> Option<Order> {
        Order::ALL.into_iter().find(|order| self.contains(*order))
    }

    /// Those that explain this too; where none does, it was something else before.
    #[must_use]
    pub fn and(self, newer: Self) -> Self {
        match self.0 & newer.0 {
            0 => newer,
            both => Self(both),
        }
    }
}

fn follows(entries: &[Entry], children: &[Vec<u8>], steps_per_child_max: usize) -> bool {
    let Some(first) = children.first() else {
        return false;
    };
    let find = |name: &[u8]| entries.iter().find(|entry| entry.name == name);
    let Some(is_directory) = find(first).map(|entry| entry.is_directory) else {
        return false;
    };
    // Files lie between directories, and are come through or not.
    let is_mixed = children
        .iter()
        .any(|name| find(name).is_some_and(|entry| entry.is_directory != is_directory));
    let alike = |entry: &&Entry| is_mixed || entry.is_directory == is_directory;
    let places: Option<Vec<usize>> = children
        .iter()
        .map(|name| {
            entries
                .iter()
                .filter(alike)
                .position(|entry| entry.name == *name)
        })
        .collect();
    let Some(places) = places else {
        return false;
    };
    let (Some(from), Some(to)) = (places.first(), places.last()) else {
        return false;
    };
    places.windows(2).all(|pair| pair[0] < pair[1])
        && to - from <= steps_per_child_max.saturating_mul(places.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entries(names: &[(&str, u64)]) -> Vec<Entry> {
        let entry = |(name, inode): &(&str, u64)| Entry {
            name: name.as_bytes().to_vec(),
            inode: *inode,
            is_directory: false,
        };
        names.iter().map(entry).collect()
    }

    fn order_of(entries: &[Entry], children: &[Vec<u8>]) -> Option<Order> {
        Orders::of(entries, children).first()
    }

    fn children(names: &[&str]) -> Vec<Vec<u8>> {
        names.iter().map(|name| name.as_bytes().to_vec()).collect()
    }

    #[test]
    fn the_order_is_the_one_that_explains_what_was_seen() {
        let listed = entries(&[("c", 1), ("a", 3), ("b", 2)]);
        assert_eq!(
            order_of(&listed, &children(&["c", "a", "b"])),
            Some(Order::Listed)
        );
        assert_eq!(
            order_of(&listed, &children(&["a", "b", "c"])),
            Some(Order::Name)
        );
        assert_eq!(
            order_of(&listed, &children(&["c", "b", "a"])),
            Some(Order::Inode)
        );
        assert_eq!(order_of(&listed, &children(&["b", "a", "c"])), None);
        assert_eq!(order_of(&listed, &children(&["c", "gone"])), None);
        assert_eq!(order_of(&listed, &[]), None);
        assert_eq!(order_of(&[], &children(&["c"])), None);
    }

    #[test]
    fn what_is_seen_later_decides_between_orders() {
        let listed = entries(&[("a", 1), ("c", 2), ("b", 3), ("d", 4)]);
        let unsure = Orders::of(&listed, &children(&["a", "b", "d"]));
        let sorted = Orders::of(&listed, &children(&["b", "c"]));
        assert_eq!(unsure.first(), Some(Order::Listed));
        assert_eq!(unsure.and(sorted).first(), Some(Order::Name));
        let jumps = Orders::of(&listed, &children(&["d", "a"]));
        assert_eq!(jumps.first(), None);
    }

    #[test]
    fn what_lies_far_apart_is_no_walk() {
        let names: Vec<String> = (100..200).map(|n| n.to_string()).collect();
        let listed: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), 1)).collect();
        let listed = entries(&listed);
        assert!(order_of(&listed, &children(&["100", "103", "109"])).is_some());
        assert!(order_of(&listed, &children(&["100", "150", "199"])).is_none());
    }

    proptest! {
        #[test]
        fn a_program_that_sorts_is_understood(
            inodes in prop::collection::hash_set(0u64..1000, 3..40), from in 0usize..40,
            which in 0usize..3
        ) {
            let listed: Vec<Entry> = inodes.iter().map(|inode| Entry {
                name: format!("{:03}", inode * 7919 % 1000).into_bytes(),
                inode: *inode,
                is_directory: false,
            }).collect();
            let mut sorted = listed.clone();
            Order::ALL[which].sort(&mut sorted);
            let from = from % (sorted.len() - 2);
            let seen = sorted[from..from + 3].iter();
            let seen: Vec<Vec<u8>> = seen.map(|entry| entry.name.clone()).collect();
            let found = order_of(&listed, &seen);
            prop_assert!(found.is_some());
            // Three entries may fit several orders; then the found one explains them too.
            let mut again = listed.clone();
            found.unwrap().sort(&mut again);
            prop_assert!(follows(&again, &seen, STEPS_PER_CHILD_MAX));
        }
    }
}
