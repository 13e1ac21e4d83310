// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes a profile of arbitrary records of the BPF recorder. The profile is valid, and comes back
//! from its file; a second recording against it is valid as well.
#![no_main]

use foreread_fuzz::bytes::Bytes;
use foreread_fuzz::tree::{DEVICES, Tree, mounts};
use foreread_profile::{Profile, Program, Source, decode, encode};
use foreread_recorder::{
    Chunk, Counts, GroupRecord, Inbox, InodeEntry, NodeRecord, PathRecord, Record, Recording,
    resolve,
};
use libfuzzer_sys::fuzz_target;

const MODES: [u16; 5] = [0o100_644, 0o040_755, 0o120_777, 0o100_755, 0o010_644];

fuzz_target!(|input: &[u8]| {
    let mut bytes = Bytes(input);
    let tree = Tree { seed: bytes.byte() };
    let first = resolved(&recording(&mut bytes), &tree, None);
    resolved(&recording(&mut bytes), &tree, Some(&first));
});

fn resolved(recording: &Recording, tree: &Tree, known: Option<&Profile>) -> Profile {
    let program = Program {
        executable: b"/a".to_vec(),
        ..Program::default()
    };
    let (profile, _) = resolve(
        recording,
        &mounts(),
        program,
        Source::default(),
        known,
        tree,
    );
    assert_eq!(profile.validate(), Ok(()));
    assert_eq!(decode(&encode(&profile)).as_ref(), Ok(&profile));
    profile
}

/// Up to 200 records, or up to the end of the input.
fn recording(bytes: &mut Bytes<'_>) -> Recording {
    let mut inbox = Inbox::default();
    let (mut inodes, mut chunks) = (Vec::new(), Vec::new());
    for _ in 0..200 {
        if bytes.is_empty() {
            break;
        }
        match bytes.byte() % 6 {
            0 | 1 => inbox.take(Record::Node(node(bytes))),
            2 => inbox.take(Record::Path(path(bytes))),
            3 => inodes.push(inode(bytes)),
            4 => inbox.take(Record::Group(group(bytes))),
            _ => {
                let number = bytes.number_32();
                chunks.push((id(bytes), number, chunk(bytes)));
            }
        }
    }
    inbox.finish(inodes, chunks, Counts::default())
}

fn id(bytes: &mut Bytes<'_>) -> u32 {
    u32::from(bytes.byte() % 12)
}

fn node(bytes: &mut Bytes<'_>) -> NodeRecord {
    NodeRecord {
        id: id(bytes),
        parent: id(bytes),
        generation: bytes.number_32(),
        number: bytes.number(),
        device: bytes.one_of(&DEVICES),
        mode: bytes.one_of(&MODES),
        need_ns: bytes.number(),
        name: bytes.name(),
    }
}

fn group(bytes: &mut Bytes<'_>) -> GroupRecord {
    GroupRecord {
        number: id(bytes),
        parent: id(bytes),
        name: bytes.name(),
    }
}

fn path(bytes: &mut Bytes<'_>) -> PathRecord {
    PathRecord {
        directory: id(bytes),
        result: bytes.one_of(&[0, -2, -13, -20, i32::MIN]),
        uses: bytes.number_32(),
        need_ns: bytes.number(),
        path: bytes.path(),
        no_follow: bytes.byte() % 2 == 1,
        group: id(bytes),
    }
}

fn inode(bytes: &mut Bytes<'_>) -> InodeEntry {
    InodeEntry {
        number: bytes.number(),
        generation: bytes.number_32(),
        device: bytes.one_of(&DEVICES),
        first: chunk(bytes),
        need_ns: bytes.number(),
        id: id(bytes),
        uses: bytes.number_32(),
        size_bytes: bytes.number(),
        mode: bytes.one_of(&MODES),
        group: id(bytes),
    }
}

fn chunk(bytes: &mut Bytes<'_>) -> Chunk {
    Chunk {
        need_ns: bytes.number(),
        used: bytes.number(),
        fetched: bytes.number(),
        group: id(bytes),
    }
}
