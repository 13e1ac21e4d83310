// SPDX-License-Identifier: MIT OR Apache-2.0
//! Times something from inside, so that the work of `foreread run` before and after isn't counted.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use clap::Args;
use foreread_measure::MeasureError;

/// Bytes of one read.
const READ_BYTES: usize = 4096;

#[derive(Debug, Args)]
pub struct InsideArguments {
    /// Where to write the time in nanoseconds.
    #[arg(long)]
    out: PathBuf,
    /// Read the files of this directory first, in no order, without timing it.
    #[arg(long)]
    first_read: Option<PathBuf>,
    /// Read this file from start to end, 4 KiB a call.
    #[arg(long, conflicts_with = "command")]
    preads: Option<PathBuf>,
    /// That many times.
    #[arg(long, default_value_t = 1)]
    passes: u64,
    /// Run this command.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// Times the work that the arguments ask for.
pub fn inside(arguments: &InsideArguments) -> Result<ExitCode, MeasureError> {
    if let Some(path) = &arguments.first_read {
        read_files(path)?;
    }
    let (elapsed_ns, code) = match (&arguments.preads, arguments.command.split_first()) {
        (Some(path), _) => (preads(path, arguments.passes)?, 0),
        (None, Some((name, words))) => run(name, words)?,
        (None, None) => (0, 0),
    };
    let what = format!("write {}", arguments.out.display());
    std::fs::write(&arguments.out, elapsed_ns.to_string()).map_err(MeasureError::system(what))?;
    Ok(ExitCode::from(code))
}

fn run(name: &OsString, words: &[OsString]) -> Result<(u128, u8), MeasureError> {
    let began = Instant::now();
    let status = Command::new(name).args(words).status();
    let elapsed_ns = began.elapsed().as_nanos();
    let what = format!("start {}", name.display());
    let status = status.map_err(MeasureError::system(what))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok((elapsed_ns, code.unwrap_or(u8::MAX)))
}

fn preads(path: &Path, passes: u64) -> Result<u128, MeasureError> {
    let (file, pages) = open(path)?;
    let mut buffer = [0; READ_BYTES];
    let failed = |error| MeasureError::system(format!("read {}", path.display()))(error);
    let began = Instant::now();
    for _ in 0..passes {
        for page in 0..pages {
            let read = file.read_at(&mut buffer, page * READ_BYTES as u64);
            std::hint::black_box(read.map_err(failed)?);
        }
    }
    Ok(began.elapsed().as_nanos())
}

/// In an order in which the kernel's readahead is of no help, so that replay is.
fn read_files(directory: &Path) -> Result<(), MeasureError> {
    let what = format!("read the files of {}", directory.display());
    let mut paths: Vec<PathBuf> = std::fs::read_dir(directory)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect())
        .map_err(MeasureError::system(&*what))?;
    paths.sort();
    let count = paths.len() as u64;
    for index in 0..count {
        let path = &paths[scattered(index, count) as usize];
        std::hint::black_box(std::fs::read(path).map_err(MeasureError::system(&*what))?);
    }
    Ok(())
}

/// A permutation of the numbers below `count`, with neighbours far apart. The step is a prime, so
/// it shares no factor with any count that isn't a multiple of it.
fn scattered(index: u64, count: u64) -> u64 {
    const STEP: u64 = 7_368_787;
    ((u128::from(index) * u128::from(STEP)) % u128::from(count.max(1))) as u64
}

fn open(path: &Path) -> Result<(File, u64), MeasureError> {
    let opened = File::open(path).and_then(|file| {
        let pages = file.metadata()?.len() / READ_BYTES as u64;
        Ok((file, pages))
    });
    opened.map_err(MeasureError::system(format!("open {}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn scattered_pages_are_all_of_them() {
        let pages: BTreeSet<u64> = (0..4096).map(|index| scattered(index, 4096)).collect();
        assert_eq!(pages.len(), 4096);
        assert_eq!(pages.last(), Some(&4095));
        assert!(scattered(1, 4096).abs_diff(scattered(2, 4096)) > 64);
    }

    #[test]
    fn a_command_is_timed_and_its_status_passed_on() {
        let scratch = tempfile::tempdir().unwrap();
        let out = scratch.path().join("time");
        let arguments = InsideArguments {
            out: out.clone(),
            first_read: None,
            preads: None,
            passes: 1,
            command: ["sh", "-c", "exit 3"].map(OsString::from).to_vec(),
        };
        let code = inside(&arguments).unwrap();
        assert_eq!(format!("{code:?}"), format!("{:?}", ExitCode::from(3)));
        let time: u64 = std::fs::read_to_string(out).unwrap().parse().unwrap();
        assert!(time > 0);
    }

    #[test]
    fn a_file_is_read_as_often_as_asked() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("file");
        std::fs::write(&file, vec![7; 3 * READ_BYTES]).unwrap();
        assert!(preads(&file, 2).unwrap() > 0);
        assert!(read_files(scratch.path()).is_ok());
        assert!(read_files(&file).is_err());
        assert!(preads(&scratch.path().join("none"), 1).is_err());
    }
}
