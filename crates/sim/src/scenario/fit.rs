// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fitting parameters of the disk and of programs to the rows of a scenario that are marked for it.

use thiserror::Error;

use super::text::Section;
use super::{Metric, Scenario, ScenarioError};
use crate::engine::{Keep, Outcome, Simulation};

/// The first step of the search, as a factor, and when it is small enough.
const FIRST_STEP: f64 = 1.6;
const LAST_STEP: f64 = 1.003;
/// Rounds over all parameters.
const ROUNDS_MAX: u32 = 60;

/// The fitted parameters, and the method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fit {
    /// Keys of `[device]`, or `cpu_per_page` of all programs.
    pub parameters: Vec<String>,
    /// How the values that stand in the scenario were found.
    pub how: String,
}

/// Why there is nothing to fit.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum FitError {
    /// No `[fit]`.
    #[error("the scenario has no [fit] that names parameters")]
    NoParameters,
    /// No row with `fit = true`.
    #[error("no row of [[expect]] has fit = true")]
    NoRows,
    /// Not a number that can be fitted.
    #[error("[fit] names `{0}`, which is no number of the device; cpu_per_page is one, too")]
    NoNumber(String),
}

/// The result of fitting.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    /// The parameters, with values as a scenario has them.
    pub parameters: Vec<(String, u64)>,
    /// The root of the mean square of the logarithms of expected over got.
    pub error: f64,
    /// Number of runs.
    pub runs: u64,
}

impl Fit {
    pub(super) fn read(top: &Section<'_>) -> Result<Option<Self>, ScenarioError> {
        let Some(section) = top.section("fit")? else {
            return Ok(None);
        };
        section.only(&["parameters", "how"])?;
        let names = section.list("parameters", |field| Ok(field.text()?.to_owned()))?;
        Ok(Some(Self {
            parameters: names.unwrap_or_default(),
            how: section.text("how")?.unwrap_or_default().trim().to_owned(),
        }))
    }
}

impl Scenario {
    /// The fitted parameters, and the method.
    #[must_use]
    pub fn fit_notes(&self) -> Option<&Fit> {
        self.fit.as_ref()
    }

    /// Searches for parameters with the smallest differences in the marked rows, starting from
    /// those of the scenario. Changes each parameter in turn, up and down by a factor that shrinks.
    /// The same scenario gives the same parameters everywhere.
    ///
    /// # Errors
    /// [`FitError`] when there is nothing to fit, or nothing to fit to.
    pub fn fit(&mut self) -> Result<Fitted, FitError> {
        let names = self.fit.clone().map(|fit| fit.parameters);
        let names = names.filter(|names| !names.is_empty());
        let names = names.ok_or(FitError::NoParameters)?;
        if self.fitted_runs().is_empty() {
            return Err(FitError::NoRows);
        }
        let mut values = Vec::new();
        for name in &names {
            let value = self.parameter(name);
            let value = value.ok_or_else(|| FitError::NoNumber(name.clone()))?;
            values.push(value.max(1));
        }
        let (mut runs, mut step) = (0, FIRST_STEP);
        let mut error = self.distance(&mut runs);
        for _ in 0..ROUNDS_MAX {
            let mut improved = false;
            for (name, value) in names.iter().zip(&mut values) {
                for factor in [step, 1.0 / step] {
                    let tried = ((*value as f64 * factor).round() as u64).max(1);
                    self.set_parameter(name, tried);
                    let tried_error = self.distance(&mut runs);
                    if tried_error < error {
                        (error, *value, improved) = (tried_error, tried, true);
                        break;
                    }
                    self.set_parameter(name, *value);
                }
            }
            if !improved {
                step = step.sqrt();
            }
            if step < LAST_STEP {
                break;
            }
        }
        Ok(Fitted {
            parameters: names.into_iter().zip(values).collect(),
            error,
            runs,
        })
    }

    fn parameter(&self, name: &str) -> Option<u64> {
        if name == "cpu_per_page" {
            return self.programs.first().map(|group| group.cpu_per_page_ns);
        }
        let disk = &self.devices.first()?.parameters;
        Some(match name {
            "bandwidth_bytes_per_s" => disk.bandwidth_bytes_per_s,
            "latency_ns" => disk.latency_ns,
            "rate_requests_per_s" => disk.rate_requests_per_s,
            "seek_min_ns" => disk.seek_min_ns,
            "seek_span_ns" => disk.seek_span_ns,
            "half_turn_ns" => disk.half_turn_ns,
            "gap_ns" => disk.gap_ns,
            _ => return None,
        })
    }

    fn set_parameter(&mut self, name: &str, value: u64) {
        if name == "cpu_per_page" {
            for group in &mut self.programs {
                group.cpu_per_page_ns = value;
            }
        }
        for device in &mut self.devices {
            // The names were looked up before, and 1 is a value for each of them.
            let _ = device.parameters.set(name, &value.to_string());
        }
    }

    /// Distance of the marked rows from the expected values.
    fn distance(&self, runs: &mut u64) -> f64 {
        let combinations = self.fitted_runs();
        let run = |combination| Simulation::new(self.setup(combination), Keep::default()).run();
        let outcomes: Vec<Outcome> = combinations.iter().map(run).collect();
        *runs += outcomes.len() as u64;
        let rows = self.check(&combinations, &outcomes);
        let logarithm = |metric: Metric, value: f64| match metric {
            Metric::GainPercent => (1.0 + value / 100.0).max(1e-9).ln(),
            _ => value.max(1e-9).ln(),
        };
        let (mut sum, mut count) = (0.0, 0.0);
        for row in rows.iter().filter(|row| row.fitted) {
            let off = logarithm(row.metric, row.got) - logarithm(row.metric, row.expected);
            sum += off * off;
            count += 1.0;
        }
        if count == 0.0 {
            0.0
        } else {
            (sum / count).sqrt()
        }
    }
}
