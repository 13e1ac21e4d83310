// SPDX-License-Identifier: MIT OR Apache-2.0
//! The log of `watch`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};
use foreread_sys::save;
use foreread_watch::log::note::Note;

use super::line;
use crate::output;

/// One JSON document a line.
pub struct Log {
    to: Option<Box<dyn Write>>,
    path: Option<PathBuf>,
    started: Instant,
    has_failed: bool,
}

impl Log {
    /// Writes there, if anywhere; `-` is standard error.
    pub fn open(path: Option<PathBuf>, appends: bool) -> Result<Self> {
        let mut to = path
            .as_deref()
            .map(|path| open(path, appends))
            .transpose()?;
        if let (Some(to), Some(path)) = (&mut to, &path)
            && appends
            && path.metadata().is_ok_and(|metadata| metadata.len() > 0)
        {
            to.write_all(line::of_start().as_bytes())
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(Self {
            to,
            path,
            started: Instant::now(),
            has_failed: false,
        })
    }

    /// Writes there from now on. The same file is opened again: it may have been moved away.
    pub fn reopen(&mut self, path: Option<PathBuf>) -> Result<()> {
        self.to = path.as_deref().map(|path| open(path, true)).transpose()?;
        self.path = path;
        Ok(())
    }

    /// Appends the notes. A failed write is reported once; then the log is closed.
    pub fn write(&mut self, notes: &[Note]) {
        let Some(to) = &mut self.to else { return };
        let since_start = self.started.elapsed();
        let lines = notes.iter().map(|note| line::of_note(note, since_start));
        let lines: String = lines.collect();
        if lines.is_empty() {
            return;
        }
        let written = to.write_all(lines.as_bytes());
        if let Err(error) = written {
            let path = self.path.take().unwrap_or_default();
            output::note(&format!(
                "cannot write the log {}, which ends here: {error}",
                path.display()
            ));
            self.to = None;
            self.has_failed = true;
        }
    }

    /// Whether something could not be written.
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }
}

fn open(path: &Path, appends: bool) -> Result<Box<dyn Write>> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stderr()));
    }
    let file = match appends {
        true => save::append(path),
        false => save::create(path),
    };
    let file = file.with_context(|| format!("cannot write {}", path.display()))?;
    Ok(Box::new(file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreread_watch::log::note::What;
    use std::fs;

    #[test]
    fn a_log_that_was_moved_away_begins_anew_and_a_full_disk_ends_it() {
        let note = Note {
            process: 1,
            began_by_reads: true,
            owner: None,
            what: What::Refused {
                directory: Vec::new(),
            },
        };
        let directory = tempfile::tempdir().unwrap();
        let (path, moved) = (directory.path().join("log"), directory.path().join("log.1"));
        let mut log = Log::open(Some(path.clone()), false).unwrap();
        log.write(&[note.clone(), note.clone()]);
        fs::rename(&path, &moved).unwrap();
        log.reopen(Some(path.clone())).unwrap();
        log.write(std::slice::from_ref(&note));
        let lines = |path: &Path| fs::read_to_string(path).unwrap().lines().count();
        assert_eq!((lines(&moved), lines(&path)), (2, 1));
        // Another one writes after what is there, and says so.
        let mut other = Log::open(Some(path.clone()), true).unwrap();
        other.write(std::slice::from_ref(&note));
        let text = fs::read_to_string(&path).unwrap();
        assert!(
            text.lines().nth(1).unwrap().contains("\"started\""),
            "{text}"
        );
        assert_eq!(text.lines().count(), 3);
        assert!(log.reopen(Some("/no/such/directory/log".into())).is_err());
        log.reopen(Some("/dev/full".into())).unwrap();
        log.write(std::slice::from_ref(&note));
        assert!(log.has_failed());
        log.write(&[note]);
    }
}
