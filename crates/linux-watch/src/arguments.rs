// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the directories that the arguments of a process name.
//!
//! Arguments are compared as text and never looked up, so file systems that the program may not use
//! get no request.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// Maximum number of arguments that are compared.
const ARGUMENTS_MAX: usize = 256;

/// The topmost directory that an argument names: this one, or one of those up to `levels` above it.
pub(super) fn topmost_named(process: u32, directory: &Path, levels: usize) -> Option<PathBuf> {
    let line = fs::read(format!("/proc/{process}/cmdline")).ok()?;
    let current = fs::read_link(format!("/proc/{process}/cwd")).ok()?;
    let named = named(&line, &current);
    let above = directory.ancestors().take(levels + 1);
    let found = above.filter(|path| named.iter().any(|named| named == path));
    found.last().map(Path::to_owned)
}

fn named(line: &[u8], current: &Path) -> Vec<PathBuf> {
    let arguments = line.split(|byte| *byte == 0).skip(1).take(ARGUMENTS_MAX);
    arguments
        .filter(|argument| !argument.is_empty())
        .map(|argument| plain(&current.join(OsStr::from_bytes(argument))))
        .collect()
}

/// The path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_paths_from_where_the_process_is() {
        let named = named(b"cp\0-r\0sub/\0/a/./b/\0../up\0.\0\0", Path::new("/home/u"));
        let expected = ["/home/u/-r", "/home/u/sub", "/a/b", "/home/up", "/home/u"];
        assert_eq!(named, expected.map(PathBuf::from));
    }

    #[test]
    fn the_topmost_of_those_above_counts() {
        let top = std::env::temp_dir();
        let mut child = std::process::Command::new("sh")
            .args(["-c", "read line", "sh"])
            .args([top.join("a"), top.join("a/b"), top.join("x")])
            .current_dir("/")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        // It is started before it has its arguments.
        let line = format!("/proc/{}/cmdline", child.id());
        while fs::read(&line).unwrap().is_empty() {
            std::thread::yield_now();
        }
        let of = |levels| topmost_named(child.id(), &top.join("a/b/c"), levels);
        let found = [of(0), of(1), of(8)];
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(found, [None, Some(top.join("a/b")), Some(top.join("a"))]);
        assert_eq!(topmost_named(u32::MAX, &top, 8), None);
    }
}
