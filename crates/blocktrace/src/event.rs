// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events of the block layer.

use std::fmt;
use std::str::FromStr;

use crate::line::digits;

/// Bytes of a sector, as block traces count.
pub const SECTOR_BYTES: u64 = 512;

/// A block device by its numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Device {
    /// Number of the driver.
    pub major: u32,
    /// Number of the device at the driver.
    pub minor: u32,
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.major, self.minor)
    }
}

impl FromStr for Device {
    type Err = ();

    /// Reads `8,208`, as block traces have it, or `8:208`, as sysfs does.
    fn from_str(text: &str) -> Result<Self, ()> {
        Self::from_bytes(text.as_bytes()).ok_or(())
    }
}

impl Device {
    #[inline]
    pub(crate) fn from_bytes(text: &[u8]) -> Option<Self> {
        let at = text.iter().position(|byte| matches!(byte, b',' | b':'))?;
        Some(Self {
            major: digits(&text[..at])?,
            minor: digits(&text[at + 1..])?,
        })
    }
}

/// Up to eight letters.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Letters {
    letters: [u8; 8],
    length: u8,
}

impl Letters {
    /// `None` for more than eight, or for anything but ASCII letters and digits.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        Self::from_bytes(text.as_bytes())
    }

    #[inline]
    pub(crate) fn from_bytes(text: &[u8]) -> Option<Self> {
        let mut letters = [0; 8];
        for (letter, byte) in letters.get_mut(..text.len())?.iter_mut().zip(text) {
            if !byte.is_ascii_alphanumeric() {
                return None;
            }
            *letter = *byte;
        }
        Some(Self {
            letters,
            length: text.len() as u8,
        })
    }

    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).unwrap_or("")
    }

    /// As bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.letters[..usize::from(self.length)]
    }
}

impl fmt::Display for Letters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for Letters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The operation, in the letters of `blkparse`: `R` a read, `RA` a readahead, `WS` a synchronous
/// write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rwbs(pub Letters);

impl Rwbs {
    /// A read, readahead or not.
    #[must_use]
    pub fn is_read(self) -> bool {
        self.0.as_bytes().contains(&b'R')
    }

    /// A readahead, where the kernel said so.
    #[must_use]
    pub fn is_readahead(self) -> bool {
        self.is_read() && self.0.as_bytes().contains(&b'A')
    }

    /// Metadata of a file system, where it said so.
    #[must_use]
    pub fn is_metadata(self) -> bool {
        self.0.as_bytes().contains(&b'M')
    }
}

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// `Q`: a bio came in.
    Queued,
    /// `G`: it got a request of its own.
    GotRequest,
    /// `S`: a process sleeps until a request is free.
    Slept,
    /// `P`: a plug begins to hold requests back.
    Plugged,
    /// `U`: the plug lets them go.
    Unplugged {
        /// Number of requests that it held; `None` if the kernel doesn't report it.
        requests: Option<u32>,
    },
    /// `UT`: its timer lets them go, or, since Linux 2.6.39, its process going to sleep.
    TimerUnplugged {
        /// Number of requests that it held.
        requests: Option<u32>,
    },
    /// `I`: a request went to the scheduler.
    Inserted,
    /// `M`: a bio, or a whole request, was put at the end of a waiting request.
    BackMerged,
    /// `F`: and at its beginning.
    FrontMerged,
    /// `D`: a request went to the driver.
    Issued,
    /// `C`: it is done.
    Completed {
        /// 0, or the error.
        error: i32,
    },
    /// `R`: the driver gave a request back.
    Requeued {
        /// 0, or the error.
        error: i32,
    },
    /// `X`: a bio was cut in two.
    Split {
        /// Where the second part begins.
        at_sector: u64,
    },
    /// `B`: its data was copied to where the device reaches.
    Bounced,
    /// `A`: it was passed on from another device.
    Remapped {
        /// That device.
        from: Device,
        /// Where it was there.
        from_sector: u64,
    },
    /// Something was not seen: not one event, but a note about others.
    Lost {
        /// Number of lost events.
        events: u64,
    },
    /// An action that isn't known here.
    Unknown(Letters),
}

impl Action {
    /// The letters of `blkparse`.
    #[must_use]
    pub fn letters(&self) -> &str {
        match self {
            Self::Queued => "Q",
            Self::GotRequest => "G",
            Self::Slept => "S",
            Self::Plugged => "P",
            Self::Unplugged { .. } => "U",
            Self::TimerUnplugged { .. } => "UT",
            Self::Inserted => "I",
            Self::BackMerged => "M",
            Self::FrontMerged => "F",
            Self::Issued => "D",
            Self::Completed { .. } => "C",
            Self::Requeued { .. } => "R",
            Self::Split { .. } => "X",
            Self::Bounced => "B",
            Self::Remapped { .. } => "A",
            Self::Lost { .. } => "m",
            Self::Unknown(letters) => letters.as_str(),
        }
    }
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Which device.
    pub device: Device,
    /// Which processor.
    pub cpu: u32,
    /// Its number on that processor; 0 where events are not counted.
    pub sequence: u64,
    /// When, since the trace began or since the machine started.
    pub time_ns: u64,
    /// The thread that ran; for a completion, whichever was interrupted.
    pub pid: u32,
    /// The kind of the event.
    pub action: Action,
    /// The operation.
    pub rwbs: Rwbs,
    /// First sector.
    pub sector: u64,
    /// Number of sectors; 0 for events without data.
    pub sectors: u32,
    /// Time since the step before, where `blkparse -t` says it: for a completion, since its issue.
    pub elapsed_ns: Option<u64>,
    /// Name of the thread; empty where the trace doesn't have it.
    pub process: Box<str>,
}
