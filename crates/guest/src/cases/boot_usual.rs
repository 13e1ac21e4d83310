// SPDX-License-Identifier: MIT OR Apache-2.0
//! Boots in a row of a small system that nobody asks for anything, in virtual time: what each is
//! given, until Foreread knows what a replay is worth on that disk, and acts on it.

use foreread_guest::GuestError;
use serde_json::Value;

use super::{Beside, Case};
use crate::begin::Begin;
use crate::boot_machine::{BootMachine, Booted, Setup, System};
use crate::context::{Context, Row, document};

pub const CASE: Case = Case {
    name: "boot-usual",
    about: "`boot`: boots in a row from a hard disk and an instant disk, until it knows what a replay is worth, in virtual time",
    beside: Beside::Anything,
    run,
};

/// The first boots from a disk whose reads take time: three of each kind, see docs/boot.md.
const COMPARED: [&str; 7] = [
    "recorded", "replayed", "replayed", "replayed", "recorded", "replayed", "recorded",
];
/// By the sixteenth there are eight boots of each kind, and with these it always decides.
const DECIDED_AFTER_MAX: usize = 20;

/// Boots of one machine, one after the other.
struct Series<'lab> {
    kernel: &'lab str,
    begin: Begin,
    disk: &'static str,
    machine: BootMachine<'lab>,
    /// The mode of each boot.
    modes: Vec<String>,
    times: Vec<String>,
    /// The output of `boot status` after the last one.
    status: Value,
    /// Lines of the last one in the journal.
    said: String,
}

impl<'lab> Series<'lab> {
    fn new(
        context: &Context<'lab>,
        kernel: &'lab str,
        begin: Begin,
        disk: &'static str,
    ) -> Result<Self, GuestError> {
        let setup = Setup::of(System::Small, begin);
        Ok(Self {
            kernel,
            begin,
            disk,
            machine: BootMachine::new(context.lab, &context.foreread, kernel, disk, setup)?,
            modes: Vec::new(),
            times: Vec::new(),
            status: Value::Null,
            said: String::new(),
        })
    }

    fn boot(&mut self) -> Result<(), GuestError> {
        let booted = self.machine.boot("usual")?;
        let Booted { last, outcome, .. } = &booted;
        let mode = last["mode"].as_str().unwrap_or("nothing").to_owned();
        let number = self.modes.len() + 1;
        let (kernel, begin, told) = (self.kernel, self.begin.name(), booted.told());
        println!(
            "{kernel} {begin}, {}, boot {number}, {mode}: {told}",
            self.disk
        );
        self.status = document(outcome, "status.json")?;
        self.said.clone_from(&outcome.output);
        self.times.push(format!("{:.2}", booted.up_s));
        self.modes.push(mode);
        Ok(())
    }

    fn boots(&mut self, boots: usize) -> Result<(), GuestError> {
        (0..boots).try_for_each(|_| self.boot())
    }

    fn verdict(&self) -> &str {
        self.status["verdict"].as_str().unwrap_or("none")
    }

    fn is_decided(&self) -> bool {
        ["gains", "no-gain"].contains(&self.verdict())
    }

    fn last(&self) -> &str {
        self.modes.last().map_or("", String::as_str)
    }

    fn named(&self, name: &str) -> String {
        format!("{}, {}: {name}", self.begin.name(), self.disk)
    }

    /// The mode of the last boot, with its lines in the journal.
    fn row(&self, name: &str, target: &str, is_so: bool) -> Row {
        Row::asserted(self.named(name), target, self.last(), is_so).detail(self.said.clone())
    }

    fn first_row(&self, modes: &[&str]) -> Row {
        Row::asserted(
            self.named("the first boots"),
            modes.join(", "),
            self.modes.join(", "),
            self.modes == modes,
        )
        .detail(self.said.clone())
    }

    fn verdict_row(&self, target: &str, is_so: bool) -> Row {
        Row::asserted(
            self.named("what it says a replay is worth"),
            target,
            self.verdict(),
            is_so,
        )
        .detail(self.status.to_string())
    }

    fn times_row(&self) -> Row {
        Row::told(self.named("up, s"), self.times.join(", "))
    }
}

fn run(context: &Context<'_>, kernel: &str) -> Result<Vec<Row>, GuestError> {
    let series = |begin, disk| Series::new(context, kernel, begin, disk);
    let mut rows = gaining(series(Begin::Initramfs, "hdd")?)?;
    rows.extend(close(series(Begin::Unit, "hdd")?)?);
    rows.extend(needless(series(Begin::Unit, "instant")?)?);
    Ok(rows)
}

/// Replays gain much. After a change of packages a boot is refreshed and doesn't count.
fn gaining(mut series: Series<'_>) -> Result<Vec<Row>, GuestError> {
    series.boots(COMPARED.len())?;
    let mut rows = vec![
        series.first_row(&COMPARED),
        series.verdict_row("gains", series.verdict() == "gains"),
    ];
    // As dpkg does, it gets another size.
    series.machine.change("echo >>var/lib/dpkg/status", &[])?;
    let counted = |series: &Series<'_>| {
        let boots = ["with", "without"].map(|kind| series.status[kind]["boots"].as_u64());
        boots.into_iter().flatten().sum::<u64>()
    };
    let before = counted(&series);
    series.boot()?;
    let is_refreshed = series.last() == "refreshed" && counted(&series) == before;
    rows.push(series.row(
        "after a change of packages",
        "refreshed, and not counted",
        is_refreshed,
    ));
    series.boot()?;
    rows.push(series.row("the boot after", "replayed", series.last() == "replayed"));
    rows.push(series.times_row());
    Ok(rows)
}

/// Most of what this system reads is read before its first unit. So whether replays gain is close:
/// it has to decide, and to keep to that.
fn close(mut series: Series<'_>) -> Result<Vec<Row>, GuestError> {
    series.boots(COMPARED.len())?;
    let mut rows = vec![series.first_row(&COMPARED)];
    while !series.is_decided() && series.modes.len() < DECIDED_AFTER_MAX {
        series.boot()?;
    }
    let (boots, gains) = (series.modes.len(), series.verdict() == "gains");
    rows.push(series.verdict_row("gains, or no-gain", series.is_decided()));
    rows.push(Row::told(
        series.named("known after boots"),
        boots.to_string(),
    ));
    series.boot()?;
    let given = if gains { "replayed" } else { "plain" };
    rows.push(series.row("the boot after", given, series.last() == given));
    rows.push(series.times_row());
    Ok(rows)
}

/// There is nothing to gain, which the recording of the first boot says.
fn needless(mut series: Series<'_>) -> Result<Vec<Row>, GuestError> {
    let modes = ["recorded", "plain", "plain"];
    series.boots(modes.len())?;
    Ok(vec![
        series.first_row(&modes),
        series.verdict_row("no-gain", series.verdict() == "no-gain"),
        series.times_row(),
    ])
}
