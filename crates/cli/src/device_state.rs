// SPDX-License-Identifier: MIT OR Apache-2.0
//! Storage of measurements and changes of devices. It belongs to the machine, not to a user:
//! `apply` by hand and `apply` by udev must find the same files.
//!
//! Measurements are kept for good. The journal of changes lives in `/run`: udev can already write
//! there in early boot, and it ends with the boot, as the settings themselves do.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use foreread_device::{Measured, MeasuredBook};
use foreread_sys::save;

/// A directory of files about devices.
pub struct DeviceState {
    directory: PathBuf,
    /// The store of profiles around it, if there is one: nobody else may look into that.
    store: Option<PathBuf>,
}

impl DeviceState {
    /// Permanent storage of the machine whose root directory is `sysroot`:
    /// `$FOREREAD_STATE_DIR/devices`, else `/var/lib/foreread/devices`.
    pub fn of(sysroot: &Path) -> Self {
        Self::in_environment().unwrap_or_else(|| Self::below(sysroot.join("var/lib/foreread")))
    }

    /// Storage until the machine stops: `$FOREREAD_STATE_DIR/devices`, else `/run/foreread`.
    pub fn until_stop(sysroot: &Path) -> Self {
        Self::in_environment().unwrap_or_else(|| Self {
            directory: sysroot.join("run/foreread"),
            store: None,
        })
    }

    fn in_environment() -> Option<Self> {
        let set = env::var_os("FOREREAD_STATE_DIR").filter(|value| !value.is_empty());
        set.map(|store| Self::below(store.into()))
    }

    fn below(store: PathBuf) -> Self {
        Self {
            directory: store.join("devices"),
            store: Some(store),
        }
    }

    /// Makes it, if need be.
    pub fn create(&self) -> io::Result<()> {
        if let Some(store) = &self.store {
            if let Some(parent) = store.parent() {
                save::create_directory_for_all(parent)?;
            }
            save::create_directory(store)?;
        }
        save::create_directory_for_all(&self.directory)
    }

    /// Where its files are; it may not be there yet.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// A file of it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Takes it for changing: one process at a time, others wait.
    pub fn lock(&self) -> Result<LockedState<'_>> {
        let cannot = || format!("cannot write to {}", self.directory.display());
        self.create().with_context(cannot)?;
        let lock = save::lock(&self.directory).with_context(cannot)?;
        save::remove_leftovers(&self.directory);
        Ok(LockedState {
            state: self,
            _lock: lock,
        })
    }

    /// A file of it, or `None` when there is none yet.
    pub fn read(&self, name: &str) -> Result<Option<String>> {
        let path = self.path(name);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    /// Results of probes on this machine.
    pub fn measured(&self) -> Result<MeasuredBook> {
        self.read(MEASURED)?.map_or_else(
            || Ok(MeasuredBook::default()),
            |text| {
                let path = self.path(MEASURED);
                MeasuredBook::from_json(&text).with_context(|| unusable(&path))
            },
        )
    }

    /// Keeps a measurement, in place of earlier ones of the device. Returns whether it was kept:
    /// one that is not certain doesn't replace one that is.
    pub fn keep(&self, measured: Measured) -> Result<bool> {
        let locked = self.lock()?;
        let mut book = self.measured()?;
        let is_kept = book.push(measured);
        if is_kept {
            locked.replace(MEASURED, &book.to_json()?)?;
        }
        Ok(is_kept)
    }
}

/// A directory of files about devices that nobody else changes meanwhile.
pub struct LockedState<'a> {
    state: &'a DeviceState,
    _lock: save::Lock,
}

impl LockedState<'_> {
    /// The directory, for reading.
    pub fn state(&self) -> &DeviceState {
        self.state
    }

    /// Replaces a file of it: whole, or not at all. Everybody may read it.
    pub fn replace(&self, name: &str, text: &str) -> Result<()> {
        let path = self.state.path(name);
        save::replace_for_all(&path, text.as_bytes())
            .with_context(|| format!("cannot keep {}", path.display()))
    }
}

/// The file of what probes have measured.
const MEASURED: &str = "measured.json";

fn unusable(path: &Path) -> String {
    format!("{} can't be used; to begin anew, remove it", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(directory: &Path) -> DeviceState {
        DeviceState::below(directory.join("store"))
    }

    #[test]
    fn what_is_changed_is_read() -> Result<()> {
        let directory = tempfile::tempdir()?;
        let state = state(directory.path());
        assert_eq!(state.read("file")?, None);
        state.lock()?.replace("file", "old")?;
        state.lock()?.replace("file", "new")?;
        assert_eq!(state.read("file")?.as_deref(), Some("new"));
        Ok(())
    }

    #[test]
    fn nobody_else_may_look_into_the_store_around_it() -> Result<()> {
        use std::os::unix::fs::PermissionsExt;

        let directory = tempfile::tempdir()?;
        state(directory.path()).lock()?.replace("file", "text")?;
        let mode = |path: &str| -> Result<u32> {
            let metadata = directory.path().join(path).metadata()?;
            Ok(metadata.permissions().mode() & 0o777)
        };
        assert_eq!(mode("store")?, 0o700);
        assert_eq!(mode("store/devices")? & 0o022, 0);
        Ok(())
    }

    #[test]
    fn a_broken_book_is_named_and_kept() -> Result<()> {
        let directory = tempfile::tempdir()?;
        let state = state(directory.path());
        assert_eq!(state.measured()?, MeasuredBook::default());
        state.lock()?.replace(MEASURED, "{")?;
        let error = format!("{:#}", state.measured().expect_err("no book"));
        assert!(error.contains("remove it"), "{error}");
        assert_eq!(state.read(MEASURED)?.as_deref(), Some("{"));
        Ok(())
    }
}
