// SPDX-License-Identifier: MIT OR Apache-2.0
//! A file in memory, for programs that measure the cost of its page faults.

use std::fs::File;
use std::path::Path;

use crate::error::TestbedError;
use crate::sys::Mapping;

/// Mapped files are read in units of this many bytes.
pub const PAGE_BYTES: u64 = 4096;

/// A file mapped to be read, shared, without any advice to the kernel.
///
/// The file must stay as long as it is and readable: otherwise the kernel ends the process with
/// SIGBUS.
#[derive(Debug)]
pub struct MappedFile {
    mapping: Mapping,
    pages: u64,
}

impl MappedFile {
    /// Maps a whole file, which must not be empty.
    ///
    /// # Errors
    /// It can't be opened or mapped, or has no byte.
    pub fn open(path: &Path) -> Result<Self, TestbedError> {
        let what = || format!("map {}", path.display());
        let file = File::open(path).map_err(TestbedError::system(what()))?;
        let metadata = file.metadata().map_err(TestbedError::system(what()))?;
        if metadata.len() == 0 {
            let path = path.display();
            let why = format!("{path} has no bytes to map: take a file that has some");
            return Err(TestbedError::Misuse(why));
        }
        let bytes = usize::try_from(metadata.len()).map_err(std::io::Error::other);
        let bytes = bytes.map_err(TestbedError::system(what()))?;
        let mapping = Mapping::new(&file, bytes).map_err(TestbedError::system(what()))?;
        Ok(Self {
            mapping,
            pages: metadata.len().div_ceil(PAGE_BYTES),
        })
    }

    /// Number of its pages, 1 or more. The last may be shorter.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Reads the first byte of a page, which brings the page into memory if it isn't there; `None`
    /// beyond the end.
    pub fn touch(&self, page: u64) -> Option<u8> {
        let at = usize::try_from(page.checked_mul(PAGE_BYTES)?).ok()?;
        self.mapping.byte(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_those_of_the_file_and_no_more() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("file");
        let mut bytes = vec![b'a'; 4096];
        bytes.extend([b'b'; 4096]);
        bytes.push(b'c');
        std::fs::write(&path, bytes).unwrap();
        let mapped = MappedFile::open(&path).unwrap();
        assert_eq!(mapped.pages(), 3);
        let touched = [0, 1, 2, 3, u64::MAX].map(|page| mapped.touch(page));
        assert_eq!(touched, [Some(b'a'), Some(b'b'), Some(b'c'), None, None]);
    }

    #[test]
    fn what_cannot_be_mapped_is_named() {
        let scratch = tempfile::tempdir().unwrap();
        let empty = scratch.path().join("empty");
        File::create(&empty).unwrap();
        for path in [empty.as_path(), Path::new("/no/such/file"), scratch.path()] {
            let error = MappedFile::open(path).unwrap_err().to_string();
            assert!(error.contains(&path.display().to_string()), "{error}");
        }
    }
}
