// SPDX-License-Identifier: MIT OR Apache-2.0
//! Settings of `watch`: its file, and the command line, which overrides the file.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use foreread_watch::settings::Settings;

use super::args::WatchArguments;
use crate::named_device;

/// Read where nothing else is said.
const DEFAULT: &str = "/etc/foreread/watch.toml";
/// Upper bound of a file's size, in bytes; no real file is near it.
const BYTES_MAX: u64 = 1 << 20;

/// All that is set. The default file need not be there, and is for watching the machine only.
pub fn settings(arguments: &WatchArguments) -> Result<Settings> {
    let mut settings = match &arguments.config {
        Some(path) => read(path)?,
        None if watches_the_machine(arguments) => read_default(Path::new(DEFAULT))?,
        None => Settings::default(),
    };
    if arguments.budget.is_some() {
        settings.budget_bytes = arguments.budget.map(foreread_core::Bytes::count);
    }
    settings.is_dry_run |= arguments.dry_run;
    let mut devices = Vec::new();
    for name in &arguments.device {
        devices.extend(named_device::with_parts(name)?);
    }
    settings.excluded = settings.excluded.but_on(devices);
    if arguments.all {
        settings.cgroup = None;
    }
    Ok(settings)
}

/// Whether the command line names no part of it.
fn watches_the_machine(arguments: &WatchArguments) -> bool {
    arguments.command.is_empty() && arguments.pid.is_none() && arguments.cgroup.is_none()
}

/// Where the log is, of the command line or of the file.
pub fn log(arguments: &WatchArguments, settings: &Settings) -> Option<PathBuf> {
    let set = settings.log.as_ref().map(PathBuf::from);
    arguments.log.clone().or(set)
}

fn read_default(path: &Path) -> Result<Settings> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Settings::default()),
        _ => read(path),
    }
}

fn read(path: &Path) -> Result<Settings> {
    let cannot = || format!("cannot read {}", path.display());
    let about = fs::metadata(path).with_context(cannot)?;
    if !about.is_file() || about.len() > BYTES_MAX {
        anyhow::bail!("{} is no file of settings", path.display());
    }
    let text = fs::read_to_string(path).with_context(cannot)?;
    Settings::parse(&text).map_err(|error| anyhow::anyhow!("{}, {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Arguments, Verb};
    use clap::Parser;

    fn arguments(words: &[&str]) -> WatchArguments {
        let parsed = Arguments::parse_from([&["foreread", "watch"], words].concat());
        match parsed.verb {
            Verb::Watch(arguments) => arguments,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_command_line_comes_first() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("watch.toml");
        let text = "budget = \"1M\"\ncgroup = \"/a\"\nlog = \"/b\"\ndry_run = true\n";
        fs::write(&path, text).unwrap();
        let file = path.to_str().unwrap();
        let alone = arguments(&["--config", file]);
        let set = settings(&alone).unwrap();
        assert_eq!((set.budget_bytes, set.is_dry_run), (Some(1 << 20), true));
        assert_eq!(log(&alone, &set), Some(PathBuf::from("/b")));
        let both = arguments(&["--config", file, "--budget", "2M", "--log", "-", "--all"]);
        let set = settings(&both).unwrap();
        assert_eq!(
            (set.budget_bytes, set.cgroup.clone()),
            (Some(2 << 20), None)
        );
        assert_eq!(log(&both, &set), Some(PathBuf::from("-")));
    }

    #[test]
    fn a_file_that_is_named_must_be_there_and_the_default_need_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("watch.toml");
        assert_eq!(read_default(&path).unwrap(), Settings::default());
        assert!(read(&path).is_err() && read(directory.path()).is_err());
        fs::write(&path, "\nbugdet = 1\n").unwrap();
        for said in [read(&path), read_default(&path)] {
            let said = format!("{:#}", said.unwrap_err());
            assert!(
                said.contains("watch.toml, line 2: ") && said.contains("`budget`"),
                "{said}"
            );
        }
        fs::write(&path, b"\xff\xfe").unwrap();
        assert!(read(&path).is_err());
    }
}
