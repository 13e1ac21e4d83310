// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads a log of `watch`, line by line.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;

use super::report::{LOG_SCHEMA, STARTED};

/// No line is longer: one has some ten thousand names at most.
const LINE_BYTES_MAX: u64 = 1 << 28;

/// Whether somebody else, who knows nothing of what was before, writes from this line on.
pub fn is_start(line: &Value) -> bool {
    line["what"] == STARTED
}

/// Hands each line to `take`, until that says that it was the last one of use. A last line that
/// isn't whole is still being written.
///
/// # Errors
/// What can't be read, or isn't a line of a log, or `take` can't use, with the line's number.
pub fn each_line(path: &Path, mut take: impl FnMut(&Value) -> Result<bool>) -> Result<()> {
    let cannot = || format!("cannot read {}", path.display());
    let file = File::open(path).with_context(cannot)?;
    let length = file.metadata().with_context(cannot)?.len();
    // Hides itself where stderr is no terminal.
    let bar = ProgressBar::new(length);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {bytes} of {total_bytes}") {
        bar.set_style(style);
    }
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    for number in 1u64.. {
        line.clear();
        let mut bounded = reader.by_ref().take(LINE_BYTES_MAX);
        let length = bounded.read_until(b'\n', &mut line).with_context(cannot)?;
        if length == 0 {
            break;
        }
        bar.inc(length as u64);
        let in_line = || format!("{}, line {number}", path.display());
        let value: Value = match serde_json::from_slice(&line) {
            Err(error) if error.is_eof() && !line.ends_with(b"\n") => break,
            value => value.with_context(in_line)?,
        };
        if value["schema"] != LOG_SCHEMA {
            bail!("{}: this is no {LOG_SCHEMA}", in_line());
        }
        if !take(&value).with_context(in_line)? {
            break;
        }
    }
    bar.finish_and_clear();
    Ok(())
}
