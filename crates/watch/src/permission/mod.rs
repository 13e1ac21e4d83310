// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decides whether a program may read a file or go through a directory, as the kernel decides.
//!
//! `watch` runs as root and reads ahead of programs of all users. It must bring in for a program
//! only what this program may read itself. The kernel has no call to ask on behalf of another
//! process, and the service has no right to become another user. So the rules of
//! `generic_permission()` are repeated here.
//!
//! Input: the [`Credentials`] of the program, and mode, owner and access control list of an
//! [`Inode`]. Output: yes or no. Without certainty (an unreadable list) the answer is no. No I/O.
//!
//! Not modelled: security modules and sandboxes (the caller leaves confined programs alone, as far
//! as it sees that they are), and file systems whose server decides.

mod acl;
mod credentials;
mod view;

use foreread_core::mounts::is_on_local_device;

pub use acl::{Acl, Entry, ListState, Tag};
pub use credentials::{Credentials, IdMap, Privilege, differ};
pub use view::translate;

/// Read access: data of a file, names in a directory.
pub const READ: u8 = 4;
/// Search access to a directory: looking its entries up.
pub const SEARCH: u8 = 1;

const TYPE_MASK: u32 = 0o170_000;
const TYPE_DIRECTORY: u32 = 0o040_000;
/// Permission bits of the group. With an access control list they are its mask; without any of
/// them the kernel ignores the list.
const GROUP_BITS: u32 = 0o070;

/// File systems of this machine whose files other rules protect, or more than these: access control
/// lists of NFS, a list in another form.
const WITH_OTHER_RULES: [&[u8]; 2] = [b"reiserfs", b"zfs"];

/// Whether files of this type of file system are protected by the rules of this module alone. A
/// server may have other rules (NFS with `root_squash`).
#[must_use]
pub fn is_local(fs_type: &[u8]) -> bool {
    is_on_local_device(fs_type) && !WITH_OTHER_RULES.contains(&fs_type)
}

/// The facts about a file or directory by which access is decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inode {
    /// Type and permission bits, as in `struct stat`.
    pub mode: u32,
    /// The owner.
    pub user: u32,
    /// The group.
    pub group: u32,
    /// The access control list.
    pub list: ListState,
}

impl Inode {
    /// Whether the answer for this program depends on the access control list. If not, the list
    /// need not be read.
    #[must_use]
    pub fn needs_list(&self, credentials: &Credentials) -> bool {
        credentials.user != self.user && self.mode & GROUP_BITS != 0
    }

    fn is_directory(&self) -> bool {
        self.mode & TYPE_MASK == TYPE_DIRECTORY
    }
}

/// Whether a program may access an inode in all of these ways: [`READ`], [`SEARCH`] or both.
///
/// Search access is meant for directories. Of a file it would be the right to execute it, which no
/// privilege to read gives.
#[must_use]
pub fn permits(credentials: &Credentials, inode: &Inode, wanted: u8) -> bool {
    let is_search_of_file = wanted & SEARCH != 0 && !inode.is_directory();
    if is_search_of_file {
        return by_mode(credentials, inode, wanted);
    }
    by_mode(credentials, inode, wanted) || credentials.reads_all(inode.user, inode.group)
}

/// `acl_permission_check()` of the kernel.
fn by_mode(credentials: &Credentials, inode: &Inode, wanted: u8) -> bool {
    let wanted_bits = u32::from(wanted);
    let grants = |bits: u32| wanted_bits & !bits == 0;
    if credentials.user == inode.user {
        return grants(inode.mode >> 6 & 7);
    }
    if inode.mode & GROUP_BITS != 0 {
        match &inode.list {
            ListState::None => {}
            ListState::List(list) => return list.permits(credentials, inode.group, wanted),
            ListState::Unknown => return false,
        }
    }
    match credentials.is_in(inode.group) {
        true => grants(inode.mode >> 3 & 7),
        false => grants(inode.mode & 7),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn program(user: u32, group: u32, groups: &[u32]) -> Credentials {
        Credentials {
            user,
            group,
            groups: groups.to_vec(),
            privilege: Privilege::default(),
        }
    }

    fn inode(mode: u32, user: u32, group: u32) -> Inode {
        Inode {
            mode,
            user,
            group,
            list: ListState::None,
        }
    }

    #[test]
    fn the_first_class_that_fits_decides() {
        // The owner may do less than others.
        let odd = inode(0o100_047, 1, 2);
        assert!(!permits(&program(1, 2, &[]), &odd, READ));
        assert!(permits(&program(3, 2, &[]), &odd, READ));
        assert!(permits(&program(3, 9, &[2]), &odd, READ));
        assert!(permits(&program(3, 9, &[]), &odd, READ | SEARCH));
        let closed = inode(0o100_640, 1, 2);
        assert!(permits(&program(3, 9, &[5, 2]), &closed, READ));
        assert!(!permits(&program(3, 9, &[5]), &closed, READ));
        // Search access is no read access, and the other way round.
        let way = inode(0o040_711, 1, 2);
        assert!(permits(&program(3, 3, &[]), &way, SEARCH));
        assert!(!permits(&program(3, 3, &[]), &way, READ));
        let names = inode(0o040_744, 1, 2);
        assert!(!permits(&program(3, 3, &[]), &names, SEARCH));
    }

    #[test]
    fn who_is_privileged_may_read_what_its_user_namespace_knows() {
        let root = Credentials {
            privilege: Privilege::over(IdMap::all(), IdMap::all()),
            ..program(0, 0, &[])
        };
        let secret = inode(0o100_000, 1000, 1000);
        assert!(permits(&root, &secret, READ));
        assert!(permits(&root, &inode(0o040_000, 1, 1), READ | SEARCH));
        // It may not run what nobody may run.
        assert!(!permits(&root, &secret, SEARCH));
        let container = |users: &str| Credentials {
            privilege: Privilege::over(
                IdMap::parse(users).unwrap(),
                IdMap::parse("0 100000 65536\n").unwrap(),
            ),
            ..program(100_000, 100_000, &[])
        };
        let users = "         0     100000      65536\n";
        assert!(permits(
            &container(users),
            &inode(0o100_000, 165_535, 100_000),
            READ
        ));
        assert!(!permits(
            &container(users),
            &inode(0o100_000, 165_536, 100_000),
            READ
        ));
        assert!(!permits(
            &container(users),
            &inode(0o100_000, 100_001, 0),
            READ
        ));
        assert!(!permits(&container(users), &inode(0o100_000, 0, 0), READ));
    }

    #[test]
    fn a_list_that_cannot_be_read_forbids_what_it_could_forbid() {
        let listed = |mode| Inode {
            list: ListState::Unknown,
            ..inode(mode, 1, 2)
        };
        assert!(!permits(&program(3, 3, &[]), &listed(0o100_664), READ));
        // The owner is not in the list, and without group bits the kernel doesn't look at it.
        assert!(permits(&program(1, 3, &[]), &listed(0o100_664), READ));
        assert!(permits(&program(3, 3, &[]), &listed(0o100_604), READ));
    }

    #[test]
    fn only_file_systems_of_this_machine_are_judged() {
        assert!(is_local(b"ext4") && is_local(b"xfs"));
        for other in [&b"nfs4"[..], b"fuse.sshfs", b"9p", b"cifs", b"autofs", b""] {
            assert!(!is_local(other));
        }
    }

    proptest! {
        #[test]
        fn more_rights_never_take_access_away(
            mode in 0u32..0o1000, user in 0u32..4, group in 0u32..4, wanted in 0u8..8,
            is_directory in any::<bool>(), groups in prop::collection::vec(0u32..4, 0..3)
        ) {
            let kind = if is_directory { TYPE_DIRECTORY } else { 0o100_000 };
            let inode = inode(kind | mode, user, group);
            let plain = program(1, 1, &groups);
            let root = Credentials {
                privilege: Privilege::over(IdMap::all(), IdMap::all()),
                ..plain.clone()
            };
            let wanted = wanted & (READ | SEARCH);
            if permits(&plain, &inode, wanted) {
                prop_assert!(permits(&root, &inode, wanted));
                prop_assert!(permits(&plain, &inode, wanted & READ));
            }
            // Without any bit there is no access but by privilege.
            let closed = Inode { mode: kind, ..inode };
            prop_assert_eq!(permits(&plain, &closed, wanted), wanted == 0);
        }
    }
}
