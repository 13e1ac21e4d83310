// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the tests work, and how they record and ask.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::thread::sleep;
use std::time::Duration;

use foreread_linux_recorder::{BpfRecorder, Recording, Unresolved, Watch, resolve};
use foreread_model::DiskParameters;
use foreread_profile::{NodeKind, PAGE_BYTES, PageRange, Profile, Program, Source, Uses};
use foreread_sys::cache::cached_pages;
use foreread_sys::mounts::Mounts;
use foreread_testbed::{FileSystem, Testbed, TestbedConfig};
use tempfile::TempDir;

/// A recorder takes the next child of this process for its program: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// Why a test can't be made here.
pub type Lack = String;

/// The value, or the end of the test with a word on why.
macro_rules! or_skip {
    ($what:expr) => {
        match $what {
            Ok(value) => value,
            Err(lack) => {
                println!("skipped: {lack}");
                return;
            }
        }
    };
}
pub(crate) use or_skip;

fn alone() -> Result<MutexGuard<'static, ()>, Lack> {
    let guard = ALONE
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    static LACK: OnceLock<Option<Lack>> = OnceLock::new();
    let lack = LACK.get_or_init(|| {
        let loaded = BpfRecorder::load(Watch::Everything);
        let attached = loaded.and_then(|mut recorder| recorder.attach());
        let error = attached.err()?.to_string();
        // A machine's limits skip the test; faults of our own programs fail it. Both are errors
        // here.
        let lack = if !rustix::process::geteuid().is_root() {
            "not root".to_owned()
        } else if !Path::new("/sys/kernel/btf/vmlinux").exists() || error.contains("os error 1)") {
            error
        } else {
            let release = rustix::system::uname()
                .release()
                .to_string_lossy()
                .into_owned();
            let numbers = release.split(['.', '-']).map(|n| n.parse().unwrap_or(0));
            let version: Vec<u32> = numbers.take(2).collect();
            assert!(
                version < vec![6, 1],
                "Linux {release} can do better: {error}"
            );
            format!("Linux {release} is older than any that is supported")
        };
        Some(lack)
    });
    match lack {
        None => Ok(guard),
        Some(lack) => Err(lack.clone()),
    }
}

/// The program of `probe.c`; `FOREREAD_RECORDER_PROBE` names one that was built elsewhere, for
/// machines without a compiler.
fn probe() -> Result<PathBuf, Lack> {
    static PROBE: OnceLock<Result<PathBuf, Lack>> = OnceLock::new();
    let build = || {
        if let Some(built) = std::env::var_os("FOREREAD_RECORDER_PROBE") {
            return Ok(PathBuf::from(built));
        }
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recorder/probe.c");
        let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join("recorder-probe");
        let mut compiler = Command::new("cc");
        compiler
            .args(["-O1", "-pthread", "-o"])
            .arg(&built)
            .arg(source);
        let output = compiler
            .output()
            .map_err(|e| format!("no C compiler: {e}"))?;
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{message}");
        Ok(built)
    };
    PROBE.get_or_init(build).clone()
}

/// A directory on the disk that the build is on.
pub struct Place {
    directory: TempDir,
    probe: PathBuf,
    _alone: MutexGuard<'static, ()>,
}

impl Place {
    pub fn new() -> Result<Self, Lack> {
        let alone = alone()?;
        let probe = probe()?;
        let directory = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let path = directory.path().as_os_str().as_bytes();
        let mounts = mounts();
        let on_disk = mounts
            .mount_of(path)
            .is_some_and(|at| !mounts.points()[at].is_virtual());
        if !on_disk {
            return Err(format!("{} is in memory", directory.path().display()));
        }
        Ok(Self {
            directory,
            probe,
            _alone: alone,
        })
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path().join(name)
    }

    /// The probe with its operations, one word after another.
    pub fn probe<A: AsRef<std::ffi::OsStr>>(&self, operations: &[A]) -> Command {
        let mut command = Command::new(&self.probe);
        command.args(operations);
        command
    }
}

/// A file system of its own, on a disk without latency, in a mount namespace of its own.
pub struct Disk {
    pub testbed: Testbed,
    pub root: PathBuf,
    pub file_system: FileSystem,
    probe: PathBuf,
    _alone: MutexGuard<'static, ()>,
}

impl Disk {
    pub fn new(file_system: FileSystem, mkfs: &[&str]) -> Result<Self, Lack> {
        let alone = alone()?;
        let probe = probe()?;
        Testbed::available().map_err(|lacking| lacking.to_string())?;
        file_system
            .available()
            .map_err(|lacking| lacking.to_string())?;
        let parameters = DiskParameters::preset("instant").unwrap();
        let testbed = Testbed::start(TestbedConfig::new(parameters, 512 << 20)).unwrap();
        testbed.make_file_system(file_system, mkfs).unwrap();
        let root = testbed.mount(file_system, "noatime").unwrap();
        Ok(Self {
            testbed,
            root,
            file_system,
            probe,
            _alone: alone,
        })
    }

    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.root.join(name)
    }

    pub fn probe<A: AsRef<std::ffi::OsStr>>(&self, operations: &[A]) -> Command {
        let mut command = Command::new(&self.probe);
        command.args(operations);
        command
    }

    /// Forgets everything that the kernel knows of the file system.
    pub fn forget(&self, options: &str) {
        let again = self.testbed.remount(self.file_system, options).unwrap();
        assert_eq!(again, self.root);
    }
}

/// The mounts of this thread, which may have a namespace of its own.
pub fn mounts() -> Mounts {
    Mounts::parse(&fs::read("/proc/thread-self/mountinfo").unwrap())
}

/// Result of a recording.
pub struct Recorded {
    pub profile: Profile,
    pub unresolved: Unresolved,
    pub recording: Recording,
}

/// Records a program from its start to its end; nothing may get lost.
pub fn record(command: &mut Command) -> Recorded {
    let recorded = record_until(command, || true);
    assert_eq!(
        recorded.recording.counts.lost(),
        0,
        "{:?}",
        recorded.recording.counts
    );
    recorded
}

/// The same, of a program that may find nothing, as grep does.
pub fn record_whatever_it_returns(command: &mut Command) -> Recorded {
    let mut recorder = BpfRecorder::load(Watch::Everything).unwrap();
    recorder.attach().unwrap();
    run_to_its_end(&recorder, command);
    let recorded = finish(recorder);
    assert_eq!(
        recorded.recording.counts.lost(),
        0,
        "{:?}",
        recorded.recording.counts
    );
    recorded
}

/// The same, and on until `done`, for what a program leaves behind.
pub fn record_until(command: &mut Command, done: impl Fn() -> bool) -> Recorded {
    let mut recorder = BpfRecorder::load(Watch::Everything).unwrap();
    recorder.attach().unwrap();
    run(&recorder, command);
    for _ in 0..1000 {
        if done() {
            break;
        }
        sleep(Duration::from_millis(5));
    }
    assert!(done(), "{command:?} isn't done after 5 s");
    finish(recorder)
}

/// Runs a program to its end under a recorder that is attached.
pub fn run(recorder: &BpfRecorder, command: &mut Command) {
    let status = run_to_its_end(recorder, command);
    assert!(status.success(), "{command:?}: {status}");
}

fn run_to_its_end(recorder: &BpfRecorder, command: &mut Command) -> ExitStatus {
    // cargo names a dozen directories there, in each of which the linker looks.
    command.env_remove("LD_LIBRARY_PATH");
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        recorder.drain();
        sleep(Duration::from_millis(2));
    }
}

pub fn finish(recorder: BpfRecorder) -> Recorded {
    let recording = recorder.finish();
    let (program, source) = (Program::default(), Source::default());
    let (profile, unresolved) = resolve(&recording, &mounts(), program, source, None);
    Recorded {
        profile,
        unresolved,
        recording,
    }
}

impl Recorded {
    /// The pages of a file, as ranges of first and end.
    pub fn pages(&self, path: impl AsRef<Path>) -> Vec<(u64, u64)> {
        let id = self.profile.find(path.as_ref().as_os_str().as_bytes());
        id.map(|id| joined(self.profile.ranges(id)))
            .unwrap_or_default()
    }

    /// Times of need of the ranges of a file.
    pub fn first_need_ns(&self, path: impl AsRef<Path>) -> u64 {
        let id = self
            .profile
            .find(path.as_ref().as_os_str().as_bytes())
            .unwrap();
        self.profile
            .ranges(id)
            .iter()
            .map(|range| range.need_ns)
            .min()
            .unwrap()
    }

    /// Pages by path, of files below a directory.
    pub fn pages_below(&self, directory: impl AsRef<Path>) -> BTreeMap<PathBuf, Vec<(u64, u64)>> {
        let files = self.profile.files().map(|(id, _)| {
            let path = self.profile.path(id);
            let path = PathBuf::from(std::ffi::OsStr::from_bytes(&path));
            (path, joined(self.profile.ranges(id)))
        });
        files
            .filter(|(path, pages)| path.starts_with(directory.as_ref()) && !pages.is_empty())
            .collect()
    }

    pub fn kind(&self, path: impl AsRef<Path>) -> Option<NodeKind> {
        let id = self.profile.find(path.as_ref().as_os_str().as_bytes())?;
        self.profile.node(id).map(|node| node.kind)
    }

    pub fn uses(&self, path: impl AsRef<Path>) -> Uses {
        let id = self.profile.find(path.as_ref().as_os_str().as_bytes());
        let node = id.and_then(|id| self.profile.node(id));
        node.map(|node| node.uses).unwrap_or_default()
    }
}

/// Ranges without their times.
fn joined(ranges: &[PageRange]) -> Vec<(u64, u64)> {
    let mut out: Vec<(u64, u64)> = Vec::new();
    for range in ranges {
        match out.last_mut() {
            Some(last) if last.1 == range.start_page => last.1 = range.end_page(),
            _ => out.push((range.start_page, range.end_page())),
        }
    }
    out
}

pub fn pages_of_bytes(bytes: u64) -> u64 {
    bytes.div_ceil(PAGE_BYTES)
}

/// Writes a file, to the disk.
pub fn make(path: &Path, bytes: u64) -> PathBuf {
    let block = vec![b'x'; 1 << 20];
    let mut file = File::create(path).unwrap();
    let mut left = bytes;
    while left > 0 {
        let now = left.min(1 << 20);
        std::io::Write::write_all(&mut file, &block[..now as usize]).unwrap();
        left -= now;
    }
    file.sync_all().unwrap();
    path.to_owned()
}

/// Drops the pages of a file from the cache. A folio that somebody holds just then, such as reclaim
/// or a processor's list of folios to be moved, stays; it goes when asked again.
pub fn evict(path: &Path) {
    const ATTEMPTS: usize = 100;
    let file = File::open(path).unwrap();
    file.sync_all().unwrap();
    let mut cached = 0;
    for _ in 0..ATTEMPTS {
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        cached = cached_pages(&file, 0, 1 << 30).unwrap_or(0);
        if cached == 0 {
            return;
        }
        sleep(Duration::from_millis(10));
    }
    panic!("{} stays cached: {cached} pages", path.display());
}

/// Brings all of a file into the cache.
pub fn warm(path: &Path) {
    std::io::copy(&mut File::open(path).unwrap(), &mut std::io::sink()).unwrap();
}
