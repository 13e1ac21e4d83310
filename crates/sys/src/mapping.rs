// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mappings of files: at chosen addresses, to be touched; and one to ask what is cached.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::ptr;

use foreread_profile::PAGE_BYTES;
use rustix::mm::Advice;

const PAGE: usize = PAGE_BYTES as usize;
/// Pages of a page table.
const TABLE_PAGES: usize = 512;

/// A mapping that is never touched, of which mincore(2) tells what of the file is up to date.
pub struct Residency {
    file: File,
    address: *mut libc::c_void,
    bytes: usize,
}

impl Residency {
    /// Maps a file of `file_bytes` bytes.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn new(file: File, file_bytes: u64) -> io::Result<Self> {
        let bytes = (file_bytes.div_ceil(PAGE_BYTES) as usize).max(1) * PAGE;
        // SAFETY: a new mapping; no other code has its memory.
        let address = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            file,
            address,
            bytes,
        })
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Number of pages of the file that are cached and up to date.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn cached_pages(&self, file_pages: u64) -> io::Result<u64> {
        let cached = self.is_cached(file_pages)?;
        Ok(cached.into_iter().filter(|is_cached| *is_cached).count() as u64)
    }

    /// For each page of the file, whether it is cached and up to date (mincore_page).
    ///
    /// # Errors
    /// As the kernel says.
    pub fn is_cached(&self, file_pages: u64) -> io::Result<Vec<bool>> {
        let mut residency = vec![0u8; self.bytes / PAGE];
        // SAFETY: the vector has a byte for each page of the mapping.
        let asked = unsafe { libc::mincore(self.address, self.bytes, residency.as_mut_ptr()) };
        if asked != 0 {
            return Err(io::Error::last_os_error());
        }
        let pages = residency.iter().take(file_pages as usize);
        Ok(pages.map(|byte| byte & 1 == 1).collect())
    }
}

impl Drop for Residency {
    fn drop(&mut self) {
        // SAFETY: the mapping is this one's alone, and ends with it.
        unsafe {
            libc::munmap(self.address, self.bytes);
        }
    }
}

/// A mapping to be touched.
pub struct View {
    /// Reserved, so that the mapping can be at a chosen place in it.
    reserved: *mut libc::c_void,
    reserved_bytes: usize,
    address: *mut u8,
    start: u64,
    pages: u64,
    /// /proc/self/pagemap.
    pagemap: File,
}

impl View {
    /// Maps pages of a file so that the first one is at a place in a page table.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn new(
        file: BorrowedFd<'_>,
        start: u64,
        pages: u64,
        slot: u64,
        exec: bool,
    ) -> io::Result<Self> {
        let pagemap = File::open("/proc/self/pagemap")?;
        // Enough that no page table of the mapping is shared with anything else of the process: the
        // first fault finds none, every time.
        let reserved_bytes = (pages as usize + 3 * TABLE_PAGES) * PAGE;
        // SAFETY: a new mapping without access.
        let reserved = unsafe {
            libc::mmap(
                ptr::null_mut(),
                reserved_bytes,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if reserved == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let first = (reserved.addr() / PAGE).next_multiple_of(TABLE_PAGES) + slot as usize;
        let place = reserved.cast::<u8>().with_addr(first * PAGE);
        let protection = libc::PROT_READ | if exec { libc::PROT_EXEC } else { 0 };
        // SAFETY: within what was reserved just now: it begins less than 1,024 pages after the
        // start, and 1,536 more than asked for are there.
        let address = unsafe {
            libc::mmap(
                place.cast(),
                pages as usize * PAGE,
                protection,
                libc::MAP_SHARED | libc::MAP_FIXED,
                file.as_fd().as_raw_fd(),
                (start * PAGE_BYTES) as libc::off_t,
            )
        };
        let view = Self {
            reserved,
            reserved_bytes,
            address: place,
            start,
            pages,
            pagemap,
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(view)
    }

    /// Reads a byte of a page of the file, if it is mapped and there.
    pub fn touch(&self, page: u64, file_pages: u64) {
        let mapped = self.start..self.start + self.pages;
        if !mapped.contains(&page) || page >= file_pages {
            return;
        }
        let at = (page - self.start) as usize * PAGE;
        // SAFETY: the page is mapped for reading, and within the file, which is not truncated.
        unsafe { self.address.add(at).read_volatile() };
    }

    /// Gives advice for all of it. Only advice about how it will be read has an effect.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn advise(&self, advice: Advice) -> io::Result<()> {
        let advice = match advice {
            Advice::Sequential => libc::MADV_SEQUENTIAL,
            Advice::Random => libc::MADV_RANDOM,
            _ => libc::MADV_NORMAL,
        };
        self.madvise(0, self.pages, advice)
    }

    /// Has the part of it that these pages of the file are in read.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn will_need(&self, start: u64, pages: u64) -> io::Result<()> {
        let first = start.max(self.start);
        let end = start.saturating_add(pages).min(self.start + self.pages);
        if first >= end {
            return Ok(());
        }
        self.madvise(first - self.start, end - first, libc::MADV_WILLNEED)
    }

    fn madvise(&self, first: u64, pages: u64, advice: libc::c_int) -> io::Result<()> {
        let at = self.address.wrapping_add(first as usize * PAGE);
        // SAFETY: a part of the mapping; none of these kinds of advice changes what is read there.
        let done = unsafe { libc::madvise(at.cast(), pages as usize * PAGE, advice) };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Pages of the file that are in the page table, in order.
    ///
    /// # Errors
    /// When `/proc/self/pagemap` can't be read.
    pub fn mapped_pages(&self, file_pages: u64) -> io::Result<Vec<u64>> {
        /// Present, or "swapped": what a file's page shows for the moment in which it is migrated.
        const MAPPED: u64 = 3 << 62;
        let mut entries = vec![0u8; self.pages as usize * 8];
        let first = self.address.addr() / PAGE;
        self.pagemap.read_exact_at(&mut entries, first as u64 * 8)?;
        let entries = entries.as_chunks::<8>().0;
        let pages = (self.start..file_pages).zip(entries);
        let mapped = pages.filter(|(_, entry)| u64::from_ne_bytes(**entry) & MAPPED != 0);
        Ok(mapped.map(|(page, _)| page).collect())
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: what was reserved is this one's alone, the mapping in it too, and both end.
        unsafe {
            libc::munmap(self.reserved, self.reserved_bytes);
        }
    }
}
