// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread boot serve`: one boot, beside it.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use foreread_linux_boot::{Limits, Served, Settings, serve as go_beside};
use serde::Serialize;

use super::args::ServeArguments;
use super::state_of;
use crate::{output, text};

/// `foreread.boot.served/1`.
#[derive(Serialize)]
struct ServedJson {
    schema: &'static str,
    mode: foreread_boot::Mode,
    reason: String,
    untypical: Option<foreread_boot::Untypical>,
    /// Time from the start of init to the target; null if the boot did not get there.
    target_ns: Option<u64>,
    stall_ns: Option<u64>,
    /// Null without a replay.
    replay: Option<ReplayJson>,
    /// Null without a recording.
    recording: Option<RecordingJson>,
    /// The profile as it is now; null if it stayed as it was.
    profile: Option<ProfileJson>,
}

#[derive(Serialize)]
struct ReplayJson {
    planned_pages: u64,
    cached_pages: u64,
    arrived_pages: u64,
    unmounted_file_systems: usize,
}

#[derive(Serialize)]
struct RecordingJson {
    accessed_pages: u64,
    used_pages: u64,
    missed_pages: u64,
    events_lost: u64,
}

#[derive(Serialize)]
struct ProfileJson {
    paths: usize,
    pages: u64,
}

pub fn serve(arguments: &ServeArguments) -> Result<ExitCode> {
    if !rustix::process::geteuid().is_root() {
        bail!("a boot can be served by root only");
    }
    let settings = Settings {
        state: state_of(Path::new("/")),
        reached: arguments.reached.clone(),
        limits: Limits {
            quiet: Duration::from_secs(arguments.quiet),
            ..Limits::default()
        },
    };
    let served = go_beside(&settings, &mut output::note)?;
    if arguments.json {
        text::print_json(&document(&served))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn document(served: &Served) -> ServedJson {
    ServedJson {
        schema: "foreread.boot.served/1",
        mode: served.decision.mode,
        reason: served.decision.reason.to_string(),
        untypical: served.decision.untypical,
        target_ns: served.measured.map(|measured| measured.target_ns),
        stall_ns: served.measured.and_then(|measured| measured.stall_ns),
        replay: served.replay.map(|brought| ReplayJson {
            planned_pages: brought.planned_pages,
            cached_pages: brought.cached_pages,
            arrived_pages: brought.arrived_pages,
            unmounted_file_systems: brought.unmounted,
        }),
        recording: served.counts.map(|counts| RecordingJson {
            accessed_pages: counts.accessed_pages,
            used_pages: counts.used_pages,
            missed_pages: counts.missed_pages,
            events_lost: counts.lost(),
        }),
        profile: served
            .kept
            .map(|(paths, pages)| ProfileJson { paths, pages }),
    }
}
