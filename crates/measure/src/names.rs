// SPDX-License-Identifier: MIT OR Apache-2.0
//! The names of the measured programs, as people type them.

/// The names of the programs whose cold starts are measured.
pub const PROGRAM_NAMES: [&str; 3] = ["grep", "python", "git"];

/// The names of all programs that [`Program::install`](crate::programs::Program::install) knows.
pub const ALL_PROGRAM_NAMES: [&str; 5] = ["grep", "python", "git", "sqlite", "mapped"];

/// The names of the programs that walk through trees.
const WATCH_NAMES: [&str; 4] = ["grep", "tar", "cp", "find"];

/// The names of the programs that read large files.
pub const STREAM_NAMES: [&str; 22] = [
    "map-forward",
    "map-parts",
    "map-tensors",
    "map-slices",
    "map-backward",
    "dd",
    "readers-2",
    "readers-4",
    "readers-16",
    "strided",
    "backward-64k",
    "backward-4k",
    "random",
    "early-stops",
    "mostly-cached",
    "hot-dd",
    "hot-random",
    "hot-grep",
    "hot-build",
    "idle",
    "beside-scan",
    "checkpoint",
];

/// Whether some section measures a program of that name.
pub fn is_known(name: &str) -> bool {
    all_names().any(|known| known == name)
}

/// The names of all programs of all sections, each once.
pub(crate) fn all_names() -> impl Iterator<Item = &'static str> {
    let others = WATCH_NAMES.into_iter().chain(STREAM_NAMES);
    let new = others.filter(|name| !ALL_PROGRAM_NAMES.contains(name));
    ALL_PROGRAM_NAMES.into_iter().chain(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_known_and_listed_once() {
        for name in ["grep", "mapped", "tar", "readers-16"] {
            assert!(is_known(name), "{name}");
            assert_eq!(all_names().filter(|listed| *listed == name).count(), 1);
        }
        assert!(!is_known("emacs"));
    }
}
