// SPDX-License-Identifier: MIT OR Apache-2.0
//! The own format: a written trace is read back, whole or cut off, in order or by the index.

#![allow(clippy::unwrap_used)]

mod common;

use std::io::Cursor;

use common::{Made, accesses, any_trace, file, read, rest, small, thread};
use foreread_trace::frt::{Reader, Writer};
use foreread_trace::*;
use proptest::prelude::*;

/// Events without regard to how definitions and accesses were interleaved.
fn parts(events: &[Event]) -> (Vec<&Event>, Vec<&Event>) {
    let timed = |event: &&Event| matches!(event, Event::Access(_) | Event::ThreadEnd { .. });
    events.iter().partition(timed)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_written_comes_back(made in any_trace()) {
        let bytes = made.bytes();
        let mut reader = Reader::new(&bytes[..]).unwrap();
        prop_assert_eq!(reader.header(), &made.header);
        let events = rest(&mut reader);
        let written: Vec<Event> = made.events.iter().filter(not_empty).cloned().collect();
        prop_assert_eq!(parts(&events), parts(&written));
        prop_assert!(reader.findings().is_whole());
    }

    #[test]
    fn a_cut_has_exactly_the_accesses_of_its_time(made in any_trace(), from: u64, length: u64) {
        let bytes = made.bytes();
        let to = from.saturating_add(length);
        let mut seeking = Reader::seeking(Cursor::new(&bytes), from, to).unwrap();
        let mut streaming = Reader::new(&bytes[..]).unwrap().within(from, to);
        let mut wanted = made.accesses();
        wanted.retain(|access| (from..=to).contains(&access.time_ns));
        prop_assert_eq!(&accesses(&rest(&mut seeking)), &wanted);
        prop_assert_eq!(&accesses(&rest(&mut streaming)), &wanted);
        prop_assert!(seeking.findings().is_whole());
    }

    #[test]
    fn a_flipped_bit_harms_no_more_than_it_must(
        made in any_trace(),
        at: prop::sample::Index,
        bit in 0..8_u32,
    ) {
        let mut bytes = made.bytes();
        let at = at.index(bytes.len());
        bytes[at] ^= 1_u8 << bit;
        let Ok(mut reader) = Reader::new(&bytes[..]) else { return Ok(()) };
        let events = accesses(&rest(&mut reader));
        let found = reader.findings();
        prop_assert!(is_subsequence(&events, &made.accesses()));
        prop_assert!(!found.is_whole(), "nobody saw bit {} of byte {}", bit, at);
    }
}

fn not_empty(event: &&Event) -> bool {
    !matches!(event, Event::Extents(_, extents) if extents.is_empty())
}

fn is_subsequence(part: &[Access], whole: &[Access]) -> bool {
    let mut whole = whole.iter();
    part.iter().all(|access| whole.any(|other| other == access))
}

/// Many small blocks.
fn flushed(made: &Made, every: usize) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &made.header).unwrap();
    for (number, event) in made.events.iter().enumerate() {
        writer.write(event).unwrap();
        if number % every == 0 {
            writer.flush().unwrap();
        }
    }
    writer.finish().unwrap().0
}

#[test]
fn what_is_odd_is_counted() {
    let mut made = small(4);
    made.header.source = Source::Strace;
    made.events[1] = Event::File(FileId(0), sized("/a", 5000));
    made.events.push(Event::Access(read(1_000_000, 0, 8192, 1)));
    made.events
        .push(Event::Access(read(9_000_000, 0, 4096, 4096)));
    let bytes = made.bytes();
    let mut reader = Reader::new(&bytes[..]).unwrap();
    assert_eq!(accesses(&rest(&mut reader)), made.accesses());
    let findings = reader.findings();
    assert_eq!(findings.time_back.count, 1);
    assert_eq!(findings.past_end.count, 1);
    assert!(findings.is_whole());
}

fn sized(path: &str, size_bytes: u64) -> Box<File> {
    let mut file = file(path);
    file.size_bytes = Some(size_bytes);
    file
}

#[test]
fn cut_off_anywhere_gives_what_is_whole() {
    let made = small(60);
    let bytes = flushed(&made, 7);
    let mut most = 0;
    for length in 0..bytes.len() {
        let Ok(mut reader) = Reader::new(&bytes[..length]) else {
            assert!(length < 43, "no header in {length} bytes");
            continue;
        };
        let events = accesses(&rest(&mut reader));
        assert_eq!(events, made.accesses()[..events.len()], "{length} bytes");
        assert!(events.len() >= most, "{length} bytes give less than fewer");
        assert!(reader.findings().cut_off.is_some(), "{length} bytes");
        most = events.len();
        let mut seeking = Reader::seeking(Cursor::new(&bytes[..length]), 0, u64::MAX).unwrap();
        assert_eq!(accesses(&rest(&mut seeking)), events, "{length} bytes");
    }
    assert_eq!(most, 60);
}

#[test]
fn a_seek_reads_only_what_it_needs() {
    let made = small(200_000);
    let bytes = made.bytes();
    let index = Reader::index(Cursor::new(&bytes)).unwrap().unwrap();
    assert_eq!(index.records(), 200_000);
    assert_eq!(index.times_ns(), Some((0, 199_999_000_000)));
    assert!(index.spans.len() > 10, "{}", index.spans.len());
    let counted = Counting::new(&bytes);
    let mut reader = Reader::seeking(counted, 100_000_000_000, 100_001_000_000).unwrap();
    let events = rest(&mut reader);
    assert_eq!(accesses(&events).len(), 2);
    assert_eq!(events.len(), 5);
    let read = BYTES_READ.with(std::cell::Cell::get);
    assert!(read < bytes.len() / 5, "{read} of {}", bytes.len());
}

thread_local! {
    static BYTES_READ: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Counts the bytes that are read of it.
struct Counting<'a>(Cursor<&'a [u8]>);

impl<'a> Counting<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self(Cursor::new(bytes))
    }
}

impl std::io::Read for Counting<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        let got = self.0.read(bytes)?;
        BYTES_READ.with(|read| read.set(read.get() + got));
        Ok(got)
    }
}

impl std::io::Seek for Counting<'_> {
    fn seek(&mut self, to: std::io::SeekFrom) -> std::io::Result<u64> {
        self.0.seek(to)
    }
}

#[test]
fn the_writer_refuses_what_no_reader_takes() {
    let header = Header::new(Source::Recorded, TimeIs::Returned);
    let mut writer = Writer::new(Vec::new(), &header).unwrap();
    let refused = |writer: &mut Writer<Vec<u8>>, event| {
        let error = writer.write(&event).unwrap_err();
        assert!(
            matches!(error, WriteError::Unfit(_) | WriteError::Full(_)),
            "{error}"
        );
    };
    refused(&mut writer, Event::Access(read(0, 0, 0, 1)));
    writer.write(&Event::File(FileId(0), file("/a"))).unwrap();
    refused(&mut writer, Event::Access(read(0, 0, 0, 1)));
    writer
        .write(&Event::Thread(ThreadId(0), thread(1, 1)))
        .unwrap();
    refused(&mut writer, Event::File(FileId(0), file("/b")));
    refused(
        &mut writer,
        Event::File(FileId(limits::FILES_MAX), file("/b")),
    );
    refused(&mut writer, Event::File(FileId(1), file(&"x".repeat(4097))));
    refused(&mut writer, Event::Access(read(0, 0, u64::MAX, 1)));
    refused(&mut writer, Event::Access(read(0, 0, 1 << 63, 0)));
    let nowhere = Extent {
        logical_bytes: 0,
        physical_bytes: 0,
        length_bytes: 0,
    };
    refused(&mut writer, Event::Extents(FileId(0), vec![nowhere]));
    writer.write(&Event::Access(read(5, 0, 0, 1))).unwrap();
    let (bytes, written) = writer.finish().unwrap();
    assert_eq!((written.accesses, written.bytes), (1, bytes.len() as u64));
    let mut reader = Reader::new(&bytes[..]).unwrap();
    assert_eq!(accesses(&rest(&mut reader)), [read(5, 0, 0, 1)]);
    assert!(reader.findings().is_whole());
}

#[test]
fn what_was_left_out_is_counted() {
    let header = Header::new(Source::Strace, TimeIs::Returned);
    let mut writer = Writer::new(Vec::new(), &header).unwrap();
    writer.left_out(LeftOut::Writes, 1234).unwrap();
    writer.left_out(LeftOut::Failed, 0).unwrap();
    let (bytes, _) = writer.finish().unwrap();
    let mut reader = Reader::new(&bytes[..]).unwrap();
    assert_eq!(rest(&mut reader), []);
    let left_out: Vec<_> = reader.findings().left_out.iter().collect();
    assert_eq!(left_out, [(LeftOut::Writes, 1234)]);
}

#[test]
fn what_is_no_trace_is_refused() {
    let error = |bytes: &[u8]| match Reader::new(bytes) {
        Ok(_) => "none".to_owned(),
        Err(error) => error.to_string(),
    };
    assert!(error(b"").contains("not a Foreread trace"));
    assert!(error(b"fio version 3 iolog\n").contains("not a Foreread trace"));
    assert!(error(b"FRTRACE\n").contains("ends within its header"));
    let mut newer = small(0).bytes();
    newer[8] = 9;
    let crc = crc32fast::hash(&newer[..36]).to_le_bytes();
    newer[36..40].copy_from_slice(&crc);
    assert!(error(&newer).contains("format version 9"));
}

#[test]
fn a_trace_of_the_first_version_is_read() {
    let bytes = include_bytes!("../../../tests/traces/version-1.frt");
    assert_eq!(u16::from_le_bytes([bytes[8], bytes[9]]), 1);
    let mut reader = Reader::new(&bytes[..]).unwrap();
    let events = rest(&mut reader);
    let reads = accesses(&events)
        .iter()
        .filter(|a| a.kind == Kind::Read)
        .count();
    assert!(reads >= 400, "{reads} reads");
    assert!(reader.findings().is_whole());
}

#[test]
fn a_recorded_read_may_ask_for_more_than_its_file_has() {
    let mut made = small(1);
    made.header.source = Source::Recorded;
    made.events[1] = Event::File(FileId(0), sized("/a", 5000));
    made.events
        .push(Event::Access(read(9_000_000, 0, 4096, 98_304)));
    let bytes = made.bytes();
    let mut reader = Reader::new(&bytes[..]).unwrap();
    let mut summary = Summary::new(4096);
    let before = made.accesses().len() as u64;
    for event in rest(&mut reader) {
        summary.add(&event);
    }
    assert_eq!(reader.findings().past_end.count, 0);
    assert!(
        summary.bytes <= (before - 1) * 4096 + 5000 - 4096,
        "{}",
        summary.bytes
    );
}
