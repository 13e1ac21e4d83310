// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text output of a probe.

use foreread_core::KiB;
use foreread_linux_sizing::probe::{Kind, Latency};

use super::found::{Found, size};
use crate::table::{finished, table};

/// The row of the plateau.
const MARK: &str = "==>";

pub fn of(found: &Found) -> String {
    let mut text = format!("{}\n\n{}\n", title(found), sweep(found));
    text += &summary(found);
    if !found.readers.is_empty() {
        text += &format!("\n{}", readers(found));
    }
    text
}

fn title(found: &Found) -> String {
    let through = match found.kind {
        Kind::Device => String::new(),
        Kind::File | Kind::FoundFile => format!(", through {}", found.path),
        Kind::OwnFile => format!(", through a file made in {}", found.path),
    };
    let model = found.identity.model.as_ref();
    let model = model.map_or_else(String::new, |model| format!(" ({model})"));
    format!("{}{model}{through}", found.identity.name)
}

fn sweep(found: &Found) -> String {
    let best = found.best_bytes_per_s();
    let mut header = vec!["", "read-ahead", "MB/s", "95 % interval", "of the best"];
    if !found.direct.is_empty() {
        header.push("direct MB/s");
    }
    header.push("");
    let mut rows = table(&header);
    for point in &found.points {
        let read_ahead = KiB::new(point.read_ahead_kib);
        let is_plateau = read_ahead == found.plateau.read_ahead;
        let mut row = vec![
            if is_plateau { MARK } else { "" }.to_owned(),
            size(read_ahead),
            megabytes(point.bytes_per_s),
            format!(
                "{} - {}",
                megabytes(point.bytes_per_s_low),
                megabytes(point.bytes_per_s_high)
            ),
            format!("{:.1} %", point.bytes_per_s / best * 100.0),
        ];
        if !found.direct.is_empty() {
            let direct = found.direct.iter();
            let mut direct = direct.filter(|direct| direct.read_ahead == read_ahead);
            let rate = direct.next().map(|direct| megabytes(direct.bytes_per_s));
            row.push(rate.unwrap_or_default());
        }
        row.push(
            if point.read_ahead_kib == found.before_kib {
                "set now"
            } else {
                ""
            }
            .to_owned(),
        );
        rows.add_row(row);
    }
    let last = header.len() - 1;
    finished(rows, &[0, last])
}

fn summary(found: &Found) -> String {
    let mut text = format!(
        "The plateau is {}: the smallest readahead within 2 % of the best.\n",
        size(found.plateau.read_ahead)
    );
    if let Some(fit) = found.fit {
        text += &format!(
            "A request costs {} besides its transfer at {} MB/s, as far as a line fits.\n",
            time(fit.request_cost_ns),
            megabytes(fit.bandwidth_bytes_per_s)
        );
    }
    if let Some(latency) = &found.latency {
        text += &format!(
            "One read of 4 KiB takes {} ({} for one in a hundred); many at once are {:.1} times as \
             fast.\n",
            time(latency.latency_ns),
            time(latency.latency_ns_p99),
            Latency::speed_up(latency)
        );
    }
    text += &format!("Measured in {}.\n", time(found.elapsed.as_nanos() as f64));
    text
}

fn readers(found: &Found) -> String {
    let mut sizes: Vec<KiB> = found.readers.iter().map(|point| point.read_ahead).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let names = sizes.iter().flat_map(|read_ahead| {
        let name = size(*read_ahead);
        [format!("{name}: MB/s"), "longest wait".to_owned()]
    });
    let header: Vec<String> = std::iter::once("readers".to_owned()).chain(names).collect();
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let mut rows = table(&header);
    let mut numbers: Vec<u64> = found.readers.iter().map(|point| point.readers).collect();
    numbers.dedup();
    for readers in numbers {
        let mut row = vec![readers.to_string()];
        for read_ahead in &sizes {
            let mut points = found.readers.iter();
            let point = points.find(|p| p.readers == readers && p.read_ahead == *read_ahead);
            row.extend(point.map_or_else(
                || [String::new(), String::new()],
                |point| [megabytes(point.bytes_per_s), time(point.latency_ns_max)],
            ));
        }
        rows.add_row(row);
    }
    finished(rows, &[])
}

/// As `dd` counts: millions of bytes a second.
pub fn megabytes(bytes_per_s: f64) -> String {
    let megabytes = bytes_per_s / 1e6;
    if megabytes >= 100.0 {
        format!("{megabytes:.0}")
    } else if megabytes >= 1.0 {
        format!("{megabytes:.1}")
    } else {
        format!("{megabytes:.3}")
    }
}

/// `90 us`, `1.20 ms`.
fn time(ns: f64) -> String {
    match ns {
        ns if ns >= 1e9 => format!("{:.2} s", ns / 1e9),
        ns if ns >= 1e8 => format!("{:.0} ms", ns / 1e6),
        ns if ns >= 1e6 => format!("{:.2} ms", ns / 1e6),
        ns => format!("{:.0} us", ns / 1e3),
    }
}
