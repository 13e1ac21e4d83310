// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors.

use std::io;
use std::path::PathBuf;

use crate::refusal::Refusal;

/// A step that failed.
#[derive(Debug, thiserror::Error)]
pub enum ModuleError {
    /// A file or directory can't be read, made, written or removed.
    #[error("cannot {what} {}", path.display())]
    File {
        /// Such as `read`.
        what: &'static str,
        /// Its path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A tool can't be started.
    #[error("cannot start {tool}")]
    Start {
        /// Its name.
        tool: String,
        /// Why.
        source: io::Error,
    },
    /// A tool has ended with a failure.
    #[error("`{command}` failed: {said}")]
    Tool {
        /// Its command line.
        command: String,
        /// The end of what it printed.
        said: String,
    },
    /// A name that no release of a kernel has.
    #[error("{0} is no release of a kernel, as `uname -r` prints it")]
    Release(String),
    /// There are no sources where they were looked for.
    #[error(
        "no sources of the module in {0}; the Debian package and `make install` put them there, \
         or name a directory by --sources"
    )]
    NoSources(String),
    /// Sources of another version than the program.
    #[error("{} has the module's version {found}, and this program is {}", path.display(), crate::VERSION)]
    Version {
        /// The directory.
        path: PathBuf,
        /// Its version.
        found: String,
    },
    /// The kernel or modprobe has refused the module.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The kernel has refused a setting.
    #[error("the module refuses {value} for {file}")]
    Setting {
        /// What was written.
        value: String,
        /// The file in its directory in sysfs.
        file: String,
        /// Why.
        source: io::Error,
    },
    /// A file of the module in sysfs is not as this version writes it.
    #[error("the module has another interface than this program knows: {0}")]
    Interface(String),
}

impl ModuleError {
    /// For `map_err` of what is done with a file.
    pub(crate) fn file(
        what: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { what, path, source }
    }
}
