// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a directory that an event names can be reached.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use foreread_watch::Device;

use crate::mounts::Mounts;

/// A directory by its path in the file system, and by a path of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// From the root of the file system, which is empty.
    pub inside: Vec<u8>,
    /// Absolute, with no slash at the end: that of the root is empty.
    full: Vec<u8>,
    /// Where the file system is mounted.
    mount_point: Vec<u8>,
}

impl Place {
    /// `None` of what isn't mounted where we see it, or lives in memory only.
    pub fn find(mounts: &Mounts, device: Device, inside: &[u8]) -> Option<Self> {
        let asked = if inside.is_empty() { b"/" } else { inside };
        let reached = mounts.reach(device.major, device.minor, asked);
        let (index, full) = reached.into_iter().next()?;
        let point = mounts.points().get(index)?;
        let bare = |path: &[u8]| path.strip_suffix(b"/").unwrap_or(path).to_vec();
        (!point.is_virtual()).then(|| Self {
            inside: inside.to_vec(),
            full: bare(&full),
            mount_point: bare(&point.mount_point),
        })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        match self.full.is_empty() {
            true => Path::new("/"),
            false => Path::new(OsStr::from_bytes(&self.full)),
        }
    }

    /// The path of a directory below it, which is given as inside of the file system.
    pub fn path_of(&self, inside: &[u8]) -> Vec<u8> {
        let below = inside.strip_prefix(self.inside.as_slice());
        [&self.full, below.unwrap_or_default()].concat()
    }

    /// How many levels lie above it on its mount.
    pub fn levels(&self) -> usize {
        let below = self.full.strip_prefix(self.mount_point.as_slice());
        foreread_watch::paths::depth(below.unwrap_or_default())
    }

    /// The directory above it that has this path of ours.
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
    fn what_is_in_memory_or_not_mounted_is_nowhere() {
        assert_eq!(find(0, 50, "/a"), None);
        assert_eq!(find(8, 1, "/var/log"), None);
        assert_eq!(find(8, 9, "/"), None);
    }
}
