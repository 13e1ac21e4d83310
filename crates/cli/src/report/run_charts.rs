// SPDX-License-Identifier: MIT OR Apache-2.0
//! Charts of the runs of a program and of boots: how long each took, and what became of its pages.

use foreread_boot::{Boot, Mode};
use foreread_profile::benefit::{is_cold, wall_without_ns};
use foreread_profile::{PAGE_BYTES, Run, RunMode};

use super::charts::{Bar, Bars};
use crate::boot::status::mode as boot_mode;
use crate::output::{pages, time};
use crate::show::mode;
use crate::text::date;

/// Runs and boots that are drawn, the latest ones.
const DRAWN_MAX: usize = 32;

/// The classes of [`times`].
pub const TIMES_LEGEND: [(&str, &str); 4] = [
    ("fill-blue", "with replay"),
    ("fill-grey", "without"),
    ("fill-vermilion", "of it waiting for reads"),
    ("median line-quiet", "cold without it: median"),
];

/// The classes of [`fates`].
pub const FATES_LEGEND: [(&str, &str); 4] = [
    ("fill-blue", "used on time"),
    ("fill-orange", "used late"),
    ("fill-vermilion", "not used"),
    ("fill-grey", "not known"),
];

/// The classes of [`boots`].
pub const BOOTS_LEGEND: [(&str, &str); 3] = [
    ("fill-blue", "with replay"),
    ("fill-grey", "without"),
    ("median line-quiet", "without: median"),
];

/// How long each run took; `None` where there is none. Runs whose files were cached are pale: they
/// say nothing about cold starts.
pub fn times(runs: &[Run]) -> Option<String> {
    let (drawn, about) = latest(runs, "Time by run")?;
    let longest_ns = drawn.iter().map(|run| run.wall_ns).max().unwrap_or(0);
    let (unit, ns) = unit(longest_ns);
    let bars: Vec<Bar> = drawn.iter().map(|run| time_bar(run, ns)).collect();
    let chart = Bars {
        about: &about,
        unit,
        what: "run",
        bars: &bars,
        median: wall_without_ns(runs).map(|without| without as f64 / ns),
    };
    Some(chart.figure())
}

fn time_bar(run: &Run, unit_ns: f64) -> Bar {
    // Threads may wait at once: together longer than the run took.
    let stall_ns = run.stall_ns.unwrap_or(0).min(run.wall_ns);
    let class = match run.mode {
        RunMode::Replayed | RunMode::ReplayedRecorded => "fill-blue",
        RunMode::Recorded | RunMode::Plain => "fill-grey",
    };
    let waited = run
        .stall_ns
        .map_or(String::new(), |ns| format!(", waited {}", time(ns)));
    Bar {
        parts: vec![
            ("fill-vermilion", stall_ns as f64 / unit_ns),
            (class, (run.wall_ns - stall_ns) as f64 / unit_ns),
        ],
        is_pale: !is_cold(run),
        title: format!(
            "{}, {}: {}{waited}",
            date(run.started_unix_s),
            mode(run.mode),
            time(run.wall_ns)
        ),
    }
}

/// What became of the pages that each run fetched ahead; `None` where none fetched any.
pub fn fates(runs: &[Run]) -> Option<String> {
    let fetching: Vec<Run> = runs
        .iter()
        .filter(|run| run.fetched_pages > 0)
        .cloned()
        .collect();
    let (drawn, about) = latest(&fetching, "Pages fetched ahead, by run that fetched")?;
    let mib = |pages: u64| pages.saturating_mul(PAGE_BYTES) as f64 / f64::from(1 << 20);
    let bar = |run: &Run| {
        let fetched = run.fetched_pages;
        let on_time = run.used_on_time_pages.map(|pages| pages.min(fetched));
        let late = run.used_late_pages.unwrap_or(0);
        let late = late.min(fetched - on_time.unwrap_or(0));
        let rest = fetched - on_time.unwrap_or(0) - late;
        let rest_class = match on_time {
            Some(_) => "fill-vermilion",
            None => "fill-grey",
        };
        Bar {
            parts: vec![
                ("fill-blue", mib(on_time.unwrap_or(0))),
                ("fill-orange", mib(late)),
                (rest_class, mib(rest)),
            ],
            is_pale: false,
            title: format!("{}: {} fetched", date(run.started_unix_s), pages(fetched)),
        }
    };
    let bars: Vec<Bar> = drawn.iter().map(bar).collect();
    let chart = Bars {
        about: &about,
        unit: "MiB",
        what: "run that fetched",
        bars: &bars,
        median: None,
    };
    Some(chart.figure())
}

/// How long each boot took to its target; `None` where none is known. Boots that don't count are
/// pale.
pub fn boots(boots: &[Boot], without_ns: Option<u64>) -> Option<String> {
    let measured: Vec<(&Boot, u64)> = boots
        .iter()
        .filter_map(|boot| Some((boot, boot.measured?.target_ns)))
        .collect();
    let (drawn, about) = latest(&measured, "Time to the target, by boot")?;
    let longest_ns = drawn.iter().map(|(_, ns)| *ns).max().unwrap_or(0);
    let (unit, unit_ns) = unit(longest_ns);
    let bar = |(boot, ns): &(&Boot, u64)| Bar {
        parts: vec![(
            match boot.mode {
                Mode::Replayed | Mode::Refreshed => "fill-blue",
                Mode::Idle | Mode::Plain | Mode::Recorded => "fill-grey",
            },
            *ns as f64 / unit_ns,
        )],
        is_pale: !boot.counts(),
        title: format!(
            "{}, {}: {}",
            date(boot.started_unix_s),
            boot_mode(boot.mode),
            time(*ns)
        ),
    };
    let bars: Vec<Bar> = drawn.iter().map(bar).collect();
    let chart = Bars {
        about: &about,
        unit,
        what: "boot",
        bars: &bars,
        median: without_ns.map(|ns| ns as f64 / unit_ns),
    };
    Some(chart.figure())
}

/// The latest of all, and what the chart of them is about; `None` where there are none.
fn latest<'a, T>(all: &'a [T], about: &str) -> Option<(&'a [T], String)> {
    let left_out = all.len().saturating_sub(DRAWN_MAX);
    let about = match left_out {
        0 => about.to_owned(),
        _ => format!("{about}, the latest {DRAWN_MAX} of {}", all.len()),
    };
    (!all.is_empty()).then(|| (&all[left_out..], about))
}

fn unit(longest_ns: u64) -> (&'static str, f64) {
    match longest_ns {
        0..2_000_000_000 => ("ms", 1e6),
        _ => ("seconds", 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picture::check::{assert_labels_fit, assert_well_formed};

    fn run(mode: RunMode, wall_ns: u64) -> Run {
        Run {
            mode,
            wall_ns,
            stall_ns: Some(u64::MAX),
            fetched_pages: 9,
            used_on_time_pages: Some(u64::MAX),
            used_late_pages: Some(u64::MAX),
            ..Run::default()
        }
    }

    #[test]
    fn runs_with_odd_numbers_are_drawn() {
        let runs: Vec<Run> = (0..40)
            .map(|number| match number % 3 {
                0 => run(RunMode::Recorded, 0),
                1 => run(RunMode::Replayed, u64::MAX),
                _ => Run::default(),
            })
            .collect();
        let charts = [times(&runs), fates(&runs)].map(|chart| chart.expect("runs"));
        for chart in charts {
            assert_well_formed(&chart);
            assert_labels_fit(&chart);
        }
        assert!(times(&runs).expect("runs").contains("the latest 32 of 40"));
        assert_eq!(
            (times(&[]), fates(&[]), boots(&[], None)),
            (None, None, None)
        );
    }
}
