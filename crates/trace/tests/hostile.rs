// SPDX-License-Identifier: MIT OR Apache-2.0
//! Damaged samples of each format, and blocks that no writer makes: whatever comes out keeps the
//! rules. `fuzz/` tries the same for longer.
#![allow(clippy::unwrap_used)]

mod common;

use common::{file, small, thread};
use foreread_trace::frt::{Reader, Writer};
use foreread_trace::*;
use proptest::prelude::*;

/// The samples, in the order of [`Format::ALL`].
fn samples() -> Vec<Vec<u8>> {
    let mut oracle = Vec::new();
    for number in 0..40_u64 {
        oracle.extend((number as u32 / 4).to_le_bytes());
        oracle.extend((number % 7).to_le_bytes());
        oracle.extend(4096_u32.to_le_bytes());
        oracle.extend((-1_i64).to_le_bytes());
    }
    vec![
        small(50).bytes(),
        include_bytes!("../../../tests/traces/fio-v3.iolog").to_vec(),
        include_bytes!("../../../tests/traces/make.strace").to_vec(),
        include_bytes!("../../../tests/traces/two-disks.blkparse").to_vec(),
        include_bytes!("../../../tests/traces/mount.juicefs").to_vec(),
        oracle,
    ]
}

/// Damage to a sample.
#[derive(Clone, Debug)]
enum Damage {
    Set(prop::sample::Index, u8),
    Cut(prop::sample::Index, usize),
    Repeat(prop::sample::Index, usize),
    Insert(prop::sample::Index, Vec<u8>),
}

fn any_damage() -> impl Strategy<Value = Vec<Damage>> {
    let at = || any::<prop::sample::Index>();
    // Bytes that mean something to some format.
    let word = prop_oneof![
        prop::collection::vec(any::<u8>(), 1..8),
        prop::sample::select(vec![
            "(",
            ")",
            "<",
            ">",
            "\"",
            "\\",
            ",",
            "\n",
            " = ",
            "[",
            "]",
            "-1",
            "<unfinished ...>",
            "18446744073709551615",
            "9223372036854775807",
            "+++ exited with 0 +++",
            "\0",
        ])
        .prop_map(|word| word.as_bytes().to_vec()),
    ];
    let damage = prop_oneof![
        (at(), any::<u8>()).prop_map(|(at, byte)| Damage::Set(at, byte)),
        (at(), 1..60_usize).prop_map(|(at, bytes)| Damage::Cut(at, bytes)),
        (at(), 1..60_usize).prop_map(|(at, bytes)| Damage::Repeat(at, bytes)),
        (at(), word).prop_map(|(at, word)| Damage::Insert(at, word)),
    ];
    prop::collection::vec(damage, 1..12)
}

fn damaged(sample: &[u8], damage: &[Damage]) -> Vec<u8> {
    let mut bytes = sample.to_vec();
    for one in damage {
        if bytes.is_empty() {
            break;
        }
        let part = |at: usize, length: usize| at..(at + length).min(bytes.len());
        match one {
            Damage::Set(at, byte) => {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            Damage::Cut(at, length) => {
                let part = part(at.index(bytes.len()), *length);
                bytes.drain(part);
            }
            Damage::Repeat(at, length) => {
                let part = part(at.index(bytes.len()), *length);
                let (end, copy) = (part.end, bytes[part].to_vec());
                bytes.splice(end..end, copy);
            }
            Damage::Insert(at, word) => {
                let at = at.index(bytes.len());
                bytes.splice(at..at, word.clone());
            }
        }
    }
    bytes
}

/// Reads all, checks the rules, and writes it in the own format, which must come back whole.
fn check(bytes: &[u8], format: Format) {
    let options = ReadOptions {
        format: Some(format),
        ..ReadOptions::default()
    };
    let Ok(mut events) = open(bytes, options) else {
        return;
    };
    let mut writer = Writer::new(Vec::new(), events.header()).unwrap();
    let mut summary = Summary::new(events.header().page_bytes);
    while let Ok(Some(event)) = events.next_event() {
        // The writer refuses events that break a rule of the model.
        writer.write(&event).unwrap();
        summary.add(&event);
    }
    let (own, written) = writer.finish().unwrap();
    assert_eq!(written.accesses, summary.all_accesses());
    let mut again = Reader::new(&own[..]).unwrap();
    let mut accesses = 0;
    while let Some(event) = again.next_event().unwrap() {
        accesses += u64::from(matches!(event, Event::Access(_)));
    }
    assert_eq!(accesses, written.accesses);
    assert!(again.findings().is_whole());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn damage_breaks_no_rule(which in 0..6_usize, damage in any_damage()) {
        check(&damaged(&samples()[which], &damage), Format::ALL[which]);
    }

    #[test]
    fn any_bytes_break_no_rule(which in 0..6_usize, bytes: Vec<u8>) {
        check(&bytes, Format::ALL[which]);
        let first_line = [b"fio version 3 iolog\n", &bytes[..]].concat();
        check(&first_line, Format::Fio);
    }
}

/// A block as it is stored.
fn block(kind: u8, records: u32, plain_bytes: u32, times_ns: (u64, u64), stored: &[u8]) -> Vec<u8> {
    let method = u8::from(plain_bytes as usize != stored.len());
    let mut out = vec![kind, method, 0, 0];
    out.extend((stored.len() as u32).to_le_bytes());
    out.extend(plain_bytes.to_le_bytes());
    out.extend(records.to_le_bytes());
    out.extend(times_ns.0.to_le_bytes());
    out.extend(times_ns.1.to_le_bytes());
    out.extend(crc32fast::hash(stored).to_le_bytes());
    out.extend(crc32fast::hash(&out).to_le_bytes());
    out.extend(stored);
    out
}

/// A header, and blocks after it.
fn with_blocks(blocks: &[Vec<u8>]) -> Vec<u8> {
    let whole = small(0).bytes();
    [&whole[..42], &blocks.concat()].concat()
}

fn findings(bytes: &[u8]) -> (usize, Findings) {
    let mut reader = Reader::new(bytes).unwrap();
    let events = common::rest(&mut reader);
    (events.len(), reader.findings().clone())
}

const ANY_TIME: (u64, u64) = (0, u64::MAX);

#[test]
fn a_block_larger_than_any_is_not_unpacked() {
    let bomb = zstd::encode_all(&vec![0; 100 << 20][..], 3).unwrap();
    let (events, found) = findings(&with_blocks(&[block(2, 1, 100 << 20, ANY_TIME, &bomb)]));
    assert_eq!((events, found.bad_records), (0, 1));
    // One that lies about its size.
    let (events, found) = findings(&with_blocks(&[block(2, 1, 65_536, ANY_TIME, &bomb)]));
    assert_eq!((events, found.bad_records), (0, 1));
}

#[test]
fn blocks_that_no_writer_makes_are_left_out() {
    let thread_and_file = [2, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, b'a'];
    let defined = block(1, 2, 13, (0, 0), &thread_and_file);
    // Kind, time, thread, file, stream, offset, length.
    let access = [0, 2, 0, 0, 0, 0, 0];
    let good = block(2, 1, 7, (0, 9), &access);
    for (bad, undefined) in [
        (block(2, 2, 7, (0, 9), &access), 0),
        (block(2, 0, 7, (0, 9), &access), 0),
        (block(2, 1, 7, (2, 9), &access), 0),
        (block(2, 1, 1, (0, 9), &[0x0f]), 0),
        (block(2, 1, 1, (0, 9), &[0x90]), 0),
        (block(1, 1, 13, (0, 0), &thread_and_file), 0),
        (block(1, 1, 3, (0, 0), &[3, 0, 255]), 0),
        (block(2, 1, 7, (0, 9), &[0, 2, 0, 2, 0, 0, 0]), 1),
    ] {
        let bytes = with_blocks(&[defined.clone(), bad, good.clone()]);
        let (events, found) = findings(&bytes);
        let wrong = (found.bad_records, found.undefined.count);
        assert_eq!(wrong, (1 - undefined, undefined));
        assert!(
            (3..=4).contains(&events),
            "the good block is read: {events}"
        );
    }
}

#[test]
fn more_definitions_than_any_trace_has_stop_the_reader() {
    let beyond = [1, 0x80, 0x80, 0x40, 0, 0, 0, 0];
    let mut reader_input = with_blocks(&[block(1, 1, 8, (0, 0), &beyond)]);
    let stopped = |bytes: &[u8]| Reader::new(bytes).unwrap().next_event().unwrap_err();
    let error = stopped(&reader_input).to_string();
    assert!(error.contains("more files than any trace"), "{error}");
    // A thousand names of 4 KiB in each block, under ids of their own.
    let header = Header::new(Source::Recorded, TimeIs::Returned);
    let mut writer = Writer::new(Vec::new(), &header).unwrap();
    writer
        .write(&Event::Thread(ThreadId(0), thread(1, 1)))
        .unwrap();
    let name = "x".repeat(limits::PATH_BYTES_MAX);
    let full = (0..).find_map(|id| writer.write(&Event::File(FileId(id), file(&name))).err());
    assert!(matches!(full, Some(WriteError::Full("names"))));
    reader_input = writer.finish().unwrap().0;
    let (events, found) = findings(&reader_input);
    assert_eq!(events as u64, 1 + limits::NAMES_BYTES_MAX / 4096);
    assert!(found.is_whole());
}
