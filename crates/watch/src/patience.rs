// SPDX-License-Identifier: MIT OR Apache-2.0
//! State shared by all detectors: how long a process is left alone after a wrong suspicion, and how
//! many processes are remembered.

use std::collections::{BTreeMap, HashMap};

/// Counts the events of a process to ignore after a wrong suspicion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Patience {
    pause: u32,
    patience: u32,
}

impl Patience {
    /// Notes a wrong suspicion. After the first one `least` events are ignored, which is even, then
    /// twice as many each time, up to `most`.
    pub fn was_wrong(&mut self, least: u32, most: u32) {
        self.patience = (self.patience.max(least / 2) * 2).min(most);
        self.pause = self.patience;
    }

    /// Whether no suspicion was wrong yet.
    #[must_use]
    pub fn is_fresh(self) -> bool {
        self.patience == 0
    }

    /// Takes an event. Returns whether to ignore it.
    pub fn passes(&mut self) -> bool {
        let passes = self.pause > 0;
        self.pause = self.pause.saturating_sub(1);
        passes
    }
}

/// Wrong suspicions of different processes of a user that are free. A build or a boot starts many
/// programs that read a few files of a directory.
const FREE_WRONGS: u32 = 16;
/// Most suspicions of a user that are ignored in a row. Each further miss of a program that walks
/// makes one, so such a program is found this many files later.
const PAUSE_MAX_LOG2: u32 = 6;
/// Users that are remembered.
const USERS_MAX: usize = 1024;

/// Backoff by user. The backoff of a process ends with the process, so a user that starts a new
/// process for every few misses would have a directory listed for each of them.
#[derive(Debug, Default)]
pub struct UserBackoff {
    users: BTreeMap<u32, Wrongs>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Wrongs {
    in_a_row: u32,
    pause: u32,
}

impl UserBackoff {
    /// A first suspicion of a process of this user was wrong.
    pub fn was_wrong(&mut self, user: u32) {
        if self.users.len() >= USERS_MAX && !self.users.contains_key(&user) {
            let fewest = self.users.iter().min_by_key(|(_, wrongs)| wrongs.in_a_row);
            if let Some(fewest) = fewest.map(|(user, _)| *user) {
                self.users.remove(&fewest);
            }
        }
        let wrongs = self.users.entry(user).or_default();
        wrongs.in_a_row = wrongs.in_a_row.saturating_add(1);
        if let Some(over) = wrongs.in_a_row.checked_sub(FREE_WRONGS + 1) {
            wrongs.pause = 1 << over.min(PAUSE_MAX_LOG2);
        }
    }

    /// A suspicion of a process of this user was right.
    pub fn was_right(&mut self, user: u32) {
        self.users.remove(&user);
    }

    /// Takes a suspicion. Returns whether to ignore it.
    pub fn passes(&mut self, user: u32) -> bool {
        let Some(wrongs) = self.users.get_mut(&user) else {
            return false;
        };
        let passes = wrongs.pause > 0;
        wrongs.pause = wrongs.pause.saturating_sub(1);
        passes
    }
}

/// Makes room for one more entry if there are `max` or more: removes the entry with the lowest
/// `last`.
pub fn forget_oldest<T>(all: &mut HashMap<u32, T>, max: usize, last: impl Fn(&T) -> u64) {
    if all.len() >= max {
        let oldest = all.iter().min_by_key(|(_, one)| last(one));
        if let Some(key) = oldest.map(|(key, _)| *key) {
            all.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_and_more_pass() {
        let mut patience = Patience::default();
        let passed = |patience: &mut Patience| (0..100).take_while(|_| patience.passes()).count();
        assert_eq!(passed(&mut patience), 0);
        for expected in [8, 16, 20, 20] {
            patience.was_wrong(8, 20);
            assert_eq!(passed(&mut patience), expected);
        }
    }

    #[test]
    fn a_user_with_ever_new_processes_is_asked_less_and_less() {
        let mut users = UserBackoff::default();
        let mut asked = 0;
        for _ in 0..2000 {
            if !users.passes(1) {
                asked += 1;
                users.was_wrong(1);
            }
        }
        // 17 freely, after 1, 2, 4, ... 32, and then after each 64.
        assert_eq!(asked, 17 + 6 + (2000 - 17 - 63 - 6) / 65);
        assert!(!users.passes(2));
        users.was_right(1);
        assert!(!users.passes(1));
        (0..3000).for_each(|user| users.was_wrong(user));
        assert_eq!(users.users.len(), USERS_MAX);
    }

    #[test]
    fn the_oldest_makes_room() {
        let mut all = HashMap::from([(1, 30), (2, 10), (3, 20)]);
        forget_oldest(&mut all, 4, |last| *last);
        assert_eq!(all.len(), 3);
        forget_oldest(&mut all, 3, |last| *last);
        assert!(!all.contains_key(&2) && all.len() == 2);
    }
}
