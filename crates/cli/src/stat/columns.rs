// SPDX-License-Identifier: MIT OR Apache-2.0
//! The columns of `foreread stat`.

use foreread_accounting::{By, Change, Counts};

use super::said::Said;
use crate::output;

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    Device,
    Process,
    File,
    Cgroup,
    Kind,
    Fetched,
    UsedOnTime,
    UsedLate,
    Wasted,
    ResidentUnused,
    InFlight,
    Held,
    Amplification,
    Windows,
    Requests,
    RequestSize,
    Stall,
    Stalls,
}

impl Column {
    pub const ALL: [Self; 18] = [
        Self::Device,
        Self::Process,
        Self::File,
        Self::Cgroup,
        Self::Kind,
        Self::Fetched,
        Self::UsedOnTime,
        Self::UsedLate,
        Self::Wasted,
        Self::ResidentUnused,
        Self::InFlight,
        Self::Held,
        Self::Amplification,
        Self::Windows,
        Self::Requests,
        Self::RequestSize,
        Self::Stall,
        Self::Stalls,
    ];

    /// As `-o` takes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Process => "process",
            Self::File => "file",
            Self::Cgroup => "cgroup",
            Self::Kind => "kind",
            Self::Fetched => "fetched",
            Self::UsedOnTime => "used_on_time",
            Self::UsedLate => "used_late",
            Self::Wasted => "wasted",
            Self::ResidentUnused => "resident_unused",
            Self::InFlight => "in_flight",
            Self::Held => "held",
            Self::Amplification => "amplification",
            Self::Windows => "windows",
            Self::Requests => "requests",
            Self::RequestSize => "request_size",
            Self::Stall => "stall",
            Self::Stalls => "stalls",
        }
    }

    /// Over its values.
    pub const fn head(self) -> &'static str {
        match self {
            Self::UsedOnTime => "on time",
            Self::UsedLate => "late",
            Self::ResidentUnused => "unused",
            Self::InFlight => "in flight",
            Self::Amplification => "ampl.",
            Self::RequestSize => "size",
            _ => self.name(),
        }
    }

    /// Whether it is words, which are aligned on the left.
    pub const fn is_subject(self) -> bool {
        matches!(
            self,
            Self::Device | Self::Process | Self::File | Self::Cgroup | Self::Kind
        )
    }

    /// Cell of this column in a line.
    pub fn value(self, line: &Row) -> String {
        let change = &line.change;
        let subject = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".into());
        match self {
            Self::Device => subject(&line.said.device),
            Self::Process => subject(&line.said.process_and_number()),
            Self::File => subject(&line.said.file),
            Self::Cgroup => subject(&line.said.cgroup),
            Self::Kind => subject(&line.said.kind),
            Self::Fetched => change.fetched.to_string(),
            Self::UsedOnTime => change.used_on_time.to_string(),
            Self::UsedLate => change.used_late.to_string(),
            Self::Wasted => change.wasted.to_string(),
            Self::ResidentUnused => line.level(change.resident_unused),
            Self::InFlight => line.level(change.in_flight),
            Self::Held => output::pages(line.counts.held()),
            Self::Amplification => match change.amplification() {
                Some(value) => format!("{value:.2}"),
                None => "-".into(),
            },
            Self::Windows => change.windows.to_string(),
            Self::Requests => change.requests.to_string(),
            Self::RequestSize => match change.request_bytes_mean() {
                Some(bytes) => foreread_core::Bytes::new(bytes).human().to_string(),
                None => "-".into(),
            },
            Self::Stall => output::time(change.stall_ns),
            Self::Stalls => change.stalls.to_string(),
        }
    }
}

/// A line with its words.
pub struct Row {
    pub said: Said,
    /// Since the start.
    pub counts: Counts,
    /// In the interval, or since the start where there is none.
    pub change: Change,
    pub is_interval: bool,
}

impl Row {
    /// A level with its sign in an interval, where it may fall; without sign since the start.
    fn level(&self, pages: i64) -> String {
        match self.is_interval {
            true if pages != 0 => format!("{pages:+}"),
            _ => pages.to_string(),
        }
    }
}

/// The columns where none are asked for.
pub fn usual(by: By) -> Vec<Column> {
    let subjects = [
        (by.device, Column::Device),
        (by.process, Column::Process),
        (by.cgroup, Column::Cgroup),
        (by.kind, Column::Kind),
    ];
    let mut columns: Vec<Column> = subjects
        .into_iter()
        .filter_map(|(is_told, column)| is_told.then_some(column))
        .collect();
    columns.extend([
        Column::Fetched,
        Column::UsedOnTime,
        Column::UsedLate,
        Column::Wasted,
        Column::ResidentUnused,
        Column::InFlight,
        Column::Amplification,
        Column::Requests,
        Column::RequestSize,
        Column::Stall,
    ]);
    // A path is as long as it is, so it comes last.
    columns.extend(by.file.then_some(Column::File));
    columns
}
