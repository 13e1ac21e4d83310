// SPDX-License-Identifier: MIT OR Apache-2.0
//! A table of processes with a bound in bytes, as each detector has one.
//!
//! When it is full, the user that holds most of it loses its oldest process. So a user that starts
//! many processes, or reads files with long names, makes others forget nothing while it holds more
//! than they do. What is removed follows from the calls alone, so a log of the calls can be
//! replayed.

use std::collections::{BTreeMap, HashMap};

/// See the [module](self).
#[derive(Debug)]
pub struct Table<T> {
    entries: HashMap<u32, Slot<T>>,
    /// Bytes and processes of each user.
    users: BTreeMap<u32, (u64, usize)>,
    bytes: u64,
    bytes_max: u64,
    processes_max: usize,
}

#[derive(Debug)]
struct Slot<T> {
    user: u32,
    bytes: u64,
    last: u64,
    value: T,
}

impl<T: Default> Table<T> {
    /// A table of at most this many bytes and processes.
    #[must_use]
    pub fn new(bytes_max: u64, processes_max: usize) -> Self {
        Self {
            entries: HashMap::new(),
            users: BTreeMap::new(),
            bytes: 0,
            bytes_max,
            processes_max,
        }
    }

    /// Changes the entry of a process; makes one if there is none. `change` also returns the bytes
    /// that the entry holds afterwards. `now` grows with each call.
    pub fn change<A>(
        &mut self,
        process: u32,
        user: u32,
        now: u64,
        change: impl FnOnce(&mut T) -> (A, u64),
    ) -> A {
        // Another process with this number, or one that has become another user.
        if self
            .entries
            .get(&process)
            .is_some_and(|slot| slot.user != user)
        {
            self.remove(process);
        }
        let slot = self.entries.entry(process).or_insert_with(|| Slot {
            user,
            bytes: 0,
            last: now,
            value: T::default(),
        });
        let is_new = slot.bytes == 0;
        slot.last = now;
        let (answer, bytes) = change(&mut slot.value);
        let bytes = bytes + size_of::<Slot<T>>() as u64;
        let before = std::mem::replace(&mut slot.bytes, bytes);
        self.bytes = self.bytes - before + bytes;
        let of_user = self.users.entry(user).or_default();
        of_user.0 = of_user.0 - before + bytes;
        of_user.1 += usize::from(is_new);
        while self.bytes > self.bytes_max || self.entries.len() > self.processes_max {
            self.forget_one();
        }
        answer
    }

    /// The entry of a process.
    pub fn get_mut(&mut self, process: u32) -> Option<&mut T> {
        self.entries.get_mut(&process).map(|slot| &mut slot.value)
    }

    /// The entry of a process.
    #[must_use]
    pub fn get(&self, process: u32) -> Option<&T> {
        self.entries.get(&process).map(|slot| &slot.value)
    }

    /// All entries.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.entries.values().map(|slot| &slot.value)
    }

    /// The user of a process.
    #[must_use]
    pub fn user_of(&self, process: u32) -> Option<u32> {
        self.entries.get(&process).map(|slot| slot.user)
    }

    /// Removes the entry of a process.
    pub fn remove(&mut self, process: u32) {
        let Some(slot) = self.entries.remove(&process) else {
            return;
        };
        self.bytes -= slot.bytes;
        if let Some(of_user) = self.users.get_mut(&slot.user) {
            of_user.0 -= slot.bytes;
            of_user.1 -= 1;
            if of_user.1 == 0 {
                self.users.remove(&slot.user);
            }
        }
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.entries = HashMap::new();
        self.users.clear();
        self.bytes = 0;
    }

    /// Number of processes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no process.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of all entries.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    fn forget_one(&mut self) {
        let largest = self.users.iter().max_by_key(|(_, held)| **held);
        let largest = largest.map(|(user, _)| *user);
        let of_user = self
            .entries
            .iter()
            .filter(|(_, slot)| Some(slot.user) == largest);
        let oldest = of_user.min_by_key(|(process, slot)| (slot.last, **process));
        match oldest.map(|(process, _)| *process) {
            Some(process) => self.remove(process),
            None => self.clear(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_user_that_holds_most_loses_its_oldest_process() {
        let mut table: Table<u64> = Table::new(10_000, 4);
        for (now, (process, user)) in (0..).zip([(1, 7), (2, 8), (3, 8), (4, 8), (5, 8)]) {
            table.change(process, user, now, |value| {
                *value += 1;
                ((), 100)
            });
        }
        assert_eq!(table.len(), 4);
        assert!(table.get(1).is_some() && table.get(2).is_none());
        // A single large entry goes, too.
        table.change(6, 7, 9, |_| ((), 20_000));
        assert!(table.get(6).is_none() && table.get(3).is_some());
        assert_eq!(table.user_of(3), Some(8));
    }

    #[test]
    fn another_user_of_the_same_number_starts_anew() {
        let mut table: Table<u64> = Table::new(10_000, 4);
        table.change(1, 7, 1, |value| ((), *value + 5));
        table.change(1, 7, 2, |value| (*value = 9, 5));
        assert_eq!(table.get(1), Some(&9));
        table.change(1, 8, 3, |value| (assert_eq!(*value, 0), 5));
    }

    proptest! {
        #[test]
        fn bytes_are_exact_and_bounded(
            all in prop::collection::vec((0u32..40, 0u32..4, 0u64..900, any::<bool>()), 0..400)
        ) {
            let mut table: Table<u64> = Table::new(5000, 12);
            for (now, (process, user, bytes, ends)) in (0..).zip(all) {
                match ends {
                    true => table.remove(process),
                    false => table.change(process, user, now, |value| (*value = bytes, bytes)),
                }
                let each = table.entries.values();
                let sum: u64 = each.clone().map(|slot| slot.bytes).sum();
                prop_assert_eq!(table.bytes(), sum);
                prop_assert!(sum <= 5000 && table.len() <= 12);
                for (user, held) in &table.users {
                    let of_user = each.clone().filter(|slot| slot.user == *user);
                    let found = (of_user.clone().map(|slot| slot.bytes).sum(), of_user.count());
                    prop_assert_eq!(*held, found);
                }
                let users: BTreeSet<u32> = each.map(|slot| slot.user).collect();
                prop_assert_eq!(users.len(), table.users.len());
            }
        }
    }
}
