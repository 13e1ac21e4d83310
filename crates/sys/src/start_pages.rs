// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the pages of the own executable that a start needs, in one pass.
//!
//! A page fault on a file that isn't cached reads 128 KiB around the page. The few hundred pages
//! that `foreread run` touches are spread over the whole executable. So without help nearly all of
//! it is read, in a hundred requests that each wait for the one before.
//!
//! Input: four bitmaps in the section `.foreread.start` of the executable, with one bit for each 4
//! KiB of the file. Each marks the pages that a process touches.
//!
//! * `with_profile`: a run with a profile, until its command starts.
//! * `without_profile`: a run without one, until its command starts.
//! * `at_all`: any run, until its end.
//! * `boot`: `boot serve`, until its replay and its recorder are at work.
//!
//! The linker leaves them empty. `scripts/start-pages.sh` finds these pages, and writes them into
//! the finished file.
//!
//! Effect: the marked pages are requested at once, in the order of the file. Faults on the
//! executable read no more than the page that they need. With empty bitmaps nothing is done. If the
//! pages are cached, this costs some microseconds.
//!
//! A constructor makes the first request. The dynamic linker calls it before anything else in the
//! executable runs: the pages that Rust's runtime touches before `main` would cost 1.8 MB.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use foreread_profile::PAGE_BYTES;

use crate::cache::missing_by_map;

/// Bytes of a bitmap: enough for an executable of 16 MiB; pages beyond are left to the kernel.
const BITMAP_BYTES: usize = 512;

/// Unmarked pages that are read as well.
#[derive(Clone, Copy)]
struct Extra {
    /// Marked ranges with at most this many unmarked pages between them are read as one.
    gap_pages_max: u64,
    /// Pages that are read on both sides of marked ones.
    margin_pages: u64,
}

/// 4 KiB take less time than another request, on any device.
const RUN: Extra = Extra {
    gap_pages_max: 1,
    margin_pages: 0,
};

/// On another processor or kernel a boot touches other pages than where they were found: without
/// the instructions BMI2, zstd takes other functions. A guest waited 75 ms for such pages, all of
/// them within 2 of marked ones. Gaps are larger because others wait for the same disk: its queue
/// may hold 64 requests in all. A hard disk passes over 32 KiB in the time that it takes to read
/// them.
const BOOT: Extra = Extra {
    gap_pages_max: 8,
    margin_pages: 2,
};

type Bitmap = [u8; BITMAP_BYTES];

/// The bitmaps. Changed in the file after it was linked, never in memory.
#[repr(C)]
struct StartPages {
    with_profile: Bitmap,
    without_profile: Bitmap,
    at_all: Bitmap,
    boot: Bitmap,
}

// SAFETY: a section of its own, with nothing but this in it. Mutable so that it lies beside the
// other writable data, which the dynamic linker has brought in already.
#[used]
#[unsafe(link_section = ".foreread.start")]
static mut START_PAGES: StartPages = StartPages {
    with_profile: [0; BITMAP_BYTES],
    without_profile: [0; BITMAP_BYTES],
    at_all: [0; BITMAP_BYTES],
    boot: [0; BITMAP_BYTES],
};

/// Its lock is held by the process that goes beside this boot. If it is there, that process runs
/// since the initramfs, and another one only waits for it.
pub const BOOT_LOCK: &CStr = c"/run/foreread-boot.lock";

/// The files that `boot serve` reads before anything else, each with a directory block and an inode
/// that are at another place of the disk than the executable.
pub const BOOT_FILES: [&CStr; 2] = [
    c"/var/lib/foreread/boot/history.json",
    c"/var/lib/foreread/boot/boot.frp",
];

/// Above what these files usually take: the profile of a boot of 40 services is 44 KiB.
const BOOT_FILE_BYTES_MAX: i64 = 1 << 20;

/// Whether this process is a `foreread run` whose first pages were requested.
static IS_RUN: AtomicBool = AtomicBool::new(false);

/// The paths that the constructor uses. They lie in the writable data, as the bitmaps; constants
/// are on other pages, which aren't in memory yet.
struct Paths {
    executable: [u8; 15],
    boot_lock: [u8; 24],
    boot_files: [[u8; 36]; 2],
}

// SAFETY: a section of its own, as above; never written to.
#[used]
#[unsafe(link_section = ".foreread.paths")]
static mut PATHS: Paths = Paths {
    executable: padded(c"/proc/self/exe"),
    boot_lock: padded(BOOT_LOCK),
    boot_files: [padded(BOOT_FILES[0]), padded(BOOT_FILES[1])],
};

/// A path with its final 0, and more of these.
const fn padded<const N: usize>(path: &CStr) -> [u8; N] {
    let bytes = path.to_bytes();
    assert!(bytes.len() < N);
    let mut padded = [0; N];
    let mut at = 0;
    while at < bytes.len() {
        padded[at] = bytes[at];
        at += 1;
    }
    padded
}

/// `.preinit_array` comes before the constructors of all others, and glibc hands over the command
/// line.
// SAFETY: the section holds pointers to functions of this type.
#[cfg(target_env = "gnu")]
#[used]
#[unsafe(link_section = ".preinit_array")]
static CONSTRUCTOR: extern "C" fn(c_int, *const *const c_char) = construct;

/// Requests what `foreread run` touches until its command starts. Must call nothing but libc: all
/// other code is on pages that haven't been requested yet. The linker puts its section behind all
/// other code. So it lies beside the data that the dynamic linker has read.
#[cfg(target_env = "gnu")]
#[unsafe(link_section = ".foreread.construct")]
extern "C" fn construct(count: c_int, arguments: *const *const c_char) {
    if count < 2 || arguments.is_null() {
        return;
    }
    let word = |at: usize| {
        // SAFETY: there are `count` pointers to strings that end with 0, and then a null pointer,
        // by the convention of main(). `count` is 2 at least.
        let word = unsafe { *arguments.add(at) };
        // SAFETY: as above.
        (!word.is_null()).then(|| unsafe { CStr::from_ptr(word) }.to_bytes())
    };
    match word(1) {
        Some(b"run") => {}
        Some(b"boot") if word(2) == Some(b"serve") => {
            // As the unit starts it. With options it may have other files.
            request_for_boot(count == 3);
            return;
        }
        _ => return,
    }
    // SAFETY: a valid place in a static that is never written to.
    if unsafe { request(&raw const START_PAGES.with_profile, RUN) } {
        IS_RUN.store(true, Ordering::Relaxed);
        fault_single_pages();
    }
}

/// Requests what a recorder needs until the command starts.
pub fn read_for_recording() {
    if IS_RUN.load(Ordering::Relaxed) {
        // SAFETY: a valid place in a static that is never written to.
        unsafe { request(&raw const START_PAGES.without_profile, RUN) };
    }
}

/// Requests all other marked pages, when the command has been started.
pub fn read_rest() {
    if IS_RUN.swap(false, Ordering::Relaxed) {
        // SAFETY: a valid place in a static that is never written to.
        unsafe { request(&raw const START_PAGES.at_all, RUN) };
    }
}

/// Requests the marked pages of the own executable, and the extra ones. Returns whether any are
/// marked. Failures are left to the page faults.
///
/// # Safety
/// The bitmap must be readable.
#[inline(always)]
unsafe fn request(bitmap: *const Bitmap, extra: Extra) -> bool {
    // The content is changed after it was compiled. A volatile read would be one instruction for
    // each byte, 12 KB of them.
    // SAFETY: by the contract.
    let bitmap = unsafe { std::ptr::read(std::hint::black_box(bitmap)) };
    let mut file: c_int = -1;
    for_each_range(&bitmap, extra, |start_page, pages| {
        let bytes = |pages: u64| i64::try_from(pages * PAGE_BYTES).unwrap_or(0);
        // SAFETY: the path ends with 0; no memory is passed to the other call.
        unsafe {
            if file < 0 {
                let path = (&raw const PATHS.executable).cast();
                file = libc::open(path, libc::O_RDONLY | libc::O_CLOEXEC);
            }
            let (start, length) = (bytes(start_page), bytes(pages));
            libc::posix_fadvise(file, start, length, libc::POSIX_FADV_WILLNEED);
        }
    });
    if file >= 0 {
        // SAFETY: opened above, and used by no other code.
        unsafe { libc::close(file) };
    }
    bitmap.iter().any(|&byte| byte != 0)
}

/// Requests what `boot serve` needs, if no process serves this boot yet.
#[inline(always)]
fn request_for_boot(has_usual_files: bool) {
    // SAFETY: a string that ends with 0.
    if unsafe { libc::access((&raw const PATHS.boot_lock).cast(), libc::F_OK) } == 0 {
        return;
    }
    // First the names, which are looked up one after another: each look would wait for all that was
    // requested before it.
    if has_usual_files {
        request_boot_files();
    }
    // Pages that are not marked are few. Faults go on reading what is around them.
    // SAFETY: a valid place in a static that is never written to.
    unsafe { request(&raw const START_PAGES.boot, BOOT) };
}

/// Requests the files of a boot. They are read while the executable's pages are.
#[inline(always)]
fn request_boot_files() {
    for at in 0..BOOT_FILES.len() {
        let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOFOLLOW;
        // SAFETY: the path ends with 0; no memory is passed to the other calls.
        unsafe {
            let path = (&raw const PATHS.boot_files[at]).cast();
            let file = libc::open(path, flags);
            if file >= 0 {
                libc::posix_fadvise(file, 0, BOOT_FILE_BYTES_MAX, libc::POSIX_FADV_WILLNEED);
                libc::close(file);
            }
        }
    }
}

/// Faults on the constants and the code of the executable read one page each from now on.
#[inline(always)]
fn fault_single_pages() {
    unsafe extern "C" {
        // Both are defined by the linker.
        static __executable_start: u8;
        static etext: u8;
    }
    // Only the addresses are taken; there is nothing behind them to be read.
    let (start, end) = (
        (&raw const __executable_start).addr(),
        (&raw const etext).addr(),
    );
    // SAFETY: asks for a constant of the system.
    let page_bytes = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(1);
    let start = start - start % page_bytes;
    let map = std::ptr::without_provenance_mut::<c_void>(start);
    // SAFETY: the range lies within the mapped executable, and the advice changes no content. A gap
    // between its segments gives ENOMEM after the advice was taken for the rest.
    unsafe { libc::madvise(map, end - start, libc::MADV_RANDOM) };
}

/// Calls `found` with start and length, in pages, of each run of marked pages, with the extra ones.
/// Pages behind the end of the file may be among them.
#[inline(always)]
fn for_each_range(bitmap: &Bitmap, extra: Extra, mut found: impl FnMut(u64, u64)) {
    let is_marked = |page: u64| {
        let byte = usize::try_from(page / 8).ok().and_then(|at| bitmap.get(at));
        byte.map(|byte| byte & (1 << (page % 8)) != 0)
    };
    let (mut start, mut end) = (0u64, 0u64);
    for page in 0_u64.. {
        let marked = is_marked(page);
        if marked == Some(false) {
            continue;
        }
        let first = page.saturating_sub(extra.margin_pages);
        let is_apart = marked.is_none() || first.saturating_sub(end) > extra.gap_pages_max;
        // The only call, so that it is inlined. A second one led to code elsewhere, for which a
        // boot waited 0.3 s.
        if end > 0 && is_apart {
            found(start, end - start);
            end = 0;
        }
        if marked.is_none() {
            return;
        }
        if end == 0 {
            start = first;
        }
        end = page + 1 + extra.margin_pages;
    }
}

/// Adds the pages of `file` that are cached to a bitmap; an empty one is made as long as it has to
/// be.
///
/// # Errors
/// Those of mapping the file.
pub fn add_cached(file: &File, bitmap: &mut Vec<u8>) -> io::Result<()> {
    let pages = file.metadata()?.len().div_ceil(PAGE_BYTES);
    let mut missing = Vec::new();
    missing_by_map(file, 0, pages, &mut missing)?;
    bitmap.resize(BITMAP_BYTES, 0);
    for page in 0..pages {
        let is_missing = missing
            .iter()
            .any(|&(start, length)| (start..start + length).contains(&page));
        let byte = usize::try_from(page / 8).unwrap_or(usize::MAX);
        if let (false, Some(byte)) = (is_missing, bitmap.get_mut(byte)) {
            *byte |= 1 << (page % 8);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    fn ranges_of(marked: &[u64], extra: Extra) -> Vec<(u64, u64)> {
        let mut bitmap = [0; BITMAP_BYTES];
        for page in marked {
            bitmap[usize::try_from(page / 8).unwrap()] |= 1 << (page % 8);
        }
        let mut ranges = Vec::new();
        for_each_range(&bitmap, extra, |start, pages| {
            ranges.push((start, pages));
        });
        ranges
    }

    #[test]
    fn nearby_pages_are_one_range() {
        assert_eq!(ranges_of(&[], BOOT), []);
        assert_eq!(ranges_of(&[0, 7, 16], RUN), [(0, 1), (7, 1), (16, 1)]);
        assert_eq!(ranges_of(&[1, 3, 4, 6, 4095], RUN), [(1, 6), (4095, 1)]);
        assert_eq!(ranges_of(&[1, 8, 21, 35], BOOT), [(0, 24), (33, 5)]);
    }

    #[test]
    fn the_bitmap_has_the_cached_pages() -> io::Result<()> {
        let Ok(file) = tempfile::tempfile_in("/dev/shm") else {
            println!("skipped: nothing can be written in /dev/shm");
            return Ok(());
        };
        file.set_len(20 * PAGE_BYTES)?;
        file.write_all_at(&[1], 3 * PAGE_BYTES)?;
        file.write_all_at(&[1], 17 * PAGE_BYTES)?;
        let mut bitmap = vec![1];
        add_cached(&file, &mut bitmap)?;
        assert_eq!(bitmap[..4], [0b1001, 0, 0b10, 0]);
        assert_eq!(bitmap.len(), BITMAP_BYTES);
        Ok(())
    }
}
