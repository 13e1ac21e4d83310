// SPDX-License-Identifier: MIT OR Apache-2.0
//! Holds every verb to the conventions of the command line (docs/conventions.md).
//!
//! It walks the tree of verbs that the parser is made of. A new verb or option is checked without
//! being named here.

use std::collections::BTreeMap;

use clap::{Arg, ArgAction, Command, CommandFactory};

use crate::args::Arguments;

/// What values are called, and what they are.
const VALUE_NAMES: [&str; 26] = [
    "BOOT",    // a traced boot
    "COMMAND", // a command line, behind `--`
    "COUNT",   // how often
    "DEVICE",  // a device, by any of its names
    "DEVICE|FILE|MOUNT",
    "DIR",
    "DISK", // a model of a disk, with parameters
    "FILE",
    "FILE|PID",
    "FORMAT",
    "GLOB",
    "IN",
    "INTERVAL", // as TIME; with a bare number for seconds
    "KEY=VALUE",
    "LOG",
    "N", // a number
    "NAME",
    "NAMES", // several, with commas between them
    "OUT",
    "PATH",
    "PID",
    "PROCESS", // by name or number
    "PROFILE", // a file or a stored name
    "RELEASE",
    "SIZE", // with a unit
    "UNIT",
];

/// More of them, for one verb each.
const MORE_VALUE_NAMES: [&str; 10] = [
    "NUMBER", "NUMBERS", "SCENARIO", "SECONDS", "SEED", "SIZES", "TIME", "TRACE", "USE", "WORKLOAD",
];

/// Short options, each for one long option in all verbs.
const SHORTS: [(char, &str); 7] = [
    ('h', "help"),
    ('i', "ignore-failure"),
    ('n', "lines"),
    ('o', "output"),
    ('q', "quiet"),
    ('v', "verbose"),
    ('V', "version"),
];

/// A verb that does something, by the words that call it.
struct Verb {
    words: String,
    command: Command,
}

/// All verbs that are shown, and that have no verbs below them.
fn verbs() -> Vec<Verb> {
    let mut root = Arguments::command().term_width(80);
    root.build();
    let mut found = Vec::new();
    collect(&root, "foreread", &mut found);
    found
}

fn collect(command: &Command, words: &str, found: &mut Vec<Verb>) {
    let below = command.get_subcommands();
    let below: Vec<&Command> = below
        .filter(|verb| !verb.is_hide_set() && verb.get_name() != "help")
        .collect();
    if below.is_empty() {
        found.push(Verb {
            words: words.to_owned(),
            command: command.clone(),
        });
    }
    for verb in below {
        collect(verb, &format!("{words} {}", verb.get_name()), found);
    }
}

fn value_name(arg: &Arg) -> Option<String> {
    let takes_value = arg.get_action().takes_values();
    let names = arg.get_value_names().filter(|_| takes_value)?;
    Some(names.first()?.to_string())
}

#[test]
fn each_verb_prints_json_when_told() {
    for verb in verbs() {
        let mut args = verb.command.get_arguments();
        let json = args.find(|arg| arg.get_long() == Some("json"));
        let json = json.unwrap_or_else(|| panic!("{} has no --json", verb.words));
        assert!(
            matches!(json.get_action(), ArgAction::SetTrue),
            "{}: --json takes no value",
            verb.words
        );
    }
}

#[test]
fn an_option_is_the_same_in_each_verb() {
    let mut wrong = String::new();
    let mut known: BTreeMap<String, (String, String)> = BTreeMap::new();
    for verb in verbs() {
        for arg in verb.command.get_arguments() {
            let Some(long) = arg.get_long() else { continue };
            // Models in the laboratory, the machine's elsewhere.
            let is_model = long == "device" && value_name(arg).as_deref() != Some("DEVICE");
            let long = if is_model { "device of a model" } else { long };
            let takes = match value_name(arg) {
                // One of a kind, or several of it.
                Some(name) => name.trim_end_matches('S').to_owned(),
                None => format!("{:?}", arg.get_action()),
            };
            let (first, there) = known
                .entry(long.to_owned())
                .or_insert_with(|| (verb.words.clone(), takes.clone()));
            if *there != takes {
                wrong += &format!(
                    "--{long} of {first} and {}
",
                    verb.words
                );
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    for (long, takes) in [("output", "FILE"), ("budget", "SIZE"), ("root", "DIR")] {
        assert_eq!(known[long].1, takes, "--{long}");
    }
}

#[test]
fn a_letter_is_one_option() {
    for verb in verbs() {
        for arg in verb.command.get_arguments() {
            let Some(short) = arg.get_short() else {
                continue;
            };
            let long = arg.get_long().unwrap_or_default();
            assert!(SHORTS.contains(&(short, long)), "{} -{short}", verb.words);
        }
        let mut args = verb.command.get_arguments();
        let output = args.find(|arg| arg.get_long() == Some("output"));
        let is_short = output.is_none_or(|output| output.get_short() == Some('o'));
        assert!(is_short, "{}: --output is -o, too", verb.words);
    }
}

#[test]
fn a_command_comes_behind_two_dashes() {
    for verb in verbs() {
        for arg in verb.command.get_arguments() {
            let is_command = value_name(arg).as_deref() == Some("COMMAND");
            assert_eq!(is_command, arg.is_last_set(), "{} {arg}", verb.words);
        }
    }
}

#[test]
fn values_have_the_names_of_the_conventions() {
    for verb in verbs() {
        for arg in verb.command.get_arguments() {
            let Some(name) = value_name(arg) else {
                continue;
            };
            let is_known = VALUE_NAMES.contains(&&*name) || MORE_VALUE_NAMES.contains(&&*name);
            let is_listed = !arg.get_possible_values().is_empty();
            assert!(is_known || is_listed, "{} {arg}: {name}", verb.words);
        }
    }
}

#[test]
fn help_has_an_example_and_the_exit_status_within_80_columns() {
    let mut wrong = String::new();
    for mut verb in verbs() {
        let help = verb.command.render_long_help().to_string();
        let words = &verb.words;
        let mut lines = help.lines().map(str::trim_start);
        let begins = [words.clone(), format!("sudo {words}")];
        if !lines.any(|line| begins.iter().any(|begin| line.starts_with(begin))) {
            wrong += &format!("{words}: no example begins with it\n");
        }
        if !help.contains("Exit status:") {
            wrong += &format!("{words}: the help tells no exit status\n");
        }
        let long = help.lines().filter(|line| line.chars().count() > 80);
        long.for_each(|line| wrong += &format!("{words}: {line}\n"));
    }
    assert!(wrong.is_empty(), "{wrong}");
}
