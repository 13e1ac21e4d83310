// SPDX-License-Identifier: MIT OR Apache-2.0
//! Asks for ranges of many files at once, so that neighbours on the device merge into one request.
//!
//! Input: reads that are about to be made. Output: none; what is missing of them is under way when
//! [`ask_for`] returns, as far as one request of the device goes. The reads themselves must follow:
//! a hint promises nothing, and only a read tells what arrived.
//!
//! Neighbours merge if one thread submits them under one block plug. io_uring does that, but not
//! for devices or file systems that can't start a read without waiting (see [`crate::uring`]).
//! There each read goes to a worker with a plug of its own, and threads with `pread` are no better.
//! `madvise` holds one plug over all mappings in its range, of any files. So the ranges are mapped
//! side by side, and one `MADV_WILLNEED` requests all of them. On Linux 6.1 with dm-crypt, that
//! makes a twentieth of the requests.

use std::ffi::c_void;
use std::io;
use std::os::fd::BorrowedFd;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

use crate::queued_read::QueuedRead;

/// Asks for what these reads will read. What can't be mapped is left to the read.
///
/// # Errors
/// When there is no room for the mappings. Nothing is asked for then.
pub fn ask_for(reads: &[QueuedRead]) -> io::Result<()> {
    let ranges: Vec<Range> = reads.iter().filter_map(Range::of).collect();
    let length = ranges.iter().map(|range| range.length).sum();
    if length == 0 {
        return Ok(());
    }
    // SAFETY: new address space that nothing else knows. It is never touched, only divided into
    // mappings, asked for and unmapped, all before this function returns; so files that shrink
    // meanwhile can't hurt. The reader's slots keep the descriptors open.
    unsafe {
        let (nothing, private) = (ProtFlags::empty(), MapFlags::PRIVATE | MapFlags::NORESERVE);
        let start = mmap_anonymous(std::ptr::null_mut(), length, nothing, private)?;
        let mut at = start;
        for (number, range) in ranges.iter().enumerate() {
            range.map_to(at, number);
            at = at.byte_add(range.length);
        }
        let asked = madvise(start, length, Advice::WillNeed);
        munmap(start, length)?;
        Ok(asked?)
    }
}

/// Whole pages of a file.
struct Range {
    fd: i32,
    offset_bytes: u64,
    length: usize,
}

impl Range {
    fn of(read: &QueuedRead) -> Option<Self> {
        let page_bytes = rustix::param::page_size() as u64;
        let start = read.offset_bytes - read.offset_bytes % page_bytes;
        let end = read.offset_bytes.checked_add(read.length_bytes.into())?;
        let end = end.checked_next_multiple_of(page_bytes)?;
        let is_open = read.fd >= 0;
        is_open.then_some(Self {
            fd: read.fd,
            offset_bytes: start,
            length: usize::try_from(end - start).ok()?,
        })
    }

    /// Maps it to a place.
    ///
    /// # Safety
    /// There must be `length` unused bytes of address space, and the descriptor must be open.
    unsafe fn map_to(&self, place: *mut c_void, number: usize) {
        // The kernel makes one mapping of two neighbours in one file, and would ask for no more of
        // it than of one. It doesn't when what they allow differs.
        let allowed = match number % 2 {
            0 => ProtFlags::READ,
            _ => ProtFlags::empty(),
        };
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        // SAFETY: as the caller promises. Where it fails, what was there before stays.
        unsafe {
            let fd = BorrowedFd::borrow_raw(self.fd);
            let _ = mmap(place, self.length, allowed, flags, fd, self.offset_bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsRawFd;
    use std::time::{Duration, Instant};

    use foreread_profile::PAGE_BYTES;
    use rustix::fs::{Advice as FileAdvice, fadvise};

    use super::*;
    use crate::cache::missing_by_map;

    fn read(file: &File, start_page: u64, pages: u64) -> QueuedRead {
        QueuedRead {
            slot: 0,
            fd: file.as_raw_fd(),
            offset_bytes: start_page * PAGE_BYTES,
            length_bytes: u32::try_from(pages * PAGE_BYTES).expect("a short read"),
            in_worker: false,
        }
    }

    /// A file of 32 pages without a cached page; `None` where the file system keeps them.
    fn uncached(directory: &tempfile::TempDir, name: &str) -> io::Result<Option<File>> {
        let path = directory.path().join(name);
        std::fs::write(&path, vec![1; 32 * PAGE_BYTES as usize])?;
        let file = File::open(path)?;
        file.sync_all()?;
        fadvise(&file, 0, None, FileAdvice::DontNeed)?;
        Ok((missing(&file)? == [(0, 32)]).then_some(file))
    }

    fn missing(file: &File) -> io::Result<Vec<(u64, u64)>> {
        let mut missing = Vec::new();
        missing_by_map(file, 0, 32, &mut missing)?;
        Ok(missing)
    }

    #[test]
    fn exactly_what_is_asked_for_comes_of_several_files() -> io::Result<()> {
        let directory = tempfile::tempdir_in(".")?;
        let (one, two) = (uncached(&directory, "1")?, uncached(&directory, "2")?);
        let (Some(one), Some(two)) = (one, two) else {
            println!("skipped: files here stay cached, whatever is asked for");
            return Ok(());
        };
        let closed = QueuedRead {
            fd: -1,
            ..read(&one, 0, 1)
        };
        let beyond = read(&two, 1000, 4);
        // Neighbours in a file, which aren't to become one; others that cannot be read.
        ask_for(&[
            read(&one, 4, 2),
            read(&one, 6, 3),
            closed,
            read(&two, 30, 2),
            beyond,
        ])?;
        let wanted = [vec![(0, 4), (9, 23)], vec![(0, 30)]];
        let started = Instant::now();
        while [missing(&one)?, missing(&two)?] != wanted {
            // A page is there for mincore once it is read.
            assert!(
                started.elapsed() < Duration::from_secs(60),
                "{:?} {:?}",
                missing(&one)?,
                missing(&two)?
            );
            std::thread::sleep(Duration::from_millis(1));
        }
        ask_for(&[])
    }
}
