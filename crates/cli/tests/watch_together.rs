// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread watch` and profiles: it recognises a program by the first files that it misses, and
//! fetches the rest of its profile ahead.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::service::{Service, until};
use common::watched::{disk, mount_again, shuffled_files};
use common::{World, can_record, stderr, stdout};
use foreread_testbed::workload::{python_tree, small_files};
use foreread_testbed::{FileSystem, Testbed, race};
use rustix::process::Signal;
use serde_json::Value;

/// Files that the program reads, and that there are.
const READ: usize = 300;
const FILES: usize = 600;

/// A disk with files, and the profile of a program that read half of them in no order.
struct Bed {
    world: World,
    testbed: Testbed,
    files: Vec<String>,
}

impl Bed {
    /// `None` where that can't be had, which is said.
    fn new() -> Option<Self> {
        let bed = Self::without_profile()?;
        bed.record();
        mount_again(&bed.testbed);
        Some(bed)
    }

    fn record(&self) {
        let command = self.reads("program", &self.files[..READ]);
        let mut run = vec!["run", "-q", "--"];
        run.extend(command.iter().map(String::as_str));
        let output = self.world.output(&run);
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(self.world.profiles().len(), 1);
    }

    fn without_profile() -> Option<Self> {
        let world = World::new();
        if !can_record() {
            return None;
        }
        let (testbed, root) = disk(&world, "cloud", 128 << 20)?;
        let tree = root.join("tree");
        let made = testbed.instantly(|| small_files(&tree, FILES, 6_000_000, 1));
        made.expect("files");
        let files = shuffled_files(&tree);
        mount_again(&testbed);
        Some(Self {
            world,
            testbed,
            files,
        })
    }

    /// A script that reads these files one after another by itself.
    fn reads(&self, name: &str, files: &[String]) -> Vec<String> {
        self.script(name, "read -r line < \"$file\"", files)
    }

    fn script(&self, name: &str, read: &str, files: &[String]) -> Vec<String> {
        let (script, list) = (self.world.path(name), self.world.path("list").join(name));
        fs::create_dir_all(self.world.path("list")).expect("a directory");
        fs::write(&list, files.join("\n") + "\n").expect("a list");
        // In one go, so that no file is open while it reads the list.
        let text = format!("for file in $(cat {}); do {read}; done\n", list.display());
        fs::write(&script, text).expect("a script");
        vec!["sh".to_owned(), text_of(&script).to_owned()]
    }

    /// The documents at the end and of the log, of a command under `watch`, and what else it said.
    fn watched(&self, options: &[&str], command: &[String]) -> (Value, Vec<Value>, String) {
        let log = self.world.path("log");
        let mut watch = self.world.foreread(&["watch", "--json", "--log"]);
        watch.arg(&log).args(options).arg("--").args(command);
        let output = watch.output().expect("it starts");
        let mut said: Vec<&str> = std::str::from_utf8(&output.stderr)
            .expect("text")
            .lines()
            .collect();
        let last = said.pop().unwrap_or_default();
        let document = serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {last}"));
        let log = fs::read_to_string(&log).expect("a log");
        let lines = log
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"));
        (document, lines.collect(), said.join("\n"))
    }

    /// The calls of the replay are made again. One with another answer, or that is lost, shows.
    fn check_replayed(&self, log: &[Value]) {
        let replayed = |log: &[Value]| {
            let path = self.world.path("replayed");
            let lines: Vec<String> = log.iter().map(Value::to_string).collect();
            fs::write(&path, lines.join("\n")).expect("it is written");
            let output = self
                .world
                .output(&["sim", "--replay", text_of(&path), "--json"]);
            let document = String::from_utf8_lossy(&output.stdout).into_owned();
            (output.status.code(), document)
        };
        let (code, document) = replayed(log);
        assert_eq!(code, Some(0), "{document}");
        let replays: Value = serde_json::from_str(&document).expect("a document");
        assert_eq!(replays["replays"]["replays"], 1, "{document}");
        assert!(
            replays["replays"]["decisions"].as_u64() > Some(1),
            "{document}"
        );
        let is_fetch = |line: &Value| line["what"] == "replay" && line["decision"] == "fetch";
        let place = log.iter().position(is_fetch).expect("a window");
        let mut other = log.to_vec();
        other[place]["pieces_hash"] = 1.into();
        let (code, document) = replayed(&other);
        assert_eq!(code, Some(1), "{document}");
        other.remove(place);
        assert_eq!(replayed(&other).0, Some(64));
    }
}

fn text_of(path: &Path) -> &str {
    path.to_str().expect("text")
}

fn count(document: &Value, name: &str) -> u64 {
    let number = document["profiles"][name].as_u64();
    number.unwrap_or_else(|| panic!("{name}: {document}"))
}

fn line<'a>(log: &'a [Value], what: &str) -> &'a Value {
    let line = log.iter().find(|line| line["what"] == what);
    line.unwrap_or_else(|| panic!("no {what}: {log:#?}"))
}

#[test]
fn a_program_that_begins_as_recorded_finds_the_rest_in_memory() {
    race(|| {
        let Some(bed) = Bed::new() else { return };
        let profile = bed.world.profiles().remove(0);
        for (name, read) in [
            ("program", "read -r line < \"$file\""),
            // A different process reads each file.
            ("children", "cat \"$file\" > /dev/null"),
        ] {
            let command = bed.script(name, read, &bed.files[..READ]);
            mount_again(&bed.testbed);
            let (document, log, _) = bed.watched(&[], &command);
            let what = format!("{name}: {document} {log:#?}");
            println!("{name}: {}", document["profiles"]);
            assert_eq!(count(&document, "known"), 1, "{what}");
            assert_eq!(count(&document, "matched"), 1, "{what}");
            let matched = line(&log, "matched");
            assert_eq!(matched["profile"], text_of(&profile), "{what}");
            let by: Vec<&str> = matched["files"]
                .as_array()
                .expect("a list")
                .iter()
                .flat_map(Value::as_str)
                .collect();
            assert!((2..=8).contains(&by.len()), "{what}");
            // Its script may have been missed, too.
            let mut on_disk = by.iter().filter(|path| path.contains("/tree/"));
            let first = &bed.files[..12];
            assert!(
                on_disk.all(|path| first.iter().any(|file| file == path)),
                "{what}"
            );
            assert!(count(&document, "used_files") > READ as u64 / 2, "{what}");
            assert!(count(&document, "missed_files") < READ as u64 / 2, "{what}");
            let wasted = count(&document, "wasted_files");
            assert!(wasted < READ as u64 / 10, "{what}");
            // Nothing is held open.
            mount_again(&bed.testbed);
            bed.check_replayed(&log);
        }
    });
}

#[test]
fn a_python_is_known_by_the_first_modules_that_it_imports() {
    race(|| {
        let world = World::new();
        if !can_record() {
            return;
        }
        let Some((testbed, root)) = disk(&world, "cloud", 512 << 20) else {
            return;
        };
        let tree = match testbed.instantly(|| python_tree(&root.join("python"))) {
            Ok(tree) => tree,
            Err(lacking) => return println!("skipped: {lacking}"),
        };
        let python = |verb: &[&str], arguments: &[String]| {
            mount_again(&testbed);
            let mut command = world.foreread(verb);
            tree.set_environment(&mut command);
            command.arg("--").arg(&tree.binary).args(arguments);
            let output = command.output().expect("it starts");
            assert!(output.status.success(), "{}", stderr(&output));
            stderr(&output)
        };
        let watched = |arguments: &[String]| {
            let said = python(&["watch", "--json"], arguments);
            let document: Value = serde_json::from_str(said.trim_end()).expect("a document");
            println!("python: {}", document["profiles"]);
            document
        };
        let imports = tree.import_arguments();
        python(&["run", "-q"], &imports);
        let document = watched(&imports);
        assert_eq!(count(&document, "matched"), 1, "{document}");
        let used = count(&document, "used_files");
        assert!(used > count(&document, "missed_files"), "{document}");
        assert!(count(&document, "wasted_files") < used, "{document}");
        // Another program in the same language begins alike.
        let others = "import json, sqlite3, wave, xml.dom.minidom, zipapp";
        let document = watched(&["-S", "-c", others].map(str::to_owned));
        assert!(count(&document, "wasted_files") <= 64, "{document}");
    });
}

#[test]
fn a_program_that_only_begins_alike_costs_little() {
    race(|| {
        let Some(bed) = Bed::new() else { return };
        let mut files = bed.files[..8].to_vec();
        files.extend_from_slice(&bed.files[READ..READ + 150]);
        let command = bed.reads("other", &files);
        let (document, log, _) = bed.watched(&[], &command);
        let what = format!("{document} {log:#?}");
        println!("{}", document["profiles"]);
        assert_eq!(count(&document, "matched"), 1, "{what}");
        assert!(count(&document, "wasted_files") <= 64, "{what}");
        assert_eq!(line(&log, "left")["why"], "unused", "{what}");
    });
}

#[test]
fn the_same_files_in_another_order_or_others_are_no_match() {
    let Some(bed) = Bed::new() else { return };
    let mut files = bed.files[..READ].to_vec();
    files.reverse();
    let backward = bed.reads("backward", &files);
    let others = bed.reads("others", &bed.files[READ..]);
    for command in [backward, others] {
        mount_again(&bed.testbed);
        let (document, log, _) = bed.watched(&[], &command);
        assert!(document["misses"].as_u64() >= Some(100), "{document}");
        assert_eq!(count(&document, "matched"), 0, "{document} {log:#?}");
        assert_eq!(count(&document, "fetched_pages"), 0, "{document} {log:#?}");
    }
}

#[test]
fn without_profiles_nothing_is_matched() {
    let Some(bed) = Bed::without_profile() else {
        return;
    };
    let command = bed.reads("program", &bed.files[..READ]);
    let (document, log, said) = bed.watched(&[], &command);
    assert_eq!(count(&document, "known"), 0, "{document}");
    assert_eq!(count(&document, "matched"), 0, "{document} {log:#?}");
    assert_eq!(said, "");
}

#[test]
fn who_is_excluded_or_only_looked_at_is_left_alone() {
    race(|| {
        let Some(bed) = Bed::new() else { return };
        let command = bed.reads("program", &bed.files[..READ]);
        let settings = bed.world.path("watch.toml");
        let with = |content: &str, options: &[&str]| {
            fs::write(&settings, content).expect("a file");
            mount_again(&bed.testbed);
            let options = [&["--config", text_of(&settings)], options].concat();
            let (document, log, _) = bed.watched(&options, &command);
            let fetched = document["profiles"]["fetched_pages"].as_u64();
            assert!(
                !matches!(fetched, Some(1..)),
                "{content}: {document} {log:#?}"
            );
            (document, log)
        };
        let (document, _) = with("profiles = false\n", &[]);
        assert_eq!(document["profiles"], Value::Null);
        let (document, log) = with("exclude_programs = [\"sh\"]\n", &[]);
        assert_eq!(count(&document, "matched"), 0, "{log:#?}");
        assert_eq!(line(&log, "unmatched")["why"], "it is excluded");
        let tree = Path::new(&bed.files[0])
            .ancestors()
            .find(|path| path.ends_with("tree"));
        let tree = tree.expect("a tree");
        with(&format!("exclude_paths = [{:?}]\n", text_of(tree)), &[]);
        let (document, log) = with("", &["--dry-run"]);
        assert_eq!(count(&document, "matched"), 1, "{log:#?}");
    });
}

#[test]
fn a_budget_bounds_what_is_in_memory_ahead() {
    race(|| {
        let Some(bed) = Bed::new() else { return };
        let command = bed.reads("program", &bed.files[..READ]);
        let (document, log, _) = bed.watched(&["--budget", "256K"], &command);
        let replayed = log.iter().filter(|line| line["what"] == "replayed");
        let pages: Vec<u64> = replayed.filter_map(|line| line["pages"].as_u64()).collect();
        assert!(pages.len() >= 3, "{document} {log:#?}");
        assert!(pages.iter().all(|pages| *pages <= 64), "{pages:?}");
    });
}

#[test]
fn what_run_replays_is_left_to_it() {
    let Some(bed) = Bed::new() else { return };
    let command = bed.reads("program", &bed.files[..READ]);
    let foreread = env!("CARGO_BIN_EXE_foreread");
    let mut run: Vec<String> = [foreread, "run", "-q", "--"].map(str::to_owned).to_vec();
    run.extend(command);
    let (document, log, _) = bed.watched(&[], &run);
    assert_eq!(count(&document, "known"), 1, "{document}");
    assert_eq!(count(&document, "matched"), 0, "{document} {log:#?}");
    assert_eq!(count(&document, "fetched_pages"), 0, "{document} {log:#?}");
}

/// A profile that nobody can read, and one that is somebody else's.
fn damage(world: &World) -> [PathBuf; 2] {
    let [damaged, foreign] =
        ["a-00000000.frp", "z-00000000.frp"].map(|name| world.state().join(name));
    fs::write(&damaged, "FRPROFIL, and nothing else").expect("a file");
    std::os::unix::fs::symlink("/proc/self/exe", &foreign).expect("a link");
    [damaged, foreign]
}

#[test]
fn damaged_profiles_are_told_once_and_others_are_used() {
    race(|| {
        let Some(bed) = Bed::new() else { return };
        let files = damage(&bed.world);
        let command = bed.reads("program", &bed.files[..READ]);
        let (document, log, said) = bed.watched(&[], &command);
        assert_eq!(count(&document, "known"), 1, "{document}");
        assert_eq!(count(&document, "matched"), 1, "{document} {log:#?}");
        assert_eq!(said.lines().count(), files.len(), "{said}");
        for file in &files {
            assert!(said.contains(text_of(file)), "{said}");
        }
        let service = Service::start(&bed.world, &["--dry-run"]);
        service.signal(Signal::HUP);
        until("the settings are read again", || {
            service.stderr().contains("were read again")
        });
        let said = stderr(&service.end());
        assert_eq!(said.lines().count(), files.len() + 1, "{said}");
    });
}

#[test]
fn a_service_knows_new_profiles_after_a_reload() {
    let Some(bed) = Bed::without_profile() else {
        return;
    };
    let (log, settings) = (bed.world.path("log"), bed.world.path("watch.toml"));
    fs::write(&settings, format!("log = {:?}\n", text_of(&log))).expect("a file");
    let service = Service::start(&bed.world, &["--config", text_of(&settings)]);
    bed.record();
    service.signal(Signal::HUP);
    until("the settings are read again", || {
        service.stderr().contains("were read again")
    });
    let command = bed.reads("program", &bed.files[..READ]);
    // It has given up most of its rights by then.
    let profile = format!("{:?}", text_of(&bed.world.profiles()[0]));
    let told = || fs::read_to_string(&log).expect("a log");
    until("the program was known, and has ended", || {
        let is_of_it = |line: &&str| line.contains(&profile) && line.contains("\"left\"");
        if told().lines().any(|line| is_of_it(&line)) {
            return true;
        }
        // On busy processors its first misses may be seen when it has ended. While the service is
        // at it, the file system can't be mounted again.
        if bed.testbed.remount(FileSystem::Ext4, "noatime").is_ok() {
            let status = Command::new(&command[0]).args(&command[1..]).status();
            assert!(status.expect("it starts").success());
        }
        false
    });
    let output = service.end();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains(" matched"), "{}", told());
}

#[test]
fn a_store_that_others_may_write_to_is_not_used() {
    use std::os::unix::fs::PermissionsExt;

    let Some(bed) = Bed::new() else { return };
    let open_to_all = fs::Permissions::from_mode(0o777);
    fs::set_permissions(bed.world.state(), open_to_all).expect("it is ours");
    let command = bed.reads("program", &bed.files[..READ]);
    let (document, _, said) = bed.watched(&[], &command);
    assert_eq!(count(&document, "known"), 0, "{document}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("chmod go-w"), "{said}");
}
