// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sums up the trace of a boot: when units started and after which others, when each waited for the
//! disk and behind whom, what disks were read for. All times are in ns since the kernel's start.

mod order;
mod served;

use std::collections::HashMap;

pub use order::{GAP_NS_MAX, StartedAfter};
pub use served::Served;

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
    /// When those that are ordered after it could start: it was active, or had ended.
    pub done_ns: Option<u64>,
    /// The unit that it was started after; `None` where there is none, or the trace doesn't tell.
    pub after: Option<StartedAfter>,
    /// When a read of its processes was in flight: apart from each other, in order.
    pub waits: Vec<Span>,
    /// Its reads.
    pub reads: ReadTotal,
    /// The time that it waited, by whose reads the disks served.
    pub served: Served,
}

impl UnitChart {
    /// Time during which a read of its processes was in flight.
    #[must_use]
    pub fn waited_ns(&self) -> u64 {
        length(&self.waits)
    }

    /// Time from its start until it was active or had ended; 0 where one of them isn't known.
    #[must_use]
    pub fn starting_ns(&self) -> u64 {
        match (self.started_ns, self.done_ns) {
            (Some(started), Some(done)) => done.saturating_sub(started),
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
    /// All units that were started or read something, in the order of the trace.
    pub units: Vec<UnitChart>,
    /// Whether the trace tells what units were started after. Those of earlier versions don't.
    pub has_order: bool,
    /// The units that the default target waited for, by their places in `units`: each was started
    /// after the one before it. The target is the last one.
    pub chain: Vec<usize>,
}

impl Chart {
    /// Name of a unit by its place in `units`; empty for a place that is none.
    #[must_use]
    pub fn name(&self, place: usize) -> &str {
        self.units.get(place).map_or("", |unit| &*unit.name)
    }
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
    let waits: HashMap<u16, Vec<Span>> = waits
        .into_iter()
        .map(|(unit, spans)| (unit, joined(spans)))
        .collect();
    let waited_ns = |unit: u16| waits.get(&unit).map_or(0, |spans| length(spans));
    let mut served = served::served(&trace.reads, waited_ns);
    let starts = order::starts(trace);
    chart.has_order = !trace.orders.is_empty();
    chart.chain = order::chain(trace, &starts);
    let units = (0..=u16::MAX).zip(trace.units.iter().zip(starts));
    for (index, (unit, start)) in units {
        chart.units.push(UnitChart {
            name: unit.name.clone(),
            started_ns: unit.started_ns,
            active_ns: unit.active_ns,
            done_ns: start.done_ns,
            after: start.after,
            waits: waits.get(&index).cloned().unwrap_or_default(),
            reads: unit_reads.remove(&index).unwrap_or_default(),
            served: served.remove(&index).unwrap_or_default(),
        });
    }
    let waited = chart.units.iter().map(UnitChart::waited_ns);
    chart.waited_ns = waited.fold(0, u64::saturating_add);
    chart
}

/// Names of the units that matter most in any of these boots, by the time of their start in the
/// first of these that has them. At most `units_max` are returned, with the number of those that
/// are left out. Those that the default target waited for come before all others. Else a unit that
/// took no time and read nothing is no matter at all.
#[must_use]
pub fn select(charts: &[&Chart], units_max: usize) -> (Vec<String>, usize) {
    let mut weights: HashMap<&str, u64> = HashMap::new();
    for chart in charts {
        for (place, unit) in chart.units.iter().enumerate() {
            // A daemon that reads on after the target must not push out those that hold the boot
            // up.
            let weight = match chart.chain.contains(&place) {
                true => u64::MAX,
                false => unit
                    .starting_ns()
                    .min(chart.end_ns)
                    .saturating_add(unit.waited_ns()),
            };
            let known = weights.entry(&unit.name).or_default();
            *known = weight.max(*known);
        }
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
    use crate::trace::{TracedOrder, TracedUnit};
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
    fn a_wait_is_parted_by_whose_reads_complete_in_it() {
        let (a, b) = (Reader::Unit(0), Reader::Unit(1));
        let reads = [
            (0, 10, Reader::Replay),
            (0, 20, Reader::Replay),
            // Merged: they complete together.
            (0, 30, b),
            (0, 30, Reader::Other),
            (5, 35, a),
            // Behind it: it delays nobody.
            (5, 95, Reader::Replay),
            // It overtakes it.
            (30, 4, Reader::Replay),
        ];
        let chart = chart(&trace(&reads));
        let served = &chart.units[0].served;
        assert_eq!(served.replay_ns, 5 + 10 + 4);
        assert_eq!(served.units, [(1, 5)]);
        assert_eq!((served.other_ns, served.own_ns), (5, 6));
        assert_eq!(chart.units[0].waited_ns(), 35);
        let served = &chart.units[1].served;
        assert_eq!((served.replay_ns, served.own_ns), (20, 5));
    }

    #[test]
    fn each_disk_has_a_queue_of_its_own() {
        let a = Reader::Unit(0);
        let mut trace = trace(&[(0, 40, a), (0, 10, Reader::Replay), (0, 20, a)]);
        trace.reads[1].disk = 1;
        trace.reads[2].disk = 1;
        let chart = chart(&trace);
        // Half of the first 10: on the other disk it was served.
        assert_eq!(chart.units[0].served.replay_ns, 5);
        assert_eq!(chart.units[0].served.own_ns, 35);
    }

    /// Of the three units of [`trace`], `c` comes first and `a` last.
    fn ordered(orders: &[(u16, &[u16], Option<u64>)]) -> BootTrace {
        let mut trace = trace(&[]);
        trace.default_target = Some("a.service".into());
        let order = |(unit, after, ended_ns): &(u16, &[u16], Option<u64>)| TracedOrder {
            unit: *unit,
            after: after.to_vec(),
            ended_ns: *ended_ns,
        };
        trace.orders = orders.iter().map(order).collect();
        trace
    }

    #[test]
    fn a_unit_is_started_after_the_one_that_was_done_last() {
        let chart = chart(&ordered(&[(0, &[2, 1], None), (1, &[2, 0], None)]));
        let after = |unit: usize| chart.units[unit].after;
        assert_eq!(
            after(0),
            Some(StartedAfter {
                unit: 1,
                gap_ns: 20
            })
        );
        // `a` was not yet active when `b` was started.
        assert_eq!(after(1), Some(StartedAfter { unit: 2, gap_ns: 5 }));
        assert_eq!(after(2), None);
        assert_eq!(chart.chain, [2, 1, 0]);
        assert!(chart.has_order);
    }

    #[test]
    fn a_unit_that_has_ended_was_waited_for() {
        let mut trace = ordered(&[(0, &[1, 2], None), (1, &[], Some(44))]);
        trace.units[1].active_ns = None;
        let chart = chart(&trace);
        assert_eq!(chart.units[1].done_ns, Some(44));
        assert_eq!(chart.units[1].starting_ns(), 34);
        assert_eq!(chart.chain, [1, 0]);
    }

    #[test]
    fn a_circle_or_a_trace_without_order_ends_the_chain() {
        let mut circle = ordered(&[(0, &[1], None), (1, &[0], None)]);
        for unit in &mut circle.units {
            (unit.started_ns, unit.active_ns) = (Some(7), Some(7));
        }
        assert_eq!(chart(&circle).chain, [1, 0]);
        let without = chart(&ordered(&[]));
        assert!(!without.has_order && without.chain.is_empty());
        let mut elsewhere = ordered(&[(0, &[1], None)]);
        elsewhere.default_target = Some("x.target".into());
        assert!(chart(&elsewhere).chain.is_empty());
    }

    #[test]
    fn the_chain_comes_before_all_that_took_longer() {
        let mut trace = ordered(&[(0, &[2], None)]);
        trace.units[1].active_ns = Some(10_000);
        let (names, left_out) = select(&[&chart(&trace)], 2);
        assert_eq!(names, ["c", "a.service"]);
        assert_eq!(left_out, 1);
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
            disks in proptest::collection::vec(0u16..3, 60),
        ) {
            let reads: Vec<_> =
                reads.into_iter().map(|(at, took, unit)| (at, took, Reader::Unit(unit))).collect();
            let mut trace = trace(&reads);
            for (read, disk) in trace.reads.iter_mut().zip(disks) {
                read.disk = disk;
            }
            let chart = chart(&trace);
            for unit in &chart.units {
                prop_assert!(unit.waits.windows(2).all(|pair| pair[0].1 < pair[1].0));
                prop_assert!(unit.waited_ns() <= chart.busy_ns);
                let Served { own_ns, replay_ns, other_ns, .. } = unit.served;
                let parts = own_ns + replay_ns + other_ns + unit.served.units_ns();
                prop_assert_eq!(parts, unit.waited_ns());
            }
            prop_assert!(chart.busy_ns <= chart.waited_ns);
            prop_assert!(chart.busy_ns <= chart.end_ns);
        }
    }
}
