// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program that can't wait, beside one that scans a large file with `foreread watch` ahead of it,
//! and beside one without.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use foreread_measure::MeasureError;
use foreread_measure::process::Stderr;
use foreread_measure::sample::Sample;
use foreread_sim::Random;
use serde_json::{Value, json};

use super::bed::{Bed, EXIT_PARTLY, Program};
use super::{Cells, Judged, MIB, Streams, row};
use crate::reader::{PAGE_BYTES, SEED};
use crate::report::{Row, Target};

pub const PROGRAM: &str = "beside-scan";
const DEVICES: [&str; 2] = ["hdd", "cloud"];

/// The slowest of a hundred reads beside a watched scan, of the same beside an unwatched one.
const TARGET: Target = Target::AtMost(1.1);

/// A rotational disk takes three seconds for it, and lets others wait as long: it serves the
/// nearest request first.
const SCAN_BYTES: u64 = 384 * MIB;
const OTHER_BYTES: u64 = 1024 * MIB;
/// Interval at which reads are due.
const EVERY: Duration = Duration::from_millis(10);
/// The first read is due when the scan has reached this point.
const BEGUN_BYTES: u64 = MIB;

pub fn measure(streams: &mut Streams<'_>) -> Result<(), MeasureError> {
    let devices = streams.context.devices_of(&DEVICES);
    let Some(first) = devices.first().filter(|_| streams.wants(PROGRAM)) else {
        return Ok(());
    };
    let files = [("scan", SCAN_BYTES), ("other", OTHER_BYTES)];
    let files = files.map(|(name, bytes)| (name.to_owned(), bytes));
    let bed = Bed::make(streams, first, &files)?;
    for device in devices {
        streams
            .context
            .say(&format!("streams: {PROGRAM} on {device}"));
        bed.become_disk(device)?;
        let row = one(streams, &bed, device)?;
        if row.is_none() {
            let note = format!("{PROGRAM} on {device} is left out: the scan ended too early.");
            streams.note(note);
        }
        streams.rows.extend(row);
    }
    Ok(())
}

/// Nothing where a scan was over before there was a read beside it.
fn one(streams: &Streams<'_>, bed: &Bed, device: &str) -> Result<Option<Row>, MeasureError> {
    let scan = bed.dd(streams, PROGRAM, "scan", SCAN_BYTES);
    let rounds = streams.rounds();
    let began = Instant::now();
    let mut latencies: [Vec<u64>; 2] = Default::default();
    let mut scans: [Vec<Value>; 2] = Default::default();
    let mut done = 0;
    while rounds.wants_more(done, began) {
        let is_odd = !done.is_multiple_of(2);
        for is_watched in [is_odd, !is_odd] {
            let beside = read_beside(bed, &scan, is_watched, done as u64)?;
            latencies[usize::from(is_watched)].extend(beside.latencies_ns);
            scans[usize::from(is_watched)].push(beside.scan);
        }
        done += 1;
    }
    let samples = latencies.map(Sample::of_ns);
    if samples.iter().any(Sample::is_empty) {
        return Ok(None);
    }
    let [alone, watched] = [&samples[0], &samples[1]].map(|sample| sample.quantile(0.99));
    let cell = |sample: &Sample| {
        format!(
            "p99 {:.1} ms of {}",
            sample.quantile(0.99) / 1e6,
            sample.len()
        )
    };
    let quantiles = |sample: &Sample| {
        json!({
            "reads": sample.len(),
            "latency_ns_p50": sample.median(),
            "latency_ns_p99": sample.quantile(0.99),
            "latency_ns_max": sample.quantile(1.0),
        })
    };
    Ok(Some(row(
        Cells {
            program: PROGRAM,
            disk: device,
            alone: cell(&samples[0]),
            watched: cell(&samples[1]),
            best: String::new(),
            start_and_end: String::new(),
            judged: "p99 of another's reads, watched / unwatched",
        },
        Judged {
            value: watched / alone.max(1.0),
            target: TARGET,
            digits: 2,
        },
        json!({
            "program": PROGRAM,
            "disk": device,
            "kernel_alone": quantiles(&samples[0]),
            "watch": quantiles(&samples[1]),
            "scans_alone": scans[0],
            "scans_watched": scans[1],
        }),
    )))
}

struct Beside {
    latencies_ns: Vec<u64>,
    /// The duration of the scan, and the report on it.
    scan: Value,
}

/// Reads pages of a file that no other program reads, for as long as the scan goes on.
fn read_beside(
    bed: &Bed,
    scan: &Program,
    is_watched: bool,
    round: u64,
) -> Result<Beside, MeasureError> {
    let path = bed.disk.root().join("other");
    bed.make_cold()?;
    let other = File::open(&path).map_err(MeasureError::system("open the file beside the scan"))?;
    let mut words = bed.watch(is_watched);
    words.extend(scan.words.iter().cloned());
    let mut command = bed.disk.testbed().command(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    bed.disk.testbed().reset_counters();
    let began = Instant::now();
    let child = command
        .spawn()
        .map_err(MeasureError::system("start a scan"))?;
    let mut child = Ending(child);
    let stderr = Stderr::of(&mut child.0);
    while bed.disk.testbed().counters().bytes < BEGUN_BYTES && !child.has_ended()? {
        thread::sleep(Duration::from_millis(1));
    }
    let latencies_ns = latencies(&other, &path, round, || child.has_ended())?;
    let scan_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let said = stderr.wait();
    let last = said.lines().next_back().unwrap_or_default();
    let status = child
        .0
        .wait()
        .map_err(MeasureError::system("wait for a scan"))?;
    if !matches!(status.code(), Some(0 | EXIT_PARTLY)) {
        return Err(MeasureError::Failed {
            command: format!("{command:?}"),
            status: format!("{status} ({last})"),
        });
    }
    Ok(Beside {
        latencies_ns,
        scan: json!({
            "wall_ns": scan_ns,
            "watch": serde_json::from_str::<Value>(last).unwrap_or_default(),
        }),
    })
}

/// Latencies of the reads that begin before `has_ended`. The read that waits for the end of the
/// scan is included: it matters most.
fn latencies(
    file: &File,
    path: &Path,
    round: u64,
    mut has_ended: impl FnMut() -> Result<bool, MeasureError>,
) -> Result<Vec<u64>, MeasureError> {
    let failed = |error| MeasureError::system(format!("read {}", path.display()))(error);
    let mut random = Random::new(SEED + round);
    let mut buffer = [0; PAGE_BYTES as usize];
    let mut latencies_ns = Vec::new();
    let mut due = Instant::now();
    while !has_ended()? {
        let began = Instant::now();
        let offset_bytes = random.below(OTHER_BYTES / PAGE_BYTES) * PAGE_BYTES;
        file.read_exact_at(&mut buffer, offset_bytes)
            .map_err(failed)?;
        let took = began.elapsed();
        latencies_ns.push(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        due = (due + EVERY).max(Instant::now());
        thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    Ok(latencies_ns)
}

/// A scan that ends when the program beside it fails.
struct Ending(Child);

impl Ending {
    fn has_ended(&mut self) -> Result<bool, MeasureError> {
        let ended = self.0.try_wait();
        Ok(ended
            .map_err(MeasureError::system("wait for a scan"))?
            .is_some())
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        // It has ended, or ends now.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_that_outlasts_the_scan_counts() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("other");
        let file = File::create_new(&path).unwrap();
        file.set_len(OTHER_BYTES).unwrap();
        let file = File::open(&path).unwrap();
        let mut looks = 0;
        let latencies = latencies(&file, &path, 0, || {
            looks += 1;
            Ok(looks > 2)
        });
        assert_eq!(latencies.unwrap().len(), 2);
    }
}
