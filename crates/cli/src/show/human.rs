// SPDX-License-Identifier: MIT OR Apache-2.0
//! A profile for people.

use std::fmt::Write as _;

use foreread_core::{Bytes, grouped};
use foreread_profile::benefit::saved_ns;
use foreread_profile::need::{PhaseLimits, nodes_by_need, phases};
use foreread_profile::{NodeId, NodeKind, Profile, Run};

use super::{Shown, words};
use crate::output::{pages, percent, time};
use crate::table::{finished, table};
use crate::text::{command_line, date, escaped, escaped_path};

/// Rows of a table that isn't asked for in full.
const ROWS_MAX: usize = 10;

/// Up to so many runs, a profile may be the first that its user looks at.
const NEW_RUNS: usize = 1;

/// What helps programs that have no profile.
const MACHINE: &str =
    "`sudo systemctl enable --now foreread-watch` helps all programs, then `foreread status`";

/// Width of the words on the left.
const LABEL_COLUMNS: usize = 12;

/// Everything, or with all files.
pub fn of(shown: &Shown, with_files: bool) -> String {
    let mut text = head(shown);
    text += &phases_table(&shown.profile);
    text += &largest_table(&shown.profile);
    text += &runs_table(&shown.profile.runs);
    line(&mut text, "replay", &words::judgement(&shown.profile.runs));
    if shown.profile.runs.len() <= NEW_RUNS {
        line(&mut text, "machine", MACHINE);
    }
    if with_files {
        text += &all_nodes(&shown.profile);
    }
    text
}

fn line(text: &mut String, label: &str, value: &str) {
    // Writing to a string can't fail.
    let _ = writeln!(text, "{label:LABEL_COLUMNS$} {value}");
}

fn head(shown: &Shown) -> String {
    let profile = &shown.profile;
    let (program, source) = (&profile.program, &profile.source);
    let mut text = String::new();
    line(&mut text, "program", &escaped(&program.executable));
    line(&mut text, "command", &command_line(&program.arguments));
    line(&mut text, "directory", &escaped(&program.directory));
    let recorded = format!(
        "{}, by {}, on Linux {}",
        date(source.recorded_unix_s),
        words::recorder(source.recorder),
        escaped(&source.kernel)
    );
    line(&mut text, "recorded", &recorded);
    if source.events_lost > 0 {
        line(
            &mut text,
            "lost",
            &format!("{} events", grouped(source.events_lost)),
        );
    }
    for meaning in words::blind_spot_meanings(source.blind_spots) {
        line(&mut text, "not seen", meaning);
    }
    for mount in profile
        .mounts
        .iter()
        .filter(|mount| !mount.fs_type.is_empty())
    {
        let (fs_type, at) = (escaped(&mount.fs_type), escaped(&mount.mount_point));
        let (major, minor) = (mount.device_major, mount.device_minor);
        line(
            &mut text,
            "on",
            &format!("{fs_type} at {at} (device {major}:{minor})"),
        );
    }
    line(&mut text, "holds", &holds(shown));
    let data = format!(
        "{} in {} pages of 4 KiB, {} ranges",
        pages(profile.total_pages()),
        grouped(profile.total_pages()),
        grouped(profile.ranges.len() as u64)
    );
    line(&mut text, "data", &data);
    let size = Bytes::new(shown.stored_bytes).human();
    line(
        &mut text,
        "stored",
        &format!("{size} in {}", escaped_path(&shown.path)),
    );
    text
}

fn holds(shown: &Shown) -> String {
    let kinds = [
        (NodeKind::File, "file", "files"),
        (NodeKind::Directory, "directory", "directories"),
        (NodeKind::Symlink, "symlink", "symlinks"),
        (NodeKind::Absent, "absent name", "absent names"),
    ];
    let counts = kinds.map(|(kind, one, many)| {
        let count = shown.count(kind);
        format!("{} {}", grouped(count), if count == 1 { one } else { many })
    });
    counts.join(", ")
}

fn rest(all: usize, what: &str) -> String {
    match all.saturating_sub(ROWS_MAX) {
        0 => String::new(),
        more => format!("and {} more {what}\n", grouped(more as u64)),
    }
}

fn phases_table(profile: &Profile) -> String {
    let phases = phases(profile, &PhaseLimits::default());
    if phases.is_empty() {
        return String::new();
    }
    let mut table = table(&["phase", "needed from", "to", "data", "files"]);
    for (index, phase) in phases.iter().enumerate().take(ROWS_MAX) {
        let mut files: Vec<NodeId> = phase.ranges.iter().map(|range| range.node).collect();
        files.sort_unstable();
        files.dedup();
        table.add_row([
            (index + 1).to_string(),
            time(phase.first_need_ns),
            time(phase.last_need_ns),
            pages(phase.pages),
            grouped(files.len() as u64),
        ]);
    }
    format!("\n{}{}", finished(table, &[]), rest(phases.len(), "phases"))
}

fn file_pages(profile: &Profile, id: NodeId) -> u64 {
    profile
        .ranges(id)
        .iter()
        .fold(0, |sum, range| sum.saturating_add(range.pages))
}

fn largest_table(profile: &Profile) -> String {
    let mut files: Vec<(u64, NodeId)> = profile
        .files()
        .map(|(id, _)| (file_pages(profile, id), id))
        .collect();
    files.retain(|(pages, _)| *pages > 0);
    if files.is_empty() {
        return String::new();
    }
    files.sort_by_key(|(pages, id)| (std::cmp::Reverse(*pages), *id));
    let mut table = table(&["data", "of", "ranges", "needed at", "largest files"]);
    for (read, id) in files.iter().take(ROWS_MAX) {
        let Some(node) = profile.node(*id) else {
            continue;
        };
        table.add_row([
            pages(*read),
            Bytes::new(node.identity.size_bytes).human().to_string(),
            grouped(u64::from(node.range_count)),
            time(node.need_ns),
            escaped(&profile.path(*id)),
        ]);
    }
    format!(
        "\n{}{}",
        finished(table, &[4]),
        rest(files.len(), "files; --files lists all")
    )
}

fn runs_table(runs: &[Run]) -> String {
    if runs.is_empty() {
        return "\n".into();
    }
    let mut table = table(&[
        "run",
        "mode",
        "time",
        "waited",
        "cached before",
        "fetched",
        "used",
        "late",
        "saved",
    ]);
    for (index, run) in runs.iter().enumerate() {
        let before = runs.get(..index).unwrap_or(&[]);
        table.add_row(run_row(before, run));
    }
    format!("\n{}\n", finished(table, &[0, 1]))
}

fn run_row(before: &[Run], run: &Run) -> [String; 9] {
    let none = || "-".to_owned();
    let share = |count: u64| percent(count, run.fetched_pages);
    let fetched = run.fetched_pages > 0;
    let used = run.used_pages().filter(|_| fetched);
    let late = run.used_late_pages.filter(|_| fetched);
    [
        if run.started_unix_s == 0 {
            none()
        } else {
            date(run.started_unix_s)
        },
        words::mode(run.mode).to_owned(),
        time(run.wall_ns),
        run.stall_ns.map_or_else(none, time),
        run.cached_before_permille
            .map_or_else(none, |cached| percent(cached.into(), 1000)),
        if fetched {
            pages(run.fetched_pages)
        } else {
            none()
        },
        used.map_or_else(none, share),
        late.map_or_else(none, share),
        saved_ns(before, run).map_or_else(none, signed_time),
    ]
}

fn signed_time(ns: i64) -> String {
    let sign = if ns < 0 { "-" } else { "" };
    format!("{sign}{}", time(ns.unsigned_abs()))
}

/// All nodes by need. A path may hold blanks, so it comes last.
fn all_nodes(profile: &Profile) -> String {
    let mut text = String::new();
    let head = format!(
        "\n{:>9} {:>6} {:>10} {:9} path [first page-last page]\n",
        "needed at", "weight", "data", "kind"
    );
    text += &head;
    let mut path = Vec::new();
    for id in nodes_by_need(profile) {
        let Some(node) = profile.node(id) else {
            continue;
        };
        profile.path_into(id, &mut path);
        let data = file_pages(profile, id);
        let data = if data > 0 {
            pages(data)
        } else {
            "-".to_owned()
        };
        // As above.
        let _ = write!(
            text,
            "{:>9} {:>6} {data:>10} {:9} {}",
            time(node.need_ns),
            node.weight,
            words::kind(node.kind),
            escaped(&path)
        );
        if node.range_count > 0 {
            let ranges: Vec<String> = profile
                .ranges(id)
                .iter()
                .map(|range| match range.pages {
                    1 => range.start_page.to_string(),
                    _ => format!(
                        "{}-{}",
                        range.start_page,
                        range.end_page().saturating_sub(1)
                    ),
                })
                .collect();
            let _ = write!(text, " [{}]", ranges.join(" "));
        }
        text.push('\n');
    }
    text
}
