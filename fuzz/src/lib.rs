// SPDX-License-Identifier: MIT OR Apache-2.0
//! Code that the fuzz targets share: checks of traces, and values that are made of an input.

pub mod bytes;
pub mod drawn;
pub mod tree;

use std::io::Cursor;

use foreread_trace::frt::Reader;
use foreread_trace::{
    Event, Format, Known, LeftOut, Objects, ReadOptions, Summary, Target, copy, create, limits,
    open,
};

/// Reads bytes as a trace. Whatever comes out keeps the rules of the model, can be counted, and can
/// be written in every format; written in the own one, it comes back.
pub fn read(bytes: &[u8], format: Option<Format>, objects: Objects) {
    let options = ReadOptions { format, objects };
    let Ok(mut events) = open(bytes, options) else {
        return;
    };
    let mut known = Known::default();
    let mut summary = Summary::new(events.header().page_bytes);
    let mut accesses = 0;
    loop {
        match events.next_event() {
            Ok(Some(event)) => {
                check(&event, &known);
                known.learn(&event);
                summary.add(&event);
                accesses += u64::from(matches!(event, Event::Access(_)));
            }
            Ok(None) => break,
            Err(error) => {
                assert!(!error.to_string().contains('\n'));
                return;
            }
        }
    }
    assert_eq!(summary.all_accesses(), accesses);
    let bad = events.findings().left_out.get(LeftOut::BadRecords);
    assert!(bad >= events.findings().bad_records);
    for target in [Target::Fio, Target::FioV2, Target::Csv] {
        written(bytes, options, target);
    }
    let own = written(bytes, options, Target::Frt);
    let mut again = Reader::new(&own[..]).expect("what was written is a trace");
    let mut count = 0;
    while let Some(event) = again.next_event().expect("it can be read") {
        count += u64::from(matches!(event, Event::Access(_)));
    }
    assert!(again.findings().is_whole());
    assert_eq!(count, accesses);
}

fn written(bytes: &[u8], options: ReadOptions, target: Target) -> Vec<u8> {
    let mut events = open(bytes, options).expect("it was read before");
    let mut out = Vec::new();
    let mut sink = create(&mut out, target, events.header()).expect("a vector takes all");
    copy(&mut *events, &mut *sink, |_| true).expect("events of a reader are fit");
    sink.finish().expect("a vector takes all");
    out
}

fn check(event: &Event, known: &Known) {
    match event {
        Event::Access(access) => {
            assert!(known.file(access.file).is_some() && known.thread(access.thread).is_some());
            assert!(access.offset_bytes < limits::OFFSET_BYTES_MAX);
            assert!(access.end_bytes() <= limits::OFFSET_BYTES_MAX);
        }
        Event::File(id, file) => {
            assert!(known.file(*id).is_none() && id.0 < limits::FILES_MAX);
            assert!(file.path.len() <= limits::PATH_BYTES_MAX);
        }
        Event::Thread(id, thread) => {
            assert!(known.thread(*id).is_none() && id.0 < limits::THREADS_MAX);
            assert!(thread.name.len() <= limits::PATH_BYTES_MAX);
        }
        Event::Extents(id, _) => assert!(known.file(*id).is_some()),
        Event::ThreadEnd { thread, .. } => assert!(known.thread(*thread).is_some()),
    }
}

/// A trace of the own format whose blocks have the checksums that no fuzzer finds: the first byte
/// of each part is the kind of a block, the second how many records it has.
pub fn sealed(input: &[u8]) -> Vec<u8> {
    let header = foreread_trace::Header::new(
        foreread_trace::Source::Recorded,
        foreread_trace::TimeIs::Returned,
    );
    let writer = foreread_trace::frt::Writer::new(Vec::new(), &header).expect("a vector");
    let (whole, _) = writer.finish().expect("a vector takes all");
    // The header, without the index and the trailer.
    let mut out = whole[..42].to_vec();
    for part in input.split(|byte| *byte == 0xfe) {
        let [kind, records, content @ ..] = part else {
            continue;
        };
        let length = (content.len() as u32).to_le_bytes();
        let mut head = vec![kind % 3 + 1, 0, 0, 0];
        head.extend(length);
        head.extend(length);
        head.extend(u32::from(*records).to_le_bytes());
        head.extend(0_u64.to_le_bytes());
        head.extend(u64::MAX.to_le_bytes());
        head.extend(crc32fast::hash(content).to_le_bytes());
        head.extend(crc32fast::hash(&head).to_le_bytes());
        out.extend(head);
        out.extend(content);
    }
    out
}

/// Reads a part of a trace of the own format by its index, if it has one.
pub fn seek(bytes: &[u8]) {
    let Ok(mut reader) = Reader::seeking(Cursor::new(bytes), 1000, 1 << 40) else {
        return;
    };
    while let Ok(Some(event)) = reader.next_event() {
        if let Event::Access(access) = event {
            assert!((1000..=1 << 40).contains(&access.time_ns));
        }
    }
}
