// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a replay fetched less than it wanted to, in words.

use std::io;

use foreread_linux_prefetcher::Report;

use crate::output::counted;

/// The failures, a clause each; empty if there were none.
pub fn of(report: &Report) -> Vec<String> {
    if let Some(reason) = nothing(report) {
        return vec![format!("replay fetched nothing: {reason}")];
    }
    failures(report)
}

/// Why nothing at all arrived that was wanted; `None` when something did, or when all that the
/// profile names was cached or overtaken by the command.
pub fn nothing(report: &Report) -> Option<String> {
    let done = report.cached_pages + report.overtaken_pages;
    if report.arrived_pages > 0 || report.planned_pages <= done {
        return None;
    }
    let failures = failures(report);
    if !failures.is_empty() {
        return Some(failures.join(", "));
    }
    if report.stopped_for_memory > 0 {
        return Some("memory was short".into());
    }
    if report.asked_pages > 0 {
        return Some("the command ended before the first read arrived".into());
    }
    if report.over_budget_pages > 0 {
        return Some("the budget leaves no room for it".into());
    }
    let lost = [
        (report.gone_files, "gone"),
        (report.replaced_files, "replaced"),
        (report.unreadable_files, "unreadable"),
        (report.leased_files, "leased to others"),
    ];
    let lost: Vec<String> = lost
        .into_iter()
        .filter(|(files, _)| *files > 0)
        .map(|(files, what)| format!("{} {what}", counted(files, "file is", "files are")))
        .collect();
    if !lost.is_empty() {
        return Some(lost.join(", "));
    }
    // Holes, and files in memory, need no reads.
    let come_to = done + report.skipped_pages;
    (report.planned_pages > come_to)
        .then(|| "the command ended before it came to the first file".into())
}

/// The first error of a replay, as the system words it.
pub fn first_error(report: &Report) -> Option<String> {
    let number = i32::try_from(report.first_error_number).ok()?;
    if number == 0 {
        return None;
    }
    let text = io::Error::from_raw_os_error(number).to_string();
    let words = text.split(" (os error").next().unwrap_or(&text);
    Some(words.to_owned())
}

fn failures(report: &Report) -> Vec<String> {
    let error = first_error(report).unwrap_or_else(|| "an unknown error".into());
    let mut failures = Vec::new();
    if report.failed_reads > 0 {
        let reads = counted(report.failed_reads, "read", "reads");
        failures.push(format!("{reads} failed with \"{error}\""));
    }
    if report.failed_file_systems > 0 {
        let systems = counted(report.failed_file_systems, "file system", "file systems");
        failures.push(format!("{systems} couldn't be read on: \"{error}\""));
    }
    if report.left_alone_file_systems > 0 {
        let systems = report.left_alone_file_systems;
        let systems = counted(systems, "file system was", "file systems were");
        failures.push(format!("{systems} left alone"));
    }
    if report.short_reads > 0 {
        let reads = counted(report.short_reads, "read", "reads");
        failures.push(format!("{reads} ended early"));
    }
    failures
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    fn errno(error: Errno) -> u64 {
        error.raw_os_error().unsigned_abs().into()
    }

    fn planned(planned_pages: u64) -> Report {
        Report {
            planned_pages,
            ..Report::default()
        }
    }

    #[test]
    fn a_replay_that_did_its_work_says_nothing_more() {
        let arrived = Report {
            asked_pages: 10,
            arrived_pages: 10,
            ..planned(10)
        };
        let cached = Report {
            cached_pages: 10,
            ..planned(10)
        };
        let overtaken = Report {
            cached_pages: 4,
            overtaken_pages: 6,
            ..planned(10)
        };
        let holes = Report {
            skipped_pages: 10,
            ..planned(10)
        };
        for report in [planned(0), arrived, cached, overtaken, holes] {
            assert_eq!(of(&report), Vec::<String>::new(), "{report:?}");
        }
    }

    #[test]
    fn a_replay_that_fetched_nothing_says_why() {
        let asked = Report {
            asked_pages: 10,
            ..planned(10)
        };
        let refused = Report {
            failed_reads: 3,
            first_error_number: errno(Errno::AGAIN),
            ..asked
        };
        let memory = Report {
            stopped_for_memory: 1,
            ..asked
        };
        let budget = Report {
            over_budget_pages: 10,
            ..planned(10)
        };
        let gone = Report {
            gone_files: 1,
            unreadable_files: 2,
            skipped_pages: 10,
            ..planned(10)
        };
        let cases = [
            (
                refused,
                "3 reads failed with \"Resource temporarily unavailable\"",
            ),
            (memory, "memory was short"),
            (asked, "the command ended before the first read arrived"),
            (budget, "the budget leaves no room for it"),
            (gone, "1 file is gone, 2 files are unreadable"),
            (
                planned(10),
                "the command ended before it came to the first file",
            ),
        ];
        for (report, reason) in cases {
            let line = format!("replay fetched nothing: {reason}");
            assert_eq!(of(&report), [line], "{report:?}");
        }
    }

    #[test]
    fn single_failures_are_counted_beside_what_arrived() {
        let report = Report {
            asked_pages: 10,
            arrived_pages: 7,
            failed_reads: 1,
            short_reads: 2,
            first_error_number: errno(Errno::IO),
            ..planned(10)
        };
        let reasons = [
            "1 read failed with \"Input/output error\"",
            "2 reads ended early",
        ];
        assert_eq!(of(&report), reasons);
    }
}
