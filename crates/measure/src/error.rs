// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why something could not be measured, in words for people.

use std::io;
use std::path::PathBuf;

use foreread_model::PRESET_NAMES;
use foreread_testbed::{Lacking, TestbedError};

/// Why something could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// The modelled disk failed, or this machine can't have one.
    #[error(transparent)]
    Testbed(#[from] TestbedError),
    /// No such disk.
    #[error("there is no modelled disk `{0}`; there are: {list}", list = PRESET_NAMES.join(", "))]
    NoSuchDevice(String),
    /// No such program.
    #[error("there is no program `{0}` to measure; there are: {list}", list = program_names())]
    NoSuchProgram(String),
    /// No such file system.
    #[error("there is no file system `{0}` to measure on; there are: ext4, xfs, btrfs, overlay")]
    NoSuchFileSystem(String),
    /// The executable to measure isn't there.
    #[error("there is no foreread at {}: build it, or name one with --foreread", .0.display())]
    NoForeread(PathBuf),
    /// A system call or a file failed.
    #[error("cannot {what}: {source}")]
    System {
        /// The step that was tried.
        what: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// A measured program ended badly, so its time means nothing.
    #[error("`{command}` ended with {status}, so its time means nothing")]
    Failed {
        /// The command line.
        command: String,
        /// How it ended.
        status: String,
    },
    /// A program's answer made no sense.
    #[error("cannot read what {0} reported: {1}")]
    Report(&'static str, String),
}

fn program_names() -> String {
    crate::names::all_names().collect::<Vec<_>>().join(", ")
}

impl MeasureError {
    /// For `map_err`: names the step that was tried.
    pub fn system<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> Self {
        let what = what.into();
        move |source| Self::System {
            what,
            source: source.into(),
        }
    }

    /// The thing that the machine lacks, if that is the reason.
    pub fn lacking(&self) -> Option<&Lacking> {
        match self {
            Self::Testbed(TestbedError::Lacking(lacking)) => Some(lacking),
            _ => None,
        }
    }
}

impl From<Lacking> for MeasureError {
    fn from(lacking: Lacking) -> Self {
        Self::Testbed(lacking.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_program_is_told_the_known_ones() {
        let error = MeasureError::NoSuchProgram("emacs".to_owned()).to_string();
        assert!(
            error.contains("sqlite") && error.contains("checkpoint"),
            "{error}"
        );
    }
}
