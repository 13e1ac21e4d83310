// SPDX-License-Identifier: MIT OR Apache-2.0
//! The recorders without BPF, on real programs. They need root, tracefs and fanotify; where these
//! are missing a test says `skipped:` and why.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use foreread_bpf::BpfError;
use foreread_linux_recorder::{
    BpfRecorder, Counts, FanotifyError, FanotifyRecorder, TracefsError, TracefsOptions,
    TracefsRecorder, Unresolved, Watch, resolve,
};
use foreread_profile::{BlindSpots, PageRange, Profile, Program, Recorder, Source, Uses};
use foreread_sys::cache::cached_pages;
use foreread_sys::mounts::{Mounts, mounts_of_self};
use foreread_testbed::mapped::MappedFile;
use rustix::process::geteuid;
use tempfile::TempDir;

/// Interface that all recorders share.
trait Recording: Sized {
    fn drain(&mut self);
    fn finish(self, mounts: &Mounts) -> Recorded;
}

struct Recorded {
    profile: Profile,
    unresolved: Unresolved,
    counts: Counts,
}

impl Recorded {
    fn of((profile, unresolved, counts): (Profile, Unresolved, Counts)) -> Self {
        Self {
            profile,
            unresolved,
            counts,
        }
    }
}

impl Recording for TracefsRecorder {
    fn drain(&mut self) {
        Self::drain(self);
    }

    fn finish(self, mounts: &Mounts) -> Recorded {
        Recorded::of(self.finish(mounts, Program::default(), Source::default()))
    }
}

impl Recording for FanotifyRecorder {
    fn drain(&mut self) {
        Self::drain(self);
    }

    fn finish(self, mounts: &Mounts) -> Recorded {
        Recorded::of(self.finish(mounts, Program::default(), Source::default()))
    }
}

impl Recording for BpfRecorder {
    fn drain(&mut self) {
        Self::drain(self);
    }

    fn finish(self, mounts: &Mounts) -> Recorded {
        let recording = self.finish();
        let (program, source) = (Program::default(), Source::default());
        let (profile, unresolved) = resolve(&recording, mounts, program, source, None);
        Recorded::of((profile, unresolved, recording.counts))
    }
}

/// Errors that say what the machine lacks, and not what the recorder gets wrong.
trait Lack {
    fn is_lack(&self) -> bool;
}

impl Lack for TracefsError {
    fn is_lack(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::NoNames(_)) || !geteuid().is_root()
    }
}

impl Lack for FanotifyError {
    fn is_lack(&self) -> bool {
        true
    }
}

impl Lack for BpfError {
    fn is_lack(&self) -> bool {
        true
    }
}

/// A recorder, or a word on why the test can't be made here.
macro_rules! started {
    ($start:expr) => {
        match $start {
            Ok(recorder) => recorder,
            Err(error) => {
                assert!(error.is_lack(), "{error}");
                println!("skipped: {error}");
                return;
            }
        }
    };
}

/// A place on a real file system; on one in memory there is nothing to record.
macro_rules! directory_on_disk {
    () => {{
        let directory = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let mounts = mounts_of_self().unwrap();
        let index = mounts.mount_of(directory.path().as_os_str().as_bytes());
        if index.is_none_or(|index| mounts.points()[index].is_virtual()) {
            println!("skipped: {} is in memory", directory.path().display());
            return;
        }
        directory
    }};
}

fn run(mut recorder: impl Recording, command: &mut Command) -> Recorded {
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        recorder.drain();
        sleep(Duration::from_millis(5));
    };
    assert!(status.success(), "{command:?}: {status}");
    recorder.finish(&mounts_of_self().unwrap())
}

fn make(directory: &Path, name: &str, bytes: usize) -> PathBuf {
    let path = directory.join(name);
    fs::write(&path, vec![b'x'; bytes]).unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    file.sync_all().unwrap();
    // A file that is written after the start of a recording doesn't count as read; this one is old.
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    file.set_modified(old).unwrap();
    path
}

fn make_small(directory: &Path, count: usize) -> Vec<PathBuf> {
    (0..count)
        .map(|n| make(directory, &format!("small-{n}"), 100))
        .collect()
}

/// Takes a file out of the page cache. The kernel leaves pages that somebody holds at the moment,
/// such as one who reclaims memory (DAMON): those are tried again.
fn evict(path: &Path) {
    const TRIES: u32 = 500;
    let file = File::open(path).unwrap();
    file.sync_all().unwrap();
    for _ in 0..TRIES {
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        if resident_pages(path) == 0 {
            return;
        }
        sleep(Duration::from_millis(10));
    }
    panic!("{} pages of it stay cached", resident_pages(path));
}

fn resident_pages(path: &Path) -> u64 {
    let file = File::open(path).unwrap();
    let pages = file.metadata().unwrap().len().div_ceil(4096);
    cached_pages(&file, 0, pages).unwrap()
}

/// Pages by path, of files below a directory.
fn pages_below(profile: &Profile, directory: &Path) -> BTreeMap<Vec<u8>, Vec<(u64, u64)>> {
    let directory = directory.as_os_str().as_bytes();
    profile
        .files()
        .map(|(id, _)| (profile.path(id), profile.ranges(id)))
        .filter(|(path, ranges)| path.starts_with(directory) && !ranges.is_empty())
        .map(|(path, ranges)| (path, joined(ranges)))
        .collect()
}

/// Ranges without their times.
fn joined(ranges: &[PageRange]) -> Vec<(u64, u64)> {
    let mut out: Vec<(u64, u64)> = Vec::new();
    for range in ranges {
        let end = range.start_page + range.pages;
        match out.last_mut() {
            Some(last) if last.1 == range.start_page => last.1 = end,
            _ => out.push((range.start_page, end)),
        }
    }
    out
}

fn pages_of(profile: &Profile, path: &Path) -> Vec<(u64, u64)> {
    profile
        .find(path.as_os_str().as_bytes())
        .map(|id| joined(profile.ranges(id)))
        .unwrap_or_default()
}

fn uses_of(profile: &Profile, path: &Path) -> Uses {
    profile
        .find(path.as_os_str().as_bytes())
        .and_then(|id| profile.node(id))
        .map(|node| node.uses)
        .unwrap_or_default()
}

fn has(blind_spots: BlindSpots, one: BlindSpots) -> bool {
    blind_spots.0 & one.0 == one.0
}

/// Files that stay in the page cache. A recorder that goes by residency sees nothing of a file that
/// was dropped before the end of the recording, and tests that run meanwhile drop all caches. The
/// kernel keeps mapped pages.
struct Held {
    _files: Vec<MappedFile>,
}

impl Held {
    /// One page, and what the kernel reads around it.
    fn page(path: &Path, page: u64) -> Self {
        let file = MappedFile::open(path).unwrap();
        assert!(file.touch(page).is_some());
        Self { _files: vec![file] }
    }

    fn start(paths: &[PathBuf]) -> Self {
        let files = paths.iter().map(|path| {
            let file = MappedFile::open(path).unwrap();
            assert!((0..file.pages()).all(|page| file.touch(page).is_some()));
            file
        });
        Self {
            _files: files.collect(),
        }
    }
}

/// A process that reads other files over and over, until dropped.
struct Noise(Child);

impl Noise {
    fn start(paths: &[PathBuf]) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do cat \"$@\"; done", "sh"]);
        command.args(paths).stdout(Stdio::null());
        // Its files are deleted before it is.
        let child = command.stderr(Stdio::null()).spawn().unwrap();
        Self(child)
    }
}

impl Drop for Noise {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

const FILES: usize = 23;

fn reads_each_file_once(recorder: impl Recording, directory: &Path) -> Recorded {
    let files = make_small(directory, FILES);
    let _held = Held::start(&files);
    let recorded = run(recorder, Command::new("cat").args(&files));
    let found = pages_below(&recorded.profile, directory);
    assert_eq!(found.len(), FILES);
    assert!(
        found.values().all(|ranges| ranges == &[(0, 1)]),
        "{found:?}"
    );
    let uses = uses_of(&recorded.profile, &files[3]);
    assert!(uses.contains(Uses::READ.union(Uses::OPENED)));
    assert_eq!(recorded.counts.lost(), 0, "{:?}", recorded.counts);
    recorded
}

#[test]
fn tracefs_sees_23_files_and_no_other() {
    let directory = directory_on_disk!();
    let noise_directory = directory_on_disk!();
    let _noise = Noise::start(&make_small(noise_directory.path(), 5));
    let recorder = started!(TracefsRecorder::start());
    let recorded = reads_each_file_once(recorder, directory.path());
    let noise_path = noise_directory.path().as_os_str().as_bytes();
    assert!(recorded.profile.find(noise_path).is_none());
    let source = &recorded.profile.source;
    assert_eq!(source.recorder, Recorder::Tracefs);
    assert!(has(source.blind_spots, BlindSpots::NO_LOOKUPS));
}

#[test]
fn fanotify_sees_23_files_and_no_other() {
    let directory = directory_on_disk!();
    let noise_directory = directory_on_disk!();
    let _noise = Noise::start(&make_small(noise_directory.path(), 5));
    let recorder = started!(FanotifyRecorder::start());
    let recorded = reads_each_file_once(recorder, directory.path());
    let noise_path = noise_directory.path().as_os_str().as_bytes();
    assert!(recorded.profile.find(noise_path).is_none());
    let source = &recorded.profile.source;
    assert_eq!(source.recorder, Recorder::Fanotify);
    assert_eq!(source.blind_spots, FanotifyRecorder::BLIND_SPOTS);
}

const LARGE_BYTES: usize = 32 << 20;
const LARGE_PAGES: u64 = (LARGE_BYTES / 4096) as u64;

#[test]
fn tracefs_sees_all_pages_of_a_large_file_cold_and_warm() {
    let directory = directory_on_disk!();
    let large = make(directory.path(), "large", LARGE_BYTES);
    evict(&large);
    for state in ["cold", "warm"] {
        let recorder = started!(TracefsRecorder::start());
        let recorded = run(recorder, Command::new("cat").arg(&large));
        let found = pages_of(&recorded.profile, &large);
        assert_eq!(found, [(0, LARGE_PAGES)], "{state}");
        // Other programs may drop caches meanwhile, so the misses of a warm file are not known.
        let missed = recorded.counts.missed_pages;
        assert!(
            missed >= LARGE_PAGES || state == "warm",
            "{state}: {missed}"
        );
    }
}

/// Reads that end within what the kernel's readahead has asked for: of some there is no event.
#[test]
fn tracefs_sees_all_pages_of_a_cold_file_read_in_odd_pieces() {
    let directory = directory_on_disk!();
    let large = make(directory.path(), "large", LARGE_BYTES);
    for size in ["96K", "20000"] {
        evict(&large);
        let recorder = started!(TracefsRecorder::start());
        let mut command = Command::new("dd");
        command.arg(format!("if={}", large.display()));
        command.args(["of=/dev/null", "status=none", &format!("bs={size}")]);
        let recorded = run(recorder, &mut command);
        let found = pages_of(&recorded.profile, &large);
        assert_eq!(found, [(0, LARGE_PAGES)], "{size}: {:?}", recorded.counts);
    }
}

#[test]
fn tracefs_sees_single_pages_of_a_cached_file() {
    let directory = directory_on_disk!();
    let large = make(directory.path(), "large", 1 << 20);
    let recorder = started!(TracefsRecorder::start());
    if has(recorder.blind_spots(), BlindSpots::RESIDENCY_NOT_ACCESS) {
        println!("skipped: this kernel has no events of accesses");
        return;
    }
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "for p in 7 8 100; do dd if=$0 bs=4096 skip=$p count=1 status=none; done",
    ]);
    let recorded = run(recorder, command.arg(&large));
    assert_eq!(pages_of(&recorded.profile, &large), [(7, 9), (100, 101)]);
}

#[test]
fn tracefs_without_access_events_counts_folios_whole() {
    let directory = directory_on_disk!();
    let large = make(directory.path(), "large", LARGE_BYTES);
    evict(&large);
    let options = TracefsOptions {
        access_events: false,
        ..TracefsOptions::default()
    };
    let mut _held = None;
    for state in ["cold", "warm"] {
        let recorder = started!(TracefsRecorder::start_with(&options));
        let recorded = run(recorder, Command::new("cat").arg(&large));
        let found = pages_of(&recorded.profile, &large);
        assert_eq!(found, [(0, LARGE_PAGES)], "{state}: {:?}", recorded.counts);
        let blind_spots = recorded.profile.source.blind_spots;
        assert!(has(blind_spots, BlindSpots::RESIDENCY_NOT_ACCESS));
        // Of a warm file there are no events, but what is resident at the end.
        _held = Some(Held::start(std::slice::from_ref(&large)));
    }
}

#[test]
fn fanotify_sees_what_is_resident_and_no_more() {
    let directory = directory_on_disk!();
    let large = make(directory.path(), "large", LARGE_BYTES);
    evict(&large);
    let _held = Held::page(&large, 5000);
    let recorder = started!(FanotifyRecorder::start());
    // One page in the middle: readahead may bring its neighbours, not the file.
    let mut command = Command::new("dd");
    command.arg(format!("if={}", large.display())).args([
        "of=/dev/null",
        "bs=4096",
        "skip=5000",
        "count=1",
        "status=none",
    ]);
    let recorded = run(recorder, &mut command);
    let found = pages_of(&recorded.profile, &large);
    assert!(
        found
            .iter()
            .any(|(start, end)| (*start..*end).contains(&5000)),
        "{found:?}"
    );
    let pages: u64 = found.iter().map(|(start, end)| end - start).sum();
    assert!(pages < LARGE_PAGES / 2, "{pages} of {LARGE_PAGES}");
}

#[test]
fn fanotify_leaves_out_what_the_program_wrote() {
    let directory = directory_on_disk!();
    let written = directory.path().join("written");
    let read = make(directory.path(), "read", 9000);
    let _held = Held::start(std::slice::from_ref(&read));
    let recorder = started!(FanotifyRecorder::start());
    let recorded = run(recorder, Command::new("cp").arg(&read).arg(&written));
    assert_eq!(pages_of(&recorded.profile, &read), [(0, 3)]);
    assert_eq!(pages_of(&recorded.profile, &written), []);
    assert!(uses_of(&recorded.profile, &written).contains(Uses::OPENED));
}

fn python() -> Option<PathBuf> {
    ["/usr/bin/python3", "/usr/local/bin/python3"]
        .iter()
        .map(PathBuf::from)
        .find(|path| path.exists())
}

/// Of a file of which one page is touched through a mapping: more than the kernel reads around it.
const MAPPED_PAGES: u64 = 8192;

/// Touches page 100 through a mapping.
const MAP: &str = "import mmap,sys
with open(sys.argv[1],'rb') as f:
    m=mmap.mmap(f.fileno(),0,prot=mmap.PROT_READ)
    m.madvise(mmap.MADV_RANDOM)
    print(m[100*4096])";

fn maps_a_file(recorder: impl Recording, python: &Path, mapped: &Path) -> Profile {
    let recorded = run(recorder, Command::new(python).args(["-c", MAP]).arg(mapped));
    let found = pages_of(&recorded.profile, mapped);
    assert!(
        found
            .iter()
            .any(|(start, end)| (*start..*end).contains(&100)),
        "{found:?}"
    );
    let pages: u64 = found.iter().map(|(start, end)| end - start).sum();
    assert!(pages < MAPPED_PAGES, "all pages of the file: {found:?}");
    recorded.profile
}

#[test]
fn mapped_files_are_seen() {
    let directory = directory_on_disk!();
    let Some(python) = python() else {
        println!("skipped: no python3");
        return;
    };
    let mapped = make(directory.path(), "mapped", MAPPED_PAGES as usize * 4096);
    evict(&mapped);
    let recorder = started!(TracefsRecorder::start());
    let profile = maps_a_file(recorder, &python, &mapped);
    assert!(uses_of(&profile, &mapped).contains(Uses::MAPPED));
    let program = fs::canonicalize(&python).unwrap();
    assert!(uses_of(&profile, &program).contains(Uses::EXECUTED));
    assert!(!pages_of(&profile, &program).is_empty());
    evict(&mapped);
    let _held = Held::page(&mapped, 100);
    let recorder = started!(FanotifyRecorder::start());
    maps_a_file(recorder, &python, &mapped);
}

/// Reads `files[0]` in a grandchild and `files[1]` from what it inherits.
fn reads_in_a_grandchild(recorder: impl Recording, files: &[PathBuf]) -> Recorded {
    let mut command = Command::new("sh");
    command.args(["-c", "(sh -c 'cat \"$0\"; true' \"$0\"; true); cat"]);
    command.arg(&files[0]);
    let input = File::open(&files[1]).unwrap();
    command.stdin(input);
    let recorded = run(recorder, &mut command);
    assert_eq!(pages_of(&recorded.profile, &files[0]), [(0, 1)]);
    assert_eq!(pages_of(&recorded.profile, &files[2]), []);
    recorded
}

#[test]
fn grandchildren_are_seen() {
    let directory = directory_on_disk!();
    let files = make_small(directory.path(), 3);
    let _held = Held::start(&files[..2]);
    reads_in_a_grandchild(started!(FanotifyRecorder::start()), &files);
    // Held open while the recorder starts, as a shell holds what it redirects from.
    let _inherited = File::open(&files[1]).unwrap();
    let recorder = started!(TracefsRecorder::start());
    let recorded = reads_in_a_grandchild(recorder, &files);
    assert_eq!(pages_of(&recorded.profile, &files[1]), [(0, 1)]);
}

#[test]
fn directories_and_parents_are_in_the_profile() {
    let directory = directory_on_disk!();
    let inner = directory.path().join("inner");
    fs::create_dir(&inner).unwrap();
    make_small(&inner, 2);
    let recorder = started!(TracefsRecorder::start());
    let recorded = run(recorder, Command::new("ls").arg(&inner));
    assert!(uses_of(&recorded.profile, &inner).contains(Uses::LISTED));
    let path = directory.path().as_os_str().as_bytes();
    let parent = recorded.profile.find(path).unwrap();
    let node = recorded.profile.node(parent).unwrap();
    assert!(node.uses.contains(Uses::LOOKED_UP));
    assert_ne!(node.identity.inode, 0, "parents are known by inode");
}

const INSTANCES: &str = "/sys/kernel/tracing/instances";

#[test]
fn the_instance_is_gone_afterwards_and_stale_ones_too() {
    let recorder = started!(TracefsRecorder::start());
    if !Path::new(INSTANCES).is_dir() {
        println!("skipped: tracefs isn't mounted, so the instances can't be looked at");
        return;
    }
    let ours = Path::new(INSTANCES).join(recorder.instance_name());
    assert!(ours.is_dir());
    // As a killed recorder leaves it: numbers of processes don't go that far.
    let stale = Path::new(INSTANCES).join("foreread-4194305-1-0");
    fs::create_dir(&stale).unwrap();
    let second = TracefsRecorder::start().unwrap();
    assert!(!stale.exists(), "the next start removes it");
    assert!(ours.is_dir(), "but not what is in use");
    drop(second);
    run(recorder, &mut Command::new("true"));
    assert!(!ours.exists());
    let recorder = TracefsRecorder::start().unwrap();
    let dropped = Path::new(INSTANCES).join(recorder.instance_name());
    drop(recorder);
    assert!(!dropped.exists(), "also when it isn't finished");
}

#[test]
fn an_overrun_is_counted() {
    let directory = directory_on_disk!();
    let file = make(directory.path(), "hot", 1 << 20);
    let options = TracefsOptions {
        buffer_kib: 8,
        ..TracefsOptions::default()
    };
    let recorder = started!(TracefsRecorder::start_with(&options));
    if has(recorder.blind_spots(), BlindSpots::RESIDENCY_NOT_ACCESS) {
        println!("skipped: this kernel has no events of accesses");
        return;
    }
    // 26,214 reads. A CPU's buffer holds some 180 of them, and nobody takes them meanwhile.
    let mut command = Command::new("dd");
    command
        .arg(format!("if={}", file.display()))
        .args(["of=/dev/null", "bs=40", "status=none"]);
    assert!(command.status().unwrap().success());
    let (profile, _, counts) = recorder.finish(
        &mounts_of_self().unwrap(),
        Program::default(),
        Source::default(),
    );
    assert!(counts.lost() > 20_000, "{counts:?}");
    assert_eq!(profile.source.events_lost, counts.lost());
}

const MIXED: &str = "cat \"$@\" >/dev/null
    dd if=$0 of=/dev/null bs=4096 skip=300 count=5 status=none
    tail -c 10 $0
    grep -c y \"$@\"
    true";

#[test]
fn tracefs_and_bpf_agree() {
    let directory = directory_on_disk!();
    let large = make(directory.path(), "large", 3 << 20);
    let files = make_small(directory.path(), 40);
    let command = || {
        let mut command = Command::new("sh");
        command.args(["-c", MIXED]).arg(&large).args(&files);
        command
    };
    let mut bpf = started!(BpfRecorder::load(Watch::Everything));
    started!(bpf.attach());
    let by_bpf = run(bpf, &mut command());
    let tracefs = started!(TracefsRecorder::start());
    if has(tracefs.blind_spots(), BlindSpots::RESIDENCY_NOT_ACCESS) {
        println!("skipped: this kernel has no events of accesses");
        return;
    }
    let by_trace = run(tracefs, &mut command());
    assert_eq!(by_trace.counts.lost(), 0, "{:?}", by_trace.counts);
    let pages = |recorded: &Recorded, path| pages_below(&recorded.profile, path);
    let (of_trace, of_bpf) = (
        pages(&by_trace, directory.path()),
        pages(&by_bpf, directory.path()),
    );
    assert_eq!(of_trace, of_bpf);
    assert_eq!(of_trace.len(), 41);
    // Programs and libraries. Which pages of these are touched differs from run to run.
    let usr = Path::new("/usr");
    let (of_trace, of_bpf) = (pages(&by_trace, usr), pages(&by_bpf, usr));
    let paths = |found: BTreeMap<Vec<u8>, _>| found.into_keys().collect::<Vec<_>>();
    assert_eq!(paths(of_trace), paths(of_bpf));
    assert_eq!(
        by_trace.unresolved.unreachable, 0,
        "{:?}",
        by_trace.unresolved
    );
}

/// An overlay of `lower` and `upper` on `merged`, all in one directory; unmounted when dropped.
struct Overlay(PathBuf);

impl Overlay {
    fn mount(directory: &Path) -> Option<Self> {
        let merged = directory.join("merged");
        for name in ["lower", "upper", "work", "merged"] {
            fs::create_dir(directory.join(name)).unwrap();
        }
        let place = directory.display();
        let options = format!("lowerdir={place}/lower,upperdir={place}/upper,workdir={place}/work");
        let mut mount = Command::new("mount");
        mount.args(["-t", "overlay", "overlay", "-o", &options]);
        let mounted = mount.arg(&merged).stderr(Stdio::null()).status();
        mounted
            .is_ok_and(|status| status.success())
            .then_some(Self(merged))
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        // Recorders of other tests hold what was opened there until they have seen it.
        for _ in 0..200 {
            let mut unmount = Command::new("umount");
            if unmount
                .arg(&self.0)
                .stderr(Stdio::null())
                .status()
                .unwrap()
                .success()
            {
                return;
            }
            sleep(Duration::from_millis(20));
        }
        panic!("{} stays mounted", self.0.display());
    }
}

fn reads_through_an_overlay(recorder: impl Recording, directory: &Path) {
    let merged = directory.join("merged/file");
    let recorded = run(recorder, Command::new("cat").arg(&merged));
    let lower = directory.join("lower/file");
    assert_eq!(
        pages_of(&recorded.profile, &lower),
        [(0, 5)],
        "in the layer"
    );
    assert!(uses_of(&recorded.profile, &merged).contains(Uses::OPENED));
    assert_eq!(recorded.unresolved, Unresolved::default());
}

#[test]
fn files_of_an_overlay_are_found_in_its_layers() {
    let directory = directory_on_disk!();
    let Some(_overlay) = Overlay::mount(directory.path()) else {
        println!("skipped: no overlay can be mounted");
        return;
    };
    let lower = make(&directory.path().join("lower"), "file", 5 * 4096);
    let _held = Held::start(&[lower]);
    reads_through_an_overlay(started!(TracefsRecorder::start()), directory.path());
    reads_through_an_overlay(started!(FanotifyRecorder::start()), directory.path());
}
