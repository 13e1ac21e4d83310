// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread watch` and streams inside of large files, on a modelled disk.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use common::watched::{disk, make_cold};
use common::{World, assert_fails_in_one_line, stderr, stdout};
use foreread_testbed::{Testbed, race};
use serde_json::Value;

/// So large that reads here and there are seldom near each other.
const FILE_MIB: usize = 384;
/// Long enough that the kernel is through with looking at the programs before a reader of these is.
const CHUNKS: u64 = 768;
const CHUNK_PAGES: u64 = 16;
/// Reads a file of so many chunks from its end to its start.
const BACKWARD: &str = "import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
for at in range(int(sys.argv[2]) - 1, -1, -1):
    os.pread(fd, 65536, at * 65536)";
/// Reads so many single pages here and there.
const AT_RANDOM: &str = "import os, random, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
random.seed(1)
for _ in range(int(sys.argv[2])):
    os.pread(fd, 4096, random.randrange(384 * 256) * 4096)";

/// A large file on a disk, not in memory.
struct Cold {
    world: World,
    testbed: Testbed,
    file: PathBuf,
}

impl Cold {
    /// `None` where that can't be had or nothing can be watched, and says so.
    fn file() -> Option<Self> {
        let world = World::new();
        let (testbed, root) = disk(&world, "cloud", 512 << 20)?;
        let file = root.join("large");
        testbed
            .instantly(|| fs::write(&file, vec![1u8; FILE_MIB << 20]))
            .expect("a file");
        Some(Self {
            world,
            testbed,
            file,
        })
    }

    /// From a cold disk; with the requests of the disk.
    fn run(&self, command: &mut Command) -> (Output, u64) {
        make_cold(&self.testbed);
        self.testbed.reset_counters();
        let output = command.output().expect("it starts");
        assert!(output.status.success(), "{}", stderr(&output));
        (output, self.testbed.counters().requests)
    }

    fn reader(&self, script: &str, count: u64) -> Vec<String> {
        let path = self.file.to_str().expect("text").to_owned();
        vec![
            "python3".into(),
            "-c".into(),
            script.into(),
            path,
            count.to_string(),
        ]
    }

    /// The log of a backward reader.
    fn logged(&self) -> PathBuf {
        let log = self.world.path("log");
        let log_text = log.to_str().expect("text");
        let mut watch = self.world.foreread(&["watch", "--log", log_text, "--"]);
        self.run(watch.args(self.reader(BACKWARD, CHUNKS)));
        log
    }

    /// Cost of a reader alone; the report of `watch`; cost of the reader under `watch`.
    fn alone_and_watched(&self, reader: &[String]) -> (u64, Value, u64) {
        let (_, alone) = self.run(Command::new(&reader[0]).args(&reader[1..]));
        let mut watch = self.world.foreread(&["watch", "--json", "--"]);
        let (output, requests) = self.run(watch.args(reader));
        let text = stderr(&output);
        let last = text.lines().last().unwrap_or_default();
        let document = serde_json::from_str(last).unwrap_or_else(|e| panic!("{e}: {text}"));
        (alone, document, requests)
    }
}

#[test]
fn a_backward_reader_finds_its_pages_in_memory() {
    race(|| {
        let Some(cold) = Cold::file() else {
            return;
        };
        let (alone, document, requests) = cold.alone_and_watched(&cold.reader(BACKWARD, CHUNKS));
        let fetched = document["streams"]["fetched_pages"].as_u64();
        assert!(fetched > Some(CHUNKS * CHUNK_PAGES / 4), "{document}");
        assert!(requests < alone, "{requests} {alone} {document}");
        assert_eq!(document["lost"], 0, "{document}");
        // Nothing is held open: it can be unmounted, which this does.
        cold.run(&mut Command::new("true"));
    });
}

#[test]
fn nothing_is_fetched_for_a_reader_that_reads_here_and_there() {
    let Some(cold) = Cold::file() else {
        return;
    };
    let (alone, document, requests) = cold.alone_and_watched(&cold.reader(AT_RANDOM, 1500));
    let fetched = document["streams"]["fetched_pages"].as_u64();
    assert!(fetched < Some(150), "{document}");
    assert!(
        requests <= alone + alone / 10,
        "{requests} {alone} {document}"
    );
}

#[test]
fn the_decisions_of_a_log_are_made_again_bit_for_bit() {
    race(|| {
        let Some(cold) = Cold::file() else {
            return;
        };
        let log = cold.logged();
        let log_text = log.to_str().expect("text");
        let replay = |log: &str| cold.world.output(&["sim", "--replay", log, "--json"]);
        let output = replay(log_text);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let document: Value = serde_json::from_str(&stdout(&output)).expect("a document");
        assert_eq!(document["schema"], "foreread.sim.replay/1");
        assert!(document["decisions"].as_u64() > Some(100), "{document}");
        assert!(document["windows"].as_u64() > Some(10), "{document}");

        let lines = fs::read_to_string(&log).expect("a log");
        let lines: Vec<&str> = lines.lines().collect();
        let asks =
            |line: &&&str| line.contains("\"what\":\"access\"") && line.contains("\"reverse\"");
        let place = lines.iter().position(|line| asks(&line)).expect("an ask");
        let other = cold.world.path("other");
        let other_text = other.to_str().expect("text");
        let without: Vec<&str> = [&lines[..place], &lines[place + 1..]].concat();
        fs::write(&other, without.join("\n")).expect("it is written");
        let output = replay(other_text);
        assert_eq!(output.status.code(), Some(64), "{}", stdout(&output));
        let mut value: Value = serde_json::from_str(lines[place]).expect("a line");
        let decision = value["decision"].as_str().expect("bytes");
        let first = if decision.starts_with('0') { "1" } else { "0" };
        value["decision"] = format!("{first}{}", &decision[1..]).into();
        let changed = value.to_string();
        let mut with: Vec<&str> = lines.clone();
        with[place] = &changed;
        fs::write(&other, with.join("\n")).expect("it is written");
        let output = replay(other_text);
        assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
        for (wrong, said) in [
            ("", "has no calls"),
            ("{}", "line 1"),
            (
                "{\"schema\":\"foreread.watch.log/1\",\"what\":\"done\"}",
                "line 1",
            ),
        ] {
            fs::write(&other, wrong).expect("it is written");
            assert_fails_in_one_line(&replay(other_text), said);
        }
        assert_fails_in_one_line(&replay("/nowhere"), "/nowhere");
    });
}

/// Reads two files from their ends to their starts at once, each on its disk.
const TWO_BACKWARD: &str = "import os, sys, threading
def read(path):
    fd = os.open(path, os.O_RDONLY)
    for at in range(int(sys.argv[3]) - 1, -1, -1):
        os.pread(fd, 65536, at * 65536)
threads = [threading.Thread(target=read, args=[path]) for path in sys.argv[1:3]]
[thread.start() for thread in threads]
[thread.join() for thread in threads]";

#[test]
fn decisions_about_two_disks_at_once_are_made_again_disk_by_disk() {
    race(|| {
        let (Some(one), Some(other)) = (Cold::file(), Cold::file()) else {
            return;
        };
        let log = one.world.path("log");
        let log_text = log.to_str().expect("text");
        let mut reader = one.reader(TWO_BACKWARD, CHUNKS);
        reader.insert(4, other.file.to_str().expect("text").to_owned());
        make_cold(&other.testbed);
        let mut watch = one.world.foreread(&["watch", "--log", log_text, "--"]);
        one.run(watch.args(reader));

        let replay = |log: &str| {
            let output = one.world.output(&["sim", "--replay", log, "--json"]);
            assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
            let document: Value = serde_json::from_str(&stdout(&output)).expect("a document");
            document["decisions"].as_u64().expect("a count")
        };
        let lines = common::watched::lines(&log);
        let calls = lines.iter().filter(|line| line["disk"].is_string());
        let disks: BTreeSet<&str> = calls.filter_map(|line| line["disk"].as_str()).collect();
        let of_disk = |disk: &&str| {
            let of_it = lines.iter().filter(|line| line["disk"] == **disk);
            let text: Vec<String> = of_it.map(Value::to_string).collect();
            let path = one.world.path("of-disk");
            fs::write(&path, text.join("\n")).expect("it is written");
            replay(path.to_str().expect("text"))
        };
        let decisions: Vec<u64> = disks.iter().map(of_disk).collect();
        assert_eq!(decisions.iter().sum::<u64>(), replay(log_text));
        let followed = decisions.iter().filter(|decisions| **decisions > 100);
        // The disk of the programs may be a third one.
        assert!(followed.count() >= 2, "{disks:?}: {decisions:?}");
    });
}

#[test]
fn what_is_done_for_a_backward_reader_is_explained() {
    race(|| {
        let Some(cold) = Cold::file() else {
            return;
        };
        let log = cold.logged();
        let log_text = log.to_str().expect("text");
        let file = cold.file.to_str().expect("text");
        let output = cold.world.output(&["explain", file, "--log", log_text]);
        let said = stdout(&output);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(
            said.contains(" backward: ") && said.contains("reads backward and needs"),
            "{said}"
        );
        let output = cold
            .world
            .output(&["explain", file, "--json", "--log", log_text]);
        let document: Value = serde_json::from_str(&stdout(&output)).expect("a document");
        let stream = &document["streams"][0];
        let number = |name: &str| {
            stream[name]
                .as_u64()
                .unwrap_or_else(|| panic!("{name}: {stream}"))
        };
        assert!(number("used_pages") > CHUNKS * CHUNK_PAGES / 2, "{stream}");
        assert!(number("used_pages") <= number("asked_pages"), "{stream}");
        let process = number("process").to_string();
        let output = cold
            .world
            .output(&["explain", &process, "--json", "--log", log_text]);
        let of_process: Value = serde_json::from_str(&stdout(&output)).expect("a document");
        assert_eq!(&of_process["streams"][0], stream);
    });
}
