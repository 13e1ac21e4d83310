// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lines as OpenMetrics, version 1.0.0. `docs/METRICS.md` describes each metric.

use std::fmt::Write as _;

use crate::account::Counts;

/// The type of the text, as HTTP wants it.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The type of a metric.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Type {
    /// A total that only grows.
    Counter,
    /// A current value.
    Gauge,
}

/// A metric: its name and unit, its help text, and the source of its value.
struct Metric {
    name: &'static str,
    unit: &'static str,
    kind: Type,
    help: &'static str,
    value: fn(&Counts) -> Value,
}

enum Value {
    Whole(u64),
    /// Nanoseconds, written as seconds.
    Seconds(u64),
}

const METRICS: [Metric; 11] = [
    Metric {
        name: "foreread_fetched_pages",
        unit: "pages",
        kind: Type::Counter,
        help: "Pages brought into the page cache for reading.",
        value: |counts| Value::Whole(counts.counters().fetched),
    },
    Metric {
        name: "foreread_used_on_time_pages",
        unit: "pages",
        kind: Type::Counter,
        help: "Fetched pages that were in memory when somebody first came to them.",
        value: |counts| Value::Whole(counts.counters().used_on_time),
    },
    Metric {
        name: "foreread_used_late_pages",
        unit: "pages",
        kind: Type::Counter,
        help: "Fetched pages that somebody waited for.",
        value: |counts| Value::Whole(counts.counters().used_late),
    },
    Metric {
        name: "foreread_wasted_pages",
        unit: "pages",
        kind: Type::Counter,
        help: "Fetched pages that left memory before anybody came to them.",
        value: |counts| Value::Whole(counts.counters().wasted),
    },
    Metric {
        name: "foreread_resident_unused_pages",
        unit: "pages",
        kind: Type::Gauge,
        help: "Fetched pages in memory that nobody came to yet.",
        value: |counts| Value::Whole(counts.resident_unused()),
    },
    Metric {
        name: "foreread_in_flight_pages",
        unit: "pages",
        kind: Type::Gauge,
        help: "Fetched pages that have not arrived yet.",
        value: |counts| Value::Whole(counts.in_flight()),
    },
    Metric {
        name: "foreread_windows",
        unit: "",
        kind: Type::Counter,
        help: "Times that readahead was issued.",
        value: |counts| Value::Whole(counts.counters().windows),
    },
    Metric {
        name: "foreread_requests",
        unit: "",
        kind: Type::Counter,
        help: "Requests of these pages to block devices.",
        value: |counts| Value::Whole(counts.counters().requests),
    },
    Metric {
        name: "foreread_request_bytes",
        unit: "bytes",
        kind: Type::Counter,
        help: "Bytes of these requests.",
        value: |counts| Value::Whole(counts.counters().request_bytes),
    },
    Metric {
        name: "foreread_stall_seconds",
        unit: "seconds",
        kind: Type::Counter,
        help: "Time that threads waited for reads.",
        value: |counts| Value::Seconds(counts.counters().stall_ns),
    },
    Metric {
        name: "foreread_stalls",
        unit: "",
        kind: Type::Counter,
        help: "Times that threads waited for reads.",
        value: |counts| Value::Whole(counts.counters().stalls),
    },
];

/// Labels of a line, with its counts.
pub type Labelled<'a> = (Vec<(&'a str, String)>, Counts);

/// All lines, and the counts of events that could not be followed, as one exposition.
#[must_use]
pub fn text(lines: &[Labelled<'_>], lost: &[(&str, u64)]) -> String {
    let mut text = String::new();
    for metric in &METRICS {
        let (kind, suffix) = match metric.kind {
            Type::Counter => ("counter", "_total"),
            Type::Gauge => ("gauge", ""),
        };
        head(&mut text, metric.name, kind, metric.unit, metric.help);
        for (labels, counts) in lines {
            let labels = labelled(labels);
            // Writing to a string can't fail.
            let _ = match (metric.value)(counts) {
                Value::Whole(value) => writeln!(text, "{}{suffix}{labels} {value}", metric.name),
                Value::Seconds(ns) => writeln!(
                    text,
                    "{}{suffix}{labels} {}.{:09}",
                    metric.name,
                    ns / 1_000_000_000,
                    ns % 1_000_000_000
                ),
            };
        }
    }
    head(
        &mut text,
        "foreread_lost",
        "counter",
        "",
        "What could not be followed, by what there was no room for.",
    );
    for (what, value) in lost {
        let labels = labelled(&[("what", (*what).to_owned())]);
        let _ = writeln!(text, "foreread_lost_total{labels} {value}");
    }
    text.push_str("# EOF\n");
    text
}

fn head(text: &mut String, name: &str, kind: &str, unit: &str, help: &str) {
    let _ = writeln!(text, "# TYPE {name} {kind}");
    if !unit.is_empty() {
        let _ = writeln!(text, "# UNIT {name} {unit}");
    }
    let _ = writeln!(text, "# HELP {name} {help}");
}

fn labelled(labels: &[(&str, String)]) -> String {
    if labels.is_empty() {
        return String::new();
    }
    let labels: Vec<String> = labels
        .iter()
        .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
        .collect();
    format!("{{{}}}", labels.join(","))
}

/// A label's value: backslash, quote and line feed are escaped.
fn escaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for c in value.chars() {
        match c {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            c => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::Counters;

    #[test]
    fn an_exposition_has_each_metric_once_and_an_end() {
        let counters = Counters {
            fetched: 5,
            arrived: 4,
            used_late: 1,
            stall_ns: 1_000_000_007,
            ..Counters::default()
        };
        let counts = Counts::new(counters).unwrap();
        let lines = [
            (vec![("device", "sda\"\n\\".to_owned())], counts),
            (vec![("device", "sdb".to_owned())], Counts::default()),
        ];
        let text = text(&lines, &[("pages", 2)]);
        assert!(text.ends_with("# EOF\n"));
        for metric in &METRICS {
            let head = format!("# TYPE {} ", metric.name);
            assert_eq!(text.matches(&head).count(), 1, "{}", metric.name);
            // A unit is the end of its metric's name.
            assert!(metric.name.ends_with(metric.unit));
        }
        let expected = [
            "foreread_fetched_pages_total{device=\"sda\\\"\\n\\\\\"} 5\n",
            "foreread_resident_unused_pages{device=\"sdb\"} 0\n",
            "foreread_in_flight_pages{device=\"sda\\\"\\n\\\\\"} 1\n",
            "foreread_stall_seconds_total{device=\"sda\\\"\\n\\\\\"} 1.000000007\n",
            "foreread_lost_total{what=\"pages\"} 2\n",
        ];
        for line in expected {
            assert!(text.contains(line), "{line}{text}");
        }
    }

    #[test]
    fn one_line_for_the_machine_has_no_labels() {
        let text = text(&[(Vec::new(), Counts::default())], &[]);
        assert!(text.contains("\nforeread_windows_total 0\n"));
    }
}
