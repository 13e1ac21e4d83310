// SPDX-License-Identifier: MIT OR Apache-2.0
//! The house rules of the tree that no compiler checks: pure functions from a file's path and text
//! to findings. `tests/tree.rs` runs them over the tracked files.
#![forbid(unsafe_code)]

pub mod arrows;
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
    /// What is wrong, and what would be right.
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

/// The names of the verbs in what `foreread --help` prints, but for `help` itself.
#[must_use]
pub fn verbs(help: &str) -> Vec<&str> {
    help.lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty() && line.starts_with(' '))
        // A description that is wrapped is indented further.
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|verb| *verb != "help")
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_are_the_first_words_under_commands() {
        let help = "Makes cold reads fast.\n\nUsage: foreread <COMMAND>\n\nCommands:\n  \
                    run     Records, then replays\n          and refreshes\n  doctor  What is \
                    missing\n  help    Print this\n\nOptions:\n  -h, --help\n";
        assert_eq!(verbs(help), ["run", "doctor"]);
        assert_eq!(verbs("no list here"), Vec::<&str>::new());
    }
}
