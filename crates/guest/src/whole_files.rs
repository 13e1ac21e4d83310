// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading ahead as its predecessors did: the files that a recorded boot has read are read whole.
//!
//! A script in the initramfs reads them (`tests/guest/initramfs/init-bottom`). Here is the list
//! that it goes by: from the profile on a machine's root disk, and for the order of blocks from
//! what filefrag(8) says of the files.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::Write as _;
use std::path::Path;

use foreread_guest::GuestError;
use serde_json::Value;

use crate::context::on_image;

/// In the root directory of the root disk, for the script.
const LIST: &str = "whole-files.list";

/// How the files are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WholeFiles {
    /// One by one in the order of their first blocks. systemd starts when all were read.
    InBlockOrder,
    /// One by one as the boot needs them, while it goes on.
    AsNeeded,
}

impl WholeFiles {
    /// The value of `guest.whole_files` on the kernel's command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::InBlockOrder => "blocks",
            Self::AsNeeded => "needed",
        }
    }

    pub fn of_name(name: &str) -> Option<Self> {
        [Self::InBlockOrder, Self::AsNeeded]
            .into_iter()
            .find(|way| way.name() == name)
    }

    /// Leaves the list on the root disk of a machine whose boot was recorded.
    pub fn list(self, root_image: &Path) -> Result<(), GuestError> {
        let shown = on_image(
            root_image,
            "./usr/bin/foreread show --files --json var/lib/foreread/boot/boot.frp",
            &[],
        )?;
        let mut paths = paths_as_needed(&shown)?;
        if self == Self::InBlockOrder {
            let list = written(&paths)?;
            let list = [list.path().as_os_str()];
            let said = on_image(root_image, "xargs -d '\\n' filefrag -v <\"$1\"", &list)?;
            let first_blocks = first_blocks(&said);
            // A file without blocks, whose data are in its inode, comes first.
            paths.sort_by_key(|path| first_blocks.get(path.as_str()).copied());
        }
        let list = written(&paths)?;
        let install = "install -m 644 \"$1\" \"$2\"";
        let arguments = [list.path().as_os_str(), OsStr::new(LIST)];
        on_image(root_image, install, &arguments).map(drop)
    }
}

/// The files of a profile by the time of their first need, relative to the root directory. `shown`
/// is what `foreread show --files --json` printed.
fn paths_as_needed(shown: &str) -> Result<Vec<String>, GuestError> {
    let unexpected = |what: String| GuestError::Unexpected(format!("the boot's profile: {what}"));
    let shown: Value =
        serde_json::from_str(shown).map_err(|error| unexpected(error.to_string()))?;
    let nodes = shown["nodes"].as_array().into_iter().flatten();
    let has_pages = |node: &&Value| node["ranges"].as_array().is_some_and(|all| !all.is_empty());
    let mut files: Vec<(u64, &str)> = nodes
        .filter(|node| node["kind"] == "file")
        .filter(has_pages)
        .filter_map(|node| Some((node["need_ns"].as_u64()?, node["path"].as_str()?)))
        .collect();
    if files.is_empty() {
        return Err(unexpected("it has no files".to_owned()));
    }
    files.sort_unstable();
    let relative = |(_, path): (u64, &str)| path.trim_start_matches('/').to_owned();
    Ok(files.into_iter().map(relative).collect())
}

/// The first block of each file that has blocks, from what `filefrag -v` printed.
fn first_blocks(said: &str) -> HashMap<&str, u64> {
    let mut first_blocks = HashMap::new();
    let mut path = None;
    for line in said.lines() {
        if let Some(of_file) = line.strip_prefix("File size of ") {
            path = of_file.split_once(" is ").map(|(path, _)| path);
        } else if let Some(extent) = line.trim_start().strip_prefix("0:") {
            // Logical range, then the physical one: `0..  36:  1580658.. 1580694:  37:`.
            let physical = extent.split(':').nth(1).unwrap_or("");
            let first = physical.split("..").next().unwrap_or("").trim();
            if let (Some(path), Ok(first)) = (path.take(), first.parse()) {
                first_blocks.insert(path, first);
            }
        }
    }
    first_blocks
}

/// A file with a path in each line.
fn written(paths: &[String]) -> Result<tempfile::NamedTempFile, GuestError> {
    let write = || {
        let mut list = tempfile::NamedTempFile::new()?;
        for path in paths {
            writeln!(list, "{path}")?;
        }
        Ok(list)
    };
    write().map_err(|error: std::io::Error| {
        GuestError::Unexpected(format!("cannot write a list of files: {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_with_pages_come_as_they_are_needed() {
        let shown = r#"{"nodes": [
            {"kind": "file", "path": "/b", "need_ns": 20, "ranges": [{}]},
            {"kind": "directory", "path": "/etc", "need_ns": 1, "ranges": [{}]},
            {"kind": "file", "path": "/looked-at", "need_ns": 2, "ranges": []},
            {"kind": "file", "path": "/etc/a", "need_ns": 30, "ranges": [{}]},
            {"kind": "file", "path": "/c", "need_ns": 5, "ranges": [{}]}
        ]}"#;
        assert_eq!(paths_as_needed(shown).unwrap(), ["c", "b", "etc/a"]);
        assert!(paths_as_needed("{}").is_err());
        assert!(paths_as_needed("no JSON").is_err());
    }

    #[test]
    fn filefrag_tells_the_first_block_of_each_file() {
        let said = "Filesystem type is: ef53
File size of bin/ls is 151344 (37 blocks of 4096 bytes)
 ext:     logical_offset:        physical_offset: length:   expected: flags:
   0:        0..      30:    1580658..   1580688:     31:
   1:       31..      36:    1590000..   1590005:      6:    1580689: last,eof
bin/ls: 2 extents found
File size of etc/empty is 0 (0 blocks of 4096 bytes)
etc/empty: 0 extents found
File size of etc/fstab is 37 (1 block of 4096 bytes)
 ext:     logical_offset:        physical_offset: length:   expected: flags:
   0:        0..       0:       1776..      1776:      1:             last,eof
";
        let found = first_blocks(said);
        assert_eq!(
            found,
            HashMap::from([("bin/ls", 1_580_658), ("etc/fstab", 1_776)])
        );
    }

    #[test]
    fn a_way_has_one_name() {
        for way in [WholeFiles::InBlockOrder, WholeFiles::AsNeeded] {
            assert_eq!(WholeFiles::of_name(way.name()), Some(way));
        }
        assert_eq!(WholeFiles::of_name("layout"), None);
    }
}
