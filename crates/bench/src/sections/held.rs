// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows for the resources that `foreread watch` holds: at first, at most, at the end.

use foreread_bench::service::{Held, Said};
use serde_json::{Value, json};

use crate::report::{Row, Target};

/// The columns of these rows.
pub const HEADER: [&str; 5] = ["what", "at first", "most", "at the end", "growth, or all"];

/// Growth of memory, in MiB, that no leak explains.
const GROWTH_MIB: Target = Target::AtMost(16.0);
/// Lines that it may say however long it runs.
const LINES: Target = Target::AtMost(5.0);

/// Memory, descriptors and threads that the service held at three times.
#[derive(Clone, Copy)]
pub struct Times {
    pub first: Held,
    pub most: Held,
    pub last: Held,
}

impl Times {
    /// Memory, descriptors and threads.
    pub fn rows(&self) -> Vec<Row> {
        let no_more = Target::AtMost(0.0);
        let resident_mib = |held: &Held| held.resident_kib as f64 / 1024.0;
        vec![
            self.row("resident, MiB", &resident_mib, 1, GROWTH_MIB),
            self.row(
                "open descriptors",
                &|held| held.descriptors as f64,
                0,
                no_more,
            ),
            self.row("threads", &|held| held.threads as f64, 0, no_more),
        ]
    }

    fn row(&self, what: &str, of: &dyn Fn(&Held) -> f64, digits: usize, target: Target) -> Row {
        let [first, most, last] = [&self.first, &self.most, &self.last].map(of);
        let cell = |value: f64| format!("{value:.digits$}");
        Row {
            cells: vec![what.to_owned(), cell(first), cell(most), cell(last)],
            value: last - first,
            digits,
            target,
            details: json!({ "first": first, "most": most, "last": last }),
        }
    }
}

/// One number about all of the time.
pub fn alone(what: &str, value: f64, digits: usize, target: Target) -> Row {
    Row {
        cells: vec![what.to_owned(), String::new(), String::new(), String::new()],
        value,
        digits,
        target,
        details: Value::Null,
    }
}

/// One number of its report at the end.
pub fn counted(what: &str, said: &Said, name: &str) -> Row {
    alone(what, said.count(name) as f64, 0, Target::None)
}

/// Lost records, and lines on standard error.
pub fn troubles(said: &Said) -> Vec<Row> {
    vec![
        counted("records lost", said, "lost"),
        alone("lines on stderr", said.lines as f64, 0, LINES),
    ]
}
