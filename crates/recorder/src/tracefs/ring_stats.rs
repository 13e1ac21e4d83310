// SPDX-License-Identifier: MIT OR Apache-2.0
//! Losses of a ring buffer, from its `stats` file.

/// Events lost, in a `stats` file. `dropped events` counts when the buffer keeps what is old, the
/// others when it doesn't or an interrupt got in the way.
#[must_use]
pub fn lost_events(stats: &str) -> u64 {
    const LOST: [&str; 3] = ["overrun", "commit overrun", "dropped events"];
    stats
        .lines()
        .filter_map(|line| line.split_once(':'))
        .filter(|(name, _)| LOST.contains(&name.trim()))
        .filter_map(|(_, count)| count.trim().parse::<u64>().ok())
        .fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_of_all_kinds_count() {
        let stats = "entries: 5\noverrun: 3\ncommit overrun: 4\nbytes: 1000\n\
                     oldest event ts:     0.000000\nnow ts:  2093.697255\n\
                     dropped events: 7\nread events: 9\n";
        assert_eq!(lost_events(stats), 14);
        let most = u64::MAX;
        assert_eq!(
            lost_events(&format!("overrun: {most}\ndropped events: 2")),
            most
        );
    }
}
