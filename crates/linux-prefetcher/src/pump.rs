// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps a device busy with a bounded amount of reads under way.

use std::io;
use std::os::fd::{AsFd, RawFd};
use std::time::{Duration, Instant};

use foreread_sys::uring::{BATCH_READS_MAX, BatchReader, Finished};

use super::under_way::Shared;

/// Largest single read. The kernel reads at most this much ahead at once in any case, and a FUSE or
/// NFS server gets 1 MiB at most.
pub(super) const READ_BYTES_MAX: u32 = 1 << 20;
const READS_MAX: u32 = 512;

/// Reads under way at once without io_uring: enough for the queue of most devices, and little
/// memory.
const THREADS: usize = 16;

/// Bytes under way: what the device delivers in [`AHEAD`], so that a read of the program itself
/// waits no longer than that behind ours.
const UNDER_WAY_BYTES_MIN: u64 = 1 << 20;
const UNDER_WAY_BYTES_START: u64 = 4 << 20;
const UNDER_WAY_BYTES_MAX: u64 = 16 << 20;
const AHEAD: Duration = Duration::from_millis(40);

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
    under_way_bytes_max: u64,
    is_filled: bool,
    arrived_bytes: u64,
    since: Instant,
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
            under_way_bytes_max: UNDER_WAY_BYTES_START,
            is_filled: false,
            arrived_bytes: 0,
            since: Instant::now(),
        })
    }

    /// Learns from the first file what reads of all others on its file system are like.
    pub fn learn_from(&mut self, file: impl AsFd) {
        self.reader.learn_from(file);
    }

    /// From now on as much is under way as there may ever be, however long it takes.
    pub fn fill(&mut self) {
        self.under_way_bytes_max = UNDER_WAY_BYTES_MAX;
        self.is_filled = true;
    }

    /// Whether it is so.
    pub fn is_filled(&self) -> bool {
        self.is_filled
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
        let full = self.reader.queued() >= BATCH_READS_MAX
            || self.queued_bytes >= self.under_way_bytes_max / 2;
        if !full {
            return Ok(true);
        }
        self.reader.submit()?;
        self.queued_bytes = 0;
        // Half of what is under way may stay so, for the device never to run dry.
        while self.reader.pending_bytes() > self.under_way_bytes_max
            || self.reader.pending() > READS_MAX as usize - BATCH_READS_MAX
        {
            if self.shared.stopped() {
                return Ok(false);
            }
            self.reap(1, &mut done)?;
        }
        Ok(!self.shared.stopped())
    }

    fn reap(&mut self, least: usize, done: &mut impl FnMut(Finished<T>)) -> io::Result<()> {
        let mut arrived = 0;
        self.reader.reap(least, |finished| {
            arrived += finished.result.as_ref().map_or(0, |n| u64::from(*n));
            done(finished);
        })?;
        self.arrived_bytes += arrived;
        let elapsed = self.since.elapsed();
        if elapsed >= AHEAD && !self.is_filled {
            let per_ahead = u128::from(self.arrived_bytes) * AHEAD.as_nanos() / elapsed.as_nanos();
            self.under_way_bytes_max = u64::try_from(per_ahead)
                .unwrap_or(u64::MAX)
                .clamp(UNDER_WAY_BYTES_MIN, UNDER_WAY_BYTES_MAX);
            self.arrived_bytes = 0;
            self.since = Instant::now();
        }
        Ok(())
    }

    /// Waits for everything; `false` when told to stop before.
    pub fn finish(&mut self, mut done: impl FnMut(Finished<T>)) -> io::Result<bool> {
        self.reader.submit()?;
        self.queued_bytes = 0;
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

/// A ring, or threads where the kernel refuses one.
fn reader<T>(no_ring: bool) -> io::Result<BatchReader<T>> {
    if !no_ring && let Ok(reader) = BatchReader::new(READS_MAX, READ_BYTES_MAX) {
        return Ok(reader);
    }
    BatchReader::with_threads(READS_MAX, READ_BYTES_MAX, THREADS)
}
