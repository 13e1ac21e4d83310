// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text output of `apply`, `status` and `rollback`.

use std::fmt::Write as _;

use foreread_core::{KiB, grouped};
use foreread_device::{Applied, Entry, Origin, RolledBack, Standing};
use foreread_sys::open_files::OpenFiles;

use super::persist::Rule;
use super::report::{ApplyReport, Done, RollbackReport, StatusReport};
use crate::output::in_all_units;
use crate::table::{finished, table};
use crate::text::{date, escaped, escaped_path};

/// Processes named that keep the old size.
const HOLDERS_SHOWN: usize = 5;

pub fn applied(report: &ApplyReport) -> String {
    let mut out = String::new();
    if report.dry_run {
        out += &planned(report);
    } else if report.done.is_empty() && report.installed.is_none() {
        out += "Nothing to change: all is set as advised.\n";
    } else if !report.done.is_empty() {
        out += &changes(&report.done);
        out += &kept_by(&report.holders);
        out += &undo_line(&report.done);
    }
    if let Some(changed) = report.installed {
        out += &rule_line(report, changed);
    }
    out
}

fn rule_line(report: &ApplyReport, changed: bool) -> String {
    let path = escaped_path(&report.rule);
    match (report.dry_run, changed) {
        (true, true) => format!(
            "Would be installed: {path}, by which udev applies what is advised to new devices and \
             mounts.\n"
        ),
        (true, false) => format!("Would stay as it is: {path}\n"),
        (false, _) => format!(
            "{} {path}: udev applies what is advised to new devices and mounts. To undo: foreread \
             rollback --persist\n",
            if changed { "Installed" } else { "Unchanged:" }
        ),
    }
}

fn planned(report: &ApplyReport) -> String {
    if report.wishes.is_empty() {
        return match report.installed {
            // Only the rule was asked for, or all devices are as advised.
            Some(true) => String::new(),
            _ => "Nothing would be changed: all is set as advised.\n".to_owned(),
        };
    }
    let mut rows = table(&["device", "now, KiB", "would be, KiB", "because"]);
    for (device, wish) in &report.wishes {
        let now = device.read_ahead_kib.map_or("?".to_owned(), grouped);
        rows.add_row([
            shown(&device.identity.name),
            now,
            grouped(wish.kib),
            shown(&wish.reason),
        ]);
    }
    finished(rows, &[0, 3])
}

fn changes(done: &[Done]) -> String {
    let mut rows = table(&["device", "was, KiB", "now, KiB", "because"]);
    for Done {
        device,
        wish,
        applied,
    } in done
    {
        let (was, now, because) = match applied {
            Applied::Changed { from_kib, to_kib } => {
                (grouped(*from_kib), grouped(*to_kib), shown(&wish.reason))
            }
            Applied::AlreadySo => (
                grouped(wish.kib),
                grouped(wish.kib),
                format!("{}; it was so already", shown(&wish.reason)),
            ),
            Applied::Foreign { now_kib } => (
                grouped(*now_kib),
                grouped(*now_kib),
                "stays: set by somebody else since; --take-over changes it all the same".to_owned(),
            ),
            Applied::Manual { now_kib } => (
                grouped(*now_kib),
                grouped(*now_kib),
                "stays: a person has named it; name another by --read-ahead".to_owned(),
            ),
            Applied::Gone { replaced } => (String::new(), String::new(), gone(*replaced)),
            Applied::Failed(error) => (String::new(), String::new(), shown(&error.to_string())),
        };
        rows.add_row([shown(&device.identity.name), was, now, because]);
    }
    finished(rows, &[0, 3])
}

/// Lists the processes that keep the old value until they open their files again.
fn kept_by(holders: &OpenFiles) -> String {
    let mut out = String::new();
    let all = &holders.holders;
    if !all.is_empty() {
        let named: Vec<String> = all
            .iter()
            .take(HOLDERS_SHOWN)
            .map(|holder| format!("{} ({})", shown(&holder.name), holder.pid))
            .collect();
        let more = all.len().saturating_sub(HOLDERS_SHOWN);
        let more = match more {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        // Writing to a string can't fail.
        let _ = writeln!(
            out,
            "What is open keeps the old size until it is opened again: {} descriptors and {} mapped \
             files, of {}{more}.",
            grouped(holders.open()),
            grouped(holders.mapped()),
            named.join(", ")
        );
    }
    if holders.unseen > 0 {
        let _ = writeln!(
            out,
            "Processes that could not be looked into: {}; root sees them.",
            grouped(holders.unseen)
        );
    }
    out
}

fn undo_line(done: &[Done]) -> String {
    let changed: Vec<String> = done
        .iter()
        .filter(|done| matches!(done.applied, Applied::Changed { .. }))
        .map(|done| shown(&done.device.handle()))
        .collect();
    match changed.is_empty() {
        true => String::new(),
        false => format!("To undo: foreread rollback {}\n", changed.join(" ")),
    }
}

pub fn status(report: &StatusReport) -> String {
    let mut out = String::new();
    if report.open.is_empty() {
        out += "Nothing is applied.\n";
    } else {
        let mut rows = table(&[
            "device", "state", "was, KiB", "set, KiB", "now", "since", "because",
        ]);
        for (entry, standing) in &report.open {
            let last = entry.steps.last();
            rows.add_row([
                shown(&entry.identity.name),
                standing.name().to_owned(),
                grouped(entry.original_kib),
                grouped(entry.wanted_kib()),
                now(entry, *standing),
                last.map_or_else(String::new, |step| date(step.unix_s)),
                last.map_or_else(String::new, |step| shown(&step.reason)),
            ]);
        }
        out += &finished(rows, &[0, 1, 4, 5, 6]);
    }
    if let Some(closed) = &report.closed {
        out += &history(report, closed);
    }
    let path = escaped_path(&report.rule_path);
    out += &match report.rule {
        Rule::Missing => "New devices: not set; `foreread apply --persist` sets them.\n".to_owned(),
        Rule::Installed => format!("New devices: set by {path}\n"),
        Rule::Others => format!("New devices: as {path} says, which somebody has edited\n"),
    };
    out
}

fn now(entry: &Entry, standing: Standing) -> String {
    match standing {
        Standing::Ours | Standing::Manual => kib(entry.wanted_kib()),
        Standing::Foreign { now_kib } => kib(now_kib),
        Standing::Gone { replaced } => gone(replaced),
    }
}

fn history(report: &StatusReport, closed: &[Entry]) -> String {
    let mut rows = table(&["time", "device", "KiB", "what"]);
    let open = report.open.iter().map(|(entry, _)| entry);
    let mut lines: Vec<(u64, [String; 4])> = Vec::new();
    for entry in closed.iter().chain(open) {
        let name = shown(&entry.identity.name);
        for step in &entry.steps {
            let change = format!("{} to {}", grouped(step.from_kib), grouped(step.to_kib));
            let by = match step.origin {
                Origin::Advice => "applied",
                Origin::Udev => "applied by udev",
                Origin::Person => "applied by hand",
            };
            let what = format!("{by}: {}", shown(&step.reason));
            lines.push((step.unix_s, [date(step.unix_s), name.clone(), change, what]));
        }
        if let Some((ending, unix_s)) = entry.ended {
            use foreread_device::Ending;
            let (change, what) = match ending {
                Ending::RolledBack => (
                    format!(
                        "{} to {}",
                        grouped(entry.wanted_kib()),
                        grouped(entry.original_kib)
                    ),
                    "rolled back",
                ),
                Ending::LeftToOthers => (String::new(), "left to whoever has set it since"),
                Ending::Gone => (String::new(), "the device has gone"),
            };
            lines.push((
                unix_s,
                [date(unix_s), name.clone(), change, what.to_owned()],
            ));
        }
    }
    lines.sort_by_key(|line| line.0);
    if lines.is_empty() {
        return String::new();
    }
    for (_, line) in lines {
        rows.add_row(line);
    }
    format!("\n{}\n", finished(rows, &[0, 1, 3]))
}

pub fn rolled_back(report: &RollbackReport) -> String {
    let mut out = String::new();
    if report.undone.is_empty() && report.removed.is_none() {
        out += "Nothing to undo: nothing is applied there.\n";
    }
    for (entry, answer) in &report.undone {
        let name = shown(&entry.identity.name);
        let what = match answer {
            RolledBack::Restored { from_kib, to_kib } => format!(
                "as before, {}; {} KiB until now",
                in_all_units(KiB::new(*to_kib)),
                grouped(*from_kib)
            ),
            RolledBack::Foreign { now_kib } => format!(
                "stays as somebody else has set it since, {}",
                in_all_units(KiB::new(*now_kib))
            ),
            RolledBack::Gone { replaced } => format!("{}; nothing to undo", gone(*replaced)),
            RolledBack::Failed(error) => shown(&error.to_string()),
        };
        // Writing to a string can't fail.
        let _ = writeln!(out, "{name}: {what}");
    }
    if let Some(removed) = report.removed {
        let what = if removed { "Removed" } else { "Was not there:" };
        let _ = writeln!(out, "{what} {}", escaped_path(&report.rule));
    }
    out
}

fn gone(replaced: bool) -> String {
    match replaced {
        true => "gone: another device has its place, or the machine was restarted".to_owned(),
        false => "gone".to_owned(),
    }
}

fn kib(kib: u64) -> String {
    format!("{} KiB", grouped(kib))
}

fn shown(text: &str) -> String {
    escaped(text.as_bytes())
}
