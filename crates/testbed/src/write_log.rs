// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a disk was told to write, and what of that a power cut may have left.
//!
//! In: writes, discards and flushes, in the order in which the disk has completed them. Out: what
//! may be on the disk after the power is cut. All that was completed before a flush is there. Of
//! what came after the last flush, any part may be: a cache of a disk writes in an order of its
//! own, and by sectors.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate};

use crate::image;

/// What is written as a whole or not at all. The journal of ext4 needs that of a sector; its blocks
/// are as large as these.
const PIECE_BYTES: usize = 4096;

/// Something that a disk was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LogEntry {
    Write {
        offset_bytes: u64,
        data: Vec<u8>,
    },
    Discard {
        offset_bytes: u64,
        length_bytes: u64,
    },
    Flush,
}

/// What was written to a disk, from a time on.
#[derive(Debug)]
pub struct WriteLog {
    /// The content before.
    start: File,
    /// What was written between two flushes, the last without one.
    epochs: Vec<Vec<LogEntry>>,
    /// The content after so many epochs.
    passed: usize,
    now: File,
}

impl WriteLog {
    pub(crate) fn new(start: File, now: File, entries: Vec<LogEntry>) -> Self {
        let mut epochs = vec![Vec::new()];
        for entry in entries {
            match (entry, epochs.last_mut()) {
                (LogEntry::Flush, Some(last)) if last.is_empty() => {}
                (LogEntry::Flush, _) => epochs.push(Vec::new()),
                (entry, Some(last)) => last.push(entry),
                (_, None) => {}
            }
        }
        Self {
            start,
            epochs,
            passed: 0,
            now,
        }
    }

    /// Number of epochs: between two flushes, or after the last.
    #[must_use]
    pub fn epochs(&self) -> usize {
        self.epochs.len()
    }

    /// Writes to a file what the disk has after a power cut in an epoch: all before it, and of it
    /// the pieces of 4 KiB that `keep` chooses. Asking for epochs in their order is fast.
    ///
    /// # Errors
    /// When a file can't be written, or there is no such epoch.
    pub fn after_cut(
        &mut self,
        epoch: usize,
        path: &Path,
        keep: &mut dyn FnMut() -> bool,
    ) -> io::Result<()> {
        if epoch < self.passed {
            copy(&self.start, &self.now)?;
            self.passed = 0;
        }
        while self.passed < epoch {
            apply(self.epoch(self.passed)?, &self.now, &mut || true)?;
            self.passed += 1;
        }
        let file = File::create(path)?;
        image::copy_sparse(&self.now, &file)?;
        apply(self.epoch(epoch)?, &file, keep)
    }

    /// The same of a disk that says that it has flushed, and hasn't: of the last `lost` epochs
    /// before, too, only pieces that `keep` chooses are there.
    ///
    /// # Errors
    /// Those of [`WriteLog::after_cut`].
    pub fn after_cut_of_a_disk_that_lies(
        &self,
        epoch: usize,
        lost: usize,
        path: &Path,
        keep: &mut dyn FnMut() -> bool,
    ) -> io::Result<()> {
        let file = File::create(path)?;
        image::copy_sparse(&self.start, &file)?;
        let durable = epoch.saturating_sub(lost);
        for number in 0..durable {
            apply(self.epoch(number)?, &file, &mut || true)?;
        }
        for number in durable..=epoch {
            apply(self.epoch(number)?, &file, keep)?;
        }
        Ok(())
    }

    fn epoch(&self, number: usize) -> io::Result<&[LogEntry]> {
        let epoch = self.epochs.get(number).map(Vec::as_slice);
        epoch.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))
    }
}

/// Replaces the content of a file.
pub(crate) fn copy(from: &File, to: &File) -> io::Result<()> {
    to.set_len(0)?;
    image::copy_sparse(from, to)?;
    Ok(())
}

fn apply(entries: &[LogEntry], file: &File, keep: &mut dyn FnMut() -> bool) -> io::Result<()> {
    for entry in entries {
        match entry {
            LogEntry::Write { offset_bytes, data } => {
                for (at, piece) in (0..).step_by(PIECE_BYTES).zip(data.chunks(PIECE_BYTES)) {
                    if keep() {
                        file.write_all_at(piece, offset_bytes + at)?;
                    }
                }
            }
            LogEntry::Discard {
                offset_bytes,
                length_bytes,
            } => {
                if keep() {
                    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                    fallocate(file, punch, *offset_bytes, *length_bytes)?;
                }
            }
            LogEntry::Flush => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn write(offset_bytes: u64, byte: u8) -> LogEntry {
        LogEntry::Write {
            offset_bytes,
            data: vec![byte; PIECE_BYTES],
        }
    }

    fn disk() -> File {
        let disk = tempfile::tempfile().unwrap();
        disk.set_len(4 * PIECE_BYTES as u64).unwrap();
        disk
    }

    #[test]
    fn what_was_flushed_is_there_and_of_the_rest_what_is_chosen() {
        let k = PIECE_BYTES as u64;
        let entries = vec![
            LogEntry::Flush,
            write(0, 1),
            write(k, 2),
            LogEntry::Flush,
            write(0, 3),
            LogEntry::Discard {
                offset_bytes: k,
                length_bytes: k,
            },
            LogEntry::Flush,
            write(2 * k, 4),
        ];
        let mut log = WriteLog::new(disk(), disk(), entries);
        // The first flush had nothing to do.
        assert_eq!(log.epochs(), 3);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("image");
        let pieces = |path: &Path| -> Vec<u8> {
            let bytes = fs::read(path).unwrap();
            bytes.chunks(PIECE_BYTES).map(|piece| piece[0]).collect()
        };
        log.after_cut(1, &path, &mut || false).unwrap();
        assert_eq!(pieces(&path), [1, 2, 0, 0]);
        let mut first = [true, false].into_iter();
        log.after_cut(1, &path, &mut || first.next().unwrap())
            .unwrap();
        assert_eq!(pieces(&path), [3, 2, 0, 0]);
        log.after_cut(2, &path, &mut || true).unwrap();
        assert_eq!(pieces(&path), [3, 0, 4, 0]);
        // Back again.
        log.after_cut(0, &path, &mut || true).unwrap();
        assert_eq!(pieces(&path), [1, 2, 0, 0]);
        assert!(log.after_cut(3, &path, &mut || true).is_err());
        // A disk that lies has lost what it had flushed.
        log.after_cut_of_a_disk_that_lies(2, 1, &path, &mut || false)
            .unwrap();
        assert_eq!(pieces(&path), [1, 2, 0, 0]);
        log.after_cut_of_a_disk_that_lies(2, 9, &path, &mut || false)
            .unwrap();
        assert_eq!(pieces(&path), [0, 0, 0, 0]);
    }
}
