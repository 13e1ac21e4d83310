// SPDX-License-Identifier: MIT OR Apache-2.0
//! `scripts/unlisted-skips.sh`, by which continuous integration finds tests that it begins to skip.
#![forbid(unsafe_code)]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// The skips that this list does not have.
fn unlisted(list: &Path, skips: &str) -> String {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut script = Command::new("bash")
        .arg(top.join("scripts/unlisted-skips.sh"))
        .arg(list)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("bash starts");
    let mut stdin = script.stdin.take().expect("a pipe");
    stdin.write_all(skips.as_bytes()).expect("it reads");
    drop(stdin);
    let output = script.wait_with_output().expect("it ends");
    assert!(output.status.success());
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn a_skip_needs_its_program_its_test_and_its_reason_in_the_list() {
    let list = std::env::temp_dir().join(format!("foreread-skips-{}", std::process::id()));
    std::fs::write(
        &list,
        "# A reason.\n\nprobe a_b: no tool here\nwatch c: *No space*\n",
    )
    .expect("it is written");
    let skips = "  probe a_b: no tool here\n  watch c: write: No space left\n\
                 \x20 probe a_b: another reason\n  probe a_c: no tool here\n  other a_b: no tool here\n";
    let found = unlisted(&list, skips);
    std::fs::remove_file(&list).expect("it is there");
    assert_eq!(
        found,
        "probe a_b: another reason\nprobe a_c: no tool here\nother a_b: no tool here\n"
    );
}

#[test]
fn the_list_of_this_repository_has_a_reason_for_each_entry() {
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/skips.list");
    let text = std::fs::read_to_string(&list).expect("a list");
    let mut entries = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    assert!(entries.clone().count() > 0);
    assert!(entries.all(|entry| entry.contains(": ") && unlisted(&list, entry).is_empty()));
}
