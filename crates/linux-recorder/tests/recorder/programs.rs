// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pages that the kernel and the dynamic linker read to run a program.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use foreread_profile::{NodeKind, Uses};

use crate::setting::{Place, evict, make, or_skip, record};

/// The libraries that `ldd` lists, with the paths that it prints.
fn libraries(program: &Path) -> Vec<PathBuf> {
    let output = Command::new("ldd").arg(program).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.split_whitespace()
        .filter(|word| word.starts_with('/'))
        .map(PathBuf::from)
        .collect()
}

fn copy_of(place: &Place, program: &str) -> PathBuf {
    let copy = place.join(Path::new(program).file_name().unwrap());
    fs::copy(program, &copy).unwrap();
    fs::File::open(&copy).unwrap().sync_all().unwrap();
    copy
}

#[test]
fn the_executable_its_linker_and_its_libraries_are_seen_cold_and_warm() {
    let place = or_skip!(Place::new());
    let program = copy_of(&place, "/bin/ls");
    let libraries = libraries(&program);
    assert!(libraries.len() >= 2, "{libraries:?}");
    for state in ["cold", "warm"] {
        if state == "cold" {
            evict(&program);
        }
        let recorded = record(Command::new(&program).arg(place.path()));
        let uses = recorded.uses(&program);
        assert!(
            uses.contains(Uses::EXECUTED.union(Uses::OPENED)),
            "{state}: {uses:?}"
        );
        let pages = recorded.pages(&program);
        assert!(
            pages.first().is_some_and(|(start, _)| *start == 0),
            "{state}: {pages:?}"
        );
        for library in &libraries {
            let real = fs::canonicalize(library).unwrap();
            let pages = recorded.pages(&real);
            assert!(!pages.is_empty(), "{state}: {}", real.display());
            assert!(pages[0].0 == 0, "{state}: the header of {}", real.display());
        }
    }
}

/// Every symlink on the way from the root is in the profile as one.
fn assert_links_of(recorded: &crate::setting::Recorded, path: &Path) {
    let mut at = PathBuf::from("/");
    for name in path.components().skip(1) {
        let next = at.join(name);
        if next.is_symlink() {
            let kind = recorded.kind(&next);
            assert_eq!(
                kind,
                Some(NodeKind::Symlink),
                "{} in {}",
                next.display(),
                path.display()
            );
        }
        at = fs::canonicalize(&next).unwrap();
    }
    assert!(recorded.kind(&at).is_some(), "{}", at.display());
}

#[test]
fn symlinks_on_the_way_to_program_linker_and_libraries_are_seen() {
    let place = or_skip!(Place::new());
    let recorded = record(Command::new("/bin/ls").arg(place.path()));
    assert_links_of(&recorded, Path::new("/bin/ls"));
    for library in libraries(Path::new("/bin/ls")) {
        assert_links_of(&recorded, &library);
    }
}

#[test]
fn a_script_and_its_interpreter_are_seen() {
    let place = or_skip!(Place::new());
    let read = make(&place.join("read"), 4096);
    let script = place.join("script");
    fs::write(
        &script,
        format!("#!/bin/sh\ncat {} >/dev/null\n", read.display()),
    )
    .unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    fs::File::open(&script).unwrap().sync_all().unwrap();
    for state in ["cold", "warm"] {
        if state == "cold" {
            evict(&script);
        }
        let recorded = record(&mut Command::new(&script));
        assert!(recorded.uses(&script).contains(Uses::EXECUTED), "{state}");
        assert_eq!(recorded.pages(&script), [(0, 1)], "{state}");
        assert_eq!(recorded.pages(&read), [(0, 1)], "{state}");
        assert_links_of(&recorded, Path::new("/bin/sh"));
        let shell = fs::canonicalize("/bin/sh").unwrap();
        assert!(recorded.uses(&shell).contains(Uses::EXECUTED), "{state}");
        assert!(!recorded.pages(&shell).is_empty(), "{state}");
        let cat = fs::canonicalize("/bin/cat").unwrap();
        assert!(recorded.uses(&cat).contains(Uses::EXECUTED), "{state}");
    }
}

#[test]
fn directories_of_path_without_the_program_are_absent_names() {
    let place = or_skip!(Place::new());
    for name in ["one", "two"] {
        fs::create_dir(place.join(name)).unwrap();
    }
    let path = format!("{0}/one:{0}/two:/usr/bin:/bin", place.path().display());
    let mut command = Command::new("/bin/sh");
    let recorded = record(
        command
            .args(["-c", "true; head -c 0 /dev/null"])
            .env("PATH", path),
    );
    for name in ["one/head", "two/head"] {
        assert_eq!(
            recorded.kind(place.join(name)),
            Some(NodeKind::Absent),
            "{name}"
        );
    }
}
