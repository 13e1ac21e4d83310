// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes a part of a file from the page cache to the disk: first begun, then waited for. So the
//! writes of many files can be under way at once. Metadata isn't written; that takes fsync(2).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Begins to write these bytes, where they are dirty. May wait for room in the queue of the device.
///
/// # Errors
/// As the kernel says.
pub fn begin(file: &File, offset_bytes: u64, length_bytes: u64) -> io::Result<()> {
    call(
        file,
        offset_bytes,
        length_bytes,
        libc::SYNC_FILE_RANGE_WRITE,
    )
}

/// Writes these bytes, where they are still dirty, and waits until the device has them.
///
/// # Errors
/// The device failed, or as the kernel says.
pub fn finish(file: &File, offset_bytes: u64, length_bytes: u64) -> io::Result<()> {
    let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE
        | libc::SYNC_FILE_RANGE_WRITE
        | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    call(file, offset_bytes, length_bytes, flags)
}

fn call(file: &File, offset_bytes: u64, length_bytes: u64, flags: u32) -> io::Result<()> {
    if length_bytes == 0 {
        // To the kernel, that would be all up to the end.
        return Ok(());
    }
    let too_large = |_| io::Error::from(io::ErrorKind::InvalidInput);
    let offset = i64::try_from(offset_bytes).map_err(too_large)?;
    let length = i64::try_from(length_bytes).map_err(too_large)?;
    let file = file.as_raw_fd();
    // SAFETY: plain numbers; the descriptor is open through the call.
    match unsafe { libc::sync_file_range(file, offset, length, flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_part_is_written_and_more_than_a_file_can_have_is_refused() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1; 9000]).unwrap();
        begin(&file, 0, 9000).unwrap();
        finish(&file, 4096, 4096).unwrap();
        finish(&file, 0, 0).unwrap();
        assert!(begin(&file, u64::MAX, 1).is_err());
    }
}
