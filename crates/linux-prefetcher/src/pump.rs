// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps a device busy with a bounded amount of reads under way.

use std::io;
use std::os::fd::{AsFd, RawFd};
use std::time::Instant;

use foreread_prefetch::pace::{BATCH_READS_MAX, Pace, READ_BYTES_MAX, READ_BYTES_MIN, READS_MAX};
use foreread_prefetch::proof::Allowance;
use foreread_sys::uring::{BatchReader, Finished};

use super::under_way::Shared;

/// Reads under way at once without io_uring: enough for the queue of most devices, and little
/// memory.
const THREADS: usize = 16;

/// The reader of one thread, kept from one plan to the next.
pub(super) struct Reader<T> {
    batch: BatchReader<T>,
    no_ring: bool,
}

/// Reads of one thread for one plan. `T` keeps files open.
pub(super) struct Pump<'a, T> {
    reader: BatchReader<T>,
    shared: &'a Shared,
    queued_bytes: u64,
    pace: Pace,
    /// What a guard allowed when it was asked last. Without proof that the program needs ours, that
    /// is less than the pace.
    allowance: Allowance,
    started: Instant,
}

impl<'a, T> Pump<'a, T> {
    /// With the reader that was kept, where there is one.
    pub fn new(shared: &'a Shared, kept: &mut Option<Reader<T>>) -> io::Result<Self> {
        let kept = kept.take().filter(|kept| kept.no_ring == shared.no_ring);
        Ok(Self {
            reader: match kept {
                Some(kept) => kept.batch,
                None => reader(shared.no_ring)?,
            },
            shared,
            queued_bytes: 0,
            pace: Pace::new(0),
            allowance: shared.allowance(),
            started: Instant::now(),
        })
    }

    /// Learns from the first file what reads of all others on its file system are like.
    pub fn learn_from(&mut self, file: impl AsFd) {
        self.reader.learn_from(file);
    }

    /// From now on as much is under way as there may ever be, however long it takes.
    pub fn fill(&mut self) {
        self.pace.fill();
    }

    /// Whether it is so.
    pub fn is_filled(&self) -> bool {
        self.pace.is_full()
    }

    /// Largest single read now.
    pub fn read_bytes_max(&self) -> u64 {
        let half_bytes = self.allowance.bytes / 2;
        half_bytes.clamp(READ_BYTES_MIN, READ_BYTES_MAX.into())
    }

    /// Queues one read of at most [`READ_BYTES_MAX`]; submits and waits as needed. `false` when the
    /// replay was told to stop.
    pub fn read(
        &mut self,
        fd: RawFd,
        offset_bytes: u64,
        length_bytes: u32,
        token: T,
        mut done: impl FnMut(Finished<T>),
    ) -> io::Result<bool> {
        self.reader.queue(fd, offset_bytes, length_bytes, token);
        self.shared.tally.add(|t| &t.reads, 1);
        self.queued_bytes += u64::from(length_bytes);
        let under_way_bytes_max = self.pace.under_way_bytes_max().min(self.allowance.bytes);
        let reads_max = (self.allowance.reads as usize).min(READS_MAX as usize);
        let batch_reads_max = (reads_max / 2).clamp(1, BATCH_READS_MAX);
        let full =
            self.reader.queued() >= batch_reads_max || self.queued_bytes >= under_way_bytes_max / 2;
        if !full {
            return Ok(true);
        }
        if !self.submit(&mut done)? {
            return Ok(false);
        }
        // Half of what is under way may stay so, for the device never to run dry.
        while self.reader.pending_bytes() > under_way_bytes_max
            || self.reader.pending() > reads_max.saturating_sub(batch_reads_max)
        {
            if self.shared.stopped() {
                return Ok(false);
            }
            self.reap(1, &mut done)?;
        }
        Ok(!self.shared.stopped())
    }

    /// Submits what is queued, once that may be under way. `false` when the replay was told to
    /// stop.
    fn submit(&mut self, done: &mut impl FnMut(Finished<T>)) -> io::Result<bool> {
        let (shared, allowance) = (self.shared, &mut self.allowance);
        // More may have been queued than may be under way by now.
        let reads_max = || {
            *allowance = shared.allowance();
            match shared.stopped() {
                true => 0,
                false => allowance.reads as usize,
            }
        };
        let mut arrived = 0;
        self.reader.submit_in_parts(reads_max, |finished| {
            arrived += arrived_bytes(&finished);
            done(finished);
        })?;
        self.arrived(arrived);
        self.queued_bytes = 0;
        Ok(!shared.stopped())
    }

    fn reap(&mut self, least: usize, done: &mut impl FnMut(Finished<T>)) -> io::Result<()> {
        let mut arrived = 0;
        self.reader.reap(least, |finished| {
            arrived += arrived_bytes(&finished);
            done(finished);
        })?;
        self.arrived(arrived);
        Ok(())
    }

    fn arrived(&mut self, bytes: u64) {
        let now_ns = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.pace.arrived(bytes, now_ns);
    }

    /// Waits for everything; `false` when told to stop before.
    pub fn finish(&mut self, mut done: impl FnMut(Finished<T>)) -> io::Result<bool> {
        if !self.submit(&mut done)? {
            return Ok(false);
        }
        while self.reader.pending() > 0 {
            if self.shared.stopped() {
                return Ok(false);
            }
            self.reap(1, &mut done)?;
        }
        Ok(true)
    }

    /// The reader, for the next plan; `None` where something is still under way.
    pub fn into_reader(self) -> Option<Reader<T>> {
        (self.reader.pending() == 0).then_some(Reader {
            no_ring: self.shared.no_ring,
            batch: self.reader,
        })
    }

    /// Reads under way or queued.
    pub fn pending(&self) -> usize {
        self.reader.pending()
    }

    /// Drops queued reads and waits for those in flight. No thread waits for this one then: at the
    /// end of the program a slow disk must not delay the exit by reads that aren't needed any more.
    pub fn abandon(mut self, mut done: impl FnMut(Finished<T>)) {
        self.reader.forget_queued();
        while self.reader.pending() > 0 && self.reader.reap(1, &mut done).is_ok() {}
    }
}

fn arrived_bytes<T>(finished: &Finished<T>) -> u64 {
    finished
        .result
        .as_ref()
        .map_or(0, |bytes| u64::from(*bytes))
}

/// A ring, or threads where the kernel refuses one.
fn reader<T>(no_ring: bool) -> io::Result<BatchReader<T>> {
    if !no_ring && let Ok(reader) = BatchReader::new(READS_MAX, READ_BYTES_MAX) {
        return Ok(reader);
    }
    BatchReader::with_threads(READS_MAX, READ_BYTES_MAX, THREADS)
}
