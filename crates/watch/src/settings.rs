// SPDX-License-Identifier: MIT OR Apache-2.0
//! The settings of `watch`, from the text of its file.

use std::ops::Range;

use foreread_core::{Bytes, Unit, parse_size};
use thiserror::Error;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::excluded::Excluded;

/// Keys of the file.
const KEYS: [&str; 7] = [
    "budget",
    "cgroup",
    "dry_run",
    "exclude_paths",
    "exclude_programs",
    "log",
    "profiles",
];

/// Settings from a file. A missing key has the value that holds without a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Most bytes that are in memory ahead of one program.
    pub budget_bytes: Option<u64>,
    /// Absolute path of the cgroup that is watched; every process where there is none.
    pub cgroup: Option<String>,
    /// Fetch nothing.
    pub is_dry_run: bool,
    /// Absolute path of the log, or `-`.
    pub log: Option<String>,
    /// Whether profiles are replayed ahead of the programs that follow them.
    pub uses_profiles: bool,
    /// Programs and paths that are excluded.
    pub excluded: Excluded,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            budget_bytes: None,
            cgroup: None,
            is_dry_run: false,
            log: None,
            uses_profiles: true,
            excluded: Excluded::default(),
        }
    }
}

/// An error in a settings file: its line, and what to write instead.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("line {line}: {what}")]
pub struct SettingsError {
    /// The line, from 1.
    pub line: usize,
    /// The error and its remedy.
    pub what: String,
}

type Result<T> = std::result::Result<T, SettingsError>;

impl Settings {
    /// Reads TOML.
    ///
    /// # Errors
    /// [`SettingsError`] on the first thing that can't be understood.
    pub fn parse(text: &str) -> Result<Self> {
        let fail = |at: usize, what: String| SettingsError {
            line: 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count(),
            // It may quote text of several lines.
            what: what.trim().replace(['\n', '\r'], " "),
        };
        let table = DeTable::parse(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            fail(at, error.message().to_owned())
        })?;
        let mut entries: Vec<_> = table.get_ref().iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        let mut settings = Self::default();
        let (mut programs, mut paths) = (Vec::new(), Vec::new());
        for (key, value) in entries {
            let name: &str = key.get_ref();
            let value = Value {
                name,
                value: value.get_ref(),
                at: value.span(),
                fail: &fail,
            };
            match name {
                "budget" => settings.budget_bytes = Some(value.size()?),
                "cgroup" => settings.cgroup = Some(value.path()?.to_owned()),
                "dry_run" => settings.is_dry_run = value.flag()?,
                "exclude_paths" => paths = value.each(Value::path)?,
                "exclude_programs" => programs = value.each(Value::program)?,
                "log" => settings.log = Some(value.log()?.to_owned()),
                "profiles" => settings.uses_profiles = value.flag()?,
                _ => return Err(fail(key.span().start, unknown(name))),
            }
        }
        settings.excluded = Excluded::new(&programs, &paths);
        Ok(settings)
    }
}

fn unknown(name: &str) -> String {
    let near = KEYS.iter().min_by_key(|key| distance(name, key));
    match near.filter(|key| distance(name, key) <= (key.len() / 3).max(1)) {
        Some(key) => format!("there is no key `{name}`; did you mean `{key}`?"),
        None => format!("there is no key `{name}`; there are: {}", KEYS.join(", ")),
    }
}

/// Edit distance: number of letters to insert, remove or change to turn one text into the other.
fn distance(one: &str, other: &str) -> usize {
    // Letters that are compared: no key is near to a longer name.
    const LETTERS_MAX: usize = 64;
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (done, a) in one.chars().take(LETTERS_MAX).enumerate() {
        let mut diagonal = row[0];
        row[0] = done + 1;
        for (at, b) in other.iter().enumerate() {
            let changed = diagonal + usize::from(a != *b);
            diagonal = row[at + 1];
            row[at + 1] = changed.min(diagonal + 1).min(row[at] + 1);
        }
    }
    row[other.len()]
}

/// A value with its place.
struct Value<'a, F> {
    name: &'a str,
    value: &'a DeValue<'a>,
    at: Range<usize>,
    fail: &'a F,
}

impl<'a, F: Fn(usize, String) -> SettingsError> Value<'a, F> {
    fn error(&self, wanted: &str) -> SettingsError {
        (self.fail)(self.at.start, format!("`{}` {wanted}", self.name))
    }

    fn text(&self, wanted: &str) -> Result<&'a str> {
        match self.value {
            DeValue::String(text) if !text.is_empty() => Ok(text),
            _ => Err(self.error(wanted)),
        }
    }

    fn flag(&self) -> Result<bool> {
        match self.value {
            DeValue::Boolean(flag) => Ok(*flag),
            _ => Err(self.error("is true or false")),
        }
    }

    fn size(&self) -> Result<u64> {
        let text = match self.value {
            DeValue::String(text) => text.as_ref(),
            DeValue::Integer(integer) => integer.as_str(),
            _ => return Err(self.error("is a size, such as \"512M\"")),
        };
        let size = parse_size(text).map_err(|error| self.error(&format!("is a size: {error}")))?;
        let bytes: Bytes = size
            .to_exact()
            .map_err(|error| self.error(&format!("is a size: {error}")))?;
        Ok(bytes.count())
    }

    fn path(&self) -> Result<&'a str> {
        const WANTED: &str = "is an absolute path in quotes, such as \"/srv/data\", without `..`";
        let text = self.text(WANTED)?;
        let is_plain = text.starts_with('/') && !text.split('/').any(|name| name == "..");
        is_plain.then_some(text).ok_or_else(|| self.error(WANTED))
    }

    fn log(&self) -> Result<&'a str> {
        match self.value {
            DeValue::String(text) if text == "-" => Ok("-"),
            _ => self.path(),
        }
    }

    fn program(&self) -> Result<&'a str> {
        const WANTED: &str = "names programs without their path, such as \"rsync\"";
        let text = self.text(WANTED)?;
        let is_name = !text.contains(['/', '\n']);
        is_name.then_some(text).ok_or_else(|| self.error(WANTED))
    }

    /// Converts each value of a list, or a single value.
    fn each<T>(&self, of: impl Fn(&Self) -> Result<T>) -> Result<Vec<T>> {
        let DeValue::Array(array) = self.value else {
            return Ok(vec![of(self)?]);
        };
        let item = |value: &'a Spanned<DeValue<'a>>| {
            of(&Value {
                name: self.name,
                value: value.get_ref(),
                at: value.span(),
                fail: self.fail,
            })
        };
        array.iter().map(item).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_set_is_as_without_a_file() {
        assert_eq!(Settings::parse(""), Ok(Settings::default()));
        assert_eq!(
            Settings::parse("# budget = \"1M\"\n"),
            Ok(Settings::default())
        );
    }

    #[test]
    fn all_that_may_be_set_is_read() {
        let text = "budget = \"512M\"\ncgroup = \"/sys/fs/cgroup/a\"\ndry_run = true\n\
                    exclude_paths = [\"/srv/backup\"]\nexclude_programs = \"rsync\"\nlog = \"-\"\n\
                    profiles = false\n";
        let expected = Settings {
            budget_bytes: Some(512 << 20),
            cgroup: Some("/sys/fs/cgroup/a".into()),
            is_dry_run: true,
            log: Some("-".into()),
            uses_profiles: false,
            excluded: Excluded::new(&["rsync"], &["/srv/backup"]),
        };
        assert_eq!(Settings::parse(text), Ok(expected));
    }

    #[test]
    fn the_example_says_what_may_be_set() {
        let example = include_str!("../../../packaging/watch.toml");
        assert_eq!(Settings::parse(example), Ok(Settings::default()));
        // Example settings have no blank after the comment mark.
        let is_example = |line: &&str| {
            let rest = line.strip_prefix('#');
            rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase()))
        };
        let set: Vec<&str> = example
            .lines()
            .filter(is_example)
            .map(|l| &l[1..])
            .collect();
        assert_eq!(set.len(), KEYS.len(), "{set:?}");
        assert!(Settings::parse(&set.join("\n")).is_ok(), "{set:?}");
    }

    fn wrong(text: &str) -> (usize, String) {
        let error = Settings::parse(text).unwrap_err();
        (error.line, error.what)
    }

    #[test]
    fn a_key_that_is_none_is_answered_with_the_nearest() {
        let (line, what) = wrong("# one\nbudget = \"1M\"\nexclude_program = []\n");
        assert_eq!(line, 3);
        assert_eq!(
            what,
            "there is no key `exclude_program`; did you mean `exclude_programs`?"
        );
        assert!(wrong("dryrun = true").1.ends_with("`dry_run`?"));
        let (_, what) = wrong("colour = 1");
        assert!(
            what.ends_with(
                "there are: budget, cgroup, dry_run, exclude_paths, \
                                exclude_programs, log, profiles"
            ),
            "{what}"
        );
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, line, part) in [
            ("budget = 512", 1, "512 what?"),
            ("\nbudget = \"much\"", 2, "not a size"),
            ("budget = true", 1, "is a size"),
            ("dry_run = 1", 1, "true or false"),
            ("profiles = \"all\"", 1, "true or false"),
            ("log = \"relative\"", 1, "absolute path"),
            ("log = \"\"", 1, "absolute path"),
            ("cgroup = \"a\"", 1, "absolute path"),
            (
                "exclude_paths = [\n\"/a\",\n\"/a/../b\"]",
                3,
                "without `..`",
            ),
            ("exclude_programs = [\"/bin/cp\"]", 1, "without their path"),
            ("budget = \"1M\"\nbudget = \"2M\"", 2, "duplicate"),
            ("budget", 1, ""),
        ] {
            let (at, what) = wrong(text);
            assert!(at == line && what.contains(part), "{text:?}: {at}: {what}");
            assert!(!what.contains('\n'), "{what}");
        }
    }

    #[test]
    fn letters_are_counted() {
        assert_eq!(distance("", "log"), 3);
        assert_eq!(distance("lgo", "log"), 2);
        assert_eq!(distance("budget", "budget"), 0);
        assert_eq!(distance("bugdets", "budget"), 3);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_answered_in_one_line(text in "[a-z_=\\[\\]\"/.0-9# \\n]{0,80}") {
            if let Err(error) = Settings::parse(&text) {
                prop_assert!(error.line <= text.lines().count().max(1) + 1);
                prop_assert!(!error.to_string().contains('\n'));
            }
        }

        #[test]
        fn any_value_of_a_key_is_read_or_answered(
            key in prop::sample::select(&KEYS[..]),
            value in "[\\PC\n]{0,40}",
        ) {
            for text in [format!("{key} = {value}"), format!("{key} = {value:?}")] {
                let said = Settings::parse(&text).map_err(|error| error.what.contains('\n'));
                prop_assert_ne!(said, Err(true));
            }
        }
    }
}
