// SPDX-License-Identifier: MIT OR Apache-2.0
//! Profiles of other systems, and what of them is on this one.

use std::collections::HashMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use foreread_boot::portable::{Fit, Found, placed, probed, split_by_need};
use foreread_core::Device;
use foreread_core::mounts::below;
use foreread_linux_prefetcher::find_on_device;
use foreread_prefetch::ext4::{Answer, FileType, Inode, Name};
use foreread_profile::types::DevicePages;
use foreread_profile::{Identity, NodeId, NodeKind, Profile, merge_profiles, within};
use foreread_sys::block_device::{BlockDevice, device_below, disk_of_partition};
use foreread_sys::mounts::mounts_of_self;
use foreread_sys::read_whole::read_whole;

use crate::replay::FIRST_STAGE_ITEMS;
use crate::state::{PROFILE_BYTES_MAX, RANGES_MAX, decoded};

/// Where images and packages put profiles for the first boot.
pub const SHIPPED: &str = "usr/lib/foreread/boot.d";
/// Profiles in it that are read; the first by name.
const SHIPPED_MAX: usize = 64;
/// Paths are looked up at once: a queue for the device to sort, or to serve in parallel.
const THREADS: usize = 16;

/// The part of a profile that fits the system at `root`, and how much that is. Each path is looked
/// up there; symbolic links are not followed at its end.
///
/// The directories of an ext4 are read from its device, one depth after the other. The kernel is
/// asked about all other paths.
#[must_use]
pub fn place(profile: &Profile, root: &Path) -> (Profile, Fit) {
    let (mut placed, fit) = place_paths(profile, root);
    // An image may come to a larger device.
    if root == Path::new("/") {
        placed.devices = ends_of_devices(root).unwrap_or_default();
    }
    (placed, fit)
}

fn place_paths(profile: &Profile, root: &Path) -> (Profile, Fit) {
    let answers = on_device(profile, root);
    let answer = |id: NodeId| answers.as_ref().and_then(|all| all.get(id.0 as usize));
    let mut to_ask = Vec::new();
    let mut found = HashMap::new();
    for (id, _) in profile.iter() {
        match answer(id) {
            Some(Answer::Found { number, inode }) => {
                found.extend(of_inode(*number, inode).map(|found| (profile.path(id), found)));
            }
            Some(Answer::Missing) => {}
            Some(Answer::Unknown) | None => to_ask.push(profile.path(id)),
        }
    }
    found.extend(look_up(&to_ask, root));
    placed(profile, |path| found.get(path).copied())
}

/// Both ends of the device of the file system at `root`, and of the disk that it is a partition of.
/// `None` where the file system can't be looked at.
fn ends_of_devices(root: &Path) -> Option<Vec<DevicePages>> {
    let mounts = mounts_of_self().ok()?;
    let mounted = mounts.mount_of(root.as_os_str().as_bytes())?;
    let own = device_below(mounts.points().get(mounted)?);
    let devices = [(Some(own), false), (disk_of_partition(own), true)];
    let probed = |(device, is_whole_disk): (Option<Device>, bool)| {
        let device = device?;
        let opened = BlockDevice::open(device.major, device.minor).ok()?;
        Some(probed(b"/", is_whole_disk, opened.bytes().ok()?))
    };
    Some(devices.into_iter().filter_map(probed).collect())
}

fn device_of(metadata: &fs::Metadata) -> Device {
    Device {
        major: rustix::fs::major(metadata.dev()),
        minor: rustix::fs::minor(metadata.dev()),
    }
}

/// Finds the paths of a profile in the directories of the file system at `root`. `None` where these
/// can't be read from its device.
fn on_device(profile: &Profile, root: &Path) -> Option<Vec<Answer>> {
    const ROOT_INODE: u64 = 2;
    let metadata = fs::metadata(root).ok()?;
    let root = root.canonicalize().ok()?;
    let mounts = mounts_of_self().ok()?;
    // In a container the root is a directory of the file system.
    if metadata.ino() != ROOT_INODE {
        return None;
    }
    let mut is_elsewhere = vec![false; profile.nodes.len()];
    for point in mounts.points() {
        let point = below(root.as_os_str().as_bytes(), &point.mount_point);
        if let Some(mounted) = point.filter(|path| !path.is_empty())
            && let Some(id) = profile.find(mounted)
        {
            is_elsewhere[id.0 as usize] = true;
        }
    }
    let mut names = Vec::with_capacity(profile.nodes.len());
    for (id, node) in profile.iter() {
        let parent = node.parent.map(|parent| parent.0 as usize);
        let at = id.0 as usize;
        is_elsewhere[at] |= parent.is_some_and(|parent| is_elsewhere[parent]);
        // No file has an empty name.
        let name = match is_elsewhere[at] {
            true => b"",
            false => profile.name(id),
        };
        names.push(Name { parent, name });
    }
    let mut answers = find_on_device(device_of(&metadata), &names).ok()?;
    for (answer, is_elsewhere) in answers.iter_mut().zip(is_elsewhere) {
        if is_elsewhere {
            *answer = Answer::Unknown;
        }
    }
    Some(answers)
}

fn of_inode(number: u64, inode: &Inode) -> Option<Found> {
    let kind = match inode.file_type {
        FileType::Regular => NodeKind::File,
        FileType::Directory => NodeKind::Directory,
        FileType::Symlink => NodeKind::Symlink,
        FileType::Special => return None,
    };
    Some(Found {
        kind,
        identity: Identity {
            inode: number,
            generation: inode.generation,
            size_bytes: inode.size_bytes,
            mtime_ns: inode.mtime_ns,
        },
    })
}

fn look_up(paths: &[Vec<u8>], root: &Path) -> Vec<(Vec<u8>, Found)> {
    // Neighbours are in one directory: a thread takes several of them.
    let part = paths.len().div_ceil(THREADS).max(1);
    let look = |paths: &[Vec<u8>]| {
        let found = paths
            .iter()
            .filter_map(|path| Some((path.clone(), found(path, root)?)));
        found.collect::<Vec<_>>()
    };
    thread::scope(|scope| {
        let threads: Vec<_> = paths
            .chunks(part)
            .map(|paths| scope.spawn(move || look(paths)))
            .collect();
        // What a thread that panicked has found is missing.
        let found = threads.into_iter().filter_map(|thread| thread.join().ok());
        found.flatten().collect()
    })
}

fn found(path: &[u8], root: &Path) -> Option<Found> {
    let relative = path.strip_prefix(b"/").unwrap_or(path);
    let path = root.join(std::ffi::OsStr::from_bytes(relative));
    let metadata = fs::symlink_metadata(path).ok()?;
    let kind = match metadata.file_type() {
        kind if kind.is_file() => NodeKind::File,
        kind if kind.is_dir() => NodeKind::Directory,
        kind if kind.is_symlink() => NodeKind::Symlink,
        _ => return None,
    };
    let mtime_ns = metadata.mtime().saturating_mul(1_000_000_000);
    Some(Found {
        kind,
        identity: Identity {
            inode: metadata.ino(),
            generation: 0,
            size_bytes: metadata.size(),
            mtime_ns: mtime_ns.saturating_add(metadata.mtime_nsec()),
        },
    })
}

/// The part of a shipped profile that is on this system. An initramfs moves `/proc`, `/sys` and
/// `/dev`, which are needed for it: this process must have entered the root file system.
pub(crate) struct Placed {
    pub profile: Profile,
    pub fit: Fit,
}

/// Places the part of a shipped profile that is needed first: as much as the first stage of a
/// replay has.
pub(crate) fn place_first(shipped: &Profile) -> (Profile, ToPlace) {
    let (first, rest) = split_by_need(shipped, FIRST_STAGE_ITEMS);
    let (profile, fit) = place(&first, Path::new("/"));
    (profile, ToPlace { rest, fit })
}

/// The part of a shipped profile that is needed later.
pub(crate) struct ToPlace {
    rest: Profile,
    /// That of what was placed before.
    fit: Fit,
}

impl ToPlace {
    /// Places it in a thread, beside the boot and the replay of the first part. In further parts,
    /// each three times as large as the one before, the first boot in docs/boot.md took 16.7 s
    /// instead of 16.3: the head went to and fro between those that were placed and those that were
    /// read.
    pub fn start(self) -> Option<JoinHandle<Placed>> {
        let place = move || {
            // The ends of devices came with the first part.
            let (profile, fit) = place_paths(&self.rest, Path::new("/"));
            let fit = self.fit.and(fit);
            Placed { profile, fit }
        };
        let thread = thread::Builder::new().name("place".into());
        thread.spawn(place).ok()
    }
}

/// The profiles that came with the system at `root`, as one, before they are placed. `tell` is
/// called with a line for each that can't be read.
pub(crate) fn shipped(root: &Path, tell: &mut dyn FnMut(&str)) -> Option<Profile> {
    let entries = fs::read_dir(root.join(SHIPPED)).ok()?;
    let is_profile = |path: &PathBuf| path.extension().is_some_and(|end| end == "profile");
    let mut paths: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(is_profile)
        .collect();
    paths.sort();
    paths.truncate(SHIPPED_MAX);
    let mut merged: Option<Profile> = None;
    for path in paths {
        let read = read_whole(&path, "profile", PROFILE_BYTES_MAX).map_err(|e| e.to_string());
        match read.and_then(|bytes| decoded(&bytes).map_err(|e| e.to_string())) {
            Ok(profile) => {
                merged = Some(match merged {
                    Some(merged) => {
                        within(&merge_profiles(&merged, &profile), RANGES_MAX).into_owned()
                    }
                    None => profile,
                });
            }
            Err(error) => tell(&format!("{}: {error}", path.display())),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreread_boot::portable::portable;
    use foreread_profile::{ProfileBuilder, Program, Source, Uses, encode};

    /// A profile of the files of a system, as they are there.
    fn profile_of(root: &Path, paths: &[&str]) -> Profile {
        let mut builder = ProfileBuilder::new(Program::default(), Source::default());
        for path in paths {
            let found = found(path.as_bytes(), root).unwrap();
            let id = builder.node(path.as_bytes()).unwrap();
            builder.set_kind(id, found.kind);
            builder.set_identity(id, found.identity);
            builder.used(id, Uses::LOOKED_UP, 1);
        }
        builder.finish()
    }

    #[test]
    fn shipped_profiles_are_placed_by_path_and_size() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        fs::create_dir_all(root.join("usr/bin")).unwrap();
        fs::write(root.join("usr/bin/a"), "aaaa").unwrap();
        fs::write(root.join("usr/bin/b"), "bbbb").unwrap();
        let mut told = Vec::new();
        assert_eq!(shipped(root, &mut |line| told.push(line.to_owned())), None);
        let profile = portable(&profile_of(root, &["/usr/bin/a", "/usr/bin/b"]));
        let folder = root.join(SHIPPED);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("10-base.profile"), encode(&profile)).unwrap();
        fs::write(folder.join("20-bad.profile"), "FRPROFIL").unwrap();
        fs::write(folder.join("README"), "no profile").unwrap();
        fs::write(root.join("usr/bin/b"), "another version").unwrap();

        let shipped = shipped(root, &mut |line| told.push(line.to_owned())).unwrap();
        assert!(
            told.len() == 1 && told[0].contains("20-bad.profile"),
            "{told:?}"
        );
        let (fitting, fit) = place(&shipped, root);
        // The root, two directories, and a file.
        assert_eq!((fit.same, fit.missing, fit.others), (4, 0, 1));
        let id = fitting.find(b"/usr/bin/a").unwrap();
        let inode = fs::metadata(root.join("usr/bin/a")).unwrap().ino();
        assert_eq!(fitting.node(id).unwrap().identity.inode, inode);
    }
}
