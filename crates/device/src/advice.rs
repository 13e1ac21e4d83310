// SPDX-License-Identifier: MIT OR Apache-2.0
//! Advice: what a device should be set to, by which rules, and who stands against it.

use crate::class::Reading;
use crate::identity::DeviceNumber;
use crate::memory::STREAMS_DEFAULT;
use crate::others::OtherSetting;
use crate::source::Source;

/// What advice depends on besides the devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Sequential readers at once.
    pub streams: u32,
    /// What the devices are used for.
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
    /// What the device is made of.
    Members,
    /// What kind of device it is.
    Class,
    /// Nothing more is known.
    Default,
    /// What the device holds.
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

/// What a rule says of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The rule.
    pub rule: Rule,
    /// The name of the member that it is said of; `None`: of the device itself.
    pub of: Option<String>,
    /// What it says, in KiB: a size, a most or, of the floor, a least. `None`: to leave it alone.
    pub kib: Option<u64>,
    /// In a few words.
    pub brief: String,
    /// As a sentence without its end.
    pub text: String,
}

/// Somebody else sets another value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// What sets it, and where.
    pub other: OtherSetting,
    /// Whether it is meant for this device for certain.
    pub is_certain: bool,
}

/// What a device should be set to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// The device.
    pub number: DeviceNumber,
    /// The setting now, in KiB; `None` when it can't be read.
    pub now_kib: Option<u64>,
    /// Where that came from.
    pub source: Source,
    /// What it should be, in KiB; `None`: to be left alone.
    pub advised_kib: Option<u64>,
    /// What was weighed, in order.
    pub reasons: Vec<Reason>,
    /// The rule that had the last word.
    pub bound: Rule,
    /// Who else sets another value.
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
