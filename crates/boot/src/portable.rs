// SPDX-License-Identifier: MIT OR Apache-2.0
//! Profiles that go from one system to another with the same packages: an image, a package, a
//! fleet.
//!
//! In: a profile, and a look at the files of the system that it is for. Out: a profile without
//! inode numbers, or one with those of that system, of the entries that are the same there. Package
//! managers keep size and time of change of a file, so by these a file is known.

use foreread_core::mounts::below;
use foreread_profile::{
    Identity, Mount, Node, NodeId, NodeKind, Profile, ProfileBuilder, Program, Source,
};

/// Key of the program in the profile of a system's own boot.
pub const OWN_KEY: &[u8] = b"boot";
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
    /// Those that are something else, or another version.
    pub others: usize,
}

/// Whether a profile is for this system only, and from it.
#[must_use]
pub fn is_own(profile: &Profile) -> bool {
    profile.program.key == OWN_KEY
}

/// The profile without what only one system has: inode numbers, places on devices, measurements,
/// and the names of files of persons.
#[must_use]
pub fn portable(profile: &Profile) -> Profile {
    chosen(profile, |_, path, node| {
        let is_left_out = OF_ONE_SYSTEM.iter().any(|top| below(top, path).is_some());
        (!is_left_out).then_some(Identity {
            inode: 0,
            generation: 0,
            ..node.identity
        })
    })
}

/// The part of a profile that fits a system. `look` says what is at each path; paths below one that
/// is missing are not asked about.
pub fn placed(profile: &Profile, mut look: impl FnMut(&[u8]) -> Option<Found>) -> (Profile, Fit) {
    const SECOND_NS: i64 = 1_000_000_000;
    let mut fit = Fit::default();
    let mut is_there = vec![false; profile.nodes.len()];
    let fitting = chosen(profile, |id, path, node| {
        let above = node.parent.is_none_or(|parent| is_there[parent.0 as usize]);
        let Some(found) = (if above { look(path) } else { None }) else {
            // A name that was looked for in vain is missing on both.
            fit.missing += usize::from(node.kind != NodeKind::Absent);
            return None;
        };
        is_there[id.0 as usize] = true;
        // Packages keep seconds.
        let seconds = |identity: &Identity| identity.mtime_ns.div_euclid(SECOND_NS);
        let is_same_version = found.identity.size_bytes == node.identity.size_bytes
            && seconds(&found.identity) == seconds(&node.identity);
        let is_same = found.kind == node.kind && (node.kind != NodeKind::File || is_same_version);
        match is_same {
            true => fit.same += 1,
            false => fit.others += 1,
        }
        is_same.then_some(found.identity)
    });
    (fitting, fit)
}

/// The nodes for which `choose` gives an identity, in a profile of another system.
fn chosen(
    profile: &Profile,
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
        add_pages(profile, id, new, &mut builder);
    }
    builder.finish()
}

fn add_pages(profile: &Profile, id: NodeId, new: NodeId, builder: &mut ProfileBuilder) {
    for range in profile.ranges(id) {
        let unit = builder.unit(profile.unit(range.unit));
        builder.pages_by(new, range.start_page, range.pages, range.need_ns, unit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreread_profile::{PAGE_BYTES, Uses, decode, encode};

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
    fn what_is_the_same_on_another_system_gets_its_inodes_there() {
        let portable = portable(&recorded());
        let look = |path: &[u8]| match path {
            b"/usr/sbin/sshd" => Some(Found {
                kind: NodeKind::File,
                identity: identity(7, 3 * PAGE_BYTES, 5_900_000_000),
            }),
            // Another version.
            b"/usr/lib/libc.so" => Some(Found {
                kind: NodeKind::File,
                identity: identity(8, 2 * PAGE_BYTES, 6_000_000_000),
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
