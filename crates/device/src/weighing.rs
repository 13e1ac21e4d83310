// SPDX-License-Identifier: MIT OR Apache-2.0
//! Computes advice: from a measurement, or else from the members of the device, or else from its
//! class; then the capacity cap, memory and the floor.

use std::collections::HashMap;

use foreread_core::{KiB, grouped};

use crate::advice::{Advice, Conflict, Expected, Reason, Rule};
use crate::cap::{FLOOR, capacity_cap, has_floor, setting_of_cap};
use crate::class::{Class, Reading};
use crate::facts::{Device, Machine, Stack};
use crate::identity::DeviceNumber;
use crate::measured::{Measured, MeasuredBook};
use crate::memory::{MEMORY_SHARE, around_max, streams_max};
use crate::others::{Meant, OtherSetting, OtherValue};
use crate::source::Source;
use crate::stack::{Spread, combined, spread};

/// Members of members; more is a ring.
const DEPTH_MAX: u32 = 16;
/// A page, in KiB.
const PAGE_KIB: u64 = 4;

/// The size that suits a device, before the memory rule.
#[derive(Clone, Debug)]
struct Suits {
    /// Name of the device.
    name: String,
    kib: Option<u64>,
    bound: Rule,
    reasons: Vec<Reason>,
    /// Whether the device, or a member, has a floor.
    has_floor: bool,
    /// Whether it reads from one member at a time.
    is_as_member: bool,
}

impl Suits {
    /// The reason that is passed on to a device stacked on this one: that of the deciding rule.
    /// Where the size is that of a member, it is the member's reason.
    fn to_pass_on(&self) -> Option<Reason> {
        let is_last = |reason: &&Reason| reason.rule == self.bound && reason.of.is_none();
        let own = self.reasons.iter().rev().find(is_last)?;
        let below = self.reasons.iter().find(|reason| reason.of.is_some());
        let reason = match below {
            Some(below) if own.rule == Rule::Members && self.is_as_member => below,
            _ => own,
        };
        let of = reason.of.clone().or_else(|| Some(self.name.clone()));
        Some(Reason {
            of,
            ..reason.clone()
        })
    }
}

/// Advice for all devices of a machine, in their order.
#[must_use]
pub fn advise(
    machine: &Machine,
    others: &[OtherSetting],
    measured: &MeasuredBook,
    expected: Expected,
) -> Vec<Advice> {
    let mut weighing = Weighing::new(machine, measured, expected);
    let devices = machine.devices.iter();
    devices
        .map(|device| weighing.advice(device, others))
        .collect()
}

/// Weighs the known properties of the devices of a machine; each once.
struct Weighing<'a> {
    machine: &'a Machine,
    measured: &'a MeasuredBook,
    expected: Expected,
    by_number: HashMap<DeviceNumber, usize>,
    known: HashMap<DeviceNumber, Suits>,
}

impl<'a> Weighing<'a> {
    /// Prepares to weigh the devices of a machine.
    fn new(machine: &'a Machine, measured: &'a MeasuredBook, expected: Expected) -> Self {
        let numbers = machine.devices.iter().map(|device| device.number);
        Self {
            machine,
            measured,
            expected,
            by_number: numbers.zip(0..).collect(),
            known: HashMap::new(),
        }
    }

    /// Advice for one of its devices.
    fn advice(&mut self, device: &Device, others: &[OtherSetting]) -> Advice {
        let suits = self.suits(device, 0);
        let (advised_kib, bound, reasons) = self.within_memory(suits);
        Advice {
            number: device.number,
            now_kib: device.read_ahead_kib,
            source: Source::of(device, others),
            advised_kib,
            conflicts: conflicts(device, advised_kib, others),
            reasons,
            bound,
            uncertain_plateau: self
                .measured
                .of(&device.identity)
                .filter(|measured| !measured.certain)
                .map(Measured::plateau),
        }
    }

    fn suits(&mut self, device: &Device, depth: u32) -> Suits {
        if let Some(known) = self.known.get(&device.number) {
            return known.clone();
        }
        let suits = self.weighed(device, depth);
        self.known.insert(device.number, suits.clone());
        suits
    }

    fn weighed(&mut self, device: &Device, depth: u32) -> Suits {
        let class = Class::of(device);
        let members = self.members(device, depth);
        let has_members = !members.is_empty();
        let (first, of_members) = self
            .plateau(device, class)
            .map(|reason| (reason, None))
            .or_else(|| self.of_members(device, class, &members))
            .unwrap_or_else(|| (self.of_class(device, class), None));
        let mut suits = Suits {
            name: device.identity.name.clone(),
            kib: first.kib,
            bound: first.rule,
            reasons: vec![first],
            has_floor: !has_members || members.iter().any(|member| member.has_floor),
            is_as_member: spread(device) == Spread::One,
        };
        if let Some(limited) = of_members {
            suits.reasons.insert(0, limited);
        }
        // The size of a volume says nothing about the speed of the disk that it is a part of.
        let is_part = has_members && !is_loop(device);
        if !is_part {
            cap(device, &mut suits);
        }
        suits
    }

    /// The suitable sizes of the known members.
    fn members(&mut self, device: &Device, depth: u32) -> Vec<Suits> {
        if depth >= DEPTH_MAX {
            return Vec::new();
        }
        let machine = self.machine;
        let mut all = Vec::new();
        for number in &device.members {
            let index = self.by_number.get(number);
            let member = index.and_then(|&index| machine.devices.get(index));
            if let Some(member) = member.filter(|member| member.number != device.number) {
                all.push(self.suits(member, depth + 1));
            }
        }
        all
    }

    fn plateau(&self, device: &Device, class: Class) -> Option<Reason> {
        let measured = self.measured.of(&device.identity)?;
        // A guess must not become a setting.
        if !measured.certain {
            return None;
        }
        let plateau = measured.plateau().count();
        let suited = class.suited(self.expected.reading, None);
        // A probe measures throughput; a program that doesn't read in streams wants less.
        let is_small = matches!(self.expected.reading, Reading::Mapped | Reading::Random);
        if is_small && suited.kib.is_some_and(|kib| kib <= plateau) {
            return None;
        }
        Some(Reason {
            rule: Rule::Plateau,
            of: None,
            kib: Some(plateau),
            brief: "measured plateau".to_owned(),
            text: format!(
                "`foreread probe` measured that throughput stops growing at {} KiB",
                grouped(plateau)
            ),
        })
    }

    /// The size that follows from the members, and the reason that limits the largest of them.
    fn of_members(
        &self,
        device: &Device,
        class: Class,
        members: &[Suits],
    ) -> Option<(Reason, Option<Reason>)> {
        let sizes: Vec<u64> = members.iter().filter_map(|member| member.kib).collect();
        let found = combined(device, &sizes, self.expected.reading)?;
        let own = (class == Class::Btrfs)
            .then(|| self.of_class(device, class))
            .filter(|own| own.kib > Some(found.kib));
        if let Some(own) = own {
            return Some((own, None));
        }
        let largest = members.iter().rev().max_by_key(|member| member.kib);
        let limited = largest.and_then(Suits::to_pass_on);
        let brief = match &limited {
            Some(below) if found.is_as_member => {
                let of = below.of.as_deref().unwrap_or_default();
                format!("{of}: {}", below.brief)
            }
            _ => found.brief,
        };
        let reason = Reason {
            rule: Rule::Members,
            of: None,
            kib: Some(found.kib),
            brief,
            text: found.why,
        };
        Some((reason, limited))
    }

    fn of_class(&self, device: &Device, class: Class) -> Reason {
        if device.is_idle() {
            return Reason {
                rule: Rule::Class,
                of: None,
                kib: None,
                brief: "left alone".to_owned(),
                text: "there is nothing on it to wait for".to_owned(),
            };
        }
        let rsize_bytes = device.mount().and_then(|mount| mount.rsize_bytes());
        let suited = class.suited(self.expected.reading, rsize_bytes);
        let is_default = suited.brief == "default";
        Reason {
            rule: if is_default {
                Rule::Default
            } else {
                Rule::Class
            },
            of: None,
            kib: suited.kib,
            brief: suited.brief,
            text: suited.why,
        }
    }

    /// The memory rule and the floor.
    fn within_memory(&self, suits: Suits) -> (Option<u64>, Rule, Vec<Reason>) {
        let Suits {
            kib,
            mut bound,
            mut reasons,
            has_floor,
            ..
        } = suits;
        // The kernel counts whole pages. None at all is meant as such.
        let whole_pages = |kib: u64| match kib {
            0 => 0,
            _ => (kib / PAGE_KIB * PAGE_KIB).max(PAGE_KIB),
        };
        let Some(suited) = kib.map(whole_pages) else {
            return (None, bound, reasons);
        };
        let mut advised = suited;
        if let Some(memory_bytes) = self.machine.memory_bytes {
            for limit in self.memory_limits(memory_bytes) {
                if let Some(most) = limit.kib.filter(|most| *most < advised) {
                    (advised, bound) = (most, limit.rule);
                    reasons.push(limit);
                }
            }
        }
        // The suitable size of a random reader may be below the floor.
        let floor = match self.expected.reading {
            _ if !has_floor => PAGE_KIB.min(suited),
            Reading::Mixed | Reading::Sequential => FLOOR.count(),
            Reading::Mapped | Reading::Random => FLOOR.count().min(suited),
        };
        if advised < floor {
            (advised, bound) = (floor, Rule::Floor);
            reasons.push(Reason {
                rule: Rule::Floor,
                of: None,
                kib: Some(floor),
                brief: "floor".to_owned(),
                text: format!(
                    "never less than {floor} KiB on a device that holds as much as this one: every \
                     read would be a request of its own"
                ),
            });
        }
        (Some(advised), bound, reasons)
    }

    fn memory_limits(&self, memory_bytes: u64) -> [Reason; 2] {
        let streams = self.expected.streams;
        let all = streams_max(memory_bytes, streams).count();
        let around = around_max(memory_bytes).map(KiB::count);
        [
            Reason {
                rule: Rule::Streams,
                of: None,
                kib: Some(all),
                brief: format!("memory, {streams} streams"),
                text: format!(
                    "two windows each of {streams} streams fit into 1/{MEMORY_SHARE} of memory up to \
                     {} KiB",
                    grouped(all)
                ),
            },
            Reason {
                rule: Rule::ReadAround,
                of: None,
                kib: around,
                brief: "memory/1024".to_owned(),
                text: format!(
                    "a fault in a mapping reads a whole window around it, and that is at most 1/1024 \
                     of memory, {} KiB",
                    grouped(around.unwrap_or(0))
                ),
            },
        ]
    }
}

fn is_loop(device: &Device) -> bool {
    device
        .block()
        .is_some_and(|block| matches!(block.stack, Stack::Loop { .. }))
}

/// The capacity cap. What a probe measured is known better, but for small devices: there every read
/// in vain is a large part of the device.
fn cap(device: &Device, suits: &mut Suits) {
    let cap = capacity_cap(device.identity.capacity_bytes);
    suits.has_floor = has_floor(cap);
    let Some(cap) = cap else {
        return;
    };
    let is_over = suits.kib.is_some_and(|kib| kib > cap.count());
    if !is_over || (suits.bound == Rule::Plateau && has_floor(Some(cap))) {
        return;
    }
    let kib = setting_of_cap(cap).count();
    let why = match kib {
        0 => "one page, and that is set as 0 KiB: beside a window of one page Linux reads as much \
              again as a program asked for"
            .to_owned(),
        kib => format!("{} KiB", grouped(kib)),
    };
    suits.kib = Some(kib);
    suits.bound = Rule::CapacityCap;
    suits.reasons.push(Reason {
        rule: Rule::CapacityCap,
        of: None,
        kib: Some(kib),
        brief: "capacity cap".to_owned(),
        text: format!("small devices are slow ones: for what this one holds the cap is {why}"),
    });
}

/// Settings of others that are meant for the device and come to something else. Of udev's rules for
/// certain the last one counts.
fn conflicts(device: &Device, advised_kib: Option<u64>, others: &[OtherSetting]) -> Vec<Conflict> {
    let Some(advised) = advised_kib else {
        return Vec::new();
    };
    let mut found: Vec<Conflict> = Vec::new();
    for other in others {
        let meant = other.meant_for(device);
        if meant == Meant::No {
            continue;
        }
        let is_certain = meant == Meant::Yes;
        if is_certain {
            found.retain(|earlier| earlier.other.setter != other.setter);
        }
        let differs = match other.value {
            OtherValue::Kib(kib) => kib != advised,
            OtherValue::AtLeastKib(kib) => kib > advised,
            // nfsrahead's rule says "what it prints"; its configuration is read for itself.
            OtherValue::Unknown => is_certain,
        };
        if differs {
            found.push(Conflict {
                other: other.clone(),
                is_certain,
            });
        }
    }
    found
}
