// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists disks for the BPF programs that claim falsely to be rotational.
//!
//! In: the disks of `/sys`. Out: their numbers in a map of the programs. Whoever asks for it waits
//! for [`WAIT_MAX`] at most.
//!
//! A disk that does not answer would hold up the start of a command otherwise. Setting one of its
//! limits, such as `rotational` or `max_sectors_kb`, waits for all of its requests, and meanwhile
//! no other limit can be read (`queue_limits_commit_update_frozen()` of Linux 6.18).

use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::Duration;

use foreread_sys::block_device::heads;
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapMut};

/// Ten disks take 1 ms.
const WAIT_MAX: Duration = Duration::from_millis(20);

/// The map of disks that claim it falsely.
pub(super) struct Heads {
    headless: Arc<MapHandle>,
    /// Tells the end of the thread that read claims last, and nothing else.
    last: Option<Receiver<()>>,
}

impl Heads {
    pub fn of(headless: &MapMut<'_>) -> libbpf_rs::Result<Self> {
        Ok(Self {
            headless: Arc::new(MapHandle::try_from(headless)?),
            last: None,
        })
    }

    /// Reads the claims of all disks. That of a disk that appears later counts until the next call.
    /// While one disk can't be asked, nothing new is told of any.
    pub fn tell(&mut self) {
        let is_reading = |end: &Receiver<()>| end.try_recv() == Err(TryRecvError::Empty);
        if self.last.as_ref().is_some_and(is_reading) {
            return;
        }
        let headless = Arc::clone(&self.headless);
        let (reads, end) = channel();
        let read = move || {
            tell_all(&headless);
            drop(reads);
        };
        // If no thread can be made, `reads` is dropped at once, and the claims count.
        let _ = thread::Builder::new()
            .name("watch-heads".into())
            .spawn(read);
        let _ = end.recv_timeout(WAIT_MAX);
        self.last = Some(end);
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
