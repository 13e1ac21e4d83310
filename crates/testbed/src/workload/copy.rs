// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies of real files.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Copies one regular file with its permissions and modification time. Python finds a compiled
/// module stale when its source's time has changed.
pub(super) fn copy_file(from: &Path, to: &Path) -> io::Result<u64> {
    let metadata = fs::metadata(from)?;
    let bytes = fs::copy(from, to)?;
    // Readable in any case: a copy that its user cannot read is of no use.
    fs::set_permissions(
        to,
        fs::Permissions::from_mode(metadata.permissions().mode() | 0o600),
    )?;
    File::open(to)?.set_modified(metadata.modified()?)?;
    Ok(bytes)
}
