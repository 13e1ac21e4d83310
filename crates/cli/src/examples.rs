// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each command line of `foreread` in help texts, README and docs is one that the parser takes.
//!
//! A line counts when it stands in a code block, or behind "Example:" in a help text, and begins
//! with `foreread` or `sudo foreread`, with a prompt before it or without.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory, Parser, error::ErrorKind};

use crate::args::Arguments;

/// A command line, and where it stands.
struct Example {
    at: String,
    words: Vec<String>,
}

/// The words as a shell has them, up to a comment or the end of the command.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut last = ' ';
    for c in line.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => word.get_or_insert_default().push(c),
            None => match c {
                '\'' | '"' => {
                    quote = Some(c);
                    word.get_or_insert_default();
                }
                // Help texts have their explanations behind two spaces.
                ' ' if last == ' ' && !words.is_empty() => break,
                ' ' => words.extend(word.take()),
                '#' if word.is_none() => break,
                '|' | ';' | '>' | '<' | '&' => break,
                c => word.get_or_insert_default().push(c),
            },
        }
        last = c;
    }
    words.extend(word);
    words
}

/// The command line of a line of text, if that is one.
fn command_line(line: &str) -> Option<Vec<String>> {
    let line = line.trim_start().trim_start_matches("$ ");
    let line = line.strip_prefix("sudo ").unwrap_or(line);
    let words = words(line);
    // A line of a synopsis, or with something left out, is none to type.
    let is_form = line.contains(['[', '…']) || line.contains("...");
    (words.first()? == "foreread" && words.len() > 1 && !is_form).then_some(words)
}

fn of_help(command: &Command, examples: &mut Vec<Example>) {
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        let help = verb
            .get_after_help()
            .map(ToString::to_string)
            .unwrap_or_default();
        let lines = help.lines().filter(|line| line.starts_with("  "));
        examples.extend(lines.filter_map(|line| {
            Some(Example {
                at: format!("help of {}", verb.get_name()),
                words: command_line(line)?,
            })
        }));
        of_help(verb, examples);
    }
}

fn of_page(path: &Path, examples: &mut Vec<Example>) {
    let text = fs::read_to_string(path).expect("a page");
    // A line that ends with a backslash goes on.
    let text = text.replace("\\\n", " ");
    let mut is_fenced = false;
    for line in text.lines() {
        if line.starts_with("```") {
            is_fenced = !is_fenced;
        }
        if !is_fenced && !line.starts_with("    ") {
            continue;
        }
        if let Some(words) = command_line(line) {
            let at = format!("{}: {line}", path.display());
            examples.push(Example { at, words });
        }
    }
}

fn pages() -> Vec<PathBuf> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docs = fs::read_dir(top.join("docs")).expect("docs").flatten();
    let mut pages: Vec<PathBuf> = docs.map(|entry| entry.path()).collect();
    pages.retain(|path| path.extension().is_some_and(|end| end == "md"));
    pages.push(top.join("README.md"));
    pages
}

#[test]
fn each_example_is_one_that_the_parser_takes() {
    let mut examples = Vec::new();
    of_help(&Arguments::command(), &mut examples);
    assert!(examples.len() > 50, "{}", examples.len());
    pages().iter().for_each(|page| of_page(page, &mut examples));
    assert!(examples.len() > 150, "{}", examples.len());
    let wrong =
        examples
            .iter()
            .filter_map(|example| match Arguments::try_parse_from(&example.words) {
                Err(error) if error.kind() != ErrorKind::DisplayHelp => {
                    let why = error.to_string();
                    let why = why.lines().next().unwrap_or_default().to_owned();
                    Some(format!(
                        "{}\n    {:?}\n    {why}\n",
                        example.at, example.words
                    ))
                }
                _ => None,
            });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.concat());
}

#[test]
fn a_line_is_read_as_a_shell_reads_it() {
    let of = |line: &str| command_line(line).unwrap_or_default().join("|");
    assert_eq!(
        of("    $ sudo foreread run -- a 'b c' | d"),
        "foreread|run|--|a|b c"
    );
    assert_eq!(of("  foreread stat 1      by device"), "foreread|stat|1");
    assert_eq!(of("foreread show x # all"), "foreread|show|x");
    assert_eq!(of("foreread run [OPTIONS]"), "");
    assert_eq!(of("foreread: recorded"), "");
}
