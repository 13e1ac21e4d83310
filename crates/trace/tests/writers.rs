// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the other formats: their text, and that it can be read again.
#![allow(clippy::unwrap_used)]

mod common;

use common::{accesses, any_trace, small};
use foreread_trace::*;
use proptest::prelude::*;

fn written(bytes: &[u8], target: Target) -> (Vec<u8>, Wrote) {
    let mut events = open(bytes, ReadOptions::default()).unwrap();
    let mut out = Vec::new();
    let mut sink = create(&mut out, target, events.header()).unwrap();
    copy(&mut *events, &mut *sink, |_| true).unwrap();
    let wrote = sink.finish().unwrap();
    (out, wrote)
}

fn read(bytes: &[u8]) -> (Vec<Event>, Findings) {
    let mut events = open(bytes, ReadOptions::default()).unwrap();
    let mut all = Vec::new();
    while let Some(event) = events.next_event().unwrap() {
        all.push(event);
    }
    (all, events.findings().clone())
}

#[test]
fn fio_reads_come_back_with_their_times() {
    let (text, wrote) = written(&small(4).bytes(), Target::Fio);
    assert_eq!(
        String::from_utf8(text.clone()).unwrap(),
        "fio version 3 iolog\n0 /a add\n0 /a open\n0 /a read 0 4096\n1000 /b add\n1000 /b open\n\
         1000 /b read 0 4096\n2000 /a read 4096 4096\n3000 /b read 4096 4096\n3000 /a close\n\
         3000 /b close\n"
    );
    assert_eq!(wrote.accesses, 4);
    assert!(read(&text).1.is_whole());
    let (text, _) = written(&small(3).bytes(), Target::FioV2);
    assert_eq!(
        String::from_utf8(text).unwrap(),
        "fio version 2 iolog\n/a add\n/a open\n/a read 0 4096\n/b add\n/b open\n/b wait 1000 0\n\
         /b read 0 4096\n/a wait 1000 0\n/a read 4096 4096\n/a close\n/b close\n"
    );
}

#[test]
fn names_that_fio_cannot_have_are_changed_and_counted() {
    let mut made = small(2);
    made.events[1] = Event::File(FileId(0), common::file("/a b:c\n"));
    let (text, wrote) = written(&made.bytes(), Target::Fio);
    assert!(text.windows(14).any(|part| part == b"/a_b_c_ read 0"));
    assert_eq!(wrote.renamed_files, 1);
}

#[test]
fn csv_is_a_line_for_each_access_whatever_names_hold() {
    let mut made = small(2);
    made.events[1] = Event::File(FileId(0), common::file("/a,\"b\"\n"));
    let (text, _) = written(&made.bytes(), Target::Csv);
    let text = String::from_utf8(text).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[1], r#"0,10,10,,"/a,""b""\x0a",1,read,0,4096,,0,"#);
    assert_eq!(lines[2], "1000000,10,10,,/b,1,read,0,4096,,0,");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn the_own_format_holds_all_of_any_source(made in any_trace()) {
        let bytes = made.bytes();
        let (again, wrote) = written(&bytes, Target::Frt);
        prop_assert_eq!(wrote.accesses, made.accesses().len() as u64);
        prop_assert_eq!(read(&again).0, read(&bytes).0);
    }

    #[test]
    fn fio_holds_the_reads_that_it_can(made in any_trace()) {
        let (text, wrote) = written(&made.bytes(), Target::Fio);
        let (events, findings) = read(&text);
        let mut reads = accesses(&events);
        reads.retain(|access| access.kind == Kind::Read);
        let range = |a: &Access| (a.time_ns / 1000, a.offset_bytes, a.length_bytes);
        let mut wanted = made.accesses();
        wanted.retain(|a| a.kind.uses_pages() && a.length_bytes <= u64::from(u32::MAX));
        prop_assert_eq!(
            reads.iter().map(range).collect::<Vec<_>>(),
            wanted.iter().map(range).collect::<Vec<_>>()
        );
        prop_assert_eq!(wrote.accesses, wanted.len() as u64);
        prop_assert_eq!(findings.bad_records, 0);
    }
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_has_a_row_for_each_access() {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    let (bytes, wrote) = written(&small(70_000).bytes(), Target::Parquet);
    assert_eq!(wrote.accesses, 70_000);
    let directory = std::env::temp_dir();
    let path = directory.join(format!("foreread-trace-{}.parquet", std::process::id()));
    std::fs::write(&path, bytes).unwrap();
    let reader = SerializedFileReader::new(std::fs::File::open(&path).unwrap()).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(reader.metadata().file_metadata().num_rows(), 70_000);
    let row = reader
        .get_row_iter(None)
        .unwrap()
        .nth(69_999)
        .unwrap()
        .unwrap();
    assert_eq!(row.get_ulong(0).unwrap(), 69_999_000_000);
    assert_eq!(row.get_string(4).unwrap(), "/b");
    assert_eq!(row.get_string(6).unwrap(), "read");
    assert_eq!(row.get_ulong(10).unwrap(), 0);
    assert!(row.get_ulong(11).is_err());
}
