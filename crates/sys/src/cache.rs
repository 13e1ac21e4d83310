// SPDX-License-Identifier: MIT OR Apache-2.0
//! The pages of a file that are in the page cache.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use foreread_profile::PAGE_BYTES;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// `struct cachestat_range` and `struct cachestat` of `<linux/mman.h>`.
#[repr(C)]
struct Range {
    offset_bytes: u64,
    length_bytes: u64,
}

#[repr(C)]
#[derive(Default)]
struct Stat {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Where some of so many pages are missing, all may be taken as missing: to read what is cached
/// again costs less than to ask more often.
pub const WHOLE_PAGES_MAX: u64 = 16;

/// cachestat has the same number on every architecture (alpha aside).
const SYS_CACHESTAT: libc::c_long = 451;

/// Number of cached pages among these pages of a file. The call reads nothing in.
///
/// # Errors
/// `ENOSYS` before Linux 6.5; `EPERM` for files of others since 6.12, to hide what they read.
pub fn cached_pages(file: impl AsFd, start_page: u64, pages: u64) -> io::Result<u64> {
    Ok(stat(file, start_page, pages)?.cached.min(pages))
}

/// Number of these pages that the kernel has reclaimed and that are still missing: those for which
/// it keeps a shadow entry. Pages that were dropped on request leave none.
///
/// # Errors
/// Those of [`cached_pages`].
pub fn reclaimed_pages(file: impl AsFd, start_page: u64, pages: u64) -> io::Result<u64> {
    Ok(stat(file, start_page, pages)?.evicted.min(pages))
}

/// The state of these pages, in pages of ours.
fn stat(file: impl AsFd, start_page: u64, pages: u64) -> io::Result<Stat> {
    let range = Range {
        offset_bytes: start_page * PAGE_BYTES,
        length_bytes: pages * PAGE_BYTES,
    };
    let mut stat = Stat::default();
    // SAFETY: both structs are laid out as the kernel's and live through the call.
    let result = unsafe {
        libc::syscall(
            SYS_CACHESTAT,
            file.as_fd().as_raw_fd(),
            &raw const range,
            &raw mut stat,
            0u32,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // The kernel counts in its own pages.
    let kernel_page = rustix::param::page_size() as u64;
    stat.cached = stat.cached * kernel_page / PAGE_BYTES;
    stat.evicted = stat.evicted * kernel_page / PAGE_BYTES;
    Ok(stat)
}

/// Whether this kernel has cachestat and lets us use it.
#[must_use]
pub fn has_cachestat() -> bool {
    // On no file at all it finds nothing but that.
    // SAFETY: no memory is passed.
    let result = unsafe { libc::syscall(SYS_CACHESTAT, -1, 0usize, 0usize, 0u32) };
    let error = io::Error::last_os_error();
    // A filter may say that it isn't permitted.
    result == 0 || !matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM))
}

/// Whether one page of a file is cached; works on any file that can be read.
#[must_use]
pub fn is_cached(file: impl AsFd, page: u64) -> bool {
    // Where NOWAIT isn't supported, the answer is "no".
    read_cached_byte(file, page) == Ok(1)
}

/// Whether one page of a file is known not to be cached. A page that others are reading counts as
/// missing. `false` where the file system refuses `RWF_NOWAIT`.
#[must_use]
pub fn is_missing(file: impl AsFd, page: u64) -> bool {
    read_cached_byte(file, page) == Err(Errno::AGAIN)
}

/// Reads one byte of a page unless that would wait; nothing is read in.
fn read_cached_byte(file: impl AsFd, page: u64) -> rustix::io::Result<usize> {
    let mut byte = [0u8; 1];
    let mut slices = [io::IoSliceMut::new(&mut byte)];
    let flags = rustix::io::ReadWriteFlags::NOWAIT;
    rustix::io::preadv2(file, &mut slices, page * PAGE_BYTES, flags)
}

/// Adds the parts of a range that aren't cached, by a mapping of the file. Needed where cachestat
/// doesn't exist (before Linux 6.5) or finds nothing (overlayfs, whose own inodes cache nothing).
/// Mapping reads nothing in.
///
/// # Errors
/// When the file can't be mapped. For files that are neither our own nor writable to us the kernel
/// would say that all is cached, so ask for own files only.
pub fn missing_by_map(
    file: impl AsFd,
    start_page: u64,
    pages: u64,
    missing: &mut Vec<(u64, u64)>,
) -> io::Result<()> {
    /// Pages of 4 KiB mapped at a time: 256 MiB, whose residency vector takes 64 KiB.
    const MAPPED_PAGES_MAX: u64 = 1 << 16;
    // The kernel counts in its own pages.
    let kernel_page = (rustix::param::page_size() as u64 / PAGE_BYTES).max(1);
    let end = start_page.saturating_add(pages);
    let mut at = start_page;
    while at < end {
        let from = at - at % kernel_page;
        let to = end.min(from.saturating_add(MAPPED_PAGES_MAX));
        let cached = mapped_residency(file.as_fd(), from, to - from)?;
        for page in at..to {
            let index = usize::try_from((page - from) / kernel_page).unwrap_or(usize::MAX);
            if cached.get(index).is_none_or(|byte| byte & 1 == 0) {
                push_missing(missing, page, 1);
            }
        }
        at = to;
    }
    Ok(())
}

/// One byte for each page of the kernel, of which the lowest bit says whether it's cached.
///
/// # Errors
/// When the file can't be mapped.
pub fn mapped_residency(file: BorrowedFd<'_>, start_page: u64, pages: u64) -> io::Result<Vec<u8>> {
    let too_long = |_| io::Error::from_raw_os_error(libc::EOVERFLOW);
    let length = usize::try_from(pages * PAGE_BYTES).map_err(too_long)?;
    let offset = start_page
        .checked_mul(PAGE_BYTES)
        .ok_or_else(|| io::Error::from_raw_os_error(libc::EOVERFLOW))?;
    let mut residency = vec![0u8; length.div_ceil(rustix::param::page_size())];
    // SAFETY: a new mapping of memory that no other code has; it is not touched, only asked about,
    // and unmapped at once. `residency` has a byte for each of its pages.
    unsafe {
        let (protection, flags) = (ProtFlags::READ, MapFlags::SHARED);
        let map = mmap(
            std::ptr::null_mut(),
            length,
            protection,
            flags,
            file,
            offset,
        )?;
        let asked = libc::mincore(map, length, residency.as_mut_ptr());
        let error = io::Error::last_os_error();
        munmap(map, length)?;
        if asked != 0 {
            return Err(error);
        }
    }
    Ok(residency)
}

fn push_missing(missing: &mut Vec<(u64, u64)>, start_page: u64, pages: u64) {
    match missing.last_mut() {
        Some((start, length)) if *start + *length == start_page => *length += pages,
        _ => missing.push((start_page, pages)),
    }
}

/// Adds the parts of a range that aren't cached, found by halving.
pub fn missing_ranges(
    file: impl AsFd + Copy,
    start_page: u64,
    pages: u64,
    missing: &mut Vec<(u64, u64)>,
) {
    let cached = cached_pages(file, start_page, pages).unwrap_or(0);
    if cached == pages {
        return;
    }
    if cached == 0 || pages <= WHOLE_PAGES_MAX {
        push_missing(missing, start_page, pages);
        return;
    }
    let half = pages / 2;
    missing_ranges(file, start_page, half, missing);
    missing_ranges(file, start_page + half, pages - half, missing);
}

/// The cached ones of the first `pages` pages of a file, as runs. Before Linux 6.5 each page is
/// asked about, so there the answer for more than 16 GiB is empty: it would take too long.
///
/// # Errors
/// When the file can't be mapped, where that is needed; see [`missing_by_map`].
pub fn cached_ranges(file: impl AsFd + Copy, pages: u64) -> io::Result<Vec<(u64, u64)>> {
    const MAPPED_PAGES_MAX: u64 = (16 << 30) / PAGE_BYTES;
    let mut cached = Vec::new();
    if cached_pages(file, 0, 1).is_ok() {
        push_cached(file, 0, pages, &mut cached);
    } else if pages <= MAPPED_PAGES_MAX {
        let mut missing = Vec::new();
        missing_by_map(file, 0, pages, &mut missing)?;
        let mut at = 0;
        for (start, length) in missing.into_iter().chain([(pages, 0)]) {
            if start > at {
                cached.push((at, start - at));
            }
            at = start + length;
        }
    }
    Ok(cached)
}

/// By halving. A run may come in several parts.
fn push_cached(file: impl AsFd + Copy, start: u64, pages: u64, cached: &mut Vec<(u64, u64)>) {
    let count = cached_pages(file, start, pages).unwrap_or(0);
    if count == pages && pages > 0 {
        cached.push((start, pages));
    } else if count > 0 {
        let half = pages / 2;
        push_cached(file, start, half, cached);
        push_cached(file, start + half, pages - half, cached);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use super::*;

    /// A file of 80 pages in memory, which alone can be relied on to stay there: on tmpfs.
    fn file_with_a_hole() -> io::Result<Option<File>> {
        let Ok(file) = tempfile::tempfile_in("/dev/shm") else {
            println!("skipped: nothing can be written in /dev/shm");
            return Ok(None);
        };
        file.set_len(80 * PAGE_BYTES)?;
        file.write_all_at(&[1; 20 * PAGE_BYTES as usize], 0)?;
        file.write_all_at(&[1; 16 * PAGE_BYTES as usize], 64 * PAGE_BYTES)?;
        Ok(Some(file))
    }

    #[test]
    fn cached_runs_are_found() -> io::Result<()> {
        let Some(file) = file_with_a_hole()? else {
            return Ok(());
        };
        let found = cached_ranges(&file, 80)?;
        let pages: Vec<u64> = found.iter().flat_map(|(at, n)| *at..*at + *n).collect();
        assert_eq!(pages, (0..20).chain(64..80).collect::<Vec<_>>());
        assert_eq!(cached_ranges(&file, 0)?, []);
        Ok(())
    }

    #[test]
    fn a_mapping_tells_each_page() -> io::Result<()> {
        let Some(file) = file_with_a_hole()? else {
            return Ok(());
        };
        let missing = |start, pages| -> io::Result<Vec<(u64, u64)>> {
            let mut missing = Vec::new();
            missing_by_map(&file, start, pages, &mut missing)?;
            Ok(missing)
        };
        assert_eq!(missing(0, 80)?, [(20, 44)]);
        assert_eq!(missing(0, 20)?, []);
        assert_eq!(missing(19, 2)?, [(20, 1)]);
        assert_eq!(missing(63, 17)?, [(63, 1)]);
        assert_eq!(missing(7, 0)?, []);
        let mut joined = vec![(10, 5), (15, 5)];
        missing_by_map(&file, 20, 10, &mut joined)?;
        assert_eq!(joined, [(10, 5), (15, 15)]);
        Ok(())
    }

    #[test]
    fn a_page_that_would_be_waited_for_is_missing() -> io::Result<()> {
        let file = tempfile::tempfile()?;
        file.write_all_at(&[1; 4 * PAGE_BYTES as usize], 0)?;
        file.sync_all()?;
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
        let mut missing = Vec::new();
        missing_by_map(&file, 0, 4, &mut missing)?;
        if missing != [(0, 4)] || is_refused(&file) {
            println!("skipped: temporary files can't be dropped or read without waiting");
            return Ok(());
        }
        assert!(is_missing(&file, 2));
        assert!(!is_cached(&file, 2));
        missing.clear();
        missing_by_map(&file, 0, 4, &mut missing)?;
        assert_eq!(missing, [(0, 4)], "the question has read it in");
        file.read_exact_at(&mut [0; PAGE_BYTES as usize], 2 * PAGE_BYTES)?;
        assert!(!is_missing(&file, 2));
        assert!(is_cached(&file, 2));
        Ok(())
    }

    fn is_refused(file: &File) -> bool {
        read_cached_byte(file, 0) == Err(Errno::OPNOTSUPP)
    }

    #[test]
    fn halving_finds_all_that_is_missing_and_little_else() -> io::Result<()> {
        let Some(file) = file_with_a_hole()? else {
            return Ok(());
        };
        if cached_pages(&file, 0, 1).is_err() {
            println!("skipped: this kernel has no cachestat");
            return Ok(());
        }
        let mut missing = Vec::new();
        missing_ranges(&file, 0, 80, &mut missing);
        let [(start, pages)] = missing[..] else {
            return Err(io::Error::other(format!("{missing:?}")));
        };
        assert!(start <= 20 && start + 16 > 20, "{missing:?}");
        assert!(
            start + pages >= 64 && start + pages < 64 + 16,
            "{missing:?}"
        );
        assert_eq!(cached_pages(&file, 0, 80)?, 36);
        Ok(())
    }
}
