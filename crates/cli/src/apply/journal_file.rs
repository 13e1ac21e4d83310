// SPDX-License-Identifier: MIT OR Apache-2.0
//! The journal as a file.

use anyhow::{Context, Result};
use foreread_device::{Journal, KeepError, Keeper};

use crate::device_state::{DeviceState, LockedState};

/// Its name in the directory of what lasts until the machine stops.
const JOURNAL: &str = "journal.json";

/// Reads it; empty when there is none.
pub fn read(state: &DeviceState) -> Result<Journal> {
    let Some(text) = state.read(JOURNAL)? else {
        return Ok(Journal::default());
    };
    Journal::from_json(&text).with_context(|| {
        format!(
            "{} can't be used; to begin anew, and forget what to undo, remove it",
            state.path(JOURNAL).display()
        )
    })
}

/// Keeps it there.
pub struct JournalFile<'a>(pub &'a LockedState<'a>);

impl Keeper for JournalFile<'_> {
    fn keep(&mut self, journal: &Journal) -> Result<(), KeepError> {
        let kept = journal
            .to_json()
            .map_err(anyhow::Error::from)
            .and_then(|text| self.0.replace(JOURNAL, &text));
        kept.map_err(|error| KeepError(format!("{error:#}")))
    }
}
