// SPDX-License-Identifier: MIT OR Apache-2.0
//! Advice for programs: `foreread.advice/1`. `docs/advise.md` describes the fields.

use foreread_core::{KiB, Pages, Sectors, Unit};
use foreread_device::{
    Advice, Class, Conflict, Device, Expected, OtherValue, Reading, Reason, Source,
};
use serde::Serialize;

use super::{Advised, Shown};

/// The devices of a machine, each with its advice.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AdviceReport<'a> {
    schema: &'static str,
    memory_bytes: Option<u64>,
    /// Streams that are expected at once.
    streams: u32,
    /// How the devices are expected to be read.
    r#use: &'static str,
    /// Devices that have a readahead size.
    devices: Vec<DeviceReport<'a>>,
    /// Idle devices that are not listed.
    devices_left_out: usize,
    /// Facts about the whole machine that could not be read, a sentence each.
    not_seen: &'a [String],
}

/// A block device or a mount.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct DeviceReport<'a> {
    /// Major and minor number.
    number: String,
    /// Kernel name of a block device; source of a mount.
    name: &'a str,
    /// `block` or `mount`.
    kind: &'static str,
    /// Kind of the device, as in docs/advise.md.
    class: &'static str,
    /// Block devices only.
    transport: Option<&'static str>,
    /// Mounts only.
    fs_type: Option<&'a str>,
    /// As the device names itself; null where it does not.
    model: Option<&'a str>,
    /// As the device tells it; null where it does not.
    serial: Option<&'a str>,
    capacity_bytes: Option<u64>,
    /// The attribute `rotational` of a block device.
    says_it_rotates: Option<bool>,
    /// Names of the devices that it consists of.
    members: Vec<String>,
    /// Where file systems on it are mounted.
    mount_points: &'a [String],
    /// The setting now.
    read_ahead_kib: Option<u64>,
    /// Where the setting came from.
    source: &'static str,
    /// The file that sets it, where one does.
    source_place: Option<&'a str>,
    /// The advice in four units; none: leave the setting alone.
    advised_kib: Option<u64>,
    advised_bytes: Option<u64>,
    advised_sectors: Option<u64>,
    advised_pages: Option<u64>,
    /// Whether the advice differs from the setting.
    is_change: bool,
    /// The rule that decided.
    bound_by: &'static str,
    /// The rules that had a say, in order.
    reasons: Vec<ReasonReport<'a>>,
    /// Other settings of the same value.
    conflicts: Vec<ConflictReport<'a>>,
    /// A measured plateau that isn't used, since it is not certain.
    uncertain_plateau_kib: Option<u64>,
    /// Attributes that could not be read, each with the reason.
    not_seen: &'a [String],
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ReasonReport<'a> {
    /// Name of the rule, as in docs/advise.md.
    rule: &'static str,
    /// The member that the rule speaks of; none: the device itself.
    of: Option<&'a str>,
    /// A size, a maximum or, of the floor, a minimum. None: leave the setting alone.
    kib: Option<u64>,
    /// As a sentence without its end.
    text: &'a str,
}

/// Other software that sets another value.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ConflictReport<'a> {
    /// Program or file that sets it.
    by: &'static str,
    /// The file in which it does so.
    place: &'a str,
    kib: Option<u64>,
    /// Whether it sets at least `kib`.
    is_least: bool,
    /// Whether it is certain that it sets another value.
    is_certain: bool,
}

impl<'a> AdviceReport<'a> {
    pub fn of(
        shown: &'a [Shown<'a>],
        left_out: usize,
        advised: &'a Advised,
        expected: Expected,
    ) -> Self {
        let devices = shown.iter();
        Self {
            schema: "foreread.advice/1",
            memory_bytes: advised.machine.memory_bytes,
            streams: expected.streams,
            r#use: reading(expected.reading),
            devices: devices
                .map(|(device, advice)| DeviceReport::of(device, advice))
                .collect(),
            devices_left_out: left_out,
            not_seen: &advised.notes,
        }
    }
}

fn reading(reading: Reading) -> &'static str {
    match reading {
        Reading::Sequential => "sequential",
        Reading::Mixed => "mixed",
        Reading::Mapped => "mapped",
        Reading::Random => "random",
    }
}

impl<'a> DeviceReport<'a> {
    fn of(device: &'a Device, advice: &'a Advice) -> Self {
        let block = device.block();
        let mount = device.mount();
        Self {
            number: device.number.to_string(),
            name: &device.identity.name,
            kind: if block.is_some() { "block" } else { "mount" },
            class: Class::of(device).name(),
            transport: block.map(|block| block.transport.name()),
            fs_type: mount.map(|mount| mount.fs_type.as_str()),
            model: device.identity.model.as_deref(),
            serial: device.identity.serial.as_deref(),
            capacity_bytes: device.identity.capacity_bytes,
            says_it_rotates: block.and_then(|block| block.rotational),
            members: device.members.iter().map(ToString::to_string).collect(),
            mount_points: &device.mount_points,
            read_ahead_kib: advice.now_kib,
            source: advice.source.name(),
            source_place: match &advice.source {
                Source::Other { place, .. } => Some(place),
                _ => None,
            },
            advised_kib: advice.advised_kib,
            advised_bytes: advice.advised_kib.and_then(in_bytes),
            advised_sectors: advice.advised_kib.and_then(in_unit::<Sectors>),
            advised_pages: advice.advised_kib.and_then(in_unit::<Pages>),
            is_change: advice.is_change(),
            bound_by: advice.bound.name(),
            reasons: advice.reasons.iter().map(ReasonReport::of).collect(),
            conflicts: advice.conflicts.iter().map(ConflictReport::of).collect(),
            uncertain_plateau_kib: advice.uncertain_plateau.map(KiB::count),
            not_seen: &device.unseen,
        }
    }
}

fn in_bytes(kib: u64) -> Option<u64> {
    Some(KiB::new(kib).to_bytes().ok()?.count())
}

fn in_unit<U: Unit>(kib: u64) -> Option<u64> {
    Some(KiB::new(kib).to_floor::<U>().ok()?.count())
}

impl<'a> ReasonReport<'a> {
    fn of(reason: &'a Reason) -> Self {
        Self {
            rule: reason.rule.name(),
            of: reason.of.as_deref(),
            kib: reason.kib,
            text: &reason.text,
        }
    }
}

impl<'a> ConflictReport<'a> {
    fn of(conflict: &'a Conflict) -> Self {
        let (kib, is_least) = match conflict.other.value {
            OtherValue::Kib(kib) => (Some(kib), false),
            OtherValue::AtLeastKib(kib) => (Some(kib), true),
            OtherValue::Unknown => (None, false),
        };
        Self {
            by: conflict.other.setter.name(),
            place: &conflict.other.place,
            kib,
            is_least,
            is_certain: conflict.is_certain,
        }
    }
}
