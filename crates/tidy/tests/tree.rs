// SPDX-License-Identifier: MIT OR Apache-2.0
//! The house rules over all tracked files. A failure names file, line and remedy.
#![forbid(unsafe_code)]

use foreread_tidy::arrows::against_the_arrows;
use foreread_tidy::circles::circles;
use foreread_tidy::links::{Tree, dead_links};
use foreread_tidy::{Finding, source, verbs};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The tracked files, or why there are none to look at.
fn tracked() -> Result<Tree, String> {
    // The owner of a checkout in a container is often another user; git would refuse.
    let git = Command::new("git")
        .args(["-c", "safe.directory=*", "ls-files", "-z"])
        .current_dir(top())
        .output()
        .map_err(|error| format!("git does not run: {error}"))?;
    if !git.status.success() {
        return Err(format!(
            "no list of files: {}",
            String::from_utf8_lossy(&git.stderr).trim()
        ));
    }
    let paths = String::from_utf8_lossy(&git.stdout).into_owned();
    let paths = paths.split('\0').filter(|path| !path.is_empty());
    // A file that is deleted but not yet committed is in the list and not on the disk.
    let present = paths.filter(|path| top().join(path).symlink_metadata().is_ok());
    Ok(present
        .map(|path| (path.to_owned(), fs::read_to_string(top().join(path)).ok()))
        .collect())
}

/// Applies `rule` to every tracked text and fails with all its findings.
fn check(rule: impl Fn(&str, &str, &Tree) -> Vec<Finding>) {
    let tree = match tracked() {
        Ok(tree) => tree,
        Err(reason) => {
            println!("skipped: {reason}");
            return;
        }
    };
    let texts = tree
        .iter()
        .filter_map(|(path, text)| Some((path, text.as_ref()?)));
    let findings: Vec<String> = texts
        .flat_map(|(path, text)| rule(path, text, &tree))
        .map(|finding| finding.to_string())
        .collect();
    assert!(
        findings.is_empty(),
        "{} finding(s):\n{}",
        findings.len(),
        findings.join("\n")
    );
}

#[test]
fn sources_start_with_their_licence() {
    check(|path, text, _| source::licence_line(path, text));
}

#[test]
fn lines_fit_the_columns() {
    check(|path, text, _| source::long_lines(path, text));
}

#[test]
fn lines_end_without_blanks() {
    check(|path, text, _| source::trailing_space(path, text));
}

#[test]
fn nothing_is_marked_unfinished() {
    check(|path, text, _| source::unfinished(path, text));
}

#[test]
fn crates_forbid_unsafe() {
    check(|path, text, _| source::forbids_unsafe(path, text));
}

#[test]
fn every_unsafe_has_its_reason() {
    check(|path, text, _| source::unsafe_reasons(path, text));
}

#[test]
fn links_lead_somewhere() {
    check(dead_links);
}

#[test]
fn arrows_between_crates_point_one_way() {
    check(|path, text, _| against_the_arrows(path, text));
}

#[test]
fn files_of_a_crate_do_not_need_each_other_in_circles() {
    let tree = match tracked() {
        Ok(tree) => tree,
        Err(reason) => {
            println!("skipped: {reason}");
            return;
        }
    };
    let mut crates: BTreeMap<&str, BTreeMap<&str, &str>> = BTreeMap::new();
    for (path, text) in &tree {
        let of_crate = path
            .strip_prefix("crates/")
            .and_then(|rest| rest.split_once("/src/"));
        if let (Some((name, file)), Some(text)) = (of_crate, text)
            && file.ends_with(".rs")
            && !file.starts_with("bin/")
        {
            crates.entry(name).or_default().insert(file, text);
        }
    }
    assert!(crates.len() > 20, "{:?}", crates.keys());
    let mut found = Vec::new();
    for (name, files) in crates {
        let circles = circles(&files).expect("sources are Rust");
        found.extend(
            circles
                .iter()
                .map(|circle| format!("crates/{name}/src: {}", circle.join(" <-> "))),
        );
    }
    assert!(
        found.is_empty(),
        "files that need each other; move what both need into a file of its own:\n{}",
        found.join("\n")
    );
}

#[test]
fn every_verb_has_its_page() {
    let path = "crates/cli/src/args.rs";
    let verbs = verbs(&fs::read_to_string(top().join(path)).expect(path));
    assert!(verbs.len() > 10, "{path}: {verbs:?}");
    let page = |verb: &&String| top().join(format!("docs/{verb}.md")).is_file();
    let without: Vec<&String> = verbs.iter().filter(|verb| !page(verb)).collect();
    assert!(
        without.is_empty(),
        "verbs without a page docs/VERB.md: {without:?}"
    );
}

#[test]
fn the_package_is_of_this_version_and_names_files_that_are_there() {
    let read = |path: &str| fs::read_to_string(top().join(path)).expect(path);
    let manifest = read("Cargo.toml");
    let version = manifest
        .lines()
        .find_map(|line| line.strip_prefix("version = \""));
    let version = version.and_then(|rest| rest.strip_suffix('"'));
    let version = version.expect("Cargo.toml names a version");
    let head = format!("foreread ({version}) ");
    assert!(
        read("debian/changelog").starts_with(&head),
        "the first line of debian/changelog begins with {head:?}"
    );
    for (path, line) in [
        ("module/dkms.conf", format!("PACKAGE_VERSION=\"{version}\"")),
        (
            "module/version.h",
            format!("#define FM_VERSION \"{version}\""),
        ),
    ] {
        let has = read(path).lines().any(|found| found == line);
        assert!(has, "{path} has no line {line:?}");
    }
    for path in read("debian/foreread.docs").lines() {
        assert!(
            top().join(path).exists(),
            "debian/foreread.docs names {path}"
        );
    }
    let makefile = read("Makefile");
    for path in makefile.split_whitespace() {
        let is_shipped = ["packaging/", "scripts/", "tests/"]
            .iter()
            .any(|top| path.starts_with(top));
        assert!(
            !is_shipped || top().join(path).exists(),
            "the Makefile names {path}"
        );
    }
}

#[test]
fn the_kernel_module_has_one_list_of_tested_kernels() {
    let read = |path: &str| fs::read_to_string(top().join(path)).expect(path);
    // `(6, 1), (6, 12)` of Rust, from which the others follow.
    let path = "crates/linux-module/src/tested.rs";
    let text = read(path);
    let list = text
        .lines()
        .find_map(|line| line.strip_prefix("pub const TESTED: "));
    let list = list.and_then(|line| line.split_once("= [")?.1.strip_suffix("];"));
    let list = list.unwrap_or_else(|| panic!("{path} has no TESTED"));
    let series: Vec<(&str, &str)> = list
        .split("), ")
        .filter_map(|pair| pair.trim_matches(['(', ')']).split_once(", "))
        .collect();
    assert!(series.len() > 1, "{list}");
    let joined = |pair: fn(&(&str, &str)) -> String, between: &str| {
        series.iter().map(pair).collect::<Vec<_>>().join(between)
    };
    let macros = joined(|(a, b)| format!("FM_SERIES({a}, {b})"), " || ");
    let names = joined(|(a, b)| format!("{a}.{b}"), " ");
    for (path, wanted) in [
        ("module/compat.h", format!("FM_KERNEL_IS_KNOWN ({macros})")),
        ("module/Kbuild", format!("tested := {names}\n")),
    ] {
        assert!(read(path).contains(&wanted), "{path} lacks {wanted}");
    }
}
