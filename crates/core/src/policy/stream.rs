// SPDX-License-Identifier: MIT OR Apache-2.0
//! One stream of a file, as the policy `foreread` remembers it.

use super::Streams;

/// Where `struct fr_streams` has its parts, in bytes.
const STREAM_AT: usize = 512;
const COUNT_AT: usize = 512 + 64 * STREAM_BYTES + 1024 + 3 * 256 + 64 + 16;
const ACCESSES_AT: usize = COUNT_AT + 8;
/// `sizeof(struct fr_stream)`.
const STREAM_BYTES: usize = 120;
const STREAMS_MAX: usize = 64;

/// Where a stream goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    /// Page after page.
    Up,
    /// The same, downward.
    Down,
    /// From piece to piece.
    StepUp,
    /// The same, downward.
    StepDown,
}

impl Course {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Up, Self::Down, Self::StepUp, Self::StepDown];

    /// The name in a word or two.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
            Self::StepUp => "step-up",
            Self::StepDown => "step-down",
        }
    }

    /// The course of that name; `None` if there is none.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|course| course.name() == name)
    }

    fn of_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// A stream. Pages are of 4 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The thread that began the stream; others may read it by now.
    pub thread: u32,
    /// Its direction, or its steps.
    pub course: Course,
    /// From the start of one piece to the start of the next; 0 without steps.
    pub step_pages: u64,
    /// The current page. Upward: the page after the last one read. Downward: the last page read.
    /// With steps: the first page of the last piece.
    pub page: u64,
    /// Pages from there to the end of the requested pages.
    pub ahead_pages: u64,
    /// The distance that was decided last.
    pub distance_pages: u32,
    /// Size of the last requested window; 0 with steps, or before the first window.
    pub window_pages: u32,
    /// No further ahead than this, since pages were evicted unread; 0 no such bound.
    pub ceiling_pages: u32,
    /// Pages of its run that were read.
    pub run_pages: u32,
    /// Pages that were read since its reader last waited.
    pub quiet_pages: u32,
    /// When it was last read, by the clock of the accesses; `None` where they had none.
    pub used_ns: Option<u64>,
}

impl Streams {
    /// Accesses to the file that the policy was told of; wraps after 2^32.
    #[must_use]
    pub fn accesses(&self) -> u32 {
        Bytes(self.bytes()).word(ACCESSES_AT)
    }

    /// The streams that it follows: 64 at most.
    pub fn followed(&self) -> impl Iterator<Item = Stream> {
        let bytes = self.bytes();
        let count = usize::try_from(Bytes(bytes).word(COUNT_AT)).unwrap_or(STREAMS_MAX);
        (0..count.min(STREAMS_MAX)).filter_map(|number| {
            let at = STREAM_AT + number * STREAM_BYTES;
            stream(Bytes(bytes.get(at..at + STREAM_BYTES)?))
        })
    }
}

/// `None` where it goes nowhere that is known.
fn stream(bytes: Bytes<'_>) -> Option<Stream> {
    let (first, end, ahead, step_pages) =
        (bytes.long(0), bytes.long(8), bytes.long(16), bytes.long(24));
    let course = Course::of_number(bytes.byte(114))?;
    let piece_pages = u64::from(bytes.word(84));
    // With steps, the first piece that was not asked for: the one before it was.
    let (page, ahead_pages) = match course {
        Course::Up => (end, ahead.saturating_sub(end)),
        Course::Down => (end, end.saturating_sub(ahead)),
        Course::StepUp => {
            let asked = ahead.saturating_sub(step_pages);
            let is_any = asked > first;
            let ends = asked.saturating_add(piece_pages);
            (first, if is_any { ends - first } else { 0 })
        }
        Course::StepDown => (
            first,
            first.saturating_sub(ahead.saturating_add(step_pages)),
        ),
    };
    Some(Stream {
        thread: bytes.word(104),
        course,
        step_pages,
        page,
        ahead_pages,
        distance_pages: bytes.word(56),
        window_pages: bytes.word(64),
        ceiling_pages: bytes.word(72),
        run_pages: bytes.word(52),
        quiet_pages: bytes.word(88),
        used_ns: bytes.long(32).checked_sub(1),
    })
}

/// Bytes in which every offset can be read: 0 beyond the end.
#[derive(Clone, Copy)]
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn byte(self, at: usize) -> u8 {
        self.0.get(at).copied().unwrap_or_default()
    }

    fn word(self, at: usize) -> u32 {
        let bytes = self.0.get(at..).and_then(<[u8]>::first_chunk);
        bytes.copied().map_or(0, u32::from_ne_bytes)
    }

    fn long(self, at: usize) -> u64 {
        let bytes = self.0.get(at..).and_then(<[u8]>::first_chunk);
        bytes.copied().map_or(0, u64::from_ne_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Access, Limits, Memory, Near, Policy, State};
    use proptest::prelude::*;

    const THREAD: u32 = 7;

    /// The streams that are remembered after these reads, each of this many pages.
    fn after(starts: impl Iterator<Item = u64>, pages: u64) -> Streams {
        let limits = Limits {
            reclaim_pages: 1 << 18,
            ..Limits::new(1 << 16, 32)
        };
        let (mut state, mut streams) = (State::open(&limits), Streams::new());
        for (number, start) in (1u64..).zip(starts) {
            let access = Access {
                flags: Access::MISSED,
                time_ns: number * 1_000_000,
                thread: THREAD,
                ..Access::read_look(start, pages)
            };
            let memory = Memory {
                streams: Some(&mut streams),
                ..Memory::default()
            };
            let near = Near::default();
            Policy::Foreread.decide_with(&mut state, &access, &near, &limits, memory);
        }
        streams
    }

    fn only(streams: &Streams) -> Stream {
        let all: Vec<Stream> = streams.followed().collect();
        assert_eq!(all.len(), 1, "{all:?}");
        all[0]
    }

    #[test]
    fn what_is_read_is_told() {
        let up = after((0..100).map(|n| n * 16), 16);
        assert_eq!(up.accesses(), 100);
        let up = only(&up);
        assert_eq!((up.course, up.page, up.thread), (Course::Up, 1600, THREAD));
        assert_eq!((up.run_pages, up.used_ns), (1600, Some(100_000_000)));
        assert!(up.ahead_pages > 0 && up.ahead_pages < 1 << 14, "{up:?}");
        assert!(up.window_pages > 0 && up.distance_pages > 0, "{up:?}");

        let down = only(&after((0..100).map(|n| 40_000 - n * 16), 16));
        assert_eq!((down.course, down.page), (Course::Down, 40_000 - 99 * 16));
        assert!(down.ahead_pages > 0 && down.ahead_pages < 1 << 14);

        let steps = only(&after((0..100).map(|n| 1000 + n * 256), 16));
        assert_eq!(
            (steps.course, steps.page, steps.step_pages),
            (Course::StepUp, 1000 + 99 * 256, 256)
        );
        assert_eq!(steps.ahead_pages % 256, 16, "{steps:?}");

        let back = only(&after((0..100).map(|n| 60_000 - n * 256), 16));
        assert_eq!(
            (back.course, back.page, back.step_pages),
            (Course::StepDown, 60_000 - 99 * 256, 256)
        );
        assert_eq!(back.ahead_pages % 256, 0, "{back:?}");
        assert!(back.ahead_pages > 0, "{back:?}");
    }

    #[test]
    fn nothing_is_told_of_nothing() {
        assert_eq!(Streams::new().followed().count(), 0);
        let once = after(std::iter::once(500), 1);
        assert_eq!((once.accesses(), once.followed().count()), (1, 0));
    }

    #[test]
    fn names_are_of_courses() {
        for course in Course::ALL {
            assert_eq!(Course::of_name(course.name()), Some(course));
        }
        assert_eq!(Course::of_name("sideways"), None);
    }

    proptest! {
        #[test]
        fn any_bits_are_streams(
            some in prop::collection::vec(any::<u8>(), 997), count in any::<u32>()
        ) {
            let bytes: Vec<u8> = some.iter().copied().cycle().take(size_of::<Streams>()).collect();
            let mut bytes = bytes;
            bytes[COUNT_AT..COUNT_AT + 4].copy_from_slice(&count.to_ne_bytes());
            let streams = Streams::from_bytes(&bytes).unwrap();
            prop_assert!(streams.followed().count() <= STREAMS_MAX.min(count as usize));
        }
    }
}
