// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads by threads, where the kernel refuses io_uring.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use rustix::io::{Errno, pread};

use crate::queued_read::QueuedRead;

type Done = (usize, io::Result<u32>);

/// Threads that take reads in the order in which they are given.
pub struct ReadPool {
    waiting: Arc<Waiting>,
    done: Receiver<Done>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Waiting {
    reads: Mutex<Reads>,
    changed: Condvar,
}

#[derive(Default)]
struct Reads {
    queue: VecDeque<QueuedRead>,
    closed: bool,
}

impl ReadPool {
    /// At most `threads` threads, each with a buffer for the largest read.
    pub fn new(threads: usize, read_bytes_max: u32) -> io::Result<Self> {
        let waiting = Arc::new(Waiting::default());
        let (sender, done) = channel();
        let mut pool = Self {
            waiting,
            done,
            threads: Vec::new(),
        };
        for _ in 0..threads.max(1) {
            match pool.spawn(sender.clone(), read_bytes_max) {
                Ok(thread) => pool.threads.push(thread),
                Err(error) if pool.threads.is_empty() => return Err(error),
                // Fewer threads only take longer.
                Err(_) => break,
            }
        }
        Ok(pool)
    }

    fn spawn(&self, done: Sender<Done>, read_bytes_max: u32) -> io::Result<JoinHandle<()>> {
        let waiting = Arc::clone(&self.waiting);
        let work = move || {
            // Takes memory only as far as it is used.
            let mut buffer = vec![0; read_bytes_max as usize];
            while let Some(read) = waiting.next() {
                let result = read_whole(&read, &mut buffer);
                if done.send((read.slot, result)).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new()
            .name("fetch-read".into())
            .stack_size(128 * 1024)
            .spawn(work)
    }

    pub(crate) fn push(&self, reads: &[QueuedRead]) {
        self.waiting.lock().queue.extend(reads);
        self.waiting.changed.notify_all();
    }

    /// Waits for at least `least` reads. Returns all that are done.
    pub fn wait(&self, least: usize) -> io::Result<Vec<Done>> {
        let mut finished = Vec::new();
        while finished.len() < least {
            let gone = |_| io::Error::other("the threads that read have died");
            finished.push(self.done.recv().map_err(gone)?);
        }
        finished.extend(self.done.try_iter());
        Ok(finished)
    }
}

impl Drop for ReadPool {
    fn drop(&mut self) {
        {
            let mut reads = self.waiting.lock();
            reads.closed = true;
            reads.queue.clear();
        }
        self.waiting.changed.notify_all();
        for thread in self.threads.drain(..) {
            // One that panicked reads no more either.
            let _ = thread.join();
        }
    }
}

impl Waiting {
    fn lock(&self) -> std::sync::MutexGuard<'_, Reads> {
        self.reads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Option<QueuedRead> {
        let mut reads = self.lock();
        loop {
            if let Some(read) = reads.queue.pop_front() {
                return Some(read);
            }
            if reads.closed {
                return None;
            }
            reads = self
                .changed
                .wait(reads)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Reads up to the length or the end of the file; of a read that fails midway, what came before.
fn read_whole(read: &QueuedRead, buffer: &mut [u8]) -> io::Result<u32> {
    if read.fd < 0 {
        return Err(Errno::BADF.into());
    }
    // SAFETY: the reader's slot keeps the file open until it has received the result of this read.
    // When it is dropped, it waits for these threads first.
    let fd = unsafe { BorrowedFd::borrow_raw(read.fd) };
    let length = buffer.len().min(read.length_bytes as usize);
    let mut at = 0;
    while at < length {
        match pread(fd, &mut buffer[at..length], read.offset_bytes + at as u64) {
            Ok(0) => break,
            Ok(bytes) => at += bytes,
            Err(Errno::INTR) => {}
            Err(error) if at == 0 => return Err(error.into()),
            Err(_) => break,
        }
    }
    Ok(u32::try_from(at).unwrap_or(u32::MAX))
}
