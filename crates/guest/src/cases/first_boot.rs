// SPDX-License-Identifier: MIT OR Apache-2.0
//! The first boot of a machine whose image has a profile of another machine with the same packages,
//! in virtual time: from a modelled hard disk, from a slow cloud volume, and from one that fetches
//! blocks at their first touch.

use foreread_guest::GuestError;

use super::{Beside, Case};
use crate::begin::Begin;
use crate::boot_machine::{BootMachine, Booted, Boots, Setup, System, up_s};
use crate::context::{Context, Row};

pub const CASE: Case = Case {
    name: "first-boot",
    about: "`boot`: the first boot of a system with 40 services, with the profile of another machine, in virtual time",
    beside: Beside::Anything,
    run,
};

/// Share of a second boot's gain that the first one must have.
const OF_SECOND_MIN: f64 = 0.9;
/// From a volume that fetches blocks at their first touch: the time with a profile, over that
/// without.
const LAZY_TIME_MAX: f64 = 0.5;
/// Blocks that are touched with a profile, over those that a boot touches by itself.
const LAZY_TOUCHES_MAX: f64 = 1.2;

/// Disks that machines boot from.
pub const DISKS: [&str; 3] = ["hdd", "slow-cloud", "lazy"];

/// Two machines with the same packages on disks with another layout than that of a third one.
struct Machines<'lab> {
    boots: u32,
    /// With the profile of the third one.
    with: BootMachine<'lab>,
    without: BootMachine<'lab>,
    /// Like that without, and has recorded a boot of its own.
    own: BootMachine<'lab>,
}

fn run(context: &Context<'_>, kernel: &str) -> Result<Vec<Row>, GuestError> {
    let machine = |setup| BootMachine::new(context.lab, &context.foreread, kernel, "hdd", setup);
    let without = Setup::of(System::Services, Begin::Initramfs);
    let recorded = machine(without)?.boot("record")?;
    let profile = recorded.outcome.files().join("portable.profile");
    let relaid = Setup {
        is_relaid: true,
        ..without
    };
    let without = machine(relaid)?;
    let own = without.copy()?;
    own.boot("record")?;
    let mut machines = Machines {
        boots: context.boots,
        with: machine(Setup {
            profile: Some(&profile),
            ..relaid
        })?,
        without,
        own,
    };
    let mut rows = Vec::new();
    for disk in &context.disks {
        let of_disk = match disk.as_str() {
            "hdd" => machines.rows_of_hard_disk(),
            "slow-cloud" => machines.rows_of_gain("slow-cloud", "slow cloud volume"),
            _ => machines.rows_of_lazy_volume(),
        }?;
        // A run that is interrupted has told what it found.
        for Row { name, value, .. } in &of_disk {
            println!("{kernel} first-boot {name}: {value}");
        }
        rows.extend(of_disk);
    }
    Ok(rows)
}

impl Machines<'_> {
    /// Rows about the gain of boots from a disk; `name` is that of the disk in them.
    fn rows_of_gain(&mut self, disk: &str, name: &str) -> Result<Vec<Row>, GuestError> {
        let first = self.first_boots(disk)?;
        let plain = self.boots_without(disk)?;
        let second = self.second_boots(disk)?;
        let gain_s = |boots: &Boots| plain.median(up_s) - boots.median(up_s);
        let of_second = gain_s(&first) / gain_s(&second);
        Ok(vec![
            is_as_asked(name, &first),
            Row::told(
                format!("{name}, up, s: without; first boot; second boot"),
                [&plain, &first, &second].map(Boots::times).join("; "),
            ),
            Row::asserted(
                format!("{name}, gain of the first boot, over that of the second"),
                format!("at least {OF_SECOND_MIN}"),
                format!("{of_second:.2}"),
                of_second >= OF_SECOND_MIN,
            ),
        ])
    }

    fn rows_of_hard_disk(&mut self) -> Result<Vec<Row>, GuestError> {
        let mut rows = self.rows_of_gain("hdd", "hard disk")?;
        rows.push(Row::told(
            "instant disk, up, s: without",
            self.boots_without("instant")?.times(),
        ));
        Ok(rows)
    }

    fn rows_of_lazy_volume(&self) -> Result<Vec<Row>, GuestError> {
        let first = self.first_boots("lazy")?;
        let plain = self.boots_without("lazy")?;
        let touches = |boot: &Booted| boot.disk.first_touches as f64;
        let at_most = |name: &str, most: f64, value: f64| {
            let target = format!("at most {most}");
            Row::asserted(name, target, format!("{value:.2}"), value <= most)
        };
        Ok(vec![
            is_as_asked("lazy volume", &first),
            Row::told(
                "lazy volume, up, s: without; first boot",
                [&plain, &first].map(Boots::times).join("; "),
            ),
            at_most(
                "lazy volume, time over that without",
                LAZY_TIME_MAX,
                first.median(up_s) / plain.median(up_s),
            ),
            at_most(
                "lazy volume, first touches over those without",
                LAZY_TOUCHES_MAX,
                first.median(touches) / plain.median(touches),
            ),
        ])
    }

    fn first_boots(&self, disk: &str) -> Result<Boots, GuestError> {
        self.of_copies(&self.with, "usual", disk)
    }

    fn boots_without(&self, disk: &str) -> Result<Boots, GuestError> {
        self.of_copies(&self.without, "plain", disk)
    }

    /// Each first boot is that of a machine of its own.
    fn of_copies(
        &self,
        machine: &BootMachine<'_>,
        word: &str,
        disk: &str,
    ) -> Result<Boots, GuestError> {
        let boots = (0..self.boots).map(|_| {
            let mut machine = machine.copy()?;
            machine.set_disk(disk)?;
            machine.boot(word)
        });
        boots.collect::<Result<Vec<_>, _>>().map(Boots)
    }

    fn second_boots(&mut self, disk: &str) -> Result<Boots, GuestError> {
        self.own.set_disk(disk)?;
        self.own.boots("replay", self.boots)
    }
}

fn is_as_asked(disk: &str, first: &Boots) -> Row {
    let is_as_asked = first.are("refreshed");
    let said = first.0.last().map(|boot| boot.outcome.output.clone());
    Row::asserted(
        format!("{disk}: first boots replay the profile that came with the image"),
        "all",
        if is_as_asked { "all" } else { "not all" },
        is_as_asked,
    )
    .detail(said.unwrap_or_default())
}
