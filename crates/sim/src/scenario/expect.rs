// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values that were measured elsewhere, for a run or for two of them, and the distance of a run
//! from them.

use super::text::{Field, Section};
use super::{Combination, Scenario, ScenarioError};
use crate::contender::{Contender, NoSuchContender};
use crate::engine::Outcome;
use crate::path::PAGE_BYTES;

/// The compared quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Millions of bytes that programs read, per second.
    MegabytesPerSecond,
    /// Time of the whole run, in seconds.
    Seconds,
    /// Increase of bytes per second over another run, in percent.
    GainPercent,
    /// Time of the whole run, over that of another run.
    TimesAsLong,
    /// KiB that the device had delivered when the last program ended.
    ReadKib,
    /// KiB that programs read, per second.
    KibPerSecond,
    /// The longest call, in milliseconds.
    LatencyMs,
    /// The share of the time in which the device moved bytes at its bandwidth.
    UtilPercent,
    /// Misses of pages that were read ahead and evicted unread, for each hundred windows.
    ThrashPercent,
}

impl Metric {
    const NAMES: [(&'static str, Self); 9] = [
        ("mb_per_s", Self::MegabytesPerSecond),
        ("seconds", Self::Seconds),
        ("gain_percent", Self::GainPercent),
        ("times_as_long", Self::TimesAsLong),
        ("read_kib", Self::ReadKib),
        ("kib_per_s", Self::KibPerSecond),
        ("latency_ms", Self::LatencyMs),
        ("util_percent", Self::UtilPercent),
        ("thrash_percent", Self::ThrashPercent),
    ];

    /// Its name, as in scenarios.
    #[must_use]
    pub fn name(self) -> &'static str {
        let found = Self::NAMES.iter().find(|(_, metric)| *metric == self);
        found.map_or("", |(name, _)| name)
    }

    fn of(self, run: &Combination, outcome: &Outcome, other: Option<&Outcome>) -> Option<f64> {
        let total = &outcome.total;
        let seconds = outcome.elapsed_ns as f64 / 1e9;
        Some(match self {
            Self::MegabytesPerSecond => outcome.bytes_per_s() / 1e6,
            Self::Seconds => seconds,
            Self::GainPercent => (outcome.bytes_per_s() / other?.bytes_per_s() - 1.0) * 100.0,
            Self::TimesAsLong => seconds / (other?.elapsed_ns as f64 / 1e9),
            Self::ReadKib => {
                ((total.pages.fetched - total.pages.in_flight) * PAGE_BYTES) as f64 / 1024.0
            }
            Self::KibPerSecond => outcome.bytes_per_s() / 1024.0,
            Self::LatencyMs => total.latencies.max_ns() as f64 / 1e6,
            Self::UtilPercent => {
                let bandwidth = run.device.parameters.bandwidth_bytes_per_s as f64;
                total.request_bytes as f64 / bandwidth / seconds * 100.0
            }
            Self::ThrashPercent => total.pages.thrashes as f64 * 100.0 / total.windows as f64,
        })
    }
}

/// How near is near enough.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tolerance {
    /// Percent of the expected value.
    Percent(f64),
    /// A difference in the unit of the metric.
    Absolute(f64),
    /// At least the expected value.
    AtLeast,
    /// At most the expected value.
    AtMost,
}

/// Which runs a row is about.
#[derive(Clone, Debug, Default)]
struct Selector {
    policy: Option<Contender>,
    device: Option<String>,
    read_ahead_pages: Option<u32>,
    memory_pages: Option<u64>,
    unplug: Option<String>,
    count: Option<u64>,
}

/// A row.
#[derive(Clone, Debug)]
pub(super) struct Expectation {
    selector: Selector,
    against: Option<Selector>,
    metric: Metric,
    value: f64,
    tolerance: Tolerance,
    /// Whether parameters may be fitted to it.
    pub fit: bool,
    mark: String,
    known_short: Option<String>,
}

/// A row, compared.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The run, as a number of [`Scenario::combinations`].
    pub run: usize,
    /// The run it is held against.
    pub against: Option<usize>,
    /// The compared quantity.
    pub metric: Metric,
    /// The measured value.
    pub expected: f64,
    /// The value of the run.
    pub got: f64,
    /// How near is near enough.
    pub tolerance: Tolerance,
    /// Whether it is.
    pub reached: bool,
    /// Whether parameters were fitted to this row.
    pub fitted: bool,
    /// A word that the source put next to it.
    pub mark: String,
    /// Why it is not reached, where that is known.
    pub known_short: Option<String>,
}

const SELECTORS: [&str; 6] = [
    "policy",
    "device",
    "read_ahead",
    "memory",
    "unplug",
    "count",
];

impl Selector {
    fn read(section: &Section<'_>) -> Result<Self, ScenarioError> {
        let policy = |field: Field<'_>| {
            let parsed = field.text()?.parse();
            parsed.map_err(|e: NoSuchContender| field.error(e.to_string()))
        };
        let pages = |name| Ok(section.size(name)?.map(|bytes| bytes / PAGE_BYTES));
        let read_ahead: Option<u64> = pages("read_ahead")?;
        Ok(Self {
            policy: section.get("policy").map(policy).transpose()?,
            device: section.text("device")?.map(str::to_owned),
            read_ahead_pages: read_ahead.map(|pages| u32::try_from(pages).unwrap_or(u32::MAX)),
            memory_pages: pages("memory")?,
            unplug: section.text("unplug")?.map(str::to_owned),
            count: section.count("count")?,
        })
    }

    /// The fields of this selector, and where it has none, those of the other one.
    fn over(&self, other: &Self) -> Self {
        Self {
            policy: self.policy.or(other.policy),
            device: self.device.clone().or_else(|| other.device.clone()),
            read_ahead_pages: self.read_ahead_pages.or(other.read_ahead_pages),
            memory_pages: self.memory_pages.or(other.memory_pages),
            unplug: self.unplug.clone().or_else(|| other.unplug.clone()),
            count: self.count.or(other.count),
        }
    }

    fn picks(&self, scenario: &Scenario, run: &Combination) -> bool {
        let queue = &scenario.queues[run.queue].0;
        self.policy.is_none_or(|policy| policy == run.policy)
            && self.device.as_ref().is_none_or(|d| *d == run.device.name)
            && self
                .read_ahead_pages
                .is_none_or(|p| p == run.read_ahead_pages)
            && self
                .memory_pages
                .is_none_or(|pages| pages == run.memory_pages)
            && self.unplug.as_ref().is_none_or(|unplug| unplug == queue)
            && self.count.is_none_or(|count| count == run.count)
    }
}

pub(super) fn read(top: &Section<'_>) -> Result<Vec<Expectation>, ScenarioError> {
    let sections = top.sections("expect")?;
    sections.iter().map(read_one).collect()
}

fn read_one(section: &Section<'_>) -> Result<Expectation, ScenarioError> {
    let metrics: Vec<&str> = Metric::NAMES.iter().map(|(name, _)| *name).collect();
    let others = [
        "against",
        "within_percent",
        "within",
        "at_least",
        "at_most",
        "fit",
        "mark",
        "short",
    ];
    section.only(&[&SELECTORS[..], &metrics[..], &others[..]].concat())?;
    let given = Metric::NAMES
        .iter()
        .filter(|(name, _)| section.get(name).is_some());
    let [(name, metric)] = given.collect::<Vec<_>>()[..] else {
        let what = format!("expected one of: {}", metrics.join(", "));
        return Err(section.error(metrics[0], what));
    };
    let against = section.section("against")?;
    if against.is_none() && matches!(metric, Metric::GainPercent | Metric::TimesAsLong) {
        return Err(section.error("against", "is missing: which run is it held against?"));
    }
    let tolerance = match (section.number("within_percent")?, section.number("within")?) {
        (Some(percent), _) => Tolerance::Percent(percent),
        (None, Some(value)) => Tolerance::Absolute(value),
        (None, None) if section.flag("at_least")? => Tolerance::AtLeast,
        (None, None) if section.flag("at_most")? => Tolerance::AtMost,
        (None, None) => Tolerance::Percent(10.0),
    };
    Ok(Expectation {
        selector: Selector::read(section)?,
        against: against
            .map(|section| Selector::read(&section))
            .transpose()?,
        metric: *metric,
        value: section.required(name)?.number()?,
        tolerance,
        fit: section.flag("fit")?,
        mark: section.text("mark")?.unwrap_or_default().to_owned(),
        known_short: section.text("short")?.map(str::to_owned),
    })
}

impl Scenario {
    /// Compares runs with the expected values. `outcomes` are those of `runs`.
    #[must_use]
    pub fn check(&self, runs: &[Combination], outcomes: &[Outcome]) -> Vec<Checked> {
        let rows = self.expectations.iter();
        rows.filter_map(|row| self.check_row(row, runs, outcomes))
            .collect()
    }

    fn check_row(
        &self,
        row: &Expectation,
        runs: &[Combination],
        outcomes: &[Outcome],
    ) -> Option<Checked> {
        let find = |selector: &Selector| runs.iter().position(|run| selector.picks(self, run));
        let run = find(&row.selector)?;
        let against = match &row.against {
            Some(other) => Some(find(&other.over(&row.selector))?),
            None => None,
        };
        let other = against.and_then(|at| outcomes.get(at));
        let got = row.metric.of(runs.get(run)?, outcomes.get(run)?, other)?;
        let reached = match row.tolerance {
            Tolerance::Percent(percent) => (got / row.value - 1.0).abs() * 100.0 <= percent,
            Tolerance::Absolute(most) => (got - row.value).abs() <= most,
            Tolerance::AtLeast => got >= row.value,
            Tolerance::AtMost => got <= row.value,
        };
        Some(Checked {
            run,
            against,
            metric: row.metric,
            expected: row.value,
            got,
            tolerance: row.tolerance,
            reached,
            fitted: row.fit,
            mark: row.mark.clone(),
            known_short: row.known_short.clone(),
        })
    }

    /// The runs that rows for fitting are about.
    pub(super) fn fitted_runs(&self) -> Vec<Combination> {
        let all = self.combinations();
        let rows = self.expectations.iter().filter(|row| row.fit);
        let selectors: Vec<Selector> = rows
            .flat_map(|row| {
                let other = row.against.as_ref().map(|other| other.over(&row.selector));
                [Some(row.selector.clone()), other]
            })
            .flatten()
            .collect();
        let wanted = |run: &Combination| selectors.iter().any(|s| s.picks(self, run));
        all.into_iter().filter(wanted).collect()
    }
}
