// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files that programs read.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use foreread_sim::check::FILE_BYTES;
use thiserror::Error;

/// A file can't be made, or opened again.
#[derive(Debug, Error)]
#[error("cannot {what} {path}: {error}")]
pub struct FileError {
    what: &'static str,
    path: PathBuf,
    error: io::Error,
}

/// Prefix of the names of directories; the number of the process follows.
const PREFIX: &str = ".foreread-check-kernel-";

/// One file of each size of [`FILE_BYTES`] in a directory of their own. They are removed when this
/// is dropped.
#[derive(Debug)]
pub struct Files {
    directory: PathBuf,
}

impl Files {
    /// Makes them below a directory, and has them written out.
    ///
    /// # Errors
    /// The directory is full or can't be written.
    pub fn make(below: &Path) -> Result<Self, FileError> {
        remove_left_behind(below);
        let name = format!("{PREFIX}{}", std::process::id());
        let files = Self {
            directory: below.join(name),
        };
        fs::create_dir(&files.directory).map_err(|error| FileError {
            what: "make",
            path: files.directory.clone(),
            error,
        })?;
        for (number, bytes) in FILE_BYTES.iter().enumerate() {
            let path = files.path(number);
            fill(&path, *bytes).map_err(|error| FileError {
                what: "write",
                path,
                error,
            })?;
        }
        Ok(files)
    }

    fn path(&self, number: usize) -> PathBuf {
        self.directory.join(format!("file-{number}"))
    }

    pub(super) fn open(&self, number: usize) -> Result<File, FileError> {
        let path = self.path(number);
        open(&path)
    }

    /// Another open file of the same, with a state of its own.
    pub(super) fn reopen(&self, file: &File) -> Result<File, FileError> {
        open(Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd())))
    }
}

/// Removes directories that killed runs have left.
fn remove_left_behind(below: &Path) {
    for entry in fs::read_dir(below).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(process) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else {
            continue;
        };
        let is_number = process.parse::<u32>().is_ok();
        if is_number && !Path::new("/proc").join(process).exists() {
            // A directory that can't be removed is no worse than before.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn open(path: &Path) -> Result<File, FileError> {
    // Times of access would be written while programs run.
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOATIME)
        .open(path);
    opened.map_err(|error| FileError {
        what: "open",
        path: path.to_owned(),
        error,
    })
}

fn fill(path: &Path, bytes: u64) -> io::Result<()> {
    use io::Write as _;
    let mut file = File::create_new(path)?;
    let mut text = vec![0u8; bytes as usize];
    // Each page is its own, so that no file system stores one for all or leaves holes.
    for (number, page) in text.chunks_mut(4096).enumerate() {
        page.fill((number % 251) as u8 + 1);
        let mark = (number as u64).to_le_bytes();
        let length = mark.len().min(page.len());
        page[..length].copy_from_slice(&mark[..length]);
    }
    file.write_all(&text)?;
    file.sync_all()
}

impl Drop for Files {
    fn drop(&mut self) {
        // A directory that can't be removed has a name that says whose it is.
        let _ = fs::remove_dir_all(&self.directory);
    }
}
