// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ancestry of threads, and the progress of the parent when the child began.

use foreread_trace::ThreadId;

/// Ancestors that are asked; a trace may have a circle of them.
const ANCESTORS_MAX: usize = 64;
/// Accesses of each thread whose end is remembered: those of others may lie a little out of order.
const ENDS: usize = 4;

/// The ends of a thread's latest accesses.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ends {
    /// Number of accesses.
    pub count: u64,
    ends_ns: [u64; ENDS],
}

impl Ends {
    pub fn add(&mut self, end_ns: u64) {
        self.ends_ns[(self.count % ENDS as u64) as usize] = end_ns;
        self.count += 1;
    }

    /// The latest access that ended by then, as a count of accesses, and when it ended.
    pub fn by(&self, time_ns: u64) -> Option<(u64, u64)> {
        let kept = self.count.min(ENDS as u64);
        let mut latest = (self.count - kept + 1..=self.count)
            .rev()
            .map(|count| (count, self.ends_ns[((count - 1) % ENDS as u64) as usize]));
        latest.find(|(_, end_ns)| *end_ns <= time_ns)
    }
}

/// The nearest ancestor that has accesses.
pub(super) fn ancestor(
    thread: ThreadId,
    parent: impl Fn(ThreadId) -> Option<ThreadId>,
    has_accesses: impl Fn(ThreadId) -> bool,
) -> Option<ThreadId> {
    let mut at = thread;
    for _ in 0..ANCESTORS_MAX {
        at = parent(at)?;
        if at != thread && has_accesses(at) {
            return Some(at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_access_before_a_time_is_found_out_of_order_too() {
        let mut ends = Ends::default();
        assert_eq!(ends.by(1000), None);
        for end_ns in [10, 20, 30, 40, 50] {
            ends.add(end_ns);
        }
        assert_eq!(ends.by(1000), Some((5, 50)));
        assert_eq!(ends.by(45), Some((4, 40)));
        assert_eq!(ends.by(20), Some((2, 20)));
        assert_eq!(ends.by(15), None, "too long ago to be known");
    }

    #[test]
    fn a_circle_of_ancestors_has_an_end() {
        let parent = |thread: ThreadId| Some(ThreadId(1 - thread.0));
        assert_eq!(ancestor(ThreadId(0), parent, |_| false), None);
        let found = ancestor(ThreadId(0), parent, |_| true);
        assert_eq!(found, Some(ThreadId(1)));
    }
}
