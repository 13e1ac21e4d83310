// SPDX-License-Identifier: MIT OR Apache-2.0
//! Profiles that go from one system to another with the same packages: an image, a package, a
//! fleet.
//!
//! In: a profile, and a look at the files of the system that it is for. Out: a profile without
//! inode numbers, or one with those of that system, of the entries that are the same there.
//!
//! A file is known by its path and size. The time of change is not compared: package managers keep
//! it, but a boot also reads what was made on each machine after its packages were unpacked, such
//! as `modules.dep.bin`, `hwdb.bin`, `ld.so.cache`. These differ in nothing but time. A file that
//! is another one in spite of its size costs the pages that are read in vain.

use std::ops::Range;

use foreread_core::mounts::below;
use foreread_profile::types::DevicePages;
use foreread_profile::{
    Identity, Mount, Node, NodeId, NodeKind, PAGE_BYTES, Profile, ProfileBuilder, Program, Source,
};

/// Key of the program in the profile of a system's own boot, if its root file system has no number
/// that stays the same. See [`own_key`].
pub const OWN_KEY: &[u8] = b"boot";
/// The same if it has one. The number follows, of 16 hexadecimal digits.
const OWN_KEY_OF_FILE_SYSTEM: &[u8] = b"boot of file system ";
/// The same in a profile for other systems, or from another one.
pub const FOREIGN_KEY: &[u8] = b"boot of another system";

/// Directories whose files are those of one system or one person. They are left out.
const OF_ONE_SYSTEM: [&[u8]; 9] = [
    b"/home",
    b"/media",
    b"/mnt",
    b"/root",
    b"/run",
    b"/srv",
    b"/tmp",
    b"/var/log",
    b"/var/tmp",
];

/// Pages at either end of a device that are read by whoever looks for file systems, RAID members
/// and partition tables on it: udev, fsck, systemd's generators. libblkid 2.38 reads almost all of
/// them.
const PROBED_PAGES: u64 = (512 << 10) / PAGE_BYTES;

/// A file, directory or link that is found at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its kind.
    pub kind: NodeKind,
    /// Its inode, size and time of change.
    pub identity: Identity,
}

/// How much of a profile fits a system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fit {
    /// Files and directories that are the same.
    pub same: usize,
    /// Those that are not there.
    pub missing: usize,
    /// Those that are something else, or of another size.
    pub others: usize,
}

impl Fit {
    /// Of two parts of a profile together. Directories above are in both, and counted twice.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            same: self.same + other.same,
            missing: self.missing + other.missing,
            others: self.others + other.others,
        }
    }
}

/// Key of the program in the profile of a system's own boot. Inode numbers and places on devices
/// hold for one root file system only: `file_system` is its number, if one is known that stays the
/// same.
#[must_use]
pub fn own_key(file_system: Option<u64>) -> Vec<u8> {
    match file_system {
        Some(number) => [OWN_KEY_OF_FILE_SYSTEM, format!("{number:016x}").as_bytes()].concat(),
        None => OWN_KEY.to_vec(),
    }
}

/// Whether a profile was made by a system of its own boots, and for that system only.
#[must_use]
pub fn is_own(profile: &Profile) -> bool {
    let key = &profile.program.key;
    key == OWN_KEY || key.starts_with(OWN_KEY_OF_FILE_SYSTEM)
}

/// Whether a system made a profile of its own boots on another root file system: another machine,
/// or this one before its files were copied to a new file system. `false` where it isn't known.
#[must_use]
pub fn is_of_another_file_system(profile: &Profile, file_system: Option<u64>) -> bool {
    let key = &profile.program.key;
    let is_known = file_system.is_some() && key.starts_with(OWN_KEY_OF_FILE_SYSTEM);
    is_known && *key != own_key(file_system)
}

/// The profile without what only one system has: inode numbers, places on devices, measurements,
/// and the names of files of persons.
#[must_use]
pub fn portable(profile: &Profile) -> Profile {
    chosen(profile, ALWAYS, |_, path, node| {
        let is_left_out = OF_ONE_SYSTEM.iter().any(|top| below(top, path).is_some());
        (!is_left_out).then_some(Identity {
            inode: 0,
            generation: 0,
            ..node.identity
        })
    })
}

/// Whether the paths of a profile are yet to be looked up on the system that it is for: nothing of
/// it has an inode number.
#[must_use]
pub fn is_unplaced(profile: &Profile) -> bool {
    let mut nodes = profile.iter();
    profile.program.key == FOREIGN_KEY && nodes.all(|(_, node)| node.identity.inode == 0)
}

/// The part of a profile that fits a system. `look` says what is at each path; paths below one that
/// is missing are not asked about.
pub fn placed(profile: &Profile, mut look: impl FnMut(&[u8]) -> Option<Found>) -> (Profile, Fit) {
    let mut fit = Fit::default();
    let mut is_there = vec![false; profile.nodes.len()];
    let fitting = chosen(profile, ALWAYS, |id, path, node| {
        let above = node.parent.is_none_or(|parent| is_there[parent.0 as usize]);
        let Some(found) = (if above { look(path) } else { None }) else {
            // A name that was looked for in vain is missing on both.
            fit.missing += usize::from(node.kind != NodeKind::Absent);
            return None;
        };
        is_there[id.0 as usize] = true;
        let is_same_size = found.identity.size_bytes == node.identity.size_bytes;
        let is_same = found.kind == node.kind && (node.kind != NodeKind::File || is_same_size);
        match is_same {
            true => fit.same += 1,
            false => fit.others += 1,
        }
        is_same.then_some(found.identity)
    });
    (fitting, fit)
}

/// Pages of a device that a boot reads wherever its files lie. A portable profile can't have them:
/// they are counted from the device's end, too. A read of the end waits long among those of a
/// replay; `systemd-gpt-auto-generator` waited 3.1 s on a modelled hard disk.
#[must_use]
pub fn probed(mount_point: &[u8], is_whole_disk: bool, device_bytes: u64) -> DevicePages {
    let end = device_bytes / PAGE_BYTES;
    let head = 0..PROBED_PAGES.min(end);
    let tail = end.saturating_sub(PROBED_PAGES)..end;
    let pages = head.chain(tail).map(|page| (page, 0)).collect();
    DevicePages::new(mount_point.to_vec(), is_whole_disk, pages)
}

/// Two parts of a portable profile: what is needed first, and the rest. The first has `items` page
/// ranges and entries without pages. Directories above are in both.
#[must_use]
pub fn split_by_need(profile: &Profile, items: usize) -> (Profile, Profile) {
    let needs = profile.iter().flat_map(|(id, _)| profile.needs_ns(id));
    let mut needs: Vec<u64> = needs.collect();
    needs.sort_unstable();
    let Some(start_ns) = needs.get(items) else {
        return (profile.clone(), Profile::default());
    };
    let part = |needs_ns: Range<u64>| {
        chosen(profile, needs_ns.clone(), |id, _, node| {
            let is_needed = profile.needs_ns(id).any(|need| needs_ns.contains(&need));
            is_needed.then_some(node.identity)
        })
    };
    (part(0..*start_ns), part(*start_ns..u64::MAX))
}

const ALWAYS: Range<u64> = 0..u64::MAX;

/// The nodes for which `choose` gives an identity, in a profile of another system, with those of
/// their pages that are needed in this time.
fn chosen(
    profile: &Profile,
    needs_ns: Range<u64>,
    mut choose: impl FnMut(NodeId, &[u8], &Node) -> Option<Identity>,
) -> Profile {
    let program = Program {
        key: FOREIGN_KEY.to_vec(),
        ..Program::default()
    };
    let source = Source {
        events_lost: 0,
        ..profile.source.clone()
    };
    let mut builder = ProfileBuilder::new(program, source);
    for phase in &profile.phases {
        builder.phase(*phase);
    }
    let mounts: Vec<u16> = profile
        .mounts
        .iter()
        .map(|mount| {
            builder.mount(Mount {
                device_major: 0,
                device_minor: 0,
                ..mount.clone()
            })
        })
        .collect();
    let mut path = Vec::new();
    for (id, node) in profile.iter() {
        path.clear();
        profile.path_into(id, &mut path);
        let Some(identity) = choose(id, &path, node) else {
            continue;
        };
        // A path that can't be in a profile is not in this one either.
        let Ok(new) = builder.node(&path) else {
            continue;
        };
        builder.set_kind(new, node.kind);
        builder.set_identity(new, identity);
        if let Some(mount) = mounts.get(usize::from(node.mount)) {
            builder.set_mount(new, *mount);
        }
        let unit = builder.unit(profile.unit(node.unit));
        builder.used_by(new, node.uses, node.need_ns, unit);
        let ranges = profile.ranges(id).iter();
        for range in ranges.filter(|range| needs_ns.contains(&range.need_ns)) {
            let unit = builder.unit(profile.unit(range.unit));
            builder.pages_by(new, range.start_page, range.pages, range.need_ns, unit);
        }
    }
    builder.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreread_profile::types::DeviceRange;
    use foreread_profile::{Uses, decode, encode};

    fn identity(inode: u64, size_bytes: u64, mtime_ns: i64) -> Identity {
        Identity {
            inode,
            generation: 3,
            size_bytes,
            mtime_ns,
        }
    }

    fn recorded() -> Profile {
        let program = Program {
            key: OWN_KEY.to_vec(),
            ..Program::default()
        };
        let mut builder = ProfileBuilder::new(program, Source::default());
        let paths: [(&[u8], NodeKind, u64); 5] = [
            (b"/usr", NodeKind::Directory, 4096),
            (b"/usr/sbin/sshd", NodeKind::File, 3 * PAGE_BYTES),
            (b"/usr/lib/libc.so", NodeKind::File, 2 * PAGE_BYTES),
            (b"/home/ann/.profile", NodeKind::File, PAGE_BYTES),
            (b"/homely", NodeKind::File, PAGE_BYTES),
        ];
        for (path, kind, size_bytes) in paths {
            let id = builder.node(path).unwrap();
            builder.set_kind(id, kind);
            builder.set_identity(id, identity(100 + size_bytes, size_bytes, 5_000_000_007));
            let unit = builder.unit(b"/system.slice/ssh.service");
            builder.used_by(id, Uses::LOOKED_UP, 9, unit);
            if kind == NodeKind::File {
                builder.pages_by(id, 0, size_bytes / PAGE_BYTES, 11, unit);
            }
        }
        builder.finish()
    }

    fn paths(profile: &Profile) -> Vec<String> {
        let files = profile.iter().filter(|(_, node)| node.range_count > 0);
        let path = |id| String::from_utf8(profile.path(id)).unwrap();
        files.map(|(id, _)| path(id)).collect()
    }

    #[test]
    fn a_portable_profile_has_no_inodes_and_no_files_of_persons() {
        let own = recorded();
        assert!(is_own(&own));
        let portable = portable(&own);
        assert!(!is_own(&portable));
        assert!(portable.nodes.iter().all(|node| node.identity.inode == 0));
        assert_eq!(
            paths(&portable),
            ["/homely", "/usr/lib/libc.so", "/usr/sbin/sshd"]
        );
        assert_eq!(decode(&encode(&portable)), Ok(portable));
    }

    #[test]
    fn a_profile_of_own_boots_is_known_by_the_root_file_system() {
        let of = |file_system| Profile {
            program: Program {
                key: own_key(file_system),
                ..Program::default()
            },
            ..recorded()
        };
        let (one, unknown) = (of(Some(7)), of(None));
        assert!(is_own(&one) && is_own(&unknown));
        assert!(is_of_another_file_system(&one, Some(8)));
        assert!(!is_of_another_file_system(&one, Some(7)));
        assert!(!is_of_another_file_system(&one, None));
        assert!(!is_of_another_file_system(&unknown, Some(8)));
        // It is known to be another system's by its key.
        assert!(!is_of_another_file_system(&portable(&one), Some(8)));
    }

    #[test]
    fn what_is_the_same_on_another_system_gets_its_inodes_there() {
        let portable = portable(&recorded());
        let look = |path: &[u8]| match path {
            b"/usr/sbin/sshd" => Some(Found {
                kind: NodeKind::File,
                // Made there, after the packages.
                identity: identity(7, 3 * PAGE_BYTES, 9_900_000_000),
            }),
            // Another version.
            b"/usr/lib/libc.so" => Some(Found {
                kind: NodeKind::File,
                identity: identity(8, 2 * PAGE_BYTES + 1, 5_000_000_007),
            }),
            b"/homely" => None,
            _ => Some(Found {
                kind: NodeKind::Directory,
                identity: identity(2, 4096, 0),
            }),
        };
        let (fitting, fit) = placed(&portable, look);
        assert_eq!(paths(&fitting), ["/usr/sbin/sshd"]);
        let id = fitting.find(b"/usr/sbin/sshd").unwrap();
        assert_eq!(fitting.node(id).unwrap().identity.inode, 7);
        assert_eq!(fitting.ranges(id).len(), 1);
        assert_eq!((fit.missing, fit.others), (1, 1), "{fit:?}");
        assert!(!is_own(&fitting));
    }

    #[test]
    fn both_parts_together_are_the_whole() {
        let portable = portable(&recorded());
        // Four directories were needed by 9 ns, all pages at 11.
        let (first, rest) = split_by_need(&portable, 4);
        assert_eq!(paths(&first), Vec::<String>::new());
        assert!(first.find(b"/usr").is_some());
        assert_eq!(paths(&rest), paths(&portable));
        let (whole, nothing) = split_by_need(&portable, 100);
        assert_eq!((&whole, nothing.nodes.len()), (&portable, 0));

        let mut builder = ProfileBuilder::new(Program::default(), Source::default());
        let id = builder.node(b"/usr/lib/libc.so").unwrap();
        builder.set_kind(id, NodeKind::File);
        builder.set_identity(id, identity(0, 9 * PAGE_BYTES, 0));
        builder.pages(id, 0, 1, 100);
        builder.pages(id, 4, 2, 300);
        let profile = builder.finish();
        let (first, rest) = split_by_need(&profile, 4);
        let ranges = |part: &Profile| {
            let ranges = part.ranges(part.find(b"/usr/lib/libc.so").unwrap());
            ranges
                .iter()
                .map(|range| range.start_page)
                .collect::<Vec<_>>()
        };
        assert_eq!((ranges(&first), ranges(&rest)), (vec![0], vec![4]));
        let merged = foreread_profile::merge_profiles(&first, &rest);
        assert_eq!(merged.total_pages(), profile.total_pages());
    }

    #[test]
    fn both_ends_of_a_device_are_probed() {
        let ranges = |bytes| {
            let ranges = probed(b"/", false, bytes).ranges.into_iter();
            let range = |one: DeviceRange| (one.start_page, one.pages);
            ranges.map(range).collect::<Vec<_>>()
        };
        assert_eq!(ranges(1 << 30), [(0, 128), ((1 << 18) - 128, 128)]);
        assert_eq!(ranges(600 << 10), [(0, 150)]);
        assert_eq!(ranges(0), []);
    }

    #[test]
    fn what_lies_below_a_missing_directory_is_not_asked_about() {
        let mut asked = Vec::new();
        let (fitting, fit) = placed(&portable(&recorded()), |path| {
            asked.push(path.to_vec());
            (path == b"/").then_some(Found {
                kind: NodeKind::Directory,
                identity: identity(2, 4096, 0),
            })
        });
        assert!(
            !asked.iter().any(|path| path.starts_with(b"/usr/")),
            "{asked:?}"
        );
        assert_eq!(paths(&fitting), Vec::<String>::new());
        assert!(fit.missing > 3);
    }
}
