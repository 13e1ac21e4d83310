// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whole boots of one machine in virtual time, whose root disk is a modelled hard disk: without a
//! replay, recorded, and replayed.
//!
//! Every boot has the units that `foreread boot enable` makes. The kernel's command line says what
//! it is given, so that boots with and without a replay come in turn.

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

/// Time that a recorded boot may take more, in percent.
const RECORDED_MORE_MAX: f64 = 2.0;
/// The same of a replayed boot from a disk that takes no time.
const INSTANT_MORE_MAX: f64 = 1.0;
/// Installs foreread on a machine and enables its boot.
const PREPARE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../tests/guest/boot-machine.sh"
);
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

/// Where foreread begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum From {
    /// With a unit of systemd.
    Unit,
    /// In an initramfs of initramfs-tools.
    Initramfs,
}

impl From {
    const fn name(self) -> &'static str {
        match self {
            Self::Unit => "unit",
            Self::Initramfs => "initramfs",
        }
    }

    /// Of the time that a boot from an instant disk is faster, the share that a replay must gain.
    const fn gain_min(self) -> f64 {
        match self {
            Self::Unit => 0.75,
            Self::Initramfs => 0.85,
        }
    }
}

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
    let mut rows = of_machine(context, kernel, From::Unit)?;
    rows.extend(of_machine(context, kernel, From::Initramfs)?);
    Ok(rows)
}

/// Boots of one machine. Its disks keep what they write, so they come in this order.
fn of_machine(context: &Context<'_>, kernel: &str, from: From) -> Result<Vec<Row>, GuestError> {
    let preset = |name: &str| {
        DiskParameters::preset(name)
            .ok_or_else(|| GuestError::Unexpected(format!("the model has no {name}")))
    };
    let mut machine = Machine::of(context.lab.image(), preset("hdd")?)?;
    prepare(context, kernel, &mut machine, from)?;
    let several = |machine: &Machine, word: &str| {
        let boots = (0..context.boots).map(|_| booted(context, kernel, machine, word));
        boots.collect::<Result<Vec<_>, _>>().map(Boots)
    };
    let recorded = several(&machine, "record")?;
    let plain = several(&machine, "plain")?;
    let replayed = several(&machine, "replay")?;
    machine.set_speed(&preset("instant")?);
    let instant_plain = several(&machine, "plain")?;
    let instant_replayed = several(&machine, "replay")?;

    let named = |name: &str| format!("{}: {name}", from.name());
    let (cold_s, instant_s) = (plain.median(up_s), instant_plain.median(up_s));
    let gain = (cold_s - replayed.median(up_s)) / (cold_s - instant_s);
    let more = |name: &str, boots: &Boots, than_s: f64, most: f64| {
        let percent = (boots.median(up_s) / than_s - 1.0) * 100.0;
        let target = format!("at most {most}");
        Row::asserted(
            named(name),
            target,
            format!("{percent:.1}"),
            percent <= most,
        )
    };
    let ratio = |name: &str, least: f64, value: fn(&Booted) -> f64| {
        let (with, without) = (replayed.median(value), plain.median(value));
        Row::asserted(
            named(name),
            format!("at most 1/{least}"),
            format!("{with:.1} of {without:.1}"),
            with * least <= without,
        )
    };
    let is_as_asked = recorded.are("recorded")
        && [&plain, &instant_plain]
            .iter()
            .all(|boots| boots.are("plain"))
        && [&replayed, &instant_replayed]
            .iter()
            .all(|boots| boots.are("replayed"));
    let last = replayed.0.last().map_or("", |boot| &boot.output);
    Ok(vec![
        Row::asserted(
            named("boots are recorded, replayed and confirmed as asked for"),
            "all",
            if is_as_asked { "all" } else { "not all" },
            is_as_asked,
        )
        .detail(last.to_owned()),
        Row::told(
            named("up, s: without; recorded; replayed; instant disk without; replayed"),
            [
                &plain,
                &recorded,
                &replayed,
                &instant_plain,
                &instant_replayed,
            ]
            .map(Boots::times)
            .join("; "),
        ),
        Row::asserted(
            named("share of what can be gained"),
            format!("at least {}", from.gain_min()),
            format!("{gain:.2}"),
            gain >= from.gain_min(),
        ),
        more("recorded, % slower", &recorded, cold_s, RECORDED_MORE_MAX),
        more(
            "replayed from an instant disk, % slower",
            &instant_replayed,
            instant_s,
            INSTANT_MORE_MAX,
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

/// Installs foreread on a machine, and enables its boot.
fn prepare(
    context: &Context<'_>,
    kernel: &str,
    machine: &mut Machine,
    from: From,
) -> Result<(), GuestError> {
    let mut command = Command::new(PREPARE);
    command.arg(machine.root_image()).arg(&context.foreread);
    if from == From::Unit {
        return finished(&mut command);
    }
    let kernel = context.lab.kernel(kernel)?;
    let driver = kernel
        .disk_driver()
        .ok_or_else(|| GuestError::Unexpected("the lab has no disks in virtual time".to_owned()))?;
    let initrd = machine.root_image().with_extension("initrd");
    command
        .arg(&kernel.release)
        .arg(kernel.config())
        .arg(driver);
    finished(command.arg(&initrd))?;
    machine.set_initrd(initrd);
    Ok(())
}
