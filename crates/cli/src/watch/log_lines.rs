// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads a log of `watch`, line by line.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use anyhow::{Context, Result, bail};
use foreread_watch::log::SCHEMA;
use indicatif::ProgressStyle;
use serde_json::Value;

use crate::output;

/// No line is longer: one has some ten thousand names at most.
const LINE_BYTES_MAX: u64 = 1 << 28;

/// Hands each line to `take`, until that says that it was the last one of use. A last line that
/// isn't whole is still being written.
///
/// # Errors
/// Fails if the file cannot be read, or if a line is no line of a log or `take` refuses it; the
/// error has the number of the line.
pub fn each_line(path: &Path, mut take: impl FnMut(&Value) -> Result<bool>) -> Result<()> {
    let cannot = || format!("cannot read {}", path.display());
    let file = File::open(path).with_context(cannot)?;
    let length = file.metadata().with_context(cannot)?.len();
    // Hides itself where stderr is no terminal.
    let bar = output::progress(length);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {bytes} of {total_bytes}") {
        bar.set_style(style);
    }
    each_line_of(file, &path.display().to_string(), |line, length| {
        bar.inc(length);
        take(line)
    })?;
    bar.finish_and_clear();
    Ok(())
}

/// The same of what comes from elsewhere, which has a name; with the bytes of each line.
pub fn each_line_of(
    from: impl Read,
    name: &str,
    mut take: impl FnMut(&Value, u64) -> Result<bool>,
) -> Result<()> {
    let mut reader = BufReader::new(from);
    let mut line = Vec::new();
    for number in 1u64.. {
        line.clear();
        let mut bounded = reader.by_ref().take(LINE_BYTES_MAX);
        let length = bounded
            .read_until(b'\n', &mut line)
            .with_context(|| format!("cannot read {name}"))?;
        if length == 0 {
            break;
        }
        let in_line = || format!("{name}, line {number}");
        let value: Value = match serde_json::from_slice(&line) {
            Err(error) if error.is_eof() && !line.ends_with(b"\n") => break,
            value => value.with_context(in_line)?,
        };
        if value["schema"] != SCHEMA {
            bail!("{}: this is no {SCHEMA}", in_line());
        }
        if !take(&value, length as u64).with_context(in_line)? {
            break;
        }
    }
    Ok(())
}
