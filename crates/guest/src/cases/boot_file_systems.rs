// SPDX-License-Identifier: MIT OR Apache-2.0
//! Boots of the system with 40 services from other file systems, in virtual time, from modelled
//! hard disks. Its root is a btrfs with subvolumes or an XFS, or its `/var` is on a second disk. A
//! replay must cover each file system, and lose no time.

use foreread_guest::GuestError;
use foreread_profile::{Profile, decode};

use super::{Beside, Case};
use crate::begin::Begin;
use crate::boot_machine::{BootMachine, Booted, Disks, Setup, System, up_s};
use crate::context::{Context, Row};

pub const CASE: Case = Case {
    name: "boot-file-systems",
    about: "`boot`: 40 services on btrfs subvolumes, on XFS, and with /var on a second disk, in virtual time",
    beside: Beside::Anything,
    run,
};

/// Of the pages that a replay is to read, the share that was in memory in the end.
const COVERED_MIN: f64 = 0.9;
/// Time of a replayed boot, over that of one without.
const TIME_MAX: f64 = 1.02;
/// Threads of the replay begin with one of these.
const REPLAY_THREADS: [&[u8]; 3] = [b"fetch", b"iou-wrk", b"foreread"];

/// A machine, and what it is to show.
struct Kind {
    name: &'static str,
    begin: Begin,
    disks: Disks,
    /// Mount points of which the profile must have pages.
    mounts: &'static [&'static str],
    /// Disks that the replay must read from.
    disk_names: &'static [&'static str],
}

const KINDS: [Kind; 5] = [
    Kind {
        name: "btrfs, @ and @var, unit",
        begin: Begin::Unit,
        disks: Disks::SubvolumeVar,
        mounts: &["/", "/var"],
        disk_names: &["root"],
    },
    Kind {
        name: "/var on a second disk, unit",
        begin: Begin::Unit,
        disks: Disks::SecondVar,
        mounts: &["/", "/var"],
        disk_names: &["root", "var"],
    },
    Kind {
        name: "btrfs, @ and @home, initramfs",
        begin: Begin::Initramfs,
        disks: Disks::SubvolumeHome,
        mounts: &["/"],
        disk_names: &["root"],
    },
    Kind {
        name: "XFS, initramfs",
        begin: Begin::Initramfs,
        disks: Disks::Xfs,
        mounts: &["/"],
        disk_names: &["root"],
    },
    // The image is made elsewhere, where nobody can tell that /var will be another disk.
    Kind {
        name: "/var on a second disk, initramfs",
        begin: Begin::Initramfs,
        disks: Disks::SecondVar,
        mounts: &["/", "/var"],
        disk_names: &["root", "var"],
    },
];

fn run(context: &Context<'_>, kernel: &str) -> Result<Vec<Row>, GuestError> {
    let mut rows = Vec::new();
    for kind in &KINDS {
        rows.extend(of_kind(context, kernel, kind)?);
    }
    Ok(rows)
}

fn of_kind(context: &Context<'_>, kernel: &str, kind: &Kind) -> Result<Vec<Row>, GuestError> {
    let setup = Setup {
        system: System::Services,
        begin: kind.begin,
        profile: None,
        is_relaid: false,
        disks: kind.disks,
    };
    let mut machine = BootMachine::new(context.lab, &context.foreread, kernel, "hdd", setup)?;
    machine.boot("record")?;
    let plain = machine.boots("plain", context.boots)?;
    let replayed = machine.boots("replay", context.boots)?;
    machine.set_disk("instant")?;
    let instant = machine.boots("plain", context.boots)?;

    let named = |name: &str| format!("{}: {name}", kind.name);
    let told = |boots: &[Booted]| boots.last().map(|boot| boot.outcome.output.clone());
    let is_as_asked = plain.are("plain") && replayed.are("replayed");
    let (cold_s, with_s) = (plain.median(up_s), replayed.median(up_s));
    let gain = (cold_s - with_s) / (cold_s - instant.median(up_s));
    let mut rows = vec![
        Row::asserted(
            named("boots are replayed and confirmed as asked for"),
            "all",
            if is_as_asked { "all" } else { "not all" },
            is_as_asked,
        )
        .detail(told(&replayed.0).unwrap_or_default()),
        Row::told(
            named("up, s: without; replayed; instant disk"),
            [&plain, &replayed, &instant]
                .map(|boots| boots.times())
                .join("; "),
        ),
        Row::asserted(
            named("replayed, over without"),
            format!("at most {TIME_MAX}"),
            format!("{:.2}", with_s / cold_s),
            with_s <= cold_s * TIME_MAX,
        ),
        Row::told(named("share of what can be gained"), format!("{gain:.2}")),
    ];
    if let Some(last) = replayed.0.last() {
        rows.extend(of_replay(last, kind)?);
    }
    // A run that is interrupted has told what it found.
    for Row { name, value, .. } in &rows {
        println!("{kernel} boot-file-systems {name}: {value}");
    }
    Ok(rows)
}

/// What the replay of a boot has covered.
fn of_replay(boot: &Booted, kind: &Kind) -> Result<Vec<Row>, GuestError> {
    let named = |name: &str| format!("{}: {name}", kind.name);
    let file = |name: &str| {
        let path = boot.outcome.files().join(name);
        std::fs::read(&path)
            .map_err(|error| GuestError::Unexpected(format!("no {name} of the boot: {error}")))
    };
    let profile = decode(&file("boot.frp")?)
        .map_err(|error| GuestError::Unexpected(format!("the profile of the boot: {error}")))?;
    let pages = kind.mounts.iter().map(|mount| pages_of(&profile, mount));
    let pages: Vec<u64> = pages.collect();
    let read = kind.disk_names.iter().map(|disk| {
        let records = file(&format!("{disk}.reads"))?;
        Ok(replayed_bytes(&records) >> 10)
    });
    let read_kib: Vec<u64> = read.collect::<Result<_, GuestError>>()?;
    // The lines of a process from the initramfs are in the kernel's log, and not among its unit's.
    let journal = file("journal")?;
    let covered = covered(&String::from_utf8_lossy(&journal)).unwrap_or(0.0);
    let each = |names: &[&str], values: &[u64]| {
        let pairs = names.iter().zip(values);
        let pairs: Vec<String> = pairs
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        pairs.join(", ")
    };
    Ok(vec![
        Row::asserted(
            named("pages of the profile by mount point"),
            "some of each",
            each(kind.mounts, &pages),
            pages.iter().all(|pages| *pages > 0),
        ),
        Row::asserted(
            named("read by the replay from each disk, KiB"),
            "some of each",
            each(kind.disk_names, &read_kib),
            read_kib.iter().all(|kib| *kib > 0),
        ),
        Row::asserted(
            named("of what it was to read, in memory in the end"),
            format!("at least {COVERED_MIN}"),
            format!("{covered:.2}"),
            covered >= COVERED_MIN,
        )
        .detail(boot.outcome.output.clone()),
    ])
}

/// Pages of the files of a profile on one file system.
fn pages_of(profile: &Profile, mount_point: &str) -> u64 {
    let is_on = |mount: u16| {
        let mount = profile.mounts.get(usize::from(mount));
        mount.is_some_and(|mount| mount.mount_point == mount_point.as_bytes())
    };
    let of_mount = profile.iter().filter(|(_, node)| is_on(node.mount));
    let ranges = of_mount.flat_map(|(id, _)| profile.ranges(id));
    ranges.map(|range| range.pages).sum()
}

/// Bytes that threads of the replay read, by the records of a disk's driver: `struct fr_record` of
/// tests/guest/disk/foreread_disk.c.
fn replayed_bytes(records: &[u8]) -> u64 {
    const RECORD_BYTES: usize = 48;
    const LENGTH_AT: usize = 24;
    const COMMAND_AT: usize = 32;
    let bytes = |record: &[u8]| {
        let command = record.get(COMMAND_AT..)?;
        let is_ours = REPLAY_THREADS.iter().any(|name| command.starts_with(name));
        let length = record.get(LENGTH_AT..LENGTH_AT + 4)?.try_into().ok()?;
        is_ours.then(|| u64::from(u32::from_le_bytes(length)))
    };
    let records = records.chunks_exact(RECORD_BYTES);
    records.filter_map(bytes).sum()
}

/// Of `read ahead 50 MiB of 60; 5 were cached`, the share of the 60.
fn covered(journal: &str) -> Option<f64> {
    let line = journal
        .lines()
        .find_map(|line| line.split_once("read ahead "))?;
    let numbers: Vec<f64> = line
        .1
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|word| word.parse().ok())
        .collect();
    let [arrived, planned, cached] = numbers[..] else {
        return None;
    };
    Some((arrived + cached) / planned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_the_replay_are_added_up() {
        let record = |length: u32, command: &[u8]| {
            let mut record = vec![0; 48];
            record[24..28].copy_from_slice(&length.to_le_bytes());
            record[32..32 + command.len()].copy_from_slice(command);
            record
        };
        let records = [
            record(4096, b"fetch-read"),
            record(512, b"systemd"),
            record(1024, b"iou-wrk-7"),
        ];
        assert_eq!(replayed_bytes(&records.concat()), 5120);
        assert_eq!(replayed_bytes(&[0; 40]), 0);
    }

    #[test]
    fn the_covered_share_is_read_from_the_journal() {
        let line = "x\nread ahead 50 MiB of 60; 4 were cached\n";
        assert_eq!(covered(line), Some(0.9));
        assert_eq!(covered("read ahead nothing"), None);
    }
}
