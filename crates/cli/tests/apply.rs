// SPDX-License-Identifier: MIT OR Apache-2.0
//! `apply`, `status` and `rollback` on trees of plain files that look like machines.

mod common;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{World, assert_fails_in_one_line, binary_for_all, is_root, stderr, stdout};
use foreread_testbed::fake_sysfs::{FakeDisk, Tree};
use foreread_testbed::race;
use serde_json::Value;

/// A machine with three disks, and a directory for what is journalled.
struct Machine {
    world: World,
    tree: Tree,
}

impl Machine {
    fn new() -> Self {
        let world = World::new();
        fs::create_dir(world.path("root")).expect("a directory");
        let tree = Tree::new(&world.path("root")).expect("a tree");
        let disks = [
            FakeDisk::nvme("nvme0n1", "259:0", 1 << 40),
            FakeDisk::sata("sda", "8:0", 4 << 40).rotating(),
            // 505 kB: the capacity caps it at 0.
            FakeDisk::usb("sdb", "8:16", 504 << 10),
        ];
        for disk in disks {
            tree.disk(&disk).expect("a disk");
        }
        Self { world, tree }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.world.foreread(&words[..1]);
        command.arg("--root").arg(self.tree.top());
        command.args(&words[1..]);
        command
    }

    fn output(&self, words: &[&str]) -> Output {
        self.command(words).output().expect("foreread starts")
    }

    /// Runs it, which must succeed; what it printed.
    fn ok(&self, words: &[&str]) -> String {
        let output = self.output(words);
        assert_eq!(output.status.code(), Some(0), "{words:?}: {output:?}");
        stdout(&output)
    }

    fn json(&self, words: &[&str]) -> Value {
        let output = self.output(&[words, &["--json"]].concat());
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{words:?}: {error}: {output:?}"))
    }

    fn kib(&self, disk: &str) -> String {
        self.tree.read_ahead_kib(disk).expect("a setting")
    }

    fn set_by_administrator(&self, disk: &str, kib: u64) {
        let path = format!("sys/block/{disk}/queue/read_ahead_kb");
        self.tree
            .write(&path, &format!("{kib}\n"))
            .expect("a setting");
    }

    /// State and value of a disk, as `status` says.
    fn state(&self, disk: &str) -> (String, Value) {
        let status = self.json(&["status"]);
        let applied = status["applied"].as_array().expect("a list");
        let line = applied.iter().find(|line| line["entry"]["device"] == disk);
        let line = line.unwrap_or_else(|| panic!("{disk} in {status}"));
        let state = line["state"].as_str().expect("a word").to_owned();
        (state, line["now_kib"].clone())
    }
}

#[test]
fn what_is_applied_is_shown_and_rolled_back() {
    let machine = Machine::new();
    let said = machine.ok(&["apply", "sdb"]);
    assert_eq!(machine.kib("sdb"), "0");
    assert!(said.contains("To undo: foreread rollback sdb"), "{said}");
    assert_eq!(machine.state("sdb"), ("ours".to_owned(), 0.into()));
    assert!(machine.ok(&["status"]).contains("sdb"));

    // Once more changes nothing, and a rollback still knows what was first.
    machine.ok(&["apply", "sdb"]);
    let said = machine.ok(&["rollback", "sdb"]);
    assert!(
        said.contains("128 KiB = 131,072 bytes = 256 sectors = 32 pages"),
        "{said}"
    );
    assert_eq!(machine.kib("sdb"), "128");
    let nothing = machine.output(&["rollback", "sdb"]);
    assert_eq!(nothing.status.code(), Some(1), "{nothing:?}");
    let history = machine.ok(&["status", "--history"]);
    assert!(history.contains("rolled back"), "{history}");
}

#[test]
fn what_a_person_names_outlives_advice() {
    let machine = Machine::new();
    machine.ok(&["apply", "sdb", "--read-ahead", "64K"]);
    assert_eq!(machine.state("sdb"), ("manual".to_owned(), 64.into()));
    machine.ok(&["apply", "--all"]);
    machine.ok(&["apply", "--udev", "sdb"]);
    assert_eq!(machine.kib("sdb"), "64");
    machine.ok(&["apply", "sdb", "--read-ahead", "0K"]);
    assert_eq!(machine.kib("sdb"), "0");
    machine.ok(&["rollback", "--all"]);
    assert_eq!(machine.kib("sdb"), "128");
}

#[test]
fn what_somebody_else_sets_stays() {
    let machine = Machine::new();
    machine.ok(&["apply", "sda", "--read-ahead", "1M"]);
    machine.set_by_administrator("sda", 2048);
    assert_eq!(machine.state("sda"), ("foreign".to_owned(), 2048.into()));
    assert_eq!(machine.output(&["status"]).status.code(), Some(1));
    let left = machine.output(&["apply", "sda", "--read-ahead", "512K"]);
    assert_eq!(left.status.code(), Some(2), "{left:?}");
    assert!(stdout(&left).contains("--take-over"), "{left:?}");
    machine.ok(&["apply", "--all"]);
    assert_eq!(machine.kib("sda"), "2048");

    machine.ok(&["apply", "sda", "--read-ahead", "512K", "--take-over"]);
    assert_eq!(machine.kib("sda"), "512");
    machine.ok(&["rollback", "sda"]);
    assert_eq!(
        machine.kib("sda"),
        "2048",
        "what they had set is what there was before"
    );
}

#[test]
fn a_rollback_leaves_what_was_changed_since() {
    let machine = Machine::new();
    machine.ok(&["apply", "sda", "sdb", "--read-ahead", "1M"]);
    machine.set_by_administrator("sda", 256);
    let answer = machine.json(&["rollback", "--all"]);
    let outcome = |index: usize| answer["changes"][index]["outcome"].clone();
    assert_eq!(
        (outcome(0), outcome(1)),
        ("foreign".into(), "restored".into())
    );
    assert_eq!(
        (machine.kib("sda"), machine.kib("sdb")),
        ("256".into(), "128".into())
    );
}

#[test]
fn a_successor_under_the_same_name_is_left_alone() {
    let machine = Machine::new();
    machine.ok(&["apply", "sdb"]);
    // Another stick of the same kind, which happens to have the same value.
    machine
        .tree
        .write("sys/block/sdb/diskseq", "9\n")
        .expect("an attribute");
    assert_eq!(machine.state("sdb").0, "gone");
    machine.ok(&["rollback", "sdb"]);
    assert_eq!(machine.kib("sdb"), "0");

    machine.ok(&["apply", "sda", "--read-ahead", "1M"]);
    fs::remove_file(machine.tree.path("sys/block/sda")).expect("a disk");
    assert_eq!(machine.state("sda").0, "gone");
    let answer = machine.json(&["rollback", "sda"]);
    assert_eq!(answer["changes"][0]["outcome"], "gone");
}

#[test]
fn after_a_restart_there_is_nothing_to_undo() {
    let machine = Machine::new();
    machine.ok(&["apply", "sdb"]);
    machine
        .tree
        .write("proc/sys/kernel/random/boot_id", "b008\n")
        .expect("a boot");
    machine.set_by_administrator("sdb", 128);
    assert_eq!(machine.state("sdb").0, "gone");
    machine.ok(&["apply", "sdb"]);
    assert_eq!(machine.state("sdb"), ("ours".to_owned(), 0.into()));
    machine.ok(&["rollback", "sdb"]);
    assert_eq!(machine.kib("sdb"), "128");
}

#[test]
fn a_dry_run_changes_nothing() {
    let machine = Machine::new();
    let said = machine.ok(&["apply", "--all", "--dry-run", "--persist"]);
    assert!(said.contains("sdb"), "{said}");
    assert!(said.contains("Would be installed: "), "{said}");
    let said = machine.ok(&["apply", "--dry-run", "--persist"]);
    assert!(said.contains("Would be installed: "), "{said}");
    assert!(!said.contains("Nothing would be changed"), "{said}");
    let document = machine.json(&["apply", "--dry-run", "--persist"]);
    assert_eq!(document["udev_rule"]["changed"], true, "{document}");
    assert_eq!(machine.kib("sdb"), "128");
    assert_eq!(
        fs::read_dir(machine.world.state())
            .expect("a directory")
            .count(),
        0
    );
    assert!(!machine.tree.path("etc").exists());
}

#[test]
fn a_state_directory_that_it_makes_is_closed_to_others() {
    let machine = Machine::new();
    let state = machine.world.path("new-state");
    let command = machine.command(&["apply", "sdb"]);
    let output = Command::new("sh")
        .args(["-c", "umask 000; exec \"$@\"", "sh"])
        .arg(command.get_program())
        .args(command.get_args())
        .env("FOREREAD_STATE_DIR", &state)
        .output()
        .expect("it starts");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let mode = |path: &std::path::Path| {
        let metadata = fs::metadata(path).expect("it is there");
        metadata.permissions().mode() & 0o777
    };
    assert_eq!(mode(&state), 0o700);
    for entry in fs::read_dir(state.join("devices")).expect("a directory") {
        let path = entry.expect("an entry").path();
        assert_eq!(mode(&path) & 0o022, 0, "{}", path.display());
    }
}

#[test]
fn many_at_once_do_not_harm_each_other() {
    let machine = Machine::new();
    let sizes = ["64K", "256K", "512K", "1M", "2M", "4M", "8M", "32K"];
    let mut children: Vec<_> = sizes
        .iter()
        .map(|size| {
            let mut command = machine.command(&["apply", "sda", "sdb", "--read-ahead", size]);
            command.stdout(Stdio::null()).spawn().expect("it starts")
        })
        .collect();
    for child in &mut children {
        assert!(child.wait().expect("it ends").success());
    }
    assert_eq!(machine.state("sda").0, "manual");
    machine.ok(&["rollback", "--all"]);
    assert_eq!(
        (machine.kib("sda"), machine.kib("sdb")),
        ("128".into(), "128".into())
    );
}

#[test]
fn killed_at_any_point_it_can_be_undone() {
    let machine = Machine::new();
    for index in 0..30 {
        let disk = FakeDisk::nvme(
            &format!("nvme1n{}", index + 1),
            &format!("259:{}", index + 9),
            1 << 40,
        );
        machine.tree.disk(&disk).expect("a disk");
    }
    for round in 0..25u64 {
        let mut child = machine
            .command(&["apply", "--all"])
            .stdout(Stdio::null())
            .spawn()
            .expect("it starts");
        std::thread::sleep(Duration::from_micros(round * 800));
        // It may have ended.
        let _ = child.kill();
        child.wait().expect("it ends");
        let undone = machine.output(&["rollback", "--all"]);
        assert!(
            undone.status.code().is_some_and(|code| code <= 1),
            "{undone:?}"
        );
        for entry in fs::read_dir(machine.tree.path("sys/block"))
            .expect("disks")
            .flatten()
        {
            let name = entry.file_name().into_string().expect("a name");
            assert_eq!(machine.kib(&name), "128", "{name} in round {round}");
        }
    }
}

#[test]
fn udev_sets_new_devices_and_is_quiet() {
    let machine = Machine::new();
    assert_eq!(
        machine.ok(&["apply", "--udev", "sdb"]),
        "FOREREAD_READ_AHEAD_KB=0\n"
    );
    assert_eq!(machine.kib("sdb"), "0");
    assert_eq!(machine.ok(&["apply", "--udev", "sdb"]), "");
    machine.set_by_administrator("sdb", 256);
    assert_eq!(machine.ok(&["apply", "--udev", "sdb"]), "");
    assert_eq!(machine.kib("sdb"), "256");
    assert_eq!(machine.ok(&["apply", "--udev", "no-such-disk"]), "");
}

#[test]
fn udev_does_not_wait_for_what_it_can_never_see() {
    race(|| {
        /// How long it waits for a mount that may come.
        const MOUNT_WAIT: Duration = Duration::from_secs(5);
        let machine = Machine::new();
        machine.tree.setting("0:77", 128).expect("a setting");
        // Mounted in the namespace of a container.
        let mountinfo = "30 1 0:77 / /mnt rw - nfs4 server:/export rw,rsize=1048576\n";
        let path = "proc/4321/mountinfo";
        machine.tree.write(path, mountinfo).expect("a process");
        // The mount of the second has failed: its setting is gone.
        for number in ["0:77", "0:78"] {
            let begun = Instant::now();
            assert_eq!(machine.ok(&["apply", "--udev", number]), "");
            let took = begun.elapsed();
            assert!(took < MOUNT_WAIT, "{number}: {took:?}");
        }
        // One that may still come is waited for.
        machine.tree.setting("0:79", 128).expect("a setting");
        let mut command = machine.command(&["apply", "--udev", "0:79"]);
        let waiting = command.stdout(Stdio::piped()).spawn().expect("it starts");
        std::thread::sleep(Duration::from_millis(300));
        machine.tree.nfs("0:79", "/mnt/late", 128).expect("a mount");
        let output = waiting.wait_with_output().expect("it ends");
        assert!(
            stdout(&output).starts_with("FOREREAD_READ_AHEAD_KB="),
            "{output:?}"
        );
    });
}

#[test]
fn udev_is_told_the_same_as_everybody() {
    let machine = Machine::new();
    machine
        .tree
        .partition("sda", 1, "8:1")
        .expect("a partition");
    let stacked = [
        FakeDisk::raid(0, "raid0", 512 << 10, &["sda", "nvme0n1"], 5 << 40),
        FakeDisk::mapping(0, "home", "CRYPT-LUKS2-1", &["md0"], 5 << 40),
        FakeDisk::loop_device(3, Some("/srv/image"), 1 << 30),
    ];
    for disk in stacked {
        machine.tree.disk(&disk).expect("a disk");
    }
    for disk in ["dm-0", "md0", "sda", "nvme0n1", "loop3"] {
        let advice = machine.json(&["advise", disk]);
        let advised = &advice["devices"][0]["advised_kib"];
        let said = machine.ok(&["apply", "--udev", disk]);
        assert_eq!(
            said,
            format!("FOREREAD_READ_AHEAD_KB={advised}\n"),
            "{disk}"
        );
    }
}

#[test]
fn udev_leaves_to_others_what_they_set() {
    let machine = Machine::new();
    let rule = "ACTION==\"add\", KERNEL==\"sd[a-z]\", ATTR{queue/read_ahead_kb}=\"64\"\n";
    machine
        .tree
        .write("etc/udev/rules.d/60-mine.rules", rule)
        .expect("a rule");
    assert_eq!(machine.ok(&["apply", "--udev", "sdb"]), "");
    assert_eq!(machine.kib("sdb"), "128");
    let named = machine.output(&["apply", "sdb"]);
    assert_fails_in_one_line(&named, "a conflict");
    assert!(stderr(&named).contains("60-mine.rules"), "{named:?}");
    machine.ok(&["apply", "sdb", "--take-over"]);
    assert_eq!(machine.kib("sdb"), "0");
}

#[test]
fn the_rule_is_installed_and_removed_unless_somebody_edits_it() {
    let machine = Machine::new();
    let rule = machine
        .tree
        .path("etc/udev/rules.d/59-foreread-read-ahead.rules");
    let said = machine.ok(&["apply", "--persist"]);
    assert!(said.contains("Installed"), "{said}");
    let text = fs::read_to_string(&rule).expect("the rule");
    let program = env!("CARGO_BIN_EXE_foreread");
    assert!(
        text.contains(&format!(
            "IMPORT{{program}}=\"{program} apply --udev $kernel\""
        )),
        "{text}"
    );
    assert!(machine.ok(&["apply", "--persist"]).contains("Unchanged"));
    let said = machine.ok(&["apply", "--persist", "--dry-run"]);
    assert!(said.contains("Would stay as it is: "), "{said}");
    assert_eq!(machine.json(&["status"])["udev_rule"]["state"], "installed");
    machine.ok(&["rollback", "--persist"]);
    assert!(!rule.exists());
    assert_eq!(
        machine.output(&["rollback", "--persist"]).status.code(),
        Some(1)
    );

    machine.ok(&["apply", "--persist"]);
    fs::write(&rule, text.replace("add|change", "add")).expect("an edit");
    for words in [["apply", "--persist"], ["rollback", "--persist"]] {
        assert_fails_in_one_line(&machine.output(&words), words[0]);
    }
    assert!(rule.exists());
    assert_eq!(machine.json(&["status"])["udev_rule"]["state"], "edited");
}

#[test]
fn a_program_that_others_can_replace_is_not_given_to_udev() {
    if !is_root() {
        return;
    }
    let machine = Machine::new();
    let copy = binary_for_all(&machine.world);
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o777)).expect("open to all");
    let output = Command::new(copy)
        .args(["apply", "--persist", "--root"])
        .arg(machine.tree.top())
        .output()
        .expect("it starts");
    assert_fails_in_one_line(&output, "replaceable");
    assert!(stderr(&output).contains("make install"), "{output:?}");
}

#[test]
fn without_root_it_says_what_is_needed() {
    if !is_root() {
        return;
    }
    let machine = Machine::new();
    let state = machine.world.path("of-nobody");
    fs::create_dir(&state).expect("a directory");
    fs::set_permissions(&state, fs::Permissions::from_mode(0o777)).expect("open to all");
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(binary_for_all(&machine.world))
        .args(["apply", "sdb", "--root"])
        .arg(machine.tree.top())
        .env("FOREREAD_STATE_DIR", &state)
        .output()
        .expect("setpriv");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(stdout(&output).contains("CAP_SYS_ADMIN"), "{output:?}");
    assert_eq!(machine.kib("sdb"), "128");
}

#[test]
fn a_read_only_sysfs_is_named() {
    if !is_root() {
        return;
    }
    let machine = Machine::new();
    let script = "mount --bind \"$1/sys\" \"$1/sys\" && mount -o remount,bind,ro \"$1/sys\" && \
                  exec \"$2\" apply sdb --root \"$1\"";
    let output = Command::new("unshare")
        .args([
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            script,
            "sh",
        ])
        .arg(machine.tree.top())
        .arg(env!("CARGO_BIN_EXE_foreread"))
        .env("FOREREAD_STATE_DIR", machine.world.state())
        .output()
        .expect("unshare");
    if stderr(&output).contains("unshare:") {
        println!("skipped: no mount namespace: {}", stderr(&output).trim());
        return;
    }
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(stdout(&output).contains("read-only"), "{output:?}");
    assert_eq!(
        machine.ok(&["status"]).lines().next(),
        Some("Nothing is applied.")
    );
}

#[test]
fn a_tree_whose_name_is_no_text_is_reported() {
    let world = World::new();
    let top = world.path("").join(OsStr::from_bytes(b"root\xff"));
    fs::create_dir(&top).expect("a directory");
    let mut command = world.foreread(&["status", "--json", "--root"]);
    let output = command.arg(&top).output().expect("foreread starts");
    let document: Value = serde_json::from_slice(&output.stdout).expect("a document");
    let rule = document["udev_rule"]["path"].as_str();
    assert!(
        rule.is_some_and(|path| path.contains("root\u{fffd}/")),
        "{document}"
    );
}

#[test]
fn wrong_words_get_one_clear_line() {
    let machine = Machine::new();
    for words in [
        &["apply"][..],
        &["apply", "no-such-disk"],
        &["rollback"],
        &["rollback", "no-such-disk"],
        &["status", "no-such-disk"],
    ] {
        assert_fails_in_one_line(&machine.output(words), &words.join(" "));
    }
    for size in ["512", "3K", "6s", "-1K", "4T", "1.5K"] {
        let output = machine.output(&["apply", "sda", "--read-ahead", size]);
        assert_eq!(output.status.code(), Some(2), "{size}");
        assert_eq!(machine.kib("sda"), "128", "{size}");
    }
}

#[test]
fn a_broken_journal_stops_it_and_stays() {
    let machine = Machine::new();
    machine.ok(&["apply", "sdb"]);
    let journal = machine.world.state().join("devices/journal.json");
    let whole = fs::read_to_string(&journal).expect("the journal");
    for broken in ["", "{", &whole[..whole.len() / 2]] {
        fs::write(&journal, broken).expect("a file");
        for words in [&["apply", "sda"][..], &["status"], &["rollback", "--all"]] {
            let output = machine.output(words);
            assert_fails_in_one_line(&output, words[0]);
            assert!(stderr(&output).contains("journal.json"), "{output:?}");
        }
        assert_eq!(fs::read_to_string(&journal).expect("the journal"), broken);
    }
    fs::write(&journal, whole).expect("a file");
    machine.ok(&["rollback", "--all"]);
    assert_eq!(machine.kib("sdb"), "128");
}
