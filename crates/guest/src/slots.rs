// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many guests run at once on this machine, whoever starts them: one lock file for each.

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use crate::error::GuestError;

/// Two guests under emulation leave more than a third of two cores idle, while they wait for their
/// modelled disks. With four, each is slow enough to run into its time limit.
pub const GUESTS_AT_ONCE: usize = 3;
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
    fn one_guest_too_many_waits_for_another() {
        let lab = tempfile::tempdir().unwrap();
        for number in 0..GUESTS_AT_ONCE {
            File::create(lab.path().join(format!("slot-{number}"))).unwrap();
        }
        let mut all: Vec<Slot> = (0..GUESTS_AT_ONCE)
            .map(|_| take(lab.path()).unwrap())
            .collect();
        let (sender, receiver) = mpsc::channel();
        std::thread::scope(|scope| {
            let path = lab.path();
            scope.spawn(move || sender.send(take(path).is_ok()).unwrap());
            assert!(receiver.recv_timeout(3 * POLL).is_err(), "too many at once");
            drop(all.pop());
            assert_eq!(receiver.recv(), Ok(true));
        });
    }
}
