// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files that are kept from boot to boot.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use foreread_boot::portable::is_own;
use foreread_boot::trace::{BootTrace, TraceError};
use foreread_boot::{History, Stored};
use foreread_core::grouped;
use foreread_profile::{DecodeError, Profile, decode, encode, within};
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
/// Is there when the next boot is only to be timed. Then `foreread-boot.service` is not started
/// until the boot has reached its target.
pub const TIMED_ONLY: &str = "timed-only";
/// Is there when the next boot is to be traced.
pub const TRACE_NEXT: &str = "trace-next";
/// The directory of traces, each named by the number of its boot.
const TRACES: &str = "traces";
/// Traces that are kept.
const TRACES_MAX: usize = 4;
/// Above what a trace of `READS_MAX` reads takes.
const TRACE_BYTES_MAX: u64 = 64 << 20;
/// The largest history that is read: 64 boots take less than 32 KiB.
const HISTORY_BYTES_MAX: u64 = 1 << 20;
/// Above what the format of profiles can hold (96 MiB).
pub(crate) const PROFILE_BYTES_MAX: u64 = 128 << 20;

/// Page ranges of a boot's profile. A range costs some 4,000 instructions until it is read, so that
/// 2^20 of them took a guest 4 s of 12. A boot of 40 services has some thousand.
pub(crate) const RANGES_MAX: usize = 1 << 16;

/// Why a file can't be used as the profile of a boot.
#[derive(Debug, Error)]
pub(crate) enum UnusableProfile {
    /// It is no profile.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// Its replay would cost a boot more than it can be worth.
    #[error(
        "it has {} page ranges, and a boot reads at most {}",
        grouped(*.0),
        grouped(RANGES_MAX as u64)
    )]
    TooManyRanges(u64),
}

/// A profile that a boot may be given.
pub(crate) fn decoded(bytes: &[u8]) -> Result<Profile, UnusableProfile> {
    let profile = decode(bytes)?;
    match profile.ranges.len() <= RANGES_MAX {
        true => Ok(profile),
        false => Err(UnusableProfile::TooManyRanges(profile.ranges.len() as u64)),
    }
}

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
        match decoded(&bytes) {
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

    /// Keeps the profile, with as many ranges as a boot reads.
    ///
    /// # Errors
    /// As [`StateDirectory::keep_history`].
    pub fn keep_profile(&self, profile: &Profile) -> Result<(), StateError> {
        self.keep(PROFILE, Ok(encode(&within(profile, RANGES_MAX))))
    }

    /// Whether this boot is only to be timed.
    #[must_use]
    pub fn is_timed_only(&self) -> bool {
        self.file(TIMED_ONLY).exists()
    }

    /// Has the next boot be only timed, or not.
    ///
    /// # Errors
    /// As [`StateDirectory::keep_history`].
    pub fn set_timed_only(&self, is_timed_only: bool) -> Result<(), StateError> {
        let path = self.file(TIMED_ONLY);
        match (is_timed_only, path.exists()) {
            (true, false) => self.keep(TIMED_ONLY, Ok(Vec::new())),
            (false, true) => {
                fs::remove_file(&path).map_err(|error| StateError::Keep { path, error })
            }
            _ => Ok(()),
        }
    }

    /// Whether the next boot is to be traced.
    #[must_use]
    pub fn is_trace_wanted(&self) -> bool {
        self.file(TRACE_NEXT).exists()
    }

    /// Asks for a trace of the next boot.
    ///
    /// # Errors
    /// As [`StateDirectory::keep_history`].
    pub fn want_trace(&self) -> Result<(), StateError> {
        self.keep(TRACE_NEXT, Ok(Vec::new()))
    }

    /// Forgets that a trace was asked for.
    pub fn forget_trace_wish(&self) {
        // If it can't be removed, the next boot is traced, too.
        let _ = fs::remove_file(self.file(TRACE_NEXT));
    }

    /// Keeps the trace of a boot, and no more than four in all. Returns its path.
    ///
    /// # Errors
    /// As [`StateDirectory::keep_history`].
    pub fn keep_trace(&self, trace: &BootTrace) -> Result<PathBuf, StateError> {
        // The kernel's number of a boot is plain text; anything else is no name of a file.
        let is_plain = |c: &char| c.is_ascii_alphanumeric() || *c == '-';
        let boot: String = trace.boot.chars().filter(is_plain).take(64).collect();
        let name = format!("{TRACES}/{boot}.json");
        let traces = self.file(TRACES);
        let path = self.file(&name);
        let made = save::create_directory(&traces);
        made.map_err(|error| StateError::Keep {
            path: traces,
            error,
        })?;
        self.keep(&name, trace.to_json().map_err(io::Error::from))?;
        for old in self.traces().into_iter().skip(TRACES_MAX) {
            // One that can't be removed now is removed after the next boot.
            let _ = fs::remove_file(old.path);
        }
        Ok(path)
    }

    /// The kept traces, the newest first.
    #[must_use]
    pub fn traces(&self) -> Vec<StoredTrace> {
        let entries = fs::read_dir(self.file(TRACES))
            .into_iter()
            .flatten()
            .flatten();
        let mut traces: Vec<(SystemTime, StoredTrace)> = entries
            .filter_map(|entry| {
                let path = entry.path();
                let boot = path
                    .file_name()?
                    .to_str()?
                    .strip_suffix(".json")?
                    .to_owned();
                Some((
                    entry.metadata().ok()?.modified().ok()?,
                    StoredTrace { boot, path },
                ))
            })
            .collect();
        traces.sort_by(|(one, _), (other, _)| other.cmp(one));
        traces.into_iter().map(|(_, trace)| trace).collect()
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

/// A trace that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredTrace {
    /// The kernel's random name of the boot.
    pub boot: String,
    /// The file.
    pub path: PathBuf,
}

/// Why a stored trace can't be read.
#[derive(Debug, Error)]
pub enum StoredTraceError {
    /// The kernel says why.
    #[error("cannot read {}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The kernel's reason.
        error: io::Error,
    },
    /// It holds something else.
    #[error("{}: {error}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: TraceError,
    },
}

impl StoredTrace {
    /// Reads it.
    ///
    /// # Errors
    /// [`StoredTraceError`]: it can't be read, or is damaged.
    pub fn read(&self) -> Result<BootTrace, StoredTraceError> {
        let path = || self.path.clone();
        let bytes = read_whole(&self.path, "trace", TRACE_BYTES_MAX).map_err(|error| {
            StoredTraceError::Read {
                path: path(),
                error,
            }
        })?;
        BootTrace::from_json(&bytes).map_err(|error| StoredTraceError::Content {
            path: path(),
            error,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreread_boot::Mode;
    use foreread_boot::portable::OWN_KEY;
    use foreread_profile::{NodeKind, ProfileBuilder, Program, Source};

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
    fn a_profile_of_too_many_ranges_is_cut_before_it_is_kept_and_refused_if_it_is_there() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDirectory::new(directory.path());
        let mut builder = ProfileBuilder::new(Program::default(), Source::default());
        let id = builder.node(b"/usr/bin/dash").unwrap();
        builder.set_kind(id, NodeKind::File);
        for number in 0..=RANGES_MAX as u64 {
            builder.pages(id, 2 * number, 1, number);
        }
        let profile = builder.finish();
        assert_eq!(profile.ranges.len(), RANGES_MAX + 1);
        state.keep_profile(&profile).unwrap();
        let (kept, stored) = state.profile();
        assert_eq!(stored, Stored::Foreign);
        let kept = kept.unwrap();
        // Those needed first.
        assert_eq!(kept.ranges.len(), RANGES_MAX - RANGES_MAX / 8);
        assert_eq!(kept.ranges[..], profile.ranges[..kept.ranges.len()]);
        fs::write(state.file(PROFILE), encode(&profile)).unwrap();
        let (None, Stored::Unusable(why)) = state.profile() else {
            panic!();
        };
        assert!(why.contains("65,537 page ranges"), "{why}");
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
    fn the_newest_traces_are_kept() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDirectory::new(directory.path().join("boot"));
        assert!(state.traces().is_empty() && !state.is_trace_wanted());
        state.want_trace().unwrap();
        assert!(state.is_trace_wanted());
        state.forget_trace_wish();
        assert!(!state.is_trace_wanted());
        for number in 0..6_u64 {
            let trace = BootTrace::new(format!("../{number}"), "6.1".into(), Mode::Plain);
            let path = state.keep_trace(&trace).unwrap();
            let time = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(number);
            fs::File::open(&path).unwrap().set_modified(time).unwrap();
        }
        let traces = state.traces();
        let boots: Vec<&str> = traces.iter().map(|trace| &*trace.boot).collect();
        assert_eq!(boots, ["5", "4", "3", "2"]);
        assert_eq!(traces[0].read().unwrap().boot, "../5");
        fs::write(&traces[1].path, "{").unwrap();
        let error = traces[1].read().unwrap_err().to_string();
        assert!(
            error.contains("4.json: it is no trace of a boot"),
            "{error}"
        );
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
