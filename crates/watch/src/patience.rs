// SPDX-License-Identifier: MIT OR Apache-2.0
//! State shared by all detectors: how long a process is left alone after a wrong suspicion, and how
//! many processes are remembered.

use std::collections::HashMap;

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

    /// Takes an event. Returns whether to ignore it.
    pub fn passes(&mut self) -> bool {
        let passes = self.pause > 0;
        self.pause = self.pause.saturating_sub(1);
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
    fn the_oldest_makes_room() {
        let mut all = HashMap::from([(1, 30), (2, 10), (3, 20)]);
        forget_oldest(&mut all, 4, |last| *last);
        assert_eq!(all.len(), 3);
        forget_oldest(&mut all, 3, |last| *last);
        assert!(!all.contains_key(&2) && all.len() == 2);
    }
}
