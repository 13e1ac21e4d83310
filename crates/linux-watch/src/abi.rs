// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bpf/watch.h`: its structs as bytes.

use std::mem::offset_of;

use foreread_bpf::skeletons::watch::types::{watch_seen, watch_walker};
use foreread_bpf::{field, put};
use foreread_core::Device;
use foreread_watch::detect::Missed;
use foreread_watch::look::Look;

const MISS: u32 = 1;
const HIT: u32 = 2;
const EXIT: u32 = 3;
const LOOK: u32 = 4;
const LOOKED: u32 = 5;
const LOOKED_LATE: u32 = 6;

/// `struct watch_seen`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    Missed {
        missed: Missed,
        at_ns: u64,
    },
    Hit {
        at_ns: u64,
        process: u32,
        thread: u32,
        device: Device,
        inode: u64,
    },
    Exited(u32),
    /// The event is reported for this process, but comes from another that shares its walk.
    Shares {
        process: u32,
        member: u32,
        /// The user of the other.
        user: u32,
    },
    Look(Look),
    Looked {
        process: u32,
        device: Device,
        inode: u64,
        is_late: bool,
    },
}

/// The kinds of events that are reported for a process of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sight {
    /// Reads of file data.
    Reads = 0,
    /// Reads and lookups.
    Looks = 1,
}

/// `struct watch_walker`: a process that goes through the tree of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Follower {
    /// The process with which the walk began.
    pub leader: u32,
    pub sight: Sight,
    /// Whether its children belong to the walk, too.
    pub takes_children: bool,
}

impl Follower {
    pub fn to_bytes(self) -> [u8; size_of::<watch_walker>()] {
        let takes_children = u16::from(self.takes_children);
        let mut bytes = [0; size_of::<watch_walker>()];
        put!(&mut bytes, watch_walker, leader, self.leader);
        put!(&mut bytes, watch_walker, looks, self.sight as u16);
        put!(&mut bytes, watch_walker, takes_children, takes_children);
        bytes
    }

    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            leader: field!(bytes, watch_walker, leader)?,
            sight: match field!(bytes, watch_walker, looks)? {
                0 => Sight::Reads,
                _ => Sight::Looks,
            },
            takes_children: field!(bytes, watch_walker, takes_children)? != 0,
        })
    }
}

impl Seen {
    /// The process that does it; `None` of events that are not its doing.
    pub fn process(&self) -> Option<u32> {
        match self {
            Self::Missed { missed, .. } => Some(missed.process),
            Self::Look(look) => Some(look.process),
            _ => None,
        }
    }

    /// [`Seen::Shares`] if the event comes from a process that shares the walk; otherwise `None`.
    pub fn shares(bytes: &[u8]) -> Option<Self> {
        let process = field!(bytes, watch_seen, process)?;
        let member = field!(bytes, watch_seen, member)?;
        let user = field!(bytes, watch_seen, user)?;
        (process != member).then_some(Self::Shares {
            process,
            member,
            user,
        })
    }

    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let inode = field!(bytes, watch_seen, inode)?;
        let at_ns = field!(bytes, watch_seen, time_ns)?;
        let number = field!(bytes, watch_seen, device)?;
        let device = Device::from_kernel(number);
        let process = field!(bytes, watch_seen, process)?;
        let path_bytes = field!(bytes, watch_seen, path_bytes)? as usize;
        let thread = field!(bytes, watch_seen, thread)?;
        let parent = field!(bytes, watch_seen, parent)?;
        let user = field!(bytes, watch_seen, user)?;
        let names = bytes.get(offset_of!(watch_seen, path)..)?;
        let names = names.get(..path_bytes)?;
        match field!(bytes, watch_seen, kind)? {
            MISS => {
                let (name, directory) = first_and_rest(names)?;
                let missed = Missed {
                    process,
                    thread,
                    parent,
                    user,
                    device,
                    inode,
                    directory,
                    name: name.to_vec(),
                };
                Some(Self::Missed { missed, at_ns })
            }
            LOOK => {
                let (path, start) = first_and_rest(names)?;
                let leads_down = !path.starts_with(b"/") && path.contains(&b'/');
                let from = leads_down.then(|| start.clone());
                let (directory, name) = followed(start, path)?;
                Some(Self::Look(Look {
                    process,
                    thread,
                    parent,
                    user,
                    device,
                    directory,
                    name,
                    start: from,
                }))
            }
            kind @ (LOOKED | LOOKED_LATE) => Some(Self::Looked {
                process,
                device,
                inode,
                is_late: kind == LOOKED_LATE,
            }),
            HIT => Some(Self::Hit {
                at_ns,
                process,
                thread,
                device,
                inode,
            }),
            EXIT => Some(Self::Exited(process)),
            _ => None,
        }
    }
}

/// Splits NUL-terminated strings into the first one and a path of the others, which go upwards.
fn first_and_rest(strings: &[u8]) -> Option<(&[u8], Vec<u8>)> {
    let mut strings = strings.strip_suffix(&[0])?.split(|byte| *byte == 0);
    let first = strings.next()?;
    let mut path = Vec::new();
    for name in strings.rev() {
        path.push(b'/');
        path.extend_from_slice(name);
    }
    Some((first, path))
}

/// The directory and the name to which a path leads. `None` if it ends at the root, or goes up:
/// only the file system could tell where to.
fn followed(mut at: Vec<u8>, path: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    for name in path.split(|byte| *byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." => return None,
            name => {
                at.push(b'/');
                at.extend_from_slice(name);
            }
        }
    }
    let slash = at.iter().rposition(|byte| *byte == b'/')?;
    let name = at.split_off(slash + 1);
    at.pop();
    // A dentry without a parent may have no name.
    (!name.is_empty()).then_some((at, name))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    fn record(kind: u32, names: &[u8]) -> Vec<u8> {
        let mut bytes = 42u64.to_ne_bytes().to_vec();
        bytes.extend(9u64.to_ne_bytes());
        for word in [8 << 20 | 3, 100, kind, names.len() as u32, 101, 0, 100, 7] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(names);
        bytes
    }

    #[test]
    fn a_miss_is_read() {
        let seen = Seen::from_bytes(&record(MISS, b"file\0sub\0to\0"));
        let Some(Seen::Missed { missed, at_ns: 9 }) = seen else {
            panic!("{seen:?}");
        };
        assert_eq!((missed.process, missed.inode, missed.user), (100, 42, 7));
        assert_eq!(missed.device, Device { major: 8, minor: 3 });
        assert_eq!(
            (&missed.directory[..], &missed.name[..]),
            (&b"/to/sub"[..], &b"file"[..])
        );
        let Some(Seen::Missed { missed, .. }) = Seen::from_bytes(&record(MISS, b"file\0")) else {
            panic!();
        };
        assert_eq!(missed.directory, b"");
    }

    #[test]
    fn a_look_is_where_its_path_leads() {
        let look = |names: &[u8]| match Seen::from_bytes(&record(LOOK, names)) {
            Some(Seen::Look(look)) => {
                assert_eq!((look.process, look.thread), (100, 101));
                let text = |bytes| String::from_utf8(bytes).unwrap();
                Some((text(look.directory), text(look.name)))
            }
            other => {
                assert_eq!(other, None);
                None
            }
        };
        let found = |directory: &str, name: &str| Some((directory.to_owned(), name.to_owned()));
        assert_eq!(look(b"a/./b//c\0sub\0to\0"), found("/to/sub/a/b", "c"));
        assert_eq!(look(b"/x\0"), found("", "x"));
        // A directory that is listed.
        assert_eq!(look(b"\0sub\0to\0"), found("/to", "sub"));
        assert_eq!(look(b".\0sub\0to\0"), found("/to", "sub"));
        assert_eq!(look(b"/\0"), None);
        assert_eq!(look(b"a/../b\0sub\0"), None);
        assert_eq!(look(b""), None);
        assert_eq!(look(b"\0\0"), None);
    }

    #[test]
    fn looks_say_whether_they_waited() {
        for (kind, is_late) in [(LOOKED, false), (LOOKED_LATE, true)] {
            let expected = Seen::Looked {
                process: 100,
                device: Device { major: 8, minor: 3 },
                inode: 42,
                is_late,
            };
            assert_eq!(Seen::from_bytes(&record(kind, b"")), Some(expected));
        }
    }

    #[test]
    fn who_goes_through_a_tree_is_as_in_the_kernel() {
        let follower = Follower {
            leader: 70_000,
            sight: Sight::Looks,
            takes_children: true,
        };
        assert_eq!(Follower::from_bytes(&follower.to_bytes()), Some(follower));
        assert_eq!(Follower::from_bytes(&follower.to_bytes()[..7]), None);
    }

    #[test]
    fn who_shares_a_walk_is_told() {
        let mut bytes = record(HIT, b"");
        assert_eq!(Seen::shares(&bytes), None);
        bytes[40..44].copy_from_slice(&102u32.to_ne_bytes());
        let expected = Seen::Shares {
            process: 100,
            member: 102,
            user: 7,
        };
        assert_eq!(Seen::shares(&bytes), Some(expected));
        assert_eq!(Seen::shares(&bytes[..43]), None);
    }

    proptest! {
        #[test]
        fn any_record_is_an_event_within_its_bytes_or_none(
            kind in 0u32..8,
            names in vec(select(&[0, 0, b'/', b'.', b'a', 0xff][..]), 0..80),
            flipped in (0usize..120, any::<u8>()),
            length in 0usize..120,
        ) {
            let mut bytes = record(kind, &names);
            if let Some(byte) = bytes.get_mut(flipped.0) {
                *byte = flipped.1;
            }
            bytes.truncate(length);
            prop_assert!(Follower::from_bytes(&bytes).is_some() || bytes.len() < 8);
            let _ = Seen::shares(&bytes);
            match Seen::from_bytes(&bytes) {
                Some(Seen::Missed { missed, .. }) => {
                    prop_assert!(missed.directory.len() + missed.name.len() < bytes.len());
                }
                Some(Seen::Look(look)) => {
                    prop_assert!(look.directory.len() + look.name.len() < bytes.len());
                    prop_assert!(!look.name.is_empty() && !look.name.contains(&b'/'));
                }
                _ => {}
            }
        }
    }

    #[test]
    fn what_is_cut_short_or_unknown_is_nothing() {
        let bytes = record(MISS, b"file\0sub\0to\0");
        for length in 0..bytes.len() {
            assert_eq!(Seen::from_bytes(&bytes[..length]), None, "{length}");
        }
        assert_eq!(Seen::from_bytes(&record(9, b"")), None);
        assert_eq!(Seen::from_bytes(&record(MISS, b"")), None);
        assert_eq!(
            Seen::from_bytes(&record(EXIT, b"")),
            Some(Seen::Exited(100))
        );
    }
}
