// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bpf/streams.h`: its records as bytes.

use std::mem::offset_of;

use foreread_bpf::skeletons::streams::types::{
    fr_access, fr_budget, fr_decision, fr_done, fr_limits, streams_ask, streams_event,
    streams_file, streams_key, streams_pace,
};
use foreread_bpf::{field, put};
use foreread_core::Device;
use foreread_core::policy::{Access, Budget, Decision, Done, Limits};
use foreread_watch::log::stream_call::{Call, Called, Decided};
use foreread_watch::saved::streams::{Counts, Paced};
use foreread_watch::stream::{Ask, FileKey};

const BEGIN: u32 = 1;
const FILE: u32 = 2;
const ASK: u32 = 3;
const PACE: u32 = 4;
const ASK_DOWN: u32 = 1;
const ASK_LEASED: u32 = 2;

/// A record from the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// A miss in a large file while hits are not seen yet.
    Begin,
    /// A file that the records after it are about.
    File {
        file: FileKey,
        /// The path of its directory in the file system.
        directory: Vec<u8>,
        name: Vec<u8>,
        /// Maximum that one readahead(2) reads of it.
        call_pages_max: u32,
    },
    /// The policy asks for pages.
    Ask(Ask),
    /// Counts of the accesses of a thread that is read ahead of, until now.
    Pace(Paced),
}

impl Told {
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        // The kind is the first field of each record.
        match field!(bytes, streams_file, kind)? {
            BEGIN => Some(Self::Begin),
            FILE => {
                let path_bytes = field!(bytes, streams_file, path_bytes)? as usize;
                let names = bytes.get(offset_of!(streams_file, path)..)?;
                let names = names.get(..path_bytes)?.strip_suffix(&[0])?;
                let mut names = names.split(|byte| *byte == 0);
                let name = names.next()?.to_vec();
                let directory = names.rev().fold(Vec::new(), |path, name| {
                    foreread_watch::paths::joined(&path, name)
                });
                Some(Self::File {
                    file: key_from_bytes(bytes.get(offset_of!(streams_file, key)..)?)?,
                    directory,
                    name,
                    call_pages_max: field!(bytes, streams_file, call_pages_max)?,
                })
            }
            ASK => Some(Self::Ask(Ask {
                process: field!(bytes, streams_ask, process)?,
                thread: field!(bytes, streams_ask, thread)?,
                file: key_from_bytes(bytes.get(offset_of!(streams_ask, key)..)?)?,
                even_pages: field!(bytes, streams_ask, even_pages)?,
                start_page: field!(bytes, streams_ask, start_page)?,
                step_pages: field!(bytes, streams_ask, step_pages)?,
                pages: field!(bytes, streams_ask, pages)?.into(),
                repeats: field!(bytes, streams_ask, repeats)?,
                is_down: field!(bytes, streams_ask, flags)? & ASK_DOWN != 0,
                is_leased: field!(bytes, streams_ask, flags)? & ASK_LEASED != 0,
                busy_pages: field!(bytes, streams_ask, busy_pages)?,
                disk: field!(bytes, streams_ask, disk)?,
            })),
            PACE => Some(Self::Pace(paced_from_bytes(bytes)?)),
            _ => None,
        }
    }
}

fn paced_from_bytes(bytes: &[u8]) -> Option<Paced> {
    Some(Paced {
        process: field!(bytes, streams_pace, process)?,
        thread: field!(bytes, streams_pace, thread)?,
        disk: field!(bytes, streams_pace, disk)?,
        at_ns: field!(bytes, streams_pace, time_ns)?,
        is_mapped: field!(bytes, streams_pace, is_mapped)? != 0,
        kernel_pages: field!(bytes, streams_pace, kernel_pages)?.into(),
        counts: Counts {
            forward_pages: field!(bytes, streams_pace, counts.forward_pages)?,
            jumped_pages: field!(bytes, streams_pace, counts.jumped_pages)?,
            jumps_up: field!(bytes, streams_pace, counts.jumps_up)?,
            jumps_down: field!(bytes, streams_pace, counts.jumps_down)?,
            away_up_pages: field!(bytes, streams_pace, counts.away_up_pages)?,
            away_down_pages: field!(bytes, streams_pace, counts.away_down_pages)?,
            missed_pages: field!(bytes, streams_pace, counts.missed_pages)?,
            misses: field!(bytes, streams_pace, counts.misses)?,
            found_wait_ns: field!(bytes, streams_pace, counts.found_wait_ns)?,
            missed_wait_ns: field!(bytes, streams_pace, counts.missed_wait_ns)?,
        },
    })
}

const _: () = assert!(offset_of!(streams_file, kind) == offset_of!(streams_ask, kind));

/// These structs have the same size in the core and in the BPF programs.
const _: () = {
    assert!(size_of::<Access>() == size_of::<fr_access>());
    assert!(size_of::<Limits>() == size_of::<fr_limits>());
    assert!(size_of::<Done>() == size_of::<fr_done>());
    assert!(size_of::<Budget>() == size_of::<fr_budget>());
    assert!(size_of::<Decision>() == size_of::<fr_decision>());
};

/// A part of a `struct streams_event`; `None` if the bytes aren't a valid one.
macro_rules! part {
    ($bytes:expr, $field:ident, $part:ty) => {
        $bytes
            .get(offset_of!(streams_event, $field)..)
            .and_then(|bytes| <$part>::from_bytes(bytes.get(..size_of::<$part>())?))
    };
}

const DECIDED: u32 = 1;
const WAITED: u32 = 2;
const ISSUED: u32 = 3;
const DONE: u32 = 4;
const TURNS: u32 = 5;

/// Parses a call of the core for the log; `None` if the bytes aren't one.
pub(super) fn call_from_bytes(bytes: &[u8]) -> Option<Call> {
    let file = key_from_bytes(bytes.get(offset_of!(streams_event, key)..)?)?;
    let access = part!(bytes, access, Access)?;
    let what = match field!(bytes, streams_event, kind)? {
        DECIDED => Called::Access(Box::new(Decided {
            file,
            is_new: field!(bytes, streams_event, is_new)? != 0,
            ra_pages: field!(bytes, streams_event, state_ra_pages)?,
            has_thrashed: field!(bytes, streams_event, state_flags)? != 0,
            access,
            limits: part!(bytes, limits, Limits)?,
            budget: part!(bytes, budget, Budget)?,
            decision: part!(bytes, decision, Decision)?,
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
        DONE => Called::Done(part!(bytes, done, Done)?),
        TURNS => Called::Turns,
        _ => return None,
    };
    Some(Call {
        number: field!(bytes, streams_event, number)?,
        process: field!(bytes, streams_event, process)?,
        disk: field!(bytes, streams_event, disk)?,
        what,
    })
}

/// Writes a `struct streams_key`.
pub(super) fn key_bytes(file: FileKey) -> [u8; size_of::<streams_key>()] {
    let mut bytes = [0; size_of::<streams_key>()];
    put!(&mut bytes, streams_key, inode, file.inode);
    put!(&mut bytes, streams_key, device, number(file));
    put!(&mut bytes, streams_key, generation, file.generation);
    bytes
}

/// Reads a `struct streams_key`; `None` if the bytes are too few.
pub(super) fn key_from_bytes(bytes: &[u8]) -> Option<FileKey> {
    let number = field!(bytes, streams_key, device)?;
    Some(FileKey {
        inode: field!(bytes, streams_key, inode)?,
        device: Device::from_kernel(number),
        generation: field!(bytes, streams_key, generation)?,
    })
}

/// The device number of the file system as the kernel stores it: 12 bits major, 20 bits minor.
pub(super) fn number(file: FileKey) -> u32 {
    file.device.major << 20 | file.device.minor
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
        for word in [16u32, 3, ASK_DOWN | ASK_LEASED, 7] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend((8u64 << 32).to_ne_bytes());
        let Some(Told::Ask(ask)) = Told::from_bytes(&bytes) else {
            panic!();
        };
        assert_eq!((ask.process, ask.thread, ask.file), (100, 101, key()));
        assert_eq!((ask.start_page, ask.pages, ask.step_pages), (1000, 16, 64));
        assert_eq!((ask.repeats, ask.is_down, ask.even_pages), (3, true, 23));
        assert!(ask.is_leased);
        assert_eq!((ask.busy_pages, ask.disk), (7, 8 << 32));
        assert_eq!(Told::from_bytes(&head(9)), None);
        assert_eq!(Told::from_bytes(&head(BEGIN)), Some(Told::Begin));
    }

    #[test]
    fn what_a_thread_has_read_is_read() {
        let mut bytes = [0u8; size_of::<streams_pace>()];
        put!(&mut bytes, streams_pace, kind, PACE);
        put!(&mut bytes, streams_pace, thread, 101);
        put!(&mut bytes, streams_pace, is_mapped, 1);
        put!(&mut bytes, streams_pace, time_ns, 5);
        put!(&mut bytes, streams_pace, kernel_pages, 32);
        put!(&mut bytes, streams_pace, counts.missed_wait_ns, 1 << 40);
        let Some(Told::Pace(paced)) = Told::from_bytes(&bytes) else {
            panic!();
        };
        assert_eq!((paced.thread, paced.at_ns), (101, 5));
        assert_eq!((paced.is_mapped, paced.kernel_pages), (true, 32));
        assert_eq!(paced.counts.missed_wait_ns, 1 << 40);
        assert_eq!(Told::from_bytes(&bytes[..bytes.len() - 9]), None);
    }

    #[test]
    fn a_call_of_the_core_is_read() {
        let mut bytes = [0u8; size_of::<streams_event>()];
        put!(&mut bytes, streams_event, number, 1 << 40);
        put!(&mut bytes, streams_event, kind, ISSUED);
        put!(&mut bytes, streams_event, process, 100);
        put!(&mut bytes, streams_event, key.inode, 42);
        put!(&mut bytes, streams_event, key.device, 8 << 20 | 3);
        put!(&mut bytes, streams_event, key.generation, 7);
        put!(&mut bytes, streams_event, disk, 8 << 32);
        put!(&mut bytes, streams_event, access.thread, 101);
        put!(&mut bytes, streams_event, access.req_pages, 64);
        put!(&mut bytes, streams_event, access.hit_pages, 32);
        let what = Called::Issued {
            file: key(),
            thread: 101,
            pages: 64,
            read_pages: 32,
        };
        let expected = Call {
            number: 1 << 40,
            process: 100,
            disk: 8 << 32,
            what,
        };
        assert_eq!(call_from_bytes(&bytes), Some(expected));
        put!(&mut bytes, streams_event, kind, TURNS + 1);
        assert_eq!(call_from_bytes(&bytes), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_record_or_none(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..2048),
            kind in 0u32..7,
            path_bytes in 0u32..64,
        ) {
            put!(&mut bytes, streams_file, kind, kind);
            put!(&mut bytes, streams_file, path_bytes, path_bytes);
            if let Some(Told::File { directory, name, .. }) = Told::from_bytes(&bytes) {
                prop_assert!(directory.len() + name.len() <= path_bytes as usize);
            }
            put!(&mut bytes, streams_event, kind, kind);
            if let Some(call) = call_from_bytes(&bytes) {
                let mut again = foreread_watch::log::stream_call::Remembered::new();
                again.make(&call);
            }
        }
    }
}
