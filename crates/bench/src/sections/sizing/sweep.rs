// SPDX-License-Identifier: MIT OR Apache-2.0
//! A long sweep, as `dd bs=4k` makes one: every readahead size, and time enough for each.

use std::fs::File;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use foreread_device::{PLATEAU_SHARE, SIZES_KIB};
use foreread_measure::MeasureError;
use foreread_measure::sample::Sample;
use foreread_testbed::Testbed;
use rustix::fs::{Advice, fadvise};
use rustix::process::{getpriority_process, setpriority_process};
use serde_json::{Value, json};

const PAGE_BYTES: u64 = 4096;
/// Time for which each size is read in a round; at least `WINDOWS_MIN` windows are read.
const TIME: Duration = Duration::from_millis(600);
/// Bytes that are read in a row at most. Then they are dropped, so that the next ones come into
/// the same memory. A virtual machine gives free memory back to its host, and the host maps what
/// was not used for some seconds page by page: 357 MB/s were measured where the same read into
/// memory that was just freed had 1,535, of a modelled disk that gives 1,500.
const RUN_BYTES: u64 = 256 << 20;
const WINDOWS_MIN: u64 = 3;
/// Windows that are read before: they grow from small ones.
const WINDOWS_BEFORE: u64 = 3;
/// Below this, one round is exact enough, and long enough.
const SLOW_BYTES_PER_S: f64 = 50e6;

/// Throughput by readahead size, in bytes a second.
pub struct Swept {
    rates: Vec<f64>,
}

impl Swept {
    /// Measures a device of the testbed. Its readahead is put back afterwards.
    pub fn of(testbed: &Testbed, rounds: usize) -> Result<Self, MeasureError> {
        let mut all: Vec<Vec<f64>> = vec![Vec::new(); SIZES_KIB.len()];
        let mut start_bytes = 0;
        // As `probe` does: else the machine's other work would be in one and not in the other.
        let before =
            getpriority_process(None).map_err(MeasureError::system("ask for a priority"))?;
        let prefer = |nice| {
            let set = setpriority_process(None, nice);
            set.map_err(MeasureError::system("set a priority"))
        };
        prefer(-20)?;
        for round in 0..rounds {
            for (rates, kib) in all.iter_mut().zip(SIZES_KIB) {
                if round > 0 && rates.iter().all(|rate| *rate < SLOW_BYTES_PER_S) {
                    continue;
                }
                testbed.set_read_ahead_kib(kib)?;
                let (run_rates, end_bytes) = read(testbed, start_bytes, kib * 1024)
                    .map_err(MeasureError::system("read the modelled disk"))?;
                rates.extend(run_rates);
                // Far enough that pages read ahead are not met again.
                start_bytes = end_bytes.next_multiple_of(64 << 20) + (64 << 20);
                if start_bytes > super::CAPACITY_BYTES / 2 {
                    start_bytes = 0;
                }
            }
        }
        prefer(before)?;
        testbed.set_read_ahead_kib(foreread_testbed::READ_AHEAD_KIB_DEFAULT)?;
        // A disturbance makes a run slower, so the upper quartile counts.
        let rates = all
            .into_iter()
            .map(|rates| Sample::new(rates).quantile(0.75));
        Ok(Self {
            rates: rates.collect(),
        })
    }

    pub fn best_bytes_per_s(&self) -> f64 {
        self.rates.iter().copied().fold(0.0, f64::max)
    }

    /// The smallest size within 2 % of the best.
    pub fn plateau_kib(&self) -> u64 {
        let enough = self.best_bytes_per_s() * PLATEAU_SHARE;
        let mut points = SIZES_KIB.iter().zip(&self.rates);
        points
            .find(|(_, rate)| **rate >= enough)
            .map_or(0, |point| *point.0)
    }

    /// The throughput at a size, in percent of the best.
    pub fn percent_at(&self, kib: u64) -> f64 {
        let mut points = SIZES_KIB.iter().zip(&self.rates);
        let rate = points
            .find(|point| *point.0 == kib)
            .map_or(0.0, |point| *point.1);
        rate / self.best_bytes_per_s() * 100.0
    }

    pub fn document(&self) -> Value {
        let points = SIZES_KIB.iter().zip(&self.rates);
        points
            .map(|(kib, rate)| json!({ "read_ahead_kib": kib, "bytes_per_s": rate }))
            .collect()
    }
}

/// Reads sequentially, run after run; returns the bytes a second of each run, and where it ended.
fn read(
    testbed: &Testbed,
    start_bytes: u64,
    window_bytes: u64,
) -> std::io::Result<(Vec<f64>, u64)> {
    let file = File::open(testbed.device())?;
    // The sweep before, or another, may have been here.
    fadvise(&file, 0, None, Advice::DontNeed)?;
    let run = |at: u64| {
        let (rate, end_bytes) = read_run(&file, at, window_bytes)?;
        fadvise(&file, at, NonZeroU64::new(end_bytes - at), Advice::DontNeed)?;
        Ok::<_, std::io::Error>((rate, end_bytes))
    };
    let begun = Instant::now();
    let (rate, mut at) = run(start_bytes)?;
    if begun.elapsed() >= TIME {
        return Ok((vec![rate], at));
    }
    // The first run brought the memory that those after it come into.
    let mut rates = Vec::new();
    let begun = Instant::now();
    while rates.is_empty() || begun.elapsed() < TIME {
        let (rate, end_bytes) = run(at)?;
        rates.push(rate);
        at = end_bytes;
    }
    Ok((rates, at))
}

/// Reads sequentially; returns bytes a second in the steady state, and where the last window that
/// was read ahead ends.
fn read_run(file: &File, start_bytes: u64, window_bytes: u64) -> std::io::Result<(f64, u64)> {
    let mut page = [0; PAGE_BYTES as usize];
    let mut at = start_bytes;
    let grown = start_bytes + WINDOWS_BEFORE * window_bytes;
    while at < grown {
        file.read_exact_at(&mut page, at)?;
        at += PAGE_BYTES;
    }
    let begun = Instant::now();
    let mut windows = 0;
    let is_long = |windows| windows * window_bytes >= RUN_BYTES || begun.elapsed() >= TIME;
    // Two windows are under way in turn: an odd number of them would measure one of the two.
    while windows < WINDOWS_MIN || windows % 2 == 1 || !is_long(windows) {
        let end = at + window_bytes;
        while at < end {
            file.read_exact_at(&mut page, at)?;
            at += PAGE_BYTES;
        }
        windows += 1;
    }
    let bytes = (windows * window_bytes) as f64;
    let rate = bytes / begun.elapsed().as_secs_f64();
    Ok((rate, at + 2 * window_bytes))
}
