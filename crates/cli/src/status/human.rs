// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of a machine as text: what is on, and the command that tells more or turns it on.

use foreread_boot::Verdict;

use super::{Boot, Machine, Module, Passes, Profiles};
use crate::apply::{StatusReport, human};
use crate::output::{counted, time};
use crate::text::{date, printable};
use crate::watch::service::Running;

/// Columns of the names of the parts.
const NAME_COLUMNS: usize = 10;

pub fn of(machine: Option<&Machine>, read_ahead: &StatusReport) -> String {
    let read_ahead = human::status(read_ahead);
    match machine {
        None => read_ahead,
        Some(machine) => lines(machine) + "\n" + &read_ahead + undo(machine),
    }
}

/// How everything is undone at once.
fn undo(machine: &Machine) -> &'static str {
    match machine.is_packaged {
        true => "All of it goes, profiles too, with: sudo apt purge foreread\n",
        false => "",
    }
}

fn lines(machine: &Machine) -> String {
    let mut text = String::new();
    let mut line = |name: &str, state: String| {
        text += &format!("{name:NAME_COLUMNS$} {}\n", printable(&state));
    };
    line(
        "watch",
        part(&machine.watcher, |running| watcher(running.as_ref())),
    );
    line("profiles", part(&machine.profiles, profiles));
    line("boot", part(&machine.boot, boot));
    line("layout", part(&machine.passes, passes));
    // It is for those who ask for it.
    if !matches!(&machine.module, Ok(module) if !module.is_loaded) {
        line("module", part(&machine.module, module));
    }
    text
}

fn part<T>(read: &Result<T, String>, said: impl FnOnce(&T) -> String) -> String {
    match read {
        Ok(part) => said(part),
        Err(why) => format!("unknown: {why}"),
    }
}

fn watcher(running: Option<&Running>) -> String {
    match running {
        None => "off; `sudo systemctl enable --now foreread-watch` watches the machine".to_owned(),
        Some(running) => format!(
            "on: process {} since {}; `sudo systemctl disable --now foreread-watch` ends it",
            running.pid,
            date(running.since_unix_s)
        ),
    }
}

fn profiles(profiles: &Profiles) -> String {
    if profiles.stored == 0 {
        return "none; `sudo foreread run -- COMMAND` records one".to_owned();
    }
    let unreadable = match profiles.unreadable {
        0 => String::new(),
        number => format!(", {number} unreadable"),
    };
    format!(
        "{}, replay on for {}{unreadable}; `foreread profiles list`",
        counted(profiles.stored, "profile", "profiles"),
        profiles.replayed,
    )
}

fn boot(boot: &Boot) -> String {
    if !boot.is_enabled {
        return "off; `sudo foreread boot enable` records the next boot".to_owned();
    }
    let saved_ns = boot.worth.saved_ns().unwrap_or(0).unsigned_abs();
    let worth = match boot.worth.verdict {
        Verdict::TooFew => "too few boots to judge".to_owned(),
        Verdict::Gains => format!("a replay saves {}", time(saved_ns)),
        Verdict::Unclear => "not clear yet whether a replay helps".to_owned(),
        Verdict::NoGain => "replays are off, they don't help".to_owned(),
    };
    format!("on: {worth}; `foreread boot status`, `sudo foreread boot disable`")
}

fn passes(passes: &Passes) -> String {
    match (passes.finished, passes.stopped) {
        (0, 0) => "nothing was moved".to_owned(),
        (finished, 0) => format!(
            "{} of files; `foreread layout status`",
            counted(finished, "move", "moves")
        ),
        (_, stopped) => format!(
            "{} stopped in the middle; `sudo foreread layout resume` goes on",
            counted(stopped, "move was", "moves were")
        ),
    }
}

fn module(module: &Module) -> String {
    let named = module.taken.iter();
    let named: Vec<String> = named
        .map(|(device, policy)| format!("{device} by {policy}"))
        .collect();
    let taken = match named.is_empty() {
        true => "no device has a policy".to_owned(),
        false => named.join(", "),
    };
    format!("loaded: {taken}; `foreread kernel status`, `sudo foreread kernel unload`")
}
