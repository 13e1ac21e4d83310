// SPDX-License-Identifier: MIT OR Apache-2.0
//! The model of a device that a sweep yields: a cost per request, and a bandwidth.

use foreread_core::KiB;

use crate::estimate::Estimate;

/// A device whose requests cost the same whatever their size, besides the transfer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// Cost of a request for a sequential reader, in nanoseconds, without the part that the device
    /// hides by working on several requests at once.
    pub request_cost_ns: f64,
    /// Bandwidth of the transfer alone, in bytes a second.
    pub bandwidth_bytes_per_s: f64,
}

impl Fit {
    /// The line through the time of a byte over requests per byte that is nearest to all points, as
    /// shares of their times. A window above `request_max` is several requests. `None` of fewer
    /// than two points.
    #[must_use]
    pub fn of(points: &[(KiB, Estimate)], request_max: KiB) -> Option<Self> {
        let request_max = request_max.count().max(1);
        let lines: Vec<(f64, f64)> = points
            .iter()
            .filter(|point| point.1.bytes_per_s > 0.0)
            .map(|(size, estimate)| {
                let request_bytes = size.count().clamp(1, request_max) as f64 * 1024.0;
                (1.0 / request_bytes, 1.0 / estimate.bytes_per_s)
            })
            .collect();
        if lines.len() < 2 {
            return None;
        }
        let (cost, byte) = nearest_line(&lines);
        Some(Self {
            request_cost_ns: cost * 1e9,
            bandwidth_bytes_per_s: 1.0 / byte,
        })
    }
}

/// Slope and height of the line that is nearest to points `(x, y)` as shares of their `y`; neither
/// is negative.
fn nearest_line(points: &[(f64, f64)]) -> (f64, f64) {
    let (mut one, mut x, mut xx, mut y, mut xy) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for (px, py) in points {
        let weight = 1.0 / (py * py);
        one += weight;
        x += weight * px;
        xx += weight * px * px;
        y += weight * py;
        xy += weight * px * py;
    }
    let determinant = one * xx - x * x;
    let (flat, steep) = ((0.0, y / one), (xy / xx, 0.0));
    if determinant <= f64::EPSILON * one * xx {
        return flat;
    }
    let slope = (one * xy - x * y) / determinant;
    let height = (xx * y - x * xy) / determinant;
    match (slope > 0.0, height > 0.0) {
        (true, true) => (slope, height),
        // An infinite bandwidth can't be told from none: the fastest point remains.
        (true, false) => {
            let fastest = points.iter().map(|point| point.1).fold(f64::MAX, f64::min);
            (steep.0, fastest / 2.0)
        }
        (false, _) => flat,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(sizes: &[u64], rate: impl Fn(f64) -> f64) -> Vec<(KiB, Estimate)> {
        let estimate = |kib: &u64| Estimate {
            bytes_per_s: rate(*kib as f64 * 1024.0),
            half_width: 0.01,
            passes: 1,
        };
        sizes
            .iter()
            .map(|kib| (KiB::new(*kib), estimate(kib)))
            .collect()
    }

    #[test]
    fn a_cost_and_a_bandwidth_are_found_again() {
        let usb = |bytes: f64| bytes / (1.2e-3 + bytes.min(1e9) / 25e6);
        let fit = Fit::of(&points(&[4, 16, 64, 256, 1024], usb), KiB::new(1024)).unwrap();
        assert!((fit.request_cost_ns / 1.2e6 - 1.0).abs() < 1e-6, "{fit:?}");
        assert!((fit.bandwidth_bytes_per_s / 25e6 - 1.0).abs() < 1e-6);
        // Beyond the largest request, larger windows are more requests.
        let cut = |bytes: f64| usb(bytes.min(128.0 * 1024.0));
        let fit = Fit::of(&points(&[4, 64, 128, 512, 4096], cut), KiB::new(128)).unwrap();
        assert!((fit.request_cost_ns / 1.2e6 - 1.0).abs() < 1e-6, "{fit:?}");
    }

    #[test]
    fn odd_devices_get_sensible_answers() {
        let flat = Fit::of(&points(&[4, 64, 1024], |_| 1e8), KiB::new(1024)).unwrap();
        assert!(flat.request_cost_ns < 1.0 && (flat.bandwidth_bytes_per_s - 1e8).abs() < 1.0);
        let falling = Fit::of(&points(&[4, 64, 1024], |bytes| 1e9 / bytes), KiB::new(1024));
        assert!(falling.is_some_and(|fit| fit.request_cost_ns == 0.0));
        let endless = Fit::of(
            &points(&[4, 64, 1024], |bytes| bytes * bytes),
            KiB::new(1024),
        );
        assert!(endless.is_some_and(|fit| fit.bandwidth_bytes_per_s.is_finite()));
        assert_eq!(Fit::of(&points(&[4], |_| 1.0), KiB::new(1024)), None);
    }
}
