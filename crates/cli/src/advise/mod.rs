// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread advise`: what each device's readahead is, should be, and why.

pub mod args;
pub mod human;
pub mod json;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use foreread_device::{Advice, Device, Expected, Machine, advise as weigh};
use foreread_linux_sizing::devices;

use crate::device_state::DeviceState;
use crate::{output, text};
use args::AdviseArguments;

/// A machine with advice for all of its devices.
pub struct Advised {
    pub machine: Machine,
    /// In the order of the machine's devices.
    pub advice: Vec<Advice>,
    /// Sources about the whole machine that could not be read, a sentence each.
    pub notes: Vec<String>,
}

impl Advised {
    /// Reads the machine below `sysroot` and weighs what it finds.
    pub fn read(sysroot: &Path, expected: Expected) -> Self {
        Self::weigh(sysroot, devices::read(sysroot), expected)
    }

    /// The same with no more of the machine than one device needs, where that is possible: udev
    /// asks for each of perhaps a thousand disks.
    pub fn read_for(sysroot: &Path, name: &str, expected: Expected) -> Self {
        let machine = devices::read_below(sysroot, name);
        let machine = machine.unwrap_or_else(|| devices::read(sysroot));
        Self::weigh(sysroot, machine, expected)
    }

    fn weigh(sysroot: &Path, machine: Machine, expected: Expected) -> Self {
        let (others, unseen) = devices::others(sysroot);
        let mut notes: Vec<String> = machine.unseen.iter().chain(&unseen).cloned().collect();
        // Advice without what was measured is better than none.
        let measured = DeviceState::of(sysroot).measured().unwrap_or_else(|error| {
            notes.push(format!("what probes measured is left out: {error:#}"));
            foreread_device::MeasuredBook::default()
        });
        let advice = weigh(&machine, &others, &measured, expected);
        Self {
            machine,
            advice,
            notes,
        }
    }

    /// Every device with its advice.
    pub fn all(&self) -> impl Iterator<Item = Shown<'_>> {
        self.machine.devices.iter().zip(&self.advice)
    }

    /// Those that people named, each once, in the order of the names.
    pub fn named(&self, sysroot: &Path, names: &[String]) -> Result<Vec<Shown<'_>>> {
        let mut found: Vec<Shown<'_>> = Vec::new();
        for name in names {
            let device = devices::find(&self.machine, sysroot, name).with_context(|| {
                format!(
                    "{name}: no such device or mount with readahead of its own; `foreread advise` \
                     lists all"
                )
            })?;
            let is_found = found.iter().any(|(known, _)| known.number == device.number);
            let shown = self.all().find(|(known, _)| known.number == device.number);
            found.extend(shown.filter(|_| !is_found));
        }
        Ok(found)
    }
}

/// A device with its advice.
pub type Shown<'a> = (&'a Device, &'a Advice);

/// `foreread advise`.
pub fn advise(arguments: &AdviseArguments) -> Result<ExitCode> {
    if !arguments.sysroot.is_dir() {
        bail!(
            "{} is not a directory",
            text::escaped_path(&arguments.sysroot)
        );
    }
    let expected = arguments.expected.expected();
    let advised = Advised::read(&arguments.sysroot, expected);
    let (shown, left_out) = if arguments.devices.is_empty() {
        let (idle, shown): (Vec<_>, Vec<_>) = advised.all().partition(|(d, _)| d.is_idle());
        (shown, idle.len())
    } else {
        (advised.named(&arguments.sysroot, &arguments.devices)?, 0)
    };
    for note in &advised.notes {
        output::note(&format!("not seen: {note}"));
    }
    if arguments.json {
        let report = json::AdviceReport::of(&shown, left_out, &advised, expected);
        text::print_json(&report)?;
    } else if arguments.explain {
        text::print(&human::prose(&shown, &advised.machine))?;
    } else {
        text::print(&human::table(&shown, left_out))?;
    }
    Ok(ExitCode::SUCCESS)
}
