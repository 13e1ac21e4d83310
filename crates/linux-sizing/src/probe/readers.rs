// SPDX-License-Identifier: MIT OR Apache-2.0
//! Several sequential readers at once, each at a place of its own.

use std::fs::File;
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::pass::{read_all, reopened};
use super::{ProbeError, READ_BYTES, Reader, Stop, failed};

/// Results of several readers together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Readers {
    /// All of them together, in bytes a second.
    pub bytes_per_s: f64,
    /// The longest that one of them waited for a read of 4 KiB, in nanoseconds.
    pub latency_ns_max: f64,
}

/// Reads of one reader.
struct Share {
    bytes: u64,
    longest: Duration,
}

/// Lets `readers` readers read sequentially for `time`, in reads of 4 KiB, each its own share of
/// the device. The readahead setting of the device must be `window_bytes` already. The pages that
/// they read are dropped.
///
/// # Errors
/// Reading fails, a stop was requested, or the device is too small for the readers.
pub fn read_together(
    reader: &mut Reader,
    readers: u64,
    window_bytes: u64,
    time: Duration,
    stop: &Stop,
) -> Result<Readers, ProbeError> {
    let share_bytes = reader.region_bytes_max() / readers.max(1) / READ_BYTES * READ_BYTES;
    if share_bytes < window_bytes.saturating_mul(4) {
        let error = std::io::Error::other("it is too small for so many readers");
        return Err(failed("read")(error));
    }
    let starts: Vec<u64> = (0..readers).map(|index| index * share_bytes).collect();
    let failure: Mutex<Option<ProbeError>> = Mutex::new(None);
    let barrier = Barrier::new(starts.len());
    let begun = Instant::now();
    let shares: Vec<(u64, Share)> = thread::scope(|scope| {
        let workers: Vec<_> = starts
            .iter()
            .map(|start| {
                let (failure, barrier, reader) = (&failure, &barrier, &*reader);
                scope.spawn(move || {
                    let file = reopened(reader.file());
                    barrier.wait();
                    let until = Instant::now() + time;
                    let share = file.and_then(|file| {
                        one_reader(&file, *start, share_bytes, until, window_bytes, stop)
                    });
                    share.map(|share| (*start, share)).map_err(|error| {
                        if let Ok(mut first) = failure.lock() {
                            first.get_or_insert(error);
                        }
                    })
                })
            })
            .collect();
        let joined = workers.into_iter().filter_map(|worker| worker.join().ok());
        joined.flatten().collect()
    });
    let elapsed = begun.elapsed();
    for start in starts {
        let read = shares.iter().find(|share| share.0 == start);
        let bytes = read.map_or(share_bytes, |share| share.1.bytes);
        // Two windows may be in flight beyond the requested bytes.
        let ahead = window_bytes.saturating_mul(2).min(share_bytes - bytes);
        let longest = read.map_or(time, |share| share.1.longest);
        reader.wait_for_arrival(start + bytes, ahead, longest);
        reader.drop_region(start, bytes + ahead);
    }
    if let Ok(Some(error)) = failure.into_inner() {
        return Err(error);
    }
    let bytes: u64 = shares.iter().map(|share| share.1.bytes).sum();
    let longest = shares.iter().map(|share| share.1.longest).max();
    Ok(Readers {
        bytes_per_s: bytes as f64 / elapsed.as_secs_f64(),
        latency_ns_max: longest.unwrap_or_default().as_nanos() as f64,
    })
}

fn one_reader(
    file: &File,
    start_bytes: u64,
    share_bytes: u64,
    until: Instant,
    window_bytes: u64,
    stop: &Stop,
) -> Result<Share, ProbeError> {
    let mut buffer = [0; READ_BYTES as usize];
    let mut share = Share {
        bytes: 0,
        longest: Duration::ZERO,
    };
    let mut before = Instant::now();
    // At least a few windows, or a slow device would tell of ramp-up only.
    while share.bytes < share_bytes && (before < until || share.bytes < window_bytes) {
        stop.check()?;
        read_all(file, &mut buffer, start_bytes + share.bytes)?;
        let now = Instant::now();
        share.longest = share.longest.max(now - before);
        share.bytes += READ_BYTES;
        before = now;
    }
    Ok(share)
}
