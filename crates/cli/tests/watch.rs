// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread watch` on a modelled disk: who is walked ahead of, who is not, what it leaves alone.

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use common::watched::{
    FILES, cold_tree, count, grep, grep_words, make_cold, shuffled_files, text, watched,
};
use common::{World, assert_fails_in_one_line, binary_for_all, is_root, stderr, stdout};
use foreread_testbed::race;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

#[test]
fn a_program_that_walks_finds_its_files_in_memory() {
    race(|| {
        let world = World::new();
        let Some((testbed, tree)) = cold_tree(&world) else {
            return;
        };
        let copy = world.path("copy");
        let archive = world.path("archive");
        let commands: [&[&str]; 3] = [
            &grep_words(&tree),
            &["tar", "cf", text(&archive), "-C", text(&tree), "."],
            &["cp", "-r", text(&tree), text(&copy)],
        ];
        for command in commands {
            make_cold(&testbed);
            let (document, log) = watched(&world, &[], command);
            assert_eq!(document["schema"], "foreread.watch/1");
            let missed = count(&document, "missed_files");
            let used = count(&document, "used_files");
            let what = format!("{command:?}: {document} {log:#?}");
            // 5 in 6 on an idle machine. If others use all processors, it learns later of the walk.
            assert!(used > FILES as u64 / 2, "{what}");
            assert!(missed < FILES as u64 / 3, "{what}");
            assert!(
                // Files that the program read before it was known may be fetched once more, unread.
                count(&document, "wasted_files") < FILES as u64 / 6,
                "{what}"
            );
            assert_eq!(count(&document, "lost"), 0, "{what}");
            let whats: Vec<&str> = log
                .iter()
                .filter_map(|line| line["what"].as_str())
                .collect();
            for expected in ["begun", "listed", "fetched", "ended"] {
                assert!(whats.contains(&expected), "{command:?}: {whats:?}");
            }
            // Nothing is held open: what it has just read can be unmounted, which this does.
            make_cold(&testbed);
        }
    });
}

#[test]
fn a_program_that_only_looks_finds_inodes_in_memory_and_no_data_are_read() {
    race(|| {
        let world = World::new();
        let Some((testbed, tree)) = cold_tree(&world) else {
            return;
        };
        make_cold(&testbed);
        testbed.reset_counters();
        let find = ["find", text(&tree), "-size", "+1G"];
        let (document, log) = watched(&world, &[], &find);
        let what = format!("{document} {log:#?}");
        let begun = log.iter().find(|line| line["what"] == "begun");
        let begun = begun.unwrap_or_else(|| panic!("{what}"));
        assert_eq!(
            (&begun["reads"], &begun["order"]),
            (&false.into(), &"listed".into()),
            "{what}"
        );
        assert!(count(&document, "looks") >= 5, "{what}");
        assert!(count(&document, "listed_directories") >= 1, "{what}");
        assert!(!log.iter().any(|line| line["what"] == "reads"), "{what}");
        // The files have 6 MB.
        assert!(testbed.counters().bytes < 3_000_000, "{what}");
        make_cold(&testbed);
    });
}

#[test]
fn a_program_that_looks_here_and_there_is_not_walked_ahead_of() {
    let world = World::new();
    let Some((testbed, tree)) = cold_tree(&world) else {
        return;
    };
    let files = shuffled_files(&tree);
    let order: Vec<&str> = files.iter().map(String::as_str).collect();
    make_cold(&testbed);
    let stat = [&["stat", "--format=%s"], &order[..]].concat();
    let (document, log) = watched(&world, &[], &stat);
    assert!(count(&document, "looks") > 20, "{document}");
    assert_eq!(count(&document, "fetched_files"), 0, "{document}\n{log:#?}");
}

#[test]
fn programs_of_one_parent_share_a_walk() {
    race(|| {
        let world = World::new();
        let Some((testbed, tree)) = cold_tree(&world) else {
            return;
        };
        // Each goes through a part of the list.
        let list = world.path("list");
        let find = format!("find {} -type f -print0 > {}", text(&tree), text(&list));
        let found = Command::new("sh").args(["-c", &find]).status();
        assert!(found.expect("find runs").success());
        make_cold(&testbed);
        let cats = ["xargs", "-0", "-n", "8", "-a", text(&list), "cat"];
        let (document, log) = watched(&world, &[], &cats);
        let what = format!("{document} {log:#?}");
        let used = count(&document, "used_files");
        assert!(used > FILES as u64 / 2, "{what}");
        // There are 75 of them.
        assert!(count(&document, "walks") <= 20, "{what}");
        assert!(
            count(&document, "fetched_files") < FILES as u64 * 5 / 4,
            "{what}"
        );
    });
}

#[test]
fn a_program_that_reads_here_and_there_is_not_walked_ahead_of() {
    let world = World::new();
    let Some((testbed, tree)) = cold_tree(&world) else {
        return;
    };
    let files = shuffled_files(&tree);
    let mut walked = Vec::new();
    for part in files.chunks(FILES / 5) {
        let part: Vec<&str> = part.iter().map(String::as_str).collect();
        make_cold(&testbed);
        let (document, log) = watched(&world, &[], &[&["cat"], &part[..]].concat());
        assert!(count(&document, "misses") >= 100, "{document}");
        if count(&document, "fetched_files") > 60 {
            walked.push(format!("{document}\n{log:#?}"));
        }
    }
    // Three files are in one of three orders by chance, now and then.
    assert!(walked.len() <= 2, "{walked:#?}");
}

#[test]
fn a_dry_run_says_who_walks_and_fetches_nothing() {
    race(|| {
        let world = World::new();
        let Some((testbed, tree)) = cold_tree(&world) else {
            return;
        };
        make_cold(&testbed);
        let grep = grep_words(&tree);
        let (document, log) = watched(&world, &["--dry-run"], &grep);
        assert!(count(&document, "walks") >= 1, "{document}");
        assert_eq!(count(&document, "fetched_files"), 0, "{document}");
        assert_eq!(count(&document, "listed_directories"), 0, "{document}");
        assert!(count(&document, "misses") >= FILES as u64, "{document}");
        let begun = log.iter().find(|line| line["what"] == "begun");
        assert!(
            begun.is_some_and(|line| line["order"] == "listed"),
            "{log:?}"
        );
        assert!(!log.iter().any(|line| line["what"] == "fetched"), "{log:?}");
    });
}

#[test]
fn a_budget_bounds_what_is_fetched_ahead() {
    race(|| {
        let world = World::new();
        let Some((testbed, tree)) = cold_tree(&world) else {
            return;
        };
        make_cold(&testbed);
        let grep = grep_words(&tree);
        let (document, log) = watched(&world, &["--budget", "256K"], &grep);
        let fetched: Vec<u64> = log
            .iter()
            .filter(|line| line["what"] == "fetched")
            .map(|line| count(line, "pages"))
            .collect();
        assert!(fetched.iter().all(|pages| *pages <= 64), "{fetched:?}");
        assert!(fetched.len() > 4, "{document}");
    });
}

#[test]
fn programs_and_directories_that_are_excluded_are_left_alone() {
    race(|| {
        let world = World::new();
        let Some((testbed, tree)) = cold_tree(&world) else {
            return;
        };
        let file = world.path("watch.toml");
        let grep = grep_words(&tree);
        for (content, is_walked) in [
            (
                "exclude_programs = [\"rsync\", \"grep\"]\n".to_owned(),
                false,
            ),
            (format!("exclude_paths = [{:?}]\n", text(&tree)), false),
            (
                "exclude_programs = [\"egrep\"]\nexclude_paths = [\"/no/such\"]\n".to_owned(),
                true,
            ),
        ] {
            fs::write(&file, &content).expect("a file");
            make_cold(&testbed);
            let (document, log) = watched(&world, &["--config", text(&file)], &grep);
            assert_eq!(
                count(&document, "walks") > 0,
                is_walked,
                "{content}{document} {log:?}"
            );
            let misses = count(&document, "misses");
            assert!(is_walked || misses >= FILES as u64, "{content}{document}");
        }
    });
}

/// `foreread watch` without a command, until it is told to end.
fn until_told(world: &World, options: &[&str], meanwhile: impl FnOnce()) -> Output {
    // A pipe might fill up meanwhile, for the log of a machine is long.
    let [stdout, stderr] = ["stdout", "stderr"].map(|name| world.path(name));
    let to = |path: &Path| Stdio::from(fs::File::create(path).expect("a file"));
    let mut child = world
        .foreread(&["watch", "--json", "--log", "-"])
        .args(options)
        .stdout(to(&stdout))
        .stderr(to(&stderr))
        .spawn()
        .expect("it starts");
    // Programs are loaded in some tens of milliseconds; what comes first is only not seen.
    std::thread::sleep(Duration::from_millis(500));
    meanwhile();
    let pid = Pid::from_raw(child.id() as i32).expect("a number");
    kill_process(pid, Signal::INT).expect("it is told");
    Output {
        status: child.wait().expect("it ends"),
        stdout: fs::read(&stdout).expect("it is there"),
        stderr: fs::read(&stderr).expect("it is there"),
    }
}

#[test]
fn the_machine_is_watched_and_deleted_and_unmounted_trees_do_no_harm() {
    let world = World::new();
    let Some((testbed, tree)) = cold_tree(&world) else {
        return;
    };
    make_cold(&testbed);
    let output = until_told(&world, &["--all"], || {
        let mut grep = grep(&tree).spawn().expect("grep starts");
        let status = Command::new("rm").arg("-rf").arg(&tree).status();
        assert!(status.expect("rm runs").success());
        // It misses files that are gone, as it would without us.
        grep.wait().expect("it ends");
        make_cold(&testbed);
    });
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let document: Value = serde_json::from_str(&stdout(&output)).expect("a document");
    assert!(count(&document, "misses") > 0, "{document}");
    assert!(!stderr(&output).contains("panicked"), "{}", stderr(&output));
}

#[test]
fn others_than_the_one_named_are_not_watched() {
    let world = World::new();
    let Some((testbed, tree)) = cold_tree(&world) else {
        return;
    };
    // Long before it is watched: what it needs it has then.
    let mut idle = Command::new("sleep")
        .arg("60")
        .spawn()
        .expect("sleep starts");
    make_cold(&testbed);
    let output = until_told(&world, &["--pid", &idle.id().to_string()], || {
        grep(&tree).status().expect("grep runs");
    });
    idle.kill().expect("it ends");
    idle.wait().expect("it has ended");
    let document: Value = serde_json::from_str(&stdout(&output)).expect("a document");
    assert_eq!(count(&document, "misses"), 0, "{document}");
}

#[test]
fn wrong_usage_is_told_in_a_line() {
    let world = World::new();
    for wrong in [
        &["watch", "--pid", "2147483647"][..],
        &["watch", "--cgroup", "/no/such/group"],
        &["watch", "--cgroup", "/"],
        &["watch", "--log", "/no/such/directory/log"],
        &["watch", "--config", "/no/such/file"],
        &["watch", "--config", "/"],
    ] {
        assert_fails_in_one_line(&world.output(wrong), &format!("{wrong:?}"));
    }
    for wrong in [
        &["watch", "--budget", "512", "--", "true"][..],
        &["watch", "--pid", "1", "--all"],
        &["watch", "--pid", "0"],
        &["watch", "--all", "--", "true"],
    ] {
        assert_eq!(world.output(wrong).status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn without_rights_it_says_what_is_needed_and_a_command_runs_all_the_same() {
    if !is_root() {
        return;
    }
    let world = World::new();
    let binary = binary_for_all(&world);
    let without_rights = |words: &[&str]| {
        Command::new("setpriv")
            .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
            .arg(&binary)
            .args(words)
            .output()
            .expect("setpriv starts")
    };
    let output = without_rights(&["watch"]);
    assert_fails_in_one_line(&output, "without rights");
    let said = stderr(&output);
    assert!(said.contains("needs root: sudo foreread watch"), "{said}");
    let output = without_rights(&["watch", "--", "echo", "mine"]);
    assert_eq!(output.status.code(), Some(64), "{}", stderr(&output));
    assert_eq!(stdout(&output), "mine\n");
    let said = stderr(&output);
    assert!(
        said.contains("needs root") && said.contains("unwatched"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
    let output = without_rights(&["watch", "--json", "--", "sh", "-c", "exit 7"]);
    assert_eq!(output.status.code(), Some(7));
    let last = stderr(&output);
    let last = last.lines().last().unwrap_or_default();
    let document: Value = serde_json::from_str(last).expect("a document");
    assert_eq!(document["watched"], false, "{document}");
    let output = without_rights(&["watch", "--", "no-such-command-here"]);
    assert_eq!(output.status.code(), Some(127));
}

#[test]
fn how_the_command_ended_is_passed_on() {
    let world = World::new();
    if !is_root() || world.output(&["watch", "--", "true"]).status.code() != Some(0) {
        return;
    }
    let code = |words: &[&str]| world.output(words).status.code();
    assert_eq!(code(&["watch", "--", "sh", "-c", "exit 7"]), Some(7));
    assert_eq!(code(&["watch", "--", "no-such-command-here"]), Some(127));
    let said = world.output(&["watch", "--", "echo", "mine"]);
    assert_eq!(stdout(&said), "mine\n");
}
