// SPDX-License-Identifier: MIT OR Apache-2.0
//! `run`, `record` and `replay`.

mod command;
pub mod json;
mod measured;
mod remembered;
pub mod replayed;
mod session;
mod shortfall;
mod timeline;
pub mod traced;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use foreread_linux_prefetcher::{Executor, Options};
use foreread_linux_recorder::Choice;
use foreread_prefetch::plan::ReadPlan;
use foreread_profile::benefit::judge;
use foreread_profile::{Profile, encode};
use foreread_sys::background::in_background;
use foreread_sys::{child, save};

use crate::alone::{not_started, run_alone};
use crate::args::{RecordArguments, ReplayArguments, RunArguments};
use crate::left_alone;
use crate::output;
use crate::store::{self, Key, Lesson, Store, Stored};
use crate::{text, without_root};
use command::{program_of, remedy};
use measured::Next;
use replayed::ReplayDone;
use session::{Failure, Session, Work};

/// `foreread run`: the command runs whatever becomes of the rest.
pub fn run(arguments: &RunArguments) -> Result<ExitCode> {
    let started = Instant::now();
    let name = &arguments.command[0];
    let key = store::find_executable(name).map(|path| Key::of(&path, &arguments.command));
    let Some(key) = key else {
        // Let the kernel say why; nothing is left to be done ahead of it.
        return Ok(match run_alone(&arguments.command) {
            Ok(status) => child::end_as(status),
            Err(code) => code,
        });
    };
    let store = Store::find();
    let stored = match &store {
        Ok(_) if arguments.fresh => Stored::Nothing,
        Ok(store) => store.load(&key),
        Err(_) => Stored::Nothing,
    };
    let profile = match stored {
        Stored::Profile(profile) => Some(Arc::new(*profile)),
        Stored::Nothing => None,
        Stored::Unreadable(reason) => {
            output::note(&format!(
                "recording afresh: the profile of {} is unusable: {reason}",
                name.display()
            ));
            None
        }
    };
    let usual = match profile.is_none() {
        true => Next::ReplayedFromNowOn(text::command_line_of(&arguments.command)),
        false => Next::Replayed,
    };
    let verdict = profile.as_ref().map(|profile| judge(&profile.runs));
    let recorder = Choice::from(arguments.recorder);
    let refused = match (&store, recorder) {
        (Ok(store), Choice::Best) => remembered::load(store.directory()),
        _ => None,
    };
    let recorder = match refused {
        Some(_) => Choice::Fallback,
        None => recorder,
    };
    let program = program_of(&key, &arguments.command);
    let in_doubt = profile.as_ref().is_some_and(|profile| {
        let scripts = &profile.program.scripts;
        profile.is_astray || (!scripts.is_empty() && *scripts != program.scripts)
    });
    let may_use_bpf = session::may_use_bpf(recorder);
    let work = Work::choose(profile.as_deref(), verdict, may_use_bpf, in_doubt);
    let session = Session {
        arguments: &arguments.command,
        program,
        recorder,
        refused: refused.clone().unwrap_or_default(),
        must_record: false,
        in_doubt,
        started,
        budget_bytes: arguments.budget.map(foreread_core::Bytes::count),
    };
    let mut done = match session.run(profile, work) {
        Ok(done) => done,
        Err(failure) => return not_run(failure, &arguments.command),
    };
    done.measured.verdict = verdict;
    done.measured.trouble.extend(left_alone::clauses());
    let bpf_refused = std::mem::take(&mut done.bpf_refused);
    let later = match done.lesson.take() {
        Some(Lesson::Recorded(recorded)) => {
            let store = store.as_ref().map_err(|error| anyhow::anyhow!("{error:#}"));
            match store.and_then(|store| save_recorded(store, &key, recorded, arguments)) {
                Ok(saved) => done.measured.judge_after(&saved.runs),
                Err(error) => done.measured.trouble.push(format!("{error:#}")),
            }
            None
        }
        Some(lesson) => {
            done.measured.judge_after(&lesson.runs());
            Some(lesson)
        }
        None => None,
    };
    done.timeline.mark("save");
    match (&store, recorder, bpf_refused.is_empty()) {
        (Ok(store), Choice::Best, false) => remembered::save(store.directory(), &bpf_refused),
        // Asked for, and not refused: what is remembered is wrong.
        (Ok(store), Choice::Bpf, true) => remembered::forget(store.directory()),
        _ => {}
    }
    done.measured.next = Next::after(done.status, usual);
    let document = arguments.json.then(|| done.measured.json(&done.timeline));
    let line = done.measured.line();
    if let Some(path) = &arguments.output {
        // People still get their line.
        output::report(&line);
        let contents = match document {
            Some(document) => document.to_string(),
            None => format!("foreread: {}", text::printable(&line)),
        };
        save::write(path, format!("{contents}\n").as_bytes())
            .with_context(|| format!("cannot write {}", path.display()))?;
    } else {
        output::outcome(document, &line);
    }
    if let (Some(lesson), Ok(store)) = (later, store) {
        save_later(&store, &key, lesson);
    }
    child::end_as(done.status)
}

/// Saves a recording. A command that makes its output has another key from now on, since a file of
/// that name is there: `cc -o prog a.c`, `tar -cf new.tar src`. Whether the file is there at the
/// next start, nobody knows, so the profile is saved under both keys.
fn save_recorded(
    store: &Store,
    key: &Key,
    recorded: Profile,
    arguments: &RunArguments,
) -> Result<Profile> {
    let lesson = |recorded| match arguments.fresh {
        true => Lesson::Fresh(recorded),
        false => Lesson::Recorded(recorded),
    };
    let executable = Path::new(OsStr::from_bytes(&key.executable));
    let now = Key::of(executable, &arguments.command);
    if now.bytes != key.bytes {
        let mut copy = recorded.clone();
        copy.program = program_of(&now, &arguments.command);
        store.update(&now, lesson(copy))?;
    }
    store.update(key, lesson(recorded))
}

/// Saves what a replayed run taught once nobody waits for it any more: syncing a file and its
/// directory takes longer than a warm command.
fn save_later(store: &Store, key: &Key, lesson: Lesson) {
    let mut lesson = Some(lesson);
    let mut save = || {
        if let Some(Err(error)) = lesson.take().map(|lesson| store.update(key, lesson)) {
            output::error(&error);
        }
    };
    if in_background(&mut save).is_err() {
        save();
    }
}

fn not_run(failure: Failure, command: &[OsString]) -> Result<ExitCode> {
    match failure {
        Failure::Spawn(error) => Ok(not_started(&error, command)),
        Failure::NoRecorder(_) if without_root::lacks_rights() => {
            bail!("{}", without_root::recording())
        }
        Failure::NoRecorder(reasons) => bail!(
            "nothing here can record: {}; {}",
            reasons.join("; "),
            remedy()
        ),
    }
}

/// `foreread record`: a profile file of one run, or a trace of it.
pub fn record(arguments: &RecordArguments) -> Result<ExitCode> {
    if let Some(path) = &arguments.trace {
        return traced::record(arguments, path);
    }
    let Some(output) = &arguments.output else {
        bail!("where to? name a profile with --output, or a trace with --trace");
    };
    let started = Instant::now();
    let executable = store::find_executable(&arguments.command[0]);
    let key = Key::of(&executable.unwrap_or_default(), &arguments.command);
    let session = Session {
        arguments: &arguments.command,
        program: program_of(&key, &arguments.command),
        recorder: arguments.recorder.into(),
        refused: Vec::new(),
        must_record: true,
        in_doubt: false,
        started,
        budget_bytes: None,
    };
    let mut done = match session.run(None, Work::Record) {
        Ok(done) => done,
        Err(failure) => return not_run(failure, &arguments.command),
    };
    done.measured.trouble.extend(left_alone::clauses());
    if let Some(Lesson::Recorded(profile)) = done.lesson.take() {
        save::replace(output, &encode(&profile))
            .with_context(|| format!("cannot save {}", output.display()))?;
    }
    done.measured.next = Next::after(done.status, Next::InFile(output.clone()));
    let document = || done.measured.json(&done.timeline);
    output::outcome(arguments.json.then(document), &done.measured.line());
    child::end_as(done.status)
}

/// `foreread replay`: brings in a profile, waits for it, says what came of it.
pub fn replay(arguments: &ReplayArguments) -> Result<ExitCode> {
    let profile: Arc<Profile> = Arc::new(store::read(&arguments.profile.find()?)?);
    let started = Instant::now();
    let options = Options {
        budget_bytes: arguments.budget.map(foreread_core::Bytes::count),
        ..Options::default()
    };
    let (report, elapsed) = Executor::default()
        .start(Arc::new(ReadPlan::from(&*profile)), &options)
        .join();
    let done = ReplayDone { report, elapsed };
    if arguments.json {
        text::print(&format!("{}\n", done.json()))?;
    } else {
        output::report(&done.line());
    }
    debug_assert!(started.elapsed() >= elapsed);
    Ok(if done.is_whole() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(crate::EXIT_PARTLY)
    })
}
