// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which pages of a file are in memory.
//!
//! `mincore` on a mapping, and not `cachestat`: on overlayfs the latter looks at the overlay's own
//! inode, which has no pages, while a mapping is of the real file.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

use foreread_profile::PAGE_BYTES;
use foreread_recorder::{FileTree, Name, Pages};
use foreread_sys::cache::mapped_residency;
use rustix::fs::{Mode, OFlags, fstat, open};
use rustix::param::page_size;
use rustix::process::geteuid;

use crate::live_tree::LiveTree;

/// Pages asked about at once: one byte each.
const WINDOW_PAGES: usize = 1 << 16;

/// The pages of an opened file that are in memory. None when it was written since `since_wall_ns`:
/// then its pages come from the writing, and a replay would read what the next run overwrites. None
/// either when it can't be known; the whole file is never assumed.
pub(crate) fn read_pages(name: &Name, tree: &LiveTree<'_>, since_wall_ns: i64) -> Pages {
    let mut pages = Pages::default();
    // A server that answers now is asked directly.
    let answers = || tree.is_near(&name.path) || tree.status(&name.path).is_ok();
    if name.is_file() && answers() {
        // A failed system call leaves the pages found up to then.
        let _ = resident(name, since_wall_ns, &mut pages);
    }
    pages
}

fn resident(name: &Name, since_wall_ns: i64, pages: &mut Pages) -> Option<()> {
    let path = Path::new(OsStr::from_bytes(&name.path));
    // Not opened before it is known to be a regular file: others may wait or have effects.
    let before = fs::symlink_metadata(path).ok()?;
    if !before.is_file() || before.ino() != name.inode || before.size() == 0 {
        return None;
    }
    let mtime_ns = before
        .mtime()
        .saturating_mul(1_000_000_000)
        .saturating_add(before.mtime_nsec());
    if mtime_ns != name.mtime_ns || mtime_ns >= since_wall_ns {
        return None;
    }
    // To all others mincore says that everything is in memory.
    if !geteuid().is_root() && before.uid() != geteuid().as_raw() {
        return None;
    }
    let file = open_quietly(path)?;
    let stat = fstat(&file).ok()?;
    if stat.st_ino != name.inode {
        return None;
    }
    let bytes = u64::try_from(stat.st_size).ok()?;
    let window_bytes = (WINDOW_PAGES * page_size()) as u64;
    let mut at = 0;
    while at < bytes {
        let length = window_bytes.min(bytes - at);
        let (start_page, length_pages) = (at / PAGE_BYTES, length.div_ceil(PAGE_BYTES));
        let found = mapped_residency(file.as_fd(), start_page, length_pages).ok()?;
        pages.set_resident(&found, at, bytes, page_size() as u64 / PAGE_BYTES);
        at += window_bytes;
    }
    Some(())
}

fn open_quietly(path: &Path) -> Option<OwnedFd> {
    let flags =
        OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY;
    let open = |extra| open(path, flags | extra, Mode::empty());
    open(OFlags::NOATIME)
        .or_else(|_| open(OFlags::empty()))
        .ok()
}
