// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread watch`: walks ahead of programs that read directory trees.

pub mod args;
pub mod calls;
mod report;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use foreread_linux::child::{self, Running};
use foreread_linux::interrupt::Interrupt;
use foreread_linux::mounts::Mounts;
use foreread_linux::watch::{Options, Watching, Whom};
use foreread_watch::note::Note;
use indicatif::ProgressBar;

use args::WatchArguments;

use crate::{output, text};

/// Something was lost on the way.
const EXIT_PARTLY: u8 = 64;
/// Signals for a command are passed on so often.
const PASS_ON_EVERY: Duration = Duration::from_millis(100);
/// Nothing needs to be looked for: what is seen wakes us.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// `foreread watch`.
pub fn watch(arguments: &WatchArguments) -> Result<ExitCode> {
    let options = Options {
        whom: whom(arguments)?,
        budget_bytes: arguments.budget.map(foreread_core::Bytes::count),
        is_dry_run: arguments.dry_run,
        is_logged: arguments.log.is_some(),
    };
    let log = arguments.log.as_deref().map(open_log).transpose()?;
    let session = Session {
        arguments,
        watching: Watching::start(options)?,
        log,
        started: Instant::now(),
    };
    if arguments.command.is_empty() {
        return session.until_interrupted();
    }
    match child::spawn(&arguments.command) {
        Ok(running) => session.during(running),
        Err(error) => {
            output::note(&error.to_string());
            Ok(ExitCode::from(error.exit_code()))
        }
    }
}

fn whom(arguments: &WatchArguments) -> Result<Whom> {
    if let Some(path) = &arguments.cgroup {
        return cgroup(path);
    }
    if let Some(pid) = arguments.pid {
        if !Path::new(&format!("/proc/{pid}")).exists() {
            bail!("no process has the number {pid}");
        }
        return Ok(Whom::Process(pid));
    }
    Ok(match arguments.command.is_empty() {
        true => Whom::All,
        false => Whom::NextChild,
    })
}

/// A directory of the cgroup2 hierarchy.
fn cgroup(path: &Path) -> Result<Whom> {
    use std::os::unix::ffi::OsStrExt;

    let path = path
        .canonicalize()
        .with_context(|| format!("cannot find the cgroup {}", path.display()))?;
    let mounts = Mounts::of_self().context("cannot read the mounts")?;
    let bytes = path.as_os_str().as_bytes();
    let point = mounts
        .mount_of(bytes)
        .and_then(|at| mounts.points().get(at));
    let Some(point) = point.filter(|point| point.fs_type == b"cgroup2") else {
        bail!(
            "{} is no cgroup of version 2; those are where `findmnt -t cgroup2` says",
            path.display()
        );
    };
    let below = bytes.strip_prefix(point.mount_point.as_slice());
    let level = foreread_watch::paths::depth(below.unwrap_or_default())
        + foreread_watch::paths::depth(point.root.strip_suffix(b"/").unwrap_or(&point.root));
    let metadata = path.metadata().context("cannot look at the cgroup")?;
    Ok(Whom::Cgroup {
        id: metadata.ino(),
        level: u32::try_from(level).unwrap_or(u32::MAX),
    })
}

fn open_log(path: &Path) -> Result<Box<dyn Write>> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stderr()));
    }
    let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(Box::new(BufWriter::new(file)))
}

struct Session<'a> {
    arguments: &'a WatchArguments,
    watching: Watching,
    log: Option<Box<dyn Write>>,
    started: Instant,
}

impl Session<'_> {
    fn until_interrupted(mut self) -> Result<ExitCode> {
        let interrupt = Interrupt::hold().context("cannot wait for Ctrl-C")?;
        // Hides itself where stderr is no terminal.
        let bar = ProgressBar::new_spinner();
        bar.set_message("watching; Ctrl-C ends it");
        bar.enable_steady_tick(Duration::from_millis(500));
        while !interrupt
            .wait(Duration::ZERO)
            .context("cannot wait for Ctrl-C")?
        {
            let notes = self.watching.turn(interrupt.as_fd(), LOOK_EVERY)?;
            self.write(&notes)?;
        }
        bar.finish_and_clear();
        self.end(None)
    }

    fn during(mut self, mut running: Running) -> Result<ExitCode> {
        loop {
            let ended = running.wait(Some(Duration::ZERO));
            if let Some(status) = ended.context("cannot wait for the command")? {
                return self.end(Some(status));
            }
            let notes = self.watching.turn(running.ended_fd(), PASS_ON_EVERY)?;
            self.write(&notes)?;
        }
    }

    fn write(&mut self, notes: &[Note]) -> Result<()> {
        let since_start = self.started.elapsed();
        if let Some(log) = &mut self.log {
            for note in notes {
                writeln!(log, "{}", report::line(note, since_start))
                    .context("cannot write the log")?;
            }
            // Whoever looks at it sees whole lines, and soon.
            log.flush().context("cannot write the log")?;
        }
        Ok(())
    }

    fn end(mut self, status: Option<ExitStatus>) -> Result<ExitCode> {
        let (summary, notes) = self.watching.finish();
        self.write(&notes)?;
        let is_dry_run = self.arguments.dry_run;
        let said = match self.arguments.json {
            true => format!("{}\n", report::document(&summary, is_dry_run)),
            false => format!("foreread: {}\n", report::people(&summary, is_dry_run)),
        };
        match status {
            // What a command prints is its own.
            Some(_) => {
                let _ = io::stderr().lock().write_all(said.as_bytes());
            }
            None => text::print(&said)?,
        }
        if let Some(status) = status.filter(|status| !status.success()) {
            child::end_as(status);
        }
        Ok(match summary.lost {
            0 => ExitCode::SUCCESS,
            _ => ExitCode::from(EXIT_PARTLY),
        })
    }
}
