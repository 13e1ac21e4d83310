// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each foreign format, from samples with broken lines among them.
#![allow(clippy::unwrap_used)]

mod common;

use std::io::Write;

use common::accesses;
use foreread_trace::*;

/// The result of a reader.
struct Got {
    header: Header,
    events: Vec<Event>,
    known: Known,
    findings: Findings,
}

fn read_with(bytes: &[u8], options: ReadOptions) -> Got {
    let mut events = open(bytes, options).unwrap();
    let header = events.header().clone();
    let (mut all, mut known) = (Vec::new(), Known::default());
    while let Some(event) = events.next_event().unwrap() {
        known.learn(&event);
        all.push(event);
    }
    let findings = events.findings().clone();
    Got {
        header,
        events: all,
        known,
        findings,
    }
}

fn read(bytes: &[u8]) -> Got {
    read_with(bytes, ReadOptions::default())
}

impl Got {
    /// Each access as a line: microsecond, tid, path, kind, range.
    fn lines(&self) -> Vec<String> {
        let line = |access: &Access| {
            let path = &self.known.file(access.file).unwrap().path;
            let tid = self.known.thread(access.thread).unwrap().tid;
            format!(
                "{} {tid} {} {} {}+{}",
                access.time_ns / 1000,
                String::from_utf8_lossy(path),
                access.kind,
                access.offset_bytes,
                access.length_bytes
            )
        };
        accesses(&self.events).iter().map(line).collect()
    }

    fn left_out(&self) -> Vec<(&'static str, u64)> {
        let left_out = self.findings.left_out.iter();
        left_out.map(|(what, count)| (what.name(), count)).collect()
    }

    fn bad_lines(&self) -> Vec<String> {
        let bad = self.findings.bad_records_first.iter();
        bad.map(|bad| format!("{} {}", bad.place, bad.why))
            .collect()
    }
}

const FIO_V3: &[u8] = include_bytes!("../../../tests/traces/fio-v3.iolog");
const FIO_V2: &[u8] = include_bytes!("../../../tests/traces/fio-v2.iolog");
const STRACE: &[u8] = include_bytes!("../../../tests/traces/make.strace");
const BLKPARSE: &[u8] = include_bytes!("../../../tests/traces/two-disks.blkparse");
const JUICEFS: &[u8] = include_bytes!("../../../tests/traces/mount.juicefs");

#[test]
fn fio_version_3_has_times() {
    let got = read(FIO_V3);
    assert_eq!(got.header, Header::new(Source::FioIologV3, TimeIs::Began));
    assert_eq!(
        got.lines(),
        [
            "12 0 /srv/a.bin open 0+0",
            "40 0 /srv/a.bin read 0+4096",
            "55 0 /srv/a.bin read 4096+8192",
            "90 0 /srv/b.bin read 1048576+65536",
            "85 0 /srv/a.bin read 12288+4096",
            "150 0 /srv/a.bin close 0+0",
        ]
    );
    assert_eq!(got.left_out(), [("writes", 2), ("bad-records", 1)]);
    assert_eq!(got.bad_lines(), ["line 10 has an offset that is no number"]);
    assert_eq!(got.findings.time_back.count, 1);
    assert_eq!(got.findings.time_back.first, Some(Place::Line(9)));
    let streams: Vec<u32> = accesses(&got.events).iter().map(|a| a.stream).collect();
    assert_eq!(streams, [1, 1, 1, 0, 1, 1]);
}

#[test]
fn fio_version_2_has_waits() {
    let got = read(FIO_V2);
    assert_eq!(got.header.time_is, TimeIs::Order);
    assert_eq!(
        got.lines(),
        [
            "0 0 /srv/a.bin open 0+0",
            "0 0 /srv/a.bin read 0+4096",
            "5000 0 /srv/a.bin read 4096+4096",
            "5000 0 /srv/a.bin close 0+0",
        ]
    );
    assert_eq!(got.left_out(), [("writes", 1)]);
    assert!(got.findings.is_whole());
}

#[test]
fn strace_follows_descriptors_positions_and_children() {
    let got = read(STRACE);
    assert_eq!(got.header.source, Source::Strace);
    assert_eq!(got.header.time_is, TimeIs::Returned);
    assert_eq!(got.header.started_unix_ns, Some(1_700_000_000_000_000_000));
    assert_eq!(
        got.lines(),
        [
            "1020 100 /etc/ld.so.cache open 0+0",
            "1110 100 /etc/ld.so.cache map 0+20480",
            "1205 100 /etc/ld.so.cache close 0+0",
            "2030 100 src/Makefile open 0+0",
            "2102 100 src/Makefile advise-sequential 0+0",
            "3700 100 src/Makefile read 0+4096",
            "4050 100 src/Makefile read 4096+1000",
            // The child has moved the position that both share.
            "6140 101 /usr/include/städio.h open 0+0",
            "6900 100 src/Makefile read 0+512",
            "7700 101 /usr/include/städio.h read 65536+4096",
            "7910 101 /usr/include/städio.h readahead 0+131072",
            "8500 101 /usr/include/städio.h read 1000+4096",
            "9000 101 /usr/include/städio.h close 0+0",
            "9405 100 src/Makefile close 0+0",
        ]
    );
    assert_eq!(
        got.left_out(),
        [
            ("writes", 1),
            ("empty", 1),
            ("not-files", 1),
            ("unknown-files", 1),
            ("bad-records", 1),
        ]
    );
    assert_eq!(got.bad_lines(), ["line 26 is a call that does not end"]);
    let threads: Vec<_> = got
        .known
        .threads()
        .map(|(_, thread)| thread.clone())
        .collect();
    assert_eq!(threads[0].name, b"make");
    assert_eq!(
        (threads[1].pid, threads[1].name.as_slice()),
        (101, &b"cc"[..])
    );
    assert_eq!(threads[1].parent, Some(ThreadId(0)));
    let ends = |event: &&Event| matches!(event, Event::ThreadEnd { .. });
    assert_eq!(got.events.iter().filter(ends).count(), 2);
    let read = accesses(&got.events)[5];
    assert_eq!(read.duration_ns, Some(1_500_000));
    assert_eq!((read.flags, read.stream), (Flags::SEQUENTIAL, 2));
}

#[test]
fn strace_threads_share_descriptors_and_y_names_them() {
    let text = b"\
[pid    10] 12:00:00 openat(AT_FDCWD</srv>, \"x\", O_RDONLY|O_DIRECT) = 3</srv/x>
[pid    10] 23:59:59 clone3({flags=CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_THREAD, stack=0x1}, 88) = 11
[pid    11] 00:00:01 read(3</srv/x>, \"\", 512) = 512
[pid    11] 00:00:01 close(3</srv/x>) = 0
[pid    10] 00:00:02 read(3</srv/x>, \"\", 512) = 512
[pid    10] 00:00:02 read(4<TCP:[1.1.1.1:1->2.2.2.2:2]>, \"\", 512) = 512
[pid    10] 00:00:02 preadv2(3</srv/x>, [{iov_base=\"\", iov_len=7}], 1, -1, 0) = 7
[pid    10] 00:00:03 openat(3</srv/x>, \"y\", O_RDONLY) = 5
";
    let got = read(text);
    assert_eq!(got.header.time_is, TimeIs::Began);
    let noon_us = 43_200_000_000_u64;
    assert_eq!(
        got.lines(),
        [
            "0 10 /srv/x open 0+0".to_owned(),
            format!("{} 11 /srv/x read 0+512", noon_us + 1_000_000),
            format!("{} 11 /srv/x close 0+0", noon_us + 1_000_000),
            format!("{} 10 /srv/x read 0+512", noon_us + 2_000_000),
            format!("{} 10 /srv/x read 512+7", noon_us + 2_000_000),
            format!("{} 10 /srv/x/y open 0+0", noon_us + 3_000_000),
        ]
    );
    let thread = got.known.thread(ThreadId(1)).unwrap();
    assert_eq!((thread.pid, thread.tid), (10, 11));
    assert_eq!(accesses(&got.events)[1].flags, Flags::DIRECT);
    assert_eq!(got.left_out(), [("not-files", 1)]);
}

#[test]
fn blkparse_reads_complete_with_what_they_merged_into() {
    let got = read(BLKPARSE);
    assert_eq!(
        got.lines(),
        [
            "0 411 8,16 read 1052672+4096",
            "10000 411 8,16 read 2097152+32768",
            "10001 411 8,16 read 2129920+32768",
            "12000 412 8,32 read 40960+4096",
        ]
    );
    let durations: Vec<_> = accesses(&got.events)
        .iter()
        .map(|a| a.duration_ns)
        .collect();
    assert_eq!(
        durations,
        [Some(4_003_000), Some(10_000_000), Some(9_999_000), None]
    );
    let flags: Vec<_> = accesses(&got.events).iter().map(|a| a.flags).collect();
    assert_eq!(
        flags[..3],
        [Flags::METADATA, Flags::AHEAD, Flags::default()]
    );
    assert_eq!(got.known.file(FileId(0)).unwrap().device, 8 << 8 | 16);
    assert_eq!(got.known.thread(ThreadId(0)).unwrap().name, b"ls");
    assert_eq!(got.left_out(), [("writes", 1), ("bad-records", 2)]);
    assert_eq!(got.findings.bad_records_first[0].place, Place::Line(12));
}

#[test]
fn sums_behind_the_events_of_blkparse_are_no_bad_records() {
    let text = "  8,16  1  1  0.000000000  411  Q  R 2056 + 8 [ls]\n\
                CPU0 (8,16):\n Reads Queued:  1,  4KiB\niozone (29226)\n\tx\nTotal (8,16):\n";
    let got = read(text.as_bytes());
    assert_eq!(got.lines(), ["0 411 8,16 read 1052672+4096"]);
    assert!(got.findings.is_whole(), "{:?}", got.findings);
}

#[test]
fn juicefs_names_come_from_lookups() {
    let got = read(JUICEFS);
    assert_eq!(got.header.started_unix_ns, Some(1_610_699_171_000_000_000));
    assert_eq!(
        got.lines(),
        [
            "2000 4403 /data/a): b, (c) open 0+0",
            "3330 4403 /data/a): b, (c) read 4096+8669",
            "4000 4404 /data/a): b, (c) read 65536+4096",
            "6000 4404 inode-98 read 0+100",
        ]
    );
    assert_eq!(got.known.file(FileId(0)).unwrap().size_bytes, Some(20_000));
    assert_eq!(got.findings.past_end.count, 1);
    assert_eq!(got.findings.past_end.first, Some(Place::Line(7)));
    assert_eq!(
        got.left_out(),
        [
            ("writes", 1),
            ("others", 2),
            ("failed", 1),
            ("bad-records", 2)
        ]
    );
    assert_eq!(accesses(&got.events)[2].duration_ns, Some(12_000_000));
}

fn oracle_general(records: &[(u32, u64, u32, i64)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (time_s, object, size_bytes, next) in records {
        bytes.extend(time_s.to_le_bytes());
        bytes.extend(object.to_le_bytes());
        bytes.extend(size_bytes.to_le_bytes());
        bytes.extend(next.to_le_bytes());
    }
    bytes
}

#[test]
fn objects_are_files_or_places() {
    let bytes = oracle_general(&[(7, 5, 4096, 2), (7, 6, 100, -1), (9, 5, 4096, -1)]);
    let got = read(&bytes);
    assert_eq!(
        got.lines(),
        [
            "0 0 object-5 read 0+4096",
            "0 0 object-6 read 0+100",
            "2000000 0 object-5 read 0+4096",
        ]
    );
    let options = ReadOptions {
        objects: Objects::Sectors,
        ..ReadOptions::default()
    };
    let got = read_with(&bytes, options);
    assert_eq!(got.lines()[1], "0 0 objects read 3072+100");
    let cut = read(&bytes[..50]);
    assert_eq!(cut.lines().len(), 2);
    assert_eq!(cut.findings.cut_off, Some(Place::Byte(48)));
}

#[test]
fn packed_input_is_unpacked() {
    let plain = read(STRACE);
    let packed = zstd::encode_all(STRACE, 3).unwrap();
    assert_eq!(read(&packed).events, plain.events);
    let many = FIO_V3.repeat(5000);
    let packed = zstd::encode_all(&many[..], 3).unwrap();
    let whole = read(&many).lines().len();
    let cut = read(&packed[..packed.len() - 5]);
    assert!((1..whole).contains(&cut.lines().len()));
    assert!(cut.findings.cut_off.is_some());
    let own = common::small(100).bytes();
    let packed = zstd::encode_all(&own[..], 3).unwrap();
    assert_eq!(read(&packed).events, read(&own).events);
}

#[test]
fn what_needs_too_large_a_window_is_refused() {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.window_log(30).unwrap();
    encoder.write_all(STRACE).unwrap();
    let packed = encoder.finish().unwrap();
    let error = open(&packed[..], ReadOptions::default()).err().unwrap();
    assert!(matches!(error, ReadError::Io(_)), "{error}");
}

#[test]
fn lines_without_end_and_lines_too_long_are_told() {
    let mut text = FIO_V3[..FIO_V3.len() - 1].to_vec();
    let got = read(&text);
    assert_eq!(got.findings.cut_off, Some(Place::Line(11)));
    assert_eq!(got.lines().len(), 5);
    text.push(b'\n');
    text.extend(vec![b'x'; 200_000]);
    text.extend(b"\n160 /srv/a.bin read 0 1\n");
    let got = read(&text);
    assert_eq!(got.lines().len(), 7);
    assert_eq!(got.findings.bad_records, 2);
    assert_eq!(got.findings.bad_records_first[1].place, Place::Line(12));
}

#[test]
fn each_format_is_told_from_its_content() {
    for (bytes, source) in [
        (FIO_V2, Source::FioIologV2),
        (FIO_V3, Source::FioIologV3),
        (STRACE, Source::Strace),
        (BLKPARSE, Source::Blkparse),
        (JUICEFS, Source::JuiceFs),
    ] {
        assert_eq!(read(bytes).header.source, source);
    }
    for nothing in [&b""[..], b"hello\nworld\n", b"\0\0\0", &[0xff; 100]] {
        let error = open(nothing, ReadOptions::default()).err().unwrap();
        assert!(matches!(error, ReadError::UnknownFormat), "{error}");
    }
}
