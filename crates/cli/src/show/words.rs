// SPDX-License-Identifier: MIT OR Apache-2.0
//! The values of a profile in words.

use foreread_profile::benefit::{
    REPLAYS_MIN, Verdict, is_cold, is_replayed, judge, wall_without_ns,
};
use foreread_profile::{BlindSpots, NodeKind, Recorder, Run, RunMode};

use crate::output::time;
use crate::text::date;

/// Each blind spot: what it's called in JSON, and what it means.
const BLIND_SPOTS: [(BlindSpots, &str, &str); 6] = [
    (
        BlindSpots::RESIDENCY_NOT_ACCESS,
        "residency-not-access",
        "pages are those in memory at the end, not those accessed",
    ),
    (
        BlindSpots::NO_LOOKUPS,
        "no-lookups",
        "inodes looked at but not opened are missing",
    ),
    (
        BlindSpots::NO_MAPPED_FAULTS,
        "no-mapped-faults",
        "faults of mapped files are missing",
    ),
    (
        BlindSpots::NOT_ONLY_THIS_TREE,
        "not-only-this-tree",
        "accesses of other processes to the same files are included",
    ),
    (
        BlindSpots::NO_PAGE_TIMES,
        "no-page-times",
        "times of need are those of the first open",
    ),
    (
        BlindSpots::NO_STALL,
        "no-stall",
        "time waiting for reads was not measured",
    ),
];

/// Blind spots of a recording, as names for JSON.
pub fn blind_spot_names(spots: BlindSpots) -> Vec<&'static str> {
    here(spots).map(|(_, name, _)| *name).collect()
}

/// Blind spots of a recording, as sentences for text.
pub fn blind_spot_meanings(spots: BlindSpots) -> Vec<&'static str> {
    here(spots).map(|(_, _, meaning)| *meaning).collect()
}

fn here(
    spots: BlindSpots,
) -> impl Iterator<Item = &'static (BlindSpots, &'static str, &'static str)> {
    BLIND_SPOTS
        .iter()
        .filter(move |(spot, _, _)| spots.0 & spot.0 != 0)
}

/// For people.
pub fn recorder(recorder: Recorder) -> &'static str {
    match recorder {
        Recorder::Bpf => "BPF",
        Recorder::Tracefs => "tracefs",
        Recorder::Fanotify => "fanotify",
    }
}

/// For programs.
pub fn mode(mode: RunMode) -> &'static str {
    match mode {
        RunMode::Recorded => "recorded",
        RunMode::Replayed => "replayed",
        RunMode::ReplayedRecorded => "replayed-recorded",
        RunMode::Plain => "plain",
    }
}

/// For programs; short enough for a column.
pub fn kind(kind: NodeKind) -> &'static str {
    match kind {
        NodeKind::File => "file",
        NodeKind::Directory => "directory",
        NodeKind::Symlink => "symlink",
        NodeKind::Absent => "absent",
    }
}

/// Why the next run will replay, or won't, in one line.
pub fn judgement(runs: &[Run]) -> String {
    match judge(runs) {
        Verdict::Off {
            reason,
            since_unix_s,
            runs_until_retry,
        } => {
            let runs = if runs_until_retry == 1 { "run" } else { "runs" };
            let since = date(since_unix_s);
            format!("off since {since}: {reason}; tried again in {runs_until_retry} {runs}")
        }
        Verdict::Retry { reason } => format!("off: {reason}; the next run tries it again"),
        Verdict::Replay => format!("on: {}", why_on(runs)),
    }
}

fn why_on(runs: &[Run]) -> String {
    let cold = || runs.iter().filter(|run| is_replayed(run) && is_cold(run));
    if !runs.iter().any(is_replayed) {
        return "nothing was replayed yet".into();
    }
    let count = cold().count();
    let Some(without_ns) = wall_without_ns(runs) else {
        return "no cold run without it to hold it against".into();
    };
    let Some(latest) = cold().next_back().map(|run| time(run.wall_ns)) else {
        return "only warm runs so far, which say nothing about time".into();
    };
    let without = time(without_ns);
    if count < REPLAYS_MIN {
        let of = format!("{count} of the {REPLAYS_MIN} cold runs with it that a judgement needs");
        return format!("the latest cold run took {latest}, {without} without; {of}");
    }
    format!("the latest cold run took {latest}, {without} without (median)")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(mode: RunMode, wall_ms: u64, cached_permille: u16) -> Run {
        Run {
            mode,
            wall_ns: wall_ms * 1_000_000,
            cached_before_permille: Some(cached_permille),
            ..Run::default()
        }
    }

    #[test]
    fn the_judgement_says_why() {
        let first = run(RunMode::Recorded, 42_800, 0);
        let cold = run(RunMode::Replayed, 1_660, 10);
        let slow = run(RunMode::Replayed, 43_000, 10);
        let warm = run(RunMode::Replayed, 900, 990);
        let says = |runs: &[&Run]| judgement(&runs.iter().copied().cloned().collect::<Vec<_>>());
        assert_eq!(says(&[&first]), "on: nothing was replayed yet");
        assert_eq!(
            says(&[&first, &warm]),
            "on: only warm runs so far, which say nothing about time"
        );
        assert_eq!(
            says(&[&cold]),
            "on: no cold run without it to hold it against"
        );
        assert!(says(&[&first, &cold]).contains("took 1.66 s, 42.8 s without; 1 of the 3"));
        assert_eq!(
            says(&[&first, &cold, &cold, &cold]),
            "on: the latest cold run took 1.66 s, 42.8 s without (median)"
        );
        assert_eq!(
            says(&[&first, &slow, &slow, &slow]),
            "off since 1970-01-01 00:00 UTC: cold runs took 43.00 s with replay and 42.80 s \
             without; tried again in 15 runs"
        );
    }

    #[test]
    fn blind_spots_have_names() {
        let spots = BlindSpots(BlindSpots::NO_STALL.0 | BlindSpots::NO_LOOKUPS.0 | 1 << 31);
        assert_eq!(blind_spot_names(spots), ["no-lookups", "no-stall"]);
        assert_eq!(blind_spot_meanings(BlindSpots::default()).len(), 0);
    }
}
