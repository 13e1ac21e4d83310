// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors: why nothing can be watched here, or a profile can't be replayed.

use std::io;
use std::path::PathBuf;

use foreread_bpf::BpfError;
use foreread_profile::DecodeError;
use foreread_watch::skipped::Skipped;
use thiserror::Error;

/// Why programs can't be watched on this machine.
#[derive(Debug, Error)]
pub enum WatchError {
    /// BPF can't be used here, or not for this.
    #[error("programs can't be watched: {0}")]
    Bpf(#[from] BpfError),
    /// Process numbers are those of a container.
    #[error("process numbers here are a container's, so --pid can't be followed; use --cgroup")]
    Container,
}

/// Why a profile can't be read when its program has been seen.
#[derive(Debug, Error)]
pub enum LoadError {
    /// Others may have written the file.
    #[error("it is no file that is only ours to write to")]
    NotOurs,
    /// The file can't be read.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// The file holds no profile, or a broken one.
    #[error("{}: {source}", path.display())]
    Decode {
        /// The file.
        path: PathBuf,
        /// The error in its content.
        source: DecodeError,
    },
}

/// Why the rest of a profile isn't replayed ahead of a program that seems to follow it.
#[derive(Debug, Error)]
pub(super) enum NotReplayed {
    #[error("foreread run replays it")]
    ByRun,
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error("foreread run found that replaying it doesn't help")]
    NoBenefit,
    #[error("it is excluded")]
    Excluded,
    #[error("{}", .0.words())]
    Skipped(Skipped),
    #[error(transparent)]
    Mounts(io::Error),
    #[error("its files are elsewhere")]
    FilesElsewhere,
    #[error("it is cached")]
    Cached,
}

/// Turns an error of libbpf into one that names the failed step, and the reason if it can be found.
pub(super) fn refused(step: &'static str) -> impl FnOnce(libbpf_rs::Error) -> WatchError {
    move |error| foreread_bpf::refused(step)(error).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_that_is_not_replayed_says_why_in_a_line() {
        let path = PathBuf::from("/p");
        let source = foreread_profile::decode(b"no profile").unwrap_err();
        let text = format!("/p: {source}");
        let error = NotReplayed::from(LoadError::Decode { path, source });
        assert_eq!(error.to_string(), text);
        let error = LoadError::from(io::Error::from(io::ErrorKind::NotFound));
        assert_eq!(NotReplayed::from(error).to_string(), "entity not found");
        assert_eq!(NotReplayed::Cached.to_string(), "it is cached");
    }
}
