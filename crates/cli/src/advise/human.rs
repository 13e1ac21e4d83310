// SPDX-License-Identifier: MIT OR Apache-2.0
//! Advice for people: a table, and prose.

use foreread_core::{Bytes, KiB, grouped};
use foreread_device::{
    Advice, Class, Conflict, Device, DeviceKind, Machine, MapperMaker, OtherValue, Reason, Rule,
    Stack,
};

use super::Shown;
use crate::output;
use crate::table::{self, finished};
use crate::text::printable;

/// Columns that a name may take in the table.
const NAME_COLUMNS_MAX: usize = 28;

/// One line a device.
pub fn table(shown: &[Shown<'_>], left_out: usize) -> String {
    let mut rows = table::table(&[
        "device",
        "what it is",
        "size",
        "now KiB",
        "from",
        "advised KiB",
        "because of",
    ]);
    let mut below: Vec<(String, Vec<String>)> = Vec::new();
    for (device, advice) in shown {
        rows.add_row(row(device, advice));
        for line in remarks(device, advice) {
            let of = shortened(&name(device));
            match below.iter_mut().find(|(known, _)| *known == line) {
                Some((_, names)) => names.push(of),
                None => below.push((line, vec![of])),
            }
        }
    }
    let mut text = match shown {
        [] => "no device with readahead of its own\n".to_owned(),
        _ => finished(rows, &[0, 1, 4, 6]),
    };
    if !below.is_empty() {
        text.push('\n');
    }
    for (line, names) in &below {
        text += &format!("{}: {line}\n", some_of(names));
    }
    text + &closing(shown, left_out)
}

/// The first of many names.
fn some_of(names: &[String]) -> String {
    const NAMES_MAX: usize = 6;
    let shown = names.get(..NAMES_MAX).unwrap_or(names).join(", ");
    match names.len().saturating_sub(NAMES_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn row(device: &Device, advice: &Advice) -> [String; 7] {
    let capacity = device.identity.capacity_bytes;
    [
        shortened(&name(device)),
        printable(&what(device)),
        capacity.map_or("-".to_owned(), |bytes| {
            Bytes::new(bytes).human().to_string()
        }),
        advice.now_kib.map_or("-".to_owned(), grouped),
        advice.source.brief().to_owned(),
        match advice.advised_kib {
            Some(kib) if advice.is_change() => grouped(kib),
            Some(_) => "as it is".to_owned(),
            None => "-".to_owned(),
        },
        advice.brief().to_owned(),
    ]
}

/// The closing lines: commands that explain and apply the advice, and the devices left out.
fn closing(shown: &[Shown<'_>], left_out: usize) -> String {
    let changes = shown
        .iter()
        .filter(|(_, advice)| advice.is_change())
        .count();
    let mut text = match changes {
        0 => String::new(),
        _ => "\nforeread advise --explain says why, foreread apply sets it.\n".to_owned(),
    };
    if left_out > 0 {
        let what = if left_out == 1 { "device" } else { "devices" };
        text += &format!(
            "\n{} {what} left out: memory, and loop devices without a file. Named, they are shown.\n",
            grouped(left_out as u64)
        );
    }
    text
}

/// Remarks below the table: conflicts, a measurement that isn't used, and sources that could not be
/// read.
pub fn remarks(device: &Device, advice: &Advice) -> Vec<String> {
    let mut all: Vec<String> = advice.conflicts.iter().map(conflict).collect();
    all.extend(advice.uncertain_plateau.map(uncertain));
    if !device.unseen.is_empty() {
        all.push(format!("not seen: {}", device.unseen.join("; ")));
    }
    all.into_iter().map(|line| printable(&line)).collect()
}

/// Why a measured plateau isn't used.
pub fn uncertain(plateau: KiB) -> String {
    format!(
        "the plateau that a probe measured, {} KiB, is not certain and not used; a longer \
         `foreread probe` (--max-time) may settle it",
        grouped(plateau.count())
    )
}

fn conflict(conflict: &Conflict) -> String {
    let Conflict { other, is_certain } = conflict;
    let value = match other.value {
        OtherValue::Kib(kib) => format!("{} KiB", grouped(kib)),
        OtherValue::AtLeastKib(kib) => format!("at least {} KiB", grouped(kib)),
        OtherValue::Unknown => "a value that can't be told from here".to_owned(),
    };
    let sets = if *is_certain { "sets" } else { "may set" };
    format!(
        "a {} ({}) {sets} {value}; to follow the advice, change it there",
        other.setter.name(),
        other.place
    )
}

/// Display name of the device: a disk's kernel name, a mount's first mount point.
pub fn name(device: &Device) -> String {
    let name = match &device.kind {
        DeviceKind::Mount(_) => device.mount_points.first().unwrap_or(&device.identity.name),
        DeviceKind::Block(_) => &device.identity.name,
    };
    printable(name)
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= NAME_COLUMNS_MAX {
        return text.to_owned();
    }
    text.chars()
        .take(NAME_COLUMNS_MAX - 1)
        .chain(['…'])
        .collect()
}

/// Describes the device in a few words.
pub fn what(device: &Device) -> String {
    let class = Class::of(device);
    let block = match &device.kind {
        DeviceKind::Mount(mount) => return mount.fs_type.clone(),
        DeviceKind::Block(block) => block,
    };
    match &block.stack {
        Stack::Mapper { maker, mapping } => {
            let maker = match maker {
                MapperMaker::Lvm => "LVM",
                MapperMaker::Crypt => "encrypted",
                MapperMaker::Multipath => "multipath",
                MapperMaker::Partition => "partition",
                MapperMaker::Other => "mapping",
            };
            format!("{maker} {mapping}")
        }
        Stack::Raid { level, .. } => format!("{level}, {} disks", device.members.len()),
        Stack::Loop {
            backing_file: Some(file),
        } => format!("loop, {}", shortened(file)),
        Stack::Loop { backing_file: None } => "loop without a file".to_owned(),
        Stack::Bcache => "disk with a cache".to_owned(),
        Stack::None if class == Class::Unknown => block.transport.name().to_owned(),
        Stack::None => {
            let zoned = if block.is_zoned { ", zoned" } else { "" };
            let over = match class {
                Class::Array | Class::SolidState | Class::Rotating | Class::Virtual => {
                    format!(" ({})", block.transport.name())
                }
                _ => String::new(),
            };
            format!("{}{over}{zoned}", class.name())
        }
    }
}

/// A paragraph a device.
pub fn prose(shown: &[Shown<'_>], machine: &Machine) -> String {
    let paragraphs = shown
        .iter()
        .map(|(device, advice)| paragraph(device, advice, machine));
    let paragraphs: Vec<String> = paragraphs.collect();
    match paragraphs.is_empty() {
        true => "no device with readahead of its own\n".to_owned(),
        false => paragraphs.join("\n"),
    }
}

fn paragraph(device: &Device, advice: &Advice, machine: &Machine) -> String {
    let mut sentences = vec![format!(
        "{}: {}",
        name(device),
        description(device, machine)
    )];
    sentences.push(match advice.now_kib {
        Some(kib) => format!(
            "It reads ahead up to {} KiB, {}",
            grouped(kib),
            advice.source
        ),
        None => "What it reads ahead can't be read".to_owned(),
    });
    sentences.extend(advice.reasons.iter().map(reason));
    sentences.push(conclusion(advice));
    if advice.is_change() {
        sentences.push(format!("To set it: foreread apply {}", name(device)));
    }
    sentences.extend(remarks(device, advice).iter().map(|line| capital(line)));
    let text: String = sentences
        .iter()
        .map(|s| format!("{}. ", printable(s)))
        .collect();
    wrapped(text.trim_end())
}

/// A rule's word as a sentence without its end.
fn reason(reason: &Reason) -> String {
    let suits = matches!(
        reason.rule,
        Rule::Class | Rule::Default | Rule::Members | Rule::Plateau
    );
    let size = reason
        .kib
        .filter(|_| suits)
        .map(|kib| format!("{} KiB", grouped(kib)));
    match (&reason.of, size) {
        (Some(of), Some(size)) => format!("{size} suit {of} below it: {}", reason.text),
        (Some(of), None) => format!("{of} below it: {}", reason.text),
        (None, Some(size)) => format!("{size} suit it: {}", reason.text),
        (None, None) => capital(&reason.text),
    }
}

fn description(device: &Device, machine: &Machine) -> String {
    let mut parts = vec![what(device)];
    parts.extend(device.identity.model.clone());
    if let Some(bytes) = device.identity.capacity_bytes {
        parts.push(Bytes::new(bytes).human().to_string());
    } else if device.block().is_some() && !device.is_idle() {
        parts.push("of unknown size".to_owned());
    }
    let members = device.members.iter().map(|number| {
        let member = machine.device(*number);
        member.map_or_else(|| number.to_string(), name)
    });
    let members: Vec<String> = members.collect();
    if !members.is_empty() {
        parts.push(format!("on {}", members.join(", ")));
    }
    if device.block().is_some() && !device.mount_points.is_empty() {
        parts.push(format!("mounted at {}", device.mount_points.join(", ")));
    }
    parts.join(", ")
}

/// The advised value in all four units.
fn conclusion(advice: &Advice) -> String {
    let Some(kib) = advice.advised_kib else {
        return "So it should be left alone".to_owned();
    };
    let units = output::in_all_units(KiB::new(kib));
    match advice.is_change() {
        true => format!("So it should be {units}"),
        false => format!("So it is as it should be: {units}"),
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}

/// Lines of up to 78 columns, with a newline at the end.
fn wrapped(text: &str) -> String {
    const COLUMNS_MAX: usize = 78;
    let mut out = String::with_capacity(text.len() + 8);
    let mut columns = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if columns > 0 && columns + 1 + length > COLUMNS_MAX {
            out.push('\n');
            columns = 0;
        } else if columns > 0 {
            out.push(' ');
            columns += 1;
        }
        out.push_str(word);
        columns += length;
    }
    out + "\n"
}
