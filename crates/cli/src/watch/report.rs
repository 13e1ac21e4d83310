// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `foreread watch` tells: lines of its log, and what it came to.

use std::time::Duration;

use foreread_linux_watch::{StreamsSummary, Summary};
use foreread_watch::log;
use foreread_watch::log::note::{Note, What};
use foreread_watch::tally::Tally;
use serde_json::{Value, json};

use super::fetched::fetched_document;
use super::together;
use crate::output;

/// Version of the documents.
const SCHEMA: &str = "foreread.watch/1";

/// The first line after those of others.
pub fn line_of_start() -> Value {
    line_of_ours(Duration::ZERO, json!({ "what": log::STARTED }))
}

/// A line that no watched process is the subject of.
pub fn line_of_ours(since_start: Duration, what: Value) -> Value {
    with(std::process::id(), since_start, what)
}

fn with(process: u32, since_start: Duration, what: Value) -> Value {
    let mut line = json!({
        "schema": log::SCHEMA,
        "since_start_ns": u64::try_from(since_start.as_nanos()).unwrap_or(u64::MAX),
        "process": process,
    });
    if let (Value::Object(line), Value::Object(what)) = (&mut line, what) {
        line.extend(what);
    }
    line
}

/// A line of the log.
pub fn line(note: &Note, since_start: Duration) -> Value {
    let mut what = match &note.what {
        What::Refused { directory } => json!({
            "what": "refused",
            "directory": String::from_utf8_lossy(directory),
        }),
        What::TooEarly { directory } => json!({
            "what": "too_early",
            "directory": String::from_utf8_lossy(directory),
        }),
        What::Begun { top, order } => json!({
            "what": "begun",
            "top": String::from_utf8_lossy(top),
            "order": order.name(),
        }),
        What::Raised { top, order } => json!({
            "what": "raised",
            "top": String::from_utf8_lossy(top),
            "order": order.name(),
        }),
        What::Ordered { order } => json!({ "what": "ordered", "order": order.name() }),
        What::Reads => json!({ "what": "reads" }),
        What::Known => json!({ "what": "known" }),
        What::Shares { leader } => json!({ "what": "shares", "with": leader }),
        What::Listed {
            directories,
            entries,
            took_ns,
        } => json!({
            "what": "listed",
            "directories": directories,
            "entries": entries,
            "took_ns": took_ns,
        }),
        What::Fetched {
            files,
            pages,
            window_files,
            took_ns,
        } => json!({
            "what": "fetched",
            "files": files,
            "pages": pages,
            "window_files": window_files,
            "took_ns": took_ns,
        }),
        // Numbers and texts can always be written.
        What::Called(call) => serde_json::to_value(call).unwrap_or_default(),
        What::OfProfile(what) => together::line(what),
        What::Ended { why, tally } => {
            let mut what = document_of(tally);
            what["what"] = "ended".into();
            what["why"] = why.name().into();
            what
        }
    };
    if !matches!(note.what, What::Called(_)) {
        what["reads"] = note.began_by_reads.into();
    }
    with(note.process, since_start, what)
}

fn document_of(tally: &Tally) -> Value {
    let mut document = fetched_document(tally);
    document["listed_directories"] = tally.directories.into();
    document
}

/// All of it, as one document.
pub fn document(summary: &Summary, is_dry_run: bool) -> Value {
    let mut document = document_of(&summary.tally);
    document["schema"] = SCHEMA.into();
    document["watched"] = true.into();
    document["dry_run"] = is_dry_run.into();
    document["misses"] = summary.misses.into();
    document["looks"] = summary.looks.into();
    document["walks"] = summary.walks.into();
    document["refused"] = summary.refused.into();
    document["lost"] = summary.lost.into();
    let profiles = summary.profiles.as_ref();
    document["profiles"] = profiles.map_or(Value::Null, together::document);
    document["streams"] = summary.streams.as_ref().map_or(Value::Null, |streams| {
        json!({
            "accesses": streams.accesses,
            "windows": streams.windows,
            "asked_pages": streams.asked_pages,
            "fetched_pages": streams.fetched_pages,
            "untold": streams.untold,
            "forgotten": streams.forgotten,
        })
    });
    document
}

/// Where nothing could be watched.
pub fn document_of_nothing(is_dry_run: bool) -> Value {
    let mut document = document(&Summary::default(), is_dry_run);
    document["watched"] = false.into();
    document
}

/// All of it, as one line.
pub fn people(summary: &Summary, is_dry_run: bool) -> String {
    let tally = &summary.tally;
    let walks = match summary.walks {
        1 => "1 walk".to_owned(),
        walks => format!("{walks} walks"),
    };
    let lost = match summary.lost {
        0 => String::new(),
        lost => format!("; {lost} records were lost on the way"),
    };
    let streams = summary
        .streams
        .as_ref()
        .map_or_else(String::new, of_streams);
    let profiles = summary.profiles.as_ref();
    let profiles = profiles.map_or_else(String::new, |of| together::people(of, is_dry_run));
    if is_dry_run {
        return format!(
            "{walks} seen, {} files missed{profiles}{streams}{lost}",
            summary.misses
        );
    }
    format!(
        "{walks}: {} files fetched in {} directories ({}), {} used, {} wasted; {} files missed{profiles}{streams}{lost}",
        tally.fetched_files,
        tally.directories,
        output::pages(tally.fetched_pages),
        tally.used_files,
        tally.wasted_files(),
        summary.misses,
    )
}

/// What was asked for in large files; nothing where nothing was.
fn of_streams(streams: &StreamsSummary) -> String {
    match streams.windows {
        0 => String::new(),
        windows => format!(
            "; in large files {windows} windows asked for, {} fetched",
            output::pages(streams.fetched_pages)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreread_watch::walk::Why;

    fn summary() -> Summary {
        Summary {
            misses: 40,
            walks: 1,
            tally: Tally {
                directories: 3,
                fetched_files: 100,
                fetched_pages: 256,
                used_files: 90,
                missed_files: 12,
                ..Tally::default()
            },
            lost: 2,
            ..Summary::default()
        }
    }

    #[test]
    fn what_it_came_to_is_one_line() {
        assert_eq!(
            people(&summary(), false),
            "1 walk: 100 files fetched in 3 directories (1 MiB), 90 used, 10 wasted; 40 files \
             missed; 2 records were lost on the way"
        );
        let reading = Summary {
            streams: Some(StreamsSummary {
                windows: 3,
                fetched_pages: 512,
                ..StreamsSummary::default()
            }),
            ..Summary::default()
        };
        assert!(people(&reading, true).ends_with("large files 3 windows asked for, 2 MiB fetched"));
        let quiet = Summary::default();
        assert_eq!(people(&quiet, true), "0 walks seen, 0 files missed");
        let document = document(&summary(), false);
        assert_eq!(document["wasted_files"], 10);
        assert_eq!(document["schema"], "foreread.watch/1");
    }

    #[test]
    fn each_line_of_the_log_says_who_and_what() {
        let note = Note {
            process: 7,
            began_by_reads: true,
            what: What::Ended {
                why: Why::Exited,
                tally: summary().tally,
            },
        };
        let line = line(&note, Duration::from_micros(5));
        assert_eq!(
            (&line["process"], &line["since_start_ns"]),
            (&json!(7), &json!(5000))
        );
        assert_eq!(
            (&line["what"], &line["why"]),
            (&json!("ended"), &json!("exited"))
        );
    }
}
