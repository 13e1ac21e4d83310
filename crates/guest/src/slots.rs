// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits the number of guests that run at once on this machine, in all processes together: one
//! lock file for each guest.

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use crate::error::GuestError;

/// A guest under emulation keeps one core busy, often two; with more guests than this, each is slow
/// enough to run into its time limit.
const GUESTS_AT_ONCE: usize = 2;
const POLL: Duration = Duration::from_millis(100);

/// The right to run a guest; given back when dropped, and by the kernel when the process dies.
pub(crate) struct Slot {
    _lock: File,
}

/// Waits until fewer than [`GUESTS_AT_ONCE`] guests of this lab run.
pub(crate) fn take(lab: &Path) -> Result<Slot, GuestError> {
    loop {
        for number in 0..GUESTS_AT_ONCE {
            let path = lab.join(format!("slot-{number}"));
            let file = OpenOptions::new()
                .read(true)
                .open(&path)
                .map_err(GuestError::at("open", &path))?;
            if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
                return Ok(Slot { _lock: file });
            }
        }
        std::thread::sleep(POLL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_third_guest_waits_for_one_of_two() {
        let lab = tempfile::tempdir().unwrap();
        for number in 0..GUESTS_AT_ONCE {
            File::create(lab.path().join(format!("slot-{number}"))).unwrap();
        }
        let first = take(lab.path()).unwrap();
        let _second = take(lab.path()).unwrap();
        let (sender, receiver) = mpsc::channel();
        std::thread::scope(|scope| {
            let path = lab.path();
            scope.spawn(move || sender.send(take(path).is_ok()).unwrap());
            assert!(receiver.recv_timeout(3 * POLL).is_err(), "three at once");
            drop(first);
            assert_eq!(receiver.recv(), Ok(true));
        });
    }
}
