// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tools of the system, run to their end.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::ModuleError;

/// Where tools of administrators are, also where an ordinary user's PATH lacks them.
const ADMINISTRATORS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];
/// Lines that are shown of what a failed tool printed.
const SAID_LINES: usize = 3;

/// The directories that tools are looked for in.
fn directories() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let own = env::split_paths(&path).collect::<Vec<_>>();
    own.into_iter()
        .chain(ADMINISTRATORS.map(PathBuf::from))
        .collect()
}

/// Whether there is a tool of this name.
pub fn has(tool: &str) -> bool {
    directories()
        .iter()
        .any(|directory| directory.join(tool).is_file())
}

/// Runs a command to its end, without input, and returns what it printed to standard output.
pub fn run<S: AsRef<OsStr>>(tool: &str, arguments: &[S]) -> Result<String, ModuleError> {
    let path = env::join_paths(directories()).unwrap_or_default();
    let mut command = Command::new(tool);
    command.args(arguments).env("PATH", path);
    // What it says is searched for the kernel's reasons.
    command.env("LC_ALL", "C").stdin(Stdio::null());
    let output = command.output().map_err(|source| ModuleError::Start {
        tool: tool.to_owned(),
        source,
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = [output.stdout, output.stderr].concat();
    let words: Vec<OsString> = arguments.iter().map(|word| word.as_ref().into()).collect();
    Err(ModuleError::Tool {
        command: line(tool, &words),
        said: end_of(&String::from_utf8_lossy(&said)),
    })
}

fn line(tool: &str, words: &[OsString]) -> String {
    let words = words.iter().map(|word| word.to_string_lossy().into_owned());
    let all: Vec<String> = [tool.to_owned()].into_iter().chain(words).collect();
    all.join(" ")
}

/// The last lines with text.
fn end_of(said: &str) -> String {
    let lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut last: Vec<&str> = lines.rev().take(SAID_LINES).collect();
    last.reverse();
    match last.is_empty() {
        true => "it printed nothing".to_owned(),
        false => last.join("; "),
    }
}

/// A path as the word of a command line that sets a variable of make.
pub fn assignment(name: &str, path: &Path) -> OsString {
    let mut word = OsString::from(name);
    word.push("=");
    word.push(path);
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_tool_is_quoted_with_the_end_of_what_it_said() {
        let script = "echo first; echo; echo second >&2; echo third; echo fourth; exit 3";
        let error = run("sh", &["-c", script]).expect_err("it fails");
        let ModuleError::Tool { command, said } = &error else {
            panic!("{error}");
        };
        assert!(command.starts_with("sh -c echo"), "{command}");
        // Standard output first, then standard error.
        assert_eq!(said, "third; fourth; second");
        assert!(matches!(
            run("no-such-tool-here", &["x"]),
            Err(ModuleError::Start { .. })
        ));
        assert_eq!(run("echo", &["a"]).expect("it runs"), "a\n");
        assert!(has("sh") && !has("no-such-tool-here"));
    }
}
