// SPDX-License-Identifier: MIT OR Apache-2.0
//! Boots of a machine with little memory, from a modelled hard disk, in virtual time: a replay must
//! not push out of memory what the boot needs.

use foreread_guest::GuestError;

use super::{Beside, Case};
use crate::begin::Begin;
use crate::boot_machine::{BootMachine, Boots, Setup, System, up_s};
use crate::context::{Context, Row};

pub const CASE: Case = Case {
    name: "small-memory",
    about: "`boot`: the system with 40 services in 512 MiB of memory, in virtual time",
    beside: Beside::Anything,
    run,
};

const MEMORY_MIB: u32 = 512;
/// Bytes that a replayed boot may read, over those of one without. A page that was pushed out
/// before its use is read twice.
const BYTES_MAX: f64 = 1.05;

fn run(context: &Context<'_>, kernel: &str) -> Result<Vec<Row>, GuestError> {
    let setup = Setup::of(System::Services, Begin::Initramfs);
    let mut machine = BootMachine::new(context.lab, &context.foreread, kernel, "hdd", setup)?;
    machine.set_memory_mib(MEMORY_MIB);
    let recorded = machine.boots("record", context.boots)?;
    let plain = machine.boots("plain", context.boots)?;
    let replayed = machine.boots("replay", context.boots)?;
    let (with_s, without_s) = (replayed.median(up_s), plain.median(up_s));
    let bytes = |boots: &Boots| boots.median(|boot| boot.disk.bytes as f64);
    let ratio = bytes(&replayed) / bytes(&plain);
    let is_as_asked = recorded.are("recorded") && plain.are("plain") && replayed.are("replayed");
    let said = replayed.0.last().map(|boot| boot.outcome.output.clone());
    Ok(vec![
        Row::asserted(
            "boots are recorded, replayed and confirmed as asked for",
            "all",
            if is_as_asked { "all" } else { "not all" },
            is_as_asked,
        )
        .detail(said.unwrap_or_default()),
        Row::told(
            "up, s: without; recorded; replayed",
            [&plain, &recorded, &replayed].map(Boots::times).join("; "),
        ),
        Row::asserted(
            "replayed, s",
            "at most as long as without",
            format!("{with_s:.2} of {without_s:.2}"),
            with_s <= without_s,
        ),
        Row::asserted(
            "bytes read, over those without",
            format!("at most {BYTES_MAX}"),
            format!("{ratio:.2}"),
            ratio <= BYTES_MAX,
        ),
    ])
}
