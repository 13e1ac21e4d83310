// SPDX-License-Identifier: MIT OR Apache-2.0
//! Converts long values for a log of `watch` to one text each, and back: directory entries and
//! numbers.

use std::collections::HashSet;

use super::escape::{escaped, unescaped};
use crate::order::Entry;

/// The entries, separated by slashes. Each is its inode number, a blank for a file or `>` for a
/// directory, and its name.
pub fn list_text(entries: &[Entry]) -> String {
    let entry = |entry: &Entry| {
        let kind = if entry.is_directory { '>' } else { ' ' };
        format!("{}{kind}{}", entry.inode, escaped(&entry.name))
    };
    entries.iter().map(entry).collect::<Vec<_>>().join("/")
}

/// Parses the output of [`list_text`]; `None` for any other text.
pub fn list_of(text: &str) -> Option<Vec<Entry>> {
    let mut names = HashSet::new();
    let mut entry = |text: &str| {
        let (inode, name) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
        let is_directory = name.starts_with('>');
        let name = unescaped(name.strip_prefix([' ', '>'])?)?;
        // Two entries with one name would be listed twice at each level below.
        let is_name = !name.is_empty() && !name.contains(&b'/') && names.insert(name.clone());
        is_name.then_some(Entry {
            name,
            inode: inode.parse().ok()?,
            is_directory,
        })
    };
    match text {
        "" => Some(Vec::new()),
        text => text.split('/').map(&mut entry).collect(),
    }
}

/// Numbers separated by blanks, with runs of consecutive ones as `FIRST-LAST`.
pub fn numbers_text(numbers: &[u64]) -> String {
    let mut text = String::new();
    for run in numbers.chunk_by(|one, next| one.checked_add(1) == Some(*next)) {
        if let (Some(first), Some(last)) = (run.first(), run.last()) {
            let gap = if text.is_empty() { "" } else { " " };
            text += &match first == last {
                true => format!("{gap}{first}"),
                false => format!("{gap}{first}-{last}"),
            };
        }
    }
    text
}

/// Maximum number of numbers in a text, larger than the number of files of any window.
const NUMBERS_MAX: u64 = 1 << 20;

/// Parses the output of [`numbers_text`]; `None` for any other text.
pub fn numbers_of(text: &str) -> Option<Vec<u64>> {
    let mut numbers = Vec::new();
    for run in text.split(' ').filter(|run| !run.is_empty()) {
        let (first, last) = run.split_once('-').unwrap_or((run, run));
        let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
        if last.checked_sub(first)? + numbers.len() as u64 >= NUMBERS_MAX {
            return None;
        }
        numbers.extend(first..=last);
    }
    Some(numbers)
}

/// 64-bit FNV-1a hash. It stands in a log for values that are too long even for this module.
pub fn fnv1a(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entries() -> impl Strategy<Value = Vec<Entry>> {
        let name = prop::collection::vec(any::<u8>().prop_filter("a name", |b| *b != b'/'), 1..9);
        let entry = (any::<u64>(), any::<bool>());
        prop::collection::btree_map(name, entry, 0..20).prop_map(|entries| {
            let entry = |(name, (inode, is_directory))| Entry {
                name,
                inode,
                is_directory,
            };
            entries.into_iter().map(entry).collect()
        })
    }

    proptest! {
        #[test]
        fn lists_come_back(entries in entries()) {
            prop_assert_eq!(list_of(&list_text(&entries)), Some(entries));
        }

        #[test]
        fn numbers_come_back(
            runs in prop::collection::vec((any::<u64>(), 0u64..5), 0..20)
        ) {
            let run = |(first, more): (u64, u64)| first..=first.saturating_add(more);
            let numbers: Vec<u64> = runs.into_iter().flat_map(run).collect();
            prop_assert_eq!(numbers_of(&numbers_text(&numbers)), Some(numbers));
        }

        #[test]
        fn any_text_has_an_answer(text in "[ 0-9>%/a-f-]{0,40}") {
            if let Some(entries) = list_of(&text) {
                prop_assert!(entries.len() <= text.len());
            }
            if let Some(numbers) = numbers_of(&text) {
                prop_assert!(numbers.len() as u64 <= NUMBERS_MAX);
            }
        }
    }

    #[test]
    fn what_no_directory_has_is_refused() {
        for wrong in [
            "7",
            "x a",
            "7 ",
            "7 a/8 a",
            "7 a/",
            "7 %2f",
            "99999999999999999999 a",
        ] {
            assert!(list_of(wrong).is_none(), "{wrong}");
        }
        for wrong in ["a", "3-1", "0-18446744073709551615", "1-2-3", "0-1048576"] {
            assert!(numbers_of(wrong).is_none(), "{wrong}");
        }
        assert_eq!(numbers_text(&[5, 6, 7, 7, 9]), "5-7 7 9");
    }
}
