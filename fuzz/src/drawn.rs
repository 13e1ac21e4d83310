// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events of a trace, drawn from bytes: as odd as the rules of the model allow.

use foreread_trace::{
    Access, Event, Extent, File, FileId, Flags, Kind, Thread, ThreadId, limits::OFFSET_BYTES_MAX,
};

/// Files and threads that there may be.
const IDS: u32 = 6;

/// The bytes, from which numbers are taken.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn byte(&mut self) -> u8 {
        let Some((byte, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *byte
    }

    fn id(&mut self) -> u32 {
        u32::from(self.byte()) % IDS
    }

    /// Small ones mostly, and some of any size.
    fn number(&mut self) -> u64 {
        let byte = self.byte();
        let number = u64::from(byte & 0x1f);
        match byte >> 5 {
            0..=2 => number,
            3 => number * 4096,
            4 => number * 1_000_000,
            5 => number << 20,
            6 => u64::from(self.byte()) << number.min(56),
            _ => u64::MAX - number,
        }
    }

    fn maybe(&mut self) -> Option<u64> {
        (self.byte() % 2 == 1).then(|| self.number())
    }
}

/// All of them; whatever an event is of was defined before.
#[must_use]
pub fn events(bytes: &[u8]) -> Vec<Event> {
    let mut bytes = Bytes(bytes);
    let mut events = Vec::new();
    let (mut files, mut threads) = ([false; IDS as usize], [false; IDS as usize]);
    while !bytes.0.is_empty() {
        let (kind, file, thread) = (bytes.byte(), bytes.id(), bytes.id());
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
    let parent = bytes.id();
    Thread {
        pid: bytes.id(),
        tid: bytes.id(),
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
        stream: bytes.id(),
        offset_bytes,
        length_bytes: bytes.number().min(OFFSET_BYTES_MAX - offset_bytes),
        kind: Kind::ALL[usize::from(kind) % Kind::ALL.len()],
        flags: Flags(bytes.byte() & Flags::ALL.0),
        waited_ns: bytes.maybe(),
        duration_ns: bytes.maybe(),
    }
}
