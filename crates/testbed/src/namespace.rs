// SPDX-License-Identifier: MIT OR Apache-2.0
//! A mount namespace that dies with its last process.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::error::{Lacking, TestbedError};
use crate::sys;

/// The namespaces made by this process, by number, each with the one it was made from. A second
/// testbed in one of them must not copy it: the copy would hold the first testbed's mounts, and
/// with them its loop device.
static PRIVATE: Mutex<BTreeMap<u64, Arc<File>>> = Mutex::new(BTreeMap::new());

/// A handle on a mount namespace.
#[derive(Debug)]
pub(crate) struct MountNamespace {
    file: Arc<File>,
    inode: u64,
    outside: Arc<File>,
}

impl MountNamespace {
    /// Moves the calling thread into a private mount namespace, unless it is in one already.
    pub(crate) fn make_private() -> Result<Self, TestbedError> {
        let refused = |error: io::Error| Lacking::Namespace(error.to_string());
        let mut private = PRIVATE
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let (before, inode) = current().map_err(refused)?;
        if let Some(outside) = private.get(&inode) {
            return Ok(Self {
                file: Arc::new(before),
                inode,
                outside: Arc::clone(outside),
            });
        }
        sys::unshare_mounts().map_err(refused)?;
        // Otherwise, where `/` is shared as systemd makes it, every mount would appear outside too.
        mount_change(
            "/",
            MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
        )
        .map_err(|error| refused(error.into()))?;
        let (made, inode) = current().map_err(refused)?;
        let outside = Arc::new(before);
        private.insert(inode, Arc::clone(&outside));
        Ok(Self {
            file: Arc::new(made),
            inode,
            outside,
        })
    }

    /// The namespace from which it was made, which holds none of its mounts.
    pub(crate) fn outside(&self) -> Arc<File> {
        Arc::clone(&self.outside)
    }

    /// Moves the calling thread into it.
    pub(crate) fn enter(&self) -> io::Result<()> {
        if current()?.1 == self.inode {
            return Ok(());
        }
        move_into(&self.file)
    }

    /// Runs `work` inside it: here when the calling thread is in it, else in a thread of its own.
    pub(crate) fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        if current()?.1 == self.inode {
            return Ok(work());
        }
        thread::scope(|scope| {
            let worker = scope.spawn(|| self.enter().map(|()| work()));
            worker
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

/// Moves the calling thread into the namespace of that file.
pub(crate) fn move_into(file: &File) -> io::Result<()> {
    sys::unshare_working_directory()?;
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Mount))?;
    Ok(())
}

/// The calling thread's namespace and its number.
fn current() -> io::Result<(File, u64)> {
    let file = File::open("/proc/thread-self/ns/mnt")?;
    let inode = rustix::fs::fstat(&file)?.st_ino;
    Ok((file, inode))
}
