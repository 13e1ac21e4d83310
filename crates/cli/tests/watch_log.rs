// SPDX-License-Identifier: MIT OR Apache-2.0
//! The log of `foreread watch`, of walks on a modelled disk, and what is made of it.

mod common;

use std::collections::{HashMap, HashSet};
use std::fs;
use std::process::{Command, Output};

use common::watched::{cold_tree, count, grep_words, make_cold, shuffled_files, text, watched};
use common::{World, assert_fails_in_one_line, stderr, stdout};
use foreread_testbed::race;
use serde_json::Value;

/// `sim --replay` of these lines.
fn replayed(world: &World, lines: &[Value]) -> Output {
    let log = world.path("replayed");
    let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
    fs::write(&log, lines.join("\n")).expect("it is written");
    world.output(&["sim", "--replay", text(&log), "--json"])
}

fn document_of(output: &Output) -> Value {
    serde_json::from_str(&stdout(output)).unwrap_or_else(|e| panic!("{e}: {}", stderr(output)))
}

/// Where the first line is that is like this.
fn place(log: &[Value], is_it: impl Fn(&Value) -> bool) -> usize {
    let place = log.iter().position(is_it);
    place.unwrap_or_else(|| panic!("there is none: {log:#?}"))
}

/// Replays the log as it is; then with one line after the other changed by `change`, lacking, or of
/// a call that there isn't.
fn check_replay(world: &World, document: &Value, log: &[Value], changes: &[(usize, &str, Value)]) {
    let output = replayed(world, log);
    let said = format!("{} {}", stdout(&output), stderr(&output));
    assert_eq!(output.status.code(), Some(0), "{said}");
    let again = document_of(&output);
    assert_eq!(again["walks"]["walks"], document["walks"], "{again}");
    assert!(count(&again["walks"], "decisions") > 1, "{again}");
    assert!(count(&again["detectors"], "suspicions") >= 1, "{again}");
    assert_eq!(again["differs"], Value::Null, "{again}");

    for (place, name, value) in changes {
        let mut other = log.to_vec();
        assert_ne!(other[*place][*name], *value);
        other[*place][*name] = value.clone();
        let output = replayed(world, &other);
        assert_eq!(output.status.code(), Some(1), "{name}: {}", stdout(&output));
        let differs = &document_of(&output)["differs"];
        assert_eq!(differs["number"], log[*place]["number"], "{differs}");

        let mut lacking = log.to_vec();
        lacking.remove(*place);
        let output = replayed(world, &lacking);
        let said = format!("{name}: {} {}", stdout(&output), stderr(&output));
        assert_eq!(output.status.code(), Some(64), "{said}");
        assert!(stderr(&output).contains("was lost"), "{said}");

        let mut wrong = log.to_vec();
        wrong[*place]["call"] = "other".into();
        let said = format!("line {}", place + 1);
        assert_fails_in_one_line(&replayed(world, &wrong), &said);
    }
}

#[test]
fn the_decisions_of_a_walk_of_reads_are_made_again_bit_for_bit() {
    race(|| {
        let world = World::new();
        let Some((testbed, tree)) = cold_tree(&world) else {
            return;
        };
        make_cold(&testbed);
        let (document, log) = watched(&world, &[], &grep_words(&tree));
        let fetch = place(&log, |line| line["decision"] == "fetch");
        let list = place(&log, |line| line["decision"] == "list");
        let suspicion = place(&log, |line| line["suspicion"].is_object());
        assert_eq!(log[suspicion]["call"], "missed", "{log:#?}");
        let hit = place(&log, |line| line["what"] == "walk" && line["call"] == "hit");
        let changes = [
            (fetch, "names_hash", 1.into()),
            (list, "directories", Value::Array(Vec::new())),
            (suspicion, "suspicion", Value::Null),
            (hit, "met", "outside".into()),
        ];
        check_replay(&world, &document, &log, &changes);

        // One that writes after another one knows nothing of what that saw.
        let started = serde_json::json!({
            "schema": log[0]["schema"], "since_start_ns": 0, "process": 1, "what": "started",
        });
        let twice = [&log[..], &[started], &log[..]].concat();
        let output = replayed(&world, &twice);
        let (once, twice) = (document_of(&replayed(&world, &log)), document_of(&output));
        assert_eq!(output.status.code(), Some(0), "{twice}");
        let decisions = |document: &Value| count(&document["walks"], "decisions");
        assert_eq!(decisions(&twice), 2 * decisions(&once));
    });
}

#[test]
fn the_decisions_of_a_walk_of_looks_are_made_again_bit_for_bit() {
    race(|| {
        let world = World::new();
        let Some((testbed, tree)) = cold_tree(&world) else {
            return;
        };
        make_cold(&testbed);
        let find = ["find", text(&tree), "-size", "+1G"];
        let (document, log) = watched(&world, &[], &find);
        let suspicion = place(&log, |line| line["suspicion"].is_object());
        assert_eq!(log[suspicion]["call"], "waited", "{log:#?}");
        let begin = place(&log, |line| line["call"] == "begin");
        assert_eq!(log[begin]["reads"], false, "{log:#?}");
        let decide = place(&log, |line| line["call"] == "decide");
        let changes = [
            (suspicion, "suspicion", Value::Null),
            (decide, "directories", Value::Array(Vec::new())),
        ];
        check_replay(&world, &document, &log, &changes);
    });
}

#[test]
fn what_was_done_for_a_file_and_a_process_is_explained() {
    race(|| {
        let world = World::new();
        let Some((testbed, tree)) = cold_tree(&world) else {
            return;
        };
        make_cold(&testbed);
        let (document, log) = watched(&world, &[], &grep_words(&tree));
        let log_path = world.path("log");
        let explain =
            |what: &str| world.output(&["explain", what, "--json", "--log", text(&log_path)]);
        let explained = |what: &str| -> Value {
            let output = explain(what);
            assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
            serde_json::from_str(&stdout(&output)).expect("a document")
        };
        let process = log.iter().find(|line| line["what"] == "begun");
        let process = count(process.expect("a walk"), "process").to_string();
        let of_process = explained(&process);
        assert_eq!(of_process["schema"], "foreread.explain/1");
        for name in [
            "used_files",
            "wasted_files",
            "missed_files",
            "fetched_pages",
        ] {
            let walks = of_process["walks"].as_array().expect("walks");
            let all: u64 = walks.iter().map(|walk| count(walk, name)).sum();
            assert_eq!(all, count(&document, name), "{name}: {of_process}");
        }
        let found = Command::new("find")
            .arg(&tree)
            .args(["-type", "f"])
            .output();
        let found = stdout(&found.expect("find runs"));
        let files: Vec<Value> = found.lines().step_by(20).map(explained).collect();
        let of_file = |file: &Value| file["walks"][0]["file"].clone();
        let is_used = |file: &&Value| {
            let file = of_file(file);
            file["fetched_ns"].is_u64() && file["fetched_ns"].as_u64() <= file["read_ns"].as_u64()
        };
        let used = files.iter().filter(is_used).count();
        assert!(used * 2 > files.len(), "{used}: {files:#?}");
        for unknown in ["4194305", "/nowhere/at/all"] {
            assert_eq!(explain(unknown).status.code(), Some(1), "{unknown}");
        }
    });
}

#[test]
fn who_shares_a_walk_is_noted_and_told_of_as_such() {
    race(|| {
        let world = World::new();
        let Some((testbed, tree)) = cold_tree(&world) else {
            return;
        };
        make_cold(&testbed);
        let each = format!("find {} -type f -print0 | xargs -0 -n 8 cat", text(&tree));
        let (_, log) = watched(&world, &[], &["sh", "-c", &each]);
        let shares = place(&log, |line| line["what"] == "shares");
        let (member, leader) = (count(&log[shares], "process"), count(&log[shares], "with"));
        let begun = place(&log, |line| {
            line["what"] == "begun" && line["process"] == leader
        });
        assert!(begun < shares, "{:#?}", log[shares]);
        // Each once, while the walk is on.
        let mut on = HashMap::new();
        let mut all = 0;
        for line in log.iter().filter(|line| line["reads"].is_boolean()) {
            let of = |name: &str| (line[name].to_string(), line["reads"] == true);
            match line["what"].as_str() {
                Some("begun") => drop(on.insert(of("process"), HashSet::new())),
                Some("ended") => drop(on.remove(&of("process"))),
                Some("shares") => {
                    let members = on.get_mut(&of("with")).expect("a walk that is on");
                    assert!(members.insert(count(line, "process")), "{line}");
                    all += 1;
                }
                _ => {}
            }
        }
        assert!(all > 10, "of 75 programs most share a walk: {all}");

        let log_path = world.path("log");
        let explain = |process: u64, json: &[&str]| {
            let process = process.to_string();
            let output =
                world.output(&[&["explain", &process, "--log", text(&log_path)], json].concat());
            assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
            output
        };
        let document = document_of(&explain(member, &["--json"]));
        let walks = document["walks"].as_array().expect("walks");
        let is_member = |one: &Value| one["process"] == member;
        let shared = |walk: &&Value| {
            let by = walk["shared_by"].as_array();
            walk["process"] == leader && by.is_some_and(|by| by.iter().any(is_member))
        };
        assert!(walks.iter().any(|walk| shared(&walk)), "{document}");
        let said = stdout(&explain(member, &[]));
        let words = format!("Process {member} shares it since ");
        assert!(said.contains(&words), "{said}");
        let said = stdout(&explain(leader, &[]));
        assert!(said.contains("  Shared by "), "{said}");

        let output = replayed(&world, &log);
        assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
        for wrong in [Value::Null, "x".into(), (1u64 << 40).into()] {
            let mut lines = log.clone();
            lines[shares]["with"] = wrong;
            drop(replayed(&world, &lines));
            let other = world.path("replayed");
            let output = world.output(&["explain", "1", "--log", text(&other)]);
            assert_fails_in_one_line(&output, &format!("line {}", shares + 1));
            assert!(stderr(&output).contains("\"with\""), "{}", stderr(&output));
        }
    });
}

#[test]
fn why_nobody_walks_ahead_of_a_process_is_explained() {
    race(|| {
        let world = World::new();
        let Some((testbed, tree)) = cold_tree(&world) else {
            return;
        };
        let files = shuffled_files(&tree);
        let order: Vec<&str> = files[..150].iter().map(String::as_str).collect();
        make_cold(&testbed);
        let (document, log) = watched(&world, &[], &[&["cat"], &order[..]].concat());
        let mut cat = log.iter().filter(|line| line["call"] == "missed");
        let cat = count(cat.next_back().expect("a miss"), "process").to_string();
        let log = world.path("log");
        let explain =
            |json: &[&str]| world.output(&[&["explain", &cat, "--log", text(&log)], json].concat());
        let said = stdout(&explain(&[]));
        assert!(said.contains("While no walk was ahead"), "{said}");
        let output = explain(&["--json"]);
        let without_walk = &document_of(&output)["without_walk"][0];
        // A short walk may have been ahead of the others.
        assert!(count(without_walk, "missed_files") > 0, "{without_walk}");
        let named =
            ["begun", "refused", "known", "not_followed"].map(|name| count(without_walk, name));
        let suspicions = count(without_walk, "suspicions");
        assert_eq!(named.iter().sum::<u64>(), suspicions, "{without_walk}");
        assert_eq!(count(without_walk, "refused"), count(&document, "refused"));
    });
}
