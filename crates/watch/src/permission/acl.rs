// SPDX-License-Identifier: MIT OR Apache-2.0
//! POSIX access control lists, as the extended attribute `system.posix_acl_access` has them.

use super::Credentials;

/// Version of the attribute's format; it is the only one.
const VERSION: u32 = 2;
const HEADER_BYTES: usize = 4;
const ENTRY_BYTES: usize = 8;

/// Whether an inode has a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ListState {
    /// It has none, so the mode alone counts.
    #[default]
    None,
    /// It has this one.
    List(Acl),
    /// It may have one that can't be read.
    Unknown,
}

/// The subject of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    /// The owner of the file.
    Owner,
    /// A user, by number.
    User(u32),
    /// The group of the file.
    OwningGroup,
    /// A group, by number.
    Group(u32),
    /// The most that named users and all groups get.
    Mask,
    /// All others.
    Other,
}

/// An entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The subject.
    pub tag: Tag,
    /// Its permission bits: 4 read, 2 write, 1 execute or search.
    pub bits: u8,
}

/// A list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acl(Vec<Entry>);

impl Acl {
    /// Reads the value of the attribute. `None` if it isn't one that the kernel would accept.
    #[must_use]
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (header, entries) = value.split_at_checked(HEADER_BYTES)?;
        let version = u32::from_le_bytes(header.try_into().ok()?);
        if version != VERSION || entries.is_empty() || entries.len() % ENTRY_BYTES != 0 {
            return None;
        }
        let entries = entries.chunks_exact(ENTRY_BYTES).map(entry);
        entries.collect::<Option<Vec<Entry>>>().map(Self)
    }

    /// A list of these entries, in the order of the attribute.
    #[must_use]
    pub fn new(entries: Vec<Entry>) -> Self {
        Self(entries)
    }

    /// `posix_acl_permission()` of the kernel. The program isn't the owner of the file.
    pub(super) fn permits(&self, credentials: &Credentials, group: u32, wanted: u8) -> bool {
        let grants = |bits: u8| wanted & !bits == 0;
        let mut is_in_a_group = false;
        for Entry { tag, bits } in self.0.iter().copied() {
            match tag {
                Tag::User(user) if user == credentials.user => return grants(bits & self.mask()),
                Tag::OwningGroup | Tag::Group(_) => {
                    let of = if let Tag::Group(of) = tag { of } else { group };
                    if credentials.is_in(of) {
                        is_in_a_group = true;
                        // Any of several groups may grant it.
                        if grants(bits) {
                            return grants(bits & self.mask());
                        }
                    }
                }
                Tag::Other => return !is_in_a_group && grants(bits),
                Tag::Owner | Tag::User(_) | Tag::Mask => {}
            }
        }
        // The kernel reports an error for a list without an entry for others.
        false
    }

    fn mask(&self) -> u8 {
        let mask = self.0.iter().find(|entry| entry.tag == Tag::Mask);
        mask.map_or(7, |entry| entry.bits)
    }
}

fn entry(bytes: &[u8]) -> Option<Entry> {
    let tag = u16::from_le_bytes(bytes.get(..2)?.try_into().ok()?);
    let bits = u16::from_le_bytes(bytes.get(2..4)?.try_into().ok()?);
    let id = u32::from_le_bytes(bytes.get(4..8)?.try_into().ok()?);
    let tag = match tag {
        0x01 => Tag::Owner,
        0x02 => Tag::User(id),
        0x04 => Tag::OwningGroup,
        0x08 => Tag::Group(id),
        0x10 => Tag::Mask,
        0x20 => Tag::Other,
        _ => return None,
    };
    let bits = u8::try_from(bits).ok().filter(|bits| *bits <= 7)?;
    Some(Entry { tag, bits })
}

#[cfg(test)]
mod tests {
    use super::super::{Inode, Privilege, READ, permits};
    use super::*;
    use proptest::prelude::*;

    fn value(entries: &[(u16, u16, u32)]) -> Vec<u8> {
        let mut value = VERSION.to_le_bytes().to_vec();
        for (tag, bits, id) in entries {
            value.extend(tag.to_le_bytes());
            value.extend(bits.to_le_bytes());
            value.extend(id.to_le_bytes());
        }
        value
    }

    fn may_read(user: u32, groups: &[u32], entries: &[(u16, u16, u32)]) -> bool {
        let list = Acl::parse(&value(entries)).unwrap();
        let credentials = Credentials {
            user,
            group: 900,
            groups: groups.to_vec(),
            privilege: Privilege::default(),
        };
        let inode = Inode {
            mode: 0o100_770,
            user: 0,
            group: 50,
            list: ListState::List(list),
        };
        permits(&credentials, &inode, READ)
    }

    #[test]
    fn named_users_come_before_groups_and_groups_before_others() {
        let denied_user = [(1, 7, 0), (2, 0, 7), (4, 0, 0), (16, 7, 0), (32, 4, 0)];
        assert!(!may_read(7, &[], &denied_user));
        assert!(may_read(8, &[], &denied_user));
        let masked = [(1, 7, 0), (2, 7, 7), (4, 4, 0), (16, 1, 0), (32, 0, 0)];
        assert!(!may_read(7, &[], &masked));
        assert!(!may_read(8, &[50], &masked));
        let of_two = [(1, 7, 0), (4, 0, 0), (8, 4, 60), (16, 7, 0), (32, 0, 0)];
        assert!(may_read(8, &[50, 60], &of_two));
        assert!(!may_read(8, &[50], &of_two));
        // A member of a group that grants nothing is not one of the others.
        let closed_group = [(1, 7, 0), (4, 0, 0), (32, 7, 0)];
        assert!(!may_read(8, &[50], &closed_group));
        assert!(may_read(8, &[], &closed_group));
    }

    #[test]
    fn what_the_kernel_would_not_write_is_no_list() {
        assert_eq!(Acl::parse(b""), None);
        assert_eq!(Acl::parse(&value(&[])), None);
        assert_eq!(Acl::parse(&value(&[(3, 7, 0)])), None);
        assert_eq!(Acl::parse(&value(&[(1, 8, 0)])), None);
        let mut odd = value(&[(1, 7, 0)]);
        odd.push(0);
        assert_eq!(Acl::parse(&odd), None);
        odd.truncate(12);
        odd[0] = 1;
        assert_eq!(Acl::parse(&odd), None);
        // Without an entry for others the kernel reports an error.
        assert!(!may_read(8, &[], &[(1, 7, 0)]));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_list_or_none(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Some(list) = Acl::parse(&bytes) {
                prop_assert_eq!(list.0.len(), (bytes.len() - HEADER_BYTES) / ENTRY_BYTES);
            }
        }

        #[test]
        fn a_mask_without_rights_leaves_only_those_of_others(
            user in 0u32..4, groups in prop::collection::vec(0u32..4, 0..3),
            bits in prop::collection::vec(0u16..8, 4)
        ) {
            let entries = [
                (1, 7, 0), (2, bits[0], 1), (4, bits[1], 0), (8, bits[2], 2), (16, 0, 0),
                (32, bits[3], 0),
            ];
            let is_named = user == 1 || groups.contains(&2) || groups.contains(&50);
            let expected = user == 0 || (!is_named && bits[3] & 4 != 0);
            prop_assert_eq!(may_read(user, &groups, &entries), expected);
        }
    }
}
