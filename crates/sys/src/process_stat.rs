// SPDX-License-Identifier: MIT OR Apache-2.0
//! `/proc/PID/stat`: whose child a process is, and when it began.

use std::fmt::Display;
use std::fs;
use std::str::FromStr;

/// The fields after the name, which may hold blanks and brackets itself.
fn fields_after_name(stat: &[u8]) -> Option<&str> {
    let at = stat.iter().rposition(|&b| b == b')')?;
    std::str::from_utf8(stat.get(at + 1..)?).ok()
}

/// One of them, counted from 0.
fn field<N: FromStr>(stat: &[u8], number: usize) -> Option<N> {
    let mut fields = fields_after_name(stat)?.split_whitespace();
    fields.nth(number)?.parse().ok()
}

fn stat_of(process: impl Display) -> Option<Vec<u8>> {
    fs::read(format!("/proc/{process}/stat")).ok()
}

/// The parent of a process; `None` when it has ended.
pub fn parent_of<N: Display + FromStr>(process: N) -> Option<N> {
    field(&stat_of(process)?, 1)
}

/// When a process or a thread started, in clock ticks since boot: with its number it names one for
/// good. `None` when it has ended.
pub fn start_ticks(process: impl Display) -> Option<u64> {
    field(&stat_of(process)?, 19)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_is_found_behind_any_name() {
        assert_eq!(field(b"12 (a) b) (c) S 34 12 12 0", 1), Some(34));
        assert_eq!(field(b"12 (\xff) S 34 12 12 0", 1), Some(34));
        assert_eq!(field::<i32>(b"12 a S", 1), None);
        let own = std::process::id();
        assert_eq!(parent_of(own), Some(std::os::unix::process::parent_id()));
        assert!(start_ticks(own).is_some_and(|ticks| ticks > 0));
    }
}
