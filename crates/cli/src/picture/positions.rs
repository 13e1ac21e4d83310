// SPDX-License-Identifier: MIT OR Apache-2.0
//! The scale of positions on a disk, without the stretches that nothing is read from.

use foreread_core::grouped;
use foreread_model::{Extent, distinct_extents};

/// An unread stretch is left out from this share of the whole on.
const LEFT_OUT_SHARE: f64 = 0.04;
/// At most so many are left out, the longest.
const LEFT_OUT_MAX: usize = 5;
/// Height of the mark for a part of the disk that is left out.
const BREAK_HEIGHT: f64 = 8.0;
/// Even a short stretch can be seen and labelled.
const STRETCH_HEIGHT_MIN: f64 = 20.0;
/// Labels closer than this would touch.
const LABEL_HEIGHT: f64 = 22.0;

/// A part of the disk that is drawn. Low positions are at the bottom.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stretch {
    from_bytes: u64,
    to_bytes: u64,
    bottom: f64,
    pub height: f64,
}

impl Stretch {
    pub fn top(&self) -> f64 {
        self.bottom - self.height
    }

    fn y(&self, offset_bytes: u64) -> f64 {
        let length = (self.to_bytes - self.from_bytes).max(1) as f64;
        let within = offset_bytes.clamp(self.from_bytes, self.to_bytes) - self.from_bytes;
        self.bottom - within as f64 / length * self.height
    }
}

/// Where positions are drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Positions {
    /// In order of position.
    pub stretches: Vec<Stretch>,
    unit_bytes: u64,
}

impl Positions {
    /// A scale of `height` units that shows all these extents, numbered in units of so many bytes.
    pub fn of(extents: &[Extent], height: f64, unit_bytes: u64) -> Self {
        let spans = spans(&distinct_extents(extents));
        let total: u64 = spans.iter().map(|(from, to)| to - from).sum();
        let breaks = spans.len().saturating_sub(1) as f64 * BREAK_HEIGHT;
        let to_share = height - breaks - spans.len() as f64 * STRETCH_HEIGHT_MIN;
        let mut bottom = height;
        let stretches = spans.into_iter().map(|(from_bytes, to_bytes)| {
            let share = (to_bytes - from_bytes) as f64 / total.max(1) as f64;
            let stretch = Stretch {
                from_bytes,
                to_bytes,
                bottom,
                height: STRETCH_HEIGHT_MIN + share * to_share,
            };
            bottom = stretch.top() - BREAK_HEIGHT;
            stretch
        });
        Self {
            stretches: stretches.collect(),
            unit_bytes: unit_bytes.max(1),
        }
    }

    /// What is drawn: all but the stretches that are left out, in bytes.
    pub fn drawn_bytes(&self) -> u64 {
        let stretches = self.stretches.iter();
        stretches
            .map(|stretch| stretch.to_bytes - stretch.from_bytes)
            .sum()
    }

    /// Where a position is drawn, from 0 at the top.
    pub fn y(&self, offset_bytes: u64) -> f64 {
        let stretch = self
            .stretches
            .iter()
            .find(|stretch| offset_bytes <= stretch.to_bytes);
        let stretch = stretch.or(self.stretches.last());
        stretch.map_or(0.0, |stretch| stretch.y(offset_bytes))
    }

    /// Round positions with where they are drawn, at least one a stretch.
    pub fn ticks(&self) -> Vec<(f64, String)> {
        let stretches = self.stretches.iter();
        stretches
            .flat_map(|stretch| stretch_ticks(stretch, self.unit_bytes))
            .collect()
    }
}

/// Parts of the disk that are drawn, from start to end.
fn spans(distinct: &[Extent]) -> Vec<(u64, u64)> {
    let (Some(first), Some(last)) = (distinct.first(), distinct.last()) else {
        return vec![(0, 1)];
    };
    let whole = last.end_bytes() - first.offset_bytes;
    let gap = |pair: &[Extent]| pair[1].offset_bytes - pair[0].end_bytes();
    let mut gaps: Vec<u64> = distinct.windows(2).map(gap).collect();
    gaps.sort_unstable_by_key(|&gap| std::cmp::Reverse(gap));
    let least = gaps.get(LEFT_OUT_MAX).map_or(0, |gap| gap + 1);
    let least = least.max((whole as f64 * LEFT_OUT_SHARE) as u64).max(1);
    let mut spans = vec![(first.offset_bytes, first.end_bytes())];
    for extent in &distinct[1..] {
        match spans.last_mut() {
            Some(span) if extent.offset_bytes - span.1 < least => span.1 = extent.end_bytes(),
            _ => spans.push((extent.offset_bytes, extent.end_bytes())),
        }
    }
    spans
}

fn stretch_ticks(stretch: &Stretch, unit_bytes: u64) -> Vec<(f64, String)> {
    let length = (stretch.to_bytes - stretch.from_bytes).max(1) as f64;
    let steps = (0..18).flat_map(|power| [1, 2, 5].map(|step| step * 10_u64.pow(power)));
    let steps = steps.map_while(|step: u64| step.checked_mul(unit_bytes));
    let mut steps = steps.filter(|&step| step as f64 / length * stretch.height >= LABEL_HEIGHT);
    let step = steps.next().unwrap_or(u64::MAX);
    let first = stretch.from_bytes.div_ceil(step);
    let ticks: Vec<(f64, String)> = (first..=stretch.to_bytes / step)
        .map(|index| index * step)
        .map(|position| (stretch.y(position), grouped(position / unit_bytes)))
        .collect();
    if !ticks.is_empty() {
        return ticks;
    }
    let middle = stretch.bottom - stretch.height / 2.0;
    vec![(middle, grouped(stretch.from_bytes / unit_bytes))]
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn read(offset_mib: u64, length_mib: u64) -> Extent {
        Extent {
            offset_bytes: offset_mib * MIB,
            length_bytes: length_mib * MIB,
        }
    }

    #[test]
    fn unread_stretches_are_left_out() {
        let left = [read(0, 1), read(2000, 100)];
        let right = [read(2110, 90), read(1, 1)];
        let positions = Positions::of(&[left, right].concat(), 340.0, MIB);
        let spans: Vec<(u64, u64)> = positions
            .stretches
            .iter()
            .map(|stretch| (stretch.from_bytes / MIB, stretch.to_bytes / MIB))
            .collect();
        assert_eq!(spans, [(0, 2), (2000, 2200)]);
        assert_eq!(positions.y(0), 340.0);
        assert!(positions.y(2200 * MIB).abs() < 1e-9);
        assert!(positions.y(2000 * MIB) < positions.y(2 * MIB));
    }

    #[test]
    fn positions_never_go_down_and_stay_inside() {
        let reads: Vec<Extent> = (0..60).map(|i| read(i * i * 3, 1 + i % 4)).collect();
        let positions = Positions::of(&reads, 340.0, MIB);
        assert!(positions.stretches.len() <= LEFT_OUT_MAX + 1);
        let mut last = f64::MAX;
        for offset_mib in 0..11_000 {
            let y = positions.y(offset_mib * MIB);
            assert!(
                (-1e-9..=340.0).contains(&y) && y <= last,
                "{offset_mib} {y}"
            );
            last = y;
        }
    }

    #[test]
    fn every_stretch_has_a_label_and_none_touch() {
        let reads = [read(0, 1), read(130, 3), read(2070, 220), read(3500, 1)];
        let ticks = Positions::of(&reads, 340.0, MIB).ticks();
        assert!(ticks.iter().any(|tick| tick.1 == "2,100"), "{ticks:?}");
        assert!(ticks.iter().any(|tick| tick.1 == "3,500"), "{ticks:?}");
        for pair in ticks.windows(2) {
            assert!(pair[0].0 - pair[1].0 >= 12.0, "{ticks:?}");
        }
    }

    #[test]
    fn no_reads_have_a_scale_too() {
        let positions = Positions::of(&[], 340.0, MIB);
        assert_eq!(positions.stretches.len(), 1);
        assert!(positions.y(7).is_finite());
        assert_eq!(positions.ticks().len(), 1);
    }
}
