// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events of a trace, drawn from bytes: as odd as the rules of the model allow.

use crate::bytes::Bytes;
use foreread_trace::{
    Access, Event, Extent, File, FileId, Flags, Kind, Thread, ThreadId, limits::OFFSET_BYTES_MAX,
};

/// Files and threads that there may be.
const IDS: u32 = 6;

/// All events of an input. Each file and thread is defined before its first event.
#[must_use]
pub fn events(bytes: &[u8]) -> Vec<Event> {
    let mut bytes = Bytes(bytes);
    let mut events = Vec::new();
    let (mut files, mut threads) = ([false; IDS as usize], [false; IDS as usize]);
    while !bytes.is_empty() {
        let (kind, file, thread) = (bytes.byte(), id(&mut bytes), id(&mut bytes));
        let (file, thread) = (FileId(file), ThreadId(thread));
        if !std::mem::replace(&mut files[file.0 as usize], true) {
            events.push(Event::File(file, Box::new(new_file(&mut bytes))));
        }
        if !std::mem::replace(&mut threads[thread.0 as usize], true) {
            events.push(Event::Thread(
                thread,
                Box::new(new_thread(&mut bytes, &threads)),
            ));
        }
        match kind >> 5 {
            0 => events.push(Event::ThreadEnd {
                time_ns: bytes.number(),
                thread,
            }),
            1 => events.push(Event::Extents(file, extents(&mut bytes))),
            _ => events.push(Event::Access(access(&mut bytes, kind, file, thread))),
        }
    }
    events
}

fn id(bytes: &mut Bytes<'_>) -> u32 {
    u32::from(bytes.byte()) % IDS
}

fn new_file(bytes: &mut Bytes<'_>) -> File {
    File {
        path: vec![b'/', bytes.byte()],
        size_bytes: bytes.maybe().map(|bytes| bytes.min(OFFSET_BYTES_MAX - 1)),
        device: u64::from(bytes.byte() % 4),
        metadata: bytes.byte() % 4 == 3,
        ..File::default()
    }
}

fn new_thread(bytes: &mut Bytes<'_>, known: &[bool]) -> Thread {
    let parent = id(bytes);
    Thread {
        pid: id(bytes),
        tid: id(bytes),
        parent: known[parent as usize].then_some(ThreadId(parent)),
        name: vec![bytes.byte()],
    }
}

fn extents(bytes: &mut Bytes<'_>) -> Vec<Extent> {
    let count = bytes.byte() % 4;
    let extent = |_| Extent {
        logical_bytes: bytes.number(),
        physical_bytes: bytes.number(),
        length_bytes: bytes.number().max(1),
    };
    (0..count).map(extent).collect()
}

fn access(bytes: &mut Bytes<'_>, kind: u8, file: FileId, thread: ThreadId) -> Access {
    let offset_bytes = bytes.number().min(OFFSET_BYTES_MAX - 1);
    Access {
        time_ns: bytes.number(),
        thread,
        file,
        stream: id(bytes),
        offset_bytes,
        length_bytes: bytes.number().min(OFFSET_BYTES_MAX - offset_bytes),
        kind: Kind::ALL[usize::from(kind) % Kind::ALL.len()],
        flags: Flags(bytes.byte() & Flags::ALL.0),
        waited_ns: bytes.maybe(),
        duration_ns: bytes.maybe(),
    }
}
