// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sums up the trace of a boot: when units started, when each waited for the disk, what disks were
//! read for. All times are in ns since the kernel's start.

use std::collections::HashMap;

use crate::trace::{BootTrace, Reader, TracedRead};

/// A stretch of time, from start to end.
pub type Span = (u64, u64);

/// Requests and their size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadTotal {
    /// Reads as they were queued, before the block layer merged any.
    pub requests: u64,
    /// Their sizes together.
    pub bytes: u64,
}

impl ReadTotal {
    fn add(&mut self, read: &TracedRead) {
        self.requests += 1;
        self.bytes = self.bytes.saturating_add(read.bytes);
    }
}

/// One unit in a chart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnitChart {
    /// Its name.
    pub name: String,
    /// When systemd began to start it.
    pub started_ns: Option<u64>,
    /// When it was active.
    pub active_ns: Option<u64>,
    /// When a read of its processes was in flight: apart from each other, in order.
    pub waits: Vec<Span>,
    /// Its reads.
    pub reads: ReadTotal,
}

impl UnitChart {
    /// Time during which a read of its processes was in flight.
    #[must_use]
    pub fn waited_ns(&self) -> u64 {
        length(&self.waits)
    }

    /// Time from its start until it was active; 0 where one of them isn't known.
    #[must_use]
    pub fn starting_ns(&self) -> u64 {
        match (self.started_ns, self.active_ns) {
            (Some(started), Some(active)) => active.saturating_sub(started),
            _ => 0,
        }
    }

    /// The first time that is known of it.
    #[must_use]
    pub fn begin_ns(&self) -> Option<u64> {
        let wait = self.waits.first().map(|wait| wait.0);
        [self.started_ns, self.active_ns, wait]
            .into_iter()
            .flatten()
            .min()
    }
}

/// What a chart shows of one boot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chart {
    /// Reads of the boot's own processes.
    pub demand: ReadTotal,
    /// Reads of the replay.
    pub replay: ReadTotal,
    /// Time during which any read was in flight.
    pub busy_ns: u64,
    /// Sum of the units' times with a read in flight. Units wait at the same time, so it may be
    /// longer than the boot.
    pub waited_ns: u64,
    /// The end of what is drawn.
    pub end_ns: u64,
    /// All units that were started or read something.
    pub units: Vec<UnitChart>,
}

/// Sums up a trace.
#[must_use]
pub fn chart(trace: &BootTrace) -> Chart {
    let mut chart = Chart::default();
    let mut waits: HashMap<u16, Vec<Span>> = HashMap::new();
    let mut unit_reads: HashMap<u16, ReadTotal> = HashMap::new();
    let mut busy = Vec::with_capacity(trace.reads.len());
    for read in &trace.reads {
        let span = (read.at_ns, read.end_ns());
        busy.push(span);
        match read.by.is_demand() {
            true => chart.demand.add(read),
            false => chart.replay.add(read),
        }
        if let Reader::Unit(unit) = read.by {
            waits.entry(unit).or_default().push(span);
            unit_reads.entry(unit).or_default().add(read);
        }
    }
    chart.busy_ns = length(&joined(busy));
    chart.end_ns = end_ns(trace);
    for (index, unit) in (0..=u16::MAX).zip(&trace.units) {
        chart.units.push(UnitChart {
            name: unit.name.clone(),
            started_ns: unit.started_ns,
            active_ns: unit.active_ns,
            waits: joined(waits.remove(&index).unwrap_or_default()),
            reads: unit_reads.remove(&index).unwrap_or_default(),
        });
    }
    let waited = chart.units.iter().map(UnitChart::waited_ns);
    chart.waited_ns = waited.fold(0, u64::saturating_add);
    chart
}

/// Names of the units that matter most in any of these boots, by the time of their start in the
/// first of these that has them. At most `units_max` are returned, with the number of those that
/// are left out. A unit that took no time and read nothing is no matter at all.
#[must_use]
pub fn select(charts: &[&Chart], units_max: usize) -> (Vec<String>, usize) {
    let mut weights: HashMap<&str, u64> = HashMap::new();
    for (chart, unit) in charts
        .iter()
        .flat_map(|c| c.units.iter().map(move |u| (c, u)))
    {
        // A daemon that reads on after the target must not push out those that hold the boot up.
        let weight = unit
            .starting_ns()
            .min(chart.end_ns)
            .saturating_add(unit.waited_ns());
        let known = weights.entry(&unit.name).or_default();
        *known = weight.max(*known);
    }
    let mut names: Vec<(&str, u64)> = weights.into_iter().filter(|(_, w)| *w > 0).collect();
    names.sort_by_key(|(name, weight)| (std::cmp::Reverse(*weight), *name));
    let left_out = names.len().saturating_sub(units_max);
    names.truncate(units_max);
    let begin = |name: &str| {
        let of_chart = |chart: &&Chart| {
            let unit = chart.units.iter().find(|unit| unit.name == name);
            unit.and_then(UnitChart::begin_ns)
        };
        charts.iter().find_map(of_chart)
    };
    names.sort_by_cached_key(|(name, _)| (begin(name), *name));
    let names = names.into_iter().map(|(name, _)| name.to_owned());
    (names.collect(), left_out)
}

/// A seventh beyond the target, so that it is seen what follows; all of a boot without a target.
fn end_ns(trace: &BootTrace) -> u64 {
    let reads = trace.reads.iter().map(TracedRead::end_ns);
    let last = reads.max().unwrap_or(0);
    match trace.reached_ns {
        Some(reached) => last.clamp(reached + reached / 50, reached + reached / 7),
        None => {
            let active = trace.units.iter().filter_map(|unit| unit.active_ns);
            active.max().unwrap_or(0).max(last)
        }
    }
    .max(1)
}

/// The same times as stretches that are apart from each other, in order.
fn joined(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_unstable();
    let mut joined: Vec<Span> = Vec::new();
    for (from, to) in spans {
        match joined.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => joined.push((from, to)),
        }
    }
    joined
}

fn length(spans: &[Span]) -> u64 {
    let lengths = spans.iter().map(|(from, to)| to.saturating_sub(*from));
    lengths.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Mode;
    use crate::trace::TracedUnit;
    use proptest::prelude::*;

    fn trace(reads: &[(u64, u64, Reader)]) -> BootTrace {
        let mut trace = BootTrace::new("b".into(), "6.1".into(), Mode::Replayed);
        for (name, started, active) in [("a.service", 50, 90), ("b.service", 10, 30), ("c", 5, 5)] {
            trace.units.push(TracedUnit {
                name: name.into(),
                started_ns: Some(started),
                active_ns: Some(active),
            });
        }
        trace.reads = reads
            .iter()
            .map(|&(at_ns, took_ns, by)| TracedRead {
                at_ns,
                took_ns,
                disk: 0,
                sector: 0,
                bytes: 4096,
                by,
                process: String::new(),
            })
            .collect();
        trace
    }

    #[test]
    fn reads_at_the_same_time_count_once_a_unit() {
        let (a, b) = (Reader::Unit(0), Reader::Unit(1));
        let reads = [
            (0, 10, a),
            (5, 10, a),
            (12, 10, b),
            (40, 5, Reader::Replay),
            (60, 5, a),
        ];
        let mut trace = trace(&reads);
        trace.reached_ns = Some(700);
        let chart = chart(&trace);
        assert_eq!(chart.units[0].waits, [(0, 15), (60, 65)]);
        assert_eq!(chart.units[1].waited_ns(), 10);
        assert_eq!((chart.busy_ns, chart.waited_ns), (22 + 5 + 5, 30));
        assert_eq!((chart.demand.requests, chart.replay.bytes), (4, 4096));
        assert_eq!(chart.end_ns, 714);
    }

    #[test]
    fn the_units_that_matter_are_in_the_order_of_their_start() {
        let chart = chart(&trace(&[]));
        let names = |max| select(&[&chart], max);
        assert_eq!(
            names(9),
            (vec!["b.service".to_owned(), "a.service".to_owned()], 0)
        );
        assert_eq!(names(1), (vec!["a.service".to_owned()], 1));
        assert_eq!(select(&[], 3), (Vec::new(), 0));
    }

    proptest! {
        #[test]
        fn waits_are_apart_and_within_the_busy_time(
            reads in proptest::collection::vec((0u64..1000, 0u64..200, 0u16..2), 0..60),
        ) {
            let reads: Vec<_> =
                reads.into_iter().map(|(at, took, unit)| (at, took, Reader::Unit(unit))).collect();
            let chart = chart(&trace(&reads));
            for unit in &chart.units {
                prop_assert!(unit.waits.windows(2).all(|pair| pair[0].1 < pair[1].0));
                prop_assert!(unit.waited_ns() <= chart.busy_ns);
            }
            prop_assert!(chart.busy_ns <= chart.waited_ns);
            prop_assert!(chart.busy_ns <= chart.end_ns);
        }
    }
}
