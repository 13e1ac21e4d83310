// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whole boots of one machine, whose root disk is a modelled hard disk: without a replay, recorded,
//! and replayed.
//!
//! Every boot has the units that `foreread boot enable` makes. The kernel's command line says what
//! it is given, so that boots with and without a replay come in turn.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use foreread_guest::{GuestError, RootDisk};
use foreread_model::DiskParameters;
use serde_json::Value;

use super::{Beside, Case};
use crate::context::{Context, Row, document, finished};

pub const CASE: Case = Case {
    name: "boot",
    about: "`boot`: systemd on a modelled hard disk, up to its default target",
    beside: Beside::Nothing,
    run,
};

/// Boots of each kind; their medians count.
const BOOTS: usize = 3;
/// Of the time that a boot from an instant disk is faster, the share that a replay must gain.
const GAIN_MIN: f64 = 0.75;
const TIME_LIMIT: Duration = Duration::from_secs(600);

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
    /// Requests of the root disk until then.
    reads: u64,
    /// Seeks and time of the disk in all of the boot.
    seeks: u64,
    busy_s: f64,
    /// The last boot of `foreread boot status`.
    last: Value,
    output: String,
}

fn run(context: &Context<'_>, kernel: &str) -> Result<Vec<Row>, GuestError> {
    let preset = |name: &str| {
        DiskParameters::preset(name)
            .ok_or_else(|| GuestError::Unexpected(format!("the model has no {name}")))
    };
    let (hdd, instant) = (preset("hdd")?, preset("instant")?);
    let folder = tempfile::tempdir()
        .map_err(|error| GuestError::Unexpected(format!("no temporary folder: {error}")))?;
    let image = folder.path().join("root.ext4");
    make_image(context, &image)?;
    let root = RootDisk::of(&image, hdd)?;
    let boot = |root: &RootDisk, word: &str| booted(context, kernel, root, word);
    let recorded = boot(&root, "record")?;
    let (mut plain, mut replayed) = (Vec::new(), Vec::new());
    for _ in 0..BOOTS {
        plain.push(boot(&root, "plain")?);
        replayed.push(boot(&root, "replay")?);
    }
    let from_instant = boot(&root.at_speed(instant), "plain")?;

    let median = |boots: &[Booted], value: fn(&Booted) -> f64| {
        let mut values: Vec<f64> = boots.iter().map(value).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let up_s = |boot: &Booted| boot.up_s;
    let (cold_s, with_s) = (median(&plain, up_s), median(&replayed, up_s));
    let gain = (cold_s - with_s) / (cold_s - from_instant.up_s);
    let list = |boots: &[Booted], value: fn(&Booted) -> f64| {
        let values: Vec<String> = boots
            .iter()
            .map(|boot| format!("{:.1}", value(boot)))
            .collect();
        values.join(", ")
    };
    let modes = replayed.iter().all(|boot| boot.last["mode"] == "replayed")
        && recorded.last["mode"] == "recorded";
    let confirmed = replayed
        .iter()
        .chain(&plain)
        .all(|boot| !boot.last["measured"].is_null());
    let last = replayed.last().map_or("", |boot| &boot.output);
    Ok(vec![
        Row::asserted(
            "boots are recorded, replayed and confirmed as asked for",
            "all",
            if modes && confirmed { "all" } else { "not all" },
            modes && confirmed,
        )
        .detail(last.to_owned()),
        Row::told(
            "up, s of the guest's clock: without, recorded, replayed, instant disk",
            format!(
                "{}; {:.1}; {}; {:.1}",
                list(&plain, up_s),
                recorded.up_s,
                list(&replayed, up_s),
                from_instant.up_s
            ),
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
                median(&plain, |boot| boot.reads as f64),
                median(&replayed, |boot| boot.reads as f64)
            ),
        ),
        Row::asserted(
            "seeks of the disk",
            "at most 1/5",
            format!(
                "{:.0} of {:.0}",
                median(&replayed, |boot| boot.seeks as f64),
                median(&plain, |boot| boot.seeks as f64)
            ),
            median(&replayed, |boot| boot.seeks as f64) * 5.0
                <= median(&plain, |boot| boot.seeks as f64),
        ),
        Row::asserted(
            "time that the disk is busy, s",
            "at most 1/2",
            format!(
                "{:.1} of {:.1}",
                median(&replayed, |boot| boot.busy_s),
                median(&plain, |boot| boot.busy_s)
            ),
            median(&replayed, |boot| boot.busy_s) * 2.0 <= median(&plain, |boot| boot.busy_s),
        ),
    ])
}

fn booted(
    context: &Context<'_>,
    kernel: &str,
    root: &RootDisk,
    word: &str,
) -> Result<Booted, GuestError> {
    let outcome = context
        .guest(kernel)?
        .root(root)
        .command_line(&format!("foreread.boot={word}"))
        .time_limit(TIME_LIMIT)
        .script(SCRIPT)
        .run()?;
    let status = document(&outcome, "status.json")?;
    let boots = status["boots"].as_array();
    let begun = outcome.points.iter().find(|point| point.name == "begin");
    let disk = outcome.modelled.get("root").copied().unwrap_or_default();
    Ok(Booted {
        up_s: outcome.boot_s,
        reads: begun.map_or(0, |point| point.counters.disk("root").reads),
        seeks: disk.seeks,
        busy_s: disk.busy_ns as f64 / 1e9,
        last: boots
            .and_then(|boots| boots.last())
            .cloned()
            .unwrap_or_default(),
        output: outcome.output,
    })
}

/// The lab's root file system with foreread installed and its boot enabled.
fn make_image(context: &Context<'_>, image: &Path) -> Result<(), GuestError> {
    let lab = context.lab.image();
    finished(
        Command::new("cp")
            .arg("--sparse=always")
            .arg(lab)
            .arg(image),
    )?;
    let top = image.with_extension("mnt");
    finished(Command::new("mkdir").arg(&top))?;
    finished(
        Command::new("mount")
            .args(["-o", "loop"])
            .arg(image)
            .arg(&top),
    )?;
    let made = (|| {
        let program = top.join("usr/bin/foreread");
        finished(Command::new("cp").arg(&context.foreread).arg(program))?;
        let enable = ["boot", "enable", "--root"];
        finished(Command::new(&context.foreread).args(enable).arg(&top))
    })();
    finished(Command::new("umount").arg(&top))?;
    made
}
