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
    let with = machine(Setup {
        profile: Some(&profile),
        ..relaid
    })?;
    // Each first boot is that of a machine of its own.
    let first_boots = |machine: &BootMachine<'_>, word: &str, disk: &str| {
        let boots = (0..context.boots).map(|_| {
            let mut machine = machine.copy()?;
            machine.set_disk(disk)?;
            machine.boot(word)
        });
        boots.collect::<Result<Vec<_>, _>>().map(Boots)
    };
    let first = first_boots(&with, "usual", "hdd")?;
    let plain = first_boots(&without, "plain", "hdd")?;
    let lazy_first = first_boots(&with, "usual", "lazy")?;
    let lazy_plain = first_boots(&without, "plain", "lazy")?;
    let cloud_first = first_boots(&with, "usual", "slow-cloud")?;
    let cloud_plain = first_boots(&without, "plain", "slow-cloud")?;
    let instant = first_boots(&without, "plain", "instant")?;
    let mut own = without;
    own.boot("record")?;
    let second = own.boots("replay", context.boots)?;
    own.set_disk("slow-cloud")?;
    let cloud_second = own.boots("replay", context.boots)?;

    let touches = |boot: &Booted| boot.disk.first_touches as f64;
    let of_second = |plain: &Boots, first: &Boots, second: &Boots| {
        let gain_s = |boots: &Boots| plain.median(up_s) - boots.median(up_s);
        gain_s(first) / gain_s(second)
    };
    let gain = |name: &str, of_second: f64| {
        Row::asserted(
            name,
            format!("at least {OF_SECOND_MIN}"),
            format!("{of_second:.2}"),
            of_second >= OF_SECOND_MIN,
        )
    };
    let lazy_time = lazy_first.median(up_s) / lazy_plain.median(up_s);
    let lazy_touches = lazy_first.median(touches) / lazy_plain.median(touches);
    let said = first.0.last().map(|boot| boot.outcome.output.clone());
    let is_as_asked = [&first, &lazy_first, &cloud_first]
        .iter()
        .all(|boots| boots.are("refreshed"));
    let at_most = |name: &str, most: f64, value: f64| {
        let target = format!("at most {most}");
        Row::asserted(name, target, format!("{value:.2}"), value <= most)
    };
    Ok(vec![
        Row::asserted(
            "first boots replay the profile that came with the image",
            "all",
            if is_as_asked { "all" } else { "not all" },
            is_as_asked,
        )
        .detail(said.unwrap_or_default()),
        Row::told(
            "hard disk, up, s: without; first boot; second boot; instant disk without",
            [&plain, &first, &second, &instant]
                .map(Boots::times)
                .join("; "),
        ),
        gain(
            "gain of the first boot, over that of the second",
            of_second(&plain, &first, &second),
        ),
        Row::told(
            "slow cloud volume, up, s: without; first boot; second boot",
            [&cloud_plain, &cloud_first, &cloud_second]
                .map(Boots::times)
                .join("; "),
        ),
        gain(
            "slow cloud volume, gain of the first boot, over that of the second",
            of_second(&cloud_plain, &cloud_first, &cloud_second),
        ),
        Row::told(
            "lazy volume, up, s: without; first boot",
            [&lazy_plain, &lazy_first].map(Boots::times).join("; "),
        ),
        at_most(
            "lazy volume, time over that without",
            LAZY_TIME_MAX,
            lazy_time,
        ),
        at_most(
            "lazy volume, first touches over those without",
            LAZY_TOUCHES_MAX,
            lazy_touches,
        ),
    ])
}
