// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bpf/streams.h`: its records as bytes.

use foreread_core::policy::{Access, Decision, Done, Limits};
use foreread_watch::Device;
use foreread_watch::call::{Call, Called, Decided};
use foreread_watch::stream::{Ask, FileKey};

const BEGIN: u32 = 1;
const FILE: u32 = 2;
const ASK: u32 = 3;
/// `offsetof(struct streams_file, path)`.
const PATH_AT: usize = 32;

/// What the kernel tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// Something is missed, and what is read from memory isn't seen yet.
    Begin,
    /// A file that the records after it are about.
    File {
        file: FileKey,
        /// Names from the root of its file system down.
        directory: Vec<u8>,
        name: Vec<u8>,
        /// The most that one call reads of it.
        call_pages_max: u32,
    },
    /// The policy asks for pages.
    Ask(Ask),
}

impl Told {
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let record = Record(bytes);
        let (kind, process) = (record.word(0)?, record.word(4)?);
        let file = record.file(8)?;
        match kind {
            BEGIN => Some(Self::Begin),
            FILE => {
                let end = PATH_AT.checked_add(record.word(28)? as usize)?;
                let names = bytes.get(PATH_AT..end)?.strip_suffix(&[0])?;
                let mut names = names.split(|byte| *byte == 0);
                let name = names.next()?.to_vec();
                let directory = names.rev().fold(Vec::new(), |path, name| {
                    foreread_watch::paths::joined(&path, name)
                });
                Some(Self::File {
                    file,
                    directory,
                    name,
                    call_pages_max: record.word(24)?,
                })
            }
            ASK => Some(Self::Ask(Ask {
                process,
                thread: record.word(24)?,
                file,
                even_pages: record.word(28)?,
                start_page: record.long(32)?,
                step_pages: record.long(40)?,
                pages: record.word(48)?.into(),
                repeats: record.word(52)?,
                is_down: record.word(56)? != 0,
                busy_pages: record.word(60)?,
                disk: record.long(64)?,
            })),
            _ => None,
        }
    }
}

/// `struct streams_event`: offsets of its parts.
const ACCESS_AT: usize = 56;
const LIMITS_AT: usize = ACCESS_AT + size_of::<Access>();
const DONE_AT: usize = LIMITS_AT + size_of::<Limits>();
const DECISION_AT: usize = DONE_AT + size_of::<Done>();
const DECIDED: u32 = 1;
const WAITED: u32 = 2;
const ISSUED: u32 = 3;
const DONE: u32 = 4;
const TURNS: u32 = 5;

/// A call of the core, as the log has it.
pub(super) fn call_from_bytes(bytes: &[u8]) -> Option<Call> {
    let record = Record(bytes);
    let part = |at: usize, size: usize| bytes.get(at..at + size);
    let file = record.file(16)?;
    let access = Access::from_bytes(part(ACCESS_AT, size_of::<Access>())?)?;
    let what = match record.word(8)? {
        DECIDED => Called::Access(Box::new(Decided {
            file,
            is_new: record.word(40)? != 0,
            ra_pages: record.word(44)?,
            has_thrashed: record.word(48)? != 0,
            access,
            limits: Limits::from_bytes(part(LIMITS_AT, size_of::<Limits>())?)?,
            decision: Decision::from_bytes(part(DECISION_AT, size_of::<Decision>())?)?,
        })),
        WAITED => Called::Waited {
            file,
            thread: access.thread,
            waited_ns: access.time_ns,
            asked: access.flags != 0,
        },
        ISSUED => Called::Issued {
            file,
            thread: access.thread,
            pages: access.req_pages,
            read_pages: access.hit_pages,
        },
        DONE => Called::Done(Done::from_bytes(part(DONE_AT, size_of::<Done>())?)?),
        TURNS => Called::Turns,
        _ => return None,
    };
    Some(Call {
        number: record.long(0)?,
        process: record.word(12)?,
        disk: record.long(32)?,
        what,
    })
}

/// `struct streams_key`.
pub(super) fn key_bytes(file: FileKey) -> [u8; 16] {
    let mut bytes = [0u8; 16];
    bytes[..8].copy_from_slice(&file.inode.to_ne_bytes());
    bytes[8..12].copy_from_slice(&number(file).to_ne_bytes());
    bytes[12..].copy_from_slice(&file.generation.to_ne_bytes());
    bytes
}

/// The same back.
pub(super) fn key_from_bytes(bytes: &[u8]) -> Option<FileKey> {
    Record(bytes).file(0)
}

/// The file system's, as the kernel has it.
pub(super) fn number(file: FileKey) -> u32 {
    file.device.major << 20 | file.device.minor
}

struct Record<'a>(&'a [u8]);

impl Record<'_> {
    fn file(&self, at: usize) -> Option<FileKey> {
        let number = self.word(at + 8)?;
        Some(FileKey {
            inode: self.long(at)?,
            device: Device {
                major: number >> 20,
                minor: number & 0xf_ffff,
            },
            generation: self.word(at + 12)?,
        })
    }

    fn word(&self, at: usize) -> Option<u32> {
        Some(u32::from_ne_bytes(self.0.get(at..at + 4)?.try_into().ok()?))
    }

    fn long(&self, at: usize) -> Option<u64> {
        Some(u64::from_ne_bytes(self.0.get(at..at + 8)?.try_into().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(kind: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(100u32.to_ne_bytes());
        bytes.extend(42u64.to_ne_bytes());
        bytes.extend((8u32 << 20 | 3).to_ne_bytes());
        bytes.extend(7u32.to_ne_bytes());
        bytes
    }

    fn key() -> FileKey {
        FileKey {
            inode: 42,
            device: Device { major: 8, minor: 3 },
            generation: 7,
        }
    }

    #[test]
    fn a_file_is_read() {
        let mut bytes = head(FILE);
        bytes.extend(320u32.to_ne_bytes());
        bytes.extend(12u32.to_ne_bytes());
        bytes.extend(b"file\0sub\0to\0");
        let expected = Told::File {
            file: key(),
            directory: b"/to/sub".to_vec(),
            name: b"file".to_vec(),
            call_pages_max: 320,
        };
        assert_eq!(Told::from_bytes(&bytes), Some(expected));
        for length in 0..bytes.len() {
            assert_eq!(Told::from_bytes(&bytes[..length]), None, "{length}");
        }
    }

    #[test]
    fn keys_are_their_bytes() {
        let bytes = key_bytes(key());
        assert_eq!(bytes, head(FILE)[8..]);
        assert_eq!(key_from_bytes(&bytes), Some(key()));
        assert_eq!(key_from_bytes(&bytes[1..]), None);
    }

    #[test]
    fn what_is_asked_for_is_read() {
        let mut bytes = head(ASK);
        bytes.extend(101u32.to_ne_bytes());
        bytes.extend(23u32.to_ne_bytes());
        bytes.extend(1000u64.to_ne_bytes());
        bytes.extend(64u64.to_ne_bytes());
        for word in [16u32, 3, 1, 7] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend((8u64 << 32).to_ne_bytes());
        let Some(Told::Ask(ask)) = Told::from_bytes(&bytes) else {
            panic!();
        };
        assert_eq!((ask.process, ask.thread, ask.file), (100, 101, key()));
        assert_eq!((ask.start_page, ask.pages, ask.step_pages), (1000, 16, 64));
        assert_eq!((ask.repeats, ask.is_down, ask.even_pages), (3, true, 23));
        assert_eq!((ask.busy_pages, ask.disk), (7, 8 << 32));
        assert_eq!(Told::from_bytes(&head(9)), None);
        assert_eq!(Told::from_bytes(&head(BEGIN)), Some(Told::Begin));
    }
}
