// SPDX-License-Identifier: MIT OR Apache-2.0
//! Advice: the setting that a device should have, the rules behind it, and conflicting settings.

use foreread_core::KiB;

use crate::class::Reading;
use crate::identity::DeviceNumber;
use crate::memory::STREAMS_DEFAULT;
use crate::others::OtherSetting;
use crate::source::Source;

/// The expected use, on which advice depends besides the devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Sequential readers at once.
    pub streams: u32,
    /// The main use of the devices.
    pub reading: Reading,
}

impl Default for Expected {
    fn default() -> Self {
        Self {
            streams: STREAMS_DEFAULT,
            reading: Reading::Mixed,
        }
    }
}

/// A rule that has a say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A probe found where the throughput stops growing.
    Plateau,
    /// The members of the device.
    Members,
    /// The class of the device.
    Class,
    /// Nothing more is known.
    Default,
    /// The capacity of the device.
    CapacityCap,
    /// Memory for the windows of all streams.
    Streams,
    /// Memory for read-around.
    ReadAround,
    /// Never less than this.
    Floor,
}

impl Rule {
    /// The name in documents.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Plateau => "plateau",
            Self::Members => "members",
            Self::Class => "class",
            Self::Default => "default",
            Self::CapacityCap => "capacity-cap",
            Self::Streams => "streams",
            Self::ReadAround => "read-around",
            Self::Floor => "floor",
        }
    }
}

/// The result of one rule for a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The rule.
    pub rule: Rule,
    /// The name of the member that the reason is about; `None` if it is about the device itself.
    pub of: Option<String>,
    /// The size in KiB: the suitable one, a maximum or, for the floor, a minimum. `None`: to leave
    /// the setting alone.
    pub kib: Option<u64>,
    /// In a few words.
    pub brief: String,
    /// As a sentence without its end.
    pub text: String,
}

/// Somebody else sets another value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The conflicting setting: its program, place and value.
    pub other: OtherSetting,
    /// Whether it certainly applies to this device.
    pub is_certain: bool,
}

/// The advised setting of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// The device.
    pub number: DeviceNumber,
    /// The setting now, in KiB; `None` when it can't be read.
    pub now_kib: Option<u64>,
    /// Where that came from.
    pub source: Source,
    /// The advised value, in KiB; `None`: to be left alone.
    pub advised_kib: Option<u64>,
    /// The results of the rules, in order.
    pub reasons: Vec<Reason>,
    /// The rule that decided.
    pub bound: Rule,
    /// A plateau that a probe measured and that isn't used, since it is not certain.
    pub uncertain_plateau: Option<KiB>,
    /// Settings elsewhere that set another value.
    pub conflicts: Vec<Conflict>,
}

impl Advice {
    /// Whether the setting is another than it should be.
    #[must_use]
    pub fn is_change(&self) -> bool {
        self.advised_kib.is_some() && self.advised_kib != self.now_kib
    }

    /// The reason that had the last word, in a few words.
    #[must_use]
    pub fn brief(&self) -> &str {
        let mut own = self
            .reasons
            .iter()
            .rev()
            .filter(|reason| reason.of.is_none());
        let bound = own.find(|reason| reason.rule == self.bound);
        bound.map_or("", |reason| &reason.brief)
    }
}
