// SPDX-License-Identifier: MIT OR Apache-2.0
//! When an access began and ended.

use foreread_trace::{Access, TimeIs};

/// The time of an access in the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub begin_ns: u64,
    pub end_ns: u64,
    /// Its time besides waiting; 0 where the trace does not tell the two apart.
    pub busy_ns: u64,
}

impl Span {
    pub fn of(access: &Access, time_is: TimeIs) -> Self {
        let took_ns = access.duration_ns.max(access.waited_ns).unwrap_or(0);
        let (begin_ns, end_ns) = match time_is {
            TimeIs::Returned => (access.time_ns.saturating_sub(took_ns), access.time_ns),
            TimeIs::Began => (access.time_ns, access.time_ns.saturating_add(took_ns)),
            TimeIs::Order => (0, 0),
        };
        let busy_ns = match (access.duration_ns, access.waited_ns) {
            (Some(took_ns), Some(waited_ns)) => took_ns.saturating_sub(waited_ns),
            _ => 0,
        };
        Self {
            begin_ns,
            end_ns,
            busy_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use foreread_trace::{FileId, Flags, Kind, ThreadId};

    use super::*;

    #[test]
    fn what_was_waited_is_no_thinking_and_what_was_worked_is_kept() {
        let access = Access {
            time_ns: 100,
            thread: ThreadId(0),
            file: FileId(0),
            stream: 0,
            offset_bytes: 0,
            length_bytes: 4096,
            kind: Kind::Read,
            flags: Flags::default(),
            waited_ns: Some(30),
            duration_ns: Some(40),
        };
        let span = |access: &Access, time_is| {
            let span = Span::of(access, time_is);
            (span.begin_ns, span.end_ns, span.busy_ns)
        };
        assert_eq!(span(&access, TimeIs::Returned), (60, 100, 10));
        assert_eq!(span(&access, TimeIs::Began), (100, 140, 10));
        assert_eq!(span(&access, TimeIs::Order), (0, 0, 10));
        let waited_only = Access {
            duration_ns: None,
            ..access
        };
        assert_eq!(span(&waited_only, TimeIs::Returned), (70, 100, 0));
        let took_only = Access {
            waited_ns: None,
            ..access
        };
        assert_eq!(span(&took_only, TimeIs::Returned), (60, 100, 0));
    }
}
