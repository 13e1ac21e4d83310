// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads a device as programs do, to time it: sequentially through the page cache with the kernel's
//! own readahead, past the cache, and at random.
//!
//! Pages that were cached before stay cached. Only regions without cached pages are read, and only
//! the pages that were read are dropped again.

mod direct;
mod identity;
mod pass;
mod readers;
mod target;
pub mod workload;

pub use direct::{Direct, Latency};
pub use identity::identity;
pub use pass::{PassTimes, Reader};
pub use readers::{Readers, read_together};
pub use target::{Kind, Target, TargetError};

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Bytes of a read, as `dd` and most programs make them small: a page.
pub const READ_BYTES: u64 = 4096;

/// Why a part of a probe gave nothing.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// A stop was requested.
    #[error("interrupted")]
    Stopped,
    /// The device said no.
    #[error("cannot read at byte {offset_bytes}: {error}")]
    Read {
        /// Offset of the read, in bytes.
        offset_bytes: u64,
        /// The kernel's error.
        error: io::Error,
    },
    /// The region had come into memory meanwhile, so its time says nothing.
    #[error("somebody else reads it, too")]
    Warm,
    /// The device is gone, or became shorter.
    #[error("it ends at byte {offset_bytes} now: it was removed or cut short")]
    Ended {
        /// Offset of the end, in bytes.
        offset_bytes: u64,
    },
    /// The setting can't be changed.
    #[error("cannot set the readahead of the device: {0}")]
    Setting(io::Error),
    /// A system call failed.
    #[error("cannot {what}: {error}")]
    System {
        /// The step that was attempted.
        what: &'static str,
        /// The kernel's error.
        error: io::Error,
    },
}

/// The error of a system call.
fn failed(what: &'static str) -> impl FnOnce(io::Error) -> ProbeError {
    move |error| ProbeError::System { what, error }
}

/// Raises the priority of the calling thread, and of those it starts. A timed thread waits for the
/// device most of the time, and should not wait for a processor, too.
///
/// # Errors
/// The kernel allows it to root only.
pub fn prefer_this_thread() -> io::Result<()> {
    Ok(rustix::process::setpriority_process(None, -20)?)
}

/// For how long something has waited for a processor since the boot; `None` where the kernel
/// doesn't count that.
#[must_use]
pub fn processor_pressure() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/pressure/cpu").ok()?;
    let some = text.lines().find(|line| line.starts_with("some"))?;
    let total = some.split_once("total=")?.1.trim().parse().ok()?;
    Some(Duration::from_micros(total))
}

/// A wish to end that any thread can have.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Ends the measurement in progress, soon.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it is to end.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn check(&self) -> Result<(), ProbeError> {
        if self.is_stopped() {
            return Err(ProbeError::Stopped);
        }
        Ok(())
    }
}
