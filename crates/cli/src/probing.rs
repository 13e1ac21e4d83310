// SPDX-License-Identifier: MIT OR Apache-2.0
//! A readahead setting that is changed for the time of a probe only. Before each change it is
//! written down, so that a start after a kill finds what to put back. A reboot puts everything back
//! by itself, so this is kept where a reboot empties it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use foreread_device::Identity;
use foreread_linux_sizing::probe::identity;
use foreread_sys::read_ahead::ReadAheadSetting;
use foreread_sys::save::{self, Lock};
use serde::{Deserialize, Serialize};

use crate::device_state::DeviceState;

/// Name and version of what is written down.
const SCHEMA: &str = "foreread.probing/1";
const PREFIX: &str = "probing-";
const SUFFIX: &str = ".json";

/// A setting that is to be put back.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Changed {
    schema: String,
    identity: Identity,
    setting: PathBuf,
    read_ahead_kib_before: u64,
    /// The last two values written or about to be; any other is somebody else's.
    read_ahead_kib_written: Vec<u64>,
}

/// A setting as long as it is changed. Dropping it puts it back.
pub struct HeldSetting {
    setting: ReadAheadSetting,
    changed: Changed,
    journal: PathBuf,
    held: bool,
    _lock: Lock,
}

impl HeldSetting {
    /// Takes a setting, which nobody else may probe meanwhile, and makes sure that it can be
    /// changed.
    pub fn take(state: &DeviceState, setting: &ReadAheadSetting) -> Result<Self> {
        let path = setting.path().display();
        let why = |error: io::Error| anyhow::anyhow!("cannot change {path}: {}", why(&error));
        setting.check_writable().map_err(why)?;
        let name = file_name(&setting.name);
        let lock = locked(state, &name)?;
        let before = setting.read_ahead_kib();
        let before = before.with_context(|| format!("cannot read {}", setting.path().display()))?;
        let mut held = Self {
            setting: setting.clone(),
            changed: Changed {
                schema: SCHEMA.to_owned(),
                identity: identity(setting),
                setting: setting.path().to_owned(),
                read_ahead_kib_before: before,
                read_ahead_kib_written: vec![before],
            },
            journal: state.path(&format!("{PREFIX}{name}{SUFFIX}")),
            held: true,
            _lock: lock,
        };
        if let Err(error) = held.set(before) {
            held.held = false;
            let _ = fs::remove_file(&held.journal);
            return Err(error);
        }
        Ok(held)
    }

    /// The setting before the probe, in KiB.
    pub fn before_kib(&self) -> u64 {
        self.changed.read_ahead_kib_before
    }

    /// Whether it still exists: it goes with its device.
    pub fn is_there(&self) -> bool {
        self.setting.path().exists()
    }

    /// Sets it for files that are opened from now on.
    pub fn set(&mut self, read_ahead_kib: u64) -> Result<()> {
        // Checked before the journal forgets an older value, and again after it is written: that
        // may take as long as a disk does, and somebody else may set it meanwhile.
        self.check_ours()?;
        let written = &mut self.changed.read_ahead_kib_written;
        written.push(read_ahead_kib);
        written.drain(..written.len().saturating_sub(2));
        let text = serde_json::to_string_pretty(&self.changed)?;
        save::replace_until_reboot(&self.journal, text.as_bytes())
            .with_context(|| format!("cannot write {}", self.journal.display()))?;
        self.check_ours()?;
        let path = self.setting.path().display();
        self.setting
            .set_read_ahead_kib(read_ahead_kib)
            .map_err(|error| anyhow::anyhow!("cannot write {path}: {}", why(&error)))
    }

    /// Puts it back, unless somebody else has set it meanwhile.
    pub fn put_back(&mut self) -> Result<()> {
        if !self.held {
            return Ok(());
        }
        self.held = false;
        let ours = self.check_ours();
        if ours.is_ok() {
            let before = self.changed.read_ahead_kib_before;
            let path = self.setting.path().display();
            self.setting
                .set_read_ahead_kib(before)
                .with_context(|| format!("cannot write {before} back to {path}"))?;
        }
        let _ = fs::remove_file(&self.journal);
        ours
    }

    fn check_ours(&self) -> Result<()> {
        let path = self.setting.path();
        let now = self.setting.read_ahead_kib();
        let now = now.with_context(|| format!("cannot read {}", path.display()))?;
        if !self.changed.read_ahead_kib_written.contains(&now) {
            bail!(
                "somebody else has set {} to {now} meanwhile; it is left so",
                path.display()
            );
        }
        Ok(())
    }
}

impl Drop for HeldSetting {
    fn drop(&mut self) {
        // A caller that can report a failure has called `put_back` before; this call is for early
        // returns.
        let _ = self.put_back();
    }
}

fn why(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            format!("{error}; a probe sets it for some seconds, so run it as root")
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            format!("{error}: /sys is mounted read-only here, as in a container; run it outside")
        }
        _ => error.to_string(),
    }
}

/// A name of the kernel's has no slash but `!` in its place; a mount's source may have any.
fn file_name(name: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || "-:.".contains(c) {
            c
        } else {
            '_'
        }
    };
    name.chars().map(plain).collect()
}

/// The lock of that device, for as long as it is probed.
fn locked(state: &DeviceState, name: &str) -> Result<Lock> {
    let path = state.path(&format!("{PREFIX}{name}.lock"));
    let lock = state.create().and_then(|()| save::try_lock(&path));
    let lock = lock.with_context(|| {
        format!(
            "cannot write {}, beside which the old setting is kept in case the probe is killed",
            path.display()
        )
    })?;
    lock.with_context(|| format!("{name} is being probed already; wait until that has ended"))
}

/// Puts back what killed probes left changed, as far as `state`, which must be
/// [`DeviceState::until_stop`], knows of them. Returns what was done, a sentence for each setting.
pub fn put_back_interrupted(state: &DeviceState) -> Vec<String> {
    let entries = fs::read_dir(state.directory())
        .into_iter()
        .flatten()
        .flatten();
    entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let name = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
            let lock = entry.path().with_file_name(format!("{PREFIX}{name}.lock"));
            // A probe that still runs holds the lock and will put the setting back itself.
            let _lock = save::try_lock(&lock).ok()??;
            put_back(&entry.path())
        })
        .collect()
}

fn put_back(journal: &Path) -> Option<String> {
    let changed = fs::read_to_string(journal).ok();
    let changed = changed.and_then(|text| serde_json::from_str::<Changed>(&text).ok());
    let done = changed.and_then(|changed| {
        let setting = ReadAheadSetting::at(&changed.setting, &changed.identity.name)?;
        let now = setting.read_ahead_kib().ok()?;
        let before = changed.read_ahead_kib_before;
        let same = identity(&setting).is_same_attachment(&changed.identity);
        if !same || now == before || !changed.read_ahead_kib_written.contains(&now) {
            return None;
        }
        let name = &changed.identity.name;
        Some(match setting.set_read_ahead_kib(before) {
            Ok(()) => format!(
                "a probe of {name} was killed; its readahead is back from {now} to {before} KiB"
            ),
            Err(error) => format!(
                "a probe of {name} was killed and left its readahead at {now} KiB instead of \
                 {before}, which can't be put back: {}",
                why(&error)
            ),
        })
    });
    let failed = done.as_ref().is_some_and(|done| done.contains("can't be"));
    if !failed {
        let _ = fs::remove_file(journal);
    }
    done
}
