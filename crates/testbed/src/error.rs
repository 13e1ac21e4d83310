// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors, in words for people.

use std::io;
use std::path::PathBuf;

/// A requirement of a testbed that the machine lacks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Lacking {
    /// Not root.
    #[error("a modelled disk needs root: it mounts file systems and sets up a loop device")]
    Root,
    /// No usable `/dev/fuse`.
    #[error(
        "cannot open /dev/fuse ({0}): load the module with `modprobe fuse`, or in a container pass the device in"
    )]
    Fuse(String),
    /// No usable `/dev/loop-control`.
    #[error(
        "cannot open /dev/loop-control ({0}): load the module with `modprobe loop`, or in a container pass the device in"
    )]
    Loop(String),
    /// No mount namespace of one's own.
    #[error(
        "cannot make a private mount namespace ({0}): the container or a security policy forbids it"
    )]
    Namespace(String),
    /// A program is missing.
    #[error("`{0}` is not installed: it comes with the package {1}")]
    Program(String, &'static str),
}

/// Why the testbed failed.
#[derive(Debug, thiserror::Error)]
pub enum TestbedError {
    /// The machine lacks something.
    #[error(transparent)]
    Lacking(#[from] Lacking),
    /// A system call failed.
    #[error("cannot {what}: {source}")]
    System {
        /// The step that was tried.
        what: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// A program failed.
    #[error("`{command}` failed ({status}): {message}")]
    Program {
        /// The command line.
        command: String,
        /// How it ended.
        status: String,
        /// The end of its standard error.
        message: String,
    },
    /// The loop device reads its file through the page cache, so nothing would be modelled.
    #[error("{} is not in direct-I/O mode: its reads would come from a second page cache; use a kernel from 5.10 on", .0.display())]
    NotDirect(PathBuf),
    /// Asked for in the wrong state.
    #[error("{0}")]
    Misuse(String),
}

impl TestbedError {
    /// For `map_err`: names the step that was tried.
    pub(crate) fn system<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> Self {
        let what = what.into();
        move |source| Self::System {
            what,
            source: source.into(),
        }
    }
}
