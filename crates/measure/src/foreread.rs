// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `foreread` that is measured, with a state directory of its own.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::error::MeasureError;

/// An executable and the profiles it keeps, which go when this goes.
#[derive(Debug)]
pub struct Foreread {
    executable: PathBuf,
    state: TempDir,
}

impl Foreread {
    /// One that knows no program yet.
    ///
    /// # Errors
    /// There is no such executable, or no temporary directory.
    pub fn new(executable: &Path) -> Result<Self, MeasureError> {
        if !executable.is_file() {
            return Err(MeasureError::NoForeread(executable.to_owned()));
        }
        let state = tempfile::Builder::new()
            .prefix("foreread-bench-")
            .tempdir()
            .map_err(MeasureError::system("make a temporary directory"))?;
        Ok(Self {
            executable: executable.to_owned(),
            state,
        })
    }

    /// The executable.
    pub fn executable(&self) -> &Path {
        &self.executable
    }

    /// Where it keeps its profiles.
    pub fn state(&self) -> &Path {
        self.state.path()
    }

    /// The words before a command that run it under `foreread run`. Give the command
    /// [`Foreread::set_environment`] too.
    pub fn before(&self, options: &[&str]) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec![self.executable.clone().into(), "run".into()];
        words.push("--quiet".into());
        words.extend(options.iter().map(OsString::from));
        words.push("--".into());
        words
    }

    /// The same, with a report for [`Foreread::report`].
    pub fn before_reporting(&self, options: &[&str]) -> Vec<OsString> {
        let mut words = self.before(options);
        let report = [
            "--json".into(),
            "--output".into(),
            self.report_path().into(),
        ];
        words.splice(2..2, report);
        words
    }

    /// Points a command at the state directory.
    pub fn set_environment(&self, command: &mut Command) {
        command.env("FOREREAD_STATE_DIR", self.state());
    }

    /// The report of the last run.
    ///
    /// # Errors
    /// It left no report, or an unreadable one.
    pub fn report(&self) -> Result<RunReport, MeasureError> {
        let path = self.report_path();
        let bytes = std::fs::read(&path)
            .map_err(MeasureError::system(format!("read {}", path.display())))?;
        let document = serde_json::from_slice(&bytes)
            .map_err(|error| MeasureError::Report("foreread run", error.to_string()))?;
        Ok(RunReport { document })
    }

    fn report_path(&self) -> PathBuf {
        self.state().join("last-run.json")
    }
}

/// The report of `foreread run --json`.
#[derive(Clone, Debug, PartialEq)]
pub struct RunReport {
    /// The whole document, schema `foreread.run`.
    pub document: Value,
}

impl RunReport {
    /// A whole number at a JSON pointer; 0 where there is none.
    pub fn number(&self, pointer: &str) -> u64 {
        let value = self.document.pointer(pointer);
        value.and_then(Value::as_u64).unwrap_or(0)
    }

    /// The mode of the run: `recorded`, `replayed`, `plain` or another.
    pub fn mode(&self) -> &str {
        let mode = self.document.get("mode").and_then(Value::as_str);
        mode.unwrap_or("unknown")
    }

    /// The problems of the run, in words.
    pub fn trouble(&self) -> Vec<&str> {
        let list = self.document.get("trouble").and_then(Value::as_array);
        list.into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_executable_is_named() {
        let error = Foreread::new(Path::new("/no/such/foreread")).unwrap_err();
        assert!(error.to_string().contains("/no/such/foreread"), "{error}");
    }

    #[test]
    fn words_and_report_meet_in_the_state_directory() {
        let foreread = Foreread::new(&std::env::current_exe().unwrap()).unwrap();
        let words = foreread.before_reporting(&["--fresh"]);
        let output = words.iter().position(|word| word == "--output").unwrap();
        let document = r#"{"mode": "replayed", "wall_ns": 7, "a": {"b": 3}, "trouble": ["x"]}"#;
        std::fs::write(&words[output + 1], document).unwrap();
        let report = foreread.report().unwrap();
        assert_eq!((report.mode(), report.number("/a/b")), ("replayed", 3));
        assert_eq!((report.number("/none"), report.trouble()), (0, vec!["x"]));
        assert_eq!(words.last().unwrap(), "--");
        assert!(words.contains(&"--fresh".into()));
        assert!(!foreread.before(&[]).contains(&"--json".into()));
    }
}
