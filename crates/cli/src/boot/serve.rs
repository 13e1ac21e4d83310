// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread boot serve`: one boot, beside it.

use std::fs::File;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use foreread_linux_boot::{Limits, Served, Settings, serve as go_beside, serve_from_initramfs};
use serde::Serialize;

use super::args::ServeArguments;
use super::state_of;
use crate::{output, text};

/// `foreread.boot.served/1`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ServedJson {
    schema: &'static str,
    /// Which replay it got.
    mode: foreread_boot::Mode,
    /// Why it got this replay, in words.
    reason: String,
    /// Why it does not count; null where it does.
    untypical: Option<foreread_boot::Untypical>,
    /// Time from the start of init to the target; null if the boot did not get there.
    target_ns: Option<u64>,
    stall_ns: Option<u64>,
    /// What disks were read for until then; null without a replay.
    reads: Option<foreread_boot::Reads>,
    /// Null without a replay.
    replay: Option<ReplayJson>,
    /// Null without a recording.
    recording: Option<RecordingJson>,
    /// The profile as it is now; null if it stayed as it was.
    profile: Option<ProfileJson>,
    /// The file of the boot's trace; null if it was not traced.
    trace: Option<String>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ReplayJson {
    planned_pages: u64,
    cached_pages: u64,
    arrived_pages: u64,
    /// File systems of the profile that were not mounted in time.
    unmounted_file_systems: usize,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RecordingJson {
    accessed_pages: u64,
    used_pages: u64,
    missed_pages: u64,
    /// Events that the kernel had no room for.
    events_lost: u64,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ProfileJson {
    /// Files and directories.
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
        lock: arguments.lock.clone(),
        limits: Limits {
            quiet: Duration::from_secs(arguments.idle),
            recorded: Duration::from_secs(arguments.at_most),
            ..Limits::default()
        },
    };
    let served = match &arguments.new_root {
        None => go_beside(&settings, &mut output::note)?,
        Some(new_root) => {
            let mut log = KernelLog::open();
            be_spared()?;
            let served = serve_from_initramfs(&settings, new_root, &mut |line| log.say(line));
            // Nobody reads what else is said in an initramfs.
            served.inspect_err(|error| log.say(&error.to_string()))?
        }
    };
    if let Some(served) = served.filter(|_| arguments.json) {
        text::print_json(&document(&served))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// When systemd leaves an initramfs, it kills what is left of it, but for processes whose first
/// argument begins with `@`: <https://systemd.io/ROOT_STORAGE_DAEMONS>. So this process takes its own
/// place under such a name.
fn be_spared() -> Result<()> {
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_default();
    if name.as_encoded_bytes().first() == Some(&b'@') {
        return Ok(());
    }
    let mut command = Command::new("/proc/self/exe");
    let error = command.arg0("@foreread").args(arguments).exec();
    Err(error).context("cannot take a name that systemd spares")
}

/// Lines for the journal, which reads the kernel's log once it is there.
struct KernelLog(Option<File>);

impl KernelLog {
    fn open() -> Self {
        Self(File::options().write(true).open("/dev/kmsg").ok())
    }

    /// A log that takes no line takes none.
    fn say(&mut self, line: &str) {
        if let Some(log) = &mut self.0 {
            // Severity "info"; a record is one write.
            let _ = log.write_all(format!("<6>foreread: {}\n", text::printable(line)).as_bytes());
        }
    }
}

fn document(served: &Served) -> ServedJson {
    ServedJson {
        schema: "foreread.boot.served/1",
        mode: served.decision.mode,
        reason: served.decision.reason.to_string(),
        untypical: served.decision.untypical,
        target_ns: served.measured.map(|measured| measured.target_ns),
        stall_ns: served.measured.and_then(|measured| measured.stall_ns),
        reads: served.measured.and_then(|measured| measured.reads),
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
        trace: served.trace.as_deref().map(text::escaped_path),
    }
}
