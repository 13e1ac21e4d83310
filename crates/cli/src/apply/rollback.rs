// SPDX-License-Identifier: MIT OR Apache-2.0
//! `rollback`: restores settings that `apply` changed, unless another program has changed them
//! since.

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use foreread_device::{Entry, Journal, RolledBack, roll_back};
use foreread_linux_sizing::devices;
use foreread_linux_sizing::knobs::SysfsKnobs;
use foreread_sys::clock::now_unix_s;

use super::args::RollbackArguments;
use super::change::put_back_probed;
use super::journal_file::{self, JournalFile};
use super::report::RollbackReport;
use super::{human, json, persist};
use crate::device_state::DeviceState;
use crate::{EXIT_FAILURE, EXIT_PARTLY, text};

/// There was nothing to undo.
const EXIT_NOTHING: u8 = 1;

pub fn rollback(arguments: &RollbackArguments) -> Result<ExitCode> {
    if arguments.devices.is_empty() && !arguments.all && !arguments.persist {
        bail!("roll back what? Name devices, or say --all; `foreread status` lists them");
    }
    let sysroot = &arguments.tree.sysroot;
    let undone = undo(arguments)?;
    let removed = match arguments.persist {
        true => Some(persist::remove(sysroot)?),
        false => None,
    };
    let report = RollbackReport {
        undone,
        removed,
        rule: persist::path(sysroot),
    };
    if arguments.tree.json {
        text::print_json(&json::RollbackJson::of(&report))?;
    } else {
        text::print(&human::rolled_back(&report))?;
    }
    Ok(exit(&report))
}

fn exit(report: &RollbackReport) -> ExitCode {
    let is_failure = |(_, answer): &&(Entry, RolledBack)| matches!(answer, RolledBack::Failed(_));
    let failures = report.undone.iter().filter(is_failure).count();
    let other_work = report.removed == Some(true);
    if report.undone.is_empty() && !other_work {
        ExitCode::from(EXIT_NOTHING)
    } else if failures == 0 {
        ExitCode::SUCCESS
    } else if failures == report.undone.len() && !other_work {
        ExitCode::from(EXIT_FAILURE)
    } else {
        ExitCode::from(EXIT_PARTLY)
    }
}

fn undo(arguments: &RollbackArguments) -> Result<Vec<(Entry, RolledBack)>> {
    let sysroot = &arguments.tree.sysroot;
    let state = DeviceState::until_stop(sysroot);
    put_back_probed(&state);
    // Nothing was ever changed: nothing to lock, and no directory to make.
    if journal_file::read(&state)?.open().next().is_none() {
        return named(arguments, &Journal::default()).map(|_| Vec::new());
    }
    let locked = state.lock()?;
    let mut journal = journal_file::read(locked.state())?;
    let entries = named(arguments, &journal)?;
    let numbers: Vec<_> = entries.iter().map(|entry| entry.number).collect();
    let mut knobs = SysfsKnobs::below(sysroot);
    let mut keeper = JournalFile(&locked);
    let answers = roll_back(
        &mut journal,
        &mut knobs,
        &mut keeper,
        &numbers,
        now_unix_s(),
    )?;
    let with_answer = entries.into_iter().zip(answers);
    Ok(with_answer
        .filter_map(|(entry, answer)| Some((entry, answer?)))
        .collect())
}

/// The open entries that are meant. A device that has gone is known to the journal by its name.
fn named(arguments: &RollbackArguments, journal: &Journal) -> Result<Vec<Entry>> {
    if arguments.all {
        return Ok(journal.open().cloned().collect());
    }
    let machine = devices::read(&arguments.tree.sysroot);
    let mut entries: Vec<Entry> = Vec::new();
    for name in &arguments.devices {
        let device = devices::find(&machine, &arguments.tree.sysroot, name);
        let entry = device
            .and_then(|device| journal.open_of(device.number))
            .or_else(|| journal.open().find(|entry| entry.is_called(name)));
        match entry {
            Some(entry) if entries.iter().all(|known| known.id != entry.id) => {
                entries.push(entry.clone());
            }
            Some(_) => {}
            None => {
                device
                    .with_context(|| format!("{name}: no such device, and none in the journal"))?;
            }
        }
    }
    Ok(entries)
}
