// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whole boots of one machine with many services, in virtual time: without a replay, recorded, and
//! replayed, from a modelled hard disk, a slow cloud volume, and a disk that takes no time.

use foreread_guest::GuestError;

use super::{Beside, Case};
use crate::begin::Begin;
use crate::boot_machine::{BootMachine, Booted, Boots, Setup, System, up_s};
use crate::context::{Context, Row};

pub const CASE: Case = Case {
    name: "boot",
    about: "`boot`: systemd with 40 services on modelled disks, up to its default target, in virtual time",
    beside: Beside::Anything,
    run,
};

/// Time that a recorded boot may take more, in percent.
const RECORDED_MORE_MAX: f64 = 2.0;
/// The same of a replayed boot from a disk that takes no time.
const INSTANT_MORE_MAX: f64 = 1.0;
/// Of the time that a boot from an instant disk is faster, the share that a replay must gain.
const fn gain_min(begin: Begin) -> f64 {
    match begin {
        Begin::Unit => 0.75,
        Begin::Initramfs | Begin::Dracut => 0.85,
    }
}

fn run(context: &Context<'_>, kernel: &str) -> Result<Vec<Row>, GuestError> {
    let mut rows = Vec::new();
    for begin in &context.begins {
        rows.extend(of_machine(context, kernel, *begin)?);
    }
    Ok(rows)
}

/// Boots of one machine. Its disks keep what they write, so they come in this order.
fn of_machine(context: &Context<'_>, kernel: &str, begin: Begin) -> Result<Vec<Row>, GuestError> {
    let system = match begin {
        // The other system has initramfs-tools only.
        Begin::Dracut => System::Small,
        Begin::Unit | Begin::Initramfs => System::Services,
    };
    let setup = Setup::of(system, begin);
    let mut machine = BootMachine::new(context.lab, &context.foreread, kernel, "hdd", setup)?;
    let recorded = machine.boots("record", context.boots)?;
    let plain = machine.boots("plain", context.boots)?;
    let replayed = machine.boots("replay", context.boots)?;
    machine.set_disk("slow-cloud")?;
    let cloud_plain = machine.boots("plain", context.boots)?;
    let cloud_replayed = machine.boots("replay", context.boots)?;
    machine.set_disk("instant")?;
    let instant_plain = machine.boots("plain", context.boots)?;
    let instant_replayed = machine.boots("replay", context.boots)?;

    let named = |name: &str| format!("{}: {name}", begin.name());
    let (cold_s, instant_s) = (plain.median(up_s), instant_plain.median(up_s));
    let gain = |name: &str, plain: &Boots, replayed: &Boots| {
        let cold_s = plain.median(up_s);
        let gain = (cold_s - replayed.median(up_s)) / (cold_s - instant_s);
        Row::asserted(
            named(name),
            format!("at least {}", gain_min(begin)),
            format!("{gain:.2}"),
            gain >= gain_min(begin),
        )
    };
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
        && [&plain, &cloud_plain, &instant_plain]
            .iter()
            .all(|boots| boots.are("plain"))
        && [&replayed, &cloud_replayed, &instant_replayed]
            .iter()
            .all(|boots| boots.are("replayed"));
    let last = replayed
        .0
        .last()
        .map_or("", |boot| boot.outcome.output.as_str());
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
        gain("share of what can be gained", &plain, &replayed),
        Row::told(
            named("the same from a slow cloud volume, up, s: without; replayed"),
            [&cloud_plain, &cloud_replayed].map(Boots::times).join("; "),
        ),
        gain(
            "share from a slow cloud volume",
            &cloud_plain,
            &cloud_replayed,
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
