// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces that are written: a file, whole or not at all, or standard output.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use foreread_sys::save;
use foreread_trace::Target;

use super::args::TargetChoice;

/// Size of one write to a file, in bytes.
const BUFFER_BYTES: usize = 1 << 17;

/// Where a trace goes.
pub struct Output {
    /// As messages have it.
    pub name: String,
    /// Temporary path and final path: the file is renamed at the end.
    unfinished: Option<(PathBuf, PathBuf)>,
}

impl Output {
    /// Opens it. Until [`Output::finish`], what is there stays as it is, so that a trace may be
    /// written over the one that is read.
    pub fn create(path: &Path) -> Result<(Self, Box<dyn Write + Send>)> {
        if path == Path::new("-") {
            let output = Self {
                name: "standard output".to_owned(),
                unfinished: None,
            };
            let stdout = BufWriter::with_capacity(BUFFER_BYTES, io::stdout());
            return Ok((output, Box::new(stdout)));
        }
        let name = path.display().to_string();
        let cannot = || format!("cannot write {name}");
        // A device or a pipe is written to, not replaced.
        let is_special = fs::metadata(path).is_ok_and(|metadata| !metadata.is_file());
        let (file, unfinished) = if is_special {
            let file = File::options().write(true).open(path);
            (file.with_context(cannot)?, None)
        } else {
            let (file, beside) = save::create_beside(path).with_context(cannot)?;
            (file, Some((beside, path.to_owned())))
        };
        let file = BufWriter::with_capacity(BUFFER_BYTES, file);
        Ok((Self { name, unfinished }, Box::new(file)))
    }

    /// All is written.
    pub fn finish(mut self) -> Result<()> {
        if let Some((from, to)) = self.unfinished.take() {
            fs::rename(&from, &to).with_context(|| format!("cannot write {}", self.name))?;
        }
        Ok(())
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some((unfinished, _)) = &self.unfinished {
            // It failed already; there is no one to tell that this did too.
            let _ = fs::remove_file(unfinished);
        }
    }
}

/// The format that is asked for, or that of the extension.
pub fn target(choice: Option<TargetChoice>, path: &Path, option: &str) -> Result<Target> {
    if let Some(choice) = choice {
        return Ok(choice.into());
    }
    let extension = path.extension().and_then(|extension| extension.to_str());
    match extension {
        Some("frt") => Ok(Target::Frt),
        Some("iolog" | "fio") => Ok(Target::Fio),
        Some("csv") => Ok(Target::Csv),
        #[cfg(feature = "parquet")]
        Some("parquet") => Ok(Target::Parquet),
        #[cfg(not(feature = "parquet"))]
        Some("parquet") => bail!(
            "this foreread can't write Parquet; build it with --features parquet, or write .csv"
        ),
        _ => bail!(
            "in which format? {} does not say; name it .frt, .iolog or .csv, or use {option}",
            path.display()
        ),
    }
}
