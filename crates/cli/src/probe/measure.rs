// SPDX-License-Identifier: MIT OR Apache-2.0
//! The measuring of a probe: the sweep first, then what the device does by itself, then readers.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use foreread_core::{Bytes, KiB};
use foreread_device::{Fit, Skipped, Sweep, SweepLimits};
use foreread_linux_sizing::probe::{
    Direct, Kind, ProbeError, Reader, Stop, Target, identity, prefer_this_thread,
    processor_pressure, read_together,
};
use foreread_sys::read_ahead::SettingOf;

use super::args::ProbeArguments;
use super::found::{DirectPoint, Found, ReadersPoint, size};
use super::setting::SharedSetting;
use crate::progress::Progress;

/// Time of a sweep, on devices that reach 20 MB/s and on others.
const TIME: Duration = Duration::from_millis(7500);
const TIME_SLOW: Duration = Duration::from_secs(52);
/// Time for reads one at a time, and for many at once.
const LATENCY_TIME: Duration = Duration::from_millis(200);
const DEPTH: usize = 32;
/// Time for each size read past the cache.
const DIRECT_TIME: Duration = Duration::from_millis(150);
/// Time for each number of readers.
const READERS_TIME: Duration = Duration::from_secs(1);
/// Regions that can't be read, after which the device is given up.
const READ_ERRORS_MAX: u64 = 8;
/// The largest request where sysfs says nothing of it.
const REQUEST_MAX_KIB: u64 = 128;
/// Share of the time in which something waits for a processor, from which on it is worth a word.
const BUSY_SHARE: f64 = 0.2;
/// Pieces of a file from which on it is worth a word.
const PIECES_MANY: usize = 32;

/// State of a probe while it measures.
struct Run<'a> {
    reader: Reader,
    setting: &'a SharedSetting,
    stop: &'a Stop,
    progress: Progress,
    read_errors: u64,
    /// Passes that measured memory.
    warm_passes: u64,
    notes: Vec<String>,
}

pub fn measure(
    arguments: &ProbeArguments,
    target: Target,
    setting: &SharedSetting,
    stop: &Stop,
    begun: Instant,
) -> Result<Found> {
    let identity = identity(&target.setting);
    let request_max = target.setting.request_max_kib().ok().flatten();
    let (kind, length_bytes) = (target.kind, target.length_bytes);
    let path = target.path.to_string_lossy().into_owned();
    let pieces = target.pieces;
    let counts_reads = target.setting.of == SettingOf::Disk;
    let pressure = processor_pressure();
    let notes = notes_of(&target);
    let mut run = Run {
        reader: Reader::new(target.file, length_bytes, counts_reads, stop.clone()),
        setting,
        stop,
        progress: Progress::of_share(),
        read_errors: 0,
        warm_passes: 0,
        notes,
    };
    // Keeps other programs out of the figures. If the kernel refuses, the probe works all the same.
    let _ = prefer_this_thread();
    let sweep = run.sweep(arguments, begun)?;
    let Some(plateau) = sweep.plateau() else {
        return nothing(stop);
    };
    let request_max_kib = request_max.unwrap_or(REQUEST_MAX_KIB);
    let mut found = Found {
        identity,
        kind,
        path,
        pieces,
        before_kib: setting.lock().before_kib(),
        request_max_kib,
        points: sweep.points(),
        skipped: sweep.skipped(),
        fit: Fit::of(&sweep.estimates(), KiB::new(request_max_kib)),
        plateau,
        is_complete: sweep.is_complete(),
        latency: None,
        direct: Vec::new(),
        readers: Vec::new(),
        elapsed: Duration::ZERO,
        read_errors: 0,
        is_interrupted: false,
        notes: Vec::new(),
    };
    run.readers(arguments, &mut found)?;
    // The next measurements don't depend on the setting.
    setting.lock().put_back()?;
    run.direct(arguments, length_bytes, &mut found);
    found.is_interrupted = stop.is_stopped();
    found.read_errors = run.read_errors;
    found.notes = run.notes;
    if run.warm_passes > 0 {
        found.notes.push(format!(
            "{} passes found in memory what they should have read: somebody else reads it, too",
            run.warm_passes
        ));
    }
    found.notes.extend(busy(pressure, begun.elapsed()));
    found.notes.extend(doubts(&found));
    Ok(found)
}

impl Run<'_> {
    fn sweep(&mut self, arguments: &ProbeArguments, begun: Instant) -> Result<Sweep> {
        let mut sweep = Sweep::new(SweepLimits {
            sizes: arguments.sizes(),
            region_bytes_max: self.reader.region_bytes_max(),
            time: arguments.max_time.unwrap_or(TIME),
            time_slow: arguments.max_time.unwrap_or(TIME_SLOW),
        });
        while let Some(pass) = sweep.next(begun.elapsed()) {
            let what = format!("sequential reads, readahead {}", size(pass.read_ahead));
            let share = sweep.progress(begun.elapsed());
            self.progress.share(what, share * 0.9);
            self.setting.lock().set(pass.read_ahead.count())?;
            match self.reader.pass(pass) {
                Ok(times) => sweep.record(pass, times.part_bytes, &times.parts),
                Err(ProbeError::Stopped) => break,
                // Another process reads this region; the next one may be free. The time limit ends
                // this loop, too.
                Err(ProbeError::Warm) => self.warm_passes += 1,
                Err(error) => self.count_read_error(error)?,
            }
        }
        Ok(sweep)
    }

    /// A region that can't be read is passed over; a device that can't, isn't.
    fn count_read_error(&mut self, error: ProbeError) -> Result<()> {
        let is_read = matches!(error, ProbeError::Read { .. });
        if !is_read {
            return Err(error.into());
        }
        self.read_errors += 1;
        if self.read_errors == 1 {
            self.notes.push(format!("{error}; it is passed over"));
        }
        if self.read_errors >= READ_ERRORS_MAX {
            let gone = !self.setting.lock().is_there();
            bail!(if gone {
                "it was removed".to_owned()
            } else {
                format!(
                    "{} regions could not be read, the last: {error}",
                    self.read_errors
                )
            });
        }
        Ok(())
    }

    fn readers(&mut self, arguments: &ProbeArguments, found: &mut Found) -> Result<()> {
        let sizes = if arguments.sizes.is_empty() {
            let mut sizes = vec![KiB::new(found.before_kib), found.plateau.read_ahead];
            sizes.dedup();
            sizes
        } else {
            arguments.sizes()
        };
        let total = (sizes.len() * arguments.readers.len()).max(1) as f64;
        for readers in &arguments.readers {
            for read_ahead in &sizes {
                let what = format!("{readers} readers, readahead {}", size(*read_ahead));
                self.progress
                    .share(what, found.readers.len() as f64 / total);
                self.setting.lock().set(read_ahead.count())?;
                let window_bytes = bytes_of(*read_ahead);
                let time = READERS_TIME;
                let together =
                    read_together(&mut self.reader, *readers, window_bytes, time, self.stop);
                match together {
                    Ok(together) => found.readers.push(ReadersPoint {
                        readers: *readers,
                        read_ahead: *read_ahead,
                        bytes_per_s: together.bytes_per_s,
                        latency_ns_max: together.latency_ns_max,
                    }),
                    Err(ProbeError::Stopped) => return Ok(()),
                    Err(error @ ProbeError::Read { .. }) => self.count_read_error(error)?,
                    Err(error) => self.notes.push(format!("{readers} readers: {error}")),
                }
            }
        }
        Ok(())
    }

    /// Measures the device past the page cache. If the file system refuses direct reads, only these
    /// figures are missing.
    fn direct(&mut self, arguments: &ProbeArguments, length_bytes: u64, found: &mut Found) {
        let direct = Direct::of(self.reader.file(), length_bytes, self.stop.clone());
        let mut direct = match direct {
            Ok(direct) => direct,
            Err(error) => {
                self.notes
                    .push(format!("no reads past the page cache: {error}"));
                return;
            }
        };
        self.progress.share("single reads".to_owned(), 0.9);
        match direct.latency(LATENCY_TIME, DEPTH) {
            Ok(latency) => found.latency = Some(latency),
            Err(ProbeError::Stopped) => return,
            Err(error) => self
                .notes
                .push(format!("no reads past the page cache: {error}")),
        }
        if !arguments.direct || found.latency.is_none() {
            return;
        }
        let mut offset_bytes = 0;
        for point in &found.points {
            let bytes = point.read_ahead_kib * 1024;
            if self.stop.is_stopped() || bytes > length_bytes {
                return;
            }
            let what = format!("direct reads of {} KiB", point.read_ahead_kib);
            self.progress.share(what, 0.95);
            match direct.sequential(bytes, offset_bytes, DIRECT_TIME) {
                Ok(bytes_per_s) => {
                    // The next size reads elsewhere: drives have caches, too.
                    let read = bytes_per_s * DIRECT_TIME.as_secs_f64() + 2.0 * bytes as f64;
                    offset_bytes += (read as u64).next_multiple_of(bytes.max(4096));
                    let read_ahead = KiB::new(point.read_ahead_kib);
                    found.direct.push(DirectPoint {
                        read_ahead,
                        bytes_per_s,
                    });
                }
                Err(error) => {
                    self.notes.push(format!("direct reads ended: {error}"));
                    return;
                }
            }
        }
    }
}

/// A target that gave nothing at all.
fn nothing(stop: &Stop) -> Result<Found> {
    if stop.is_stopped() {
        bail!("interrupted before anything was measured; the setting is as it was");
    }
    bail!("nothing could be measured");
}

/// Notes about the target for the user.
fn notes_of(target: &Target) -> Vec<String> {
    let mut notes: Vec<String> = target.detour.iter().cloned().collect();
    if let Some(pieces) = target.pieces.filter(|pieces| *pieces >= PIECES_MANY) {
        let path = target.path.display();
        notes.push(format!(
            "{path} lies in {pieces} pieces: what a reader loses between them is measured, too"
        ));
    }
    if target.kind == Kind::OwnFile {
        let made = Bytes::new(target.length_bytes).human();
        notes.push(format!(
            "no file of 64 MiB or more was found, so one of {made} was made for the probe"
        ));
    }
    if target.setting.is_busy() {
        notes.push("the device is in use: what else it does is in the numbers".to_owned());
    }
    notes
}

/// A busy machine makes passes slower, where the device is fast most of all.
fn busy(before: Option<Duration>, elapsed: Duration) -> Option<String> {
    let waited = processor_pressure()?.saturating_sub(before?);
    let share = waited.as_secs_f64() / elapsed.as_secs_f64().max(0.001);
    (share > BUSY_SHARE).then(|| {
        format!(
            "programs waited for a processor during {:.0} % of the probe: some of that may be in \
             the numbers",
            share * 100.0
        )
    })
}

/// Reasons why the result is uncertain.
fn doubts(found: &Found) -> Vec<String> {
    let mut doubts = Vec::new();
    if found.is_interrupted {
        doubts.push(format!(
            "interrupted; the readahead is back at {} KiB",
            found.before_kib
        ));
    }
    if !found.plateau.is_certain() {
        let open: Vec<String> = found
            .plateau
            .open
            .iter()
            .map(|size_| size(*size_))
            .collect();
        doubts.push(format!(
            "the plateau is not certain: whether {} is within 2 % of the best lies within the noise",
            open.join(" or ")
        ));
    }
    if !found.is_complete && !found.is_interrupted {
        doubts.push(
            "the sweep is not complete: it lacks sizes, or passes of those that decide".to_owned(),
        );
    }
    let skipped = |why: Skipped| {
        let sizes = found.skipped.iter().filter(move |skipped| skipped.1 == why);
        sizes.map(|skipped| skipped.0).min()
    };
    if let Some(smallest) = skipped(Skipped::Time) {
        doubts.push(format!(
            "{} and more would have taken too long to measure; --max-time gives more time",
            size(smallest)
        ));
    }
    if let Some(smallest) = skipped(Skipped::Region) {
        doubts.push(format!(
            "{} and more were left out: it is too small for several such windows",
            size(smallest)
        ));
    }
    doubts
}

fn bytes_of(read_ahead: KiB) -> u64 {
    read_ahead.count().saturating_mul(1024)
}
