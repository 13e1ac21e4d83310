// SPDX-License-Identifier: MIT OR Apache-2.0
//! The scripts that a command line runs, by what they are.
//!
//! An interpreter reads what its script tells it to. So a profile holds for one content of it, and
//! not for a place only. Not every argument that names a file is a script: `grep` reads a file, but
//! does nothing that stands in it.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use foreread_profile::Script;

/// Programs whose first operand that is a file tells them what to do. A version may follow the
/// name, such as in `python3.12`.
const INTERPRETERS: [&str; 25] = [
    "ash", "bash", "bun", "busybox", "csh", "dash", "deno", "expect", "fish", "guile", "julia",
    "ksh", "lua", "mksh", "node", "nodejs", "perl", "php", "pypy", "python", "Rscript", "ruby",
    "sh", "tclsh", "zsh",
];

/// Programs that take a file of what to do after `-f`.
const BY_OPTION: [&str; 7] = ["awk", "gawk", "gmake", "make", "mawk", "sed", "gnuplot"];

/// Programs that run the command behind their own options.
const WRAPPERS: [&str; 12] = [
    "chrt", "doas", "env", "ionice", "nice", "nohup", "setsid", "stdbuf", "sudo", "taskset",
    "time", "timeout",
];

/// Length of the part that is checksummed at the beginning of a script, and at its end, in bytes.
const PART_BYTES: u64 = 256 << 10;

/// The scripts of a command line whose executable is known.
pub fn of(executable: &Path, arguments: &[OsString]) -> Vec<Script> {
    let rest = arguments.get(1..).unwrap_or_default();
    let found = match is_script(executable) {
        true => Some(executable),
        false => among(executable, rest),
    };
    found.and_then(|path| read(path).ok()).into_iter().collect()
}

/// The script among the arguments of a program.
fn among<'a>(program: &Path, arguments: &'a [OsString]) -> Option<&'a Path> {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let is_one_of = |names: &[&str]| names.contains(&plain) || names.contains(&&*name);
    if is_one_of(&WRAPPERS) {
        let command = arguments
            .iter()
            .position(|word| is_program(Path::new(word)))?;
        let (word, rest) = arguments.get(command..)?.split_first()?;
        let path = Path::new(word);
        return match is_script(path) {
            true => Some(path),
            false => among(path, rest),
        };
    }
    if is_one_of(&BY_OPTION) {
        let option = arguments.iter().position(|word| word == "-f")?;
        return arguments.get(option + 1).map(Path::new);
    }
    if !is_one_of(&INTERPRETERS) {
        return None;
    }
    // The text that follows them is a part of the command line.
    let takes_text = |word: &OsString| word == "-c" || word == "-e" || word == "-m";
    let until = arguments.iter().position(takes_text);
    let mut paths = arguments[..until.unwrap_or(arguments.len())]
        .iter()
        .map(Path::new);
    paths.find(|path| !path.as_os_str().as_bytes().starts_with(b"-") && path.is_file())
}

/// Whether a word behind a wrapper is what it runs, by its name or by its first line.
fn is_program(word: &Path) -> bool {
    let name = word.file_name().unwrap_or_default().to_string_lossy();
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let is_named = |name: &str| {
        let lists = [&INTERPRETERS[..], &BY_OPTION[..], &WRAPPERS[..]];
        lists.concat().contains(&name)
    };
    is_named(plain) || is_named(&name) || is_script(word)
}

/// Whether a file says in its first line what runs it.
fn is_script(path: &Path) -> bool {
    let mut start = [0; 2];
    open(path).is_ok_and(|mut file| file.read_exact(&mut start).is_ok() && &start == b"#!")
}

/// A regular file: a FIFO mustn't block.
fn open(path: &Path) -> io::Result<File> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let no_wait = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = fs::OpenOptions::new()
        .read(true)
        .custom_flags(no_wait)
        .open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::ErrorKind::InvalidInput.into()),
    }
}

fn read(path: &Path) -> io::Result<Script> {
    let mut file = open(path)?;
    let size_bytes = file.metadata()?.len();
    let mut content = Vec::new();
    Read::by_ref(&mut file)
        .take(PART_BYTES)
        .read_to_end(&mut content)?;
    let end_bytes = size_bytes.saturating_sub(PART_BYTES).min(PART_BYTES);
    file.seek(SeekFrom::Start(size_bytes - end_bytes.min(size_bytes)))?;
    file.take(end_bytes).read_to_end(&mut content)?;
    let canonical = fs::canonicalize(path)?;
    Ok(Script {
        path: canonical.as_os_str().as_bytes().to_vec(),
        size_bytes,
        checksum: crc32fast::hash(&content),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scripts(executable: &str, arguments: &[&str]) -> Vec<Script> {
        let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        of(Path::new(executable), &arguments)
    }

    #[test]
    fn scripts_are_found_and_files_that_are_only_read_are_not() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str, content: &str| {
            let path = directory.path().join(name);
            fs::write(&path, content).expect("a file");
            path.into_os_string().into_string().expect("a plain name")
        };
        let script = path("build", "#!/bin/sh\nexit 0\n");
        let plain = path("plain.py", "import os\n");
        let cases: [(&str, &[&str], &[&str]); 14] = [
            (&script, &["build", &plain], &[&script]),
            ("/bin/sh", &["sh", &script, &plain], &[&script]),
            ("/bin/sh", &["sh", "-eu", &script], &[&script]),
            ("/bin/sh", &["sh", "-c", &script], &[]),
            ("/usr/bin/python3.12", &["python3", &plain], &[&plain]),
            (
                "/usr/bin/python3",
                &["python3", "-m", "http.server", &plain],
                &[],
            ),
            ("/usr/bin/perl", &["perl", "-I", "/usr", &plain], &[&plain]),
            ("/usr/bin/grep", &["grep", "import", &plain], &[]),
            ("/usr/bin/cat", &["cat", &script], &[]),
            ("/usr/bin/make", &["make", "-f", &plain, "all"], &[&plain]),
            (
                "/usr/bin/env",
                &["env", "A=1", "python3", &plain],
                &[&plain],
            ),
            ("/usr/bin/nice", &["nice", "-n", "5", &script], &[&script]),
            ("/usr/bin/env", &["env", "cat", &plain], &[]),
            ("/bin/sh", &["sh", "/no/such/script"], &[]),
        ];
        for (executable, arguments, expected) in cases {
            let found = scripts(executable, arguments);
            let paths: Vec<_> = found.iter().map(|script| script.path.clone()).collect();
            let canonical = |path: &&str| fs::canonicalize(path).expect("a file that exists");
            let expected: Vec<_> = expected.iter().map(canonical).collect();
            let expected: Vec<_> = expected.iter().map(|p| p.as_os_str().as_bytes()).collect();
            assert_eq!(paths, expected, "{executable} {arguments:?}");
        }
    }

    #[test]
    fn the_content_makes_the_difference_wherever_it_changes() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("script");
        let identity = |content: &[u8]| {
            fs::write(&path, content).expect("a file");
            read(&path).expect("a script")
        };
        let long = vec![b'x'; 300 << 10];
        let one = identity(&long);
        assert_eq!(identity(&long), one, "written anew");
        for at in [0, 1000, 256 << 10, (300 << 10) - 1] {
            let mut changed = long.clone();
            changed[at] = b'y';
            assert_ne!(identity(&changed), one, "at {at}");
        }
        assert_ne!(identity(&long[1..]), one);
        assert_eq!(identity(b"").size_bytes, 0);
        assert!(read(directory.path()).is_err());
    }
}
