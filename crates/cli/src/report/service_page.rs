// SPDX-License-Identifier: MIT OR Apache-2.0
//! The section about a running `watch`: whom it read ahead of, what, and what became of it.

use foreread_core::grouped;
use foreread_watch::log::followed::FollowedFile;

use super::html::{Column, paragraph, soft, table};
use super::live::{Helped, Kind, Live};
use super::machine::Machine;
use crate::explain::source::start;
use crate::output::{counted, pages, time};
use crate::text::escaped;

/// Rows of a table; the rest is counted.
const ROWS_MAX: usize = 50;

pub fn content(machine: &Machine) -> String {
    let Some(live) = &machine.live else {
        return match machine.is_watched {
            true => paragraph("A `foreread watch` runs; what it does could not be asked."),
            false => paragraph(&none()),
        };
    };
    let mut content = paragraph(&sums(live));
    if !live.helped.is_empty() {
        let newest = live.helped.iter().rev().take(ROWS_MAX);
        let rows: Vec<Vec<String>> = newest.map(row).collect();
        content += &table("Programs that were read ahead of", &COLUMNS, &rows);
        content += &rest(live.helped.len());
    }
    if let Some(why) = &live.streams_unknown {
        content += &soft(&format!("Streams in large files can't be told of: {why}."));
    }
    let streams: Vec<Vec<String>> = live.followed.iter().flat_map(streams).collect();
    if !streams.is_empty() {
        content += "<h3>Streams that are followed now</h3>\n";
        let shown = &streams[..streams.len().min(ROWS_MAX)];
        content += &table("Streams that are followed now", &STREAM_COLUMNS, shown);
        content += &rest(streams.len());
    }
    for left in &live.left_alone {
        let (at, kind) = (escaped(&left.mount_point), escaped(&left.fs_type));
        let still = time(left.still_ns);
        content += &paragraph(&format!(
            "{at} ({kind}) doesn't answer, and is left alone for another {still}."
        ));
    }
    content
}

const COLUMNS: [Column; 9] = [
    Column::Short("program"),
    Column::Short("how"),
    Column::Text("what"),
    Column::Number("files"),
    Column::Number("data"),
    Column::Number("used"),
    Column::Number("wasted"),
    Column::Number("missed"),
    Column::Short("now"),
];

const STREAM_COLUMNS: [Column; 5] = [
    Column::Text("file"),
    Column::Number("process"),
    Column::Number("ahead"),
    Column::Number("distance"),
    Column::Number("read"),
];

/// What all of it came to.
fn sums(live: &Live) -> String {
    if live.helped.is_empty() {
        return "The service runs. It read ahead of no program yet.".to_owned();
    }
    let sum = |of: fn(&Helped) -> u64| live.helped.iter().map(of).fold(0, u64::saturating_add);
    let ended = live.helped.iter().filter(|helped| helped.ended.is_some());
    let used = ended.clone().filter_map(|helped| helped.used_files).sum();
    let wasted = ended.filter_map(|helped| helped.wasted_files).sum();
    format!(
        "The service runs. Of the latest events: it read ahead of {}, {} with {}. Of those that \
         have ended, {} used and {} not.",
        counted(live.helped.len() as u64, "program", "programs"),
        counted(sum(|helped| helped.fetched_files), "file", "files"),
        pages(sum(|helped| helped.fetched_pages)),
        counted(used, "file was", "files were"),
        grouped(wasted),
    )
}

fn row(helped: &Helped) -> Vec<String> {
    let number = |count: Option<u64>| count.map_or("-".to_owned(), grouped);
    let program = match &helped.name {
        Some(name) => format!("{name} ({})", helped.process),
        None => helped.process.to_string(),
    };
    vec![
        program,
        match helped.kind {
            Kind::Walk => "walks below",
            Kind::Profile => "follows",
        }
        .to_owned(),
        helped.what.clone(),
        grouped(helped.fetched_files),
        pages(helped.fetched_pages),
        number(helped.used_files),
        number(helped.wasted_files),
        number(helped.missed_files),
        match &helped.ended {
            Some(why) => format!("ended: {}", why.replace('_', " ")),
            None => "goes on".to_owned(),
        },
    ]
}

fn streams(file: &FollowedFile) -> Vec<Vec<String>> {
    let name = match &file.path {
        Some(path) => escaped(path),
        None => format!("inode {} of {}", file.file.inode, file.file.device),
    };
    let streams = file.streams.iter().map(|followed| {
        let stream = &followed.stream;
        vec![
            name.clone(),
            followed
                .process
                .map_or("-".to_owned(), |process| process.to_string()),
            pages(stream.ahead_pages),
            pages(stream.distance_pages.into()),
            pages(stream.run_pages.into()),
        ]
    });
    streams.collect()
}

fn rest(all: usize) -> String {
    match all.saturating_sub(ROWS_MAX) {
        0 => String::new(),
        more => soft(&format!("and {} more", grouped(more as u64))),
    }
}

fn none() -> String {
    match start("/".as_ref()) {
        Some(start) => format!("No `foreread watch` of the machine runs; `{start}` starts one."),
        None => {
            "No `foreread watch` of the machine runs, and this kernel lets none start.".to_owned()
        }
    }
}
