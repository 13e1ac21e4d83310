// SPDX-License-Identifier: MIT OR Apache-2.0
//! A snapshot as rows: for people, and as OpenMetrics.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use foreread_accounting::{By, Counts, Line, Subject, lines, openmetrics};
use foreread_linux_stat::{Accounting, Cost, Losses, Names, Sight, Snapshot};

use super::columns::{Column, Row, usual};
use super::only::Only;
use super::said::Said;
use crate::{output, table};

/// Counts of the last report, so that the next one shows the change.
pub struct Telling {
    /// What lines are told apart by.
    by: By,
    only: Only,
    started: Instant,
    last: BTreeMap<Subject, Counts>,
    told: Instant,
    is_interval: bool,
}

/// A snapshot, with what has changed since the last one that was told.
pub struct Told {
    pub rows: Vec<Row>,
    pub losses: Losses,
    pub cost: Option<Cost>,
    pub sight: Sight,
    pub since_start: Duration,
    pub interval: Duration,
}

impl Telling {
    /// `is_interval`: whether more than one thing will be told.
    pub fn new(by: By, only: Only, is_interval: bool) -> Self {
        let now = Instant::now();
        Self {
            by,
            only,
            started: now,
            last: BTreeMap::new(),
            told: now,
            is_interval,
        }
    }

    /// Every row since the start, the quiet ones too: a metric that was there stays.
    pub fn all(&self, snapshot: &Snapshot, accounting: &Accounting) -> Told {
        self.told(snapshot, accounting, true)
    }

    /// Rows of a snapshot, those that fetched most first. Those where nothing happened and of which
    /// nothing is held are left out.
    pub fn tell(&mut self, snapshot: &Snapshot, accounting: &Accounting) -> Told {
        let told = self.told(snapshot, accounting, false);
        let lines = accounting.with_names(|names| self.lines(snapshot, names));
        self.last = lines
            .iter()
            .map(|line| (line.subject, line.counts))
            .collect();
        self.told = Instant::now();
        told
    }

    /// Sums of the accounts that count.
    fn lines(&self, snapshot: &Snapshot, names: &mut Names) -> Vec<Line> {
        let accounts = snapshot.accounts.iter().copied();
        if self.only.is_all() {
            return lines(accounts, self.by);
        }
        let counted = accounts.filter(|(subject, _)| {
            let said = Said::of(subject, names);
            self.only.has(subject, &said)
        });
        lines(counted, self.by)
    }

    fn told(&self, snapshot: &Snapshot, accounting: &Accounting, with_quiet: bool) -> Told {
        let mut rows: Vec<Row> = accounting.with_names(|names| {
            names.refresh();
            let lines = self.lines(snapshot, names);
            let row = |line: &Line| {
                let before = self.last.get(&line.subject).copied().unwrap_or_default();
                let change = line.counts.since(&before);
                let is_quiet = change.is_nothing() && line.counts.held() == 0;
                (with_quiet || !is_quiet || lines.len() == 1).then(|| Row {
                    said: Said::of(&line.subject, names),
                    counts: line.counts,
                    change,
                    is_interval: self.is_interval,
                })
            };
            lines.iter().filter_map(row).collect()
        });
        rows.sort_by_key(|row| {
            let most = (row.change.fetched, row.counts.held(), row.change.stall_ns);
            std::cmp::Reverse(most)
        });
        let now = Instant::now();
        Told {
            rows,
            losses: snapshot.losses,
            cost: accounting.cost(),
            sight: accounting.sight(),
            since_start: now - self.started,
            interval: now - self.told,
        }
    }
}

impl Told {
    /// A table, and what it cost.
    pub fn human(&self, columns: &[Column], top: usize, by: By) -> String {
        let usual = usual(by);
        let columns = if columns.is_empty() { &usual } else { columns };
        let heads: Vec<&str> = columns.iter().map(|column| column.head()).collect();
        let mut table = table::table(&heads);
        for row in self.rows.iter().take(top) {
            table.add_row(columns.iter().map(|column| column.value(row)));
        }
        let left: Vec<usize> = (0..columns.len())
            .filter(|n| columns[*n].is_subject())
            .collect();
        let mut text = table::finished(table, &left);
        if self.rows.len() > top {
            text += &format!(
                "and {} more lines; --top shows more\n",
                self.rows.len() - top
            );
        }
        if let Some(cost) = &self.cost {
            text += &cost_for_humans(cost);
        }
        text
    }

    /// All rows since the start.
    pub fn openmetrics(&self) -> String {
        let rows: Vec<_> = self
            .rows
            .iter()
            .map(|row| (row.said.labels(), row.counts))
            .collect();
        openmetrics::text(&rows, &self.lost())
    }

    /// Losses by their kind.
    pub fn lost(&self) -> [(&'static str, u64); 5] {
        [
            ("unfollowed_pages", self.losses.unfollowed_pages),
            ("shared_accounts", self.losses.shared_accounts),
            ("unnamed_accounts", self.losses.unnamed_accounts),
            ("unfollowed_processes", self.losses.processes),
            ("missed_events", self.losses.missed_events),
        ]
    }

    /// Whether something was not followed.
    pub fn has_losses(&self) -> bool {
        self.losses != Losses::default()
    }

    /// Words for what was lost, each kind of it.
    pub fn words(&self) -> Vec<(&'static str, String)> {
        let Losses {
            unfollowed_pages,
            shared_accounts,
            unnamed_accounts,
            processes,
            missed_events,
        } = self.losses;
        let words = [
            (
                unfollowed_pages,
                "pages",
                format!(
                    "{unfollowed_pages} pages or more found no room and are in no line; all others \
                     are exact"
                ),
            ),
            (
                shared_accounts,
                "accounts",
                "there are too many to tell apart: some are in the line (other); fewer words in \
                 --by, or others, need fewer"
                    .to_owned(),
            ),
            (
                unnamed_accounts,
                "names",
                format!(
                    "{unnamed_accounts} lines have numbers in place of names: too many at once"
                ),
            ),
            (
                processes,
                "processes",
                format!("{processes} children of the command could not be followed"),
            ),
            (
                missed_events,
                "events",
                format!(
                    "the kernel left out {missed_events} events: threads were preempted inside a \
                     BPF program; pages may be missing, or stay in flight or unused"
                ),
            ),
        ];
        let lost = words.into_iter().filter(|(number, _, _)| *number > 0);
        lost.map(|(_, what, words)| (what, words)).collect()
    }
}

/// How many programs are told.
const DEAREST: usize = 3;

fn cost_for_humans(cost: &Cost) -> String {
    let of_cpu = |ns: u64| match cost.elapsed_ns {
        0 => "0 %".to_owned(),
        elapsed => format!("{:.3} %", ns as f64 * 100.0 / elapsed as f64),
    };
    let ran = cost.programs.iter().filter(|program| program.calls > 0);
    let dearest = ran.take(DEAREST).map(|program| {
        let mean_ns = program.run_ns / program.calls.max(1);
        format!("{} {} calls of {mean_ns} ns", program.name, program.calls)
    });
    format!(
        "self: {} of a processor in the kernel, {} in foreread, {} of tables; dearest: {}\n",
        of_cpu(cost.programs_ns()),
        of_cpu(cost.process_ns),
        foreread_core::Bytes::new(cost.kernel_bytes).human(),
        dearest.collect::<Vec<_>>().join(", ")
    )
}

/// Says each kind of loss once.
#[derive(Default)]
pub struct Once(Vec<&'static str>);

impl Once {
    pub fn say(&mut self, told: &Told) {
        for (what, words) in told.words() {
            if !self.0.contains(&what) {
                self.0.push(what);
                output::note(&words);
            }
        }
    }
}
