// SPDX-License-Identifier: MIT OR Apache-2.0
//! The mounts of a process: which file system is mounted where.
//!
//! Input: the text of `/proc/PID/mountinfo`. Output: the path by which an inode can be opened, and
//! the mount that a path is on.
//!
//! The kernel's events name a superblock's device and a path from its root. Only mountinfo joins
//! the two to a path that can be opened: its device column is the superblock's (on btrfs and
//! overlayfs `stat` tells another one), its root column says which part of the file system a bind
//! mount or a subvolume shows.

use crate::device::Device;

/// One line of mountinfo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountPoint {
    /// Number of the mount, as `mnt_id` in `/proc/PID/fdinfo` has it.
    pub id: u32,
    /// Device number of the superblock.
    pub major: u32,
    /// See `major`; may be above 255.
    pub minor: u32,
    /// Path from the root of the file system to the directory that is mounted.
    pub root: Vec<u8>,
    /// Where it is mounted.
    pub mount_point: Vec<u8>,
    /// Type, such as `ext4`.
    pub fs_type: Vec<u8>,
    /// Source of the mount, such as `/dev/sda1`.
    pub source: Vec<u8>,
    /// Options of the superblock.
    pub super_options: Vec<u8>,
}

/// Whether file systems of this type answer by themselves, from a device of this machine.
#[must_use]
pub fn is_on_local_device(fs_type: &[u8]) -> bool {
    const LOCAL: [&[u8]; 20] = [
        b"bcachefs",
        b"btrfs",
        b"erofs",
        b"exfat",
        b"ext2",
        b"ext3",
        b"ext4",
        b"f2fs",
        b"hfsplus",
        b"iso9660",
        b"jfs",
        b"msdos",
        b"nilfs2",
        b"ntfs3",
        b"overlay",
        b"reiserfs",
        b"squashfs",
        b"vfat",
        b"xfs",
        b"zfs",
    ];
    LOCAL.contains(&fs_type)
}

impl MountPoint {
    /// Lower and upper directories of an overlay, topmost first.
    #[must_use]
    pub fn overlay_layers(&self) -> Vec<Vec<u8>> {
        if self.fs_type != b"overlay" {
            return Vec::new();
        }
        let mut upper = Vec::new();
        let mut lower = Vec::new();
        for option in self.super_options.split(|&b| b == b',') {
            if let Some(path) = option.strip_prefix(b"upperdir=") {
                upper.push(path.to_vec());
            } else if let Some(path) = option.strip_prefix(b"lowerdir+=") {
                lower.push(path.to_vec());
            } else if let Some(paths) = option.strip_prefix(b"lowerdir=") {
                lower.extend(
                    paths
                        .split(|&b| b == b':')
                        .filter(|p| !p.is_empty())
                        .map(<[u8]>::to_vec),
                );
            }
        }
        upper.extend(lower);
        upper
    }

    /// Whether it answers by itself, from memory or from a device of this machine, by its type.
    /// Others may have a server, and that may be dead. An overlay answers as its layers do; see
    /// [`Mounts::is_local`].
    #[must_use]
    pub fn has_local_type(&self) -> bool {
        // A lookup in autofs waits for the daemon that mounts.
        let is_made_up = self.is_virtual() && self.fs_type != b"autofs";
        is_made_up || is_on_local_device(&self.fs_type)
    }

    /// The device number of its superblock.
    #[must_use]
    pub fn device(&self) -> Device {
        Device {
            major: self.major,
            minor: self.minor,
        }
    }

    /// Whether its files live in memory only or are made up by the kernel.
    #[must_use]
    pub fn is_virtual(&self) -> bool {
        const VIRTUAL: [&[u8]; 22] = [
            b"proc",
            b"sysfs",
            b"tmpfs",
            b"devtmpfs",
            b"devpts",
            b"ramfs",
            b"cgroup",
            b"cgroup2",
            b"debugfs",
            b"tracefs",
            b"securityfs",
            b"bpf",
            b"mqueue",
            b"hugetlbfs",
            b"pstore",
            b"configfs",
            b"fusectl",
            b"efivarfs",
            b"autofs",
            b"binfmt_misc",
            b"nsfs",
            b"rootfs",
        ];
        VIRTUAL.contains(&self.fs_type.as_slice())
    }
}

/// All mounts that a process sees, in mount order: later ones hide earlier ones.
#[derive(Clone, Debug, Default)]
pub struct Mounts {
    points: Vec<MountPoint>,
}

impl Mounts {
    /// Takes the text of a mountinfo file; lines that make no sense are passed over.
    #[must_use]
    pub fn parse(text: &[u8]) -> Self {
        let points = text.split(|&b| b == b'\n').filter_map(parse_line).collect();
        Self { points }
    }

    /// Some of the mounts.
    #[must_use]
    pub fn only(&self, is_kept: impl Fn(&MountPoint) -> bool) -> Self {
        let points = self.points.iter().filter(|point| is_kept(point));
        Self {
            points: points.cloned().collect(),
        }
    }

    /// All mounts, in mount order.
    #[must_use]
    pub fn points(&self) -> &[MountPoint] {
        &self.points
    }

    /// Paths under which an inode of device `major:minor`, at `path` from the root of its file
    /// system, can be reached, best first: widest root, then latest mount.
    #[must_use]
    pub fn reach(&self, major: u32, minor: u32, path: &[u8]) -> Vec<(usize, Vec<u8>)> {
        let mut found: Vec<(usize, Vec<u8>)> = Vec::new();
        for (index, point) in self.points.iter().enumerate().rev() {
            if (point.major, point.minor) != (major, minor) {
                continue;
            }
            let Some(rest) = below(&point.root, path) else {
                continue;
            };
            let mut full = point.mount_point.clone();
            if full == b"/" {
                full.clear();
            }
            full.extend_from_slice(rest);
            if full.is_empty() {
                full.push(b'/');
            }
            if self
                .mount_of(&full)
                .is_some_and(|i| self.points[i].same_tree(point))
            {
                found.push((index, full));
            }
        }
        found.sort_by_key(|(index, _)| self.points[*index].root.len());
        found
    }

    /// Whether a lookup of this path asks local file systems only. Those on the way count: a name
    /// in a directory of a server is asked for, whatever is mounted below it. Layers of overlays
    /// count where they can be found by their paths.
    #[must_use]
    pub fn is_local(&self, path: &[u8]) -> bool {
        /// Overlays of overlays; the kernel allows two.
        const DEPTH_MAX: u32 = 4;
        self.is_local_within(path, DEPTH_MAX)
    }

    fn is_local_within(&self, path: &[u8], depth: u32) -> bool {
        let mut on_the_way = self
            .points
            .iter()
            .enumerate()
            .filter(|(_, point)| below(&point.mount_point, path).is_some());
        on_the_way.all(|(index, point)| {
            // The latest mount at a mount point hides those before it.
            let mut later = self.points[index + 1..].iter();
            let is_hidden = later.any(|later| later.mount_point == point.mount_point);
            let has_local_layers = || {
                let mut layers = point.overlay_layers().into_iter();
                // In a container the paths of its layers lead elsewhere, mostly to itself.
                depth == 0
                    || layers.all(|layer| {
                        self.mount_of(&layer) == Some(index)
                            || self.is_local_within(&layer, depth - 1)
                    })
            };
            is_hidden || (point.has_local_type() && has_local_layers())
        })
    }

    /// Whether any of them isn't local by its type.
    #[must_use]
    pub fn has_foreign(&self) -> bool {
        self.points.iter().any(|point| !point.has_local_type())
    }

    /// The mount that a path is on: the latest of the longest mount points that lead to it.
    #[must_use]
    pub fn mount_of(&self, path: &[u8]) -> Option<usize> {
        let leads = |point: &MountPoint| below(&point.mount_point, path).is_some();
        let candidates = self
            .points
            .iter()
            .enumerate()
            .filter(|(_, point)| leads(point));
        candidates
            .max_by_key(|(index, point)| (point.mount_point.len(), *index))
            .map(|(i, _)| i)
    }
}

impl MountPoint {
    fn same_tree(&self, other: &Self) -> bool {
        (self.major, self.minor, &self.root) == (other.major, other.minor, &other.root)
    }
}

/// The part of `path` below the directory `top`: empty or starting with a slash.
#[must_use]
pub fn below<'a>(top: &[u8], path: &'a [u8]) -> Option<&'a [u8]> {
    if top == b"/" {
        return Some(if path == b"/" { b"" } else { path });
    }
    let rest = path.strip_prefix(top)?;
    (rest.is_empty() || rest[0] == b'/').then_some(rest)
}

/// Fields by their place up to the optional ones, which a lone dash ends.
fn parse_line(line: &[u8]) -> Option<MountPoint> {
    let mut fields = line.split(|&b| b == b' ');
    let id = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let _parent = fields.next()?;
    let device = std::str::from_utf8(fields.next()?).ok()?;
    let device: Device = device.parse().ok()?;
    let root = unescape(fields.next()?);
    let mount_point = unescape(fields.next()?);
    if !mount_point.starts_with(b"/") {
        return None;
    }
    let _options = fields.next()?;
    fields.by_ref().find(|field| *field == b"-")?;
    Some(MountPoint {
        id,
        major: device.major,
        minor: device.minor,
        root,
        mount_point,
        fs_type: fields.next()?.to_vec(),
        source: unescape(fields.next()?),
        super_options: unescape(fields.next().unwrap_or_default()),
    })
}

/// The kernel writes space, tab, newline and backslash as three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, tail)) = rest.split_first() {
        let octal = (byte == b'\\' && tail.len() >= 3)
            .then(|| std::str::from_utf8(&tail[..3]).ok())
            .flatten()
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match octal {
            Some(value) => {
                out.push(value);
                rest = &tail[3..];
            }
            None => {
                out.push(byte);
                rest = tail;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"\
22 1 254:0 / / rw,relatime shared:1 master:2 - ext4 /dev/vda rw\n\
30 22 0:21 / /proc rw - proc proc rw\n\
40 22 8:300 /@/sub /mnt/sub\\040vol rw - btrfs /dev/sdb rw\n\
41 22 254:0 /var/data /srv rw - ext4 /dev/vda rw\n\
42 22 0:50 / /over rw - overlay overlay rw,lowerdir=/l1:/l2,upperdir=/u,workdir=/w\n\
50 22 0:60 / /srv/hidden rw - tmpfs none rw\n\
nonsense\n";

    #[test]
    fn optional_fields_and_escapes_are_understood() {
        let mounts = Mounts::parse(TEXT);
        assert_eq!(mounts.points().len(), 6);
        assert_eq!(mounts.points()[0].fs_type, b"ext4");
        assert_eq!(mounts.points()[2].mount_point, b"/mnt/sub vol");
        assert_eq!(mounts.points()[2].minor, 300);
    }

    #[test]
    fn paths_are_reached_through_roots_and_bind_mounts() {
        let mounts = Mounts::parse(TEXT);
        let paths = |major, minor, path: &[u8]| -> Vec<Vec<u8>> {
            mounts
                .reach(major, minor, path)
                .into_iter()
                .map(|(_, path)| path)
                .collect()
        };
        assert_eq!(paths(254, 0, b"/etc/x"), [b"/etc/x".to_vec()]);
        assert_eq!(
            paths(254, 0, b"/var/data/f"),
            [b"/var/data/f".to_vec(), b"/srv/f".to_vec()]
        );
        assert_eq!(
            paths(254, 0, b"/var/data"),
            [b"/var/data".to_vec(), b"/srv".to_vec()]
        );
        assert_eq!(paths(8, 300, b"/@/sub/a"), [b"/mnt/sub vol/a".to_vec()]);
        assert!(paths(8, 300, b"/@/other").is_empty());
        assert!(paths(8, 44, b"/@/sub/a").is_empty());
        assert_eq!(paths(254, 0, b"/"), [b"/".to_vec()]);
    }

    #[test]
    fn a_relative_mount_point_is_no_mount() {
        let mounts = Mounts::parse(b"21 1 8:1 / srv rw - ext4 /dev/sda1 rw\n");
        assert!(mounts.points().is_empty());
        assert!(mounts.reach(8, 1, b"/x").is_empty());
    }

    #[test]
    fn a_path_under_another_mount_is_not_offered() {
        let mounts = Mounts::parse(TEXT);
        let paths = mounts.reach(254, 0, b"/var/data/hidden/f");
        assert_eq!(paths.len(), 1);
        assert_eq!(paths[0].1, b"/var/data/hidden/f");
    }

    #[test]
    fn a_path_is_local_if_all_on_the_way_are() {
        let text = "22 1 254:0 / / rw - rootfs rootfs rw\n\
            23 22 254:1 / / rw - ext4 /dev/vda rw\n\
            30 23 0:21 / /proc rw - proc proc rw\n\
            31 23 0:40 / /srv rw - fuse.sshfs host rw\n\
            32 31 8:1 / /srv/disk rw - ext4 /dev/sda1 rw\n\
            33 23 0:41 / /net rw - autofs auto rw\n\
            34 33 0:42 / /net rw - nfs4 server rw\n\
            35 23 0:43 / /far rw - nfs4 server rw\n\
            36 35 8:2 / /far rw - xfs /dev/sda2 rw\n\
            40 23 0:50 / /over rw - overlay overlay rw,lowerdir=/srv/l:/l2,upperdir=/u\n\
            41 23 0:51 / /own rw - overlay overlay rw,lowerdir=/l1:/own/l2,upperdir=/u\n";
        let mounts = Mounts::parse(text.as_bytes());
        for local in ["/", "/etc/passwd", "/proc/1", "/far/x", "/own/x", "/srvx"] {
            assert!(mounts.is_local(local.as_bytes()), "{local}");
        }
        for foreign in ["/srv", "/srv/x", "/srv/disk/x", "/net/x", "/over/x"] {
            assert!(!mounts.is_local(foreign.as_bytes()), "{foreign}");
        }
        assert!(mounts.has_foreign());
        assert!(!Mounts::parse(b"23 22 8:1 / / rw - btrfs /dev/sda1 rw\n").has_foreign());
        for remote in [
            "nfs",
            "cifs",
            "9p",
            "ceph",
            "fuseblk",
            "virtiofs",
            "unheard-of",
        ] {
            let line = format!("22 1 0:50 / / rw - {remote} server rw\n");
            assert!(!Mounts::parse(line.as_bytes()).is_local(b"/x"), "{remote}");
        }
    }

    #[test]
    fn overlay_layers_come_topmost_first() {
        let mounts = Mounts::parse(TEXT);
        assert_eq!(
            mounts.points()[4].overlay_layers(),
            [&b"/u"[..], b"/l1", b"/l2"].map(|p| p.to_vec())
        );
    }
}
