// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defaults of options, from files.
//!
//! In: the text of a file: TOML, a table for each verb, a key for each option by its long name.
//! Out: the parser of the command line with these values as its defaults, so that a value is
//! checked as one that was typed, and an option on the command line comes first. Does no I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use clap::{Arg, Command};
use thiserror::Error;
use toml::de::{DeTable, DeValue};

use crate::text::escaped_path;

/// The options that a file may set, by verb; "" is for all verbs. None of them names a file or a
/// device, changes a machine, or changes what a verb does: a script does the same with and without
/// a file.
pub const OPTIONS: [(&str, &str); 22] = [
    ("", "quiet"),
    ("run", "budget"),
    ("run", "recorder"),
    ("try", "runs"),
    ("try", "drop-caches"),
    ("try", "ignore-failure"),
    ("record", "recorder"),
    ("replay", "budget"),
    ("watch", "verbose"),
    ("stat", "by"),
    ("stat", "columns"),
    ("stat", "top"),
    ("probe", "max-time"),
    ("advise", "streams"),
    ("advise", "use"),
    ("apply", "streams"),
    ("apply", "use"),
    ("analyze", "held-back-over"),
    ("analyze", "worst"),
    ("check-kernel", "count"),
    ("demo", "device"),
    ("demo", "file-count"),
];

/// A file that can't be used.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// It isn't TOML.
    #[error("{path}: {reason}")]
    Text {
        /// The file.
        path: String,
        /// What the parser says, in one line.
        reason: String,
    },
    /// No file may set this.
    #[error("{path}: `{key}` is no option that a file can set; `foreread config` lists them")]
    Unknown {
        /// The file.
        path: String,
        /// Verb and option.
        key: String,
    },
    /// The value isn't of a kind that an option can have.
    #[error("{path}: `{key}` is a text, a number, true, or a list of texts")]
    Value {
        /// The file.
        path: String,
        /// Verb and option.
        key: String,
    },
}

/// Where a value is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    /// As it would be typed.
    pub value: String,
    /// The file.
    pub file: PathBuf,
}

/// Values by verb and option.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Defaults {
    set: BTreeMap<(String, String), Set>,
}

impl Defaults {
    /// Adds what a file sets; it replaces what an earlier file has set.
    ///
    /// # Errors
    /// [`ConfigError`] at the first key that can't be used; nothing of the file is added then.
    pub fn add(&mut self, path: &Path, text: &str) -> Result<(), ConfigError> {
        let shown = || escaped_path(path);
        let table = DeTable::parse(text).map_err(|error| ConfigError::Text {
            path: shown(),
            reason: error.message().to_owned(),
        })?;
        let mut added = BTreeMap::new();
        let mut take = |verb: &str, option: &str, value: &DeValue<'_>| {
            let key = match verb {
                "" => option.to_owned(),
                verb => format!("{verb}.{option}"),
            };
            if !OPTIONS.contains(&(verb, option)) {
                return Err(ConfigError::Unknown { path: shown(), key });
            }
            let Some(value) = typed(value) else {
                return Err(ConfigError::Value { path: shown(), key });
            };
            let file = path.to_owned();
            added.insert((verb.to_owned(), option.to_owned()), Set { value, file });
            Ok(())
        };
        for (key, value) in table.get_ref() {
            match value.get_ref() {
                DeValue::Table(options) => {
                    for (option, value) in options {
                        take(key.get_ref(), option.get_ref(), value.get_ref())?;
                    }
                }
                value => take("", key.get_ref(), value)?,
            }
        }
        self.set.extend(added);
        Ok(())
    }

    /// What a file sets for this option.
    pub fn get(&self, verb: &str, option: &str) -> Option<&Set> {
        self.set.get(&(verb.to_owned(), option.to_owned()))
    }

    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        self.set.is_empty()
    }

    /// The files that set something, in a form to print.
    pub fn files(&self) -> String {
        let files: BTreeSet<String> = self
            .set
            .values()
            .map(|set| escaped_path(&set.file))
            .collect();
        files.into_iter().collect::<Vec<_>>().join(" and ")
    }

    /// The parser with these defaults.
    pub fn apply(&self, mut command: Command) -> Command {
        for ((verb, option), set) in &self.set {
            let value: &'static str = String::leak(set.value.clone());
            let with = |command: Command| match id_of(&command, option) {
                Some(id) => command.mut_arg(id, |arg| with_default(arg, value)),
                // Not there in this parser.
                None => command,
            };
            command = match &**verb {
                "" => with(command),
                verb if command.find_subcommand(verb).is_none() => command,
                verb => command.mut_subcommand(verb, with),
            };
        }
        command
    }
}

fn with_default(arg: Arg, value: &'static str) -> Arg {
    match arg.get_value_delimiter() {
        Some(delimiter) => arg.default_values(value.split(delimiter)),
        None => arg.default_value(value),
    }
}

/// How the parser calls the option.
pub fn id_of(command: &Command, option: &str) -> Option<String> {
    let mut args = command.get_arguments();
    let arg = args.find(|arg| arg.get_long() == Some(option))?;
    Some(arg.get_id().to_string())
}

/// A value as it would be typed.
fn typed(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.as_str().to_owned()),
        DeValue::Boolean(value) => Some(value.to_string()),
        DeValue::Array(values) => {
            let values: Option<Vec<String>> =
                values.iter().map(|value| typed(value.get_ref())).collect();
            Some(values?.join(","))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Arguments, Verb};
    use clap::{CommandFactory, FromArgMatches};

    fn parsed(text: &str, words: &[&str]) -> Result<Verb, clap::Error> {
        let mut defaults = Defaults::default();
        defaults
            .add(Path::new("f.toml"), text)
            .expect("it can be used");
        let command = defaults.apply(Arguments::command());
        let matches = command.try_get_matches_from([&["foreread"], words].concat())?;
        Ok(Arguments::from_arg_matches(&matches)?.verb)
    }

    #[test]
    fn each_option_of_the_list_is_there() {
        let mut command = Arguments::command();
        command.build();
        for (verb, option) in OPTIONS {
            let found = match verb {
                "" => id_of(&command, option),
                verb => command
                    .find_subcommand(verb)
                    .and_then(|verb| id_of(verb, option)),
            };
            assert!(found.is_some(), "{verb} --{option}");
        }
    }

    #[test]
    fn a_file_sets_defaults_and_the_command_line_comes_first() {
        let text = "quiet = true\n[run]\nbudget = \"2M\"\n[stat]\nby = [\"process\", \"kind\"]\n\
                    top = 5\n";
        let budget = |words: &[&str]| match parsed(text, words).expect("it is parsed") {
            Verb::Run(arguments) => arguments.budget.map(|bytes| bytes.count()),
            other => panic!("{other:?}"),
        };
        assert_eq!(budget(&["run", "--", "x"]), Some(2 << 20));
        assert_eq!(budget(&["run", "--budget", "1M", "--", "x"]), Some(1 << 20));
        match parsed(text, &["stat"]).expect("it is parsed") {
            Verb::Stat(arguments) => {
                let by = arguments.by();
                assert_eq!((by.process, by.kind, by.device), (true, true, false));
                assert_eq!(arguments.top, 5);
            }
            other => panic!("{other:?}"),
        }
        assert!(parsed("[run]\nbudget = \"2\"\n", &["run", "--", "x"]).is_err());
    }

    #[test]
    fn what_can_not_be_used_is_told_with_its_file() {
        for (text, told) in [
            ("[run", "f.toml: "),
            ("[run]\nbudgt = 1\n", "`run.budgt`"),
            ("[apply]\nall = true\n", "`apply.all`"),
            ("fast = true\n", "`fast`"),
            ("[run]\nbudget = 2026-01-01\n", "`run.budget` is a text"),
        ] {
            let mut defaults = Defaults::default();
            let error = defaults.add(Path::new("f.toml"), text).unwrap_err();
            let error = error.to_string();
            assert!(error.contains(told), "{error}");
            assert!(!error.contains('\n'), "{error}");
            assert_eq!(defaults, Defaults::default());
        }
    }
}
