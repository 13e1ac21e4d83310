// SPDX-License-Identifier: MIT OR Apache-2.0
//! What each unit of a boot was started after, and the chain that ends at the default target.
//!
//! In: a trace with the order of its units. Out: for each unit, the one that it waited for, as
//! `systemd-analyze critical-chain` finds it: of the units that it is ordered after, the one that
//! was done last before it started. systemd tells of no other reason to wait, so a long gap between
//! the two means that something else was waited for: a device, a timer, or a request.

use crate::trace::{BootTrace, TracedOrder};

/// systemd starts a unit as soon as it handles the end of the last one before it. On a busy
/// processor that takes some tenths of a second. After a longer gap, something else was waited for.
pub const GAP_NS_MAX: u64 = 500_000_000;

/// The unit that another one was started after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartedAfter {
    /// Its place in [`super::Chart::units`].
    pub unit: usize,
    /// Time from when it was done until the other one was started.
    pub gap_ns: u64,
}

impl StartedAfter {
    /// Whether the other one may have waited for it alone.
    #[must_use]
    pub const fn is_close(&self) -> bool {
        self.gap_ns <= GAP_NS_MAX
    }
}

/// The start of one unit.
pub(super) struct Start {
    /// When it was done.
    pub(super) done_ns: Option<u64>,
    /// What it was started after.
    pub(super) after: Option<StartedAfter>,
}

/// The start of each unit of the trace.
pub(super) fn starts(trace: &BootTrace) -> Vec<Start> {
    let mut orders: Vec<Option<&TracedOrder>> = vec![None; trace.units.len()];
    for order in &trace.orders {
        if let Some(place) = orders.get_mut(usize::from(order.unit)) {
            *place = Some(order);
        }
    }
    let done: Vec<Option<u64>> = trace
        .units
        .iter()
        .zip(&orders)
        .map(|(unit, order)| unit.done_ns(order.and_then(|order| order.ended_ns)))
        .collect();
    let after = |unit: usize| {
        let started_ns = trace.units.get(unit)?.started_ns?;
        let after = orders.get(unit).copied().flatten()?.after.iter();
        let before = after.filter_map(|other| {
            let other = usize::from(*other);
            let done_ns = done.get(other).copied().flatten()?;
            (other != unit && done_ns <= started_ns).then_some((done_ns, other))
        });
        // Of several at once, the one that comes first in the trace: any is right.
        let (done_ns, other) = before.max_by_key(|(ns, other)| (*ns, std::cmp::Reverse(*other)))?;
        Some(StartedAfter {
            unit: other,
            gap_ns: started_ns - done_ns,
        })
    };
    let start = |(unit, done_ns): (usize, &Option<u64>)| Start {
        done_ns: *done_ns,
        after: after(unit),
    };
    done.iter().enumerate().map(start).collect()
}

/// Places of the units of the chain that ends at the default target, the first one first. Empty
/// where the trace doesn't tell.
pub(super) fn chain(trace: &BootTrace, starts: &[Start]) -> Vec<usize> {
    let is_target = |name: &String| Some(name) == trace.default_target.as_ref();
    let target = trace.units.iter().position(|unit| is_target(&unit.name));
    let mut next = target.filter(|_| !trace.orders.is_empty());
    let mut chain = Vec::new();
    while let Some(unit) = next {
        // Units with equal times may be ordered in a circle in a damaged trace.
        if chain.contains(&unit) {
            break;
        }
        chain.push(unit);
        let after = starts.get(unit).and_then(|start| start.after);
        next = after.map(|after| after.unit);
    }
    chain.reverse();
    chain
}
