// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whole boots of one machine in virtual time, whose root disk is a modelled hard disk: without a
//! replay, recorded, and replayed.
//!
//! Every boot has the units that `foreread boot enable` makes. The kernel's command line says what
//! it is given, so that boots with and without a replay come in turn.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use foreread_guest::{GuestError, Machine};
use foreread_model::{Counters, DiskParameters};
use serde_json::Value;

use super::{Beside, Case};
use crate::context::{Context, Row, document, finished};

pub const CASE: Case = Case {
    name: "boot",
    about: "`boot`: systemd on a modelled hard disk, up to its default target, in virtual time",
    beside: Beside::Anything,
    run,
};

/// Of the time that a boot from an instant disk is faster, the share that a replay must gain.
const GAIN_MIN: f64 = 0.75;
const TIME_LIMIT: Duration = Duration::from_secs(900);

/// Waits until the boot is over to `foreread`, and takes along what it says.
const SCRIPT: &str = "
tries=0
# It is activating until its recorder is there.
until [ \"$(systemctl is-active foreread-boot.service)\" = inactive ] || [ $tries -ge 60 ]; do
    tries=$((tries + 1)); sleep 1
done
systemctl show --property=Result,ExecMainStatus foreread-boot.service
journalctl --no-pager --output=cat --unit=foreread-boot.service
foreread boot status --json >/run/out/status.json
sync
mount -o remount,ro / || true
";

/// One boot.
struct Booted {
    /// Until the machine was up, by its clock.
    up_s: f64,
    /// The counters of the root disk's model until then.
    disk: Counters,
    /// The last boot of `foreread boot status`.
    last: Value,
    output: String,
}

/// Several boots of one kind.
struct Boots(Vec<Booted>);

impl Boots {
    fn median(&self, value: fn(&Booted) -> f64) -> f64 {
        let mut values: Vec<f64> = self.0.iter().map(value).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    }

    fn times(&self) -> String {
        let values = self.0.iter().map(|boot| format!("{:.2}", boot.up_s));
        values.collect::<Vec<_>>().join(", ")
    }

    fn are(&self, mode: &str) -> bool {
        self.0
            .iter()
            .all(|boot| boot.last["mode"] == mode && !boot.last["measured"].is_null())
    }
}

fn up_s(boot: &Booted) -> f64 {
    boot.up_s
}

fn run(context: &Context<'_>, kernel: &str) -> Result<Vec<Row>, GuestError> {
    let preset = |name: &str| {
        DiskParameters::preset(name)
            .ok_or_else(|| GuestError::Unexpected(format!("the model has no {name}")))
    };
    let (hdd, instant) = (preset("hdd")?, preset("instant")?);
    let mut machine = Machine::of(context.lab.image(), hdd.clone())?;
    machine.while_mounted(|top| enable(context, top))?;
    let several = |machine: &Machine, word: &str| {
        let boots = (0..context.boots).map(|_| booted(context, kernel, machine, word));
        boots.collect::<Result<Vec<_>, _>>().map(Boots)
    };
    let recorded = Boots(vec![booted(context, kernel, &machine, "record")?]);
    let plain = several(&machine, "plain")?;
    let replayed = several(&machine, "replay")?;
    machine.set_speed(&instant);
    let from_instant = several(&machine, "plain")?;

    let cold_s = plain.median(up_s);
    let gain = (cold_s - replayed.median(up_s)) / (cold_s - from_instant.median(up_s));
    let is_as_asked = recorded.are("recorded") && plain.are("plain") && replayed.are("replayed");
    let last = replayed.0.last().map_or("", |boot| &boot.output);
    let ratio = |name: &str, least: f64, value: fn(&Booted) -> f64| {
        let (with, without) = (replayed.median(value), plain.median(value));
        Row::asserted(
            name,
            format!("at most 1/{least}"),
            format!("{with:.1} of {without:.1}"),
            with * least <= without,
        )
    };
    Ok(vec![
        Row::asserted(
            "boots are recorded, replayed and confirmed as asked for",
            "all",
            if is_as_asked { "all" } else { "not all" },
            is_as_asked,
        )
        .detail(last.to_owned()),
        Row::told(
            "up, s of the guest's clock: without; recorded; replayed; instant disk",
            [&plain, &recorded, &replayed, &from_instant]
                .map(Boots::times)
                .join("; "),
        ),
        Row::asserted(
            "share of what can be gained",
            format!("at least {GAIN_MIN}"),
            format!("{gain:.2}"),
            gain >= GAIN_MIN,
        ),
        Row::told(
            "requests until it is up: without, replayed",
            format!(
                "{:.0}, {:.0}",
                plain.median(|boot| boot.disk.requests as f64),
                replayed.median(|boot| boot.disk.requests as f64)
            ),
        ),
        ratio("seeks of the disk", 5.0, |boot| boot.disk.seeks as f64),
        ratio("time that the disk is busy, s", 2.0, |boot| {
            boot.disk.busy_ns as f64 / 1e9
        }),
    ])
}

fn booted(
    context: &Context<'_>,
    kernel: &str,
    machine: &Machine,
    word: &str,
) -> Result<Booted, GuestError> {
    let outcome = context
        .guest(kernel)?
        .machine(machine)
        .command_line(&format!("foreread.boot={word}"))
        .time_limit(TIME_LIMIT)
        .script(SCRIPT)
        .run()?;
    let status = document(&outcome, "status.json")?;
    let boots = status["boots"].as_array();
    let begun = outcome.points.iter().find(|point| point.name == "begin");
    let disk = begun.and_then(|point| point.modelled.get("root"));
    Ok(Booted {
        up_s: outcome.boot_s,
        disk: disk.copied().unwrap_or_default(),
        last: boots
            .and_then(|boots| boots.last())
            .cloned()
            .unwrap_or_default(),
        output: outcome.output,
    })
}

/// Installs foreread in a root file system, and enables its boot there.
fn enable(context: &Context<'_>, top: &Path) -> Result<(), GuestError> {
    let program = top.join("usr/bin/foreread");
    finished(Command::new("cp").arg(&context.foreread).arg(program))?;
    let enable = ["boot", "enable", "--root"];
    finished(Command::new(&context.foreread).args(enable).arg(top))
}
