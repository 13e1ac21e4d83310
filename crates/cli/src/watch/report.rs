// SPDX-License-Identifier: MIT OR Apache-2.0
//! Result of `foreread watch`, as text and as JSON.

use foreread_linux_watch::{StreamsSummary, Summary};
use serde::Serialize;

use super::fetched::WalkTallyReport;
use super::saved::{self, ProgramReport, SavedSumReport};
use super::together::{self, ProfilesReport};
use crate::{output, text};

/// Counts of a watch: `foreread.watch/1`. `docs/watch.md` describes the fields.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WatchReport {
    schema: &'static str,
    /// Whether anything could be watched.
    watched: bool,
    /// Whether nothing was changed, as was asked.
    dry_run: bool,
    /// Counts of all walks that have ended.
    #[serde(flatten)]
    tally: WalkTallyReport,
    /// Estimated time that walks, replays and windows in large files saved their programs.
    saved: SavedSumReport,
    /// The programs that were read ahead of, those that used most first; at most 10.
    programs: Vec<ProgramReport>,
    /// Files that were missed.
    misses: u64,
    /// Blocks of metadata that calls waited for.
    looks: u64,
    /// Walks that have begun.
    walks: u64,
    /// Suspicions that were wrong.
    refused: u64,
    /// Times that nothing was fetched for a program, because of its rights or of a limit.
    skipped: u64,
    /// Files and directories that were left out, because their reader may not read them.
    withheld: u64,
    /// Records that found no room.
    lost: u64,
    /// None where profiles are switched off.
    profiles: Option<ProfilesReport>,
    /// None where the kernel refuses to follow streams.
    streams: Option<StreamsReport>,
}

/// Streams in large files.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct StreamsReport {
    /// Accesses that the policy was told of.
    accesses: u64,
    /// Windows that the policy asked for.
    windows: u64,
    /// Pages of these windows.
    asked_pages: u64,
    /// Pages of these windows that were not cached and were fetched.
    fetched_pages: u64,
    /// Accesses that were skipped: the policy was busy on another processor.
    untold: u64,
    /// Windows for which there was no time.
    forgotten: u64,
}

impl WatchReport {
    pub fn of(summary: &Summary, is_dry_run: bool) -> Self {
        Self {
            schema: "foreread.watch/1",
            watched: true,
            dry_run: is_dry_run,
            tally: WalkTallyReport::of(&summary.tally),
            saved: SavedSumReport::of(&summary.saved),
            programs: Vec::new(),
            misses: summary.misses,
            looks: summary.looks,
            walks: summary.walks,
            refused: summary.refused,
            skipped: summary.skipped,
            withheld: summary.withheld,
            lost: summary.lost,
            profiles: summary.profiles.as_ref().map(ProfilesReport::of),
            streams: summary.streams.as_ref().map(StreamsReport::of),
        }
    }

    /// The same with what was done for each program.
    pub fn with_programs(self, programs: Vec<ProgramReport>) -> Self {
        Self { programs, ..self }
    }

    /// Where nothing could be watched.
    pub fn of_nothing(is_dry_run: bool) -> Self {
        Self {
            watched: false,
            ..Self::of(&Summary::default(), is_dry_run)
        }
    }

    /// One document in one line.
    pub fn line(&self) -> String {
        format!("{}\n", text::json(self))
    }
}

impl StreamsReport {
    fn of(streams: &StreamsSummary) -> Self {
        Self {
            accesses: streams.accesses,
            windows: streams.windows,
            asked_pages: streams.asked_pages,
            fetched_pages: streams.fetched_pages,
            untold: streams.untold,
            forgotten: streams.forgotten,
        }
    }
}

/// All of it, as one line.
pub fn human(summary: &Summary, is_dry_run: bool) -> String {
    let tally = &summary.tally;
    let walks = match summary.walks {
        1 => "1 walk".to_owned(),
        walks => format!("{walks} walks"),
    };
    let lost = match summary.lost {
        0 => String::new(),
        lost => format!("; {lost} records were lost on the way"),
    };
    let skipped = match summary.skipped {
        0 => String::new(),
        1 => "; a program was skipped once (see the log)".to_owned(),
        times => format!("; programs were skipped {times} times (see the log)"),
    };
    let withheld = match summary.withheld {
        0 => String::new(),
        entries => format!("; {entries} files were left out that their reader may not read"),
    };
    let lost = format!("{skipped}{withheld}{lost}");
    let saved = match saved::words(&summary.saved) {
        words if words.is_empty() => words,
        words => format!("; {words}"),
    };
    let streams = summary
        .streams
        .as_ref()
        .map_or_else(String::new, of_streams);
    let profiles = summary.profiles.as_ref();
    let profiles = profiles.map_or_else(String::new, |of| together::human(of, is_dry_run));
    if is_dry_run {
        return format!(
            "{walks} seen, {} files missed{profiles}{streams}{lost}",
            summary.misses
        );
    }
    format!(
        "{walks}: {} files fetched in {} directories ({}), {} used, {} wasted; {} files \
         missed{profiles}{streams}{saved}{lost}",
        tally.fetched_files,
        tally.directories,
        output::pages(tally.fetched_pages),
        tally.used_files,
        tally.wasted_files(),
        summary.misses,
    )
}

/// Clause about windows in large files; empty if there were none.
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
    use foreread_watch::tally::Tally;

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
            human(&summary(), false),
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
        assert!(human(&reading, true).ends_with("large files 3 windows asked for, 2 MiB fetched"));
        let bounded = Summary {
            skipped: 2,
            withheld: 5,
            ..Summary::default()
        };
        let text = human(&bounded, false);
        assert!(text.contains("; programs were skipped 2 times"), "{text}");
        assert!(text.ends_with("; 5 files were left out that their reader may not read"));
        let quiet = Summary::default();
        assert_eq!(human(&quiet, true), "0 walks seen, 0 files missed");
        let document = text::json(&WatchReport::of(&summary(), false));
        assert_eq!(document["wasted_files"], 10);
        assert_eq!(document["schema"], "foreread.watch/1");
    }
}
