// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records as they come, and the accesses that are made of them.

use foreread_core::Device;
use foreread_trace::{Extent, Source, TimeIs};

use super::*;

/// A machine of which nothing is known.
struct Nowhere;

impl Places for Nowhere {
    fn device_name(&self, _: Device) -> Option<String> {
        None
    }

    fn extents(&self, _: &[u8], _: u64, _: u64) -> Vec<Extent> {
        Vec::new()
    }
}

fn writer(header: &Header) -> TraceWriter<Vec<u8>, Nowhere> {
    TraceWriter::new(Vec::new(), header, Mounts::default(), Nowhere).unwrap()
}

fn record(kind: AccessKind, time_ns: u64, page: u64, pages: u64) -> AccessRecord {
    AccessRecord {
        kind,
        id: 1,
        pid: 7,
        tid: 7,
        time_ns,
        start_bytes: page * 4096,
        length_bytes: pages * 4096,
        size_bytes: 1 << 20,
        name: b"cat".to_vec(),
        ..AccessRecord::default()
    }
}

fn waited(record: AccessRecord, waited_ns: u64) -> AccessRecord {
    AccessRecord {
        waited_ns,
        first_waited_ns: waited_ns,
        ..record
    }
}

/// Kind, time, first page, pages, and wait of what is in the trace.
fn made(records: Vec<AccessRecord>) -> Vec<(Kind, u64, u64, u64, u64)> {
    let header = Header::new(Source::Recorded, TimeIs::Returned);
    let mut writer = writer(&header);
    let nodes = HashMap::new();
    for record in records {
        writer.take(record, &nodes);
    }
    let (bytes, traced) = writer.finish(3).unwrap();
    let mut reader = frt::Reader::new(&bytes[..]).unwrap();
    let mut accesses = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        if let Event::Access(access) = event {
            let (at, length) = (access.offset_bytes, access.length_bytes);
            let wait = access.waited_ns.unwrap();
            accesses.push((access.kind, access.time_ns, at / 4096, length / 4096, wait));
        }
    }
    assert_eq!(reader.findings().left_out.get(LeftOut::Lost), 3);
    assert!(reader.findings().is_whole());
    assert_eq!(accesses.len() as u64, traced.accesses);
    // Accesses beyond the limits of a trace are not in it.
    let waits = accesses.iter().filter(|access| access.4 > 0);
    assert_eq!(waits.count() as u64, traced.waited);
    accesses
}

#[test]
fn the_steps_of_a_read_are_one_access_with_the_bytes_of_its_call() {
    let found = made(vec![
        waited(record(AccessKind::Read, 10, 0, 32), 5),
        waited(record(AccessKind::Read, 20, 20, 12), 6),
        record(AccessKind::ReadCall, 21, 0, 30),
        record(AccessKind::Read, 30, 30, 2),
        record(AccessKind::Read, 40, 30, 2),
    ]);
    let read = |time, page, pages, wait| (Kind::Read, time, page, pages, wait);
    assert_eq!(
        found,
        [read(21, 0, 30, 11), read(30, 30, 2, 0), read(40, 30, 2, 0)]
    );
}

/// A fuzzer found that sums overflowed.
#[test]
fn numbers_at_the_end_of_their_range_are_no_error() {
    let last = |kind, time_ns, start_bytes| AccessRecord {
        start_bytes,
        size_bytes: u64::MAX,
        length_bytes: u64::MAX,
        waited_ns: u64::MAX,
        first_waited_ns: u64::MAX,
        ..record(kind, time_ns, 0, 0)
    };
    let without_wait = |record| waited(record, 0);
    for kinds in [
        [AccessKind::Read, AccessKind::ReadCall],
        [AccessKind::Fault, AccessKind::Fault],
        [AccessKind::Mapped, AccessKind::Fault],
        [AccessKind::Fault, AccessKind::Read],
    ] {
        made(vec![
            last(kinds[0], 1, 0),
            last(kinds[1], 2, 0),
            last(kinds[1], 3, 0),
        ]);
    }
    made(vec![
        without_wait(last(AccessKind::Metadata, 1, u64::MAX - 1)),
        without_wait(last(AccessKind::Block, 2, u64::MAX - 1)),
        last(AccessKind::Call, 3, 0),
    ]);
}

#[test]
fn a_fault_waits_before_what_follows_it() {
    let found = made(vec![
        record(AccessKind::Fault, 10, 5, 1),
        waited(record(AccessKind::Mapped, 20, 0, 16), 9),
        record(AccessKind::Fault, 30, 40, 1),
        AccessRecord {
            waited_ns: 12,
            first_waited_ns: 8,
            ..record(AccessKind::ReadCall, 60, 100, 1)
        },
        record(AccessKind::Mapped, 70, 16, 16),
    ]);
    let expected = [
        (Kind::Fault, 20, 5, 1, 9),
        (Kind::Fault, 38, 40, 1, 8),
        (Kind::Read, 60, 100, 1, 4),
        (Kind::MapAround, 70, 16, 16, 0),
    ];
    assert_eq!(found, expected);
}

#[test]
fn what_several_threads_did_is_in_order_of_time() {
    let other = AccessRecord {
        tid: 8,
        ..record(AccessKind::ReadCall, 15, 9, 1)
    };
    let found = made(vec![
        record(AccessKind::Fault, 10, 5, 1),
        record(AccessKind::ReadCall, 20, 8, 1),
        other,
    ]);
    let times: Vec<u64> = found.iter().map(|access| access.1).collect();
    assert_eq!(times, [10, 15, 20]);
}

/// Kinds with first page and pages, in bytes where it is no whole page.
fn kinds(records: Vec<AccessRecord>) -> Vec<(Kind, u64, u64)> {
    let found = made(records).into_iter();
    found
        .map(|(kind, _, page, pages, _)| (kind, page, pages))
        .collect()
}

fn known(record: AccessRecord) -> AccessRecord {
    AccessRecord {
        file: 5,
        mapping: MappingBits(MappingBits::KNOWN),
        ..record
    }
}

#[test]
fn a_thread_that_faults_right_behind_what_was_mapped_has_come_through_it() {
    let found = kinds(vec![
        known(record(AccessKind::Mapped, 10, 0, 16)),
        known(record(AccessKind::Fault, 20, 16, 1)),
        known(record(AccessKind::Mapped, 30, 16, 16)),
        known(record(AccessKind::Mapped, 40, 90, 6)),
    ]);
    let fault = |page, pages| (Kind::Fault, page, pages);
    assert_eq!(found, [fault(0, 16), fault(16, 1), fault(90, 1)]);
}

#[test]
fn metadata_that_a_fault_needs_comes_before_its_data() {
    let block = |kind, time_ns| AccessRecord {
        id: 0,
        device: 7 << 20,
        ..record(kind, time_ns, 77, 1)
    };
    let found = made(vec![
        known(record(AccessKind::Fault, 10, 5, 1)),
        block(AccessKind::Metadata, 12),
        block(AccessKind::Block, 13),
        AccessRecord {
            waited_ns: 50,
            first_waited_ns: 20,
            ..known(record(AccessKind::Mapped, 70, 5, 11))
        },
    ]);
    let expected = [(Kind::Read, 33, 77, 1, 20), (Kind::Fault, 70, 5, 1, 30)];
    assert_eq!(found, expected);
}

#[test]
fn what_a_call_waited_for_is_its_metadata_s() {
    let block = AccessRecord {
        id: 0,
        ..record(AccessKind::Metadata, 12, 77, 1)
    };
    let found = made(vec![
        block,
        waited(record(AccessKind::Call, 60, 0, 0), 40),
        record(AccessKind::ReadCall, 70, 1, 1),
    ]);
    let expected = [(Kind::Read, 52, 77, 1, 40), (Kind::Read, 70, 1, 1, 0)];
    assert_eq!(found, expected);
}

#[test]
fn each_open_is_a_stream_and_reads_that_met_the_end_say_what_they_asked_for() {
    let opened = |time_ns| AccessRecord {
        file: 5,
        ..record(AccessKind::Open, time_ns, 0, 0)
    };
    let read = |time_ns| AccessRecord {
        file: 5,
        asked_bytes: 1 << 20,
        ..record(AccessKind::ReadCall, time_ns, 255, 1)
    };
    let header = Header::new(Source::Recorded, TimeIs::Returned);
    let mut writer = writer(&header);
    for record in [opened(1), read(2), opened(3), read(4)] {
        writer.take(record, &HashMap::new());
    }
    let (bytes, _) = writer.finish(0).unwrap();
    let mut reader = frt::Reader::new(&bytes[..]).unwrap();
    let mut found = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        if let Event::Access(access) = event {
            found.push((access.kind, access.stream, access.length_bytes));
        }
    }
    let expected = [
        (Kind::Open, 1, 0),
        (Kind::Read, 1, 1 << 20),
        (Kind::Open, 2, 0),
        (Kind::Read, 2, 1 << 20),
    ];
    assert_eq!(found, expected);
}

#[test]
fn text_is_told_with_the_bounds_of_its_mapping_once() {
    let fault = |time_ns, page| AccessRecord {
        file: 5,
        mapping: MappingBits(MappingBits::KNOWN | MappingBits::EXEC),
        map_bytes: (4096, 81_920),
        ..record(AccessKind::Fault, time_ns, page, 1)
    };
    let found = kinds(vec![fault(10, 3), fault(20, 9)]);
    let expected = [(Kind::Map, 1, 19), (Kind::Fault, 3, 1), (Kind::Fault, 9, 1)];
    assert_eq!(found, expected);
}

#[test]
fn advice_has_its_kind_and_what_is_none_is_left_out() {
    let advised = |advice| AccessRecord {
        advice,
        ..record(AccessKind::Advice, 10 + u64::from(advice), 2, 3)
    };
    let found = kinds((0..7).map(advised).collect());
    let kinds: Vec<Kind> = found.iter().map(|(kind, _, _)| *kind).collect();
    let expected = [
        Kind::AdviseNormal,
        Kind::AdviseRandom,
        Kind::AdviseSequential,
        Kind::Readahead,
        Kind::AdviseDontNeed,
    ];
    assert_eq!(kinds, expected);
}
