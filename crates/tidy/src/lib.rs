// SPDX-License-Identifier: MIT OR Apache-2.0
//! The house rules of the tree that no compiler checks: pure functions from a file's path and text
//! to findings. `tests/tree.rs` runs them over the tracked files.
#![forbid(unsafe_code)]

pub mod arrows;
pub mod circles;
pub mod links;
pub mod source;

use std::fmt;

/// A place that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file, from the top of the tree.
    pub path: String,
    /// The line, from 1.
    pub line: usize,
    /// The error, and the remedy.
    pub what: String,
}

impl Finding {
    /// A finding in `path` at `line`, counted from 1.
    #[must_use]
    pub fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line,
            what: what.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// The verbs that the command line declares: the variants of `enum Verb`, as they are typed.
/// Hidden ones are left out.
#[must_use]
pub fn verbs(source: &str) -> Vec<String> {
    let mut verbs = Vec::new();
    let mut is_hidden = false;
    let lines = source
        .lines()
        .skip_while(|line| *line != "pub enum Verb {")
        .skip(1)
        .take_while(|line| *line != "}");
    for line in lines.map(str::trim) {
        if line.starts_with("#[") {
            is_hidden |= line.contains("hide = true");
        } else if let Some((name, _)) = line.split_once('(').filter(|_| !line.starts_with('/')) {
            if !is_hidden {
                verbs.push(typed(name));
            }
            is_hidden = false;
        }
    }
    verbs
}

/// `CheckKernel` as `check-kernel`.
fn typed(name: &str) -> String {
    let mut typed = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !typed.is_empty() {
            typed.push('-');
        }
        typed.push(c.to_ascii_lowercase());
    }
    typed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_are_the_variants_that_are_not_hidden() {
        let source = "/// No verb.\npub enum Other {\n    A(B),\n}\npub enum Verb {\n    /// Run (a \
                      command).\n    Run(RunArguments),\n    CheckKernel(C),\n    \
                      #[command(hide = true)]\n    Package(P),\n    Demo(D),\n}\n";
        assert_eq!(verbs(source), ["run", "check-kernel", "demo"]);
        assert_eq!(verbs("no list here"), Vec::<String>::new());
    }
}
