// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread layout status`: how much of what was moved still lies in order, and whether another
//! pass is worth it.

use std::path::Path;

use anyhow::Result;
use foreread_core::{Bytes, Device};
use foreread_layout::Plan;
use foreread_linux_layout::{Mover, Standing, Watcher, movable};

use super::Layout;
use super::args::{ProfileArguments, WhatArguments};
use super::moving::mounted;
use super::passes::{Stored, all};
use crate::named_profile::ProfileArguments as NamedProfile;
use crate::output::{percent, time};
use crate::table::{finished, table};
use crate::text::{self, escaped_path};

/// How a pass stands.
pub struct Status {
    pub stored: Stored,
    /// Where it is mounted, or its name, in a form to print.
    pub file_system: String,
    /// Where the bytes lie, or why that isn't known.
    pub standing: Result<Standing, String>,
    /// What another pass would do; `None` where the profile can't be read.
    pub plan: Option<Plan>,
}

/// How all passes stand.
pub fn status() -> Result<Vec<Status>> {
    Ok(all()?.into_iter().map(Status::of).collect())
}

/// Looking isn't stopped.
struct Looking;

impl Watcher for Looking {
    fn is_stopped(&mut self) -> bool {
        false
    }

    fn done(&mut self, _bytes: u64) {}
}

impl Status {
    fn of(stored: Stored) -> Self {
        match mounted(&stored.pass) {
            Err(error) => Self {
                file_system: stored.pass.uuid.clone(),
                standing: Err(format!("{error:#}")),
                plan: None,
                stored,
            },
            Ok((device, mount_point, fs_type)) => Self {
                file_system: escaped_path(&mount_point),
                standing: standing(&stored, device, &mount_point, &fs_type),
                plan: plan(&stored.pass.profile, device),
                stored,
            },
        }
    }
}

fn standing(
    stored: &Stored,
    device: Device,
    mount_point: &Path,
    fs_type: &[u8],
) -> Result<Standing, String> {
    let pass = &stored.pass;
    let movable = movable(fs_type, device, mount_point).map_err(|refusal| refusal.to_string())?;
    let mover = Mover::of(&movable, pass.bandwidth_bytes_per_s);
    let mover = mover.map_err(|error| error.to_string())?;
    Ok(mover.standing(&pass.files, &pass.steps, &mut Looking))
}

/// What another pass for the same profile would do on this device.
fn plan(profile: &str, device: Device) -> Option<Plan> {
    let is_boot = profile == super::BOOT;
    let what = WhatArguments {
        disk: None,
        profile: ProfileArguments {
            boot: is_boot,
            named: NamedProfile {
                profile: (!is_boot).then(|| profile.into()),
                command: Vec::new(),
            },
        },
    };
    let layout = Layout::of(&what).ok()?;
    let mut laid = layout.laid.into_iter();
    let ours = laid.find(|laid| laid.found.device == device)?;
    Some(ours.plan)
}

/// For people.
pub fn human(statuses: &[Status]) -> String {
    if statuses.is_empty() {
        return "nothing was moved\n".to_owned();
    }
    let mut rows = table(&[
        "pass",
        "planned",
        "bytes",
        "in order",
        "as before",
        "elsewhere",
        "replay now",
        "another pass",
        "on",
        "profile",
    ]);
    let mut notes = String::new();
    for status in statuses {
        let pass = &status.stored.pass;
        let share = |part: fn(&Standing) -> u64| match &status.standing {
            Ok(standing) => percent(part(standing), pass.bytes()),
            Err(_) => String::new(),
        };
        let another = |plan: &Plan| match plan.is_worth_it() {
            true => format!("to {}", time(plan.after.time_ns)),
            false => "not worth it".to_owned(),
        };
        rows.add_row([
            status.stored.number.to_string(),
            text::date(pass.planned_unix_s),
            Bytes::new(pass.bytes()).human().to_string(),
            share(|standing| standing.there_bytes),
            share(|standing| standing.to_do_bytes),
            share(|standing| standing.elsewhere_bytes),
            status
                .plan
                .as_ref()
                .map_or(String::new(), |plan| time(plan.before.time_ns)),
            status.plan.as_ref().map_or(String::new(), another),
            status.file_system.clone(),
            pass.profile.clone(),
        ]);
        if let Err(why) = &status.standing {
            notes += &format!("pass {}: {why}\n", status.stored.number);
        }
        if !pass.is_finished {
            let number = status.stored.number;
            notes += &format!("pass {number} isn't finished: `foreread layout resume` goes on\n");
        }
    }
    finished(rows, &[8, 9]) + &notes
}
