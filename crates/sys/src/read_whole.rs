// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads files that may be anything: a FIFO must not block, a device must not fill memory.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The content of a regular file of at most so many bytes. `what` it should be, as one word, is for
/// errors.
///
/// # Errors
/// When it can't be read, is no regular file, or is larger.
pub fn read_whole(path: &Path, what: &str, bytes_max: u64) -> io::Result<Vec<u8>> {
    let no_wait = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options()
        .read(true)
        .custom_flags(no_wait)
        .open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::Error::other(format!("it is a directory, not a {what}")));
    }
    if !metadata.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    if metadata.len() > bytes_max {
        return Err(io::Error::other(format!("it is larger than any {what}")));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0));
    // It may grow meanwhile.
    file.take(bytes_max).read_to_end(&mut bytes)?;
    Ok(bytes)
}
