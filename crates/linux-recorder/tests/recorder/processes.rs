// SPDX-License-Identifier: MIT OR Apache-2.0
//! The recorder sees reads of the program, its threads and all its descendants, and of no other
//! process.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use foreread_testbed::SetAtEnd;

use crate::setting::{Place, make, or_skip, record, record_until};

struct Files {
    place: Place,
    file: PathBuf,
    other: PathBuf,
}

impl Files {
    fn new() -> Result<Self, String> {
        let place = Place::new()?;
        let file = make(&place.join("file"), 10_000);
        let other = make(&place.join("other"), 10_000);
        Ok(Self { place, file, other })
    }

    /// A probe in whose operations `@` is the file.
    fn probe(&self, operations: &[&str]) -> Command {
        let file = self.file.to_str().unwrap();
        let words = operations.iter().map(|word| word.replace('@', file));
        self.place.probe(&words.collect::<Vec<_>>())
    }
}

#[test]
fn children_grandchildren_and_threads_are_seen() {
    let files = or_skip!(Files::new());
    let ways: [&[&str]; 6] = [
        &["fork", "read", "@"],
        &["fork", "fork", "read", "@"],
        &["thread", "read", "@"],
        &["thread", "fork", "thread", "read", "@"],
        &["fork", "exec", "/bin/cat", "@"],
        &["fork", "thread-exec", "/bin/cat", "@"],
    ];
    for way in ways {
        let recorded = record(&mut files.probe(way));
        assert_eq!(recorded.pages(&files.file), [(0, 3)], "{way:?}");
        assert_eq!(recorded.kind(&files.other), None, "{way:?}");
    }
}

/// A thread calls exec: the leader ends, and the thread takes its number.
#[test]
fn a_program_is_seen_through_the_exec_of_a_thread() {
    let files = or_skip!(Files::new());
    let recorded = record(&mut files.probe(&["thread-exec", "/bin/cat", "@"]));
    assert_eq!(recorded.pages(&files.file), [(0, 3)]);
}

#[test]
fn threads_are_seen_when_their_leader_is_gone() {
    let files = or_skip!(Files::new());
    let recorded = record(&mut files.probe(&["leader-exits", "sleep-ms", "30", "read", "@"]));
    assert_eq!(recorded.pages(&files.file), [(0, 3)]);
}

#[test]
fn a_daemon_is_seen() {
    let files = or_skip!(Files::new());
    let done = files.place.join("done");
    let mut command = files.probe(&["daemon", "read", "@", "touch", done.to_str().unwrap()]);
    let recorded = record_until(&mut command, || done.exists());
    assert_eq!(recorded.pages(&files.file), [(0, 3)]);
    assert_eq!(recorded.recording.counts.lost(), 0);
}

/// A process that does the same over and over, until dropped.
struct Noise(Child);

impl Drop for Noise {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn other_processes_are_not_seen() {
    let files = or_skip!(Files::new());
    // Without a child of its own: who starts it isn't recorded yet.
    let mut noise =
        files
            .place
            .probe(&["times", "100000000", "read", files.other.to_str().unwrap()]);
    let _noise = Noise(noise.stdout(Stdio::null()).spawn().unwrap());
    let recorded = record(&mut files.probe(&["times", "2000", "read", "@"]));
    assert_eq!(recorded.pages(&files.file), [(0, 3)]);
    assert_eq!(recorded.kind(&files.other), None);
}

/// Another thread of this process starts programs all the time; none of them is taken for ours.
#[test]
fn children_of_other_threads_are_not_taken_for_the_program() {
    let files = or_skip!(Files::new());
    let stop = AtomicBool::new(false);
    let other = &files.other;
    thread::scope(|scope| {
        let _stop = SetAtEnd(&stop);
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                Command::new("/bin/cat")
                    .arg(other)
                    .stdout(Stdio::null())
                    .status()
                    .unwrap();
            }
        });
        for _ in 0..3 {
            let recorded = record(&mut files.probe(&["read", "@"]));
            assert_eq!(recorded.pages(&files.file), [(0, 3)]);
            assert_eq!(recorded.kind(other), None);
        }
    });
}

/// Nothing is read in the recorder's own name between fork and exec.
#[test]
fn the_recorder_itself_is_not_seen() {
    let files = or_skip!(Files::new());
    let recorded = record(&mut files.probe(&["read", "@"]));
    let own = fs::canonicalize(std::env::current_exe().unwrap()).unwrap();
    assert_eq!(recorded.kind(own), None);
}
