// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers along an axis: from values to places, and round numbers to label it with.

/// Labels closer than this to each other would run together, in px.
const LABEL_GAP: f64 = 9.0;

/// A labelled value.
#[derive(Clone, Debug, PartialEq)]
pub struct Tick {
    /// Where it is, from the start of the axis.
    pub at: f64,
    /// Its label.
    pub text: String,
}

/// How values become places.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Linear,
    /// By powers of 2, as sizes are.
    Log2,
}

/// An axis of a length in px, from its first value to its last.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Axis {
    kind: Kind,
    /// The first value and the last; of a logarithmic axis, their logarithms.
    from: f64,
    to: f64,
    length: f64,
}

impl Axis {
    /// Equal steps for equal differences. An axis without extent has one of 1.
    pub fn linear(from: f64, to: f64, length: f64) -> Self {
        Self::of(Kind::Linear, from, to, length)
    }

    /// Equal steps for doubled values, with half a step of room at both ends.
    pub fn log2(from: f64, to: f64, length: f64) -> Self {
        let log = |value: f64| value.max(1.0).log2();
        Self::of(Kind::Log2, log(from) - 0.5, log(to) + 0.5, length)
    }

    fn of(kind: Kind, from: f64, to: f64, length: f64) -> Self {
        let from = if from.is_finite() { from } else { 0.0 };
        let to = if to.is_finite() && to > from {
            to
        } else {
            from + 1.0
        };
        Self {
            kind,
            from,
            to,
            length,
        }
    }

    /// Where a value is, from 0 to the length of the axis.
    pub fn at(&self, value: f64) -> f64 {
        self.place(value).clamp(0.0, self.length)
    }

    /// The same from the other end: where a value is above the bottom of an upright axis.
    pub fn up(&self, value: f64) -> f64 {
        self.length - self.at(value)
    }

    /// Whether a value is on the axis.
    pub fn holds(&self, value: f64) -> bool {
        (0.0..=self.length).contains(&self.place(value))
    }

    fn place(&self, value: f64) -> f64 {
        let value = match self.kind {
            Kind::Linear => value,
            Kind::Log2 => value.max(1.0).log2(),
        };
        (value - self.from) / (self.to - self.from) * self.length
    }

    /// Round values with their labels, in increasing order. Of a logarithmic axis: powers of 2.
    pub fn ticks(&self) -> Vec<Tick> {
        let values = match self.kind {
            Kind::Linear => ticks(self.from, self.to),
            Kind::Log2 => {
                let powers = self.from.ceil() as i32..=self.to.floor() as i32;
                let values = powers.map(|power| 2_f64.powi(power));
                values.map(|value| (value, value.to_string())).collect()
            }
        };
        let values = values.into_iter();
        let ticks = values.map(|(value, text)| Tick {
            at: self.at(value),
            text,
        });
        ticks.collect()
    }
}

/// An axis of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeAxis {
    axis: Axis,
    from_ns: u64,
    unit_ns: f64,
    /// Unit of the labels.
    pub unit: &'static str,
}

impl TimeAxis {
    /// From a time to another. There is a little room on the right, so that an end is seen as one.
    pub fn new(from_ns: u64, to_ns: u64, length: f64) -> Self {
        let span_ns = to_ns.saturating_sub(from_ns).max(1) as f64;
        let (unit_ns, unit) = match span_ns {
            span if span < 2e6 => (1e3, "µs"),
            span if span < 2e9 => (1e6, "ms"),
            _ => (1e9, "seconds"),
        };
        Self {
            axis: Axis::linear(0.0, span_ns * 1.02 / unit_ns, length),
            from_ns,
            unit_ns,
            unit,
        }
    }

    /// Where a time is.
    pub fn at(&self, ns: u64) -> f64 {
        let since_ns = ns.saturating_sub(self.from_ns);
        self.axis.at(since_ns as f64 / self.unit_ns)
    }

    /// Round times.
    pub fn ticks(&self) -> Vec<Tick> {
        self.axis.ticks()
    }
}

/// Four to nine round numbers from `from` to `to`, with their text.
fn ticks(from: f64, to: f64) -> Vec<(f64, String)> {
    let span = to - from;
    let power = 10_f64.powf((span / 5.0).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    let step = steps.into_iter().find(|step| span / step <= 9.0);
    let Some(step) = step.filter(|step| step.is_normal()) else {
        return vec![(from, "0".to_owned())];
    };
    let digits = (-step.log10().floor()).max(0.0) as usize;
    let first = (from / step).ceil();
    let count = ((to / step).floor() - first).max(0.0) as u32;
    (0..=count)
        .map(|index| (first + f64::from(index)) * step)
        .map(|value| (value, label(value, digits)))
        .collect()
}

/// From this value on, and with more digits behind the point than that, numbers are short: `2e7`.
const SHORT_FROM: f64 = 1e7;
const DIGITS_MAX: usize = 4;

/// Digits in groups of three; a negative nothing is nothing.
fn label(value: f64, digits: usize) -> String {
    if value != 0.0 && (digits > DIGITS_MAX || value.abs() >= SHORT_FROM) {
        return format!("{value:.1e}").replace(".0e", "e");
    }
    if value == 0.0 && digits > DIGITS_MAX {
        return "0".to_owned();
    }
    if digits == 0 && value >= 0.0 {
        return foreread_core::grouped(value.round() as u64);
    }
    let text = format!("{value:.digits$}");
    match text.strip_prefix('-') {
        Some(rest) if rest.bytes().all(|byte| matches!(byte, b'0' | b'.')) => rest.to_owned(),
        _ => text,
    }
}

/// Every tick, or every second one, or third: as many as can be labelled without that labels touch,
/// when each is centred at its place and about as wide as `width` says.
pub fn apart(ticks: &[Tick], width: impl Fn(&str) -> f64) -> Vec<Tick> {
    let halves: Vec<f64> = ticks.iter().map(|tick| width(&tick.text) / 2.0).collect();
    let fits = |step: &usize| {
        let places = ticks.iter().zip(&halves).step_by(*step);
        let ends = places
            .clone()
            .map(|(tick, half)| tick.at + half + LABEL_GAP);
        let starts = places.map(|(tick, half)| tick.at - half).skip(1);
        ends.zip(starts).all(|(end, start)| start >= end)
    };
    let step = (1..ticks.len()).find(fits).unwrap_or(ticks.len().max(1));
    ticks.iter().step_by(step).cloned().collect()
}

/// A coordinate with one digit: finer than a screen shows.
pub fn rounded(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(ticks: Vec<Tick>) -> String {
        let texts: Vec<String> = ticks.into_iter().map(|tick| tick.text).collect();
        texts.join(" ")
    }

    #[test]
    fn ticks_are_round_and_few() {
        let of = |end| text(Axis::linear(0.0, end, 100.0).ticks());
        assert_eq!(of(43.9), "0 5 10 15 20 25 30 35 40");
        assert_eq!(of(1.1), "0.0 0.2 0.4 0.6 0.8 1.0");
        assert_eq!(of(4.0), "0.0 0.5 1.0 1.5 2.0 2.5 3.0 3.5 4.0");
        assert_eq!(of(0.031), "0.000 0.005 0.010 0.015 0.020 0.025 0.030");
        assert_eq!(
            of(9000.0),
            "0 1,000 2,000 3,000 4,000 5,000 6,000 7,000 8,000 9,000"
        );
        assert_eq!(of(3e7), "0 5,000,000 1e7 1.5e7 2e7 2.5e7 3e7");
        assert_eq!(of(1.1e-6), "0 2e-7 4e-7 6e-7 8e-7 1e-6");
        assert_eq!(of(0.0), "0.0 0.2 0.4 0.6 0.8 1.0");
        assert_eq!(text(Axis::linear(-2.5, 2.5, 9.0).ticks()), "-2 -1 0 1 2");
    }

    #[test]
    fn a_logarithmic_axis_has_a_step_for_each_doubling() {
        let axis = Axis::log2(4.0, 16.0, 300.0);
        assert_eq!(text(axis.ticks()), "4 8 16");
        let places = [4.0, 8.0, 16.0].map(|value| axis.at(value));
        assert_eq!(places, [50.0, 150.0, 250.0]);
        assert!(axis.holds(5.0) && !axis.holds(64.0));
    }

    #[test]
    fn times_have_the_unit_of_their_span() {
        let unit = |to_ns: u64| TimeAxis::new(7, 7 + to_ns, 90.0).unit;
        let units = [0, 900_000, 900_000_000, 9_000_000_000].map(unit);
        assert_eq!(units, ["µs", "µs", "ms", "seconds"]);
        let axis = TimeAxis::new(5, 1_000_000_005, 102.0);
        assert_eq!([axis.at(0), axis.at(5)], [0.0, 0.0]);
        assert!((axis.at(1_000_000_005) - 100.0).abs() < 1e-6);
    }

    #[test]
    fn labels_that_would_touch_are_left_out() {
        let ticks = Axis::linear(0.0, 9.0, 60.0).ticks();
        assert_eq!(text(apart(&ticks, |_| 10.0)), "0 3 6 9");
    }

    proptest! {
        #[test]
        fn ticks_increase_and_lie_on_the_axis(from in -1e6..1e6, span in 1.0..1e12) {
            let axis = Axis::linear(from, from + span, 500.0);
            let ticks = axis.ticks();
            prop_assert!(!ticks.is_empty() && ticks.len() <= 11, "{ticks:?}");
            for pair in ticks.windows(2) {
                prop_assert!(pair[0].at < pair[1].at && pair[0].text != pair[1].text);
            }
            prop_assert!(ticks.iter().all(|tick| (0.0..=500.0).contains(&tick.at)));
        }
    }
}
