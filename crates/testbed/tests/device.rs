// SPDX-License-Identifier: MIT OR Apache-2.0
//! The device against its model, on a real kernel.

use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Instant;

use foreread_model::DiskParameters;
use foreread_testbed::{FileSystem, Testbed, TestbedConfig};

mod common;
use common::testbed_or_skip;

/// A buffer at a multiple of 4096, which direct I/O demands.
struct Aligned(Vec<u8>, usize);

impl Aligned {
    fn new(length: usize) -> Self {
        let buffer = vec![0; length + 4096];
        let start = buffer.as_ptr().align_offset(4096);
        Self(buffer, start)
    }

    fn slice(&mut self, length: usize) -> &mut [u8] {
        &mut self.0[self.1..self.1 + length]
    }
}

fn open_direct(path: &Path) -> File {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(path)
        .expect("the device opens")
}

#[test]
fn a_read_takes_at_least_the_model_s_time_and_is_counted() {
    let Some(testbed) = testbed_or_skip("usb", 64 << 20) else {
        return;
    };
    let device = open_direct(testbed.device());
    testbed.reset_counters();
    testbed.trace_start();
    // At most 128 segments fit into a request of a loop device, and the pages of this buffer are
    // scattered. So 512 KiB would just fit, and 1 MiB would be two requests.
    let mut buffer = Aligned::new(256 << 10);
    let started = Instant::now();
    for page in [3_u64, 900, 7] {
        device
            .read_exact_at(buffer.slice(4096), page * 4096)
            .unwrap();
    }
    device
        .read_exact_at(buffer.slice(256 << 10), 16 << 20)
        .unwrap();
    let needed_ns = 4 * 1_200_000 + (3 * 4096 + (256 << 10)) * 40;
    assert!(started.elapsed().as_nanos() >= needed_ns);

    let counters = testbed.counters();
    assert_eq!(
        (counters.requests, counters.bytes),
        (4, 3 * 4096 + (256 << 10))
    );
    assert_eq!(u128::from(counters.busy_ns), needed_ns);
    let trace = testbed.trace_stop();
    let places: Vec<_> = trace
        .iter()
        .map(|e| (e.offset_bytes, e.length_bytes))
        .collect();
    assert_eq!(
        places,
        [
            (3 << 12, 4096),
            (900 << 12, 4096),
            (7 << 12, 4096),
            (16 << 20, 256 << 10)
        ]
    );
    assert!(
        trace
            .iter()
            .all(|e| e.arrived_ns <= e.started_ns && e.started_ns < e.done_ns)
    );
}

#[test]
fn requests_reach_the_disk_in_parallel() {
    let Some(testbed) = testbed_or_skip("nvme", 64 << 20) else {
        return;
    };
    let mut slow = DiskParameters::preset("nvme").unwrap();
    // Long enough that all threads are waiting before the first is answered.
    slow.set("latency_ns", "200ms").unwrap();
    testbed.set_parameters(slow).unwrap();
    let device = open_direct(testbed.device());
    testbed.reset_counters();
    std::thread::scope(|scope| {
        for thread in 0..16_u64 {
            let device = &device;
            scope.spawn(move || {
                let mut buffer = Aligned::new(4096);
                device
                    .read_exact_at(buffer.slice(4096), thread << 20)
                    .unwrap();
            });
        }
    });
    assert!(
        testbed.counters().queue_depth_max > 8,
        "{:?}",
        testbed.counters()
    );
    assert_eq!(testbed.counters().requests, 16);
}

#[test]
fn ext4_keeps_what_is_written_and_reads_it_from_the_disk() {
    let Some(testbed) = testbed_or_skip("instant", 128 << 20) else {
        return;
    };
    testbed.make_file_system(FileSystem::Ext4, &[]).unwrap();
    let directory = testbed.mount(FileSystem::Ext4, "noatime").unwrap();
    let content: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    fs::write(directory.join("file"), &content).unwrap();
    let directory = testbed.remount(FileSystem::Ext4, "noatime").unwrap();
    assert!(testbed.server_counters().write_bytes > 3_000_000);

    testbed.drop_caches().unwrap();
    testbed.reset_counters();
    let mut read = Vec::new();
    File::open(directory.join("file"))
        .unwrap()
        .read_to_end(&mut read)
        .unwrap();
    assert!(read == content, "the content changed on its way");
    assert!(
        testbed.counters().bytes >= 3_000_000,
        "{:?}",
        testbed.counters()
    );

    // Cached now: the disk is not asked again, unless another test has just dropped all caches of
    // the machine.
    let read_from_memory = || {
        let requests = testbed.counters().requests;
        fs::read(directory.join("file")).unwrap();
        testbed.counters().requests == requests
    };
    assert!((0..20).any(|_| read_from_memory()));
    let requests = testbed.counters().requests;
    testbed.drop_caches().unwrap();
    fs::read(directory.join("file")).unwrap();
    assert!(testbed.counters().requests > requests);
}

#[test]
fn readahead_is_what_was_set() {
    let Some(testbed) = testbed_or_skip("instant", 64 << 20) else {
        return;
    };
    let largest = |read_ahead_kib| {
        testbed.set_read_ahead_kib(read_ahead_kib).unwrap();
        testbed.drop_caches().unwrap();
        testbed.trace_start();
        let mut device = File::open(testbed.device()).unwrap();
        std::io::copy(
            &mut Read::by_ref(&mut device).take(8 << 20),
            &mut std::io::sink(),
        )
        .unwrap();
        testbed
            .trace_stop()
            .iter()
            .map(|e| e.length_bytes)
            .max()
            .unwrap()
    };
    assert_eq!(largest(128), 128 << 10);
    assert_eq!(largest(1024), 1 << 20);
}

#[test]
fn readahead_is_the_same_on_disks_that_turn() {
    let Some(testbed) = testbed_or_skip("hdd", 64 << 20) else {
        return;
    };
    let name = testbed.device().file_name().unwrap().to_string_lossy();
    let path = format!("/sys/block/{name}/queue/read_ahead_kb");
    let read_ahead_kib = || fs::read_to_string(&path).unwrap().trim().to_owned();
    assert_eq!(read_ahead_kib(), "128");
    for disk in ["usb", "hdd", "cloud"] {
        let parameters = DiskParameters::preset(disk).unwrap();
        testbed.set_parameters(parameters).unwrap();
        assert_eq!(read_ahead_kib(), "128", "{disk}");
    }
}

#[test]
fn an_image_comes_back_as_it_was() {
    let Some(testbed) = testbed_or_skip("instant", 64 << 20) else {
        return;
    };
    let scratch = tempfile::tempdir().unwrap();
    let image = scratch.path().join("image");
    testbed.make_file_system(FileSystem::Ext4, &[]).unwrap();
    let directory = testbed.mount(FileSystem::Ext4, "").unwrap();
    fs::write(directory.join("file"), "of the first").unwrap();
    let refused = testbed.save_image(&image).unwrap_err().to_string();
    assert!(refused.contains("unmount it first"), "{refused}");
    testbed.unmount().unwrap();
    let saved_bytes = testbed.save_image(&image).unwrap();
    assert!(saved_bytes < 32 << 20, "{saved_bytes}");

    testbed.make_file_system(FileSystem::Ext4, &[]).unwrap();
    testbed.load_image(&image).unwrap();
    let directory = testbed.mount(FileSystem::Ext4, "").unwrap();
    assert_eq!(
        fs::read_to_string(directory.join("file")).unwrap(),
        "of the first"
    );
    testbed.unmount().unwrap();

    let Some(small) = testbed_or_skip("instant", 32 << 20) else {
        return;
    };
    let refused = small.load_image(&image).unwrap_err().to_string();
    assert!(refused.contains("67108864"), "{refused}");
}

#[test]
fn two_testbeds_on_one_thread_do_not_hold_each_other() {
    let Some(first) = testbed_or_skip("instant", 64 << 20) else {
        return;
    };
    first.make_file_system(FileSystem::Ext4, &[]).unwrap();
    first.mount(FileSystem::Ext4, "").unwrap();
    let parameters = DiskParameters::preset("instant").unwrap();
    let second = Testbed::start(TestbedConfig::new(parameters, 64 << 20)).unwrap();
    let device = first.device().to_owned();
    let file = backing_file(&device).unwrap();
    drop(first);
    assert_ne!(backing_file(&device), Some(file), "it is still bound");
    assert!(backing_file(second.device()).is_some());
}

/// The file that a loop device is bound to now. A free device is soon somebody else's.
fn backing_file(device: &Path) -> Option<Vec<u8>> {
    let name = device.file_name().expect("a device");
    fs::read(Path::new("/sys/block").join(name).join("loop/backing_file")).ok()
}

#[test]
fn another_thread_can_use_and_drop_it() {
    let outside = File::open("/proc/thread-self/ns/mnt").unwrap();
    let Some(testbed) = testbed_or_skip("instant", 64 << 20) else {
        return;
    };
    testbed.make_file_system(FileSystem::Ext4, &[]).unwrap();
    let dropped = std::thread::spawn(move || {
        // As a thread from before the testbed: it sees nothing, and `mount` must work all the same.
        common::enter_namespace(&outside);
        let directory = testbed.mount(FileSystem::Ext4, "").unwrap();
        assert!(!directory.join("lost+found").exists());
        testbed.enter().unwrap();
        assert!(directory.join("lost+found").exists());
        let device = testbed.device().to_owned();
        let file = backing_file(&device).unwrap();
        (device, file)
    });
    let (device, file) = dropped.join().unwrap();
    assert_ne!(backing_file(&device), Some(file));
}

#[test]
fn xfs_btrfs_and_overlay_mount() {
    let Some(testbed) = testbed_or_skip("instant", 512 << 20) else {
        return;
    };
    for file_system in FileSystem::ALL {
        if let Err(lacking) = file_system.available() {
            println!("skipped: {lacking}");
            continue;
        }
        testbed.make_file_system(file_system, &[]).unwrap();
        let directory = testbed.mount(file_system, "noatime").unwrap();
        fs::write(directory.join("lower"), file_system.name()).unwrap();
        let merged = testbed.overlay(&[&directory]).unwrap();
        assert_eq!(
            fs::read_to_string(merged.join("lower")).unwrap(),
            file_system.name()
        );
        fs::write(merged.join("upper"), "above").unwrap();
        assert!(!directory.join("upper").exists());
        testbed.set_read_ahead_kib(64).unwrap();
        testbed.unmount().unwrap();
    }
}

#[test]
fn reads_fail_where_and_while_they_are_told_to() {
    let Some(testbed) = testbed_or_skip("usb", 16 << 20) else {
        return;
    };
    testbed.fail_reads(1 << 20..2 << 20);
    let device = open_direct(testbed.device());
    let mut buffer = Aligned::new(4096);
    let mut read = |at: u64| device.read_exact_at(buffer.slice(4096), at).is_ok();
    assert!(read(4 << 20));
    assert!(!read((2 << 20) - 4096));
    assert!(read(2 << 20));
    testbed.fail_reads(0..0);
    assert!(read(1 << 20));
}

#[test]
fn writes_take_the_time_of_reads_where_that_is_asked_for() {
    let Some(testbed) = testbed_or_skip("usb", 64 << 20) else {
        return;
    };
    let device = OpenOptions::new()
        .write(true)
        .custom_flags(libc::O_DIRECT)
        .open(testbed.device())
        .expect("the device opens");
    let mut buffer = Aligned::new(256 << 10);
    let data = buffer.slice(256 << 10);
    data.fill(7);
    for (times_writes, busy_ns) in [(false, 0), (true, 4 * (1_200_000 + (256 << 10) * 40))] {
        testbed.time_writes(times_writes);
        testbed.reset_counters();
        let started = Instant::now();
        for part in 0..4 {
            device.write_all_at(data, part << 20).unwrap();
        }
        assert!(started.elapsed().as_nanos() >= u128::from(busy_ns));
        assert_eq!(testbed.counters().busy_ns, busy_ns);
        assert_eq!(testbed.server_counters().write_requests, 4);
    }
    let mut content = vec![0; 256 << 10];
    let device = File::open(testbed.device()).expect("the device opens");
    device.read_exact_at(&mut content, 3 << 20).unwrap();
    assert_eq!(content, data);
}
