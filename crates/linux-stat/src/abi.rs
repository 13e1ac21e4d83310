// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bpf/stat.h`: its structs as bytes.

use std::mem::offset_of;

use foreread_accounting::{By, FileOf, Kind, Process, Subject};
use foreread_bpf::field;
use foreread_bpf::skeletons::stat::types::{stat_key, stat_name};
use foreread_core::Device;

/// Size of a `struct stat_key`.
pub(super) const KEY_BYTES: usize = size_of::<stat_key>();

/// `struct stat_name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub key: Key,
    pub account: u32,
    pub comm: Vec<u8>,
    /// Path from the root of the file system; empty when accounts aren't told apart by file.
    pub path: Vec<u8>,
}

/// `struct stat_key`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Key {
    inode: u64,
    cgroup: u64,
    started_ns: u64,
    generation: u32,
    device: u32,
    pub process: u32,
    kind: u32,
}

impl Key {
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            inode: field!(bytes, stat_key, inode)?,
            cgroup: field!(bytes, stat_key, cgroup)?,
            started_ns: field!(bytes, stat_key, started_ns)?,
            generation: field!(bytes, stat_key, generation)?,
            device: field!(bytes, stat_key, device)?,
            process: field!(bytes, stat_key, process)?,
            kind: field!(bytes, stat_key, kind)?,
        })
    }

    pub fn process(&self) -> Process {
        Process {
            id: self.process,
            started_ns: self.started_ns,
        }
    }

    /// The subject of the account, by the properties that accounts are told apart by.
    pub fn subject(&self, by: By) -> Subject {
        let device = Device::from_kernel(self.device);
        let file = FileOf {
            device,
            inode: self.inode,
            generation: self.generation,
        };
        let kind = Kind::ALL.get(self.kind as usize).copied();
        Subject {
            device: by.device.then_some(device),
            process: by.process.then(|| self.process()),
            file: by.file.then_some(file),
            cgroup: by.cgroup.then_some(self.cgroup),
            kind: Some(kind.unwrap_or_default()),
            is_other: false,
        }
    }
}

impl Named {
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let comm = field!(bytes, stat_name, comm)?;
        let path_bytes = field!(bytes, stat_name, path_bytes)? as usize;
        let names = bytes.get(offset_of!(stat_name, path)..)?;
        let names = names.get(..path_bytes)?;
        Some(Self {
            key: Key::from_bytes(bytes.get(offset_of!(stat_name, key)..)?)?,
            account: field!(bytes, stat_name, account)?,
            comm: comm.split(|byte| *byte == 0).next()?.to_vec(),
            path: path_of(names),
        })
    }
}

/// Names from the file up, each with a NUL, as a path from the top down.
fn path_of(names: &[u8]) -> Vec<u8> {
    let Some(names) = names.strip_suffix(&[0]) else {
        return Vec::new();
    };
    let mut path = Vec::with_capacity(names.len() + 1);
    for name in names.rsplit(|byte| *byte == 0) {
        path.push(b'/');
        path.extend_from_slice(name);
    }
    path
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_are_a_name_or_none(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..300),
            path_bytes in 0u32..80,
        ) {
            foreread_bpf::put!(&mut bytes, stat_name, path_bytes, path_bytes);
            if let Some(named) = Named::from_bytes(&bytes) {
                prop_assert!(named.path.len() <= path_bytes as usize && !named.comm.contains(&0));
                named.key.subject(By::default());
            }
        }
    }

    fn record() -> Vec<u8> {
        let mut bytes = Vec::new();
        for word in [42u64, 5, 6] {
            bytes.extend(word.to_ne_bytes());
        }
        for word in [7u32, 8 << 20 | 3, 100, 4, 11, 12] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(b"reader\0 of bytes");
        bytes.extend(b"file\0sub\0to\0");
        bytes
    }

    #[test]
    fn a_name_is_read() {
        let named = Named::from_bytes(&record()).unwrap();
        assert_eq!((named.account, named.comm), (11, b"reader".to_vec()));
        assert_eq!(named.path, b"/to/sub/file");
        let all = By {
            device: true,
            process: true,
            file: true,
            cgroup: true,
            kind: true,
        };
        let subject = named.key.subject(all);
        let device = Device { major: 8, minor: 3 };
        assert_eq!((subject.device, subject.cgroup), (Some(device), Some(5)));
        assert_eq!(subject.kind, Some(Kind::Around));
        assert_eq!(subject.file.unwrap().inode, 42);
        assert_eq!(subject.process.unwrap().id, 100);
        assert!(named.key.subject(By::default()).process.is_none());
    }

    #[test]
    fn what_is_cut_short_is_no_name() {
        let bytes = record();
        for length in 0..bytes.len() {
            assert!(Named::from_bytes(&bytes[..length]).is_none(), "{length}");
        }
    }

    #[test]
    fn a_file_without_a_name_has_no_path() {
        assert_eq!(path_of(b""), b"");
        assert_eq!(path_of(b"a"), b"");
        assert_eq!(path_of(b"a\0"), b"/a");
    }
}
