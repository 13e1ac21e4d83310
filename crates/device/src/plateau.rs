// SPDX-License-Identifier: MIT OR Apache-2.0
//! The plateau of a sweep: the smallest size whose throughput is within 2 % of the best.

use foreread_core::KiB;

use crate::estimate::{Estimate, median};

/// How much of the best a size must reach.
pub const PLATEAU_SHARE: f64 = 0.98;

/// How much of the best a size must reach to count as the same, however wide the intervals are: on
/// a disturbed machine they are wide enough for sizes that are far below.
const AS_GOOD_SHARE: f64 = 0.985;

/// The plateau that a sweep shows.
#[derive(Clone, Debug, PartialEq)]
pub struct Plateau {
    /// The smallest size within 2 % of the best.
    pub read_ahead: KiB,
    /// The size with the best throughput.
    pub best: KiB,
    /// Sizes that can't be told from the best. Their common level is the capability of the device:
    /// the highest of several noisy numbers is too high.
    pub as_good: Vec<KiB>,
    /// Sizes of which the intervals leave open whether they are within 2 % of the best, and whose
    /// answer would make another size the plateau. Empty: the plateau is certain.
    pub open: Vec<KiB>,
}

impl Plateau {
    /// The plateau of sizes with their throughput. `None` if nothing was measured.
    #[must_use]
    pub fn of(points: &[(KiB, Estimate)]) -> Option<Self> {
        let by_rate = |one: &&(KiB, Estimate), other: &&(KiB, Estimate)| {
            let order = one.1.bytes_per_s.total_cmp(&other.1.bytes_per_s);
            // The smaller size wins if both are equally fast.
            order.then(other.0.cmp(&one.0))
        };
        let best = points.iter().max_by(by_rate)?;
        let as_good: Vec<&(KiB, Estimate)> = points
            .iter()
            .filter(|point| {
                let is_near = point.1.bytes_per_s >= best.1.bytes_per_s * AS_GOOD_SHARE;
                is_near && point.1.high() >= best.1.low()
            })
            .collect();
        let level = Level::of(&as_good, &best.1);
        let reaches = |point: &&(KiB, Estimate)| level.share(&point.1) >= PLATEAU_SHARE;
        let found = points.iter().find(reaches).unwrap_or(best);
        // Beyond what was found, nothing can be the plateau unless that falls out.
        let asked = points.iter().take_while(|point| point.0 <= found.0);
        let open = asked.filter(|point| level.leaves_open(&point.1));
        Some(Self {
            read_ahead: found.0,
            best: best.0,
            as_good: as_good.iter().map(|point| point.0).collect(),
            open: open.map(|point| point.0).collect(),
        })
    }

    /// Whether the intervals leave no other answer.
    #[must_use]
    pub fn is_certain(&self) -> bool {
        self.open.is_empty()
    }
}

/// The throughput that the device is capable of.
struct Level {
    bytes_per_s: f64,
    half_width: f64,
}

impl Level {
    fn of(as_good: &[&(KiB, Estimate)], best: &Estimate) -> Self {
        let rates: Vec<f64> = as_good.iter().map(|point| point.1.bytes_per_s).collect();
        let widths = as_good.iter().map(|point| point.1.half_width);
        let squares: f64 = widths.clone().map(|width| width * width).sum();
        let together = squares.sqrt() / as_good.len().max(1) as f64;
        Self {
            bytes_per_s: median(&rates).unwrap_or(best.bytes_per_s),
            half_width: widths.fold(together, f64::min),
        }
    }

    fn share(&self, one: &Estimate) -> f64 {
        one.bytes_per_s / self.bytes_per_s.max(f64::MIN_POSITIVE)
    }

    /// Whether the interval of the share has the border in it.
    fn leaves_open(&self, one: &Estimate) -> bool {
        let share = self.share(one);
        // The level itself is within 2 % of the level.
        if share >= 1.0 {
            return false;
        }
        let half = share * one.half_width.hypot(self.half_width);
        (share - PLATEAU_SHARE).abs() < half
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(kib: u64, bytes_per_s: f64, half_width: f64) -> (KiB, Estimate) {
        let estimate = Estimate {
            bytes_per_s,
            half_width,
            passes: 3,
        };
        (KiB::new(kib), estimate)
    }

    #[test]
    fn the_smallest_within_two_percent_is_the_plateau() {
        let points = [
            point(64, 90.0, 0.001),
            point(128, 98.4, 0.001),
            point(256, 99.0, 0.001),
            point(512, 100.0, 0.001),
        ];
        let plateau = Plateau::of(&points).unwrap();
        assert_eq!(plateau.read_ahead, KiB::new(128));
        assert_eq!(plateau.best, KiB::new(512));
        assert!(plateau.is_certain(), "{plateau:?}");
    }

    #[test]
    fn wide_intervals_leave_it_open() {
        let points = [
            point(64, 97.0, 0.015),
            point(128, 98.5, 0.01),
            point(256, 99.0, 0.005),
            point(512, 100.0, 0.001),
        ];
        let plateau = Plateau::of(&points).unwrap();
        assert_eq!(plateau.read_ahead, KiB::new(128));
        assert_eq!(plateau.open, [KiB::new(64), KiB::new(128)]);
    }

    #[test]
    fn wide_intervals_do_not_make_a_slow_size_as_good_as_the_best() {
        let points = [
            point(64, 92.0, 0.9),
            point(128, 96.0, 0.9),
            point(256, 100.0, 0.9),
            point(512, 99.0, 0.9),
        ];
        let plateau = Plateau::of(&points).unwrap();
        assert_eq!(plateau.read_ahead, KiB::new(256));
        assert_eq!(plateau.as_good, [KiB::new(256), KiB::new(512)]);
        assert!(!plateau.is_certain());
    }

    #[test]
    fn one_lucky_pass_among_equals_does_not_raise_the_best() {
        let mut points: Vec<_> = (5..12)
            .map(|power| point(1 << power, 100.0, 0.02))
            .collect();
        points[0].1.bytes_per_s = 98.3;
        points[5].1.bytes_per_s = 101.5;
        let plateau = Plateau::of(&points).unwrap();
        assert_eq!(plateau.read_ahead, KiB::new(32));
        assert_eq!(plateau.best, KiB::new(1024));
        assert_eq!(plateau.as_good.len(), 6);
    }

    #[test]
    fn a_flat_device_needs_its_smallest_size_only() {
        let points = [point(4, 100.0, 0.01), point(8, 100.0, 0.01)];
        let plateau = Plateau::of(&points).unwrap();
        assert_eq!(
            (plateau.read_ahead, plateau.best),
            (KiB::new(4), KiB::new(4))
        );
        assert!(plateau.is_certain());
        assert_eq!(Plateau::of(&[]), None);
        let dead = Plateau::of(&[point(4, 0.0, 0.0)]);
        assert!(dead.is_none_or(|dead| dead.read_ahead == KiB::new(4)));
    }
}
