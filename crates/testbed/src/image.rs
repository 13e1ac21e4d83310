// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies of the content of the disk, as sparse files.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{SeekFrom, seek};

/// Zeroes in runs of this length become holes.
const BLOCK_BYTES: usize = 64 << 10;
static ZEROES: [u8; BLOCK_BYTES] = [0; BLOCK_BYTES];

/// Copies the data of `from` to the same places in `to`, which must be empty. Holes and blocks of
/// zeroes become holes. Returns the bytes written.
pub(crate) fn copy_sparse(from: &File, to: &File) -> io::Result<u64> {
    let length_bytes = from.metadata()?.len();
    to.set_len(length_bytes)?;
    let mut buffer = vec![0; BLOCK_BYTES];
    let (mut at, mut written_bytes) = (0_u64, 0_u64);
    while let Some((start, end)) = next_data(from, at)? {
        at = start;
        while at < end {
            let left = usize::try_from(end - at).unwrap_or(BLOCK_BYTES);
            let block = &mut buffer[..left.min(BLOCK_BYTES)];
            from.read_exact_at(block, at)?;
            if *block != ZEROES[..block.len()] {
                to.write_all_at(block, at)?;
                written_bytes += block.len() as u64;
            }
            at += block.len() as u64;
        }
    }
    Ok(written_bytes)
}

/// The first range of data at or after `at`.
fn next_data(file: &File, at: u64) -> io::Result<Option<(u64, u64)>> {
    match seek(file, SeekFrom::Data(at)) {
        Ok(start) => Ok(Some((start, seek(file, SeekFrom::Hole(start))?))),
        // Nothing but a hole until the end.
        Err(rustix::io::Errno::NXIO) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn data_comes_over_and_zeroes_become_holes() {
        let (from, to) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        from.set_len(64 << 20).unwrap();
        from.write_all_at(b"first", 3).unwrap();
        from.write_all_at(&[0; 1 << 20], 8 << 20).unwrap();
        from.write_all_at(b"last", (64 << 20) - 4).unwrap();
        let written_bytes = copy_sparse(&from, &to).unwrap();
        // How finely data and holes alternate is up to the file system that holds the file.
        assert!(
            (9..=2 * BLOCK_BYTES as u64).contains(&written_bytes),
            "{written_bytes}"
        );
        assert_eq!(to.metadata().unwrap().len(), 64 << 20);
        assert!(to.metadata().unwrap().blocks() * 512 < 1 << 20);
        let mut text = [0; 5];
        to.read_exact_at(&mut text, 3).unwrap();
        assert_eq!(&text, b"first");
        to.read_exact_at(&mut text[..4], (64 << 20) - 4).unwrap();
        assert_eq!(&text[..4], b"last");
    }
}
