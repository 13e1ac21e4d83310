// SPDX-License-Identifier: MIT OR Apache-2.0
//! Timed sequential reads through the page cache, in the steady state of a readahead size.

use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::thread::sleep;
use std::time::{Duration, Instant};

use foreread_device::Pass;
use foreread_profile::PAGE_BYTES;
use foreread_sys::cache;
use rustix::fs::{Advice, fadvise};

use super::{ProbeError, READ_BYTES, Stop, failed};

/// Parts that a pass is timed in, to see how even it is.
const PARTS_MAX: u64 = 8;
/// Places to look at for one of which nothing is cached.
const PLACES_MAX: u64 = 256;
/// Interval at which the arrival of the last window is checked.
const ARRIVAL_PAUSE: Duration = Duration::from_micros(500);
/// Time that it may take beyond the time of a window.
const ARRIVAL_PATIENCE: Duration = Duration::from_millis(20);

/// The result of a pass: times of parts of equal length, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassTimes {
    /// Bytes that were read in each part.
    pub part_bytes: u64,
    /// Duration of each part.
    pub parts: Vec<Duration>,
}

/// Reads a device or file region after region, each from the disk.
#[derive(Debug)]
pub struct Reader {
    file: File,
    length_bytes: u64,
    /// Where the next region may begin.
    next_bytes: u64,
    stop: Stop,
    buffer: Vec<u8>,
    /// Whether the kernel counts the bytes that this thread reads from the disk.
    counts_reads: bool,
}

impl Reader {
    /// A reader of the first `length_bytes` of a file or block device. With `counts_reads`, which
    /// holds where the readahead is a disk's, passes that read from memory are detected.
    #[must_use]
    pub fn new(file: File, length_bytes: u64, counts_reads: bool, stop: Stop) -> Self {
        Self {
            file,
            length_bytes,
            next_bytes: 0,
            stop,
            buffer: Vec::new(),
            counts_reads,
        }
    }

    /// The file that is read.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The most bytes that a pass may read in a row.
    #[must_use]
    pub fn region_bytes_max(&self) -> u64 {
        self.length_bytes.saturating_sub(READ_BYTES)
    }

    /// Makes a pass. The readahead setting of the device must be that of the pass already.
    ///
    /// # Errors
    /// Reading fails, a stop was requested, or there is no room for the windows.
    pub fn pass(&mut self, pass: Pass) -> Result<PassTimes, ProbeError> {
        let window_bytes = pass.read_ahead.count().saturating_mul(1024);
        let region_bytes = pass.region_bytes();
        let start_bytes = self.cold_region(window_bytes, region_bytes)?;
        let read_before = bytes_from_disk();
        let times = self.timed(pass, start_bytes, window_bytes);
        let read = bytes_from_disk().zip(read_before);
        // Also after an error: the pages that were read are dropped, and the next pass is
        // elsewhere.
        self.next_bytes = start_bytes.saturating_add(region_bytes);
        self.drop_region(start_bytes - READ_BYTES, region_bytes + READ_BYTES);
        let times = times?;
        let timed_bytes = times.part_bytes * times.parts.len() as u64;
        // Another process may read the device, too, and be first.
        let is_warm = read.is_some_and(|(after, before)| after - before < timed_bytes / 10 * 9);
        if self.counts_reads && is_warm {
            return Err(ProbeError::Warm);
        }
        Ok(times)
    }

    /// A region of which nothing is cached, of that length and with a page before it. Windows lie
    /// as they would in a long sequential read.
    pub(super) fn cold_region(
        &mut self,
        window_bytes: u64,
        region_bytes: u64,
    ) -> Result<u64, ProbeError> {
        // A small device has no room for that.
        let is_roomy = region_bytes.saturating_add(window_bytes) <= self.length_bytes;
        let step_bytes = if is_roomy {
            window_bytes.max(READ_BYTES)
        } else {
            READ_BYTES
        };
        let aligned = |bytes: u64| bytes.max(READ_BYTES).next_multiple_of(step_bytes);
        let last = self.length_bytes.checked_sub(region_bytes);
        let Some(last) = last.filter(|last| *last >= aligned(READ_BYTES)) else {
            let error = io::Error::other("it is too small");
            return Err(failed("find a region to read")(error));
        };
        let mut first = None;
        let mut start = aligned(self.next_bytes);
        for _ in 0..PLACES_MAX {
            if start > last {
                start = aligned(READ_BYTES);
            }
            let first = *first.get_or_insert(start);
            if self.cached_pages(start - READ_BYTES, region_bytes + READ_BYTES) == 0 {
                return Ok(start);
            }
            start = start
                .saturating_add(region_bytes)
                .next_multiple_of(step_bytes);
            if start == first {
                break;
            }
        }
        // Everything is cached. Then the cached pages must be dropped.
        let start = first.unwrap_or(aligned(READ_BYTES));
        self.drop_region(start - READ_BYTES, region_bytes + READ_BYTES);
        Ok(start)
    }

    fn cached_pages(&self, start_bytes: u64, bytes: u64) -> u64 {
        let (page, pages) = (start_bytes / PAGE_BYTES, bytes.div_ceil(PAGE_BYTES));
        cache::cached_pages(&self.file, page, pages).unwrap_or_else(|_| {
            let mut missing = Vec::new();
            // When that can't be told either, it is taken for cold.
            let told = cache::missing_by_map(&self.file, page, pages, &mut missing);
            let missing: u64 = missing.iter().map(|range| range.1).sum();
            told.map_or(0, |()| pages.saturating_sub(missing))
        })
    }

    fn timed(
        &mut self,
        pass: Pass,
        start_bytes: u64,
        window_bytes: u64,
    ) -> Result<PassTimes, ProbeError> {
        // An open file keeps the setting it found.
        let file = reopened(&self.file)?;
        let length = usize::try_from(window_bytes).unwrap_or(usize::MAX);
        if self.buffer.len() < length {
            self.buffer.resize(length, 0);
        }
        let page = READ_BYTES as usize;
        read_all(&file, &mut self.buffer[..page], start_bytes - READ_BYTES)?;
        self.stop.check()?;
        let mut offset_bytes = start_bytes;
        let before = start_bytes + pass.windows_before() * window_bytes;
        if !pass.ramps_up {
            // A whole window in one read. The kernel takes it as sequential after the page, and
            // makes its window as large as the read. So there is no ramp-up to wait for.
            read_all(&file, &mut self.buffer[..length], start_bytes)?;
            offset_bytes = before;
        }
        self.read_to(&file, &mut offset_bytes, before)?;
        let part_windows = (pass.windows / 2).div_ceil(PARTS_MAX).max(1) * 2;
        let part_bytes = part_windows * window_bytes;
        let mut parts = Vec::new();
        for _ in 0..(pass.windows / part_windows).max(1) {
            let begun = Instant::now();
            let end = offset_bytes + part_bytes;
            self.read_to(&file, &mut offset_bytes, end)?;
            parts.push(begun.elapsed());
        }
        let slowest = parts.iter().max().copied().unwrap_or_default();
        let window_time = slowest.div_f64(part_windows as f64);
        self.wait_for_arrival(offset_bytes, window_bytes, window_time);
        Ok(PassTimes { part_bytes, parts })
    }

    /// Reads on in reads of 4 KiB.
    fn read_to(&mut self, file: &File, at_bytes: &mut u64, end: u64) -> Result<(), ProbeError> {
        /// Number of reads between two checks for a request to stop.
        const READS: u64 = 256;
        let page = &mut self.buffer[..READ_BYTES as usize];
        while *at_bytes < end {
            if (*at_bytes / READ_BYTES).is_multiple_of(READS) {
                self.stop.check()?;
            }
            read_all(file, page, *at_bytes)?;
            *at_bytes += READ_BYTES;
        }
        Ok(())
    }

    /// Waits until the window in flight has arrived. It would disturb the next pass, and can't be
    /// dropped before. Ends if no page of it arrives for as long as a whole window takes: then
    /// there is no such window.
    pub(super) fn wait_for_arrival(&self, start_bytes: u64, bytes: u64, window_time: Duration) {
        let (page, pages) = (start_bytes / PAGE_BYTES, bytes / PAGE_BYTES);
        let (mut least, mut since) = (u64::MAX, Instant::now());
        loop {
            let mut missing = Vec::new();
            let told = cache::missing_by_map(&self.file, page, pages, &mut missing);
            let missing: u64 = missing.iter().map(|range| range.1).sum();
            if missing < least {
                (least, since) = (missing, Instant::now());
            }
            let hopeless = since.elapsed() > window_time + ARRIVAL_PATIENCE;
            if told.is_err() || missing == 0 || self.stop.is_stopped() || hopeless {
                return;
            }
            sleep(ARRIVAL_PAUSE);
        }
    }

    pub(super) fn drop_region(&self, start_bytes: u64, bytes: u64) {
        // Pages may stay for a moment while another processor still holds them in a batch.
        for _ in 0..3 {
            // It's only advice: pages that stay are seen before the next pass.
            let _ = fadvise(
                &self.file,
                start_bytes,
                NonZeroU64::new(bytes),
                Advice::DontNeed,
            );
            if self.cached_pages(start_bytes, bytes) == 0 {
                return;
            }
        }
    }
}

/// Bytes that this thread has had read from disks so far; `None` where the kernel doesn't count
/// that.
fn bytes_from_disk() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/io").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("read_bytes:"));
    line?.trim().parse().ok()
}

/// The same file, opened anew; also one without a name.
pub(super) fn reopened(file: &File) -> Result<File, ProbeError> {
    File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).map_err(failed("open it again"))
}

pub(super) fn read_all(
    file: &File,
    buffer: &mut [u8],
    offset_bytes: u64,
) -> Result<(), ProbeError> {
    let mut done = 0;
    while done < buffer.len() {
        let offset_bytes = offset_bytes + done as u64;
        match file.read_at(&mut buffer[done..], offset_bytes) {
            Ok(0) => return Err(ProbeError::Ended { offset_bytes }),
            Ok(bytes) => done += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                return Err(ProbeError::Read {
                    offset_bytes,
                    error,
                });
            }
        }
    }
    Ok(())
}
