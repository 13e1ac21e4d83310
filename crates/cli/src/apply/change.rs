// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes settings, for a person and for udev: wishes go in, what came of each comes out, and what
//! was changed is in the journal.

use std::path::Path;

use anyhow::{Context, Result};
use foreread_device::{Advice, Applied, Device, Origin, Wish};
use foreread_linux_sizing::knobs::SysfsKnobs;
use foreread_sys::clock::now_unix_s;

use super::journal_file::{self, JournalFile};
use crate::device_state::DeviceState;
use crate::output;
use crate::probing::put_back_interrupted;

/// The wish for what is advised for a device.
pub fn wish(device: &Device, advice: &Advice, kib: u64, origin: Origin, take_over: bool) -> Wish {
    Wish {
        number: device.number,
        identity: device.identity.clone(),
        kib,
        reason: advice.brief().to_owned(),
        origin,
        take_over,
    }
}

/// Changes settings and writes that into the journal.
pub fn change(sysroot: &Path, wishes: &[Wish]) -> Result<Vec<Applied>> {
    let state = DeviceState::until_stop(sysroot);
    put_back_probed(&state);
    let locked = state
        .lock()
        .context("nothing is changed that can't be journalled")?;
    let mut journal = journal_file::read(locked.state())?;
    let mut knobs = SysfsKnobs::below(sysroot);
    let mut keeper = JournalFile(&locked);
    let applied =
        foreread_device::apply(&mut journal, &mut knobs, &mut keeper, wishes, now_unix_s())?;
    Ok(applied)
}

/// Puts back values that killed probes left, so that they don't pass for somebody's setting.
pub fn put_back_probed(state: &DeviceState) {
    for done in put_back_interrupted(state) {
        output::note(&done);
    }
}
