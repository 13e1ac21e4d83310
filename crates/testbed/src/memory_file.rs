// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bytes of a disk, in memory.

use std::fs::File;

use rustix::fs::MemfdFlags;

use crate::error::TestbedError;

/// A file without a name that takes memory only for what is written.
pub(crate) fn memory_file(capacity_bytes: u64) -> Result<File, TestbedError> {
    let store = rustix::fs::memfd_create("foreread-testbed", MemfdFlags::CLOEXEC)
        .map(File::from)
        .map_err(TestbedError::system("allocate the disk's memory"))?;
    store
        .set_len(capacity_bytes)
        .map_err(TestbedError::system("size the disk's memory"))?;
    Ok(store)
}
