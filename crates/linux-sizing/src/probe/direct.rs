// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads past the page cache: the speed of the device itself, one read at a time and many at once.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use super::{ProbeError, READ_BYTES, Stop, failed};

/// Where a buffer must begin for direct reads of any device.
const ALIGNMENT: usize = 4096;

/// Times of single small reads.
#[derive(Clone, Debug, PartialEq)]
pub struct Latency {
    /// The median, one read at a time, in nanoseconds.
    pub latency_ns: f64,
    /// The 99th percentile of those, in nanoseconds.
    pub latency_ns_p99: f64,
    /// Reads timed.
    pub reads: usize,
    /// Number of small reads that the device serves in a second, with many at once.
    pub parallel_reads_per_s: f64,
}

impl Latency {
    /// Throughput of many reads at once, as a multiple of one after the other.
    #[must_use]
    pub fn speed_up(&self) -> f64 {
        self.parallel_reads_per_s * self.latency_ns / 1e9
    }
}

/// Reads a device or file past the page cache.
#[derive(Debug)]
pub struct Direct {
    file: File,
    length_bytes: u64,
    stop: Stop,
    random: u64,
}

impl Direct {
    /// Opens the file once more, for direct reads.
    ///
    /// # Errors
    /// The file system can't.
    pub fn of(file: &File, length_bytes: u64, stop: Stop) -> io::Result<Self> {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_DIRECT)
            .open(path)?;
        Ok(Self {
            file,
            length_bytes: length_bytes - length_bytes % READ_BYTES,
            stop,
            random: 0x2545_f491_4f6c_dd1d,
        })
    }

    /// Times random reads of 4 KiB: one at a time for `time`, then `depth` at once for `time`.
    ///
    /// # Errors
    /// Reading fails, or a stop was requested.
    pub fn latency(&mut self, time: Duration, depth: usize) -> Result<Latency, ProbeError> {
        /// Enough for a 99th percentile.
        const READS_MAX: usize = 1000;
        let mut buffer = Aligned::new(READ_BYTES as usize);
        let mut times = Vec::new();
        let begun = Instant::now();
        while times.len() < READS_MAX && (begun.elapsed() < time || times.is_empty()) {
            self.stop.check()?;
            let offset_bytes = self.random_offset();
            let read = Instant::now();
            read_direct(&self.file, &mut buffer, READ_BYTES, offset_bytes)?;
            times.push(read.elapsed().as_nanos() as f64);
        }
        times.sort_by(f64::total_cmp);
        let at = |share: f64| times[((times.len() - 1) as f64 * share).round() as usize];
        let parallel_reads_per_s = self.together(READ_BYTES, time, depth)?;
        Ok(Latency {
            latency_ns: at(0.5),
            latency_ns_p99: at(0.99),
            reads: times.len(),
            parallel_reads_per_s,
        })
    }

    /// Throughput of direct reads of `request_bytes` one after the other from `offset_bytes`, for
    /// `time` and at least two of them, in bytes a second.
    ///
    /// # Errors
    /// Reading fails, a stop was requested, or the device is too small.
    pub fn sequential(
        &self,
        request_bytes: u64,
        mut offset_bytes: u64,
        time: Duration,
    ) -> Result<f64, ProbeError> {
        let mut buffer = Aligned::new(usize::try_from(request_bytes).unwrap_or(usize::MAX));
        let (begun, mut bytes) = (Instant::now(), 0);
        while bytes < 2 * request_bytes || begun.elapsed() < time {
            self.stop.check()?;
            if offset_bytes + request_bytes > self.length_bytes {
                offset_bytes = 0;
            }
            read_direct(&self.file, &mut buffer, request_bytes, offset_bytes)?;
            offset_bytes += request_bytes;
            bytes += request_bytes;
        }
        Ok(bytes as f64 / begun.elapsed().as_secs_f64())
    }

    /// Reads of that size in a second, at random places, `depth` at once.
    ///
    /// # Errors
    /// Reading fails, a stop was requested, or threads can't be started.
    pub fn together(
        &mut self,
        request_bytes: u64,
        time: Duration,
        depth: usize,
    ) -> Result<f64, ProbeError> {
        let places: Vec<u64> = (0..depth).map(|_| self.next_random()).collect();
        let failure: Mutex<Option<ProbeError>> = Mutex::new(None);
        let begun = Instant::now();
        let until = begun + time;
        let reads: u64 = thread::scope(|scope| {
            let workers: Vec<_> = places
                .into_iter()
                .filter_map(|seed| {
                    let mut own = Self {
                        file: self.file.try_clone().ok()?,
                        length_bytes: self.length_bytes,
                        stop: self.stop.clone(),
                        random: seed | 1,
                    };
                    let failure = &failure;
                    let work = move || {
                        own.read_until(request_bytes, until)
                            .unwrap_or_else(|error| {
                                if let Ok(mut first) = failure.lock() {
                                    first.get_or_insert(error);
                                }
                                0
                            })
                    };
                    thread::Builder::new().spawn_scoped(scope, work).ok()
                })
                .collect();
            let counts = workers.into_iter().filter_map(|worker| worker.join().ok());
            counts.sum()
        });
        let elapsed = begun.elapsed();
        match failure.into_inner() {
            Ok(Some(error)) => Err(error),
            _ if reads == 0 => Err(failed("start threads")(io::Error::other("none began"))),
            _ => Ok(reads as f64 / elapsed.as_secs_f64()),
        }
    }

    fn read_until(&mut self, request_bytes: u64, until: Instant) -> Result<u64, ProbeError> {
        let mut buffer = Aligned::new(usize::try_from(request_bytes).unwrap_or(usize::MAX));
        let mut reads = 0;
        while reads == 0 || Instant::now() < until {
            self.stop.check()?;
            let room = self.length_bytes.saturating_sub(request_bytes) / request_bytes + 1;
            let offset_bytes = self.next_random() % room * request_bytes;
            read_direct(&self.file, &mut buffer, request_bytes, offset_bytes)?;
            reads += 1;
        }
        Ok(reads)
    }

    fn random_offset(&mut self) -> u64 {
        self.next_random() % (self.length_bytes / READ_BYTES).max(1) * READ_BYTES
    }

    /// xorshift: spread is all that is asked of it.
    fn next_random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}

/// Memory that begins where direct reads want it.
struct Aligned {
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

impl Aligned {
    fn new(length: usize) -> Self {
        let memory = vec![0; length.saturating_add(ALIGNMENT)];
        let start = memory.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        Self {
            memory,
            start,
            length,
        }
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.length]
    }
}

fn read_direct(
    file: &File,
    buffer: &mut Aligned,
    bytes: u64,
    offset_bytes: u64,
) -> Result<(), ProbeError> {
    let length = usize::try_from(bytes).unwrap_or(usize::MAX);
    match file.read_at(&mut buffer.bytes()[..length], offset_bytes) {
        // At the end of a file, less than was asked for is all there is.
        Ok(0) => Err(ProbeError::Ended { offset_bytes }),
        Ok(_) => Ok(()),
        Err(error) => Err(ProbeError::Read {
            offset_bytes,
            error,
        }),
    }
}
