// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a command to measure its time and the use of its readahead.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use foreread_accounting::{Counts, Kind, lines};
use foreread_linux_stat::{Accounting, Following, Losses, StatError};
use foreread_profile::{PAGE_BYTES, Profile};
use foreread_sys::interrupt::restore_mask;
use foreread_sys::paths::Opener;
use rustix::fs::{Advice, fadvise};

use super::Stop;

/// Interval at which the memory that is held is sampled.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The result of one run. Pages are of 4 KiB, and those that readahead brought in.
#[derive(Clone, Copy, Debug)]
pub struct WorkloadRun {
    /// From its start to its end, in nanoseconds.
    pub wall_ns: u64,
    /// Time that it waited for reads, in nanoseconds.
    pub stall_ns: u64,
    /// Pages that readahead brought in.
    pub fetched_pages: u64,
    /// Pages of `fetched_pages` that were used by its end.
    pub used_pages: u64,
    /// Most pages that were in memory, or on their way there, and not yet used.
    pub held_pages_max: u64,
    /// How it ended.
    pub status: ExitStatus,
    /// Events that could not be followed.
    pub losses: Losses,
}

/// Why a command could not be followed.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// It can't be started.
    #[error("cannot run it: {0}")]
    Start(io::Error),
    /// It was started, and the kernel doesn't say more of it.
    #[error("cannot wait for it: {0}")]
    Wait(io::Error),
    /// Its reads can't be followed.
    #[error("what it reads can't be followed: {0}")]
    Account(#[from] StatError),
    /// A stop was requested.
    #[error("interrupted")]
    Stopped,
}

/// Drops the files of a profile from the page cache: data, and only of files that are not mapped
/// and have nothing to be written. Names and inodes stay. Returns how many files it could not open.
pub fn forget(profile: &Profile) -> u64 {
    let mut opener = Opener::new(profile);
    let mut failures = 0;
    for (id, _) in profile.files() {
        match opener.open(id, false) {
            // Pages that can't be dropped stay; they show in the times.
            Ok(file) => drop(fadvise(&file, 0, None, Advice::DontNeed)),
            Err(_) => failures += 1,
        }
    }
    failures
}

/// Runs a command, with its standard output thrown away, and follows its reads and those of its
/// children.
///
/// # Errors
/// [`WorkloadError`].
pub fn run(command: &[OsString], stop: &Stop) -> Result<WorkloadRun, WorkloadError> {
    let mut accounting = Accounting::start(Following {
        only_next_child: true,
        ..Following::default()
    })?;
    let mut child = start(command)?;
    let begun = Instant::now();
    let mut held_pages_max = 0;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(WorkloadError::Wait)? {
            break status;
        }
        if stop.is_stopped() {
            end(&mut child);
            return Err(WorkloadError::Stopped);
        }
        thread::sleep(LOOK_EVERY);
        accounting.keep_up()?;
        held_pages_max = held_pages_max.max(read_ahead(&accounting.snapshot()?.accounts).held());
    };
    let wall_ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let snapshot = accounting.snapshot()?;
    let all: Counts = snapshot.accounts.iter().map(|(_, counts)| *counts).sum();
    let ahead = read_ahead(&snapshot.accounts);
    // The accounts count in pages of the kernel.
    let pages = rustix::param::page_size() as u64 / PAGE_BYTES;
    Ok(WorkloadRun {
        wall_ns,
        stall_ns: all.counters().stall_ns,
        fetched_pages: ahead.counters().fetched * pages,
        used_pages: ahead.used() * pages,
        held_pages_max: held_pages_max.max(ahead.held()) * pages,
        status,
        losses: snapshot.losses,
    })
}

/// Counts of the kernel's readahead, without pages that were requested one by one.
fn read_ahead(accounts: &[(foreread_accounting::Subject, Counts)]) -> Counts {
    const AHEAD: [Kind; 5] = [
        Kind::Initial,
        Kind::Subsequent,
        Kind::Context,
        Kind::Around,
        Kind::Forced,
    ];
    let by = foreread_accounting::By {
        kind: true,
        ..foreread_accounting::By::default()
    };
    lines(accounts.iter().copied(), by)
        .into_iter()
        .filter(|line| line.subject.kind.is_some_and(|kind| AHEAD.contains(&kind)))
        .map(|line| line.counts)
        .sum()
}

fn start(command: &[OsString]) -> Result<Child, WorkloadError> {
    let (program, rest) = command
        .split_first()
        .ok_or_else(|| WorkloadError::Start(io::ErrorKind::InvalidInput.into()))?;
    let mut command = Command::new(program);
    command
        .args(rest)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    // Ctrl-C ends it and what it has started, too.
    restore_mask(&mut command);
    command.spawn().map_err(WorkloadError::Start)
}

fn end(child: &mut Child) {
    // It may have ended by itself.
    let _ = child.kill();
    let _ = child.wait();
}

/// Opens a file that the user named, to find the device whose setting applies. Does not wait for
/// the other end of a FIFO, and does not make a terminal the controlling one.
///
/// # Errors
/// As the kernel says.
pub fn open_quietly(path: &Path) -> io::Result<std::fs::File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)
}
