// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces made up for tests.
#![allow(dead_code, clippy::unwrap_used)]

use foreread_trace::frt::{Reader, Writer};
use foreread_trace::*;
use proptest::prelude::*;

/// A trace as a program would write it.
#[derive(Clone, Debug)]
pub struct Made {
    pub header: Header,
    pub events: Vec<Event>,
}

impl Made {
    pub fn bytes(&self) -> Vec<u8> {
        let mut writer = Writer::new(Vec::new(), &self.header).unwrap();
        for event in &self.events {
            writer.write(event).unwrap();
        }
        writer.finish().unwrap().0
    }

    pub fn accesses(&self) -> Vec<Access> {
        accesses(&self.events)
    }
}

pub fn accesses(events: &[Event]) -> Vec<Access> {
    let access = |event: &Event| match event {
        Event::Access(access) => Some(*access),
        _ => None,
    };
    events.iter().filter_map(access).collect()
}

/// All that is left in a reader.
pub fn rest<R: std::io::Read>(reader: &mut Reader<R>) -> Vec<Event> {
    let mut events = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        events.push(event);
    }
    events
}

pub fn file(path: &str) -> Box<File> {
    let path = path.as_bytes().to_vec();
    Box::new(File {
        path,
        ..File::default()
    })
}

pub fn thread(pid: u32, tid: u32) -> Box<Thread> {
    Box::new(Thread {
        pid,
        tid,
        ..Thread::default()
    })
}

pub fn read(time_ns: u64, file: u32, offset_bytes: u64, length_bytes: u64) -> Access {
    Access {
        time_ns,
        thread: ThreadId(0),
        file: FileId(file),
        stream: 1,
        offset_bytes,
        length_bytes,
        kind: Kind::Read,
        flags: Flags::default(),
        waited_ns: Some(0),
        duration_ns: None,
    }
}

/// Two files, one thread, and `reads` reads a millisecond apart.
pub fn small(reads: u64) -> Made {
    let mut events = vec![
        Event::Thread(ThreadId(0), thread(10, 10)),
        Event::File(FileId(0), file("/a")),
        Event::File(FileId(1), file("/b")),
    ];
    for number in 0..reads {
        let file = (number % 2) as u32;
        let access = read(number * 1_000_000, file, number / 2 * 4096, 4096);
        events.push(Event::Access(access));
    }
    let header = Header::new(Source::Recorded, TimeIs::Returned);
    Made { header, events }
}

fn any_file() -> impl Strategy<Value = File> {
    let path = prop::collection::vec(any::<u8>(), 0..40);
    (
        path,
        any::<Option<u64>>(),
        any::<u64>(),
        any::<u64>(),
        any::<bool>(),
    )
        .prop_map(|(path, size_bytes, device, inode, metadata)| File {
            path,
            size_bytes,
            device,
            inode,
            metadata,
        })
}

fn any_access(files: u32, threads: u32) -> impl Strategy<Value = Access> {
    let range = prop_oneof![
        (0..1_u64 << 30, 0..1_u64 << 20),
        (0..1_u64 << 62, 0..1_u64 << 62),
    ];
    let times = (any::<u64>(), any::<Option<u64>>(), any::<Option<u64>>());
    let what = (0..Kind::ALL.len(), 0..=Flags::ALL.0, any::<u32>());
    (range, times, what, 0..files, 0..threads).prop_map(
        |((offset_bytes, length_bytes), times, (kind, flags, stream), file, thread)| Access {
            time_ns: times.0,
            thread: ThreadId(thread),
            file: FileId(file),
            stream,
            offset_bytes,
            length_bytes,
            kind: Kind::ALL[kind],
            flags: Flags(flags),
            waited_ns: times.1,
            duration_ns: times.2,
        },
    )
}

/// Any trace: everything used is defined, in whatever order.
pub fn any_trace() -> impl Strategy<Value = Made> {
    let files = prop::collection::vec(any_file(), 1..300);
    let threads = prop::collection::vec((any::<u32>(), any::<u32>(), "[a-z]{0,9}"), 1..9);
    let head = (any::<Option<u32>>(), "[a-z .]{0,30}", "[0-9.]{0,9}");
    (files, threads, head).prop_flat_map(|(files, threads, head)| {
        let access = any_access(files.len() as u32, threads.len() as u32);
        let extents = (0..1_u64 << 62, 0..1_u64 << 62, 1..1_u64 << 62);
        (
            Just(files),
            Just(threads),
            Just(head),
            prop::collection::vec(access, 0..400),
            prop::collection::vec(extents, 0..50),
        )
            .prop_map(|(files, threads, head, accesses, extents)| {
                made(files, threads, head, accesses, &extents)
            })
    })
}

type Head = (Option<u32>, String, String);

fn made(
    files: Vec<File>,
    threads: Vec<(u32, u32, String)>,
    head: Head,
    accesses: Vec<Access>,
    extents: &[(u64, u64, u64)],
) -> Made {
    let mut events = Vec::new();
    for (id, (pid, tid, name)) in threads.into_iter().enumerate() {
        let id = id as u32;
        let thread = Thread {
            pid,
            tid,
            parent: id.checked_sub(1).map(ThreadId),
            name: name.into_bytes(),
        };
        events.push(Event::Thread(ThreadId(id), Box::new(thread)));
    }
    for (id, file) in files.into_iter().enumerate() {
        events.push(Event::File(FileId(id as u32), Box::new(file)));
    }
    let extents = extents.iter();
    let extents = extents.map(|(logical_bytes, physical_bytes, length_bytes)| Extent {
        logical_bytes: *logical_bytes,
        physical_bytes: *physical_bytes,
        length_bytes: *length_bytes,
    });
    events.push(Event::Extents(FileId(0), extents.collect()));
    let ends = accesses.len() / 2;
    for (at, access) in accesses.into_iter().enumerate() {
        if at == ends {
            let (time_ns, thread) = (access.time_ns, access.thread);
            events.push(Event::ThreadEnd { time_ns, thread });
        }
        events.push(Event::Access(access));
    }
    let mut header = Header::new(Source::Recorded, TimeIs::Began);
    header.started_unix_ns = head.0.map(u64::from).filter(|ns| *ns > 0);
    header.command = head.1.split(' ').map(|word| word.into()).collect();
    header.kernel = head.2.into_bytes();
    Made { header, events }
}
