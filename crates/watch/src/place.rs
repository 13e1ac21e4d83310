// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the path at which a directory of an event can be opened.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use foreread_core::Device;
use foreread_core::mounts::Mounts;

use crate::paths::is_within;

/// A directory by its path in the file system, and by its path in our mount namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The path from the root of the file system; empty for the root.
    pub inside: Vec<u8>,
    /// The absolute path, without a slash at the end; empty for the root.
    full: Vec<u8>,
    /// The mount point of the file system.
    mount_point: Vec<u8>,
}

impl Place {
    /// Finds a directory of this file system. `None` if it isn't mounted in our namespace, or lives
    /// in memory only.
    #[must_use]
    pub fn find(mounts: &Mounts, device: Device, inside: &[u8]) -> Option<Self> {
        let asked = if inside.is_empty() { b"/" } else { inside };
        let reached = mounts.reach(device.major, device.minor, asked);
        let (index, full) = reached.into_iter().next()?;
        let point = mounts.points().get(index)?;
        (!point.is_virtual()).then(|| Self {
            inside: inside.to_vec(),
            full: bare(&full),
            mount_point: bare(&point.mount_point),
        })
    }

    /// Finds the directory of a path that starts in this file system and may lead over mounts.
    /// Returns it with the file system to which the path leads.
    #[must_use]
    pub fn follow(mounts: &Mounts, device: Device, inside: &[u8]) -> Option<(Self, Device)> {
        let asked = if inside.is_empty() { b"/" } else { inside };
        let reached = mounts.reach(device.major, device.minor, asked);
        let reached = reached.into_iter().next().map(|(_, full)| full);
        let full = reached.or_else(|| below_a_mount(mounts, device, inside))?;
        let point = mounts.points().get(mounts.mount_of(&full)?)?;
        let (full, mount_point) = (bare(&full), bare(&point.mount_point));
        let below = full.strip_prefix(mount_point.as_slice())?;
        let place = Self {
            inside: [bare(&point.root), below.to_vec()].concat(),
            full,
            mount_point,
        };
        let device = Device {
            major: point.major,
            minor: point.minor,
        };
        (!point.is_virtual()).then_some((place, device))
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self.full.is_empty() {
            true => Path::new("/"),
            false => Path::new(OsStr::from_bytes(&self.full)),
        }
    }

    /// The path of a directory below it. `inside` is the directory's path in the file system.
    #[must_use]
    pub fn path_of(&self, inside: &[u8]) -> Vec<u8> {
        let below = inside.strip_prefix(self.inside.as_slice());
        [&self.full, below.unwrap_or_default()].concat()
    }

    /// Number of levels above it on its mount.
    #[must_use]
    pub fn levels(&self) -> usize {
        let below = self.full.strip_prefix(self.mount_point.as_slice());
        crate::paths::depth(below.unwrap_or_default())
    }

    /// The directory above it with this path in our namespace; `None` if that isn't above it.
    #[must_use]
    pub fn above(&self, path: &Path) -> Option<Self> {
        let full = path.as_os_str().as_bytes();
        let full = full.strip_suffix(b"/").unwrap_or(full);
        let cut = self.full.strip_prefix(full)?;
        Some(Self {
            inside: self.inside.strip_suffix(cut)?.to_vec(),
            full: full.to_vec(),
            mount_point: self.mount_point.clone(),
        })
    }
}

fn bare(path: &[u8]) -> Vec<u8> {
    path.strip_suffix(b"/").unwrap_or(path).to_vec()
}

/// The path in our namespace of a directory on which another file system is mounted, or that lies
/// below such a mount.
fn below_a_mount(mounts: &Mounts, device: Device, inside: &[u8]) -> Option<Vec<u8>> {
    let points = mounts.points().iter().rev();
    let points = points.filter(|point| (point.major, point.minor) == (device.major, device.minor));
    let full = points.filter_map(|point| {
        let root = bare(&point.root);
        let below = inside.strip_prefix(root.as_slice())?;
        let full = [bare(&point.mount_point), below.to_vec()].concat();
        is_within(&root, inside).then_some((root.len(), full))
    });
    full.min_by_key(|(root_bytes, _)| *root_bytes)
        .map(|(_, full)| full)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"\
22 1 254:0 / / rw - ext4 /dev/vda rw\n\
41 22 8:1 /var/data /srv rw - ext4 /dev/sda rw\n\
42 22 0:50 / /tmp rw - tmpfs tmpfs rw\n";

    fn find(major: u32, minor: u32, inside: &str) -> Option<Place> {
        Place::find(
            &Mounts::parse(TEXT),
            Device { major, minor },
            inside.as_bytes(),
        )
    }

    #[test]
    fn paths_lead_through_mounts() {
        let place = find(8, 1, "/var/data/a/b").unwrap();
        assert_eq!(place.path(), Path::new("/srv/a/b"));
        assert_eq!(place.path_of(b"/var/data/a/b/c"), b"/srv/a/b/c");
        assert_eq!(place.levels(), 2);
        let above = place.above(Path::new("/srv/a")).unwrap();
        assert_eq!(
            (above.path(), above.inside.as_slice()),
            (Path::new("/srv/a"), &b"/var/data/a"[..])
        );
        let root = find(254, 0, "").unwrap();
        assert_eq!((root.path(), root.levels()), (Path::new("/"), 0));
        assert_eq!(root.path_of(b"/usr"), b"/usr");
        let usr = find(254, 0, "/usr").unwrap();
        assert_eq!(usr.above(Path::new("/")).unwrap().inside, b"");
    }

    #[test]
    fn paths_that_start_above_a_mount_lead_over_it() {
        let follow = |major, minor, inside: &str| {
            let device = Device { major, minor };
            Place::follow(&Mounts::parse(TEXT), device, inside.as_bytes())
        };
        let over = follow(254, 0, "/srv/a/b").unwrap();
        assert_eq!(
            over,
            (
                find(8, 1, "/var/data/a/b").unwrap(),
                Device { major: 8, minor: 1 }
            )
        );
        let within = follow(8, 1, "/var/data/a").unwrap();
        assert_eq!(within.0, find(8, 1, "/var/data/a").unwrap());
        let root = follow(254, 0, "").unwrap();
        assert_eq!(
            root,
            (
                find(254, 0, "").unwrap(),
                Device {
                    major: 254,
                    minor: 0
                }
            )
        );
        assert_eq!(follow(254, 0, "/tmp/a"), None);
        assert_eq!(follow(8, 9, "/a"), None);
    }

    #[test]
    fn what_is_in_memory_or_not_mounted_is_nowhere() {
        assert_eq!(find(0, 50, "/a"), None);
        assert_eq!(find(8, 1, "/var/log"), None);
        assert_eq!(find(8, 9, "/"), None);
    }
}
