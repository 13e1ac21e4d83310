// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where what was measured and changed of devices is kept. It belongs to the machine, not to a user:
//! `apply` by hand and `apply` by udev must find the same.
//!
//! What was measured stays. What was changed lives in `/run`, which lasts from early boot, when udev
//! already applies, until the machine stops, as the settings themselves do.

use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use foreread_device::{Measured, MeasuredBook};
use foreread_linux::save;

/// A directory of files about devices.
pub struct DeviceState {
    directory: PathBuf,
}

impl DeviceState {
    /// What stays, of the machine whose root directory is `sysroot`: `$FOREREAD_STATE_DIR/devices`,
    /// else `/var/lib/foreread/devices`.
    pub fn of(sysroot: &Path) -> Self {
        Self::under(sysroot, "var/lib/foreread/devices")
    }

    /// What lasts until the machine stops: `$FOREREAD_STATE_DIR/devices`, else `/run/foreread`.
    pub fn until_stop(sysroot: &Path) -> Self {
        Self::under(sysroot, "run/foreread")
    }

    fn under(sysroot: &Path, otherwise: &str) -> Self {
        let set = env::var_os("FOREREAD_STATE_DIR").filter(|value| !value.is_empty());
        let directory = set.map_or_else(
            || sysroot.join(otherwise),
            |top| PathBuf::from(top).join("devices"),
        );
        Self { directory }
    }

    /// A file of it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Changes a file of it; one process at a time. `change` gets the old text, and gives the new
    /// one, or `None` to leave it as it is.
    pub fn change<T>(
        &self,
        name: &str,
        change: impl FnOnce(Option<String>) -> Result<(Option<String>, T)>,
    ) -> Result<T> {
        let path = self.path(name);
        let cannot = || format!("cannot keep {}", path.display());
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(&self.directory)
            .with_context(cannot)?;
        let _lock = save::lock(&self.directory).with_context(cannot)?;
        save::remove_leftovers(&self.directory);
        let (text, result) = change(self.read(name)?)?;
        if let Some(text) = text {
            save::replace(&path, text.as_bytes()).with_context(cannot)?;
        }
        Ok(result)
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

    /// What probes have measured on this machine.
    pub fn measured(&self) -> Result<MeasuredBook> {
        self.read(MEASURED)?.map_or_else(
            || Ok(MeasuredBook::default()),
            |text| {
                let path = self.path(MEASURED);
                MeasuredBook::from_json(&text).with_context(|| unusable(&path))
            },
        )
    }

    /// Keeps a measurement, in place of earlier ones of the device.
    pub fn keep(&self, measured: Measured) -> Result<()> {
        let path = self.path(MEASURED);
        self.change(MEASURED, |text| {
            let book = text.map_or_else(
                || Ok(MeasuredBook::default()),
                |text| MeasuredBook::from_json(&text),
            );
            let mut book = book.with_context(|| unusable(&path))?;
            book.push(measured);
            Ok((Some(book.to_json()?), ()))
        })
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
        DeviceState {
            directory: directory.join("devices"),
        }
    }

    #[test]
    fn what_is_changed_is_read() -> Result<()> {
        let directory = tempfile::tempdir()?;
        let state = state(directory.path());
        assert_eq!(state.read("file")?, None);
        let old = state.change("file", |old| Ok((Some("new".to_owned()), old)))?;
        assert_eq!(old, None);
        let old = state.change("file", |old| Ok((None, old)))?;
        assert_eq!(old.as_deref(), Some("new"));
        assert_eq!(state.read("file")?.as_deref(), Some("new"));
        Ok(())
    }

    #[test]
    fn a_broken_book_is_named_and_kept() -> Result<()> {
        let directory = tempfile::tempdir()?;
        let state = state(directory.path());
        assert_eq!(state.measured()?, MeasuredBook::default());
        state.change(MEASURED, |_| Ok((Some("{".to_owned()), ())))?;
        let error = format!("{:#}", state.measured().expect_err("no book"));
        assert!(error.contains("remove it"), "{error}");
        assert_eq!(state.read(MEASURED)?.as_deref(), Some("{"));
        Ok(())
    }
}
