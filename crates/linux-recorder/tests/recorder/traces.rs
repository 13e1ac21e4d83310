// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces: each access with its bytes, its open file, its thread, and its wait.

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use foreread_linux_recorder::{TraceRecorder, Traced};
use foreread_model::DiskParameters;
use foreread_testbed::FileSystem;
use foreread_trace::{Access, Event, FileId, Kind, Known, frt};

use crate::setting::{Disk, Place, evict, make, or_skip, warm};

struct Seen {
    known: Known,
    accesses: Vec<Access>,
    ends: usize,
    traced: Traced,
}

impl Seen {
    /// The accesses of a file, in their order.
    fn of(&self, path: &Path) -> Vec<Access> {
        use std::os::unix::ffi::OsStrExt;
        let path = path.as_os_str().as_bytes();
        let mut files = self.known.files();
        let found: Option<FileId> = files.find(|(_, file)| file.path == path).map(|(id, _)| id);
        let id = found.unwrap_or_else(|| panic!("{} is not in it", path.escape_ascii()));
        let accesses = self.accesses.iter().filter(|access| access.file == id);
        accesses.copied().collect()
    }
}

/// The trace of a program, read back.
fn traced(command: &mut Command) -> Seen {
    let mut recorder = TraceRecorder::start(Vec::new(), Vec::new()).unwrap();
    command.env_remove("LD_LIBRARY_PATH");
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    while child.try_wait().unwrap().is_none() {
        recorder.drain().unwrap();
        sleep(Duration::from_millis(2));
    }
    let (bytes, traced) = recorder.finish().unwrap();
    assert_eq!(traced.lost, 0);
    let mut reader = frt::Reader::new(&bytes[..]).unwrap();
    let mut seen = Seen {
        known: Known::default(),
        accesses: Vec::new(),
        ends: 0,
        traced,
    };
    while let Some(event) = reader.next_event().unwrap() {
        seen.known.learn(&event);
        match event {
            Event::Access(access) => seen.accesses.push(access),
            Event::ThreadEnd { .. } => seen.ends += 1,
            _ => {}
        }
    }
    let findings = reader.findings();
    assert!(findings.is_whole());
    assert_eq!((findings.time_back.count, findings.past_end.count), (0, 0));
    assert_eq!(seen.accesses.len() as u64, seen.traced.accesses);
    seen
}

/// One open, then reads in a row from the start of a file to its end, by one thread. The last ones
/// may have asked for more.
fn assert_read_whole(accesses: &[Access], bytes: u64) {
    assert_eq!(accesses[0].kind, Kind::Open);
    let mut at = 0;
    for access in accesses {
        assert_eq!(access.thread, accesses[0].thread);
        assert_eq!(access.stream, accesses[0].stream);
        // cat says that it reads in a row.
        if matches!(access.kind, Kind::Open | Kind::AdviseSequential) {
            continue;
        }
        assert_eq!((access.kind, access.offset_bytes), (Kind::Read, at));
        assert!(at < bytes);
        at += access.length_bytes;
    }
    assert!(at >= bytes);
    assert_ne!(accesses[0].stream, 0);
}

fn waited_ns(accesses: &[Access]) -> u64 {
    let waits = accesses.iter().map(|access| access.waited_ns);
    waits.map(|waited| waited.unwrap()).sum()
}

#[test]
fn reads_are_in_a_trace_byte_by_byte_with_their_waits() {
    const BYTES: u64 = 1_300_001;
    let place = or_skip!(Place::new());
    let file = make(&place.join("data"), BYTES);
    evict(&file);
    let cold = traced(Command::new("cat").arg(&file));
    let reads = cold.of(&file);
    assert_read_whole(&reads, BYTES);
    assert!(waited_ns(&reads) > 0);
    assert!(cold.traced.waited > 0 && cold.ends == 1);
    let thread = cold.known.thread(reads[0].thread).unwrap();
    assert_eq!((thread.tid, &thread.name[..]), (thread.pid, &b"cat"[..]));
    let extents = cold.known.extents(reads[0].file);
    let mapped: u64 = extents.iter().map(|extent| extent.length_bytes).sum();
    assert!(mapped >= BYTES, "{extents:?}");
    // Where somebody else writes, a read may wait for the file system's journal.
    let waited = [(); 5].map(|()| {
        warm(&file);
        let warm = traced(Command::new("cat").arg(&file));
        let reads = warm.of(&file);
        assert_read_whole(&reads, BYTES);
        waited_ns(&reads)
    });
    assert!(waited.contains(&0), "{waited:?}");
}

#[test]
fn a_slow_device_shows_in_the_waits() {
    const BYTES: u64 = 1 << 20;
    let disk = or_skip!(Disk::new(FileSystem::Ext4, &[]));
    let file = make(&disk.join("data"), BYTES);
    disk.forget("noatime");
    let slow = DiskParameters::preset("usb").unwrap();
    disk.testbed.set_parameters(slow.clone()).unwrap();
    let seen = traced(Command::new("cat").arg(&file));
    let reads = seen.of(&file);
    assert_read_whole(&reads, BYTES);
    // All bytes come from it, one request after the other, while nobody does anything else.
    let least_ns = BYTES * 1_000_000_000 / slow.bandwidth_bytes_per_s / 2;
    assert!(waited_ns(&reads) > least_ns, "{reads:?}");
    let first = reads.iter().find(|access| access.kind == Kind::Read);
    let first = first.unwrap();
    assert!(first.waited_ns.unwrap() <= first.time_ns);
    // The directory and the inode come from the device's own pages, before the data.
    let is_metadata = |access: &&Access| seen.known.file(access.file).unwrap().metadata;
    let own = |access: &&Access| {
        let device = |access: &Access| seen.known.file(access.file).unwrap().device;
        device(access) == device(first)
    };
    let metadata: Vec<&Access> = seen
        .accesses
        .iter()
        .filter(is_metadata)
        .filter(own)
        .collect();
    assert!(
        metadata
            .iter()
            .all(|access| access.time_ns <= first.time_ns)
    );
    let needed = metadata.iter().filter(|access| access.kind == Kind::Read);
    let waited: u64 = needed.map(|access| access.waited_ns.unwrap()).sum();
    assert!(waited >= slow.latency_ns, "{metadata:?}");
}

#[test]
fn two_opens_are_two_streams_and_a_mapping_is_that_of_its_open() {
    let place = or_skip!(Place::new());
    let file = make(&place.join("data"), 64 << 10);
    let script = "import mmap, os, sys
first = os.open(sys.argv[1], os.O_RDONLY)
os.read(first, 10)
second = os.open(sys.argv[1], os.O_RDONLY)
os.posix_fadvise(second, 0, 0, os.POSIX_FADV_RANDOM)
mapped = mmap.mmap(second, 0, prot=mmap.PROT_READ)
mapped[5000]";
    if !Path::new("/usr/bin/python3").is_file() {
        println!("skipped: there is no /usr/bin/python3");
        return;
    }
    let seen = traced(
        Command::new("/usr/bin/python3")
            .args(["-c", script])
            .arg(&file),
    );
    let accesses = seen.of(&file);
    let streams: Vec<(Kind, u32)> = accesses.iter().map(|a| (a.kind, a.stream)).collect();
    let (first, second) = (streams[0].1, streams[2].1);
    assert_ne!(first, second);
    let expected = [
        (Kind::Open, first),
        (Kind::Read, first),
        (Kind::Open, second),
        (Kind::AdviseRandom, second),
    ];
    assert_eq!(streams[..4], expected, "{accesses:?}");
    let fault = accesses.last().unwrap();
    if fault.kind == Kind::Fault {
        assert_eq!((fault.stream, fault.offset_bytes), (second, 4096));
    } else {
        // Where a fault was isn't known on every architecture.
        assert_eq!(fault.kind, Kind::MapAround);
    }
}

#[test]
fn a_child_has_its_parent_and_its_end() {
    let place = or_skip!(Place::new());
    let file = make(&place.join("data"), 10_000);
    let script = format!("cat {0} {0}; exit 0", file.display());
    let seen = traced(Command::new("sh").args(["-c", &script]));
    let reads = seen.of(&file);
    let child = seen.known.thread(reads[0].thread).unwrap();
    let parent = child.parent.and_then(|id| seen.known.thread(id)).unwrap();
    assert_eq!(
        (&child.name[..], &parent.name[..]),
        (&b"cat"[..], &b"sh"[..])
    );
    assert_eq!(seen.ends, 2);
    let reads: Vec<&Access> = reads.iter().filter(|a| a.kind == Kind::Read).collect();
    assert_eq!(reads.len(), 2);
    assert_ne!(reads[0].stream, reads[1].stream);
    assert!(reads.iter().all(|read| read.length_bytes >= 10_000));
}
