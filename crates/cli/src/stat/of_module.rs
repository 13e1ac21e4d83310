// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread stat --module`: the accounts that the kernel module keeps itself, by device.
//!
//! In: counters of `/sys/kernel/foreread`, again and again. Out: a table, or a document a line. The
//! module keeps them in any case, so to show them costs the readers nothing, and needs no BPF.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use foreread_core::grouped;
use foreread_linux_module::{DeviceSettings, Of, Settings};
use foreread_sys::clock::now_unix_s;
use foreread_sys::interrupt::Interrupt;
use serde::Serialize;

use super::args::StatArguments;
use super::only::Only;
use super::{is_redrawn, output_file};
use crate::kernel::{OFF, OK, node_name};
use crate::live::Live;
use crate::table::{finished, table};
use crate::text::{self, timestamp};

const HEADS: [&str; 12] = [
    "device",
    "policy",
    "fetched",
    "on time",
    "late",
    "wasted",
    "unknown",
    "unused",
    "in flight",
    "ampl.",
    "windows",
    "waits",
];

/// Counters of a device. They grow, but for pages that are in memory unused or in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    fetched: u64,
    used_on_time: u64,
    used_late: u64,
    wasted: u64,
    unknown: u64,
    resident_unused: u64,
    in_flight: u64,
    windows: u64,
    waits: u64,
}

impl Counts {
    fn of(device: &DeviceSettings) -> Self {
        let count = |name: &str| {
            let mut found = device.counters.iter().filter(|(known, _)| known == name);
            found.next().map_or(0, |(_, count)| *count)
        };
        Self {
            fetched: count("fetched_pages"),
            used_on_time: count("used_on_time_pages"),
            used_late: count("used_late_pages"),
            wasted: count("wasted_pages"),
            unknown: count("unknown_pages"),
            resident_unused: count("resident_unused_pages"),
            in_flight: count("in_flight_pages"),
            windows: count("windows"),
            waits: count("waits"),
        }
    }

    /// What has changed since then. A module that was loaded anew began at 0.
    fn since(&self, before: &Self) -> Change {
        let grown = |now: u64, before: u64| now.saturating_sub(before);
        Change {
            fetched_pages: grown(self.fetched, before.fetched),
            used_on_time_pages: grown(self.used_on_time, before.used_on_time),
            used_late_pages: grown(self.used_late, before.used_late),
            wasted_pages: grown(self.wasted, before.wasted),
            unknown_pages: grown(self.unknown, before.unknown),
            resident_unused_pages: self.resident_unused.wrapping_sub(before.resident_unused) as i64,
            in_flight_pages: self.in_flight.wrapping_sub(before.in_flight) as i64,
            windows: grown(self.windows, before.windows),
            waits: grown(self.waits, before.waits),
        }
    }
}

/// Pages in a time. Every fetched page is in exactly one of the next six fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Change {
    fetched_pages: u64,
    used_on_time_pages: u64,
    used_late_pages: u64,
    wasted_pages: u64,
    /// Pages of which the module doesn't know what became of them.
    unknown_pages: u64,
    /// Change in the number of pages that are in memory unused.
    resident_unused_pages: i64,
    /// Change in the number of pages that are on their way.
    in_flight_pages: i64,
    /// Windows that the policy decided.
    windows: u64,
    /// Times that a reader waited for a folio that was being read already.
    waits: u64,
}

impl Change {
    /// Pages fetched for each page used; none when none was.
    fn amplification(&self) -> Option<f64> {
        let used = self.used_on_time_pages + self.used_late_pages;
        (used > 0).then(|| self.fetched_pages as f64 / used as f64)
    }

    fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// `foreread.stat.module/1`: the accounts at one time.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ModuleReport {
    schema: &'static str,
    /// Time since the document before; null in the first one.
    interval_ns: Option<u64>,
    /// Devices with settings of their own; the last one stands for all others.
    lines: Vec<LineReport>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct LineReport {
    /// Its number, MAJOR:MINOR, or `default`.
    device: String,
    /// Its name in `/dev`; null of a file system without a device, and of `default`.
    name: Option<String>,
    /// The policy that reads ahead of it; `off` stands for the kernel.
    policy: String,
    /// The verdict of its watchdog: `ok`, or why it has taken the policy away.
    watchdog: String,
    /// Since the module was loaded, or the device was added to it.
    since_load: Change,
    /// Since the document before; null in the first one.
    interval: Option<Change>,
}

/// `foreread stat --module`.
pub fn stat(arguments: &StatArguments) -> Result<ExitCode> {
    let only = Only::of(arguments)?;
    let Some(settings) = Settings::of(&arguments.root) else {
        bail!(
            "foreread.ko isn't loaded, so it counts nothing: `sudo foreread kernel load DEVICE \
             --policy NAME` loads it, and `sudo foreread stat` counts without it"
        );
    };
    let output = output_file(arguments)?;
    let mut telling = Telling {
        arguments,
        only,
        settings,
        output,
        live: is_redrawn(arguments).then(Live::on_terminal).flatten(),
        last: BTreeMap::new(),
        told_at: None,
        told: 0,
    };
    telling.follow()?;
    Ok(ExitCode::SUCCESS)
}

struct Telling<'a> {
    arguments: &'a StatArguments,
    only: Only,
    settings: Settings,
    output: Option<File>,
    live: Option<Live>,
    /// Counters of the last report, by device.
    last: BTreeMap<Of, Counts>,
    told_at: Option<Instant>,
    /// How often.
    told: u64,
}

impl Telling<'_> {
    /// Without an interval: once, since the module was loaded. With one: the change in each.
    fn follow(&mut self) -> Result<()> {
        let Some(interval_ns) = self.arguments.interval_ns else {
            let report = self.look()?;
            return self.tell(&report);
        };
        let interrupt = Interrupt::hold().context("cannot wait for Ctrl-C")?;
        self.look()?;
        let mut next = Instant::now();
        loop {
            next += Duration::from_nanos(interval_ns);
            let left = next.saturating_duration_since(Instant::now());
            if interrupt.wait(left).context("cannot wait for Ctrl-C")? {
                return Ok(());
            }
            let report = self.look()?;
            self.tell(&report)?;
            if self.arguments.count.is_some_and(|count| self.told >= count) {
                return Ok(());
            }
        }
    }

    /// The counters now, with the change since the last look.
    fn look(&mut self) -> Result<ModuleReport> {
        let mut devices = self.settings.devices()?;
        devices.retain(|device| self.is_asked(device.of));
        let now = Instant::now();
        let interval = self.told_at.replace(now).map(|told_at| now - told_at);
        let mut lines = Vec::new();
        for device in &devices {
            let counts = Counts::of(device);
            let before = self.last.insert(device.of, counts);
            lines.push(LineReport {
                device: device.of.to_string(),
                name: node_name(device.of),
                policy: device.policy.clone(),
                watchdog: device.watchdog.clone(),
                since_load: counts.since(&Counts::default()),
                interval: interval.map(|_| counts.since(&before.unwrap_or_default())),
            });
        }
        Ok(ModuleReport {
            schema: "foreread.stat.module/1",
            interval_ns: interval.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)),
            lines,
        })
    }

    fn is_asked(&self, of: Of) -> bool {
        match of {
            Of::Device(number) => self.only.has_device(number),
            Of::Default => self.only.is_all(),
        }
    }

    fn tell(&mut self, report: &ModuleReport) -> Result<()> {
        let mut said = match self.arguments.json {
            true => format!("{}\n", text::json(report)),
            false => human(report),
        };
        if self.arguments.timestamps {
            said.insert_str(0, &format!("{}\n", timestamp(now_unix_s())));
        }
        let is_later_table = self.told > 0 && !self.arguments.json;
        self.told += 1;
        if let Some(live) = &self.live {
            live.draw(&said);
            return Ok(());
        }
        if is_later_table {
            said.insert(0, '\n');
        }
        match &mut self.output {
            Some(file) => file
                .write_all(said.as_bytes())
                .context("cannot write what was asked for"),
            None => text::print(&said),
        }
    }
}

/// Lines of devices where nothing happened and nothing is set are left out.
fn human(report: &ModuleReport) -> String {
    let mut table = table(&HEADS);
    let is_shown = |line: &&LineReport| {
        let change = line.interval.unwrap_or(line.since_load);
        line.policy != OFF || !change.is_nothing()
    };
    let mut notes = String::new();
    for line in report.lines.iter().filter(is_shown) {
        let change = line.interval.unwrap_or(line.since_load);
        // Of a time, they are changes.
        let held = |pages: i64| match line.interval {
            Some(_) => format!("{pages:+}"),
            None => pages.to_string(),
        };
        let device = line.name.as_deref().unwrap_or(&line.device);
        table.add_row([
            text::printable(device),
            text::printable(&line.policy),
            grouped(change.fetched_pages),
            grouped(change.used_on_time_pages),
            grouped(change.used_late_pages),
            grouped(change.wasted_pages),
            grouped(change.unknown_pages),
            held(change.resident_unused_pages),
            held(change.in_flight_pages),
            change
                .amplification()
                .map_or("-".to_owned(), |factor| format!("{factor:.2}")),
            grouped(change.windows),
            grouped(change.waits),
        ]);
        if line.watchdog != OK {
            let verdict = text::printable(&line.watchdog);
            notes += &format!("{device}: watchdog: {verdict}\n");
        }
    }
    if table.row_count() == 0 {
        return "no device has a policy of the module, and none had one\n".to_owned();
    }
    finished(table, &[0, 1]) + &notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn held_pages_may_get_fewer_and_others_only_more() {
        let before = Counts {
            fetched: 100,
            resident_unused: 60,
            in_flight: 1,
            ..Counts::default()
        };
        let now = Counts {
            fetched: 150,
            used_on_time: 100,
            resident_unused: 48,
            in_flight: 2,
            ..Counts::default()
        };
        let change = now.since(&before);
        assert_eq!((change.fetched_pages, change.used_on_time_pages), (50, 100));
        assert_eq!(
            (change.resident_unused_pages, change.in_flight_pages),
            (-12, 1)
        );
        assert_eq!(change.amplification(), Some(0.5));
        // Loaded anew.
        assert_eq!(Counts::default().since(&now).fetched_pages, 0);
        assert!(Change::default().is_nothing() && Change::default().amplification().is_none());
    }
}
