// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads `/proc/thread-self/mountinfo`, at once or whenever the kernel says that it has changed.

use std::fs::{self, File};
use std::io::{self, Read};
use std::sync::Arc;

pub use foreread_core::mounts::{MountPoint, Mounts};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Reads the mounts that the calling thread sees: a thread can be in a namespace of its own.
///
/// # Errors
/// When `/proc` isn't mounted or can't be read.
pub fn mounts_of_self() -> io::Result<Mounts> {
    Ok(Mounts::parse(&fs::read("/proc/thread-self/mountinfo")?))
}

/// [`Mounts`] that are kept, and read again only when the kernel says that they have changed.
#[derive(Debug, Default)]
pub struct MountTable {
    kept: Option<(File, Arc<Mounts>)>,
}

impl MountTable {
    /// The mounts that the calling thread sees now. All calls must come from one thread, or from
    /// threads of one namespace.
    ///
    /// # Errors
    /// When `/proc` isn't mounted or can't be read.
    pub fn current(&mut self) -> io::Result<Arc<Mounts>> {
        if let Some((file, mounts)) = &self.kept
            && !has_changed(file)
        {
            return Ok(Arc::clone(mounts));
        }
        // Opened before it is read, so that a change meanwhile is reported the next time.
        let mut file = File::open("/proc/thread-self/mountinfo")?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        let mounts = Arc::new(Mounts::parse(&text));
        self.kept = Some((file, Arc::clone(&mounts)));
        Ok(mounts)
    }
}

/// Whether mounts have changed since the file was opened: then it is "exceptional", as proc(5) has
/// it of `/proc/mounts`. What can't be told may have changed.
fn has_changed(file: &File) -> bool {
    let mut polled = [PollFd::new(file, PollFlags::PRI)];
    let now = Timespec::default();
    !matches!(poll(&mut polled, Some(&now)), Ok(0))
}
