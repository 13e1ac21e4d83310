// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which files and threads are defined, and how much of the limits is used.

use crate::limits::{EXTENTS_MAX, FILES_MAX, NAMES_BYTES_MAX, THREADS_MAX};
use crate::types::{FileId, ThreadId};

/// A set of small numbers.
#[derive(Clone, Debug, Default)]
struct Bits(Vec<u64>);

impl Bits {
    #[inline]
    fn has(&self, id: u32) -> bool {
        let word = self.0.get(id as usize / 64).copied().unwrap_or(0);
        word >> (id % 64) & 1 == 1
    }

    fn add(&mut self, id: u32) {
        let at = id as usize / 64;
        if self.0.len() <= at {
            self.0.resize(at + 1, 0);
        }
        self.0[at] |= 1 << (id % 64);
    }
}

/// Ids that are defined. It takes 256 KiB at most.
#[derive(Clone, Debug, Default)]
pub(super) struct Defined {
    files: Bits,
    threads: Bits,
    names_bytes: u64,
    extents: u64,
}

impl Defined {
    #[inline]
    pub fn has_file(&self, id: FileId) -> bool {
        self.files.has(id.0)
    }

    #[inline]
    pub fn has_thread(&self, id: ThreadId) -> bool {
        self.threads.has(id.0)
    }

    /// The error is the kind of thing that there is too much of.
    pub fn add_file(&mut self, id: FileId, path_bytes: usize) -> Result<(), &'static str> {
        if id.0 >= FILES_MAX {
            return Err("files");
        }
        self.add_name(path_bytes)?;
        self.files.add(id.0);
        Ok(())
    }

    /// As [`Defined::add_file`].
    pub fn add_thread(&mut self, id: ThreadId, name_bytes: usize) -> Result<(), &'static str> {
        if id.0 >= THREADS_MAX {
            return Err("threads");
        }
        self.add_name(name_bytes)?;
        self.threads.add(id.0);
        Ok(())
    }

    /// As [`Defined::add_file`].
    pub fn add_extents(&mut self, count: usize) -> Result<(), &'static str> {
        let extents = self.extents.saturating_add(count as u64);
        if extents > EXTENTS_MAX {
            return Err("extents");
        }
        self.extents = extents;
        Ok(())
    }

    fn add_name(&mut self, bytes: usize) -> Result<(), &'static str> {
        let names_bytes = self.names_bytes.saturating_add(bytes as u64);
        if names_bytes > NAMES_BYTES_MAX {
            return Err("names");
        }
        self.names_bytes = names_bytes;
        Ok(())
    }
}
