// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread kernel`: on a system that is played by a directory, with tools that write down how
//! they were called. The module itself is built and loaded in guests (`foreread-guests matrix
//! --case kernel`).

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;

use common::{World, assert_fails_in_one_line, stderr, stdout};
use serde_json::Value;

const VERSION: &str = env!("CARGO_PKG_VERSION");
const TESTED: &str = "6.12.9-played";
/// What make leaves.
const MODULE: &str = "a module";

/// A system below a root directory, and the tools that are found first.
struct System {
    world: World,
}

impl System {
    /// It runs the kernel of this release, and has nothing to build with.
    fn new(release: &str) -> Self {
        let system = Self {
            world: World::new(),
        };
        system.write("root/proc/sys/kernel/osrelease", &format!("{release}\n"));
        fs::create_dir_all(system.modules(release)).expect("a directory");
        // depmod indexes what is there.
        system.tool(
            "depmod",
            "cd $2/lib/modules/$3; ls updates/foreread.ko 2>/dev/null | sed 's/$/:/' >modules.dep",
        );
        system.tool("make", &format!("printf '{MODULE}' >$2/foreread.ko"));
        system.tool("gcc", "");
        system
    }

    fn root(&self) -> PathBuf {
        self.world.path("root")
    }

    fn modules(&self, release: &str) -> PathBuf {
        self.root().join("lib/modules").join(release)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.world.path(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, text).expect("a file");
    }

    /// A tool that writes down its arguments and then does this.
    fn tool(&self, name: &str, does: &str) {
        let path = format!("tools/{name}");
        let log = self.world.path("called");
        let text = format!(
            "#!/bin/sh\necho \"{name} $*\" >>{}\n{does}\n",
            log.display()
        );
        self.write(&path, &text);
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(self.world.path(&path), executable).expect("it is executable");
    }

    fn called(&self) -> String {
        fs::read_to_string(self.world.path("called")).unwrap_or_default()
    }

    /// Headers of a kernel with these options.
    fn headers(&self, release: &str, options: &str) {
        let build = format!("root/lib/modules/{release}/build");
        self.write(&format!("{build}/Makefile"), "");
        self.write(&format!("{build}/include/config/auto.conf"), options);
    }

    /// What the package would have put there.
    fn sources(&self) {
        let to = format!("root/usr/src/foreread-{VERSION}");
        let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../module");
        for name in ["Kbuild", "Makefile", "dkms.conf", "main.c"] {
            let text = fs::read_to_string(tree.join(name)).expect("a source");
            self.write(&format!("{to}/{name}"), &text);
        }
        self.write(&format!("{to}/core/foreread/policy.h"), "");
    }

    /// A loaded module, as it shows itself.
    fn loaded(&self, devices: &[&str]) {
        let at = "root/sys/kernel/foreread";
        self.write(&format!("{at}/policies"), "linux\nleap\nforeread\n");
        self.write(&format!("{at}/add"), "");
        for device in devices {
            for (file, text) in [
                ("policy", "off\n"),
                ("act", "auto\n"),
                ("pages_max", "0\n"),
                ("watchdog", "ok\n"),
                (
                    "stat",
                    "windows 12\nfetched_pages 3072\nused_on_time_pages 2000\n\
                     used_late_pages 560\nwasted_pages 512\n",
                ),
            ] {
                self.write(&format!("{at}/devices/{device}/{file}"), text);
            }
        }
        self.write("root/sys/module/foreread/version", &format!("{VERSION}\n"));
    }

    /// Where a report may be written.
    fn path_of_report(&self) -> String {
        let path = self.world.path("report");
        path.to_str().expect("text").to_owned()
    }

    /// `foreread stat --module` of it.
    fn stat(&self, words: &[&str]) -> Output {
        let root = self.root();
        let root = root.to_str().expect("text");
        let words = [&["stat", "--module", "--root", root], words].concat();
        let output = self.world.foreread(&words).output();
        let output = output.expect("foreread starts");
        common::schemas::check(&output);
        output
    }

    fn kernel(&self, words: &[&str]) -> Output {
        let root = self.root();
        let root = root.to_str().expect("text");
        let (verb, more) = words.split_first().expect("a verb");
        let words = [&["kernel", verb, "--root", root], more].concat();
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = self.world.foreread(&words);
        command.env(
            "PATH",
            format!("{}:{path}", self.world.path("tools").display()),
        );
        let output = command.output().expect("foreread starts");
        common::schemas::check(&output);
        output
    }
}

const OPTIONS: &str = "CONFIG_MODULES=y\nCONFIG_FUNCTION_TRACER=y\nCONFIG_DYNAMIC_FTRACE=y\n\
                       CONFIG_DYNAMIC_FTRACE_WITH_ARGS=y\n";

fn document(output: &Output) -> Value {
    serde_json::from_str(&stdout(output)).unwrap_or_else(|e| panic!("{e}: {}", stderr(output)))
}

/// A system that has everything.
fn whole() -> System {
    let system = System::new(TESTED);
    system.sources();
    system.headers(TESTED, OPTIONS);
    system
}

#[test]
fn what_install_makes_uninstall_removes_to_the_last_file() {
    let system = whole();
    let dry = system.kernel(&["install", "--dry-run"]);
    assert_eq!(dry.status.code(), Some(0), "{}", stderr(&dry));
    assert!(stdout(&dry).starts_with("Would build"), "{}", stdout(&dry));
    assert_eq!(system.called(), "");
    assert!(!system.root().join("var").exists());

    let installed = system.kernel(&["install", "--json"]);
    assert_eq!(installed.status.code(), Some(0), "{}", stderr(&installed));
    let told = document(&installed);
    assert_eq!(told["is_installed"], true, "{told}");
    assert_eq!(told["builder"], "make");
    let module = system.modules(TESTED).join("updates/foreread.ko");
    assert_eq!(fs::read_to_string(&module).expect("it is there"), MODULE);
    // Nothing is left of the build.
    let state = system.root().join("var/lib/foreread/kernel");
    assert_eq!(fs::read_dir(&state).expect("a directory").count(), 1);
    let mode = fs::metadata(&state).expect("it is there").permissions();
    assert_eq!(mode.mode() & 0o777, 0o700);
    // Once more is no different.
    assert_eq!(system.kernel(&["install"]).status.code(), Some(0));

    let status = document(&system.kernel(&["status", "--json"]));
    assert_eq!(status["is_loaded"], false);
    assert_eq!(status["builder"], "make");
    let path = status["module"].as_str().expect("a path");
    assert!(path.ends_with("updates/foreread.ko"), "{path}");

    let gone = system.kernel(&["uninstall"]);
    assert_eq!(gone.status.code(), Some(0), "{}", stderr(&gone));
    assert!(!module.exists() && !state.exists());
    assert!(!system.modules(TESTED).join("updates").exists());
    let again = system.kernel(&["uninstall"]);
    assert_eq!(again.status.code(), Some(1));
}

#[test]
fn what_somebody_else_has_put_there_stays() {
    let system = whole();
    assert_eq!(system.kernel(&["install"]).status.code(), Some(0));
    let module = system.modules(TESTED).join("updates/foreread.ko");
    fs::write(&module, "another module").expect("a file");
    let output = system.kernel(&["uninstall"]);
    assert_eq!(output.status.code(), Some(64));
    let said = stderr(&output);
    assert!(said.contains("was changed by somebody else"), "{said}");
    assert!(module.exists());
}

#[test]
fn everything_that_is_missing_is_named_at_once_with_its_remedy() {
    let system = System::new(TESTED);
    let none = system.kernel(&["install"]);
    assert_fails_in_one_line(&none, "without sources");
    assert!(stderr(&none).contains("--sources"), "{}", stderr(&none));

    system.sources();
    let output = system.kernel(&["install"]);
    assert_fails_in_one_line(&output, "without headers");
    let package = format!("linux-headers-{TESTED}");
    assert!(stderr(&output).contains(&package), "{}", stderr(&output));

    system.headers(TESTED, "CONFIG_MODULES=y\n");
    let output = system.kernel(&["install", "--dry-run"]);
    let said = stdout(&output);
    assert!(
        said.contains("Missing: the kernel has no CONFIG_DYNAMIC_FTRACE,"),
        "{said}"
    );
    let status = stdout(&system.kernel(&["status"]));
    assert!(status.contains("to build it: "), "{status}");

    system.headers(TESTED, OPTIONS);
    system.tool("make", "echo 'main.c:1: error: of some kind' >&2; exit 2");
    let output = system.kernel(&["install"]);
    assert_fails_in_one_line(&output, "make fails");
    assert!(
        stderr(&output).contains("error: of some kind"),
        "{}",
        stderr(&output)
    );
    // It is not installed, and not said to be.
    assert_eq!(system.kernel(&["uninstall"]).status.code(), Some(1));
}

#[test]
fn a_kernel_it_was_not_tested_on_is_refused_unless_forced() {
    let system = System::new("6.18.0-played");
    system.sources();
    system.headers("6.18.0-played", OPTIONS);
    let output = system.kernel(&["install"]);
    assert_fails_in_one_line(&output, "an untested kernel");
    let said = stderr(&output);
    assert!(
        said.contains("6.1, 6.12 and 7.3") && said.contains("--force"),
        "{said}"
    );
    assert_eq!(
        system.kernel(&["install", "--force"]).status.code(),
        Some(0)
    );
    for wrong in ["../../etc", "", "x"] {
        let output = system.kernel(&["install", "--kernel", wrong]);
        assert_fails_in_one_line(&output, wrong);
    }
}

#[test]
fn an_upgrade_builds_again_what_was_installed_before_it() {
    let system = whole();
    assert_eq!(system.kernel(&["install"]).status.code(), Some(0));
    let module = system.modules(TESTED).join("updates/foreread.ko");
    let before = system.kernel(&["uninstall", "--for-upgrade"]);
    assert_eq!(before.status.code(), Some(0), "{}", stderr(&before));
    assert!(!module.exists());
    let after = system.kernel(&["install", "--after-upgrade"]);
    assert_eq!(after.status.code(), Some(0), "{}", stderr(&after));
    assert!(module.exists(), "{}", stderr(&after));

    // The upgrade goes on where the build fails.
    system.kernel(&["uninstall", "--for-upgrade"]);
    system.tool("make", "exit 2");
    let after = system.kernel(&["install", "--after-upgrade"]);
    assert_eq!(after.status.code(), Some(0));
    assert!(stderr(&after).contains("make"), "{}", stderr(&after));
    // Without an installation there is nothing to do.
    let called = system.called();
    assert_eq!(
        system.kernel(&["install", "--after-upgrade"]).status.code(),
        Some(0)
    );
    assert_eq!(system.called(), called);
}

#[test]
fn an_upgrade_forces_no_module_on_a_kernel_that_dkms_had_one_refused_for() {
    let release = "6.18.0-played";
    let system = System::new(release);
    system.sources();
    system.headers(release, OPTIONS);
    let due = serde_json::json!({
        "schema": "foreread.kernel.installed/1",
        "version": VERSION,
        "kernels": [{ "release": release, "builder": "dkms", "module": null }],
        "is_due": true,
    });
    let list = "root/var/lib/foreread/kernel/installed.json";
    system.write(list, &due.to_string());
    let after = system.kernel(&["install", "--after-upgrade"]);
    assert_eq!(after.status.code(), Some(0), "{}", stderr(&after));
    assert_eq!((system.called(), stderr(&after)), Default::default());
    assert!(!system.modules(release).join("updates").exists());
}

#[test]
fn load_gives_devices_their_policy_or_leaves_all_as_it_was() {
    let system = whole();
    let output = system.kernel(&["load", "8:16"]);
    assert_fails_in_one_line(&output, "it isn't installed");
    assert!(
        stderr(&output).contains("kernel install"),
        "{}",
        stderr(&output)
    );
    assert_eq!(system.kernel(&["install"]).status.code(), Some(0));

    // A name that is none loads nothing.
    let output = system.kernel(&["load", "no-such-disk"]);
    assert_fails_in_one_line(&output, "no such disk");
    assert!(!system.called().contains("modprobe"), "{}", system.called());

    // The module is in sysfs once it is loaded.
    system.loaded(&["8:16", "default"]);
    let loaded = system.root().join("sys/kernel/foreread");
    let aside = system.root().join("aside");
    fs::rename(&loaded, &aside).expect("it is moved");
    let (from, to) = (aside.display(), loaded.display());
    let both = format!("[ \"$3\" = -r ] && mv {to} {from} || mv {from} {to}");
    system.tool("modprobe", &both);

    let output = system.kernel(&["load", "8:16", "--policy", "no-such"]);
    assert_fails_in_one_line(&output, "no such policy");
    let said = stderr(&output);
    assert!(
        said.contains("it has: off, linux, leap, foreread"),
        "{said}"
    );
    assert!(!loaded.exists(), "it is unloaded again");

    let output = system.kernel(&["load", "8:16", "--policy", "leap", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let told = document(&output);
    assert_eq!(told["was_loaded"], false);
    assert_eq!(told["devices"], serde_json::json!(["8:16"]));
    let policy = loaded.join("devices/8:16/policy");
    assert!(fs::read_to_string(policy).expect("it").starts_with("leap"));
}

#[test]
fn reasons_of_the_kernel_are_said_in_words() {
    let system = whole();
    assert_eq!(system.kernel(&["install"]).status.code(), Some(0));
    for (answer, words) in [
        ("Device or resource busy", "a live patch"),
        ("Key was rejected by service", "mokutil"),
        ("Operation not permitted", "modules can't be loaded here"),
        ("Exec format error", "another kernel"),
    ] {
        let says = format!("echo \"modprobe: ERROR: could not insert: {answer}\" >&2; exit 1");
        system.tool("modprobe", &says);
        let output = system.kernel(&["load"]);
        assert_fails_in_one_line(&output, answer);
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    }
}

#[test]
fn status_shows_each_device_and_what_its_policy_did() {
    let system = whole();
    let output = system.kernel(&["status"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stdout(&output).contains("kernel install"),
        "{}",
        stdout(&output)
    );

    system.loaded(&["8:16", "default"]);
    let output = system.kernel(&["status", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let told = document(&output);
    assert_eq!(told["version"], VERSION);
    assert_eq!(
        told["devices"][0]["counters"]["fetched_pages"], 3072,
        "{told}"
    );
    assert_eq!(told["devices"][1]["device"], "default");
    let table = stdout(&system.kernel(&["status"]));
    assert!(
        table.contains("3,072") && table.contains("all others"),
        "{table}"
    );
    assert!(
        table.lines().all(|line| line.chars().count() <= 80),
        "{table}"
    );

    assert!(!table.contains("watchdog"), "{table}");
    // A policy that was taken away.
    let why = "waste: 4000 of 4096 pages read by leap left memory unused";
    system.write("root/sys/kernel/foreread/devices/8:16/watchdog", why);
    let table = stdout(&system.kernel(&["status"]));
    assert!(table.contains(&format!("8:16: watchdog: {why}")), "{table}");

    // Of a version that this program does not know.
    system.write("root/sys/kernel/foreread/devices/8:16/stat", "sync x\n");
    assert_fails_in_one_line(&system.kernel(&["status"]), "another interface");
}

#[test]
fn set_and_unload_need_a_loaded_module() {
    let system = whole();
    let output = system.kernel(&["set", "8:16", "--policy", "leap"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("kernel load"),
        "{}",
        stderr(&output)
    );
    assert_eq!(system.kernel(&["unload"]).status.code(), Some(1));

    system.loaded(&["8:16", "default"]);
    system.write("root/sys/kernel/foreread/devices/8:16/policy", "foreread\n");
    let words = ["set", "--all", "--policy", "leap", "--window-max", "1M"];
    let output = system.kernel(&words);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let bound = system
        .root()
        .join("sys/kernel/foreread/devices/default/pages_max");
    assert!(fs::read_to_string(bound).expect("it").starts_with("256"));
    for wrong in ["1000", "3K", "64T", "-1K"] {
        let words = ["set", "--all", "--policy", "leap", "--window-max", wrong];
        assert_eq!(system.kernel(&words).status.code(), Some(2), "{wrong}");
    }
    assert_eq!(
        system.kernel(&["set", "--policy", "leap"]).status.code(),
        Some(2)
    );

    system.tool("modprobe", "exit 0");
    let told = document(&system.kernel(&["unload", "--json"]));
    assert_eq!(told["was_loaded"], true);
    assert_eq!(told["given_back"][0], "8:16", "{told}");
    system.tool(
        "modprobe",
        "echo 'FATAL: Module foreread is in use.' >&2; exit 1",
    );
    let output = system.kernel(&["unload"]);
    assert_fails_in_one_line(&output, "in use");
}

#[test]
fn stat_shows_what_the_module_counts() {
    let system = System::new(TESTED);
    let output = system.stat(&[]);
    assert_fails_in_one_line(&output, "foreread.ko isn't loaded");

    system.loaded(&["8:16", "default"]);
    let at = "root/sys/kernel/foreread/devices";
    let output = system.stat(&[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let said = stdout(&output);
    let line = said.lines().find(|line| line.starts_with("8:16"));
    let words: Vec<&str> = line.expect("a line").split_whitespace().collect();
    let counts = [
        "3,072", "2,000", "560", "512", "0", "0", "0", "1.20", "12", "0",
    ];
    assert_eq!(words, [&["8:16", "off"], &counts[..]].concat(), "{said}");

    // A device that nobody has asked for, and one on which nothing happened, are left out.
    system.write(&format!("{at}/default/stat"), "windows 0\n");
    system.write(&format!("{at}/8:16/policy"), "foreread\n");
    system.write(&format!("{at}/8:16/watchdog"), "waste: 90 of 100\n");
    let said = stdout(&system.stat(&[]));
    assert!(!said.contains("default"), "{said}");
    assert!(said.contains("8:16: watchdog: waste: 90 of 100"), "{said}");
}

#[test]
fn stat_shows_what_the_module_counts_in_each_interval() {
    let system = System::new(TESTED);
    system.loaded(&["8:16", "default"]);
    let lines = |output: &Output| -> Vec<Value> {
        let said = stdout(output);
        let documents = said.lines().map(serde_json::from_str);
        documents.collect::<Result<_, _>>().expect("documents")
    };
    let documents = lines(&system.stat(&["--json"]));
    assert_eq!(documents.len(), 1);
    let first = &documents[0];
    assert_eq!(first["schema"], "foreread.stat.module/1");
    assert_eq!(first["lines"][0]["since_load"]["fetched_pages"], 3072);
    assert!(first["interval_ns"].is_null() && first["lines"][0]["interval"].is_null());

    let documents = lines(&system.stat(&["--json", "20ms", "3"]));
    assert_eq!(documents.len(), 3);
    for document in &documents {
        assert!(document["interval_ns"].as_u64() > Some(0));
        assert_eq!(document["lines"][0]["interval"]["fetched_pages"], 0);
        assert_eq!(document["lines"][0]["since_load"]["windows"], 12);
        assert_eq!(document["lines"][1]["device"], "default");
    }
    // Where nothing is set and nothing happens, there is nothing to show.
    let said = stdout(&system.stat(&["20ms", "1"]));
    assert!(said.contains("no device has a policy"), "{said}");
    let output = system.path_of_report();
    assert_eq!(
        system
            .stat(&["--timestamps", "20ms", "2", "--output", &output])
            .status
            .code(),
        Some(0)
    );
    let said = fs::read_to_string(output).expect("a report");
    assert_eq!(said.matches("no device has a policy").count(), 2, "{said}");
}

#[test]
fn stat_of_the_module_says_what_it_cannot_do() {
    let system = System::new(TESTED);
    system.loaded(&["8:16", "default"]);
    for words in [
        ["--by", "file"],
        ["--listen", "/run/none"],
        ["--process", "tar"],
    ] {
        let output = system.stat(&words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
    }
    assert_eq!(system.stat(&["--openmetrics"]).status.code(), Some(2));
    assert_fails_in_one_line(&system.stat(&["--device", "no-such-disk"]), "no-such-disk");
    system.write("root/sys/kernel/foreread/devices/8:16/stat", "windows x\n");
    assert_fails_in_one_line(&system.stat(&[]), "windows");
}
