// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that read parts of large files by `pread(2)`.

use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

use foreread_measure::MeasureError;

use super::order::{self, CachedOrNot};
use super::{Done, PAGE_BYTES, SEED, opening, panicked};

/// A strided program reads one page of this many.
const STRIDE_PAGES: u64 = 16;
/// One of this many reads of a strided program goes elsewhere.
const NOISE_EVERY: u64 = 5;
/// One of this many reads of a program whose file is in memory goes elsewhere.
const MISS_EVERY: u64 = 100;

/// A file with the buffer that it is read into.
struct Reading {
    file: File,
    what: String,
    buffer: Vec<u8>,
    bytes: u64,
}

impl Reading {
    fn open(path: &Path, read_bytes: u64) -> Result<Self, MeasureError> {
        let read_bytes = usize::try_from(read_bytes.max(1)).unwrap_or(usize::MAX);
        Ok(Self {
            file: File::open(path).map_err(MeasureError::system(opening(path)))?,
            what: format!("read {}", path.display()),
            buffer: vec![0; read_bytes],
            bytes: 0,
        })
    }

    fn size_bytes(&self) -> Result<u64, MeasureError> {
        let metadata = self.file.metadata();
        Ok(metadata.map_err(MeasureError::system(&*self.what))?.len())
    }

    /// Reads a buffer full, which has to be there.
    fn read(&mut self, offset_bytes: u64) -> Result<(), MeasureError> {
        let done = self.file.read_exact_at(&mut self.buffer, offset_bytes);
        done.map_err(MeasureError::system(&*self.what))?;
        black_box(&self.buffer);
        self.bytes += self.buffer.len() as u64;
        Ok(())
    }

    fn pages(&mut self, pages: impl Iterator<Item = u64>) -> Result<(), MeasureError> {
        for page in pages {
            self.read(page * PAGE_BYTES)?;
        }
        Ok(())
    }
}

/// Times the work on one file, and counts the bytes read of it.
fn timed(
    path: &Path,
    read_bytes: u64,
    work: impl FnOnce(&mut Reading, u64) -> Result<(), MeasureError>,
) -> Result<Done, MeasureError> {
    let mut reading = Reading::open(path, read_bytes)?;
    let size_bytes = reading.size_bytes()?;
    let began = Instant::now();
    work(&mut reading, size_bytes)?;
    Ok(Done {
        elapsed: began.elapsed(),
        bytes: reading.bytes,
    })
}

/// The first `bytes` of each file, a thread a file.
pub fn sequential(files: &[PathBuf], read_bytes: u64, bytes: u64) -> Result<Done, MeasureError> {
    let one = |path: &PathBuf| {
        timed(path, read_bytes, |reading, size_bytes| {
            let reads = bytes.min(size_bytes) / read_bytes.max(1);
            (0..reads).try_for_each(|read| reading.read(read * read_bytes))
        })
    };
    let began = Instant::now();
    let done = thread::scope(|scope| {
        let spawn = |path| scope.spawn(move || one(path));
        let all: Vec<_> = files.iter().map(spawn).collect();
        let joined = all
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(panicked())));
        joined.collect::<Result<Vec<Done>, MeasureError>>()
    })?;
    Ok(Done {
        elapsed: began.elapsed(),
        bytes: done.iter().map(|done| done.bytes).sum(),
    })
}

/// `reads` reads, the first of them at the end.
pub fn backward(path: &Path, read_bytes: u64, reads: u64) -> Result<Done, MeasureError> {
    timed(path, read_bytes, |reading, size_bytes| {
        let there = size_bytes / read_bytes.max(1);
        let wanted = there.saturating_sub(reads)..there;
        wanted
            .rev()
            .try_for_each(|read| reading.read(read * read_bytes))
    })
}

/// Every sixteenth page of the first `pages`, with noise.
pub fn strided(path: &Path, pages: u64) -> Result<Done, MeasureError> {
    timed(path, PAGE_BYTES, |reading, size_bytes| {
        let pages = pages.min(size_bytes / PAGE_BYTES);
        reading.pages(order::strided(pages, STRIDE_PAGES, NOISE_EVERY, SEED))
    })
}

/// `reads` pages here and there.
pub fn random(path: &Path, reads: u64) -> Result<Done, MeasureError> {
    timed(path, PAGE_BYTES, |reading, size_bytes| {
        reading.pages(order::random(size_bytes / PAGE_BYTES, reads, SEED))
    })
}

/// `stops` early stops in files as large as the first.
pub fn early_stops(files: &[PathBuf], stops: u64) -> Result<Done, MeasureError> {
    let pages = match files.first() {
        Some(first) => Reading::open(first, PAGE_BYTES)?.size_bytes()? / PAGE_BYTES,
        None => 0,
    };
    if pages == 0 {
        let what = "there is no page to read".to_owned();
        return Err(MeasureError::Report("read", what));
    }
    let began = Instant::now();
    let mut bytes = 0;
    for stop in order::early_stops(files.len(), pages, stops, SEED) {
        let mut reading = Reading::open(&files[stop.file], PAGE_BYTES)?;
        reading.pages(stop.first_page..stop.first_page + stop.pages)?;
        bytes += reading.bytes;
    }
    Ok(Done {
        elapsed: began.elapsed(),
        bytes,
    })
}

/// `reads` reads, of which one in a hundred goes to `other`.
pub fn mostly_cached(cached: &Path, other: &Path, reads: u64) -> Result<Done, MeasureError> {
    let mut other = Reading::open(other, PAGE_BYTES)?;
    let other_pages = other.size_bytes()? / PAGE_BYTES;
    let mut done = timed(cached, PAGE_BYTES, |cached, size_bytes| {
        let pages = size_bytes / PAGE_BYTES;
        for read in order::mostly_cached(pages, other_pages, reads, MISS_EVERY, SEED) {
            match read {
                CachedOrNot::Cached(page) => cached.read(page * PAGE_BYTES)?,
                CachedOrNot::Missed(page) => other.read(page * PAGE_BYTES)?,
            }
        }
        Ok(())
    })?;
    done.bytes += other.bytes;
    Ok(done)
}
