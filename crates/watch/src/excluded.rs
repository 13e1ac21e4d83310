// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exclusions: programs, directories and devices for which nothing is fetched.

use foreread_core::Device;

use crate::paths::is_within;

/// Bytes of a program's name that the kernel keeps.
const COMM_BYTES_MAX: usize = 15;

/// Programs, directories and devices that are left alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Excluded {
    programs: Vec<Vec<u8>>,
    paths: Vec<Vec<u8>>,
    /// The devices of file systems that are not left alone; empty: all of them.
    only_on: Vec<Device>,
}

impl Excluded {
    /// Programs by name, and directories by absolute path, with all below them.
    #[must_use]
    pub fn new(programs: &[&str], paths: &[&str]) -> Self {
        let known = |name: &&str| name.as_bytes()[..name.len().min(COMM_BYTES_MAX)].to_vec();
        let bare = |path: &&str| path.trim_end_matches('/').as_bytes().to_vec();
        Self {
            programs: programs.iter().map(known).collect(),
            paths: paths.iter().map(bare).collect(),
            only_on: Vec::new(),
        }
    }

    /// Also leaves alone what isn't on one of these devices; with none, nothing for that reason.
    #[must_use]
    pub fn but_on(self, devices: Vec<Device>) -> Self {
        Self {
            only_on: devices,
            ..self
        }
    }

    /// Whether the file system of this number is left alone.
    #[must_use]
    pub fn is_device(&self, device: Device) -> bool {
        !self.only_on.is_empty() && !self.only_on.contains(&device)
    }

    /// Whether any program is left alone.
    #[must_use]
    pub fn has_programs(&self) -> bool {
        !self.programs.is_empty()
    }

    /// Whether any directory is left alone.
    #[must_use]
    pub fn has_paths(&self) -> bool {
        !self.paths.is_empty()
    }

    /// Whether a program of this name, as in `/proc/PID/comm`, is left alone.
    #[must_use]
    pub fn is_program(&self, comm: &[u8]) -> bool {
        let comm = comm.strip_suffix(b"\n").unwrap_or(comm);
        self.programs.iter().any(|name| name == comm)
    }

    /// Whether this absolute path is excluded.
    #[must_use]
    pub fn is_path(&self, path: &[u8]) -> bool {
        let path = path.strip_suffix(b"/").unwrap_or(path);
        self.paths.iter().any(|top| is_within(top, path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_as_the_kernel_keeps_them() {
        let excluded = Excluded::new(&["rsync", "updatedb.plocate"], &[]);
        assert!(excluded.is_program(b"rsync\n") && excluded.is_program(b"updatedb.plocat\n"));
        for other in [&b"rsyncd\n"[..], b"rsyn\n", b"updatedb\n", b"\n", b""] {
            assert!(!excluded.is_program(other), "{other:?}");
        }
    }

    #[test]
    fn directories_are_left_alone_with_all_below() {
        let excluded = Excluded::new(&[], &["/srv/backup/", "/mnt"]);
        for path in [&b"/srv/backup"[..], b"/srv/backup/a/b", b"/mnt/x", b"/mnt/"] {
            assert!(excluded.is_path(path), "{path:?}");
        }
        for path in [&b"/srv"[..], b"/srv/backups", b"", b"/", b"/a/mnt"] {
            assert!(!excluded.is_path(path), "{path:?}");
        }
        let all = Excluded::new(&[], &["/"]);
        assert!(all.is_path(b"/") && all.is_path(b"/usr") && all.is_path(b""));
    }

    #[test]
    fn other_devices_are_left_alone_where_some_are_named() {
        let device = |minor| Device { major: 8, minor };
        let none = Excluded::default().but_on(Vec::new());
        assert!(!none.is_device(device(1)));
        let only = Excluded::new(&[], &["/srv"]).but_on(vec![device(1), device(2)]);
        assert!(!only.is_device(device(1)) && only.is_device(device(3)));
        assert!(only.has_paths());
    }

    #[test]
    fn a_name_is_cut_between_any_two_bytes() {
        let excluded = Excluded::new(&["äääääääää"], &[]);
        assert!(excluded.is_program(&"äääääääää".as_bytes()[..COMM_BYTES_MAX]));
    }
}
