// SPDX-License-Identifier: MIT OR Apache-2.0
//! `apply`, `status` and `rollback`: changes readahead sizes, watches over what was changed, and
//! changes it back.

pub mod args;
mod change;
pub mod human;
mod journal_file;
pub mod json;
mod persist;
pub mod report;
mod rollback;
mod status;
mod udev;

use std::collections::BTreeSet;
use std::process::ExitCode;

use anyhow::{Result, bail};
use foreread_device::{Advice, Applied, Device, DeviceNumber, Machine, Origin, Wish};
use foreread_sys::open_files::{self, OpenFiles};

use crate::advise::{Advised, Shown, human as human_advice};
use crate::{EXIT_FAILURE, output, text};
use args::ApplyArguments;
use change::{change, wish};
pub use report::StatusReport;
use report::{ApplyReport, Done};
pub use rollback::rollback;
pub use status::status;

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
    note_unused(arguments, &advised)?;
    let (done, exit) = if arguments.dry_run {
        (Vec::new(), ExitCode::SUCCESS)
    } else {
        make(arguments, machine, &wishes)?
    };
    let installed = match (arguments.persist, arguments.dry_run) {
        (false, _) => None,
        (true, true) => Some(persist::lacking(sysroot)?.is_some()),
        (true, false) => Some(persist::install(sysroot)?),
    };
    let report = ApplyReport {
        dry_run: arguments.dry_run,
        holders: holders(machine, &done),
        wishes: wished(machine, &wishes),
        done,
        installed,
        rule: persist::path(sysroot),
    };
    if arguments.tree.json {
        text::print_json(&json::ApplyJson::of(&report))?;
    } else {
        text::print(&human::applied(&report))?;
    }
    Ok(exit)
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
        ExitCode::from(crate::EXIT_PARTLY)
    };
    Ok((done, exit))
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

/// Names the measurements that aren't used, of the devices that are asked for.
fn note_unused(arguments: &ApplyArguments, advised: &Advised) -> Result<()> {
    if arguments.read_ahead.is_some() {
        return Ok(());
    }
    let shown = match arguments.all {
        true => advised.all().collect(),
        false => advised.named(&arguments.tree.sysroot, &arguments.devices)?,
    };
    for (device, advice) in shown {
        if let Some(plateau) = advice.uncertain_plateau {
            let why = human_advice::uncertain(plateau);
            output::note(&format!("{}: {why}", human_advice::name(device)));
        }
    }
    Ok(())
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

/// The wish for one of all devices. A setting in conflict is reported and left as it is.
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

fn conflict(name: &str, advice: &Advice) -> String {
    let others = advice.conflicts.iter().map(|conflict| {
        let other = &conflict.other;
        format!("{} in {}", other.setter.name(), other.place)
    });
    let others: Vec<String> = others.collect();
    format!("{name} is set by others: {}", others.join(", "))
}

/// Processes that have files of the changed devices open. If they cannot be found, the list is
/// empty: the change itself has succeeded.
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
