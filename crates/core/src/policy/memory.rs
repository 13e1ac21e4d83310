// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state that a policy keeps besides that of an open file: the streams of the file, the
//! measured costs of its device, and the memory budget that all files share.

use std::fmt;

/// 64-bit words of `struct fr_streams`.
const STREAMS_WORDS: usize = (512 + 64 * 120 + 1024 + 3 * 256 + 64 + 88) / 8;

/// The streams of one file, for all of its readers: `struct fr_streams`. 10 KiB; only the policy
/// interprets them.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Streams {
    words: [u64; STREAMS_WORDS],
}

impl Streams {
    /// The streams of a file just opened.
    #[must_use]
    pub fn new() -> Self {
        Self {
            words: [0; STREAMS_WORDS],
        }
    }
}

impl Default for Streams {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Streams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Streams { .. }")
    }
}

/// A request of a device that is done: `struct fr_done`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Time of its end, in nanoseconds.
    pub now_ns: u64,
    /// Time from submission to completion, in nanoseconds.
    pub took_ns: u64,
    /// Its size.
    pub pages: u32,
    pub(crate) first: u8,
    pub(crate) left: u8,
    pub(crate) next: u8,
    reserved: u8,
}

impl Done {
    /// A request of `pages` that is done at `now_ns` and took `took_ns`. The device had something
    /// to do when it came, has nothing left, and it started somewhere else than where the request
    /// before it ended.
    #[must_use]
    pub fn new(now_ns: u64, took_ns: u64, pages: u64) -> Self {
        Self {
            now_ns,
            took_ns,
            pages: u32::try_from(pages).unwrap_or(u32::MAX),
            first: 0,
            left: 0,
            next: 0,
            reserved: 0,
        }
    }

    /// The argument of [`Done::first`].
    #[must_use]
    pub fn is_first(&self) -> bool {
        self.first != 0
    }

    /// The argument of [`Done::left`].
    #[must_use]
    pub fn is_left(&self) -> bool {
        self.left != 0
    }

    /// The argument of [`Done::next`].
    #[must_use]
    pub fn is_next(&self) -> bool {
        self.next != 0
    }

    /// Whether the device had nothing to do when it came.
    #[must_use]
    pub fn first(self, first: bool) -> Self {
        Self {
            first: first.into(),
            ..self
        }
    }

    /// Whether the device has something to do still.
    #[must_use]
    pub fn left(self, left: bool) -> Self {
        Self {
            left: left.into(),
            ..self
        }
    }

    /// Whether it starts where the request before it ended.
    #[must_use]
    pub fn next(self, next: bool) -> Self {
        Self {
            next: next.into(),
            ..self
        }
    }
}

/// Measured costs of a device, and the length of runs from the start of a file on it: `struct
/// fr_device`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Device {
    idle: [u64; 4],
    busy: [u64; 4],
    /// Time of a request without its pages; 0 when it is not known yet.
    pub latency_ns: u64,
    /// The same of one that goes on where the one before it ended.
    pub next_ns: u64,
    /// Time of a page; 0 when it is not known yet.
    pub page_ns: u64,
    cost_ns: u64,
    follow_ns: u64,
    line_ns: u64,
    busy_ns: u64,
    busy_since_ns: u64,
    load_ns: u64,
    /// Recent time that readers wait for pages that were not read ahead, in nanoseconds.
    pub demand_ns: u64,
    /// Time from asking to having, of late, with all that was queued before.
    pub wait_ns: u64,
    done_ns: u64,
    least_ns: u64,
    least_pages: u32,
    reserved: u32,
    busy_pages: u32,
    busy_requests: u32,
    /// Requests that found the device idle.
    pub requests: u32,
    gaps: u32,
    asks: u32,
    demand_thread: u32,
    starts: [u64; 4],
    start: [u64; 16],
}

/// The memory that all streams of a machine share: `struct fr_budget`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// Pages asked for so far, by all streams.
    pub asked_pages: u64,
    /// Pages of these that lie ahead of their readers.
    pub ahead_pages: u64,
    epoch_pages: u64,
    epoch_pages_before: u64,
    epoch_ns: u64,
    life_ns: u64,
    consume_ns: u64,
    sum: u64,
    sum_before: u64,
    epoch: u32,
    count: u32,
    count_before: u32,
    reserved: u32,
}

impl Budget {
    /// The number of the present epoch; it wraps. An epoch ends when all of the budget was asked
    /// for.
    #[must_use]
    pub fn epoch(&self) -> u32 {
        self.epoch
    }
}

/// State that a decision may use and change besides that of the open file. A missing part is taken
/// to be unknown, or unbounded.
#[derive(Debug, Default)]
pub struct Memory<'a> {
    /// The streams of the file.
    pub streams: Option<&'a mut Streams>,
    /// Its device.
    pub device: Option<&'a mut Device>,
    /// The budget of the machine.
    pub budget: Option<&'a mut Budget>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_known_by_its_requests() {
        let mut disk = Device::default();
        assert_eq!(
            disk.even_pages(),
            32,
            "the kernel's default until it is known"
        );
        for round in 0..100 {
            let pages = 1 << (round % 6);
            disk.done(&Done::new(0, 1_200_000 + pages * 164_000, pages).first(true));
        }
        let near = |value: u64, right: u64| value.abs_diff(right) * 100 <= right * 3;
        assert!(near(disk.latency_ns, 1_200_000), "{disk:?}");
        assert!(near(disk.page_ns, 164_000), "{disk:?}");
        assert_eq!(disk.even_pages(), 7);
    }

    #[test]
    fn requests_that_waited_for_others_say_nothing_of_the_device() {
        let mut disk = Device::default();
        for pages in 1..20 {
            disk.done(&Done::new(0, 10_000_000, pages));
        }
        assert_eq!((disk.latency_ns, disk.page_ns), (0, 0));
        assert_eq!(disk.wait_ns, 10_000_000);
    }
}
