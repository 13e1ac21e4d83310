// SPDX-License-Identifier: MIT OR Apache-2.0
//! Boots of one machine before `foreread layout apply --boot` and after it, in virtual time, from a
//! modelled hard disk.

use foreread_guest::GuestError;

use super::{Beside, Case};
use crate::begin::Begin;
use crate::boot_machine::{BootMachine, Booted, Boots, Setup, System, up_s};
use crate::context::{Context, Row, document};

pub const CASE: Case = Case {
    name: "boot-layout",
    about: "`layout apply --boot`: boots before and after their files were moved, in virtual time",
    beside: Beside::Anything,
    run,
};

/// Of the time that a boot from an instant disk is faster, the share that a replay must gain.
const GAIN_MIN: f64 = 0.9;

fn run(context: &Context<'_>, kernel: &str) -> Result<Vec<Row>, GuestError> {
    let setup = Setup::of(System::Services, Begin::Initramfs);
    let mut machine = BootMachine::new(context.lab, &context.foreread, kernel, "hdd", setup)?;
    machine.boot("record")?;
    let plain = machine.boots("plain", context.boots)?;
    let before = machine.boots("replay", context.boots)?;
    // The move itself isn't timed.
    machine.set_disk("instant")?;
    let instant = machine.boots("plain", context.boots)?;
    let moved = machine.boot("plain+layout")?;
    machine.set_disk("hdd")?;
    let after = machine.boots("replay", context.boots)?;

    let report = document(&moved.outcome, "layout.json")?;
    let pass = &report["passes"][0];
    let bytes = |value: &serde_json::Value| value.as_u64().unwrap_or(0);
    let stays = pass["skipped"].as_array().into_iter().flatten();
    let stays_bytes: u64 = stays.map(|skipped| bytes(&skipped["bytes"])).sum();
    let moved_bytes = bytes(&pass["moved_bytes"]);
    let (before_s, after_s) = (before.median(up_s), after.median(up_s));
    let (cold_s, instant_s) = (plain.median(up_s), instant.median(up_s));
    let gain = (cold_s - after_s) / (cold_s - instant_s);
    let seeks = |boots: &Boots| boots.median(|boot: &Booted| boot.disk.seeks as f64);
    let busy = |boots: &Boots| boots.median(|boot: &Booted| boot.disk.busy_ns as f64 / 1e9);
    Ok(vec![
        Row::asserted(
            "moved, MiB; stays, MiB",
            "most",
            format!("{}; {}", moved_bytes >> 20, stays_bytes >> 20),
            moved_bytes > stays_bytes,
        )
        .detail(pass["skipped"].to_string()),
        Row::told(
            "up, s: without; replayed before; after; instant disk",
            [&plain, &before, &after, &instant]
                .map(Boots::times)
                .join("; "),
        ),
        Row::asserted(
            "up after the move, s",
            format!("at most {before_s:.2}, as before"),
            format!("{after_s:.2}"),
            after_s <= before_s,
        ),
        Row::asserted(
            "share of what can be gained",
            format!("at least {GAIN_MIN}"),
            format!("{gain:.3}"),
            gain >= GAIN_MIN,
        ),
        Row::told(
            "seeks of the disk: before; after",
            format!("{}; {}", seeks(&before), seeks(&after)),
        ),
        Row::told(
            "time that the disk is busy, s: before; after",
            format!("{:.2}; {:.2}", busy(&before), busy(&after)),
        ),
    ])
}
