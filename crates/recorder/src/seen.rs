// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inodes that a program used, with their paths, and where these are: on which file system, in
//! which layer of an overlay.

use foreread_core::Device;
use foreread_core::mounts::{MountPoint, Mounts};
use foreread_profile::{NodeKind, Uses};

use crate::file_tree::FileTree;
use crate::names::Name;
use crate::pages::Pages;

/// An inode that the program used, with its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Absolute path.
    pub path: Vec<u8>,
    /// Inode number.
    pub inode: u64,
    /// Inode generation; 0 when not known.
    pub generation: u32,
    /// Type and permissions.
    pub mode: u16,
    /// How it was used.
    pub uses: Uses,
    /// When it was first needed, from the start of the program.
    pub need_ns: u64,
    /// Its pages that were needed.
    pub pages: Pages,
}

impl Seen {
    /// A name that was needed at `need_ns`, without pages.
    #[must_use]
    pub fn of(name: Name, need_ns: u64) -> Self {
        Self {
            path: name.path,
            inode: name.inode,
            generation: name.generation,
            mode: name.mode,
            uses: name.uses,
            need_ns,
            pages: Pages::default(),
        }
    }
}

/// Where a path on an overlay really is: in its topmost layer that has it, when that can be
/// reached. `None` for directories, which are merged from all layers.
#[must_use]
pub fn in_layer(path: &[u8], mounts: &Mounts, tree: &dyn FileTree) -> Option<Seen> {
    let point = &mounts.points()[mounts.mount_of(path)?];
    let rest = path.strip_prefix(point.mount_point.as_slice())?;
    for mut real in point.overlay_layers() {
        if point.mount_point == b"/" {
            real.push(b'/');
        }
        real.extend_from_slice(rest);
        let Ok(status) = tree.status(&real) else {
            continue;
        };
        return (status.kind() == Some(NodeKind::File)).then(|| Seen {
            path: real,
            inode: status.inode,
            generation: 0,
            mode: status.inode_mode(),
            uses: Uses(0),
            need_ns: 0,
            pages: Pages::default(),
        });
    }
    None
}

/// The superblock's device of a path as the kernel's events tell it, and its place below the root
/// of the file system.
#[must_use]
pub fn place(path: &[u8], mounts: &Mounts) -> Option<(u32, Vec<u8>)> {
    let point = &mounts.points()[mounts.mount_of(path)?];
    let top: &[u8] = if point.mount_point == b"/" {
        b""
    } else {
        &point.mount_point
    };
    let rest = path.strip_prefix(top)?;
    let mut inside = if point.root == b"/" {
        Vec::new()
    } else {
        point.root.clone()
    };
    if rest != b"/" {
        inside.extend_from_slice(rest);
    }
    Some((device_of(point), inside))
}

/// The superblock of a mount, as the kernel numbers it.
#[must_use]
pub fn device_of(point: &MountPoint) -> u32 {
    Device {
        major: point.major,
        minor: point.minor,
    }
    .to_kernel()
}

/// An opened file with its resident pages; in an overlay these belong to the file in the layer.
#[must_use]
pub fn opened(
    name: Name,
    pages: Pages,
    start_ns: u64,
    mounts: &Mounts,
    tree: &dyn FileTree,
) -> Vec<Seen> {
    let need_ns = name.need_ns.saturating_sub(start_ns).max(1);
    let pages = pages.at(need_ns);
    let real = in_layer(&name.path, mounts, tree);
    let mut seen = Seen::of(name, need_ns);
    match real {
        Some(mut real) => {
            real.need_ns = need_ns;
            real.uses = Uses::READ.union(seen.uses);
            real.pages = pages;
            vec![seen, real]
        }
        None => {
            if !pages.is_empty() {
                seen.uses = seen.uses.union(Uses::READ);
            }
            seen.pages = pages;
            vec![seen]
        }
    }
}

/// Resident pages of a name that no event told of because they were there already; `None` when
/// there are none.
#[must_use]
pub fn resident(
    name: Name,
    pages: Pages,
    start_ns: u64,
    mounts: &Mounts,
    tree: &dyn FileTree,
) -> Option<Seen> {
    if pages.is_empty() {
        return None;
    }
    let need_ns = name.need_ns.saturating_sub(start_ns).max(1);
    let real = in_layer(&name.path, mounts, tree);
    let mut seen = real.unwrap_or_else(|| Seen::of(name, need_ns));
    seen.uses = Uses::READ;
    seen.need_ns = need_ns;
    seen.pages = pages.at(need_ns);
    Some(seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_below_the_root_of_its_file_system() {
        let mounts = Mounts::parse(
            b"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n\
              2 1 0:40 /@home /home rw - btrfs /dev/sdb rw\n\
              3 1 8:300 / /big rw - xfs /dev/sdc rw\n",
        );
        assert_eq!(place(b"/", &mounts), Some((8 << 20 | 1, b"".to_vec())));
        assert_eq!(
            place(b"/etc/x", &mounts),
            Some((8 << 20 | 1, b"/etc/x".to_vec()))
        );
        assert_eq!(place(b"/home", &mounts), Some((40, b"/@home".to_vec())));
        assert_eq!(
            place(b"/big/x", &mounts),
            Some((8 << 20 | 300, b"/x".to_vec()))
        );
    }
}
