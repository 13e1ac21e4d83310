// SPDX-License-Identifier: MIT OR Apache-2.0
//! A layout and a plan for people.

use std::fmt::Write as _;

use foreread_core::{Bytes, grouped};

use super::json::{said, stays};
use super::{Laid, Layout, by_need};
use crate::boot::phase_name;
use crate::output::{counted, percent, time};
use crate::table::{finished, table};
use crate::text::{escaped, escaped_path};

/// Moves that are listed.
const ROWS_MAX: usize = 20;

/// Where files lie, and what a replay takes.
pub fn show(layout: &Layout, with_files: bool) -> String {
    let mut text = String::new();
    for laid in &layout.laid {
        head(&mut text, laid);
        text += &phases(laid);
        text += &forecasts(laid);
        left(&mut text, laid);
        if with_files {
            text += &files(layout, laid);
        }
    }
    text
}

/// Which part goes where.
pub fn plan(layout: &Layout) -> String {
    let mut text = String::new();
    for laid in &layout.laid {
        head(&mut text, laid);
        text += &forecasts(laid);
        left(&mut text, laid);
        text += &moves(layout, laid);
    }
    text
}

/// Bytes in units that read well.
fn size(bytes: u64) -> String {
    Bytes::new(bytes).human().to_string()
}

fn line(text: &mut String, label: &str, value: &str) {
    // Writing to a string can't fail.
    let _ = writeln!(text, "{label:6} {value}");
}

fn head(text: &mut String, laid: &Laid) {
    let found = &laid.found;
    if !text.is_empty() {
        text.push('\n');
    }
    let _ = writeln!(
        text,
        "{}, {} on {}",
        escaped_path(&found.mount_point),
        escaped(&found.fs_type),
        found.device
    );
    line(text, "disk", &laid.model());
    if found.gone_files > 0 {
        let gone = counted(found.gone_files, "file", "files");
        line(text, "gone", &format!("{gone} of the profile"));
    }
    if found.metadata.is_none() {
        let why = "what is read of the metadata isn't known here, and not in the times";
        line(text, "note", why);
    }
    if found.free.is_none() {
        let why =
            "the file system doesn't tell what is free (it takes root): nothing can be planned";
        line(text, "note", why);
    }
}

fn phases(laid: &Laid) -> String {
    let has_phases = laid.account.phases.iter().any(|one| one.phase.is_some());
    let mut columns = vec!["files", "bytes", "fragments", "places", "within"];
    if has_phases {
        columns.insert(0, "phase");
    }
    let mut rows = table(&columns);
    for one in &laid.account.phases {
        let mut row = vec![
            grouped(one.files),
            size(one.bytes),
            grouped(one.fragments),
            grouped(one.places),
            size(one.span_bytes),
        ];
        if has_phases {
            row.insert(0, one.phase.map_or("", phase_name).to_owned());
        }
        rows.add_row(row);
    }
    let left: &[usize] = if has_phases { &[0] } else { &[] };
    finished(rows, left)
}

/// What a replay takes now and after the moves, and whether they are worth it.
fn forecasts(laid: &Laid) -> String {
    let plan = &laid.plan;
    let mut rows = table(&["replay", "takes", "for metadata", "seeks", "requests"]);
    for (name, forecast) in [("now", &plan.before), ("after", &plan.after)] {
        rows.add_row([
            name.to_owned(),
            time(forecast.time_ns),
            time(forecast.metadata_ns),
            grouped(forecast.seeks),
            grouped(forecast.requests),
        ]);
    }
    let mut text = finished(rows, &[0]);
    if plan.moves.is_empty() {
        line(&mut text, "moves", "nothing");
        return text;
    }
    let parts = counted(plan.moves.len() as u64, "part", "parts");
    let mut moves = format!("{parts}, {}", size(plan.bytes()));
    if !plan.is_worth_it() {
        let saved = plan.before.time_ns.saturating_sub(plan.after.time_ns);
        let share = percent(saved, plan.before.time_ns);
        moves += &format!("; not worth it: a replay would save {share} of its time");
    }
    line(&mut text, "moves", &moves);
    text
}

fn left(text: &mut String, laid: &Laid) {
    for (why, (parts, bytes)) in stays(&laid.plan.left) {
        let parts = counted(parts, "part", "parts");
        let (bytes, why) = (size(bytes), said(why));
        line(text, "stays", &format!("{parts}, {bytes}: {why}"));
    }
}

fn files(layout: &Layout, laid: &Laid) -> String {
    let mut rows = table(&["needed", "bytes", "fragments", "at", "file"]);
    for file in by_need(&laid.found.files) {
        let runs: Vec<_> = file.wanted_runs().map(|(run, _)| run).collect();
        let place = runs.first().map_or(0, |run| run.place_bytes);
        rows.add_row([
            time(file.first_need_ns().unwrap_or(0)),
            size(file.wanted_bytes()),
            grouped(file.fragments()),
            size(place),
            layout.path(file.node),
        ]);
    }
    finished(rows, &[4])
}

fn moves(layout: &Layout, laid: &Laid) -> String {
    let moves = &laid.plan.moves;
    if moves.is_empty() {
        return String::new();
    }
    let mut rows = table(&["needed", "bytes", "to", "file"]);
    for one in moves.iter().take(ROWS_MAX) {
        rows.add_row([
            time(one.need_ns),
            size(one.bytes),
            size(one.to_bytes),
            layout.path(one.node),
        ]);
    }
    let mut text = finished(rows, &[3]);
    let more = moves.len().saturating_sub(ROWS_MAX) as u64;
    if more > 0 {
        let _ = writeln!(text, "and {} more; --json lists all", grouped(more));
    }
    text
}
