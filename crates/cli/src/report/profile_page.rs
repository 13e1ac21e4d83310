// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page of one program: its runs, what its replays were worth, and what it reads.

use foreread_core::{Bytes, grouped};
use foreread_profile::benefit::saved_ns;
use foreread_profile::{NodeId, NodeKind, PAGE_BYTES, Profile, Run};

use super::charts::growth;
use super::html::{Column, legend, paragraph, section, soft, table};
use super::machine_page::STYLE;
use super::run_charts::{self, FATES_LEGEND, TIMES_LEGEND};
use crate::output::{counted, pages, percent, time};
use crate::picture::page::{self, html};
use crate::show::{Shown, blind_spot_meanings, judgement, mode, recorder};
use crate::text::{command_line, date, escaped, escaped_path};

/// Files in the table, the largest.
const FILES_MAX: usize = 25;

pub fn page(shown: &Shown) -> String {
    let profile = &shown.profile;
    let (program, source) = (&profile.program, &profile.source);
    let command = match program.arguments.is_empty() {
        true => escaped(&program.executable),
        false => command_line(&program.arguments),
    };
    let mut page = page::begin(&format!("foreread report: {command}"), STYLE);
    page += &format!(
        "<header>\n<h1>{}<small>{} in {}</small></h1>\n",
        html(&command),
        html(&escaped(&program.executable)),
        html(&escaped(&program.directory)),
    );
    page += &paragraph(&format!("Replay is {}.", judgement(&profile.runs)));
    page += &soft(&format!(
        "Recorded {}, by {}, on Linux {}; {} in {}.",
        date(source.recorded_unix_s),
        recorder(source.recorder),
        escaped(&source.kernel),
        Bytes::new(shown.stored_bytes).human(),
        escaped_path(&shown.path),
    ));
    for meaning in blind_spot_meanings(source.blind_spots) {
        page += &soft(&format!("Not seen: {meaning}."));
    }
    page += "</header>\n<main>\n";
    page += &section("runs", "Runs", &runs(&profile.runs));
    page += &section("reads", "What it reads", &reads(shown));
    page + "</main>\n" + page::END
}

fn runs(runs: &[Run]) -> String {
    if runs.is_empty() {
        return paragraph("No run is remembered.");
    }
    let mut content = "<div class=\"cards\">\n".to_owned();
    let charts = [
        (run_charts::times(runs), &TIMES_LEGEND),
        (run_charts::fates(runs), &FATES_LEGEND),
    ];
    for (chart, entries) in charts {
        if let Some(chart) = chart {
            content += &format!("<div class=\"card\">\n{chart}{}</div>\n", legend(entries));
        }
    }
    content += "</div>\n";
    content += &soft("Pale bars: the files were in memory already, which says nothing about time.");
    let columns = [
        Column::Short("run"),
        Column::Short("mode"),
        Column::Number("time"),
        Column::Number("waited"),
        Column::Number("cached before"),
        Column::Number("fetched"),
        Column::Number("used"),
        Column::Number("late"),
        Column::Number("saved"),
    ];
    let rows = runs
        .iter()
        .enumerate()
        .map(|(at, run)| row(&runs[..at], run));
    let rows: Vec<Vec<String>> = rows.rev().collect();
    content + &table("Runs, the latest first", &columns, &rows)
}

fn row(before: &[Run], run: &Run) -> Vec<String> {
    let none = || "-".to_owned();
    let has_fetched = run.fetched_pages > 0;
    let share = |count: Option<u64>| {
        let count = count.filter(|_| has_fetched);
        count.map_or_else(none, |count| percent(count, run.fetched_pages))
    };
    let saved = saved_ns(before, run).map(|ns| {
        let sign = if ns < 0 { "-" } else { "" };
        format!("{sign}{}", time(ns.unsigned_abs()))
    });
    let cached = run
        .cached_before_permille
        .map(|part| percent(part.into(), 1000));
    vec![
        date(run.started_unix_s),
        mode(run.mode).to_owned(),
        time(run.wall_ns),
        run.stall_ns.map_or_else(none, time),
        cached.unwrap_or_else(none),
        match has_fetched {
            true => pages(run.fetched_pages),
            false => none(),
        },
        share(run.used_pages()),
        share(run.used_late_pages),
        saved.unwrap_or_else(none),
    ]
}

fn reads(shown: &Shown) -> String {
    let profile = &shown.profile;
    let mut content = paragraph(&format!(
        "{} of {}; it looks at {} and {}.",
        pages(profile.total_pages()),
        counted(shown.count(NodeKind::File), "file", "files"),
        counted(shown.count(NodeKind::Directory), "directory", "directories"),
        counted(
            shown.count(NodeKind::Absent),
            "name that is not there",
            "names that are not there"
        ),
    ));
    let points = needs(profile);
    if !points.is_empty() {
        content += "<div class=\"cards\">\n<div class=\"card\">\n";
        content += &growth("Data that was needed, by time", "MiB", &points);
        content += "</div>\n</div>\n";
    }
    content + &largest(profile)
}

/// The sum of data over the time of its first need, in seconds and MiB.
fn needs(profile: &Profile) -> Vec<(f64, f64)> {
    let ranges = profile.ranges.iter();
    let mut needs: Vec<(u64, u64)> = ranges.map(|range| (range.need_ns, range.pages)).collect();
    needs.sort_unstable();
    let mut sum = 0u64;
    let points = needs.into_iter().map(|(need_ns, pages)| {
        sum = sum.saturating_add(pages);
        let bytes = sum.saturating_mul(PAGE_BYTES);
        (need_ns as f64 / 1e9, bytes as f64 / f64::from(1 << 20))
    });
    points.collect()
}

fn largest(profile: &Profile) -> String {
    let sum = |id| {
        profile
            .ranges(id)
            .iter()
            .fold(0u64, |sum, range| sum.saturating_add(range.pages))
    };
    let mut files: Vec<(u64, NodeId)> = profile.files().map(|(id, _)| (sum(id), id)).collect();
    files.retain(|(pages, _)| *pages > 0);
    files.sort_by_key(|(pages, id)| (std::cmp::Reverse(*pages), *id));
    if files.is_empty() {
        return String::new();
    }
    let columns = [
        Column::Text("file"),
        Column::Number("data"),
        Column::Number("of"),
        Column::Number("needed at"),
    ];
    let row = |(read, id): &(u64, NodeId)| {
        let node = profile.node(*id)?;
        Some(vec![
            escaped(&profile.path(*id)),
            pages(*read),
            Bytes::new(node.identity.size_bytes).human().to_string(),
            time(node.need_ns),
        ])
    };
    let rows: Vec<Vec<String>> = files.iter().take(FILES_MAX).filter_map(row).collect();
    let more = files.len().saturating_sub(FILES_MAX);
    let rest = match more {
        0 => String::new(),
        more => soft(&format!(
            "and {} more; `foreread show --files` lists all",
            grouped(more as u64)
        )),
    };
    table("The largest files", &columns, &rows) + &rest
}
