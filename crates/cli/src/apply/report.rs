// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `apply`, `status` and `rollback` have to tell: their commands fill it in, `document` says
//! it to programs and `people` to people.

use std::path::PathBuf;

use foreread_device::{Applied, Device, Entry, RolledBack, Standing, Wish};
use foreread_sys::open_files::OpenFiles;

use super::persist::Rule;

/// What `apply` has to tell.
pub struct ApplyReport {
    pub dry_run: bool,
    /// What is wished for, and what is set now.
    pub wishes: Vec<(Device, Wish)>,
    /// What came of it; nothing when nothing was to be done.
    pub done: Vec<Done>,
    /// Who keeps the old value.
    pub holders: OpenFiles,
    /// Whether the udev rule was changed, if it was asked for.
    pub installed: Option<bool>,
    pub rule: PathBuf,
}

/// What was wished for one device, and what came of it.
pub struct Done {
    pub device: Device,
    pub wish: Wish,
    pub applied: Applied,
}

/// What `status` has to tell.
pub struct StatusReport {
    /// What is in the journal, and what became of it.
    pub open: Vec<(Entry, Standing)>,
    /// What has ended, if it was asked for.
    pub closed: Option<Vec<Entry>>,
    pub rule: Rule,
    pub rule_path: PathBuf,
}

/// What `rollback` has to tell.
pub struct RollbackReport {
    /// Each entry, and what came of it.
    pub undone: Vec<(Entry, RolledBack)>,
    /// Whether the udev rule was there, if its removal was asked for.
    pub removed: Option<bool>,
    pub rule: PathBuf,
}
