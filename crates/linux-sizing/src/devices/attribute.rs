// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attributes of sysfs and small text files: whatever is in their place, an answer.

use std::fs::OpenOptions;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The kernel's attributes have a page at most.
const ATTRIBUTE_BYTES_MAX: u64 = 4096;

/// Reads at most `bytes_max` bytes of a file. A FIFO in its place doesn't block, a directory is an
/// error.
pub fn read_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_CLOEXEC | libc::O_NONBLOCK)
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    let mut bytes = Vec::new();
    file.take(bytes_max).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The attributes of one device, and those that could not be read.
pub struct Attributes {
    directory: PathBuf,
    /// Each with why.
    pub unseen: Vec<String>,
}

impl Attributes {
    pub fn of(directory: PathBuf) -> Self {
        Self {
            directory,
            unseen: Vec::new(),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// A text that not every device has; an empty one is none.
    pub fn text_if_any(&self, name: &str) -> Option<String> {
        let text = read_text(&self.path(name), ATTRIBUTE_BYTES_MAX).ok()?;
        // Models and serial numbers are filled up with blanks.
        let words: Vec<&str> = text.split_whitespace().collect();
        (!words.is_empty()).then(|| words.join(" "))
    }

    /// A text that a device of this kind has.
    pub fn text(&mut self, name: &str) -> Option<String> {
        match read_text(&self.path(name), ATTRIBUTE_BYTES_MAX) {
            Ok(text) if text.trim().is_empty() => self.is_unseen(name, "it is empty"),
            Ok(text) => Some(text.trim().to_owned()),
            Err(error) => self.is_unseen(name, &reason(&error)),
        }
    }

    /// A number that a device of this kind has.
    pub fn number(&mut self, name: &str) -> Option<u64> {
        let text = self.text(name)?;
        match text.parse() {
            Ok(number) => Some(number),
            Err(_) => {
                let shown: String = text.chars().take(40).collect();
                self.is_unseen(name, &format!("`{shown}` is no number"))
            }
        }
    }

    /// 0 or 1.
    pub fn flag(&mut self, name: &str) -> Option<bool> {
        self.number(name).map(|number| number != 0)
    }

    fn is_unseen<T>(&mut self, name: &str, why: &str) -> Option<T> {
        self.unseen.push(format!("{name}: {why}"));
        None
    }
}

/// Without the number that Rust adds, for people.
pub fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "it is not there".to_owned(),
        io::ErrorKind::PermissionDenied => "it may not be read".to_owned(),
        _ => error.to_string(),
    }
}
