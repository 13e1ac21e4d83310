// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replayed boots beside boots for which the same files are read whole, as the predecessors of
//! `boot` did: in the order of blocks before systemd starts, and in the order of their first use.
//! In virtual time, from a modelled hard disk and a slow cloud volume.

use foreread_guest::GuestError;

use super::{Beside, Case};
use crate::begin::Begin;
use crate::boot_machine::{BootMachine, Booted, Boots, Setup, System, up_s};
use crate::context::{Context, Row};

pub const CASE: Case = Case {
    name: "boot-beside",
    about: "`boot`: replays beside reading the same files whole, in block order and in order of use, in virtual time",
    beside: Beside::Anything,
    run,
};

fn run(context: &Context<'_>, kernel: &str) -> Result<Vec<Row>, GuestError> {
    let setup = Setup::of(System::Services, Begin::Initramfs);
    let mut machine = BootMachine::new(context.lab, &context.foreread, kernel, "hdd", setup)?;
    machine.boot("record")?;
    let mut rows = Vec::new();
    for disk in ["hdd", "slow-cloud"] {
        machine.set_disk(disk)?;
        let plain = machine.boots("plain", context.boots)?;
        let in_block_order = machine.boots("plain+blocks", context.boots)?;
        let as_needed = machine.boots("plain+needed", context.boots)?;
        let replayed = machine.boots("replay", context.boots)?;
        rows.push(Row::told(
            format!(
                "{disk}: up, s: without; whole files in block order; in order of use; replayed"
            ),
            [&plain, &in_block_order, &as_needed, &replayed]
                .map(Boots::times)
                .join("; "),
        ));
        let mib = |boots: &Boots| boots.median(|boot: &Booted| (boot.disk.bytes >> 20) as f64);
        rows.push(Row::told(
            format!("{disk}: MiB that were read in each"),
            [&plain, &in_block_order, &as_needed, &replayed]
                .map(|boots| mib(boots).to_string())
                .join("; "),
        ));
        rows.extend(
            [
                ("in block order before the start", &in_block_order),
                ("in order of use", &as_needed),
            ]
            .map(|(name, boots)| {
                let (with_s, beside_s) = (replayed.median(up_s), boots.median(up_s));
                Row::asserted(
                    format!("{disk}: up, s, of whole files {name}"),
                    "less",
                    format!("{with_s:.2} of {beside_s:.2}"),
                    with_s < beside_s,
                )
            }),
        );
    }
    Ok(rows)
}
