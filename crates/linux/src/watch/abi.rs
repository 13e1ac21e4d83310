// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bpf/watch.h`: its struct as bytes.

use foreread_watch::Device;
use foreread_watch::detect::Missed;

/// `offsetof(struct watch_seen, path)`.
const PATH_AT: usize = 24;
const MISS: u32 = 1;
const HIT: u32 = 2;
const EXIT: u32 = 3;

/// `struct watch_seen`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    Missed(Missed),
    Hit {
        process: u32,
        device: Device,
        inode: u64,
    },
    Exited(u32),
}

impl Seen {
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let inode = u64::from_ne_bytes(bytes.get(..8)?.try_into().ok()?);
        let number = word(8)?;
        let device = Device {
            major: number >> 20,
            minor: number & 0xf_ffff,
        };
        let process = word(12)?;
        let path_bytes = word(20)? as usize;
        let names = bytes.get(PATH_AT..PATH_AT.checked_add(path_bytes)?)?;
        match word(16)? {
            MISS => {
                let mut names = names.strip_suffix(&[0])?.split(|byte| *byte == 0);
                let name = names.next()?.to_vec();
                let mut directory = Vec::with_capacity(path_bytes);
                for name in names.rev() {
                    directory.push(b'/');
                    directory.extend_from_slice(name);
                }
                Some(Self::Missed(Missed {
                    process,
                    device,
                    inode,
                    directory,
                    name,
                }))
            }
            HIT => Some(Self::Hit {
                process,
                device,
                inode,
            }),
            EXIT => Some(Self::Exited(process)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, names: &[u8]) -> Vec<u8> {
        let mut bytes = 42u64.to_ne_bytes().to_vec();
        for word in [8 << 20 | 3, 100, kind, names.len() as u32] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(names);
        bytes
    }

    #[test]
    fn a_miss_is_read() {
        let seen = Seen::from_bytes(&record(MISS, b"file\0sub\0to\0"));
        let Some(Seen::Missed(missed)) = seen else {
            panic!("{seen:?}");
        };
        assert_eq!((missed.process, missed.inode), (100, 42));
        assert_eq!(missed.device, Device { major: 8, minor: 3 });
        assert_eq!(
            (&missed.directory[..], &missed.name[..]),
            (&b"/to/sub"[..], &b"file"[..])
        );
        let Some(Seen::Missed(at_top)) = Seen::from_bytes(&record(MISS, b"file\0")) else {
            panic!();
        };
        assert_eq!(at_top.directory, b"");
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
