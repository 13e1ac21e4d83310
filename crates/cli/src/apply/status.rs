// SPDX-License-Identifier: MIT OR Apache-2.0
//! `status`: what was changed, and what became of it.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use foreread_device::{Entry, Journal, Machine, Standing, look, recover};
use foreread_linux_sizing::devices;
use foreread_linux_sizing::knobs::SysfsKnobs;
use foreread_sys::clock::now_unix_s;

use super::args::StatusArguments;
use super::report::StatusReport;
use super::{human, journal_file, json, persist};
use crate::device_state::DeviceState;
use crate::text;

/// Something isn't as it was applied.
const EXIT_NOT_IN_FORCE: u8 = 1;

pub fn status(arguments: &StatusArguments) -> Result<ExitCode> {
    let sysroot = &arguments.tree.sysroot;
    let journal = read(sysroot)?;
    let is_meant = meant(arguments, &journal)?;
    let report = standing(sysroot, &journal, arguments.history, is_meant)?;
    if arguments.tree.json {
        text::print_json(&json::StatusJson::of(&report))?;
    } else {
        text::print(&human::status(&report))?;
    }
    let in_force =
        |(_, standing): &(Entry, Standing)| matches!(standing, Standing::Ours | Standing::Manual);
    Ok(match report.open.iter().all(in_force) {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(EXIT_NOT_IN_FORCE),
    })
}

/// What is applied to the devices of the machine below `sysroot`, and what became of it.
pub fn look_at(sysroot: &Path) -> Result<StatusReport> {
    standing(sysroot, &read(sysroot)?, false, |_| true)
}

/// The journal, with what an interrupted change left put right.
fn read(sysroot: &Path) -> Result<Journal> {
    let mut journal = journal_file::read(&DeviceState::until_stop(sysroot))?;
    // In memory only: a look changes nothing, and another process may be at it just now.
    recover(&mut journal, &mut SysfsKnobs::below(sysroot), now_unix_s());
    Ok(journal)
}

fn standing(
    sysroot: &Path,
    journal: &Journal,
    with_closed: bool,
    is_meant: impl Fn(&Entry) -> bool,
) -> Result<StatusReport> {
    let mut knobs = SysfsKnobs::below(sysroot);
    let mut open = Vec::new();
    for entry in journal.open().filter(|entry| is_meant(entry)) {
        let present = look(&mut knobs, entry.number)?;
        let present = present.as_ref().map(|(identity, kib)| (identity, *kib));
        open.push((entry.clone(), entry.standing(present)));
    }
    let closed = journal.closed().filter(|entry| is_meant(entry)).cloned();
    Ok(StatusReport {
        open,
        closed: with_closed.then(|| closed.collect()),
        rule: persist::look(sysroot)?,
        rule_path: persist::path(sysroot),
    })
}

/// Which entries are of the devices that were named.
fn meant(
    arguments: &StatusArguments,
    journal: &Journal,
) -> Result<impl Fn(&Entry) -> bool + use<>> {
    let mut numbers = Vec::new();
    let all = arguments.devices.is_empty();
    // All need not be found.
    let machine = match all {
        true => Machine::default(),
        false => devices::read(&arguments.tree.sysroot),
    };
    for name in &arguments.devices {
        let known = journal.open().chain(journal.closed());
        let mut known = known.filter(|entry| entry.is_called(name));
        match devices::find(&machine, &arguments.tree.sysroot, name).map(|device| device.number) {
            Some(number) => numbers.push(number),
            None => match known.next() {
                Some(entry) => numbers.push(entry.number),
                None => bail!("{name}: no such device, and none in the journal"),
            },
        }
    }
    Ok(move |entry: &Entry| all || numbers.contains(&entry.number))
}
