// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers of control groups, as nodes and ranges have them: counted from 1. 0 is the unknown one.

use std::collections::HashMap;

use crate::limits::{TEXT_BYTES_MAX, UNITS_MAX};
use crate::types::Profile;

/// Control groups, each once, and their numbers.
#[derive(Debug, Default)]
pub(crate) struct Units {
    paths: Vec<Vec<u8>>,
    numbers: HashMap<Vec<u8>, u16>,
}

impl Units {
    /// The number of a path, the same for equal ones; 0 for an empty path, and for another one when
    /// there are [`UNITS_MAX`].
    pub(crate) fn number(&mut self, path: &[u8]) -> u16 {
        let path = &path[..path.len().min(TEXT_BYTES_MAX)];
        if let Some(number) = self.numbers.get(path) {
            return *number;
        }
        if path.is_empty() || self.paths.len() >= UNITS_MAX {
            return 0;
        }
        self.paths.push(path.to_vec());
        let number = u16::try_from(self.paths.len()).unwrap_or(0);
        self.numbers.insert(path.to_vec(), number);
        number
    }

    pub(crate) fn into_paths(self) -> Vec<Vec<u8>> {
        self.paths
    }
}

/// The new number of a unit; `numbers` has those of units 1, 2 and so on.
pub(crate) fn renumbered(numbers: &[u16], unit: u16) -> u16 {
    let at = usize::from(unit).checked_sub(1);
    at.and_then(|at| numbers.get(at)).copied().unwrap_or(0)
}

/// Keeps the units of nodes and ranges.
pub(crate) fn drop_unused_units(profile: &mut Profile) {
    let mut used = vec![false; profile.units.len()];
    let nodes = profile.nodes.iter().map(|node| node.unit);
    for unit in nodes.chain(profile.ranges.iter().map(|range| range.unit)) {
        let at = usize::from(unit).checked_sub(1);
        if let Some(used) = at.and_then(|at| used.get_mut(at)) {
            *used = true;
        }
    }
    let mut kept = Units::default();
    let number = |(path, used): (Vec<u8>, bool)| if used { kept.number(&path) } else { 0 };
    let paths = std::mem::take(&mut profile.units);
    let numbers: Vec<u16> = paths.into_iter().zip(used).map(number).collect();
    for node in &mut profile.nodes {
        node.unit = renumbered(&numbers, node.unit);
    }
    for range in &mut profile.ranges {
        range.unit = renumbered(&numbers, range.unit);
    }
    profile.units = kept.into_paths();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_beyond_the_limit_are_unknown_and_the_others_keep_their_numbers() {
        let mut units = Units::default();
        let path = |number: usize| format!("/system.slice/{number}.service").into_bytes();
        for number in 1..=UNITS_MAX {
            assert_eq!(usize::from(units.number(&path(number))), number);
        }
        assert_eq!(units.number(&path(0)), 0);
        assert_eq!(units.number(b""), 0);
        assert_eq!(usize::from(units.number(&path(7))), 7);
        assert_eq!(units.into_paths().len(), UNITS_MAX);
        assert_eq!(
            [0, 1, 2, 3].map(|unit| renumbered(&[9, 8], unit)),
            [0, 9, 8, 0]
        );
    }
}
