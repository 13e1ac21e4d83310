// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which readahead size to measure next, until the plateau is certain or the time is used up.

use std::ops::RangeInclusive;
use std::time::Duration;

use foreread_core::KiB;

use crate::estimate::{Estimate, NOISE_MIN, median, spread};
use crate::measured::SweepPoint;
use crate::plateau::{PLATEAU_SHARE, Plateau};

/// Readahead sizes of a sweep unless others are asked for: 4 KiB to 16 MiB.
pub const SIZES_KIB: [u64; 13] = [
    4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384,
];
/// How long a pass measures at least, if the device has room for it.
const PASS: Duration = Duration::from_millis(200);
/// How much faster the next size may be than the last: from 4 KiB, which is read without a second
/// window under way, to 8 KiB it is more.
const FASTER_MAX: f64 = 2.0;
/// Two windows are under way in turn, so an odd number of them measures one of the two.
const WINDOWS_MIN: u64 = 2;
/// Windows of a pass before those measured: as many as the kernel reads until its windows have
/// grown.
const WINDOWS_BEFORE: u64 = 2;
/// Windows of a pass after those measured, which are under way when it ends.
const WINDOWS_AFTER: u64 = 2;
/// Below this rate, waiting for windows to grow would take too long. Growth changes too little to
/// be seen there: the overlap of copying one window with reading the next.
const RAMPED_BYTES_PER_S: f64 = 50e6;
/// How short a pass may be to say nothing but how fast the device is, roughly.
const PASS_SHORT: Duration = Duration::from_millis(20);
/// Passes after which a size that is still open lies on the border, and stays there.
const PASSES_MAX: usize = 9;
/// The sizes that decide are measured at least this many times. A disturbance of a pass, such as a
/// busy processor, only ever makes it slower, and lasts.
const PASSES_MIN: usize = 3;
/// How many sizes below the plateau decide, besides those around it.
const DECIDING_BELOW: usize = 3;
/// Devices slower than this get more time.
const SLOW_BYTES_PER_S: f64 = 20e6;
/// How much of the time that is left one pass may take.
const PASS_SHARE_MAX: f64 = 0.7;
/// A sweep is complete if it measured every usual size up to this many times the plateau: two
/// doublings that gain less than 2 % show that the throughput has stopped growing.
const BEYOND_PLATEAU: u64 = 4;
/// Noise that is assumed of passes until some are known.
const NOISE_FIRST: f64 = 0.01;

/// How far a sweep may go.
#[derive(Clone, Debug)]
pub struct SweepLimits {
    /// The readahead sizes, growing.
    pub sizes: Vec<KiB>,
    /// No pass may need more bytes in a row than this.
    pub region_bytes_max: u64,
    /// Time for a device that reaches 20 MB/s.
    pub time: Duration,
    /// Time for a slower one.
    pub time_slow: Duration,
}

/// One pass to make: sequential reads of 4 KiB in the steady state of that readahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// The maximum window.
    pub read_ahead: KiB,
    /// Windows to measure, an even number.
    pub windows: u64,
    /// Whether windows grow from small ones first, as they do for programs. Otherwise the first
    /// read is as large as a window, and the second window is of full size already.
    pub ramps_up: bool,
}

impl Pass {
    /// All that it reads in a row, in bytes, but for the page before it.
    #[must_use]
    pub fn region_bytes(&self) -> u64 {
        let windows = self.windows_before() + WINDOWS_AFTER;
        let windows = windows.saturating_add(self.windows);
        windows.saturating_mul(bytes_of(self.read_ahead))
    }

    /// Windows to read before those measured.
    #[must_use]
    pub fn windows_before(&self) -> u64 {
        if self.ramps_up { WINDOWS_BEFORE } else { 1 }
    }
}

/// Why a size was not measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skipped {
    /// The device does not have that many bytes in a row.
    Region,
    /// It would have taken longer than there was time.
    Time,
}

#[derive(Clone, Debug)]
struct Row {
    read_ahead: KiB,
    passes: Vec<f64>,
    skipped: Option<Skipped>,
}

/// A sweep under way.
#[derive(Clone, Debug)]
pub struct Sweep {
    limits: SweepLimits,
    rows: Vec<Row>,
    /// How much the parts of one pass differed, each a share.
    noises: Vec<f64>,
    /// Throughput of the first, short pass, in bytes a second.
    hint_bytes_per_s: f64,
}

impl Sweep {
    /// Nothing measured yet.
    #[must_use]
    pub fn new(limits: SweepLimits) -> Self {
        let row = |read_ahead: &KiB| Row {
            read_ahead: *read_ahead,
            passes: Vec::new(),
            skipped: None,
        };
        Self {
            rows: limits.sizes.iter().map(row).collect(),
            limits,
            noises: Vec::new(),
            hint_bytes_per_s: 0.0,
        }
    }

    /// The pass to make next, `elapsed` after the begin. `None`: the plateau is certain, or the
    /// time is used up.
    pub fn next(&mut self, elapsed: Duration) -> Option<Pass> {
        let left = self.time().saturating_sub(elapsed);
        self.survey(left).or_else(|| self.refine(left))
    }

    /// Records a pass: the time of each of its parts, which are of the same length.
    pub fn record(&mut self, pass: Pass, part_bytes: u64, parts: &[Duration]) {
        let time: Duration = parts.iter().sum();
        let Some(row) = self
            .rows
            .iter_mut()
            .find(|row| row.read_ahead == pass.read_ahead)
        else {
            return;
        };
        if time.is_zero() {
            return;
        }
        let bytes = part_bytes as f64 * parts.len() as f64;
        let bytes_per_s = bytes / time.as_secs_f64();
        // The first pass is as short as a very slow device would need it.
        if self.hint_bytes_per_s == 0.0 {
            self.hint_bytes_per_s = bytes_per_s;
            if time < PASS_SHORT {
                return;
            }
        }
        row.passes.push(bytes_per_s);
        if parts.len() >= 4 {
            let parts: Vec<f64> = parts.iter().map(Duration::as_secs_f64).collect();
            self.noises
                .push(spread(&parts) / (parts.len() as f64).sqrt());
        }
    }

    /// All sizes measured so far, by size.
    #[must_use]
    pub fn estimates(&self) -> Vec<(KiB, Estimate)> {
        let noise = self.noise();
        let rows = self.rows.iter();
        rows.filter_map(|row| Some((row.read_ahead, Estimate::of(&row.passes, noise)?)))
            .collect()
    }

    /// The same as points to keep.
    #[must_use]
    pub fn points(&self) -> Vec<SweepPoint> {
        let estimates = self.estimates().into_iter();
        estimates
            .map(|(read_ahead, estimate)| SweepPoint {
                read_ahead_kib: read_ahead.count(),
                bytes_per_s: estimate.bytes_per_s,
                bytes_per_s_low: estimate.low(),
                bytes_per_s_high: estimate.high(),
                passes: estimate.passes as u64,
            })
            .collect()
    }

    /// The plateau as far as it is known. `None` when nothing was measured.
    #[must_use]
    pub fn plateau(&self) -> Option<Plateau> {
        Plateau::of(&self.estimates())
    }

    /// Whether the sweep can tell the plateau at all: all usual sizes up to [`BEYOND_PLATEAU`]
    /// times the plateau were measured, those that decide often enough. A size may be missing only
    /// if no region of the device has room for it.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let estimates = self.estimates();
        let Some(plateau) = Plateau::of(&estimates) else {
            return false;
        };
        let last = plateau.read_ahead.count().saturating_mul(BEYOND_PLATEAU);
        let is_known = |size: u64| {
            let mut rows = self.rows.iter();
            rows.any(|row| {
                let has_no_room = row.skipped == Some(Skipped::Region);
                row.read_ahead.count() == size && (!row.passes.is_empty() || has_no_room)
            })
        };
        let mut usual = SIZES_KIB.into_iter().take_while(|size| *size <= last);
        let found = estimates
            .iter()
            .position(|point| point.0 == plateau.read_ahead);
        let around = found.map_or(0..=0, around);
        let mut deciding = estimates.iter().enumerate();
        usual.all(is_known)
            && deciding
                .all(|(place, point)| !around.contains(&place) || point.1.passes >= PASSES_MIN)
    }

    /// Sizes that were not measured, and why.
    #[must_use]
    pub fn skipped(&self) -> Vec<(KiB, Skipped)> {
        let rows = self.rows.iter();
        rows.filter_map(|row| Some((row.read_ahead, row.skipped?)))
            .collect()
    }

    /// The share of the sweep that is done, 0 to 1, as far as that can be told.
    #[must_use]
    pub fn progress(&self, elapsed: Duration) -> f64 {
        let decided = |row: &&Row| !row.passes.is_empty() || row.skipped.is_some();
        let surveyed = self.rows.iter().filter(decided).count() as f64;
        let by_rows = surveyed / self.rows.len().max(1) as f64;
        let by_time = elapsed.as_secs_f64() / self.time().as_secs_f64().max(0.001);
        by_time.max(by_rows * 0.6).min(1.0)
    }

    /// Variation of a pass, as a share: from the times of its parts, and from repeated passes.
    fn noise(&self) -> f64 {
        let within = median(&self.noises).unwrap_or(NOISE_FIRST);
        let repeated = self.rows.iter().filter(|row| row.passes.len() > 1);
        let spreads: Vec<f64> = repeated.map(|row| spread(&row.passes)).collect();
        // A size that was disturbed says little of the others.
        let between = median(&spreads).unwrap_or(0.0);
        within.max(between).max(NOISE_MIN)
    }

    fn time(&self) -> Duration {
        if self.fastest() >= SLOW_BYTES_PER_S {
            self.limits.time
        } else {
            self.limits.time_slow.max(self.limits.time)
        }
    }

    fn fastest(&self) -> f64 {
        let passes = self.rows.iter().flat_map(|row| &row.passes);
        passes.copied().fold(self.hint_bytes_per_s, f64::max)
    }

    /// The smallest size that has no pass yet.
    fn survey(&mut self, left: Duration) -> Option<Pass> {
        // Before anything is known, a pass of few windows: it may be a very slow device.
        let mut measured = self.rows.iter().filter_map(|row| median(&row.passes));
        let last = measured
            .next_back()
            .map_or(f64::MAX, |rate| rate * FASTER_MAX);
        let rate = self.fastest().min(last).max(1.0);
        for index in 0..self.rows.len() {
            let row = &self.rows[index];
            if !row.passes.is_empty() || row.skipped.is_some() {
                continue;
            }
            let pass = self.pass(row.read_ahead, rate);
            let seconds = pass.region_bytes() as f64 / rate;
            let is_first = self.hint_bytes_per_s == 0.0;
            let skipped = if pass.region_bytes() > self.limits.region_bytes_max {
                Some(Skipped::Region)
            } else if !is_first && seconds > left.as_secs_f64() * PASS_SHARE_MAX {
                Some(Skipped::Time)
            } else {
                None
            };
            if skipped.is_none() {
                return Some(pass);
            }
            self.rows[index].skipped = skipped;
        }
        None
    }

    /// One more pass where it decides most. After that, of sizes that seem slower than a smaller
    /// one: a larger window costs a sequential reader nothing, so the pass was disturbed, and the
    /// size may be faster than all. On virtual machines the first windows of 2 MiB have a third of
    /// the speed: the kernel puts them into large free blocks, which the host has to map first.
    fn refine(&self, left: Duration) -> Option<Pass> {
        let estimates = self.estimates();
        let plateau = Plateau::of(&estimates)?;
        let seconds = |point: &(KiB, Estimate)| {
            let pass = self.pass(point.0, point.1.bytes_per_s);
            pass.region_bytes() as f64 / point.1.bytes_per_s
        };
        let found = estimates
            .iter()
            .position(|point| point.0 == plateau.read_ahead)?;
        let around = around(found);
        // The level of the sizes that are as good as the best is known from several of them, if
        // there are several.
        let alone = plateau.as_good.len() == 1;
        let wanted = |place: usize, point: &(KiB, Estimate)| {
            let is_near = around.contains(&place) || (alone && point.0 == plateau.best);
            let is_level = !plateau.is_certain() && plateau.as_good.first() == Some(&point.0);
            let is_open = plateau.open.contains(&point.0) || is_level;
            let passes = point.1.passes;
            passes < PASSES_MIN && is_near || passes < PASSES_MAX && is_open
        };
        let dips = |point: &(KiB, Estimate)| {
            let enough = estimates[found].1.bytes_per_s * PLATEAU_SHARE;
            let is_larger = point.0 > plateau.read_ahead;
            point.1.passes < PASSES_MIN && is_larger && point.1.bytes_per_s < enough
        };
        let next = estimates
            .iter()
            .enumerate()
            .map(|(place, point)| (!wanted(place, point), point))
            .filter(|(is_later, point)| !is_later || dips(point))
            .filter(|(_, point)| seconds(point) <= left.as_secs_f64() * PASS_SHARE_MAX)
            .min_by(|one, other| {
                let rank = (one.0, one.1.1.passes).cmp(&(other.0, other.1.1.passes));
                rank.then(seconds(one.1).total_cmp(&seconds(other.1)))
            });
        let (_, next) = next?;
        Some(self.pass(next.0, next.1.bytes_per_s))
    }

    /// As many windows as take the time of a pass, as far as the region allows.
    fn pass(&self, read_ahead: KiB, bytes_per_s: f64) -> Pass {
        let window = bytes_of(read_ahead).max(1);
        let mut pass = Pass {
            read_ahead,
            windows: WINDOWS_MIN,
            ramps_up: bytes_per_s >= RAMPED_BYTES_PER_S,
        };
        let around = pass.windows_before() + WINDOWS_AFTER;
        let wanted = (bytes_per_s * PASS.as_secs_f64() / window as f64).ceil() as u64;
        let wanted = wanted.saturating_add(wanted % 2);
        let fit = (self.limits.region_bytes_max / window).saturating_sub(around);
        let windows = wanted.min(fit).max(WINDOWS_MIN);
        pass.windows = windows - windows % 2;
        pass
    }
}

/// The places of the sizes that decide, by the place of the plateau.
fn around(found: usize) -> RangeInclusive<usize> {
    found.saturating_sub(DECIDING_BELOW)..=found.saturating_add(1)
}

fn bytes_of(size: KiB) -> u64 {
    size.count().saturating_mul(1024)
}
