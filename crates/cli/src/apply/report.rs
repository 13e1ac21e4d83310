// SPDX-License-Identifier: MIT OR Apache-2.0
//! Results of `apply`, `status` and `rollback` as values. The commands fill them in; `json`
//! renders them as JSON, `human` as text.

use std::path::PathBuf;

use foreread_device::{Applied, Device, Entry, RolledBack, Standing, Wish};
use foreread_sys::open_files::OpenFiles;

use super::persist::Rule;

/// Result of `apply`.
pub struct ApplyReport {
    pub dry_run: bool,
    /// Wished settings, with each device as it was found.
    pub wishes: Vec<(Device, Wish)>,
    /// Result for each wish; empty if nothing had to be done.
    pub done: Vec<Done>,
    /// Processes that keep the old value in their open files.
    pub holders: OpenFiles,
    /// Whether the udev rule was changed, or in a dry run would be, if it was asked for.
    pub installed: Option<bool>,
    pub rule: PathBuf,
}

/// One wish and its result.
pub struct Done {
    pub device: Device,
    pub wish: Wish,
    pub applied: Applied,
}

/// Result of `status`.
pub struct StatusReport {
    /// Open entries of the journal, with the current state of each.
    pub open: Vec<(Entry, Standing)>,
    /// Closed entries of the journal, if they were asked for.
    pub closed: Option<Vec<Entry>>,
    pub rule: Rule,
    pub rule_path: PathBuf,
}

/// Result of `rollback`.
pub struct RollbackReport {
    /// Each entry, with the result of its rollback.
    pub undone: Vec<(Entry, RolledBack)>,
    /// Whether the udev rule was there, if its removal was asked for.
    pub removed: Option<bool>,
    pub rule: PathBuf,
}
