// SPDX-License-Identifier: MIT OR Apache-2.0
//! The history of boots, as it is kept from boot to boot. A boot is entered when it begins, and
//! confirmed when it reaches its target. One that is not confirmed did not get there.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Name and version of the stored form.
const SCHEMA: &str = "foreread.boot.history/1";
/// Boots remembered; the oldest go first.
pub const BOOTS_MAX: usize = 64;
/// Bytes of a text from outside, such as the name of a kernel.
pub const TEXT_BYTES_MAX: usize = 256;

/// Our part in a boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Nothing at all.
    Idle,
    /// It is timed.
    Plain,
    /// It is timed and recorded in full.
    Recorded,
    /// It is timed, and the profile is replayed.
    Replayed,
    /// The same, and it is recorded in full, which takes processor time. Pages that only the replay
    /// needs are not recorded.
    Refreshed,
}

impl Mode {
    /// Whether the profile is replayed.
    #[must_use]
    pub const fn replays(self) -> bool {
        matches!(self, Self::Replayed | Self::Refreshed)
    }

    /// Whether all reads are recorded.
    #[must_use]
    pub const fn records(self) -> bool {
        matches!(self, Self::Recorded | Self::Refreshed)
    }
}

/// Why the time of a boot says nothing about others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Untypical {
    /// Packages were changed since the boot before.
    PackagesChanged,
    /// Another kernel than that of the boot before.
    OtherKernel,
    /// The first boot of this system.
    FirstBoot,
    /// A file system was checked.
    Checked,
    /// All files were given their SELinux labels.
    Relabelled,
    /// The boot waited until somebody typed a passphrase.
    WaitedForPerson,
}

impl fmt::Display for Untypical {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::PackagesChanged => "packages were changed before it",
            Self::OtherKernel => "the boot before had another kernel",
            Self::FirstBoot => "it was the first boot of the system",
            Self::Checked => "a file system was checked",
            Self::Relabelled => "all files were labelled anew",
            Self::WaitedForPerson => "it waited for a passphrase",
        })
    }
}

/// What was measured of a boot that has reached its target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Measured {
    /// To the default target, in ns: from the start of the init of the root file system, or from
    /// when the initramfs had mounted that.
    pub target_ns: u64,
    /// Whether it is from the initramfs on. A replay that begins there changes when init starts.
    #[serde(default)]
    pub from_initramfs: bool,
    /// Sum of the times that processes waited for disks until then, in ns; `None` where nothing
    /// was recorded.
    pub stall_ns: Option<u64>,
    /// For how long it was recorded until then, in ns: the recorder begins some time after the
    /// boot. `None` where nothing was recorded, or where it wasn't noted.
    #[serde(default)]
    pub recorded_ns: Option<u64>,
    /// What disks were read for until then; `None` where it isn't known.
    #[serde(default)]
    pub reads: Option<Reads>,
}

/// What all disks of a machine were read for, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reads {
    /// In all.
    pub disk_bytes: u64,
    /// By the replay.
    pub replay_bytes: u64,
}

impl Reads {
    /// What the boot itself read, since it was not replayed, or not in time.
    #[must_use]
    pub const fn missed_bytes(self) -> u64 {
        self.disk_bytes.saturating_sub(self.replay_bytes)
    }
}

/// One boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Boot {
    /// The kernel's random name of it: `/proc/sys/kernel/random/boot_id`.
    pub id: String,
    /// Seconds since 1970, by a clock that may not be right yet.
    pub started_unix_s: u64,
    /// Release of the kernel, as in `uname -r`.
    pub kernel: String,
    /// What was done.
    pub mode: Mode,
    /// Why its time doesn't count; `None` for one that counts.
    pub untypical: Option<Untypical>,
    /// State of the package managers' databases at its start; `None` where there is none.
    #[serde(default)]
    pub packages: Option<String>,
    /// `None` until it has reached its target.
    pub measured: Option<Measured>,
}

impl Boot {
    /// Whether its time may be held against that of others.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.typical().is_some() && self.mode != Mode::Idle
    }

    /// What was measured, if it was a typical boot.
    #[must_use]
    pub fn typical(&self) -> Option<Measured> {
        self.measured.filter(|_| self.untypical.is_none())
    }
}

/// All boots that are remembered, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    boots: Vec<Boot>,
}

#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Document {
    schema: String,
    boots: Vec<Boot>,
}

/// Why a stored history can't be read.
#[derive(Debug, Error)]
pub enum HistoryError {
    /// Not JSON, or not of this shape.
    #[error("it is no history of boots: {0}")]
    Shape(#[from] serde_json::Error),
    /// Of another program or version.
    #[error("it is of schema {0}, and {SCHEMA} is read")]
    Schema(String),
}

impl History {
    /// Reads the output of [`History::to_json`]. What is beyond the limits is cut off.
    ///
    /// # Errors
    /// When it is something else.
    pub fn from_json(text: &str) -> Result<Self, HistoryError> {
        let document: Document = serde_json::from_str(text)?;
        if document.schema != SCHEMA {
            return Err(HistoryError::Schema(document.schema));
        }
        let mut history = Self::default();
        for boot in document.boots {
            history.push(boot);
        }
        Ok(history)
    }

    /// As JSON, for keeping.
    ///
    /// # Errors
    /// None that is known: all values have a form in JSON.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(&Document {
            schema: SCHEMA.to_owned(),
            boots: self.boots.clone(),
        })
    }

    /// The boots, oldest first.
    #[must_use]
    pub fn boots(&self) -> &[Boot] {
        &self.boots
    }

    /// Enters a boot that begins. One that is there already stays as it is.
    pub fn begin(&mut self, boot: Boot) {
        if self.find(&boot.id).is_none() {
            self.push(boot);
        }
    }

    /// Confirms that a boot has reached its target. Whatever made it untypical since its start is
    /// noted, too. Returns whether it is remembered.
    pub fn confirm(&mut self, id: &str, measured: Measured, untypical: Option<Untypical>) -> bool {
        let Some(at) = self.find(id) else {
            return false;
        };
        let boot = &mut self.boots[at];
        boot.measured = Some(measured);
        boot.untypical = boot.untypical.or(untypical);
        true
    }

    /// Forgets a boot that was ended in order before it reached its target, such as by a reboot:
    /// nothing has failed. Returns whether it was remembered.
    pub fn withdraw(&mut self, id: &str) -> bool {
        let at = self.find(id);
        let at = at.filter(|at| self.boots[*at].measured.is_none());
        at.map(|at| self.boots.remove(at)).is_some()
    }

    fn find(&self, id: &str) -> Option<usize> {
        self.boots.iter().position(|boot| boot.id == id)
    }

    fn push(&mut self, mut boot: Boot) {
        let packages = boot.packages.as_mut();
        for text in [&mut boot.id, &mut boot.kernel].into_iter().chain(packages) {
            let mut end = text.len().min(TEXT_BYTES_MAX);
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
        }
        self.boots.push(boot);
        let excess = self.boots.len().saturating_sub(BOOTS_MAX);
        self.boots.drain(..excess);
    }
}
