// SPDX-License-Identifier: MIT OR Apache-2.0
//! Buffered reads in batches, whose data is thrown away: they are made for the page cache.
//!
//! Reads that are submitted together share one block plug, so that neighbours on the device merge
//! into one request, across files too; that is what makes replay an order of magnitude faster than
//! one `readahead(2)` a file. A read tells what really arrived, which a hint never does.
//!
//! Where the kernel refuses io_uring, threads read ([`crate::read_pool`]): nothing merges then but
//! in the device's own queue.

use std::io;
use std::os::fd::RawFd;
use std::rc::Rc;

use io_uring::{IoUring, Probe, opcode, types};

use crate::read_pool::ReadPool;

/// Reads in one submission. The kernel flushes a plug at 32 requests; neighbours that merge count
/// as one, so more reads than that still go out together.
pub const BATCH_READS_MAX: usize = 64;

/// One finished read.
#[derive(Debug)]
pub struct Finished<T> {
    /// What was given with the read.
    pub token: T,
    /// Bytes that arrived, or the error.
    pub result: io::Result<u32>,
}

/// One read that waits to be submitted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    /// Which of the reader's slots it is in.
    pub slot: usize,
    pub fd: RawFd,
    pub offset_bytes: u64,
    pub length_bytes: u32,
}

/// Reads under way. `T` keeps a read's file open and says what it was for.
pub struct BatchReader<T> {
    engine: Engine,
    slots: Vec<Option<(T, u32)>>,
    free: Vec<usize>,
    queued: Vec<Read>,
    in_flight: usize,
    pending_bytes: u64,
    read_bytes_max: u32,
}

/// Who makes the reads.
enum Engine {
    Ring(Box<Ring>),
    Pool(ReadPool),
}

impl<T> BatchReader<T> {
    /// A ring for at most `reads_max` reads at once of at most `read_bytes_max` each.
    ///
    /// # Errors
    /// When the kernel refuses io_uring (`kernel.io_uring_disabled`, a seccomp filter, before 5.6).
    pub fn new(reads_max: u32, read_bytes_max: u32) -> io::Result<Self> {
        let ring = Ring::new(reads_max, read_bytes_max)?;
        Ok(Self::of(
            Engine::Ring(Box::new(ring)),
            reads_max,
            read_bytes_max,
        ))
    }

    /// The same without io_uring: `threads` threads, each with one read at a time.
    ///
    /// # Errors
    /// When not even one thread can be started.
    pub fn with_threads(reads_max: u32, read_bytes_max: u32, threads: usize) -> io::Result<Self> {
        let pool = ReadPool::new(threads, read_bytes_max)?;
        Ok(Self::of(Engine::Pool(pool), reads_max, read_bytes_max))
    }

    fn of(engine: Engine, reads_max: u32, read_bytes_max: u32) -> Self {
        Self {
            engine,
            slots: (0..reads_max).map(|_| None).collect(),
            free: (0..reads_max as usize).rev().collect(),
            queued: Vec::new(),
            in_flight: 0,
            pending_bytes: 0,
            read_bytes_max,
        }
    }

    /// Reads queued or under way.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.queued.len() + self.in_flight
    }

    /// Bytes queued or under way.
    #[must_use]
    pub fn pending_bytes(&self) -> u64 {
        self.pending_bytes
    }

    /// Whether there is room for one more read.
    #[must_use]
    pub fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    /// Reads queued and not submitted.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.queued.len()
    }

    /// Queues a read; the caller has made sure that there is room and that `token` keeps `fd` open.
    pub fn queue(&mut self, fd: RawFd, offset_bytes: u64, length_bytes: u32, token: T) {
        let Some(slot) = self.free.pop() else { return };
        let length_bytes = length_bytes.min(self.read_bytes_max);
        self.queued.push(Read {
            slot,
            fd,
            offset_bytes,
            length_bytes,
        });
        self.slots[slot] = Some((token, length_bytes));
        self.pending_bytes += u64::from(length_bytes);
    }

    /// Drops what is queued and not submitted.
    pub fn forget_queued(&mut self) {
        for read in std::mem::take(&mut self.queued) {
            self.take(read.slot);
        }
    }

    /// Submits what is queued, as one plug.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn submit(&mut self) -> io::Result<()> {
        if self.queued.is_empty() {
            return Ok(());
        }
        self.hand_over()?;
        match &mut self.engine {
            Engine::Ring(ring) => ring.submit(),
            Engine::Pool(_) => Ok(()),
        }
    }

    fn hand_over(&mut self) -> io::Result<()> {
        match &mut self.engine {
            Engine::Ring(ring) => ring.push(&self.queued)?,
            Engine::Pool(pool) => pool.push(&self.queued),
        }
        self.in_flight += self.queued.len();
        self.queued.clear();
        Ok(())
    }

    /// Submits, waits until at least `least` reads are done (or all), and gives each to `each`.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn reap(&mut self, least: usize, mut each: impl FnMut(Finished<T>)) -> io::Result<()> {
        self.hand_over()?;
        let least = least.min(self.in_flight);
        let finished = match &mut self.engine {
            Engine::Ring(ring) => ring.wait(least)?,
            Engine::Pool(pool) => pool.wait(least)?,
        };
        for (slot, result) in finished {
            if let Some(token) = self.take(slot) {
                self.in_flight -= 1;
                each(Finished { token, result });
            }
        }
        Ok(())
    }

    fn take(&mut self, slot: usize) -> Option<T> {
        let (token, length_bytes) = self.slots.get_mut(slot).and_then(Option::take)?;
        self.free.push(slot);
        self.pending_bytes -= u64::from(length_bytes);
        Some(token)
    }
}

impl<T> Drop for BatchReader<T> {
    fn drop(&mut self) {
        self.forget_queued();
        while self.in_flight > 0 && self.reap(1, |_| {}).is_ok() {}
        if self.in_flight > 0 {
            // Somebody may still read: better to leak files and memory than to give them to others.
            std::mem::forget(std::mem::take(&mut self.slots));
            if let Engine::Ring(ring) = &self.engine {
                std::mem::forget(Rc::clone(&ring.sink));
            }
        }
    }
}

struct Ring {
    ring: IoUring,
    /// Where all reads go; nobody looks at it.
    sink: Rc<[std::cell::UnsafeCell<u8>]>,
}

impl Ring {
    fn new(reads_max: u32, read_bytes_max: u32) -> io::Result<Self> {
        // DEFER_TASKRUN lets retries of reads run when we wait, not whenever they like (6.1).
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_cqsize(reads_max * 2)
            .build(reads_max)
            .or_else(|_| IoUring::new(reads_max))?;
        // The first kernels with io_uring have no plain read.
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        if !probe.is_supported(opcode::Read::CODE) {
            return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        }
        // File systems that can't wait asynchronously (NFS, FUSE) read in workers; the default of
        // a few per processor would bound the queue depth.
        let _ = ring.submitter().register_iowq_max_workers(&mut [64, 0]);
        let sink: Vec<_> = (0..read_bytes_max)
            .map(|_| std::cell::UnsafeCell::new(0))
            .collect();
        Ok(Self {
            ring,
            sink: sink.into(),
        })
    }

    fn push(&mut self, reads: &[Read]) -> io::Result<()> {
        for read in reads {
            let sink = self.sink.as_ptr().cast_mut().cast();
            let entry = opcode::Read::new(types::Fd(read.fd), sink, read.length_bytes)
                .offset(read.offset_bytes)
                .build()
                .user_data(read.slot as u64);
            // SAFETY: the descriptor is kept open by the token in the slot until the read is
            // reaped; the sink lives as long as the ring, and Drop reaps all reads first. Reads may
            // overlap in the sink: its bytes are never looked at.
            while unsafe { self.ring.submission().push(&entry) }.is_err() {
                // Full, which it never is: it is as large as the slots.
                self.submit()?;
            }
        }
        Ok(())
    }

    fn submit(&mut self) -> io::Result<()> {
        retry(|| self.ring.submit()).map(drop)
    }

    /// Submits and waits.
    fn wait(&mut self, least: usize) -> io::Result<Vec<(usize, io::Result<u32>)>> {
        retry(|| self.ring.submit_and_wait(least))?;
        let result =
            |result: i32| u32::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result));
        let entries = self.ring.completion();
        Ok(entries
            .map(|entry| {
                let slot = usize::try_from(entry.user_data()).unwrap_or(usize::MAX);
                (slot, result(entry.result()))
            })
            .collect())
    }
}

fn retry(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs::File;
    use std::os::fd::AsRawFd;

    use super::*;

    fn both(reads_max: u32, read_bytes_max: u32) -> Vec<BatchReader<u32>> {
        let ring = BatchReader::new(reads_max, read_bytes_max);
        let threads = BatchReader::with_threads(reads_max, read_bytes_max, 3);
        ring.into_iter().chain(threads).collect()
    }

    #[test]
    fn each_read_tells_what_arrived() -> io::Result<()> {
        let scratch = tempfile::NamedTempFile::new()?;
        scratch.as_file().set_len(10_000)?;
        let file = File::open(scratch.path())?;
        for mut reader in both(8, 4096) {
            // In full, up to the end, beyond it; longer than allowed; on no file at all.
            let offsets = [0, 8192, 20_000, 0];
            for (token, offset) in (0..).zip(offsets) {
                let length = if token == 3 { 1 << 20 } else { 4096 };
                reader.queue(file.as_raw_fd(), offset, length, token);
            }
            reader.queue(-1, 0, 4096, 4);
            assert_eq!((reader.queued(), reader.pending()), (5, 5));
            assert_eq!(reader.pending_bytes(), 5 * 4096);
            let mut results = BTreeMap::new();
            while reader.pending() > 0 {
                reader.reap(1, |finished| {
                    let result = finished.result.map_err(|error| error.raw_os_error());
                    results.insert(finished.token, result);
                })?;
            }
            let results: Vec<_> = results.into_values().collect();
            let bad = Err(Some(libc::EBADF));
            assert_eq!(results, [Ok(4096), Ok(1808), Ok(0), Ok(4096), bad]);
            assert_eq!((reader.pending_bytes(), reader.has_room()), (0, true));
        }
        Ok(())
    }

    #[test]
    fn more_reads_than_threads_all_come_back() -> io::Result<()> {
        let scratch = tempfile::NamedTempFile::new()?;
        scratch.as_file().set_len(1 << 20)?;
        let file = File::open(scratch.path())?;
        for mut reader in both(64, 8192) {
            let mut done = 0;
            for at in 0..200_u64 {
                while !reader.has_room() {
                    reader.reap(5, |_| done += 1)?;
                }
                reader.queue(file.as_raw_fd(), at * 4096, 4096, 0);
                if at % 10 == 9 {
                    reader.submit()?;
                    assert_eq!(reader.queued(), 0);
                }
            }
            while reader.pending() > 0 {
                let before = done;
                reader.reap(3, |_| done += 1)?;
                assert!(done - before >= 3 || reader.pending() == 0);
            }
            assert_eq!(done, 200);
        }
        Ok(())
    }

    #[test]
    fn what_is_forgotten_is_let_go() -> io::Result<()> {
        let file = File::open("/dev/null")?;
        let token = Rc::new(());
        for threads in [false, true] {
            let mut reader = if threads {
                BatchReader::with_threads(4, 4096, 1)?
            } else if let Ok(reader) = BatchReader::new(4, 4096) {
                reader
            } else {
                continue;
            };
            reader.queue(file.as_raw_fd(), 0, 4096, Rc::clone(&token));
            reader.submit()?;
            reader.queue(file.as_raw_fd(), 0, 4096, Rc::clone(&token));
            reader.forget_queued();
            assert_eq!((reader.pending(), reader.pending_bytes()), (1, 4096));
            assert_eq!(Rc::strong_count(&token), 2);
            drop(reader);
            assert_eq!(Rc::strong_count(&token), 1);
        }
        Ok(())
    }
}
