// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files that are kept from boot to boot.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use foreread_boot::portable::is_own;
use foreread_boot::{History, Stored};
use foreread_profile::{Profile, decode, encode};
use foreread_sys::read_whole::read_whole;
use foreread_sys::save;
use thiserror::Error;

/// The history of boots.
pub const HISTORY: &str = "history.json";
/// The profile of this system's boot.
pub const PROFILE: &str = "boot.frp";
/// Is there when packages were changed since the last boot began; hooks of package managers make
/// it.
pub const PACKAGES_CHANGED: &str = "packages-changed";
/// A profile with which a boot failed, kept for whoever looks into that.
pub const PROFILE_SET_ASIDE: &str = "boot.failed";
/// The largest history that is read: 64 boots take less than 32 KiB.
const HISTORY_BYTES_MAX: u64 = 1 << 20;
/// Above what the format of profiles can hold (96 MiB).
pub(crate) const PROFILE_BYTES_MAX: u64 = 128 << 20;

/// A directory with these files. Only root may write to it.
#[derive(Clone, Debug)]
pub struct StateDirectory {
    path: PathBuf,
}

/// Why something isn't kept.
#[derive(Debug, Error)]
pub enum StateError {
    /// A file can't be written.
    #[error("cannot keep {}: {error}", path.display())]
    Keep {
        /// The file.
        path: PathBuf,
        /// The kernel's reason.
        error: io::Error,
    },
}

impl StateError {
    /// Whether the file system may be written to later in the boot.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        let Self::Keep { error, .. } = self;
        error.kind() == io::ErrorKind::ReadOnlyFilesystem
    }
}

impl StateDirectory {
    /// One that may not exist yet.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// The same directory of a system whose root is mounted at `root`.
    #[must_use]
    pub fn below(&self, root: &Path) -> Self {
        let relative = self.path.strip_prefix("/").unwrap_or(&self.path);
        Self::new(root.join(relative))
    }

    /// Whether it exists.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.path.is_dir()
    }

    /// The path of one of its files.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The boots so far. A file that can't be read as a history counts as none: why is told.
    pub fn history(&self, tell: &mut dyn FnMut(&str)) -> History {
        let path = self.file(HISTORY);
        let text = match read_whole(&path, "history", HISTORY_BYTES_MAX) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return History::default(),
            Err(error) => {
                tell(&format!(
                    "cannot read {}: {error}; a new one is begun",
                    path.display()
                ));
                return History::default();
            }
        };
        History::from_json(&text).unwrap_or_else(|error| {
            tell(&format!("{}: {error}; a new one is begun", path.display()));
            History::default()
        })
    }

    /// The profile, and what is to be thought of it.
    #[must_use]
    pub fn profile(&self) -> (Option<Profile>, Stored) {
        let path = self.file(PROFILE);
        let said = |why: &dyn std::fmt::Display| {
            (None, Stored::Unusable(format!("{}: {why}", path.display())))
        };
        let bytes = match read_whole(&path, "profile", PROFILE_BYTES_MAX) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return (None, Stored::Missing);
            }
            Err(error) => return said(&error),
        };
        match decode(&bytes) {
            Ok(profile) => {
                let stored = match is_own(&profile) {
                    true => Stored::Own,
                    false => Stored::Foreign,
                };
                (Some(profile), stored)
            }
            Err(error) => said(&error),
        }
    }

    /// Keeps the history.
    ///
    /// # Errors
    /// When it can't be written; the old one stays.
    pub fn keep_history(&self, history: &History) -> Result<(), StateError> {
        let json = history.to_json().map_err(io::Error::from);
        self.keep(HISTORY, json.map(String::into_bytes))
    }

    /// Keeps the profile.
    ///
    /// # Errors
    /// As [`StateDirectory::keep_history`].
    pub fn keep_profile(&self, profile: &Profile) -> Result<(), StateError> {
        self.keep(PROFILE, Ok(encode(profile)))
    }

    fn keep(&self, name: &str, content: io::Result<Vec<u8>>) -> Result<(), StateError> {
        let path = self.file(name);
        let kept = content.and_then(|content| {
            if !self.exists() {
                save::create_directory(&self.path)?;
            }
            save::replace(&path, &content)
        });
        kept.map_err(|error| StateError::Keep { path, error })
    }

    /// Sets the profile aside, with which a boot failed.
    ///
    /// # Errors
    /// When it can't be renamed.
    pub fn set_profile_aside(&self) -> Result<(), StateError> {
        let path = self.file(PROFILE);
        let aside = self.file(PROFILE_SET_ASIDE);
        match fs::rename(&path, &aside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(StateError::Keep { path: aside, error })
            }
            _ => Ok(()),
        }
    }

    /// Whether packages were changed since the last boot began.
    #[must_use]
    pub fn packages_changed(&self) -> bool {
        self.file(PACKAGES_CHANGED).exists()
    }

    /// Forgets that packages were changed: this boot has taken note of it.
    pub fn forget_changes(&self) {
        // Where it can't be removed, the next boot is no typical one either.
        let _ = fs::remove_file(self.file(PACKAGES_CHANGED));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreread_boot::portable::OWN_KEY;
    use foreread_profile::{ProfileBuilder, Program, Source};

    #[test]
    fn what_is_kept_comes_back_and_what_is_damaged_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDirectory::new(directory.path().join("boot"));
        let mut told = Vec::new();
        assert!(!state.exists());
        assert_eq!(
            state.below(Path::new("/root")).file(PROFILE),
            Path::new("/root").join(state.file(PROFILE).strip_prefix("/").unwrap())
        );
        assert_eq!(
            state.history(&mut |line| told.push(line.to_owned())),
            History::default()
        );
        assert_eq!(state.profile().1, Stored::Missing);
        state.set_profile_aside().unwrap();
        state.keep_history(&History::default()).unwrap();
        let mut profile = ProfileBuilder::new(Program::default(), Source::default()).finish();
        state.keep_profile(&profile).unwrap();
        assert_eq!(state.profile().1, Stored::Foreign);
        profile.program.key = OWN_KEY.to_vec();
        state.keep_profile(&profile).unwrap();
        assert_eq!(state.profile().1, Stored::Own);
        assert!(told.is_empty());
        fs::write(state.file(HISTORY), "{").unwrap();
        fs::write(state.file(PROFILE), "FR").unwrap();
        state.history(&mut |line| told.push(line.to_owned()));
        assert!(told[0].ends_with("a new one is begun"), "{told:?}");
        assert!(matches!(state.profile().1, Stored::Unusable(_)));
        state.set_profile_aside().unwrap();
        assert_eq!(state.profile().1, Stored::Missing);
        assert!(state.file(PROFILE_SET_ASIDE).exists());
        fs::create_dir(state.file(PROFILE)).unwrap();
        assert!(matches!(state.profile().1, Stored::Unusable(_)));
    }

    #[test]
    fn changes_of_packages_are_noted_until_they_are_forgotten() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDirectory::new(directory.path());
        assert!(!state.packages_changed());
        fs::write(state.file(PACKAGES_CHANGED), "").unwrap();
        assert!(state.packages_changed());
        state.forget_changes();
        state.forget_changes();
        assert!(!state.packages_changed());
    }

    #[test]
    fn nothing_is_kept_below_a_file() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("boot"), "").unwrap();
        let state = StateDirectory::new(directory.path().join("boot"));
        let error = state.keep_history(&History::default()).unwrap_err();
        assert!(error.to_string().starts_with("cannot keep "), "{error}");
        assert!(!error.is_read_only());
    }
}
