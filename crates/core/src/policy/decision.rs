// SPDX-License-Identifier: MIT OR Apache-2.0
//! The decision of a policy, and its reason.

use std::fmt;

/// Pages to bring in: `struct fr_window`.
///
/// Displayed as `start+size`, with ` aN` for an `async_size` of N.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    start: u64,
    size: u32,
    async_size: u32,
    pub(crate) read_pages: u32,
    order: u8,
    pub(crate) flags: u8,
    reserved: u16,
}

impl Window {
    const FOLIOS: u8 = 0x01;
    const CHUNKS: u8 = 0x02;

    /// First page.
    #[must_use]
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Pages, as the policy counts them.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Pages of the tail that count as read ahead; 0 for no mark.
    #[must_use]
    pub fn async_size(&self) -> u32 {
        self.async_size
    }

    /// Pages to read: the size cut at the end of the file and at `pages_max`.
    #[must_use]
    pub fn read_pages(&self) -> u32 {
        self.read_pages
    }

    /// Folio order to build with large folios.
    #[must_use]
    pub fn order(&self) -> u8 {
        self.order
    }

    /// Whether it is issued as large folios.
    #[must_use]
    pub fn in_folios(&self) -> bool {
        self.flags & Self::FOLIOS != 0
    }

    /// Whether it is issued in chunks of 2 MiB.
    #[must_use]
    pub fn in_chunks(&self) -> bool {
        self.flags & Self::CHUNKS != 0
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.start, self.size)?;
        match self.async_size {
            0 => Ok(()),
            pages => write!(f, " a{pages}"),
        }
    }
}

/// The constants of `enum fr_reason`, each with its meaning for people.
macro_rules! reasons {
    ($($name:ident = $number:literal, $meaning:literal;)*) => {
        /// The reason of a decision.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Reason {
            $(#[doc = $meaning] $name = $number,)*
        }

        impl Reason {
            /// All reasons, in the order of their numbers.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The meaning, as the end of the sentence "it decided so because ...".
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Self::$name => $meaning,)*
                }
            }
        }
    };
}

reasons! {
    Nothing = 0, "there was nothing for it to do";
    Initial = 1, "a stream starts here: at page 0, or right after the previous read";
    Oversize = 2, "the request is larger than the maximum window";
    Subsequent = 3, "the stream reached its mark";
    Foreign = 4, "a mark of another stream was reached";
    Context = 5, "cached pages before the access show a stream";
    Random = 6, "there was no sign of a stream";
    Around = 7, "a fault on a mapping is read around";
    Exec = 8, "a fault on program text is read from there on";
    Huge = 9, "the mapping wants huge pages";
    Forced = 10, "the program asked for these pages ahead of time";
    AdvisedRandom = 11, "the program said that it reads at random";
    Disabled = 12, "readahead is off";
    Misses = 13, "too many faults of this mapping missed";
    Ahead = 14, "the ahead window is due";
    Within = 15, "the stream is inside pages already looked after";
    InCache = 16, "everything was cached lately";
    Full = 17, "everything in reach is cached already";
    Thrashed = 18, "pages read ahead were evicted before they were read";
    Rescue = 19, "pages read ahead are about to be evicted and must be kept first";
    Backward = 20, "the stream reads backward";
    Whole = 21, "whoever reads a page of the file is taken to read all of it";
    Seeked = 22, "page 0 after a seek does not start a stream";
    Stream = 23, "a stream needs its next pages soon";
    Stride = 24, "the stream goes on in steps";
    Reverse = 25, "a stream reads backward and needs its next pages soon";
    Silent = 26, "all that was asked for lately was cached";
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A decision of a policy: `struct fr_decision`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    windows: [Window; 2],
    pub(crate) retain_start: u64,
    /// For policies that look: where the next look of this request is due.
    pub next_look: u64,
    pub(crate) step_pages: u64,
    retain_pages: u32,
    /// The maximum window that held.
    pub max_pages: u32,
    /// Pages found in the cache: pages of history before the access, or pages cached ahead of a
    /// foreign mark.
    pub saw_pages: u32,
    pub(crate) repeats: u32,
    count: u8,
    /// The reason.
    pub reason: Reason,
    flags: u8,
    reserved: u8,
    reserved_2: u32,
}

impl Decision {
    const STATE: u8 = 0x01;
    const CLEAR_MARK: u8 = 0x02;
    const RETAIN: u8 = 0x04;
    const FORCED: u8 = 0x08;
    const DOWN: u8 = 0x10;

    /// Number of repetitions of the last window, and their distance in pages: positive forward,
    /// negative backward.
    #[must_use]
    pub fn repeats(&self) -> Option<(u32, i64)> {
        let step = i64::try_from(self.step_pages).unwrap_or(i64::MAX);
        let step = if self.flags & Self::DOWN == 0 {
            step
        } else {
            -step
        };
        (self.repeats > 0).then_some((self.repeats, step))
    }

    /// The windows to issue, in this order: none, one or two; the last may have repetitions.
    #[must_use]
    pub fn windows(&self) -> &[Window] {
        self.windows
            .get(..usize::from(self.count.min(2)))
            .unwrap_or(&[])
    }

    /// Whether the state's window changed.
    #[must_use]
    pub fn changed_state(&self) -> bool {
        self.flags & Self::STATE != 0
    }

    /// Whether the mark that was reached is used up.
    #[must_use]
    pub fn clears_mark(&self) -> bool {
        self.flags & Self::CLEAR_MARK != 0
    }

    /// Whether it goes round the policy, as forced readahead does.
    #[must_use]
    pub fn is_forced(&self) -> bool {
        self.flags & Self::FORCED != 0
    }

    /// Pages to move away from reclaim: the first one and how many.
    #[must_use]
    pub fn retain(&self) -> Option<(u64, u32)> {
        (self.flags & Self::RETAIN != 0).then_some((self.retain_start, self.retain_pages))
    }

    /// The decision and its reason, in one sentence for people.
    #[must_use]
    pub fn explain(&self) -> String {
        let mut text = match self.windows() {
            [] => "reads nothing ahead".to_owned(),
            [window] => format!("reads {window}"),
            [first, second, ..] => format!("reads {first} and {second}"),
        };
        if let Some((times, step)) = self.repeats() {
            text += &format!(", and {times} more of the last, each {step:+} pages on");
        }
        if let Some((start, pages)) = self.retain() {
            text += &format!(", keeps {start}+{pages}");
        }
        text += &format!(": {}", self.reason.meaning());
        if self.saw_pages > 0 {
            text += &format!("; {} cached pages seen", self.saw_pages);
        }
        if self.max_pages > 0 {
            text += &format!("; maximum {} pages", self.max_pages);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ffi;

    #[test]
    fn reasons_have_names_in_the_order_of_their_numbers() {
        for (number, reason) in (0u8..).zip(Reason::ALL) {
            assert_eq!(*reason as u8, number);
            assert!(!reason.name().is_empty(), "{reason:?}");
        }
        assert_eq!(ffi::reason_name(Reason::ALL.len() as u32), None);
    }
}
