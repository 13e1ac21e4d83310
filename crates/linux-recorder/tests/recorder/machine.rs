// SPDX-License-Identifier: MIT OR Apache-2.0
//! A recording of the whole machine: all processes but the recorder's own, each with its control
//! group.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use foreread_linux_recorder::{BpfRecorder, Watch};
use rustix::fs::{Advice, fadvise};

use crate::setting::{Place, evict, finish, make, or_skip, warm};

/// Mounts the hierarchy of groups in a mount namespace of its own, and reads a file in a group that
/// it makes there and removes. `$1` where to mount it, `$2` the group, `$3` its parent, `$4` the
/// file.
const READ_IN_GROUP: &str = "mount -t cgroup2 none \"$1\" && cd \"$1\" && mkdir -p \"$2\" &&
    sh -c 'echo $$ > \"$1/cgroup.procs\" && exec cat \"$2\"' sh \"$2\" \"$4\";
    status=$?; rmdir \"$2\" \"$3\"; exit $status";

fn run_while_recorded(recorder: &BpfRecorder, command: &mut Command) {
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        recorder.drain();
        sleep(Duration::from_millis(2));
    };
    assert!(status.success(), "{command:?}: {status}");
}

fn start() -> BpfRecorder {
    let mut recorder = BpfRecorder::load(Watch::Machine).unwrap();
    recorder.attach_to_machine().unwrap();
    recorder
}

#[test]
fn every_process_is_recorded_but_the_recorder_itself() {
    let place = or_skip!(Place::new());
    let (by_others, by_us) = (
        make(&place.join("others"), 40_960),
        make(&place.join("us"), 40_960),
    );
    // It runs before the recording begins, and is no child of ours when it reads.
    let ready = place.join("ready");
    // It ends by itself, should the test fail before.
    let mut running = Command::new("timeout")
        .args([
            "60",
            "sh",
            "-c",
            "while [ ! -e \"$1\" ]; do sleep 0.01; done; exec cat \"$2\"",
            "sh",
        ])
        .args([&ready, &by_others])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    evict(&by_others);
    evict(&by_us);
    let recorder = start();
    warm(&by_us);
    File::create(&ready).unwrap();
    let status = loop {
        if let Some(status) = running.try_wait().unwrap() {
            break status;
        }
        recorder.drain();
        sleep(Duration::from_millis(2));
    };
    assert!(status.success());
    let recorded = finish(recorder);
    assert_eq!(recorded.pages(&by_others), [(0, 10)]);
    assert_eq!(recorded.pages(&by_us), []);
}

#[test]
fn files_that_were_read_before_it_began_are_recorded_too() {
    let place = or_skip!(Place::new());
    let device = |path: &Path| std::fs::metadata(path).unwrap().dev();
    if device(place.path()) != device(Path::new("/")) {
        println!(
            "skipped: {} isn't on the root file system",
            place.path().display()
        );
        return;
    }
    let names = ["read", "in part", "read ahead", "not at all", "read later"];
    let [read, in_part, ahead, not, later] = names.map(|name| make(&place.join(name), 1 << 20));
    for file in [&read, &in_part, &ahead, &not, &later] {
        evict(file);
    }
    warm(&read);
    // Without readahead, of which a page may be in a folio with one that is read.
    let opened = File::open(&in_part).unwrap();
    fadvise(&opened, 0, None, Advice::Random).unwrap();
    opened.read_exact_at(&mut [0; 4_096], 100 << 12).unwrap();
    fadvise(File::open(&ahead).unwrap(), 0, None, Advice::WillNeed).unwrap();
    // A write makes larger folios than readahead does, of more than one chunk; it is no read.
    let [large, written] = ["large", "written"].map(|name| make(&place.join(name), 4 << 20));
    warm(&large);
    let recorder = start();
    recorder.note_files_read_earlier().unwrap();
    run_while_recorded(&recorder, Command::new("cat").arg(&later));
    let recorded = finish(recorder);
    assert_eq!(recorded.pages(&read), [(0, 256)]);
    assert_eq!(recorded.pages(&large), [(0, 1024)]);
    assert_eq!(recorded.pages(&written), []);
    assert_eq!(recorded.pages(&in_part), [(100, 101)]);
    assert_eq!(recorded.pages(&ahead), []);
    assert_eq!(recorded.pages(&not), []);
    assert_eq!(recorded.pages(&later), [(0, 256)]);
    let profile = &recorded.profile;
    let need = |file: &Path| {
        let id = profile.find(file.as_os_str().as_encoded_bytes()).unwrap();
        profile.ranges(id)[0].need_ns
    };
    // In the order in which they were made.
    assert!(need(&read) < need(&in_part) && need(&in_part) < need(&later));
}

#[test]
fn what_is_needed_tells_which_group_needed_it() {
    let place = or_skip!(Place::new());
    let file = make(&place.join("file"), 40_960);
    let hierarchy = place.join("groups");
    std::fs::create_dir(&hierarchy).unwrap();
    let slice = format!("foreread-test-{}.slice", std::process::id());
    let group = format!("{slice}/reader.service");
    let has_hierarchy = std::fs::read_to_string("/proc/self/cgroup").unwrap();
    if !has_hierarchy.lines().any(|line| line.starts_with("0::")) {
        println!("skipped: this kernel has no cgroup v2");
        return;
    }
    evict(&file);
    let recorder = start();
    let mut reader = Command::new("unshare");
    reader
        .args(["-m", "sh", "-c", READ_IN_GROUP, "sh"])
        .arg(&hierarchy)
        .args([&group, &slice])
        .arg(&file);
    run_while_recorded(&recorder, &mut reader);
    let recorded = finish(recorder);
    let profile = &recorded.profile;
    let path = file.as_os_str().as_encoded_bytes();
    let id = profile.find(path).unwrap();
    let unit = |unit: u16| String::from_utf8_lossy(profile.unit(unit)).into_owned();
    let expected = |unit: String| unit.ends_with(&format!("/{group}"));
    assert_eq!(recorded.pages(&file), [(0, 10)]);
    assert!(
        profile
            .ranges(id)
            .iter()
            .all(|range| expected(unit(range.unit)))
    );
    assert!(
        expected(unit(profile.node(id).unwrap().unit)),
        "{:?}",
        profile.units
    );
    // Others were at work in other groups.
    let sh = profile
        .find(b"/usr/bin/sh")
        .or(profile.find(b"/bin/sh"))
        .unwrap();
    assert!(!expected(unit(profile.node(sh).unwrap().unit)));
}

#[test]
fn a_recording_of_a_program_knows_no_groups() {
    let place = or_skip!(Place::new());
    let file = make(&place.join("file"), 4_096);
    let mut recorder = BpfRecorder::load(Watch::Everything).unwrap();
    recorder.attach().unwrap();
    run_while_recorded(&recorder, Command::new("cat").arg(&file));
    let recorded = finish(recorder);
    assert_eq!(recorded.pages(&file), [(0, 1)]);
    assert_eq!(recorded.profile.units, Vec::<Vec<u8>>::new());
}
