// SPDX-License-Identifier: MIT OR Apache-2.0
//! The demo's result for people.

use std::fmt::Write as _;

use foreread_core::{Bytes, grouped};
use foreread_measure::cold::{ColdStarts, wall};
use foreread_model::{DiskModel, DiskParameters};

use super::{Result, fill::Tree};
use crate::table;
use crate::text::escaped_path;

/// Describes the modelled disk in a few words.
pub fn disk(parameters: &DiskParameters) -> String {
    let speed = format!(
        "{} MB/s",
        grouped(parameters.bandwidth_bytes_per_s / 1_000_000)
    );
    match parameters.model {
        DiskModel::Instant => "needs no time".to_owned(),
        DiskModel::Head => {
            let nearest_ns = parameters
                .seek_min_ns
                .saturating_add(parameters.half_turn_ns);
            let farthest_ns = nearest_ns.saturating_add(parameters.seek_span_ns);
            format!(
                "one head, {speed}, {} to {} ms a seek",
                milliseconds(nearest_ns),
                milliseconds(farthest_ns)
            )
        }
        DiskModel::Parallel => {
            let at_once = match parameters.parallel_requests {
                1 => "one at a time".to_owned(),
                many => format!("{} at a time", grouped(many)),
            };
            let rate = match parameters.rate_requests_per_s {
                0 => String::new(),
                rate => format!(", at most {} requests/s", grouped(rate)),
            };
            let latency = milliseconds(parameters.latency_ns);
            format!("{latency} ms a request, {at_once}, {speed}{rate}")
        }
    }
}

/// Two digits that count.
fn milliseconds(ns: u64) -> String {
    let ms = ns as f64 / 1e6;
    if ms >= 10.0 {
        format!("{ms:.0}")
    } else if ms >= 1.0 {
        format!("{ms:.1}")
    } else {
        format!("{ms:.2}")
    }
}

/// The whole result.
pub fn report(result: &Result) -> String {
    let mut text = format!(
        "Cold starts from a modelled disk: {} ({}).\n{}\n",
        result.device,
        disk(&result.parameters),
        tree(&result.tree)
    );
    text += "Times in seconds. The limit is the least time in which this disk can deliver what the\n\
             program reads, or the program's own time with everything in memory, if that is longer:\n\
             100 % of it is the best there can be.\n\n";
    text += &rows(result);
    text.push('\n');
    for note in &result.notes {
        // Writing to a string can't fail.
        let _ = writeln!(text, "{note}");
    }
    text + &closing(result)
}

fn tree(tree: &Tree) -> String {
    let size = Bytes::new(tree.bytes).human();
    if tree.sources.is_empty() {
        return format!("On it: {} made-up files, {size}.", grouped(tree.files));
    }
    let sources: Vec<String> = tree
        .sources
        .iter()
        .map(|(path, files)| format!("{} ({})", escaped_path(path), grouped(*files)))
        .collect();
    format!(
        "On it: {} files of this machine, {size}, copied from {}.",
        grouped(tree.files),
        sources.join(", ")
    )
}

fn rows(result: &Result) -> String {
    let header = [
        "\nprogram",
        "kernel\nalone",
        "first\nrun",
        "second\nrun",
        "times\nfaster",
        "\nlimit",
        "% of\nlimit",
    ];
    let mut table = table::table(&header);
    for (program, measured) in &result.measured {
        table.add_row([
            program.title().to_owned(),
            seconds(wall(&measured.kernel).median_ns()),
            seconds(wall(&measured.first).median_ns()),
            seconds(wall(&measured.second).median_ns()),
            times_faster(measured),
            seconds(measured.limit_ns()),
            limit_percent(measured),
        ]);
    }
    table::finished(table, &[0])
}

/// Below a second, milliseconds too.
fn seconds(ns: u64) -> String {
    let digits = if ns < 1_000_000_000 { 3 } else { 2 };
    format!("{:.digits$}", ns as f64 / 1e9)
}

/// Never rounded up: it is our own praise.
fn times_faster(measured: &ColdStarts) -> String {
    let floor = |times: f64| format!("{:.1}", (times * 10.0).floor() / 10.0);
    measured.times_faster().map_or("-".to_owned(), floor)
}

/// Never rounded up either.
fn limit_percent(measured: &ColdStarts) -> String {
    let ratio = measured.second_over_limit();
    if ratio > 0.0 {
        format!("{}", (100.0 / ratio).floor())
    } else {
        "-".to_owned()
    }
}

/// All programs in one sentence.
fn closing(result: &Result) -> String {
    let sum = |of: fn(&ColdStarts) -> u64| -> u64 {
        result
            .measured
            .iter()
            .map(|(_, measured)| of(measured))
            .sum()
    };
    let kernel_ns = sum(|measured| wall(&measured.kernel).median_ns());
    let second_ns = sum(|measured| wall(&measured.second).median_ns());
    let limit_ns = sum(ColdStarts::limit_ns);
    let (who, together) = match result.measured.len() {
        0 => return "No program was measured.\n".to_owned(),
        1 => ("it takes", ""),
        _ => ("they take", " together"),
    };
    let times = kernel_ns as f64 / second_ns.max(1) as f64;
    let worth = if times >= 1.05 {
        format!("{:.1} times faster", (times * 10.0).floor() / 10.0)
    } else {
        "no gain on this disk".to_owned()
    };
    format!(
        "From the second run on {who} {} s{together} instead of {} s: {worth} (limit {} s).\n",
        seconds(second_ns),
        seconds(kernel_ns),
        seconds(limit_ns)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::tests::example;

    #[test]
    fn disks_are_described_by_what_they_are_like() {
        let told = |name| disk(&DiskParameters::preset(name).unwrap());
        assert_eq!(told("hdd"), "one head, 120 MB/s, 5.0 to 15 ms a seek");
        assert_eq!(told("usb"), "1.2 ms a request, one at a time, 25 MB/s");
        assert_eq!(
            told("cloud"),
            "0.70 ms a request, 64 at a time, 125 MB/s, at most 3,000 requests/s"
        );
        assert_eq!(told("instant"), "needs no time");
    }

    #[test]
    fn the_table_lines_up_and_rounds_against_us() {
        let text = report(&example(&[42_800, 42_900, 1_699], 1_300));
        let row = text.lines().find(|line| line.starts_with("grep")).unwrap();
        let words: Vec<&str> = row.split_whitespace().rev().take(6).collect();
        // 42.8 / 1.699 is 25.19; 1.3 / 1.699 is 76.5 %.
        assert_eq!(words, ["76", "1.30", "25.1", "1.70", "42.90", "42.80"]);
        let header = text
            .lines()
            .find(|line| line.contains("alone") && line.ends_with("limit"))
            .unwrap();
        assert_eq!(header.len(), row.len(), "{text}");
        assert!(
            text.contains("it takes 1.70 s instead of 42.80 s: 25.1 times faster"),
            "{text}"
        );
        assert!(text.contains("/usr/include (7,990), /etc (10)"), "{text}");
        assert!(
            text.lines().all(|line| line.chars().count() <= 100),
            "{text}"
        );
    }

    #[test]
    fn nothing_gained_is_said() {
        let text = report(&example(&[100, 120, 101], 90));
        assert!(text.contains("no gain on this disk"), "{text}");
        let mut none = example(&[100, 120, 101], 90);
        none.measured.clear();
        none.notes
            .push("git is left out: it is not installed.".to_owned());
        let text = report(&none);
        assert!(
            text.ends_with("git is left out: it is not installed.\nNo program was measured.\n")
        );
    }
}
