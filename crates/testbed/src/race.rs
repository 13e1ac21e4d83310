// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of a race: a watcher or a replay has to be ahead of a program, or a speed is measured.
//!
//! On an idle machine that always holds. If other processes use all processors, our own sometimes
//! get their turn too late, which is no defect. So a scenario that fails runs again, but only if
//! processors were busy meanwhile. A defect fails each time, or on an idle machine.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;
use std::time::Instant;

/// A race that is lost one time in four on busy processors is lost this often in a row one time in
/// a thousand.
const RUNS_MAX: u32 = 5;
/// Processors are busy if some process waited for one in this part of the time. A scenario alone on
/// an idle machine with two processors has less than 0.1.
const BUSY_PART: f64 = 0.2;
/// The same of the time that the host of a virtual machine used for others.
const STOLEN_PART: f64 = 0.02;

/// Runs a scenario, and again if it fails on busy processors, five times at most. `scripts/test.sh`
/// lists the scenarios that ran again.
///
/// # Panics
///
/// Like the scenario, if it fails on processors that aren't busy, or fails five times.
pub fn race(scenario: impl Fn()) {
    for run in 1.. {
        let before = Waits::now();
        let Err(panic) = catch_unwind(AssertUnwindSafe(&scenario)) else {
            return;
        };
        let busy = Waits::now().since(&before);
        if run == RUNS_MAX || !busy.is_busy() {
            resume_unwind(panic);
        }
        let test = thread::current().name().unwrap_or("a test").to_owned();
        println!(
            "raced again: {test}: {:.0} % of the time a process waited for a processor",
            busy.waited_part * 100.0
        );
    }
}

/// Times that processes waited for processors since the machine started.
struct Waits {
    at: Instant,
    waited_us: f64,
    stolen_ticks: f64,
}

/// The same between two moments, as parts of the time.
struct Busy {
    waited_part: f64,
    stolen_part: f64,
}

impl Waits {
    fn now() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        Self {
            at: Instant::now(),
            waited_us: some_total_us(&read("/proc/pressure/cpu")).unwrap_or(f64::INFINITY),
            stolen_ticks: stolen_ticks(&read("/proc/stat")).unwrap_or(0.0),
        }
    }

    fn since(&self, before: &Self) -> Busy {
        let seconds = (self.at - before.at).as_secs_f64();
        Busy {
            // Kernels that don't tell may be busy at any time.
            waited_part: if self.waited_us.is_finite() {
                (self.waited_us - before.waited_us) / 1e6 / seconds
            } else {
                1.0
            },
            // Linux counts 100 ticks a second for each processor, whatever its own timer does.
            stolen_part: (self.stolen_ticks - before.stolen_ticks) / 100.0 / seconds,
        }
    }
}

impl Busy {
    fn is_busy(&self) -> bool {
        self.waited_part >= BUSY_PART || self.stolen_part >= STOLEN_PART
    }
}

/// The total of the line `some` of a file in `/proc/pressure`, in microseconds.
fn some_total_us(pressure: &str) -> Option<f64> {
    let line = pressure.lines().find(|line| line.starts_with("some "))?;
    let total = line.rsplit_once("total=")?.1;
    total.trim().parse().ok()
}

/// The eighth number of the first line of `/proc/stat`, summed over all processors.
fn stolen_ticks(stat: &str) -> Option<f64> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    line.split_whitespace().nth(7)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_scenario_that_holds_runs_once() {
        let runs = Cell::new(0);
        race(|| runs.set(runs.get() + 1));
        assert_eq!(runs.get(), 1);
    }

    #[test]
    fn one_that_never_holds_fails_after_five_runs_at_most() {
        let runs = Cell::new(0);
        let failed = catch_unwind(AssertUnwindSafe(|| {
            race(|| {
                runs.set(runs.get() + 1);
                panic!("lost");
            });
        }));
        assert!(failed.is_err());
        assert!((1..=RUNS_MAX).contains(&runs.get()));
    }

    #[test]
    fn busy_is_what_the_kernel_tells() {
        let pressure = "some avg10=17.44 avg60=8.14 avg300=2.43 total=11053719\n\
                        full avg10=0.00 avg60=0.00 avg300=0.00 total=5\n";
        assert_eq!(some_total_us(pressure), Some(11_053_719.0));
        assert_eq!(some_total_us("full total=5"), None);
        let stat = "cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        assert_eq!(stolen_ticks(stat), Some(8.0));
        assert_eq!(stolen_ticks("cpu 1 2"), None);
        let at = Instant::now();
        let waits = |seconds, waited_us, stolen_ticks| Waits {
            at: at + std::time::Duration::from_secs(seconds),
            waited_us,
            stolen_ticks,
        };
        let idle = waits(10, 500_000.0, 3.0).since(&waits(0, 0.0, 0.0));
        assert!(!idle.is_busy());
        assert!(
            waits(10, 2_000_000.0, 0.0)
                .since(&waits(0, 0.0, 0.0))
                .is_busy()
        );
        assert!(waits(10, 0.0, 20.0).since(&waits(0, 0.0, 0.0)).is_busy());
        let unknown = waits(10, f64::INFINITY, 0.0).since(&waits(0, f64::INFINITY, 0.0));
        assert!(unknown.is_busy());
    }
}
