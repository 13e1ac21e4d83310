// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers along an axis.

/// Four to nine round numbers from 0 to `end`, with their text.
pub fn ticks(end: f64) -> Vec<(f64, String)> {
    let power = 10_f64.powf((end / 5.0).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    let step = steps.into_iter().find(|step| end / step <= 9.0);
    let Some(step) = step.filter(|step| step.is_normal()) else {
        return vec![(0.0, "0".to_owned())];
    };
    let digits = (-step.log10().floor()).max(0.0) as usize;
    (0..=(end / step).floor() as u32)
        .map(|index| f64::from(index) * step)
        .map(|value| (value, format!("{value:.digits$}")))
        .collect()
}

/// A coordinate with one digit: finer than a screen shows.
pub fn rounded(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        let text = |end| {
            let ticks = ticks(end).into_iter();
            ticks.map(|tick| tick.1).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(text(43.9), "0 5 10 15 20 25 30 35 40");
        assert_eq!(text(1.1), "0.0 0.2 0.4 0.6 0.8 1.0");
        assert_eq!(text(4.0), "0.0 0.5 1.0 1.5 2.0 2.5 3.0 3.5 4.0");
        assert_eq!(text(0.031), "0.000 0.005 0.010 0.015 0.020 0.025 0.030");
        assert_eq!(text(0.0), "0");
        assert_eq!(ticks(f64::NAN).len(), 1);
    }
}
