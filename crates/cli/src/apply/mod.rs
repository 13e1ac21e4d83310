// SPDX-License-Identifier: MIT OR Apache-2.0
//! `apply`, `status` and `rollback`: changes readahead sizes, watches over what was changed, and
//! changes it back.

pub mod args;
mod document;
mod journal_file;
mod people;
mod persist;
mod rollback;
mod status;
mod udev;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use foreread_device::{Advice, Applied, Device, DeviceNumber, Machine, Origin, Wish};
use foreread_linux::knobs::SysfsKnobs;
use foreread_linux::open_files::{self, OpenFiles};

use crate::advise::{Advised, Shown};
use crate::device_state::DeviceState;
use crate::probing::put_back_interrupted;
use crate::{EXIT_FAILURE, output, text};
use args::ApplyArguments;
use journal_file::JournalFile;
pub use rollback::rollback;
pub use status::status;

/// Part of what was asked for was done.
const EXIT_PART: u8 = 64;

/// A value that a killed probe has left is nobody's.
fn put_back_probed(state: &DeviceState) {
    for done in put_back_interrupted(state) {
        output::note(&done);
    }
}

/// What was wished for one device, and what came of it.
pub struct Done {
    pub device: Device,
    pub wish: Wish,
    pub applied: Applied,
}

pub fn apply(arguments: &ApplyArguments) -> Result<ExitCode> {
    if let Some(name) = &arguments.udev {
        return udev::apply(name, &arguments.tree.sysroot);
    }
    if arguments.devices.is_empty() && !arguments.all && !arguments.persist {
        bail!("apply to what? Name devices, or say --all; `foreread advise` lists them");
    }
    let sysroot = &arguments.tree.sysroot;
    let advised = Advised::read(sysroot, arguments.expected.expected());
    let machine = &advised.machine;
    let wishes = wishes(arguments, &advised)?;
    let (done, exit) = if arguments.dry_run {
        (Vec::new(), ExitCode::SUCCESS)
    } else {
        make(arguments, machine, &wishes)?
    };
    let installed = match arguments.persist && !arguments.dry_run {
        true => Some(persist::install(sysroot)?),
        false => None,
    };
    let report = Report {
        dry_run: arguments.dry_run,
        holders: holders(machine, &done),
        wishes: wished(machine, &wishes),
        done,
        installed,
        rule: persist::path(sysroot),
    };
    if arguments.tree.json {
        text::print_json(&document::applied(&report))?;
    } else {
        text::print(&people::applied(&report))?;
    }
    Ok(exit)
}

/// What `apply` has to tell.
pub struct Report {
    pub dry_run: bool,
    /// What is wished for, and what is set now.
    pub wishes: Vec<(Device, Wish)>,
    /// What came of it; nothing when nothing was to be done.
    pub done: Vec<Done>,
    /// Who keeps the old value.
    pub holders: OpenFiles,
    /// Whether the udev rule was changed, if it was asked for.
    pub installed: Option<bool>,
    pub rule: PathBuf,
}

fn wished(machine: &Machine, wishes: &[Wish]) -> Vec<(Device, Wish)> {
    let with_device = |wish: &Wish| Some((machine.device(wish.number)?.clone(), wish.clone()));
    wishes.iter().filter_map(with_device).collect()
}

fn make(
    arguments: &ApplyArguments,
    machine: &Machine,
    wishes: &[Wish],
) -> Result<(Vec<Done>, ExitCode)> {
    if wishes.is_empty() {
        return Ok((Vec::new(), ExitCode::SUCCESS));
    }
    let applied = change(&arguments.tree.sysroot, wishes)?;
    let done: Vec<Done> = wished(machine, wishes)
        .into_iter()
        .zip(applied)
        .map(|((device, wish), applied)| Done {
            device,
            wish,
            applied,
        })
        .collect();
    let as_wished =
        |done: &&Done| matches!(done.applied, Applied::Changed { .. } | Applied::AlreadySo);
    let successes = done.iter().filter(as_wished).count();
    // With --all, what others have set is no failure.
    let stays = |done: &&Done| {
        arguments.all
            && matches!(
                done.applied,
                Applied::Foreign { .. } | Applied::Manual { .. }
            )
    };
    let left = done.iter().filter(stays).count();
    let exit = if successes + left == done.len() {
        ExitCode::SUCCESS
    } else if successes == 0 {
        ExitCode::from(EXIT_FAILURE)
    } else {
        ExitCode::from(EXIT_PART)
    };
    Ok((done, exit))
}

/// Changes settings and writes that into the journal.
fn change(sysroot: &Path, wishes: &[Wish]) -> Result<Vec<Applied>> {
    let state = DeviceState::until_stop(sysroot);
    put_back_probed(&state);
    let locked = state
        .lock()
        .context("nothing is changed that can't be journalled")?;
    let mut journal = journal_file::read(locked.state())?;
    let mut knobs = SysfsKnobs::below(sysroot);
    let mut keeper = JournalFile(&locked);
    let applied =
        foreread_device::apply(&mut journal, &mut knobs, &mut keeper, wishes, now_unix_s())?;
    Ok(applied)
}

fn wishes(arguments: &ApplyArguments, advised: &Advised) -> Result<Vec<Wish>> {
    let named = advised.named(&arguments.tree.sysroot, &arguments.devices)?;
    if let Some(size) = arguments.read_ahead {
        let wish = |(device, _): &Shown<'_>| Wish {
            number: device.number,
            identity: device.identity.clone(),
            kib: size.count(),
            reason: "named by a person".to_owned(),
            origin: Origin::Person,
            take_over: arguments.take_over,
        };
        return Ok(named.iter().map(wish).collect());
    }
    if !arguments.all {
        let wish = |shown: &Shown<'_>| wish_of_named(arguments, *shown);
        return named.iter().map(wish).collect();
    }
    let of_use = advised
        .all()
        .filter(|(device, advice)| !device.is_idle() && advice.is_change());
    Ok(of_use.filter_map(wish_unless_in_conflict).collect())
}

/// What is advised for a device that was named; why not, when it isn't to be had.
fn wish_of_named(arguments: &ApplyArguments, (device, advice): Shown<'_>) -> Result<Wish> {
    let name = &device.identity.name;
    let Some(kib) = advice.advised_kib else {
        bail!(
            "nothing is advised for {name}: {}; name a size by --read-ahead",
            advice.brief()
        );
    };
    if !advice.conflicts.is_empty() && !arguments.take_over {
        bail!(
            "{}; change it there, or say --take-over",
            conflict(name, advice)
        );
    }
    Ok(wish(
        device,
        advice,
        kib,
        Origin::Advice,
        arguments.take_over,
    ))
}

/// What is advised for one of all devices. What others set is named and left to them.
fn wish_unless_in_conflict((device, advice): Shown<'_>) -> Option<Wish> {
    let kib = advice.advised_kib?;
    if !advice.conflicts.is_empty() {
        output::note(&format!(
            "{}; it stays",
            conflict(&device.identity.name, advice)
        ));
        return None;
    }
    Some(wish(device, advice, kib, Origin::Advice, false))
}

fn wish(device: &Device, advice: &Advice, kib: u64, origin: Origin, take_over: bool) -> Wish {
    Wish {
        number: device.number,
        identity: device.identity.clone(),
        kib,
        reason: advice.brief().to_owned(),
        origin,
        take_over,
    }
}

fn conflict(name: &str, advice: &Advice) -> String {
    let others = advice.conflicts.iter().map(|conflict| {
        let other = &conflict.other;
        format!("{} in {}", other.setter.name(), other.place)
    });
    let others: Vec<String> = others.collect();
    format!("{name} is set by others: {}", others.join(", "))
}

/// Who has files open of what was changed. That it can't be told is no failure of what was done.
fn holders(machine: &Machine, done: &[Done]) -> OpenFiles {
    let changed = done
        .iter()
        .filter(|done| matches!(done.applied, Applied::Changed { .. }));
    let mut numbers: BTreeSet<DeviceNumber> = changed.map(|done| done.device.number).collect();
    if numbers.is_empty() {
        return OpenFiles::default();
    }
    let parts = machine.partitions.iter();
    let parts: Vec<DeviceNumber> = parts
        .filter(|part| numbers.contains(&part.disk))
        .map(|part| part.number)
        .collect();
    numbers.extend(parts);
    open_files::of_devices(&numbers).unwrap_or_default()
}

/// Seconds since 1970.
fn now_unix_s() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_secs())
}
