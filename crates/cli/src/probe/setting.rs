// SPDX-License-Identifier: MIT OR Apache-2.0
//! The setting that a probe changes, shared with the thread that puts it back when the user ends
//! the probe.

use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use foreread_linux_sizing::probe::Stop;
use foreread_sys::interrupt::Interrupt;

use crate::probing::HeldSetting;

/// How long what is under way may take to end after an interrupt, before the setting is put back
/// over its head.
const END_PATIENCE: Duration = Duration::from_secs(2);

/// A setting that the thread that watches for signals can put back, too.
#[derive(Clone)]
pub struct SharedSetting(Arc<Mutex<HeldSetting>>);

impl SharedSetting {
    pub fn new(setting: HeldSetting) -> Self {
        Self(Arc::new(Mutex::new(setting)))
    }

    pub fn lock(&self) -> MutexGuard<'_, HeldSetting> {
        self.0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Ends the probe when the user says so. A read that hangs holds up everything but this thread.
pub fn watch(interrupt: Interrupt, stop: Stop, setting: SharedSetting) -> Result<()> {
    let wait = move || {
        while !matches!(interrupt.wait(Duration::from_secs(3600)), Ok(true) | Err(_)) {}
        stop.stop();
        thread::sleep(END_PATIENCE);
        let _ = setting.lock().put_back();
    };
    thread::Builder::new()
        .name("interrupt".to_owned())
        .spawn(wait)
        .context("cannot start a thread")?;
    Ok(())
}
