// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread watch`: reads ahead of running programs.

pub mod args;
mod asked;
mod config;
mod fetched;
pub mod line;
mod log;
pub mod log_lines;
mod news;
mod profiles;
pub mod report;
pub mod saved;
pub mod service;
mod together;
mod unwatched;

use std::io::{self, IsTerminal};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use foreread_linux_watch::{Options, Watching, Whom};
use foreread_sys::child::{self, Running};
use foreread_sys::interrupt::{Interrupt, Told};
use foreread_sys::mounts::mounts_of_self;
use foreread_watch::settings::Settings;

use args::WatchArguments;
use asked::Asked;
use log::Log;
use news::News;
use report::WatchReport;
use service::Service;

use crate::alone::{not_started, run_on};
use crate::left_alone;
use crate::{output, text};

/// Signals for a command are passed on so often.
const PASS_ON_EVERY: Duration = Duration::from_millis(100);
/// Interval at which the table on a terminal is drawn.
const DRAW_EVERY: Duration = Duration::from_millis(500);
/// Nothing needs to be looked for: what is seen wakes us.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// `foreread watch`.
pub fn watch(arguments: &WatchArguments) -> Result<ExitCode> {
    let settings = config::settings(arguments)?;
    // Held back from the start: what is begun ends in order.
    let interrupt = match arguments.command.is_empty() {
        true => Some(Interrupt::hold().context("cannot wait for Ctrl-C")?),
        false => None,
    };
    let whom = whom(arguments, &settings)?;
    // A second one that only looks does no harm.
    let service = match Service::start(whom == Whom::All && !arguments.dry_run) {
        Ok(service) => service,
        Err(error) => {
            let code = service::code_to_try_again(&error).ok_or(error)?;
            output::note("every process is watched already: another one has not ended yet");
            return Ok(ExitCode::from(code));
        }
    };
    let log = config::log(arguments, &settings);
    let is_logged = log.is_some();
    let log = Log::open(log, arguments.log.is_none())?;
    let options = Options {
        whom,
        budget_bytes: settings.budget_bytes,
        is_dry_run: settings.is_dry_run,
        is_logged,
        rights: arguments.command.is_empty().then_some(&service::RIGHTS),
    };
    let mut watching = match Watching::start(options) {
        Ok(watching) => watching,
        Err(error) => return unwatched::unwatched(arguments, error),
    };
    watching.set(
        options.budget_bytes,
        options.is_dry_run,
        settings.excluded.clone(),
    );
    let mut profiles = profiles::Reader::default();
    watching.know(settings.uses_profiles.then(|| profiles.read()));
    for lacking in watching.lacking() {
        output::note(&lacking.to_string());
    }
    let session = Session {
        arguments,
        settings,
        watching,
        log,
        asked: Asked::listen(service.socket_path()),
        service,
        profiles,
        left_alone: left_alone::News::default(),
        news: News::new(arguments.verbose, arguments.timestamps),
    };
    if let Some(interrupt) = interrupt {
        return session.until_interrupted(&interrupt);
    }
    match child::spawn(&arguments.command) {
        Ok(running) => session.during(running),
        Err(error) => {
            drop(session);
            Ok(not_started(&error, &arguments.command))
        }
    }
}

fn whom(arguments: &WatchArguments, settings: &Settings) -> Result<Whom> {
    if let Some(path) = &arguments.cgroup {
        return cgroup(path);
    }
    if let Some(pid) = arguments.pid {
        if !Path::new(&format!("/proc/{pid}")).exists() {
            bail!("no process has the number {pid}");
        }
        return Ok(Whom::Process(pid));
    }
    if let Some(path) = settings
        .cgroup
        .as_ref()
        .filter(|_| arguments.command.is_empty())
    {
        return cgroup(Path::new(path));
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
    let mounts = mounts_of_self().context("cannot read the mounts")?;
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

struct Session<'a> {
    arguments: &'a WatchArguments,
    settings: Settings,
    watching: Watching,
    log: Log,
    asked: Asked,
    service: Service,
    profiles: profiles::Reader,
    left_alone: left_alone::News,
    news: News,
}

impl Session<'_> {
    fn until_interrupted(mut self, interrupt: &Interrupt) -> Result<ExitCode> {
        Service::drop_rights()?;
        let is_on_terminal = io::stdin().is_terminal();
        // Hides itself where stderr is no terminal.
        let bar = output::spinner();
        bar.set_message("watching; Ctrl-C ends it");
        bar.enable_steady_tick(Duration::from_millis(500));
        let alive_every = self.service.manager.alive_every();
        let look_every = alive_every.map_or(LOOK_EVERY, |every| every.min(LOOK_EVERY));
        self.service.manager.ready();
        let mut drawn = Instant::now();
        loop {
            match interrupt.take().context("cannot wait for Ctrl-C")? {
                None => {}
                Some(Told::HangUp) if !is_on_terminal => self.reload(),
                Some(_) => break,
            }
            let notes = match self.watching.turn(Some(interrupt.as_fd()), look_every) {
                Ok(notes) => notes,
                // Files fetched until the error stay counted and logged.
                Err(error) => {
                    output::error(&error.into());
                    return Ok(ExitCode::from(crate::EXIT_PARTLY));
                }
            };
            self.log.write(&notes);
            bar.suspend(|| self.news.take(&notes));
            if !bar.is_hidden() && drawn.elapsed() >= DRAW_EVERY {
                bar.set_message(self.said_now());
                drawn = Instant::now();
            }
            self.asked.take(&notes);
            self.asked.answer(|| self.watching.ask_streams());
            self.left_alone
                .take()
                .iter()
                .for_each(|news| output::note(news));
            let hanging = self.watching.hanging();
            let (watching, is_dry_run) = (&self.watching, self.settings.is_dry_run);
            self.service.goes_on(&hanging, || {
                let summary = report::human(&watching.summary(), is_dry_run);
                // What needs somebody comes first.
                let mut parts = left_alone::clauses();
                parts.push(summary);
                parts.join("; ")
            });
        }
        self.service.manager.stopping();
        bar.finish_and_clear();
        self.end(None)
    }

    /// What is drawn again and again on a terminal: what is read ahead of now, and sums.
    fn said_now(&self) -> String {
        let summary = report::human(&self.watching.summary(), self.settings.is_dry_run);
        let table = self.news.table();
        format!("watching; Ctrl-C ends it\n{table}{summary}")
    }

    /// Takes what is set now; where that is wrong, what was set before stays.
    fn reload(&mut self) {
        self.service.manager.reloading();
        match self.try_reload() {
            Ok(()) => output::note("the settings were read again"),
            Err(error) => output::note(&format!("{error:#}; what was set before stays")),
        }
        self.service.manager.ready();
    }

    fn try_reload(&mut self) -> Result<()> {
        let settings = config::settings(self.arguments)?;
        self.log.reopen(config::log(self.arguments, &settings))?;
        if settings.cgroup != self.settings.cgroup {
            output::note("whom to watch changes with the next start");
        }
        let excluded = settings.excluded.clone();
        self.watching
            .set(settings.budget_bytes, settings.is_dry_run, excluded);
        let profiles = settings.uses_profiles.then(|| self.profiles.read());
        self.watching.know(profiles);
        self.settings = settings;
        Ok(())
    }

    fn during(mut self, mut running: Running) -> Result<ExitCode> {
        loop {
            if let Some(status) = running.wait(Some(Duration::ZERO)) {
                return self.end(Some(status));
            }
            match self.watching.turn(running.ended_fd(), PASS_ON_EVERY) {
                Ok(notes) => {
                    self.log.write(&notes);
                    self.news.take(&notes);
                }
                Err(error) => return self.run_on(&mut running, &error.into()),
            }
        }
    }

    /// Nothing can be watched any more.
    fn run_on(self, running: &mut Running, error: &anyhow::Error) -> Result<ExitCode> {
        let status = run_on(running, error);
        let done = self.end(Some(status))?;
        Ok(match done == ExitCode::SUCCESS {
            true => ExitCode::from(crate::EXIT_PARTLY),
            false => done,
        })
    }

    fn end(mut self, status: Option<ExitStatus>) -> Result<ExitCode> {
        let (summary, notes) = self.watching.finish();
        self.log.write(&notes);
        self.news.take(&notes);
        let is_dry_run = self.settings.is_dry_run;
        let said = match self.arguments.json {
            true => WatchReport::of(&summary, is_dry_run)
                .with_programs(self.news.programs())
                .line(),
            false => {
                let mut parts = vec![report::human(&summary, is_dry_run)];
                parts.extend(left_alone::clauses());
                format!("foreread: {}\n{}", parts.join("; "), self.news.by_program())
            }
        };
        match status {
            // Standard output belongs to the command.
            Some(_) => output::beside_command(&said),
            None => text::print(&said)?,
        }
        // One that was told to end has not failed.
        let is_service = status.is_none() && self.service.manager.is_there();
        if let Some(status) = status.filter(|status| !status.success()) {
            child::end_as(status);
        }
        let is_partly = summary.lost > 0 || self.log.has_failed();
        Ok(match is_partly && !is_service {
            true => ExitCode::from(crate::EXIT_PARTLY),
            false => ExitCode::SUCCESS,
        })
    }
}
