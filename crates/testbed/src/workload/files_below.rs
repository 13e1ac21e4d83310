// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which files a tree has.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::TestbedError;

/// The regular files below a directory, in the order of their paths.
///
/// # Errors
/// A directory can't be listed.
pub fn files_below(directory: &Path) -> Result<Vec<PathBuf>, TestbedError> {
    let what = format!("list the files below {}", directory.display());
    listed(directory).map_err(TestbedError::system(what))
}

fn listed(top: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut directories = vec![top.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                directories.push(entry.path());
            } else if kind.is_file() {
                files.push(entry.path());
            }
        }
    }
    files.sort_unstable();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_come_in_order_and_links_are_not_followed() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        fs::create_dir_all(at("b/c")).unwrap();
        for name in ["z", "b/c/y", "b/x", "a"] {
            fs::write(at(name), name).unwrap();
        }
        std::os::unix::fs::symlink(scratch.path(), at("b/loop")).unwrap();
        let expected = ["a", "b/c/y", "b/x", "z"].map(at);
        assert_eq!(files_below(scratch.path()).unwrap(), expected);
        assert!(files_below(&at("gone")).is_err());
    }
}
