// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread stat`: what becomes of pages that are read ahead, live.

pub mod args;
mod asked;
mod columns;
pub mod json;
pub mod of_module;
mod only;
mod report;
mod said;

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::{ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use foreread_bpf::BpfError;
use foreread_linux_stat::{Accounting, Following, StatError};
use foreread_sys::child::{self, Running};
use foreread_sys::clock::now_unix_s;
use foreread_sys::interrupt::Interrupt;
use foreread_sys::save;

use args::StatArguments;
use json::StatReport;
use only::Only;
use report::{Once, Telling};

use crate::alone::{not_started, run_alone, run_on};
use crate::live::Live;
use crate::socket::{For, Socket};
use crate::text::timestamp;
use crate::{output, text, without_root};

/// How often names are taken and room is made in the tables.
const KEEP_UP_EVERY: Duration = Duration::from_millis(250);
/// How often it is looked whether somebody asks at the socket.
const ANSWER_EVERY: Duration = Duration::from_millis(50);

/// `foreread stat`.
pub fn stat(arguments: &StatArguments) -> Result<ExitCode> {
    if arguments.module {
        return of_module::stat(arguments);
    }
    let only = Only::of(arguments)?;
    let following = Following {
        by: arguments.by().and(only.by()),
        only_next_child: !arguments.command.is_empty(),
        measure: arguments.measure,
        ..Following::default()
    };
    let socket = arguments
        .listen
        .as_deref()
        .map(|path| Socket::listen(path, For::Us))
        .transpose()?;
    let accounting = match Accounting::start(following) {
        Ok(accounting) => accounting,
        Err(error) if arguments.command.is_empty() => return Err(explained(error)),
        Err(error) => {
            // A command runs all the same, as it would without us.
            output::note(&format!(
                "{}; the command runs unfollowed",
                explained(error)
            ));
            return Ok(match run_alone(&arguments.command) {
                Ok(status) if !status.success() => child::end_as(status),
                Ok(_) => ExitCode::from(crate::EXIT_PARTLY),
                Err(code) => code,
            });
        }
    };
    for missing in accounting.lacking() {
        output::note(&format!(
            "not counted: {}, for {}",
            missing.loss, missing.reason
        ));
    }
    let output = output_file(arguments)?;
    let mut session = Session {
        arguments,
        output,
        accounting,
        telling: Telling::new(
            arguments.by(),
            only.clone(),
            arguments.interval_ns.is_some(),
        ),
        // Answers at the socket count since the start.
        answering: Telling::new(arguments.by(), only, false),
        live: is_redrawn(arguments).then(Live::on_terminal).flatten(),
        once: Once::default(),
        socket,
        told: 0,
        has_losses: false,
    };
    let status = match arguments.command.is_empty() {
        true => {
            session.until_interrupted()?;
            None
        }
        false => match child::spawn(&arguments.command) {
            Ok(running) => Some(session.during(running)),
            Err(error) => {
                drop(session);
                return Ok(not_started(&error, &arguments.command));
            }
        },
    };
    let has_losses = session.has_losses;
    drop(session);
    if let Some(status) = status.filter(|status| !status.success()) {
        child::end_as(status);
    }
    Ok(match has_losses {
        true => ExitCode::from(crate::EXIT_PARTLY),
        false => ExitCode::SUCCESS,
    })
}

/// The file that was asked for, if any.
fn output_file(arguments: &StatArguments) -> Result<Option<File>> {
    let create = |path: &PathBuf| {
        save::create(path).with_context(|| format!("cannot write {}", path.display()))
    };
    arguments.output.as_ref().map(create).transpose()
}

/// Whether each table takes the place of the last one, where that is a terminal.
fn is_redrawn(arguments: &StatArguments) -> bool {
    let is_text = !arguments.json && !arguments.openmetrics && arguments.output.is_none();
    let is_repeated = arguments.interval_ns.is_some() && arguments.command.is_empty();
    is_text && is_repeated && !arguments.scroll
}

/// Why not, and what works all the same.
fn explained(error: StatError) -> anyhow::Error {
    match error {
        StatError::Bpf(BpfError::NoRights) if without_root::lacks_rights() => {
            anyhow::anyhow!("following pages needs root: sudo foreread stat")
        }
        StatError::Bpf(BpfError::NoRights) | StatError::Unbalanced => anyhow::anyhow!("{error}"),
        error => anyhow::anyhow!(
            "{error}; what still works: foreread analyze --live DEVICE, for requests, and \
             /proc/pressure/io, for stalls"
        ),
    }
}

struct Session<'a> {
    arguments: &'a StatArguments,
    output: Option<File>,
    accounting: Accounting,
    telling: Telling,
    answering: Telling,
    /// Where tables take the place of the last one.
    live: Option<Live>,
    once: Once,
    socket: Option<Socket>,
    /// How often.
    told: u64,
    has_losses: bool,
}

impl Session<'_> {
    fn until_interrupted(&mut self) -> Result<()> {
        let interrupt = Interrupt::hold().context("cannot wait for Ctrl-C")?;
        // Hides itself where stderr is no terminal.
        let bar = output::spinner();
        if self.arguments.interval_ns.is_none() {
            bar.set_message("following; Ctrl-C ends it");
            bar.enable_steady_tick(Duration::from_millis(500));
        }
        let mut wait = |limit| {
            let is_over = interrupt.wait(limit).context("cannot wait for Ctrl-C")?;
            Ok(is_over.then_some(()))
        };
        self.follow(&mut wait)?;
        bar.finish_and_clear();
        if self.arguments.interval_ns.is_none() {
            self.tell()?;
        }
        Ok(())
    }

    /// Follows a command to its end, also if nothing can be told of it any more.
    fn during(&mut self, mut running: Running) -> ExitStatus {
        let mut wait = |limit| Ok(running.wait(Some(limit)));
        let followed = match self.follow(&mut wait) {
            Ok(Some(status)) => self.tell().map(|()| Some(status)),
            // All has been told before it ended.
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        match followed {
            Ok(status) => status.unwrap_or_else(|| running.wait_to_end()),
            Err(error) => {
                self.has_losses = true;
                run_on(&mut running, &error)
            }
        }
    }

    /// Tells at every interval; until `wait` gives something, or all has been told.
    fn follow<T>(
        &mut self,
        wait: &mut impl FnMut(Duration) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let interval = self.arguments.interval_ns.map(Duration::from_nanos);
        let tick = match self.socket {
            Some(_) => ANSWER_EVERY,
            None => KEEP_UP_EVERY,
        };
        let mut next = Instant::now();
        let mut kept_up = next;
        loop {
            if let Some(interval) = interval {
                next += interval;
            }
            loop {
                let now = Instant::now();
                let left = match interval {
                    Some(_) if next <= now => break,
                    Some(_) => (next - now).min(tick),
                    None => tick,
                };
                if let Some(over) = wait(left)? {
                    return Ok(Some(over));
                }
                if kept_up.elapsed() >= KEEP_UP_EVERY {
                    self.accounting.keep_up()?;
                    kept_up = Instant::now();
                }
                self.answer()?;
            }
            self.tell()?;
            if self.arguments.count.is_some_and(|count| self.told >= count) {
                return Ok(None);
            }
        }
    }

    fn answer(&mut self) -> Result<()> {
        let Some(socket) = &self.socket else {
            return Ok(());
        };
        let (accounting, answering) = (&mut self.accounting, &mut self.answering);
        asked::answer_all(socket, || {
            let snapshot = accounting.snapshot()?;
            Ok(answering.all(&snapshot, accounting).openmetrics())
        })
    }

    fn tell(&mut self) -> Result<()> {
        let snapshot = self.accounting.snapshot()?;
        if self.arguments.openmetrics {
            let told = self.answering.all(&snapshot, &self.accounting);
            self.write(&told.openmetrics())?;
        }
        let told = self.telling.tell(&snapshot, &self.accounting);
        if self.arguments.json {
            self.write(&format!("{}\n", text::json(&StatReport::of(&told))))?;
        } else if !self.arguments.openmetrics {
            let top = usize::from(self.arguments.top);
            let mut table = told.human(&self.arguments.columns, top, self.arguments.by());
            if self.arguments.timestamps {
                table.insert_str(0, &format!("{}\n", timestamp(now_unix_s())));
            }
            match &self.live {
                Some(live) => live.draw(&table),
                None => {
                    if self.told > 0 {
                        table.insert(0, '\n');
                    }
                    self.write(&table)?;
                }
            }
        }
        self.told += 1;
        self.has_losses |= told.has_losses();
        match &self.live {
            Some(live) => live.suspend(|| self.once.say(&told)),
            None => self.once.say(&told),
        }
        Ok(())
    }

    /// Writes to the file, if there is one; else to standard output, or, with a command, to
    /// standard error, since standard output is the command's.
    fn write(&mut self, what: &str) -> Result<()> {
        match &mut self.output {
            Some(file) => file
                .write_all(what.as_bytes())
                .context("cannot write what was asked for"),
            None if self.arguments.command.is_empty() => text::print(what),
            None => {
                // The reader of standard error may be gone; the report at the command's end is
                // written all the same.
                let _ = std::io::stderr().lock().write_all(what.as_bytes());
                Ok(())
            }
        }
    }
}
