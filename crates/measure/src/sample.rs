// SPDX-License-Identifier: MIT OR Apache-2.0
//! Repeated measurements on a noisy machine: medians, spread, and two things measured in turn.

use std::time::{Duration, Instant};

/// The same thing measured several times.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    sorted: Vec<f64>,
}

impl Sample {
    /// A sample of these values, in any order. What isn't a number is left out.
    pub fn new(values: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = values.into_iter().filter(|value| !value.is_nan()).collect();
        sorted.sort_by(f64::total_cmp);
        Self { sorted }
    }

    /// A sample of times in nanoseconds.
    pub fn of_ns(values: impl IntoIterator<Item = u64>) -> Self {
        Self::new(values.into_iter().map(|value| value as f64))
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    /// Whether there is no value.
    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    /// The value in the middle; 0 without values.
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// The median of times, in whole nanoseconds.
    pub fn median_ns(&self) -> u64 {
        self.median().round() as u64
    }

    /// The value below which `share` (0 to 1) of the sample lies, interpolated; 0 without values.
    pub fn quantile(&self, share: f64) -> f64 {
        let Some(last) = self.sorted.len().checked_sub(1) else {
            return 0.0;
        };
        let place = share.clamp(0.0, 1.0) * last as f64;
        let (below, above) = (place.floor() as usize, place.ceil() as usize);
        let part = place - place.floor();
        self.sorted[below] * (1.0 - part) + self.sorted[above] * part
    }

    /// The quarter points: half of the values lie between them.
    pub fn quartiles(&self) -> (f64, f64) {
        (self.quantile(0.25), self.quantile(0.75))
    }
}

/// Two things measured in turn, so that a disturbance of the machine meets both.
#[derive(Clone, Debug, Default)]
pub struct Pairs {
    /// Times without the judged thing, and with it, one pair a round, in nanoseconds.
    pub pairs_ns: Vec<(f64, f64)>,
}

impl Pairs {
    /// Times without.
    pub fn without(&self) -> Sample {
        Sample::new(self.pairs_ns.iter().map(|pair| pair.0))
    }

    /// Times with.
    pub fn with(&self) -> Sample {
        Sample::new(self.pairs_ns.iter().map(|pair| pair.1))
    }

    /// The median with over the median without, less 1: 0.02 is 2 % slower.
    pub fn slowdown(&self) -> f64 {
        let without = self.without().median();
        if without > 0.0 {
            self.with().median() / without - 1.0
        } else {
            0.0
        }
    }

    /// The slowdown of each pair by itself; its spread tells how far to trust the medians.
    pub fn slowdowns(&self) -> Sample {
        let ratio = |&(without, with): &(f64, f64)| with / without - 1.0;
        Sample::new(self.pairs_ns.iter().map(ratio))
    }

    /// The median with less the median without, in nanoseconds.
    pub fn added_ns(&self) -> f64 {
        self.with().median() - self.without().median()
    }
}

/// The number of rounds of a measurement: as many as fit into a time, within bounds.
#[derive(Clone, Copy, Debug)]
pub struct Rounds {
    /// Minimum number of rounds.
    pub min: usize,
    /// Maximum number of rounds.
    pub max: usize,
    /// No further round begins after this.
    pub time: Duration,
}

impl Rounds {
    /// Exactly `count` rounds, however long they take.
    pub fn exactly(count: usize) -> Self {
        Self {
            min: count,
            max: count,
            time: Duration::ZERO,
        }
    }

    /// Whether another round is due after `done` rounds that began at `began`.
    pub fn wants_more(&self, done: usize, began: Instant) -> bool {
        done < self.min || (done < self.max && began.elapsed() < self.time)
    }
}

/// Measures two things in turn. Every other round begins with the second, so that neither always
/// runs after the other.
///
/// # Errors
/// The first error of either.
pub fn in_turn<E>(
    rounds: Rounds,
    mut without: impl FnMut() -> Result<f64, E>,
    mut with: impl FnMut() -> Result<f64, E>,
) -> Result<Pairs, E> {
    let began = Instant::now();
    let mut pairs = Pairs::default();
    while rounds.wants_more(pairs.pairs_ns.len(), began) {
        let pair = if pairs.pairs_ns.len() % 2 == 0 {
            let without = without()?;
            (without, with()?)
        } else {
            let with = with()?;
            (without()?, with)
        };
        pairs.pairs_ns.push(pair);
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_interpolate() {
        let sample = Sample::new([4.0, 1.0, f64::NAN, 3.0, 2.0]);
        assert_eq!(sample.len(), 4);
        assert_eq!(sample.median(), 2.5);
        assert_eq!(sample.quartiles(), (1.75, 3.25));
        assert_eq!(sample.quantile(7.0), 4.0);
        assert_eq!(Sample::of_ns([7, 9, 8]).median_ns(), 8);
        assert_eq!(Sample::default().median(), 0.0);
    }

    #[test]
    fn one_outlier_does_not_move_the_slowdown() {
        let pairs = Pairs {
            pairs_ns: vec![(100.0, 102.0), (100.0, 900.0), (100.0, 102.0)],
        };
        assert!((pairs.slowdown() - 0.02).abs() < 1e-9);
        assert_eq!(pairs.added_ns(), 2.0);
        assert_eq!(Pairs::default().slowdown(), 0.0);
    }

    #[test]
    fn both_go_first_equally_often() {
        let rounds = Rounds::exactly(4);
        let order = std::cell::RefCell::new(String::new());
        let note = |letter: char, value: f64| {
            order.borrow_mut().push(letter);
            Ok::<f64, ()>(value)
        };
        let pairs = in_turn(rounds, || note('a', 1.0), || note('b', 2.0)).unwrap();
        assert_eq!(*order.borrow(), "abbaabba");
        assert_eq!(pairs.pairs_ns, [(1.0, 2.0); 4]);
    }

    #[test]
    fn rounds_end_with_the_time_but_not_below_the_least() {
        let rounds = Rounds {
            min: 2,
            max: 9,
            time: Duration::ZERO,
        };
        let pairs = in_turn(rounds, || Ok::<f64, ()>(1.0), || Ok(1.0)).unwrap();
        assert_eq!(pairs.pairs_ns.len(), 2);
        let failed = in_turn(rounds, || Err("no"), || Ok(1.0));
        assert_eq!(failed.unwrap_err(), "no");
    }
}
