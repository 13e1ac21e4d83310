// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces that are read: a file, with a bar of how far it is, or standard input.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use foreread_trace::{Events, Format, ReadOptions, frt, open};
use indicatif::{ProgressBar, ProgressStyle};

use crate::output;

/// Size of one read of a file, in bytes.
const BUFFER_BYTES: usize = 1 << 18;

/// A trace to read.
pub struct Input {
    pub events: Box<dyn Events>,
    /// As messages have it.
    pub name: String,
    bar: ProgressBar,
}

impl Input {
    /// Opens it.
    pub fn open(path: &Path, options: ReadOptions) -> Result<Self> {
        Self::open_within(path, options, 0, u64::MAX)
    }

    /// As [`Input::open`]; of a file in the own format, only what is needed for accesses of these
    /// times, both included, is read.
    pub fn open_within(
        path: &Path,
        options: ReadOptions,
        from_ns: u64,
        to_ns: u64,
    ) -> Result<Self> {
        if path == Path::new("-") {
            let name = "standard input".to_owned();
            let events = open(io::stdin().lock(), options).with_context(|| name.clone())?;
            let bar = ProgressBar::hidden();
            return Ok(Self { events, name, bar });
        }
        let name = path.display().to_string();
        let cannot = || format!("cannot read {name}");
        let mut file = File::open(path).with_context(cannot)?;
        let metadata = file.metadata().with_context(cannot)?;
        if metadata.is_dir() {
            bail!("cannot read {name}: it is a directory, not a trace");
        }
        let is_cut = (from_ns, to_ns) != (0, u64::MAX) && metadata.is_file();
        let bar = bar(metadata.len());
        let is_own = is_cut && is_own(&mut file, options).with_context(cannot)?;
        let input = bar.wrap_read(BufReader::with_capacity(BUFFER_BYTES, file));
        let events: Box<dyn Events> = if is_own {
            let reader = frt::Reader::seeking(input, from_ns, to_ns);
            Box::new(reader.with_context(|| name.clone())?)
        } else {
            open(input, options).with_context(|| name.clone())?
        };
        Ok(Self { events, name, bar })
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn is_own(file: &mut File, options: ReadOptions) -> io::Result<bool> {
    let mut magic = Vec::new();
    let magic_bytes = frt::MAGIC.len() as u64;
    file.take(magic_bytes).read_to_end(&mut magic)?;
    file.rewind()?;
    Ok(magic == frt::MAGIC && matches!(options.format, None | Some(Format::Frt)))
}

/// A bar on stderr, which hides itself where that is no terminal.
fn bar(bytes: u64) -> ProgressBar {
    let bar = output::progress(bytes);
    let template = "{bar:20} {bytes}/{total_bytes}  {bytes_per_sec}  {eta}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}
