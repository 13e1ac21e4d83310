// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `apply` has changed, and what became of it.
//!
//! In: the root of a system and names of devices. Out: each entry of the journal with its standing.
//! Changes nothing.

use std::path::Path;

use anyhow::{Result, bail};
use foreread_device::{Entry, Journal, Machine, Standing, look, recover};
use foreread_linux_sizing::devices;
use foreread_linux_sizing::knobs::SysfsKnobs;
use foreread_sys::clock::now_unix_s;

use super::report::StatusReport;
use super::{journal_file, persist};
use crate::device_state::DeviceState;

/// The readahead of these devices, or of all for which the journal has an entry.
pub fn status(root: &Path, names: &[String], with_history: bool) -> Result<StatusReport> {
    let mut journal = journal_file::read(&DeviceState::until_stop(root))?;
    let mut knobs = SysfsKnobs::below(root);
    // In memory only: a look changes nothing, and another process may be at it just now.
    recover(&mut journal, &mut knobs, now_unix_s());
    let is_meant = meant(root, names, &journal)?;
    let mut open = Vec::new();
    for entry in journal.open().filter(|entry| is_meant(entry)) {
        let present = look(&mut knobs, entry.number)?;
        let present = present.as_ref().map(|(identity, kib)| (identity, *kib));
        open.push((entry.clone(), entry.standing(present)));
    }
    let closed = journal.closed().filter(|entry| is_meant(entry)).cloned();
    Ok(StatusReport {
        open,
        closed: with_history.then(|| closed.collect()),
        rule: persist::look(root)?,
        rule_path: persist::path(root),
    })
}

impl StatusReport {
    /// Whether all that was applied is set.
    pub fn is_in_force(&self) -> bool {
        let mut standings = self.open.iter().map(|(_, standing)| standing);
        standings.all(|standing| matches!(standing, Standing::Ours | Standing::Manual))
    }
}

/// Which entries are of the devices that were named.
fn meant(
    root: &Path,
    names: &[String],
    journal: &Journal,
) -> Result<impl Fn(&Entry) -> bool + use<>> {
    let mut numbers = Vec::new();
    let all = names.is_empty();
    // All need not be found.
    let machine = match all {
        true => Machine::default(),
        false => devices::read(root),
    };
    for name in names {
        let known = journal.open().chain(journal.closed());
        let mut known = known.filter(|entry| entry.is_called(name));
        match devices::find(&machine, root, name).map(|device| device.number) {
            Some(number) => numbers.push(number),
            None => match known.next() {
                Some(entry) => numbers.push(entry.number),
                None => bail!("{name}: no such device, and none in the journal"),
            },
        }
    }
    Ok(move |entry: &Entry| all || numbers.contains(&entry.number))
}
