// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread probe`: which readahead size a device is best read with, measured.

pub mod args;
mod found;
mod human;
pub mod json;
mod measure;
mod picture;
mod setting;
pub mod workload;

use std::path::Path;
use std::process::ExitCode;
use std::time::{Instant, SystemTime};

use anyhow::{Context, Result};
use foreread_core::KiB;
use foreread_device::{Expected, Measured, capacity_cap};
use foreread_linux_sizing::probe::{Latency, Stop, Target};
use foreread_sys::interrupt::Interrupt;
use foreread_sys::save;

use crate::advise::{Advised, Shown};
use crate::device_state::DeviceState;
use crate::probing::{HeldSetting, put_back_interrupted};
use crate::{output, text};

use args::ProbeArguments;
use found::Found;
use picture::Marks;
use setting::{SharedSetting, watch};

/// `foreread probe`.
pub fn probe(arguments: &ProbeArguments) -> Result<ExitCode> {
    let root = Path::new("/");
    let until_stop = DeviceState::until_stop(root);
    for done in put_back_interrupted(&until_stop) {
        output::note(&done);
    }
    if !arguments.command.is_empty() {
        return workload::probe(arguments);
    }
    let named = text::escaped_path(&arguments.target);
    let target = Target::of(&arguments.target).with_context(|| named.clone())?;
    // Held from before the first change on, also for the threads that are started later.
    let interrupt = Interrupt::hold().context("cannot hold back signals")?;
    let setting = HeldSetting::take(&until_stop, &target.setting).with_context(|| named.clone())?;
    let setting = SharedSetting::new(setting);
    let stop = Stop::default();
    watch(interrupt, stop.clone(), setting.clone())?;
    let begun = Instant::now();
    let found = measure::measure(arguments, target, &setting, &stop, begun);
    let put_back = setting.lock().put_back();
    let mut found = found.with_context(|| named.clone())?;
    if let Err(error) = put_back {
        found.notes.push(format!("{error:#}"));
    }
    found.elapsed = begun.elapsed();
    if !found.is_interrupted {
        found.notes.extend(keep(root, &found));
    }
    tell(arguments, &found)
}

/// Keeps the result for advice. Returns why advice doesn't use it, if so.
fn keep(root: &Path, found: &Found) -> Option<String> {
    let measured = measured(found);
    let is_certain = measured.certain;
    match DeviceState::of(root).keep(measured) {
        Err(error) => Some(format!("not remembered for advice: {error:#}")),
        Ok(true) if is_certain => None,
        Ok(true) => Some(
            "advise and apply don't use this measurement: they use certain and complete ones only"
                .to_owned(),
        ),
        Ok(false) => {
            Some("not remembered: an earlier measurement of this device is certain".to_owned())
        }
    }
}

/// What else is known of the size for the device.
fn marks(found: &Found) -> Marks {
    let advised = Advised::read(Path::new("/"), Expected::default());
    let own = |(device, _): &Shown<'_>| device.identity.is_same_attachment(&found.identity);
    let advice = advised.all().find(own).map(|(_, advice)| advice);
    Marks {
        capacity_cap_kib: capacity_cap(found.identity.capacity_bytes).map(KiB::count),
        advised_kib: advice.and_then(|advice| advice.advised_kib),
    }
}

fn tell(arguments: &ProbeArguments, found: &Found) -> Result<ExitCode> {
    if let Some(path) = &arguments.svg {
        // A probe of a file names it.
        save::write(path, picture::picture(found, marks(found)).as_bytes())
            .with_context(|| format!("cannot write {}", text::escaped_path(path)))?;
    }
    if arguments.json {
        text::print_json(&json::ProbeReport::of(found))?;
    } else {
        text::print(&human::of(found))?;
    }
    for note in &found.notes {
        output::note(note);
    }
    let partly = found.is_interrupted || found.read_errors > 0;
    Ok(if partly {
        ExitCode::from(crate::EXIT_PARTLY)
    } else {
        ExitCode::SUCCESS
    })
}

/// The part of the result that is stored for `advise`.
fn measured(found: &Found) -> Measured {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let latency = found.latency.as_ref();
    Measured {
        identity: found.identity.clone(),
        unix_s: since.map_or(0, |since| since.as_secs()),
        sweep: found.points.clone(),
        plateau_kib: found.plateau.read_ahead.count(),
        certain: found.is_complete && found.plateau.is_certain(),
        request_cost_ns: found.fit.map_or(0.0, |fit| fit.request_cost_ns),
        bandwidth_bytes_per_s: found.fit.map_or(0.0, |fit| fit.bandwidth_bytes_per_s),
        latency_ns: latency.map(|latency| latency.latency_ns),
        speed_up: latency.map(Latency::speed_up),
    }
}
