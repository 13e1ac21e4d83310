// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread boot`: what it changes on a system, and what it does beside a boot. A boot is played
//! by programs that read from a modelled disk.

mod common;

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use common::played_boot::{BYTES, Boot, FILES, bed, make_earlier, read_all};
use common::service::{Service, until};
use common::watched::{disk_with, make_cold, make_cold_with, text};
use common::{World, assert_fails_in_one_line, can_record, is_root, stderr, stdout};
use foreread_sys::cache::is_missing;
use foreread_testbed::{FileSystem, Testbed, race};
use rustix::fs::{FlockOperation, flock};
use serde_json::Value;

fn document(output: &std::process::Output) -> Value {
    serde_json::from_str(&stdout(output)).unwrap_or_else(|e| panic!("{e}: {}", stderr(output)))
}

/// The root of a system that is being built.
fn image(world: &World) -> PathBuf {
    let root = world.path("image");
    fs::create_dir_all(root.join("usr/lib/systemd")).expect("a directory");
    fs::create_dir_all(root.join("usr/bin")).expect("a directory");
    fs::write(root.join("usr/bin/foreread"), "").expect("a file");
    root
}

/// Everything below a directory, with what it holds.
fn contents(root: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).expect("it can be listed") {
            let path = entry.expect("an entry").path();
            let metadata = fs::symlink_metadata(&path).expect("it is there");
            let holds = if metadata.is_symlink() {
                text(&fs::read_link(&path).expect("a link")).to_owned()
            } else if metadata.is_dir() {
                directories.push(path.clone());
                String::new()
            } else {
                fs::read_to_string(&path).expect("it is read")
            };
            found.push((path, holds));
        }
    }
    found.sort();
    found
}

#[test]
fn what_enable_makes_is_removed_to_the_last_file() {
    let world = World::new();
    let root = image(&world);
    let before = contents(&root);
    let boot = |verb: &str, more: &[&str]| {
        let words = [&["boot", verb, "--root", text(&root)], more].concat();
        world.output(&words)
    };
    let dry = boot("enable", &["--dry-run"]);
    assert_eq!(dry.status.code(), Some(0), "{}", stderr(&dry));
    assert!(stdout(&dry).starts_with("Would make:"), "{}", stdout(&dry));
    assert_eq!(contents(&root), before);

    let enabled = boot("enable", &["--json"]);
    let told = document(&enabled);
    assert_eq!(told["schema"], "foreread.boot.enable/1");
    let items = told["items"].as_array().expect("a list");
    assert!(
        items.iter().all(|item| item["standing"] == "absent"),
        "{told}"
    );
    let made = contents(&root);
    // The list itself is there, too.
    assert_eq!(made.len(), before.len() + items.len() + 1, "{made:?}");
    let unit = root.join("etc/systemd/system/foreread-boot.service");
    let unit = fs::read_to_string(unit).expect("a unit");
    assert!(
        unit.contains("\nExecStart=-/usr/bin/foreread boot serve\n"),
        "{unit}"
    );
    let status = boot("status", &["--json"]);
    assert_eq!(status.status.code(), Some(0));
    assert_eq!(document(&status)["enabled"], true);

    let again = boot("enable", &[]);
    assert_eq!(stdout(&again), "It is enabled already.\n");
    assert_eq!(contents(&root), made);
    // What is lacking is made again. What was made before is still removed later.
    fs::remove_file(root.join("etc/systemd/system/foreread-boot.service")).expect("it was there");
    let again = boot("enable", &[]);
    assert_eq!(again.status.code(), Some(0), "{}", stderr(&again));
    assert_eq!(contents(&root), made);
    let dry = boot("disable", &["--dry-run"]);
    assert_eq!(dry.status.code(), Some(0));
    assert_eq!(contents(&root), made);
    let disabled = boot("disable", &[]);
    assert_eq!(disabled.status.code(), Some(0), "{}", stderr(&disabled));
    assert_eq!(contents(&root), before);
    assert_eq!(boot("disable", &[]).status.code(), Some(1));
    assert_eq!(boot("status", &[]).status.code(), Some(1));
}

#[test]
fn a_relative_root_is_the_same_system_for_every_verb() {
    let world = World::new();
    let root = image(&world);
    let boot = |verb: &str, root: &str, more: &[&str]| {
        world.output(&[&["boot", verb, "--root", root], more].concat())
    };
    let enabled = boot("enable", "image", &[]);
    assert_eq!(enabled.status.code(), Some(0), "{}", stderr(&enabled));
    for root in ["image", "./image", "image/usr/..", text(&root)] {
        let status = boot("status", root, &[]);
        assert_eq!(status.status.code(), Some(0), "{root}");
        assert!(stdout(&status).starts_with("Enabled.\n"), "{root}");
        let traced = boot("chart", root, &["--next"]);
        assert_eq!(traced.status.code(), Some(0), "{root}");
    }
    assert!(root.join("var/lib/foreread/boot/trace-next").exists());
    assert_eq!(boot("disable", "image", &[]).status.code(), Some(0));
    assert!(!root.join("etc").exists());
}

#[test]
fn absolute_links_of_an_image_lead_into_the_image() {
    let world = World::new();
    let root = image(&world);
    let outside = world.path("outside");
    for folder in ["systemd", "lib/foreread/boot", "bin"] {
        fs::create_dir_all(outside.join(folder)).expect("a directory");
    }
    fs::write(outside.join("bin/foreread"), "").expect("a file");
    // A list of the machine that the image is built on.
    let list = outside.join("lib/foreread/boot/installed.json");
    fs::write(list, "{").expect("a file");
    fs::create_dir_all(root.join("etc")).expect("a directory");
    fs::create_dir_all(root.join("var")).expect("a directory");
    symlink(outside.join("systemd"), root.join("etc/systemd")).expect("a link");
    symlink(outside.join("lib"), root.join("var/lib")).expect("a link");
    fs::remove_file(root.join("usr/bin/foreread")).expect("it was there");
    symlink(outside.join("bin/foreread"), root.join("usr/bin/foreread")).expect("a link");
    let before = contents(&outside);
    let boot = |verb: &str, more: &[&str]| {
        world.output(&[&["boot", verb, "--root", text(&root)], more].concat())
    };
    // In the image these links lead nowhere.
    for (verb, more) in [
        ("enable", &[][..]),
        ("disable", &[]),
        ("status", &[]),
        ("show", &[]),
        ("chart", &["--next"]),
        ("export", &["file"]),
    ] {
        let failed = boot(verb, more);
        assert_fails_in_one_line(&failed, verb);
        assert!(stderr(&failed).contains("cannot find "), "{failed:?}");
    }
    assert_eq!(contents(&outside), before);

    let inside = root.join(outside.strip_prefix("/").expect("an absolute path"));
    for folder in ["systemd", "lib", "bin"] {
        fs::create_dir_all(inside.join(folder)).expect("a directory");
    }
    assert_fails_in_one_line(&boot("enable", &[]), "no program in the image");
    fs::write(inside.join("bin/foreread"), "").expect("a file");
    let bare = contents(&root);
    let enabled = boot("enable", &[]);
    assert_eq!(enabled.status.code(), Some(0), "{}", stderr(&enabled));
    let unit = inside.join("systemd/system/foreread-boot.service");
    assert!(unit.exists() && inside.join("lib/foreread/boot").exists());
    assert_eq!(boot("status", &[]).status.code(), Some(0));
    assert_eq!(boot("chart", &["--next"]).status.code(), Some(0));
    assert!(inside.join("lib/foreread/boot/trace-next").exists());
    assert_eq!(contents(&outside), before);
    assert_eq!(boot("disable", &[]).status.code(), Some(0));
    assert_eq!(contents(&root), bare);
    assert_eq!(contents(&outside), before);
}

#[test]
fn hooks_of_the_initramfs_come_with_it_or_later_and_go_with_it() {
    let world = World::new();
    let root = image(&world);
    let enable = |more: &[&str]| {
        let words = [&["boot", "enable", "--root", text(&root)], more].concat();
        world.output(&words)
    };
    let bare = contents(&root);
    assert_fails_in_one_line(
        &enable(&["--initramfs"]),
        "neither initramfs-tools nor dracut is installed",
    );
    assert_eq!(contents(&root), bare);
    for folder in ["usr/share/initramfs-tools", "usr/sbin"] {
        fs::create_dir_all(root.join(folder)).expect("a directory");
    }
    fs::write(root.join("usr/sbin/update-initramfs"), "").expect("a file");
    let before = contents(&root);
    assert_eq!(enable(&[]).status.code(), Some(0));
    let script = root.join("etc/initramfs-tools/scripts/local-bottom/foreread");
    assert!(!script.exists());

    let added = enable(&["--initramfs"]);
    assert_eq!(added.status.code(), Some(0), "{}", stderr(&added));
    let said = stdout(&added);
    assert!(
        said.contains("Run `update-initramfs -u -k all` in that"),
        "{said}"
    );
    let mode = fs::metadata(&script).expect("a script").mode();
    assert_eq!(mode & 0o777, 0o755);
    let hook = root.join("etc/initramfs-tools/hooks/foreread");
    let hook = fs::read_to_string(hook).expect("a hook");
    assert!(hook.contains("program=/usr/bin/foreread\n"), "{hook}");
    let unit = root.join("etc/systemd/system/foreread-boot.service.d/initramfs.conf");
    let unit = fs::read_to_string(unit).expect("a part of the unit");
    assert!(
        unit.contains("exec /usr/bin/foreread boot serve'"),
        "{unit}"
    );
    let made = contents(&root);
    // Without the word, what is there stays.
    assert_eq!(stdout(&enable(&[])), "It is enabled already.\n");
    assert_eq!(contents(&root), made);
    let disabled = world.output(&["boot", "disable", "--root", text(&root)]);
    assert_eq!(disabled.status.code(), Some(0), "{}", stderr(&disabled));
    assert_eq!(contents(&root), before);
}

/// The command of the unit that goes on from the initramfs, with another lock and another program.
fn command_from_initramfs(lock: &Path, program: &str) -> String {
    let unit = include_str!("../../../packaging/systemd/foreread-boot-initramfs.conf");
    let (_, command) = unit.split_once("/bin/sh -c '").expect("a command");
    let (command, _) = command.split_once("'\n").expect("its end");
    let command = command.replace("\\\n", "").replace("$$", "$");
    let command = command.replace("/run/foreread-boot.lock", text(lock));
    command.replace("/usr/local/bin/foreread", program)
}

#[test]
fn the_unit_executes_the_program_of_the_initramfs_where_that_still_runs() {
    let world = World::new();
    let lock = world.path("lock");
    // Beside `sleep` as the program, "boot serve" is an error that names it.
    let said = |name: &str, noted: Option<&str>| {
        let mut sleep = Command::new("sleep");
        let mut sleep = sleep.arg0(name).arg("600").spawn().expect("sleep starts");
        let pid = sleep.id().to_string();
        // A parent goes on before the kernel has set the arguments of the new program.
        let arguments = format!("/proc/{pid}/cmdline");
        until("sleep has its name", || {
            fs::read(&arguments).is_ok_and(|text| text.starts_with(name.as_bytes()))
        });
        fs::write(&lock, noted.unwrap_or(&pid)).expect("a lock");
        let command = command_from_initramfs(&lock, "echo of the disk:");
        let done = Command::new("sh").args(["-c", &command]).output();
        sleep.kill().expect("it runs");
        sleep.wait().expect("it is waited for");
        let done = done.expect("sh starts");
        stdout(&done) + &stderr(&done)
    };
    let in_memory = said("@foreread", None);
    assert!(
        in_memory.contains("/exe: invalid time interval"),
        "{in_memory}"
    );
    let of_the_disk = "of the disk: boot serve\n";
    assert_eq!(said("sleep", None), of_the_disk);
    assert_eq!(said("@foreread", Some("ended")), of_the_disk);
    fs::remove_file(&lock).expect("it was there");
    let command = command_from_initramfs(&lock, "echo of the disk:");
    let done = Command::new("sh").args(["-c", &command]).output();
    let done = done.expect("sh starts");
    assert_eq!(stdout(&done) + &stderr(&done), of_the_disk);
}

#[test]
fn the_unit_waits_for_a_server_that_is_there_already() {
    let world = World::new();
    let lock = world.path("lock");
    if !is_root() {
        return;
    }
    let held = File::create(&lock).expect("a file");
    flock(&held, FlockOperation::LockExclusive).expect("it is free");
    let mut serve = world.foreread(&["boot", "serve", "--lock"]);
    serve.arg(&lock);
    let serve = Service::start_as(&world, serve);
    let said = "serves this boot from its initramfs on";
    assert!(serve.stderr().contains(said), "{}", serve.stderr());
    fs::write(&lock, "ended").expect("a file");
    drop(held);
    let output = serve.wait();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(!stderr(&output).contains("killed"), "{}", stderr(&output));
    assert!(!world.state().join("boot").exists());
}

#[test]
fn the_unit_says_so_when_the_server_before_it_is_killed() {
    let world = World::new();
    let lock = world.path("lock");
    if !is_root() {
        return;
    }
    let held = File::create(&lock).expect("a file");
    // This process: it stays in the control group in which it is.
    let pid = std::process::id();
    fs::write(&lock, pid.to_string()).expect("a file");
    flock(&held, FlockOperation::LockExclusive).expect("it is free");
    let mut serve = world.foreread(&["boot", "serve", "--lock"]);
    serve.arg(&lock);
    let serve = Service::start_as(&world, serve);
    drop(held);
    let output = serve.wait();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let said = format!("process {pid} was killed before it had done its work for this boot");
    assert!(stderr(&output).contains(&said), "{}", stderr(&output));
}

#[test]
fn a_boot_that_is_only_timed_is_noted_after_it_has_reached_its_target() {
    let world = World::new();
    let state = world.state().join("boot");
    fs::create_dir_all(&state).expect("a directory");
    let reached = world.path("reached");
    fs::write(&reached, "").expect("a file");
    let serve = || {
        let mut serve = world.foreread(&["boot", "serve", "--json", "--idle", "0", "--reached"]);
        serve.arg(&reached).arg("--lock").arg(world.path("lock"));
        let output = serve.output().expect("it runs");
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        document(&output)
    };
    // The unit was started late by somebody else.
    assert_eq!(serve()["mode"], "idle");
    assert!(!state.join("history.json").exists());

    let timed_only = state.join("timed-only");
    fs::write(&timed_only, "").expect("a file");
    let served = serve();
    assert_eq!(served["mode"], "plain", "{served}");
    assert!(served["target_ns"].as_u64() > Some(0), "{served}");
    // One boot says nothing of what replays are worth. So the next one is served from its start.
    assert!(!timed_only.exists());
    fs::write(&timed_only, "").expect("a file");
    assert_eq!(serve()["mode"], "idle", "it is known already");
    let history = fs::read_to_string(state.join("history.json")).expect("a history");
    assert_eq!(history.matches("\"plain\"").count(), 1, "{history}");
}

#[test]
fn what_somebody_else_has_made_or_changed_is_left_alone() {
    let world = World::new();
    let root = image(&world);
    let units = root.join("etc/systemd/system");
    fs::create_dir_all(&units).expect("a directory");
    let boot = |verb: &str| world.output(&["boot", verb, "--root", text(&root)]);
    let reached = units.join("foreread-boot-reached.service");
    fs::write(&reached, "[Unit]\n").expect("a file");
    let before = contents(&root);
    assert_fails_in_one_line(&boot("enable"), "is there already and not ours");
    assert_eq!(contents(&root), before);
    fs::remove_file(&reached).expect("it was there");

    assert_eq!(boot("enable").status.code(), Some(0));
    let serve = units.join("foreread-boot.service");
    fs::write(&serve, "[Unit]\n# mine\n").expect("a file");
    let disabled = boot("disable");
    assert_eq!(disabled.status.code(), Some(64));
    let said = stderr(&disabled);
    assert!(
        said.contains("was changed by somebody else and stays"),
        "{said}"
    );
    let left: Vec<PathBuf> = contents(&units).into_iter().map(|(path, _)| path).collect();
    assert_eq!(left, [serve]);
    assert!(!root.join("var").exists());
}

#[test]
fn help_tells_how_disable_ends_and_how_portable_files_are_known() {
    let world = World::new();
    let help = |verb: &str| stdout(&world.output(&["boot", verb, "--help"]));
    let disable = help("disable");
    assert!(
        disable.contains("64 when something\nwas left alone"),
        "{disable}"
    );
    assert!(!disable.contains("2 when a file"), "{disable}");
    let export = help("export").replace('\n', " ");
    assert!(!export.contains("time of change"), "{export}");
}

#[test]
fn what_boots_have_left_is_removed_and_what_others_have_left_stays() {
    let world = World::new();
    let root = image(&world);
    let before = contents(&root);
    let boot = |verb: &str, more: &[&str]| {
        world.output(&[&["boot", verb, "--root", text(&root)], more].concat())
    };
    let state = root.join("var/lib/foreread/boot");
    let units = root.join("etc/systemd/system");
    let leave = || {
        assert_eq!(boot("enable", &[]).status.code(), Some(0));
        assert_eq!(boot("chart", &["--next"]).status.code(), Some(0));
        fs::create_dir(state.join("traces")).expect("a directory");
        for name in [
            "history.json",
            "boot.frp",
            "boot.failed",
            "packages-changed",
            "timed-only",
            "traces/0b5e-1.json",
            // The power was cut while these were saved. This process may have the same number.
            &format!(".history.json.{}.foreread-tmp", std::process::id()),
            ".installed.json.99999999.foreread-tmp",
            "traces/.0b5e-2.json.99999999.foreread-tmp",
        ] {
            fs::write(state.join(name), "").expect("a file");
        }
        let unit = ".foreread-boot.service.99999999.foreread-tmp";
        fs::write(units.join(unit), "").expect("a file");
    };
    leave();
    let disabled = boot("disable", &[]);
    assert_eq!(disabled.status.code(), Some(0), "{}", stderr(&disabled));
    assert_eq!(contents(&root), before);

    leave();
    let victim = world.path("victim");
    fs::write(&victim, "").expect("a file");
    for name in [
        "notes",
        "traces/notes",
        "notes.frp",
        ".notes.1.foreread-tmp",
    ] {
        fs::write(state.join(name), "").expect("a file");
    }
    fs::remove_file(state.join("history.json")).expect("it was there");
    symlink(&victim, state.join("history.json")).expect("a link");
    symlink(
        "/sbin/init",
        units.join("default.target.wants/other.service"),
    )
    .expect("a link");
    let disabled = boot("disable", &[]);
    assert_eq!(disabled.status.code(), Some(64), "{}", stderr(&disabled));
    let said = stderr(&disabled);
    for line in [
        format!(
            "{} holds notes of somebody else and stays\n",
            text(&state.join("traces"))
        ),
        format!(
            "{} holds other.service of somebody else and stays\n",
            text(&units.join("default.target.wants"))
        ),
    ] {
        assert!(said.contains(&line), "{said}");
    }
    assert!(!stdout(&disabled).contains("default.target.wants/\n"));
    let left = contents(&state)
        .into_iter()
        .map(|(path, _)| text(path.strip_prefix(&state).expect("it is below")).to_owned());
    assert_eq!(
        left.collect::<Vec<_>>(),
        [
            ".notes.1.foreread-tmp",
            "history.json",
            "notes",
            "notes.frp",
            "traces",
            "traces/notes"
        ]
    );
    assert!(victim.exists());
    assert_eq!(boot("disable", &[]).status.code(), Some(1));
}

#[test]
fn profiles_of_other_verbs_stay_without_a_word() {
    let world = World::new();
    let root = image(&world);
    let boot = |verb: &str| world.output(&["boot", verb, "--root", text(&root)]);
    assert_eq!(boot("enable").status.code(), Some(0));
    let profile = root.join("var/lib/foreread/make.frp");
    fs::write(&profile, "").expect("a file");
    let disabled = boot("disable");
    assert_eq!(disabled.status.code(), Some(0), "{}", stderr(&disabled));
    assert_eq!(stderr(&disabled), "");
    assert!(!stdout(&disabled).contains("/var/lib/foreread/\n"));
    assert!(profile.exists() && !root.join("var/lib/foreread/boot").exists());
}

#[test]
fn enable_updates_what_an_earlier_version_made() {
    let world = World::new();
    let root = image(&world);
    for folder in ["usr/lib/dracut/modules.d", "usr/local/bin"] {
        fs::create_dir_all(root.join(folder)).expect("a directory");
    }
    let before = contents(&root);
    let boot = |verb: &str, more: &[&str]| {
        world.output(&[&["boot", verb, "--root", text(&root)], more].concat())
    };
    assert_eq!(boot("enable", &["--initramfs"]).status.code(), Some(0));
    let state = root.join("var/lib/foreread/boot");
    for name in ["history.json", "boot.frp"] {
        fs::write(state.join(name), "kept").expect("a file");
    }
    let made = contents(&root);
    // The program has moved.
    let program = root.join("usr/local/bin/foreread");
    fs::write(&program, "").expect("a file");
    let dry = boot("enable", &["--dry-run"]);
    assert!(stdout(&dry).starts_with("Would update:\n"), "{dry:?}");
    fs::remove_file(&program).expect("it was there");
    assert_eq!(contents(&root), made);
    fs::write(&program, "").expect("a file");

    let updated = boot("enable", &[]);
    assert_eq!(updated.status.code(), Some(0), "{}", stderr(&updated));
    let said = stdout(&updated);
    assert!(!said.contains("Made:"), "{said}");
    assert!(said.contains("Run `dracut "), "{said}");
    let names = [
        "etc/systemd/system/foreread-boot.service",
        "etc/systemd/system/foreread-boot.service.d/initramfs.conf",
        "usr/lib/dracut/modules.d/95foreread/module-setup.sh",
    ];
    for name in names {
        assert!(said.contains(&format!("/{name}\n")), "{said}");
        let text = fs::read_to_string(root.join(name)).expect("a file");
        assert!(text.contains("/usr/local/bin/foreread"), "{text}");
    }
    let mode = |name: &str| fs::metadata(root.join(name)).expect("a file").mode() & 0o777;
    assert_eq!((mode(names[0]), mode(names[2])), (0o644, 0o755));
    for name in ["history.json", "boot.frp"] {
        let kept = fs::read_to_string(state.join(name)).expect("a file");
        assert_eq!(kept, "kept");
    }
    assert_eq!(stdout(&boot("enable", &[])), "It is enabled already.\n");
    fs::remove_file(&program).expect("it was there");
    let told = document(&boot("enable", &["--json"]));
    let items = told["items"].as_array().expect("a list");
    let outdated = items.iter().filter(|item| item["standing"] == "outdated");
    assert_eq!(outdated.count(), names.len(), "{told}");
    assert_eq!(boot("disable", &[]).status.code(), Some(0));
    assert_eq!(contents(&root), before);
}

#[test]
fn enable_leaves_alone_what_somebody_has_changed() {
    let world = World::new();
    let root = image(&world);
    fs::create_dir_all(root.join("usr/local/bin")).expect("a directory");
    let boot = |verb: &str, more: &[&str]| {
        world.output(&[&["boot", verb, "--root", text(&root)], more].concat())
    };
    assert_eq!(boot("enable", &[]).status.code(), Some(0));
    let units = root.join("etc/systemd/system");
    let (serve, reached) = (
        units.join("foreread-boot.service"),
        units.join("foreread-boot-reached.service"),
    );
    fs::write(&serve, "[Unit]\n# mine\n").expect("a file");
    fs::remove_file(&reached).expect("it was there");
    fs::write(root.join("usr/local/bin/foreread"), "").expect("a file");
    let enabled = boot("enable", &["--json"]);
    assert_eq!(enabled.status.code(), Some(64), "{}", stderr(&enabled));
    let said = format!("{} was changed by somebody else and stays\n", text(&serve));
    assert!(stderr(&enabled).contains(&said), "{}", stderr(&enabled));
    let told = document(&enabled);
    assert_eq!(told["changed"], true);
    assert_eq!(told["stay"][0]["path"], text(&serve), "{told}");
    assert_eq!(
        told["stay"][0]["reason"], "was changed by somebody else",
        "{told}"
    );
    assert!(reached.exists());
    let found = fs::read_to_string(&serve).expect("a file");
    assert_eq!(found, "[Unit]\n# mine\n");
    let again = boot("enable", &[]);
    assert_eq!(again.status.code(), Some(64));
    assert_eq!(stdout(&again), "It is enabled already.\n");
    assert_eq!(boot("disable", &[]).status.code(), Some(64));
    assert!(serve.exists() && !reached.exists());
}

#[test]
fn where_there_is_no_such_boot_enable_says_so() {
    let world = World::new();
    let root = world.path("empty");
    fs::create_dir_all(&root).expect("a directory");
    let root = text(&root);
    let enable = |root: &str| world.output(&["boot", "enable", "--root", root]);
    assert_fails_in_one_line(&enable(root), "holds no system with systemd");
    assert_fails_in_one_line(&enable("/no/such/root"), "holds no system with systemd");
    fs::create_dir_all(Path::new(root).join("usr/lib/systemd")).expect("a directory");
    assert_fails_in_one_line(&enable(root), "install it there first");
    if !Path::new("/run/systemd/system").exists() {
        let here = world.output(&["boot", "enable"]);
        let why = if is_root() { "systemd" } else { "root" };
        assert_fails_in_one_line(&here, why);
    }
}

#[test]
fn a_list_that_is_damaged_or_leads_elsewhere_removes_nothing() {
    let world = World::new();
    let root = image(&world);
    let boot = |verb: &str| world.output(&["boot", verb, "--root", text(&root)]);
    assert_eq!(boot("enable").status.code(), Some(0));
    let list = root.join("var/lib/foreread/boot/installed.json");
    let whole = fs::read_to_string(&list).expect("a list");
    let victim = world.path("victim");
    fs::write(&victim, "").expect("a file");
    for (bad, why) in [
        ("{".to_owned(), "is no list"),
        (whole.replace("installed/1", "installed/2"), "is of schema"),
        (
            whole.replace("\"var/lib\"", "\"../victim\""),
            "lead elsewhere",
        ),
        (whole.replace("\"var/lib\"", "\"/etc\""), "lead elsewhere"),
    ] {
        fs::write(&list, bad).expect("a file");
        let before = contents(&root);
        assert_fails_in_one_line(&boot("disable"), why);
        assert_eq!(contents(&root), before);
    }
    assert!(victim.exists());
}

#[test]
fn no_unit_waits_for_ours_and_none_of_ours_is_ever_red() {
    for (unit, target) in [
        ("foreread-boot.service", "sysinit.target"),
        ("foreread-boot-reached.service", "default.target"),
    ] {
        let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd");
        let text = fs::read_to_string(units.join(unit)).expect("the unit");
        let all = |name: &str| -> Vec<String> {
            let values = text
                .lines()
                .filter_map(|line| line.strip_prefix(name)?.strip_prefix('='));
            values.map(str::to_owned).collect()
        };
        assert_eq!(all("DefaultDependencies"), ["no"], "{unit}");
        assert_eq!(all("Before"), ["shutdown.target"], "{unit}");
        assert_eq!(all("WantedBy"), [target], "{unit}");
        assert!(all("RequiredBy").is_empty(), "{unit}");
        assert!(
            all("ExecStart").iter().all(|run| run.starts_with('-')),
            "{unit}"
        );
        // Killed before it is ready, such a one would have failed.
        assert_ne!(all("Type"), ["notify"], "{unit}");
    }
}

/// Plays a boot without a replay. What it reads is in the profile.
fn record(world: &World, testbed: &Testbed, tree: &Path) -> Value {
    let boot = Boot::start(world);
    make_cold(testbed);
    read_all(tree);
    let served = boot.end();
    make_earlier(world);
    served
}

/// What the last boot said.
fn said(world: &World) -> String {
    fs::read_to_string(world.path("stderr")).expect("a file")
}

#[test]
fn what_a_boot_reads_is_in_memory_in_the_next_one() {
    race(|| {
        let world = World::new();
        let Some((testbed, tree)) = bed(&world) else {
            return;
        };
        let first = record(&world, &testbed, &tree);
        assert_eq!(first["mode"], "recorded", "{first}");
        assert_eq!(first["recording"]["events_lost"], 0, "{first}");
        assert!(first["profile"]["pages"].as_u64() >= Some(FILES), "{first}");
        assert!(first["target_ns"].as_u64() > Some(0), "{first}");

        make_cold(&testbed);
        testbed.reset_counters();
        let boot = Boot::start(&world);
        until("the replay", || testbed.counters().bytes >= BYTES);
        // The boot is entered before it has succeeded.
        until("the entry", || boot.history().contains("replayed"));
        let entered: Value = serde_json::from_str(&boot.history()).expect("JSON");
        assert_eq!(entered["boots"][1]["measured"], Value::Null, "{entered}");
        testbed.wait_until_idle().expect("it is idle");
        testbed.reset_counters();
        read_all(&tree);
        let read = testbed.counters();
        assert!(read.bytes < BYTES / 10, "{read:?}");
        let second = boot.end();
        assert_eq!(second["mode"], "replayed", "{second}");
        assert_eq!(second["reason"], "the profile is up to date");
        assert!(
            second["replay"]["arrived_pages"].as_u64() >= Some(FILES),
            "{second}"
        );

        // A replay alone takes less time than one that is recorded.
        assert_eq!(second["recording"], Value::Null, "{second}");
        assert_eq!(second["profile"], Value::Null, "{second}");

        let shown = document(&world.output(&["boot", "show", "--json"]));
        assert_eq!(shown["schema"], "foreread.boot.show/1");
        let units = shown["units"].as_array().expect("a list");
        let pages = units
            .iter()
            .map(|unit| unit["pages"].as_u64().expect("a number"));
        assert_eq!(
            first["profile"]["pages"].as_u64(),
            Some(pages.sum()),
            "{shown}"
        );
        let root = tree.parent().and_then(Path::to_str);
        let devices = shown["devices"].as_array().expect("a list");
        let of_the_tree = |device: &&Value| device["mount_point"].as_str() == root;
        let device = devices.iter().find(of_the_tree).expect("its metadata");
        assert!(
            device["pages"].as_u64() >= device["ranges"].as_u64(),
            "{device}"
        );
        assert!(
            device["first_need_ns"].as_u64() <= device["last_need_ns"].as_u64(),
            "{device}"
        );
        assert_eq!(device["whole_disk"], false);
        let said = stdout(&world.output(&["boot", "show"]));
        let line = format!("that of {}", root.expect("text"));
        assert!(said.contains(&line), "{said}");
        // Without systemd all may be in one group.
        let unit = units
            .iter()
            .map(|unit| unit["unit"].as_str().expect("text"));
        let unit = unit.max_by_key(|unit| unit.len()).expect("a unit");
        if !unit.is_empty() {
            let words = ["boot", "show", "--json", "--unit", unit];
            let of_unit = document(&world.output(&words));
            assert!(of_unit["files"].is_array(), "{of_unit}");
        }
        let unknown = world.output(&["boot", "show", "--unit", "no-such-unit"]);
        assert_fails_in_one_line(&unknown, "no unit no-such-unit");

        let status = world.output(&["boot", "status", "--json"]);
        assert_eq!(status.status.code(), Some(1), "it is not enabled");
        let status = document(&status);
        assert_eq!(status["verdict"], "too-few", "{status}");
        assert_eq!(status["boots"].as_array().map(Vec::len), Some(2));
        assert!(status["profile"]["units"].as_u64() >= Some(1), "{status}");
        make_cold(&testbed);
    });
}

/// systemd and udev look for labels and partition tables. The superblock of a btrfs has another
/// number than the device that they read.
#[test]
fn what_is_read_of_the_device_below_a_btrfs_is_in_memory_in_the_next_boot() {
    const AT: u64 = 200 << 20;
    race(|| {
        if !can_record() {
            return;
        }
        let world = World::new();
        let Some((testbed, root)) = disk_with(&world, "cloud", 256 << 20, FileSystem::Btrfs) else {
            return;
        };
        let make_cold = || make_cold_with(&testbed, FileSystem::Btrfs);
        let device = File::open(testbed.device()).expect("the device");
        let read_label = || {
            device
                .read_exact_at(&mut [0; 4096], AT)
                .expect("it is read")
        };
        make_cold();
        let boot = Boot::start(&world);
        read_label();
        let first = boot.end();
        assert_eq!(first["mode"], "recorded", "{first}");
        make_earlier(&world);
        let shown = document(&world.output(&["boot", "show", "--json"]));
        let devices = shown["devices"].as_array().expect("a list");
        let below = |device: &&Value| device["mount_point"].as_str() == root.to_str();
        let below = devices.iter().find(below).expect("the device of the btrfs");
        assert_eq!(below["whole_disk"], false, "{below}");

        make_cold();
        let is_missing = || is_missing(device.as_fd(), AT >> 12);
        assert!(is_missing());
        let boot = Boot::start(&world);
        until("the replay", || !is_missing());
        let second = boot.end();
        assert_eq!(second["mode"], "replayed", "{second}");
    });
}

#[test]
fn a_boot_that_takes_long_is_recorded_in_part_and_the_rest_is_not_forgotten() {
    use foreread_profile::{WEIGHT_MAX, decode};
    let world = World::new();
    let Some((testbed, tree)) = bed(&world) else {
        return;
    };
    record(&world, &testbed, &tree);
    let late = tree.with_file_name("late");
    fs::write(&late, [7u8; 8192]).expect("a file");
    make_cold(&testbed);
    // So this boot is recorded, too.
    let state = world.state().join("boot");
    fs::write(state.join("packages-changed"), "").expect("a file");
    let boot = Boot::start_with(&world, &["--at-most", "1"]);
    until("the end of the recording", || {
        boot.serve.stderr().contains("has had its time")
    });
    fs::read(&late).expect("a file");
    let served = boot.end();
    assert_eq!(served["mode"], "refreshed", "{served}");
    let profile = fs::read(state.join("boot.frp")).expect("a profile");
    let profile = decode(&profile).expect("a profile");
    assert_eq!(profile.find(late.as_os_str().as_encoded_bytes()), None);
    // None of them was read in this boot.
    let in_tree = profile.files().filter(|(id, _)| {
        let path = profile.path(*id);
        path.starts_with(tree.as_os_str().as_encoded_bytes())
    });
    let weights: Vec<u8> = in_tree.map(|(_, node)| node.weight).collect();
    assert_eq!(weights.len() as u64, FILES);
    assert!(
        weights.iter().all(|weight| *weight == WEIGHT_MAX),
        "{weights:?}"
    );
    make_cold(&testbed);
}

#[test]
fn a_file_system_that_is_mounted_later_is_replayed_then() {
    let world = World::new();
    let Some((testbed, tree)) = bed(&world) else {
        return;
    };
    record(&world, &testbed, &tree);
    testbed.unmount().expect("nobody uses it");
    let boot = Boot::start(&world);
    until("the replay", || {
        boot.serve.stderr().contains("this boot is replayed")
    });
    sleep(Duration::from_millis(200));
    testbed.reset_counters();
    testbed
        .mount(FileSystem::Ext4, "noatime")
        .expect("it mounts");
    until("its part", || testbed.counters().bytes >= BYTES);
    let served = boot.end();
    assert_eq!(served["replay"]["unmounted_file_systems"], 0, "{served}");
    make_cold(&testbed);
}

#[test]
fn after_a_boot_that_did_not_reach_its_target_there_is_no_replay() {
    let world = World::new();
    let Some((testbed, tree)) = bed(&world) else {
        return;
    };
    record(&world, &testbed, &tree);
    let boot = Boot::start(&world);
    until("the entry", || boot.history().contains("replayed"));
    // The power is cut.
    drop(boot);
    make_earlier(&world);
    make_cold(&testbed);
    testbed.reset_counters();
    let boot = Boot::start(&world);
    until("the decision", || {
        boot.serve.stderr().contains("this boot is timed only")
    });
    sleep(Duration::from_millis(300));
    let third = boot.end();
    assert_eq!(
        third["reason"],
        "the last boot was replayed and did not reach its target"
    );
    assert!(testbed.counters().bytes < BYTES / 4);
    make_earlier(&world);
    // That succeeded without it. So it may have been the profile, which is set aside before
    // anything else: this boot fails, too.
    let fourth = Boot::start(&world);
    until("the entry", || fourth.history().contains("recorded"));
    let state = world.state().join("boot");
    until("it is set aside", || state.join("boot.failed").exists());
    drop(fourth);
    assert!(!state.join("boot.frp").exists());
    make_earlier(&world);
    let fifth = Boot::start(&world).end();
    assert_eq!(fifth["mode"], "recorded", "{fifth}");
    assert_eq!(fifth["reason"], "there is no profile yet");
}

#[test]
fn there_is_nothing_to_show_before_the_first_boot() {
    let world = World::new();
    let shown = world.output(&["boot", "show"]);
    assert_fails_in_one_line(&shown, "no boot was recorded yet");
}

#[test]
fn damaged_files_are_told_and_made_anew() {
    let world = World::new();
    if !can_record() {
        return;
    }
    let state = world.state().join("boot");
    fs::create_dir_all(&state).expect("a directory");
    fs::write(state.join("history.json"), "{").expect("a file");
    fs::write(state.join("boot.frp"), "no profile").expect("a file");
    let served = Boot::start(&world).end();
    assert_eq!(served["mode"], "recorded", "{served}");
    let said = said(&world);
    assert!(said.contains("a new one is begun"), "{said}");
    assert!(said.contains("the profile can't be used: "), "{said}");
    let status = document(&world.output(&["boot", "status", "--json"]));
    assert_eq!(status["profile"]["lacking"], Value::Null, "{status}");
    assert_eq!(status["boots"].as_array().map(Vec::len), Some(1));
}

#[test]
fn a_state_that_cannot_be_kept_ends_the_replay_and_not_the_boot() {
    let world = World::new();
    let Some((testbed, tree)) = bed(&world) else {
        return;
    };
    record(&world, &testbed, &tree);
    let state = world.state().join("boot");
    fs::remove_file(state.join("history.json")).expect("it was there");
    fs::create_dir(state.join("history.json")).expect("a directory");
    let served = Boot::start(&world).end();
    assert_eq!(served["mode"], "replayed", "{served}");
    let said = said(&world);
    assert!(
        said.contains("a boot that isn't noted is not replayed"),
        "{said}"
    );
    make_cold(&testbed);
}

#[test]
fn a_profile_of_another_root_file_system_is_looked_up_by_path() {
    use foreread_profile::{Profile, decode, encode};
    let world = World::new();
    let Some((testbed, tree)) = bed(&world) else {
        return;
    };
    record(&world, &testbed, &tree);
    let path = world.state().join("boot/boot.frp");
    let read = || decode(&fs::read(&path).expect("a file")).expect("a profile");
    let own = read();
    let key = |profile: &Profile| String::from_utf8_lossy(&profile.program.key).into_owned();
    // The root file system of this machine may be of a type without a lasting number.
    if key(&own) == "boot" {
        return;
    }
    let mut of_another = own.clone();
    of_another.program.key = b"boot of file system 0123456789abcdef".to_vec();
    fs::write(&path, encode(&of_another)).expect("a profile");
    make_cold(&testbed);
    let boot = Boot::start(&world);
    read_all(&tree);
    let served = boot.end();
    assert_eq!(served["mode"], "refreshed", "{served}");
    let said = said(&world);
    assert!(said.contains("the profile is another system's"), "{said}");
    assert_eq!(key(&read()), key(&own));
    make_earlier(&world);

    // As `import --root` leaves it in an image.
    let imported = foreread_boot::portable::portable(&own);
    fs::write(&path, encode(&imported)).expect("a profile");
    make_cold(&testbed);
    let boot = Boot::start(&world);
    read_all(&tree);
    let served = boot.end();
    assert_eq!(served["mode"], "refreshed", "{served}");
    let said = fs::read_to_string(world.path("stderr")).expect("a file");
    assert!(said.contains("of the profile of another system"), "{said}");
    let planned = served["replay"]["planned_pages"].as_u64();
    assert!(planned >= Some(FILES), "{served}");
    make_cold(&testbed);
}

/// A small profile of a boot of the system at `root`: two programs.
fn recorded_boot(root: &Path) -> foreread_profile::Profile {
    use foreread_profile::{Identity, NodeKind, ProfileBuilder, Program, Source, Uses};
    let program = Program {
        key: b"boot".to_vec(),
        ..Program::default()
    };
    let mut builder = ProfileBuilder::new(program, Source::default());
    for name in ["usr/bin/one", "usr/bin/two", "home/ann/notes"] {
        let path = root.join(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(&path, [7u8; 8192]).expect("a file");
        let metadata = fs::metadata(&path).expect("it is there");
        let id = builder.node(format!("/{name}").as_bytes()).expect("a path");
        builder.set_kind(id, NodeKind::File);
        builder.set_identity(
            id,
            Identity {
                inode: metadata.ino(),
                generation: 0,
                size_bytes: metadata.size(),
                mtime_ns: metadata.mtime() * 1_000_000_000 + metadata.mtime_nsec(),
            },
        );
        builder.used(id, Uses::LOOKED_UP, 5);
        builder.pages(id, 0, 2, 5);
    }
    builder.finish()
}

#[test]
fn a_profile_goes_to_another_system_with_the_same_packages() {
    let world = World::new();
    let (here, there) = (image(&world), world.path("other"));
    fs::create_dir_all(there.join("usr/bin")).expect("a directory");
    fs::create_dir_all(there.join("usr/lib/systemd")).expect("a directory");
    let profile = recorded_boot(&here);
    let state = here.join("var/lib/foreread/boot");
    let portable = world.path("web.profile");
    let fails = |output: &std::process::Output, says: &str| {
        assert_fails_in_one_line(output, says);
        assert!(stderr(output).contains(says), "{}", stderr(output));
    };
    let export = |more: &[&str]| {
        let words = [&["boot", "export", "--root", text(&here)], more].concat();
        world.output(&[&words[..], &[text(&portable)]].concat())
    };
    fails(&export(&["--portable"]), "no boot was recorded yet");
    fs::create_dir_all(&state).expect("a directory");
    fs::write(state.join("boot.frp"), foreread_profile::encode(&profile)).expect("a profile");
    let told = document(&export(&["--portable", "--json"]));
    assert_eq!(
        (&told["schema"], &told["files"]),
        (&"foreread.boot.export/1".into(), &2.into())
    );
    assert_eq!(
        fs::metadata(&portable).expect("a file").mode() & 0o777,
        0o600
    );
    let bytes = fs::read(&portable).expect("a file");
    let read = foreread_profile::decode(&bytes).expect("a profile");
    assert!(read.find(b"/home/ann/notes").is_none());

    let import = |root: &Path, more: &[&str]| {
        let words = [&["boot", "import", "--root", text(root)], more].concat();
        world.output(&[&words[..], &[text(&portable)]].concat())
    };
    fails(&import(&there, &[]), "nothing of");
    // A copy that keeps times, as packages do, and another version.
    let copy = |name: &str| {
        let done = Command::new("cp")
            .arg("-p")
            .args([here.join(name), there.join(name)])
            .status();
        assert!(done.expect("cp runs").success());
    };
    copy("usr/bin/one");
    fs::write(there.join("usr/bin/two"), "another version").expect("a file");
    let before = contents(&there);
    let dry = document(&import(&there, &["--dry-run", "--json"]));
    assert_eq!(
        (&dry["files"], &dry["others"]),
        (&1.into(), &1.into()),
        "{dry}"
    );
    fails(&import(&there, &[]), "`foreread boot enable` makes it");
    assert_eq!(contents(&there), before);
    fs::write(there.join("usr/bin/foreread"), "").expect("a file");
    let enabled = world.output(&["boot", "enable", "--root", text(&there)]);
    assert_eq!(enabled.status.code(), Some(0), "{}", stderr(&enabled));
    let imported = import(&there, &[]);
    assert_eq!(imported.status.code(), Some(0), "{}", stderr(&imported));
    assert!(
        stdout(&imported).starts_with("Imported 1 file"),
        "{}",
        stdout(&imported)
    );
    let kept = fs::read(there.join("var/lib/foreread/boot/boot.frp")).expect("a profile");
    let kept = foreread_profile::decode(&kept).expect("a profile");
    let id = kept.find(b"/usr/bin/one").expect("it fits");
    // A tree that becomes an image gets other inode numbers there.
    assert_eq!(kept.node(id).expect("a node").identity.inode, 0);
    assert!(kept.find(b"/usr/bin/two").is_none());
    // A profile of its own boots is worth more.
    fails(&import(&here, &[]), "--replace replaces it");
    fs::write(&portable, "FRPROFIL").expect("a file");
    fails(&import(&there, &[]), "cut short");
}
