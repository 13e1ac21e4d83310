// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that are moved while others read, map, write, cut, punch, rename, remove and protect them.
//!
//! Processes change files of their own and know what must be in them; each checks after each step.
//! Meanwhile all files are moved together, again and again. `FOREREAD_RACE_SECONDS` is how long, by
//! default a few seconds.
//!
//! Needs root and a loop device; prints `skipped:` where they are missing.
// Helpers of tests are tests too.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use common::{Counter, MIB, Volume, bytes_of};
use foreread_layout::{PassFile, Step};
use foreread_model::DiskParameters;
use foreread_sys::fiemap::runs;
use foreread_sys::generation::generation_of;
use foreread_testbed::{FileSystem, Testbed, TestbedConfig};
use rustix::fs::syncfs;

/// Changes files and checks them until it is ended by the end of its input. Prints what is wrong.
const WORKER: &str = r#"
import ctypes, fcntl, mmap, os, random, select, struct, sys, time
top, seed = sys.argv[1], int(sys.argv[2])
random.seed(seed)
os.makedirs(top, exist_ok=True)
libc = ctypes.CDLL(None, use_errno=True)
PUNCH = 3
files = {}
def fresh(name):
    data = bytearray(random.randbytes(random.randrange(1, 100000)))
    with open(name, 'wb') as f: f.write(data)
    files[name] = data
for n in range(150): fresh(f'{top}/{n}')
print('ready', flush=True)
def check(name):
    with open(name, 'rb') as f: found = f.read()
    if found != files[name]:
        at = next((i for i, (a, b) in enumerate(zip(found, files[name])) if a != b), -1)
        print(f'{name}: {len(found)} bytes for {len(files[name])}, differ at {at}', flush=True)
        sys.exit(1)
def flags(name, flags_set):
    fd = os.open(name, os.O_RDONLY)
    held = struct.unpack('i', fcntl.ioctl(fd, 0x80086601, bytes(8))[:4])[0]
    held = held | 0x10 if flags_set else held & ~0x10
    fcntl.ioctl(fd, 0x40086602, struct.pack('q', held))
    os.close(fd)
steps = 0
while not select.select([0], [], [], 0)[0]:
    name = random.choice(sorted(files))
    data = files[name]
    what = random.choice(['write', 'write', 'append', 'cut', 'punch', 'map', 'map', 'rename',
                          'remove', 'protect', 'sync', 'read', 'direct'])
    at = random.randrange(max(1, len(data)))
    part = random.randbytes(random.randrange(1, 20000))
    if what == 'write':
        with open(name, 'r+b') as f: f.seek(at); f.write(part)
        if len(data) < at + len(part): data.extend(bytes(at + len(part) - len(data)))
        data[at:at + len(part)] = part
    elif what == 'append' and len(data) < 400000:
        with open(name, 'ab') as f: f.write(part)
        data += part
    elif what == 'cut':
        os.truncate(name, at); del data[at:]
    elif what == 'punch' and data:
        fd = os.open(name, os.O_RDWR)
        length = min(len(part), len(data) - at)
        libc.fallocate(fd, PUNCH, ctypes.c_long(at), ctypes.c_long(length))
        os.close(fd)
        data[at:at + length] = bytes(length)
    elif what == 'map' and data:
        with open(name, 'r+b') as f, mmap.mmap(f.fileno(), 0) as m:
            length = min(len(part), len(data) - at)
            for byte in range(0, length, 997):
                m[at + byte] = part[byte]; data[at + byte] = part[byte]
            if random.random() < 0.3: m.flush()
    elif what == 'rename':
        other = f'{top}/renamed-{steps}'
        os.rename(name, other); files[other] = files.pop(name); name = other
    elif what == 'remove':
        os.unlink(name); del files[name]; name = f'{top}/new-{steps}'; fresh(name)
    elif what == 'protect':
        flags(name, True); check(name); flags(name, False)
    elif what == 'sync':
        fd = os.open(name, os.O_RDONLY); os.fsync(fd); os.close(fd)
    elif what == 'direct':
        fd = os.open(name, os.O_RDONLY | os.O_DIRECT)
        buffer = mmap.mmap(-1, 1 << 20)
        read = os.readv(fd, [buffer]); os.close(fd)
        if buffer[:read] != data[:1 << 20]:
            print(f'{name}: differs on the disk', flush=True)
            sys.exit(1)
    check(name)
    steps += 1
    # Files that were just changed aren't moved: so most rest, at any time.
    if steps % 50 > 10: time.sleep(random.random() * 0.03)
for name in files: check(name)
print(f'{steps} steps were right', flush=True)
"#;

const WORKERS: u64 = 3;

/// Starts a worker; returns when its files are there.
fn worker(root: &Path, number: u64) -> (Child, BufReader<ChildStdout>) {
    let top = root.join(format!("worker{number}"));
    let mut child = Command::new("python3")
        .args(["-c", WORKER])
        .arg(top)
        .arg(number.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    (child, said)
}

/// All files of the workers that are there.
fn files(root: &Path) -> Vec<PathBuf> {
    let workers = fs::read_dir(root).unwrap().flatten();
    let workers = workers.filter(|entry| entry.file_name().to_string_lossy().starts_with('w'));
    let files = workers.flat_map(|entry| fs::read_dir(entry.path()).into_iter().flatten());
    files.flatten().map(|entry| entry.path()).collect()
}

/// The files that are still there, and steps that put them one after the other.
fn gathered(paths: &[PathBuf], mut to_bytes: u64) -> (Vec<PassFile>, Vec<Step>) {
    let (mut files, mut steps) = (Vec::new(), Vec::new());
    for path in paths {
        let Ok(file) = File::open(path) else { continue };
        let Ok(runs) = runs(&file, 0, u64::MAX, 1000) else {
            continue;
        };
        for run in runs {
            steps.push(Step {
                file: files.len(),
                offset_bytes: run.offset_bytes,
                length_bytes: run.length_bytes,
                from_bytes: run.place_bytes,
                to_bytes,
            });
            to_bytes += run.length_bytes;
        }
        files.push(PassFile {
            inode: file.metadata().unwrap().ino(),
            generation: generation_of(file.as_fd()),
            path: path.display().to_string(),
        });
    }
    (files, steps)
}

/// What the kernel has said since, about the file system on this device.
fn kernel_messages(mark: &str, device: &Path) -> Vec<String> {
    let name = device.file_name().unwrap().to_string_lossy();
    let device = format!("(device {name})");
    let output = Command::new("dmesg").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let text = text.unwrap_or_default();
    let since = text.rsplit(mark).next().unwrap_or_default();
    let is_bad = |line: &&str| {
        let is_ours = line.contains("EXT4-fs") && line.contains(&device);
        let is_any = |parts: &[&str]| parts.iter().any(|part| line.contains(part));
        is_any(&["WARNING:", "BUG:"]) || is_ours && is_any(&["error", "warning"])
    };
    since.lines().filter(is_bad).map(str::to_owned).collect()
}

#[test]
fn nobody_sees_a_wrong_byte_while_files_are_moved() {
    if let Err(lacking) = Testbed::available() {
        println!("skipped: {lacking}");
        return;
    }
    let asked = env::var("FOREREAD_RACE_SECONDS").ok();
    let seconds: u64 = asked.map_or(4, |number| number.parse().unwrap());
    let parameters = DiskParameters::preset("instant").unwrap();
    let volume = Volume::on(Testbed::start(TestbedConfig::new(parameters, 1024 * MIB)).unwrap());
    let mark = format!("foreread races {}", std::process::id());
    // Without the right to write there, all messages count.
    let _ = fs::write("/dev/kmsg", format!("{mark}\n"));
    let workers: Vec<_> = (0..WORKERS)
        .map(|number| worker(&volume.root, number))
        .collect();
    let begun = Instant::now();
    let (mut passes, mut moved_bytes, mut written_bytes) = (0, 0, 0);
    let mut stayed: BTreeMap<String, u32> = BTreeMap::new();
    while begun.elapsed() < Duration::from_secs(seconds) {
        // What was written has a place only then.
        syncfs(File::open(&volume.root).unwrap()).unwrap();
        let free = volume.free();
        let runs = free.runs().iter();
        let run = runs.max_by_key(|run| run.length_bytes).unwrap();
        let to_bytes = run.offset_bytes + MIB * (1 + passes % 7);
        let (passed, steps) = gathered(&files(&volume.root), to_bytes);
        assert!(bytes_of(&steps) + 16 * MIB < run.length_bytes);
        let moved = volume.run(&passed, &steps, &mut Counter::default());
        passes += 1;
        moved_bytes += moved.bytes;
        written_bytes += moved.written_bytes;
        for (_, _, why) in moved.skipped {
            *stayed.entry(why.to_string()).or_insert(0) += 1;
        }
    }
    let mut wrong = Vec::new();
    for (mut child, mut output) in workers {
        // The end of its input.
        drop(child.stdin.take());
        let mut said = String::new();
        output.read_to_string(&mut said).unwrap();
        println!("{}", said.trim());
        if !child.wait().unwrap().success() {
            wrong.push(said);
        }
    }
    println!(
        "{passes} passes moved {moved_bytes} bytes, {written_bytes} of them written meanwhile"
    );
    println!("parts that stayed: {stayed:?}");
    assert_eq!(wrong, Vec::<String>::new());
    assert_eq!(
        kernel_messages(&mark, volume.testbed.device()),
        Vec::<String>::new()
    );
    // What is on the disk is what was in memory. At an unmount after such writers, Linux 6.18 warns
    // of inodes with dirty pages ("data will be lost"), also where nothing was moved.
    let contents = |root: &Path| -> BTreeMap<PathBuf, Vec<u8>> {
        let files = files(root).into_iter();
        files
            .map(|path| (path.clone(), fs::read(&path).unwrap()))
            .collect()
    };
    let Volume {
        root,
        movable,
        testbed,
    } = volume;
    let in_memory = contents(&root);
    // It holds the directory open.
    drop(movable);
    testbed.remount(FileSystem::Ext4, "").unwrap();
    for (path, content) in contents(&root) {
        assert!(
            in_memory[&path] == content,
            "{}: differs on the disk",
            path.display()
        );
    }
    assert!(moved_bytes > 0);
}
