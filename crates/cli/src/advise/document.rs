// SPDX-License-Identifier: MIT OR Apache-2.0
//! Advice for programs: `foreread.advice/1`. `docs/advise.md` describes the fields.

use foreread_core::{KiB, Pages, Sectors, Unit};
use foreread_device::{Advice, Class, Conflict, Device, Expected, OtherValue, Reading, Source};
use serde_json::{Value, json};

use super::{Advised, Shown};

pub fn of(shown: &[Shown<'_>], left_out: usize, advised: &Advised, expected: Expected) -> Value {
    let devices = shown.iter().map(|(device, advice)| one(device, advice));
    json!({
        "schema": "foreread.advice/1",
        "memory_bytes": advised.machine.memory_bytes,
        "streams": expected.streams,
        "use": reading(expected.reading),
        "devices": devices.collect::<Vec<_>>(),
        "devices_left_out": left_out,
        "not_seen": advised.notes,
    })
}

fn reading(reading: Reading) -> &'static str {
    match reading {
        Reading::Sequential => "sequential",
        Reading::Mixed => "mixed",
        Reading::Mapped => "mapped",
        Reading::Random => "random",
    }
}

fn one(device: &Device, advice: &Advice) -> Value {
    let block = device.block();
    let mount = device.mount();
    let reasons = advice.reasons.iter().map(|reason| {
        json!({
            "rule": reason.rule.name(),
            "of": reason.of,
            "kib": reason.kib,
            "text": reason.text,
        })
    });
    let members: Vec<String> = device.members.iter().map(ToString::to_string).collect();
    json!({
        "number": device.number.to_string(),
        "name": device.identity.name,
        "kind": if block.is_some() { "block" } else { "mount" },
        "class": Class::of(device).name(),
        "transport": block.map(|block| block.transport.name()),
        "fs_type": mount.map(|mount| &mount.fs_type),
        "model": device.identity.model,
        "serial": device.identity.serial,
        "capacity_bytes": device.identity.capacity_bytes,
        "says_it_rotates": block.and_then(|block| block.rotational),
        "members": members,
        "mount_points": device.mount_points,
        "read_ahead_kib": advice.now_kib,
        "source": advice.source.name(),
        "source_place": match &advice.source {
            Source::Other { place, .. } => Some(place),
            _ => None,
        },
        "advised_kib": advice.advised_kib,
        "advised_bytes": advice.advised_kib.and_then(in_bytes),
        "advised_sectors": advice.advised_kib.and_then(in_unit::<Sectors>),
        "advised_pages": advice.advised_kib.and_then(in_unit::<Pages>),
        "is_change": advice.is_change(),
        "bound_by": advice.bound.name(),
        "reasons": reasons.collect::<Vec<_>>(),
        "conflicts": advice.conflicts.iter().map(conflict).collect::<Vec<_>>(),
        "not_seen": device.unseen,
    })
}

fn in_bytes(kib: u64) -> Option<u64> {
    Some(KiB::new(kib).to_bytes().ok()?.count())
}

fn in_unit<U: Unit>(kib: u64) -> Option<u64> {
    Some(KiB::new(kib).to_floor::<U>().ok()?.count())
}

fn conflict(conflict: &Conflict) -> Value {
    let (kib, is_least) = match conflict.other.value {
        OtherValue::Kib(kib) => (Some(kib), false),
        OtherValue::AtLeastKib(kib) => (Some(kib), true),
        OtherValue::Unknown => (None, false),
    };
    json!({
        "by": conflict.other.setter.name(),
        "place": conflict.other.place,
        "kib": kib,
        "is_least": is_least,
        "is_certain": conflict.is_certain,
    })
}
