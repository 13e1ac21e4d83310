// SPDX-License-Identifier: MIT OR Apache-2.0
//! Buffered reads in batches, whose data is thrown away: they are made for the page cache.
//!
//! Reads that are submitted together share one block plug, so that neighbours on the device merge
//! into one request, across files too. That makes replay an order of magnitude faster than one
//! `readahead(2)` per file. A read reports the pages that arrived, which a hint never does.
//!
//! A read that is answered with `EAGAIN` is repeated by a worker of the kernel that may wait.
//! io_uring of Linux 6.1 gives that answer for a file opened with `O_NONBLOCK` if its device can't
//! start a read without waiting. Device mapper's `crypt` is such a device.
//!
//! Where the kernel refuses io_uring, threads read ([`crate::read_pool`]). Neither workers nor
//! threads share a plug, so each batch is asked for beforehand in a way that does
//! ([`crate::read_hints`]).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::rc::Rc;

use io_uring::{IoUring, Probe, opcode, squeue, types};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, ReadWriteFlags, preadv2};

use crate::queued_read::QueuedRead;
use crate::read_hints;
use crate::read_pool::ReadPool;

/// One finished read.
#[derive(Debug)]
pub struct Finished<T> {
    /// The token that was given with the read.
    pub token: T,
    /// Bytes that arrived, or the error.
    pub result: io::Result<u32>,
}

/// The content of a slot: the token that was given with the read, and the read, to repeat it.
struct Slot<T> {
    token: T,
    read: QueuedRead,
}

/// Reads under way. `T` keeps a read's file open and says what it was for.
pub struct BatchReader<T> {
    engine: Engine,
    slots: Vec<Option<Slot<T>>>,
    free: Vec<usize>,
    queued: Vec<QueuedRead>,
    in_flight: usize,
    pending_bytes: u64,
    read_bytes_max: u32,
    /// Whether each read has a plug of its own, so that batches are asked for beforehand.
    asks_first: bool,
}

/// The implementation that makes the reads.
enum Engine {
    Ring(Box<Ring>),
    Pool(ReadPool),
    /// Answers that a test has prepared.
    #[cfg(test)]
    Prepared(tests::Prepared),
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
        let mut reader = Self::of(Engine::Pool(pool), reads_max, read_bytes_max);
        reader.asks_first = true;
        Ok(reader)
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
            asks_first: false,
        }
    }

    /// Finds out whether the ring can start reads of such files without waiting. For others each
    /// read goes to a worker, and batches are asked for beforehand. Must come before the first
    /// read.
    pub fn learn_from(&mut self, file: impl AsFd) {
        if self.in_flight == 0
            && let Engine::Ring(ring) = &mut self.engine
        {
            self.asks_first = !ring.starts_without_waiting(file.as_fd());
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
        let read = QueuedRead {
            slot,
            fd,
            offset_bytes,
            length_bytes,
            in_worker: false,
        };
        self.queued.push(read);
        self.slots[slot] = Some(Slot { token, read });
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
            #[cfg(test)]
            Engine::Prepared(_) => Ok(()),
        }
    }

    /// Submits what is queued in parts: at most as many reads at once as `reads_max` says before
    /// each part, and the next when these are done. Stops at 0, with the rest still queued.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn submit_in_parts(
        &mut self,
        mut reads_max: impl FnMut() -> usize,
        mut each: impl FnMut(Finished<T>),
    ) -> io::Result<()> {
        let mut rest = std::mem::take(&mut self.queued);
        while !rest.is_empty() {
            let count = reads_max().min(rest.len());
            if count == 0 {
                self.queued = rest;
                return Ok(());
            }
            self.queued = rest.drain(..count).collect();
            self.submit()?;
            if !rest.is_empty() {
                self.reap(self.in_flight, &mut each)?;
            }
        }
        Ok(())
    }

    fn hand_over(&mut self) -> io::Result<()> {
        if self.asks_first {
            // Without it, each read makes requests of its own.
            let _ = read_hints::ask_for(&self.queued);
        }
        self.engine.push(&self.queued)?;
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
        let mut left = least.min(self.in_flight);
        loop {
            let mut again = Vec::new();
            for (slot, result) in self.engine.wait(left)? {
                if let Some(read) = self.read_to_repeat(slot, &result) {
                    again.push(read);
                } else if let Some(token) = self.take(slot) {
                    self.in_flight -= 1;
                    left = left.saturating_sub(1);
                    each(Finished { token, result });
                }
            }
            self.engine.push(&again)?;
            if left == 0 {
                return Ok(());
            }
        }
    }

    /// The read of a slot, for a worker, when it was refused only because it would have had to
    /// wait.
    fn read_to_repeat(&mut self, slot: usize, result: &io::Result<u32>) -> Option<QueuedRead> {
        let error = result.as_ref().err()?.raw_os_error();
        let read = &mut self.slots.get_mut(slot)?.as_mut()?.read;
        if error != Some(libc::EAGAIN) || read.in_worker {
            return None;
        }
        read.in_worker = true;
        Some(*read)
    }

    fn take(&mut self, slot: usize) -> Option<T> {
        let Slot { token, read } = self.slots.get_mut(slot).and_then(Option::take)?;
        self.free.push(slot);
        self.pending_bytes -= u64::from(read.length_bytes);
        Some(token)
    }
}

impl Engine {
    fn push(&mut self, reads: &[QueuedRead]) -> io::Result<()> {
        match self {
            Self::Ring(ring) => ring.push(reads),
            Self::Pool(pool) => {
                pool.push(reads);
                Ok(())
            }
            #[cfg(test)]
            Self::Prepared(prepared) => {
                prepared.push(reads);
                Ok(())
            }
        }
    }

    fn wait(&mut self, least: usize) -> io::Result<Vec<(usize, io::Result<u32>)>> {
        match self {
            Self::Ring(ring) => ring.wait(least),
            Self::Pool(pool) => pool.wait(least),
            #[cfg(test)]
            Self::Prepared(prepared) => Ok(prepared.take()),
        }
    }
}

impl<T> Drop for BatchReader<T> {
    fn drop(&mut self) {
        self.forget_queued();
        while self.in_flight > 0 && self.reap(1, |_| {}).is_ok() {}
        if self.in_flight > 0 {
            // The kernel may still read into this memory: leaking files and memory is safer than
            // reusing them.
            std::mem::forget(std::mem::take(&mut self.slots));
            if let Engine::Ring(ring) = &self.engine {
                std::mem::forget(Rc::clone(&ring.sink));
            }
        }
    }
}

struct Ring {
    ring: IoUring,
    /// The target of all reads; its bytes are never used.
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

    fn push(&mut self, reads: &[QueuedRead]) -> io::Result<()> {
        for read in reads {
            let sink = self.sink.as_ptr().cast_mut().cast();
            let flags = match read.in_worker {
                true => squeue::Flags::ASYNC,
                false => squeue::Flags::empty(),
            };
            let entry = opcode::Read::new(types::Fd(read.fd), sink, read.length_bytes)
                .offset(read.offset_bytes)
                .build()
                .flags(flags)
                .user_data(read.slot as u64);
            // SAFETY: the token in the slot keeps the descriptor open until the read is reaped. The
            // sink lives as long as the ring, and Drop reaps all reads first. Reads may overlap in
            // the sink: its bytes are never looked at.
            while unsafe { self.ring.submission().push(&entry) }.is_err() {
                // Full, which it never is: it is as large as the slots.
                self.submit()?;
            }
        }
        Ok(())
    }

    /// Whether a read of this file is begun as it is submitted; if not, a worker makes it.
    fn starts_without_waiting(&mut self, file: BorrowedFd<'_>) -> bool {
        /// Behind the end of any file: nothing is read there, so nothing is waited for.
        const NOWHERE: u64 = 1 << 62;
        // The file itself can't, on any device.
        let mut byte = [0];
        let mut slices = [io::IoSliceMut::new(&mut byte)];
        let flags = ReadWriteFlags::NOWAIT;
        if preadv2(file, &mut slices, NOWHERE, flags) == Err(Errno::OPNOTSUPP) {
            return false;
        }
        // Its device can't: before Linux 6.5 the ring says so of files with this flag.
        let Ok(flags) = fcntl_getfl(file) else {
            return true;
        };
        if fcntl_setfl(file, flags | OFlags::NONBLOCK).is_err() {
            return true;
        }
        let read = QueuedRead {
            slot: 0,
            fd: file.as_raw_fd(),
            offset_bytes: NOWHERE,
            length_bytes: 1,
            in_worker: false,
        };
        let answers = self.push(&[read]).and_then(|()| self.wait(1));
        let _ = fcntl_setfl(file, flags);
        let is_refusal = |(_, answer): &(usize, io::Result<u32>)| {
            let error = answer.as_ref().err().and_then(io::Error::raw_os_error);
            error == Some(libc::EAGAIN)
        };
        !answers.is_ok_and(|answers| answers.iter().any(is_refusal))
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

/// Makes a ring as large as the replay's.
///
/// # Errors
/// As [`BatchReader::new`].
pub fn make_ring() -> io::Result<()> {
    /// As many as the replay submits together.
    const READS_MAX: u32 = 64;
    BatchReader::<()>::new(READS_MAX, 4096).map(drop)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs::File;

    use super::*;

    /// Answers of a kernel: for each read its first one, and one for the worker that makes it
    /// again.
    pub struct Prepared {
        answers: Vec<[i32; 2]>,
        pushed: Vec<QueuedRead>,
        made: usize,
    }

    impl Prepared {
        pub fn push(&mut self, reads: &[QueuedRead]) {
            self.pushed.extend(reads);
            self.made += reads.len();
        }

        pub fn take(&mut self) -> Vec<(usize, io::Result<u32>)> {
            let answers = &self.answers;
            let answer = |read: QueuedRead| {
                let at = usize::try_from(read.offset_bytes).expect("a small offset");
                let answer = answers[at][usize::from(read.in_worker)];
                let error = |_| io::Error::from_raw_os_error(-answer);
                (read.slot, u32::try_from(answer).map_err(error))
            };
            self.pushed.drain(..).map(answer).collect()
        }
    }

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
            let bad = Err(Some(libc::EBADF));
            assert_eq!(
                results(&mut reader)?,
                [Ok(4096), Ok(1808), Ok(0), Ok(4096), bad]
            );
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

    fn results(reader: &mut BatchReader<u32>) -> io::Result<Vec<Result<u32, Option<i32>>>> {
        let mut results = BTreeMap::new();
        while reader.pending() > 0 {
            reader.reap(1, |finished| {
                let result = finished.result.map_err(|error| error.raw_os_error());
                let twice = results.insert(finished.token, result);
                assert_eq!(twice, None, "a read was told of twice");
            })?;
        }
        Ok(results.into_values().collect())
    }

    #[test]
    fn a_read_that_would_wait_is_made_once_more_and_no_more() -> io::Result<()> {
        let (again, broken) = (-libc::EAGAIN, -libc::EIO);
        let answers = vec![
            [4096, 0],
            [again, 4096],
            [again, 100],
            [again, again],
            [again, broken],
            [broken, 4096],
        ];
        let prepared = Prepared {
            answers,
            pushed: Vec::new(),
            made: 0,
        };
        let mut reader = BatchReader::of(Engine::Prepared(prepared), 8, 4096);
        for at in 0..6 {
            reader.queue(0, u64::from(at), 4096, at);
        }
        let again = Err(Some(libc::EAGAIN));
        let broken = Err(Some(libc::EIO));
        assert_eq!(
            results(&mut reader)?,
            [Ok(4096), Ok(4096), Ok(100), again, broken, broken]
        );
        let Engine::Prepared(prepared) = &reader.engine else {
            return Err(io::Error::other("another engine"));
        };
        assert_eq!(prepared.made, 6 + 4, "reads made");
        assert_eq!((reader.pending_bytes(), reader.has_room()), (0, true));
        Ok(())
    }

    /// Files of `/proc` can't start a read without waiting. For those opened with `O_NONBLOCK`
    /// io_uring of Linux 6.1 answers `EAGAIN`, as it does for files on a device that can't.
    #[test]
    fn the_kernels_own_refusal_to_wait_is_overcome() -> io::Result<()> {
        use std::os::unix::fs::OpenOptionsExt;
        let path = "/proc/self/status";
        let file = std::fs::OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(path)?;
        for mut reader in both(8, 4096) {
            for token in 0..8 {
                reader.queue(file.as_raw_fd(), 0, 4096, token);
            }
            for result in results(&mut reader)? {
                assert!(result.is_ok_and(|bytes| bytes > 100), "{result:?}");
            }
        }
        Ok(())
    }
}
