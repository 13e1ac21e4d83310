// SPDX-License-Identifier: MIT OR Apache-2.0
//! A throughput from few, noisy passes: its median and how far to trust it.

/// How much the passes of one size are trusted to differ as those of all sizes do, in passes.
const COMMON_PASSES: f64 = 4.0;
/// No pass is more exact than this share of itself: timers, interrupts, a neighbour.
pub const NOISE_MIN: f64 = 0.002;

/// A throughput with its 95 % confidence interval, in bytes a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The median of the faster half of the passes: a busy machine makes passes slower, never
    /// faster.
    pub bytes_per_s: f64,
    /// Half of the interval, as a share of that.
    pub half_width: f64,
    /// Passes measured.
    pub passes: usize,
}

impl Estimate {
    /// Estimate from passes in bytes a second. `noise` is the known variation of a pass: one
    /// standard deviation, as a share of the pass. `None` without passes.
    #[must_use]
    pub fn of(passes: &[f64], noise: f64) -> Option<Self> {
        let middle = median(&faster_half(passes))?;
        let count = passes.len() as f64;
        let own = spread(passes);
        let own_freedom = count - 1.0;
        let freedom = COMMON_PASSES + own_freedom;
        let variance = (COMMON_PASSES * noise * noise + own_freedom * own * own) / freedom;
        let deviation = variance.sqrt().max(NOISE_MIN);
        Some(Self {
            bytes_per_s: middle,
            half_width: student_97_5(freedom) * deviation / count.sqrt(),
            passes: passes.len(),
        })
    }

    /// The lower end of the interval.
    #[must_use]
    pub fn low(&self) -> f64 {
        self.bytes_per_s * (1.0 - self.half_width).max(0.0)
    }

    /// The upper end of the interval.
    #[must_use]
    pub fn high(&self) -> f64 {
        self.bytes_per_s * (1.0 + self.half_width)
    }
}

/// The faster half. An odd number of passes includes the one in the middle.
fn faster_half(passes: &[f64]) -> Vec<f64> {
    let mut sorted = passes.to_vec();
    sorted.sort_by(|one, other| other.total_cmp(one));
    sorted.truncate(passes.len().div_ceil(2));
    sorted
}

/// The value in the middle. `None` without values.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (below, above) = (sorted.len().checked_sub(1)? / 2, sorted.len() / 2);
    Some(f64::midpoint(sorted[below], sorted[above]))
}

/// One standard deviation as a share of the median; from four values on, one that lies far out
/// counts no more than one that lies out. 0 of fewer than two.
#[must_use]
pub fn spread(values: &[f64]) -> f64 {
    let Some(middle) = median(values).filter(|middle| *middle > 0.0) else {
        return 0.0;
    };
    if values.len() < 2 {
        return 0.0;
    }
    let distances: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    if values.len() >= 4 {
        // Half of a normal distribution lies within 0.6745 standard deviations.
        return median(&distances).unwrap_or(0.0) / 0.6745 / middle;
    }
    let squares: f64 = distances.iter().map(|distance| distance * distance).sum();
    (squares / (values.len() - 1) as f64).sqrt() / middle
}

/// The 97.5 % point of Student's distribution, within 1 % from three degrees of freedom on.
fn student_97_5(freedom: f64) -> f64 {
    let freedom = freedom.max(1.0);
    1.96 + 2.37 / freedom + 2.8 / (freedom * freedom) + 2.6 / (freedom * freedom * freedom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn student_is_as_in_the_tables() {
        for (freedom, point) in [(3.0, 3.182), (4.0, 2.776), (6.0, 2.447), (30.0, 2.042)] {
            let off = (student_97_5(freedom) / point - 1.0_f64).abs();
            assert!(off < 0.01, "{freedom}: {off}");
        }
    }

    #[test]
    fn more_passes_narrow_the_interval_and_an_outlier_does_not_move_it() {
        let one = Estimate::of(&[100.0], 0.01).unwrap();
        let many = Estimate::of(&[100.0, 101.0, 99.0, 100.5, 99.5, 60.0], 0.01).unwrap();
        assert!(many.half_width < one.half_width / 1.5, "{many:?} {one:?}");
        assert!((many.bytes_per_s - 100.5).abs() < 1e-9);
        assert!(one.low() < 98.0 && one.high() > 102.0);
        assert_eq!(Estimate::of(&[], 0.01), None);
    }

    #[test]
    fn passes_without_any_spread_are_not_taken_for_exact() {
        let same = Estimate::of(&[5.0; 3], 0.0).unwrap();
        assert!(same.half_width > 0.001, "{same:?}");
        assert_eq!(spread(&[0.0, 0.0]), 0.0);
    }
}
