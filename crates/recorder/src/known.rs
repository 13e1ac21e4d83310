// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the file of a profile that an inode of a recording is.
//!
//! Number and generation say it, and the names up to the root of the file system confirm it: a
//! snapshot repeats the numbers, and a file that was moved is looked for under its new name.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use foreread_core::mounts::{MountPoint, Mounts};
use foreread_profile::{NodeId, Profile};

use crate::recording::{InodeEntry, NodeRecord, Recording};
use crate::seen::device_of;

/// The files of a profile, by inode.
pub struct Known<'a> {
    /// The profile.
    pub profile: &'a Profile,
    by_inode: HashMap<(u64, u32), NodeId>,
    /// Further files with numbers that another has too.
    doubles: Vec<((u64, u32), NodeId)>,
    /// The profile's mounts as they are now.
    points: Vec<Option<&'a MountPoint>>,
}

impl<'a> Known<'a> {
    /// The files of `profile`, as `mounts` show them now.
    #[must_use]
    pub fn new(profile: &'a Profile, mounts: &'a Mounts) -> Self {
        let mut by_inode = HashMap::new();
        let mut doubles = Vec::new();
        for (id, node) in profile.files() {
            let key = (node.identity.inode, node.identity.generation);
            match by_inode.entry(key) {
                Entry::Vacant(entry) => {
                    entry.insert(id);
                }
                Entry::Occupied(_) => doubles.push((key, id)),
            }
        }
        let now = |mount: &foreread_profile::Mount| {
            let mut points = mounts.points().iter().rev();
            points.find(|point| point.mount_point == mount.mount_point)
        };
        Self {
            profile,
            by_inode,
            doubles,
            points: profile.mounts.iter().map(now).collect(),
        }
    }

    /// The file that an inode of the recording is; `None` when the profile hasn't got it.
    #[must_use]
    pub fn file(&self, recording: &Recording, inode: &InodeEntry) -> Option<NodeId> {
        let key = (inode.number, inode.generation);
        let first = self.by_inode.get(&key).copied()?;
        let doubles = || self.doubles.iter().filter(|(other, _)| *other == key);
        let Some(record) = recording.nodes.get(&inode.id) else {
            // Its name was lost.
            return doubles().next().is_none().then_some(first);
        };
        std::iter::once(first)
            .chain(doubles().map(|(_, id)| *id))
            .find(|id| self.is_named(*id, recording, record))
    }

    fn is_named(&self, id: NodeId, recording: &Recording, record: &NodeRecord) -> bool {
        let mount = self.profile.node(id).map_or(0, |node| node.mount);
        let Some(Some(point)) = self.points.get(usize::from(mount)) else {
            return false;
        };
        if device_of(point) != record.device {
            return false;
        }
        let path = self.profile.path(id);
        let inside = match point.mount_point.as_slice() {
            b"/" => Some(path.as_slice()),
            top => path.strip_prefix(top),
        };
        let root = match point.root.as_slice() {
            b"/" => &b""[..],
            root => root,
        };
        inside.is_some_and(|inside| ends_with_names(&[root, inside].concat(), recording, record))
    }
}

/// Whether a path from the root of a file system is made of the names that the recording has.
fn ends_with_names(path: &[u8], recording: &Recording, record: &NodeRecord) -> bool {
    let mut at = record;
    for name in path.rsplit(|&byte| byte == b'/') {
        if name.is_empty() || at.parent == 0 {
            // In front of the first slash.
            return name.is_empty() && at.parent == 0;
        }
        if name != at.name {
            return false;
        }
        match recording.nodes.get(&at.parent) {
            Some(parent) => at = parent,
            // The rest of the names was lost.
            None => return true,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreread_profile::{Identity, Mount, NodeKind, ProfileBuilder, Program, Source};

    const MOUNTS: &[u8] = b"\
20 1 254:0 / / rw - ext4 /dev/vda rw\n\
30 20 0:40 /@snap /mnt/snap rw - btrfs /dev/sdb rw\n\
31 20 0:40 / /mnt/all rw - btrfs /dev/sdb rw\n";

    fn profile(files: &[(&[u8], &[u8])]) -> Profile {
        let mut builder = ProfileBuilder::new(Program::default(), Source::default());
        for (path, mount_point) in files {
            let id = builder.node(path).unwrap();
            builder.set_kind(id, NodeKind::File);
            builder.set_identity(
                id,
                Identity {
                    inode: 257,
                    generation: 9,
                    ..Identity::default()
                },
            );
            let mount = builder.mount(Mount {
                mount_point: mount_point.to_vec(),
                ..Mount::default()
            });
            builder.set_mount(id, mount);
        }
        builder.finish()
    }

    /// An inode with its names from the root down.
    fn recording(device: u32, names: &[&[u8]]) -> (Recording, InodeEntry) {
        let mut recording = Recording::default();
        let count = u32::try_from(names.len()).unwrap();
        for (id, name) in (1..).zip(std::iter::once(&&b""[..]).chain(names)) {
            recording.nodes.insert(
                id,
                NodeRecord {
                    id,
                    parent: id - 1,
                    device,
                    name: name.to_vec(),
                    ..NodeRecord::default()
                },
            );
        }
        let inode = InodeEntry {
            number: 257,
            generation: 9,
            id: count + 1,
            ..InodeEntry::default()
        };
        (recording, inode)
    }

    fn found(profile: &Profile, device: u32, names: &[&[u8]]) -> Option<Vec<u8>> {
        let mounts = Mounts::parse(MOUNTS);
        let (recording, inode) = recording(device, names);
        let id = Known::new(profile, &mounts).file(&recording, &inode)?;
        Some(profile.path(id))
    }

    const ROOT: u32 = 254 << 20;
    const BTRFS: u32 = 40;

    #[test]
    fn names_and_device_decide_between_equal_numbers() {
        let files: [(&[u8], &[u8]); 3] = [
            (b"/dir/file", b"/"),
            (b"/mnt/all/@one/file", b"/mnt/all"),
            (b"/mnt/snap/file", b"/mnt/snap"),
        ];
        let profile = profile(&files);
        assert_eq!(
            found(&profile, ROOT, &[b"dir", b"file"]).unwrap(),
            files[0].0
        );
        assert_eq!(
            found(&profile, BTRFS, &[b"@one", b"file"]).unwrap(),
            files[1].0
        );
        assert_eq!(
            found(&profile, BTRFS, &[b"@snap", b"file"]).unwrap(),
            files[2].0
        );
        assert_eq!(found(&profile, BTRFS, &[b"dir", b"file"]), None);
        assert_eq!(found(&profile, BTRFS, &[b"@two", b"file"]), None);
        assert_eq!(found(&profile, BTRFS + 1, &[b"@one", b"file"]), None);
    }

    #[test]
    fn a_moved_file_is_another_one() {
        let profile = profile(&[(b"/dir/file", b"/")]);
        for names in [&[&b"dir"[..], b"other"][..], &[b"rid", b"file"], &[b"file"]] {
            assert_eq!(found(&profile, ROOT, names), None);
        }
        assert_eq!(found(&profile, ROOT, &[b"top", b"dir", b"file"]), None);
        assert_eq!(
            found(&profile, ROOT, &[b"dir", b"file"]).unwrap(),
            b"/dir/file"
        );
    }

    #[test]
    fn a_lost_name_is_no_hindrance_when_the_number_is_one_file_s() {
        let mounts = Mounts::parse(MOUNTS);
        let inode = recording(ROOT, &[b"dir", b"file"]).1;
        let one = profile(&[(b"/dir/file", b"/")]);
        let lost = Recording::default();
        assert!(Known::new(&one, &mounts).file(&lost, &inode).is_some());
        let two = profile(&[(b"/dir/file", b"/"), (b"/mnt/snap/file", b"/mnt/snap")]);
        assert!(Known::new(&two, &mounts).file(&lost, &inode).is_none());
    }
}
