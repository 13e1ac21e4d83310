// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists disks for the BPF programs that claim falsely to be rotational.
//!
//! In: the disks of `/sys`. Out: their numbers in a map of the programs. Whoever asks for it waits
//! for [`WAIT_MAX`] at most. While somebody sets one of the limits of a disk, such as `rotational`
//! or `max_sectors_kb`, no other can be read, and the kernel first waits for all requests of that
//! disk (`queue_limits_commit_update_frozen()` of Linux 6.18). So a disk that does not answer would
//! hold up the start of a command.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use foreread_sys::block_device::heads;
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapMut};

/// Ten disks take 1 ms.
const WAIT_MAX: Duration = Duration::from_millis(20);

/// The map of disks that claim it falsely.
pub(super) struct Heads {
    headless: Arc<MapHandle>,
    /// Whether a thread reads claims.
    is_reading: Arc<AtomicBool>,
}

impl Heads {
    pub fn of(headless: &MapMut<'_>) -> libbpf_rs::Result<Self> {
        Ok(Self {
            headless: Arc::new(MapHandle::try_from(headless)?),
            is_reading: Arc::default(),
        })
    }

    /// Reads the claims of all disks. That of a disk that appears later counts until the next call.
    /// While one disk can't be asked, nothing new is told of any.
    pub fn tell(&self) {
        if self.is_reading.swap(true, Ordering::Acquire) {
            return;
        }
        let (headless, is_reading) = (Arc::clone(&self.headless), Arc::clone(&self.is_reading));
        let (told, is_told) = channel::<()>();
        let read = move || {
            tell_all(&headless);
            is_reading.store(false, Ordering::Release);
            drop(told);
        };
        match thread::Builder::new()
            .name("watch-heads".into())
            .spawn(read)
        {
            // Nothing is sent: it ends, or takes too long.
            Ok(_) => drop(is_told.recv_timeout(WAIT_MAX)),
            Err(_) => self.is_reading.store(false, Ordering::Release),
        }
    }
}

fn tell_all(headless: &MapHandle) {
    for (disk, has_head) in heads() {
        let number = (u64::from(disk.major) << 32 | u64::from(disk.minor)).to_ne_bytes();
        // If the map is full, the claim counts. An entry may be left from another disk with this
        // number.
        let _ = match has_head {
            true => headless.delete(&number),
            false => headless.update(&number, &1u32.to_ne_bytes(), MapFlags::ANY),
        };
    }
}
