// SPDX-License-Identifier: MIT OR Apache-2.0
//! Capabilities of this machine. Each probe does the thing itself, as far as that changes nothing,
//! and returns the kernel's answer; the caller interprets it.
#![forbid(unsafe_code)]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use foreread_accounting::By;
use foreread_bpf::{BpfError, Survey};
use foreread_linux_blocks::BlockWatcher;
use foreread_linux_check::Watcher;
use foreread_linux_recorder::{
    BpfRecorder, FanotifyError, FanotifyRecorder, TracefsError, TracefsRecorder, Watch,
};
use foreread_linux_stat::{Accounting, Following, StatError};
use foreread_prefetch::ext4::Geometry;
use foreread_profile::BlindSpots;
use foreread_sys::block_device::BlockDevice;
use foreread_sys::mounts::{MountPoint, mounts_of_self};
use rustix::fs::{Access, AtFlags, MemfdFlags, Mode, OFlags, ResolveFlags};

/// Time that the BPF recorder takes to load and attach. A run waits for it.
///
/// # Errors
/// As [`BpfRecorder::load`] and [`BpfRecorder::attach`].
pub fn bpf_recorder(watch: Watch) -> Result<Duration, BpfError> {
    let started = Instant::now();
    let mut recorder = BpfRecorder::load(watch)?;
    recorder.attach()?;
    Ok(started.elapsed())
}

/// Loads and attaches the BPF programs of each verb for a moment.
#[must_use]
pub fn surveys() -> Vec<Survey> {
    vec![
        Survey::of("run, record", || {
            let mut recorder = BpfRecorder::load(Watch::EachAccess)?;
            recorder.attach()?;
            Ok::<_, BpfError>(recorder.lacking().to_vec())
        }),
        Survey::of("boot", || {
            let mut recorder = BpfRecorder::load(Watch::Machine)?;
            recorder.attach_to_machine()?;
            Ok::<_, BpfError>(recorder.lacking().to_vec())
        }),
        Survey::of("watch, trees", foreread_linux_watch::lacking_for_trees),
        Survey::of("watch, streams", foreread_linux_watch::lacking_for_streams),
        Survey::of("stat", || {
            let following = Following {
                by: By {
                    process: true,
                    ..By::default()
                },
                ..Following::default()
            };
            Ok::<_, StatError>(Accounting::start(following)?.lacking().to_vec())
        }),
        Survey::of("check-kernel", || {
            Watcher::load().map(|watcher| watcher.lacking().to_vec())
        }),
        Survey::of("analyze --live", || {
            Ok::<_, BpfError>(BlockWatcher::start(&[])?.lacking().to_vec())
        }),
    ]
}

/// Events that the tracefs recorder can't see here. Its instance is made and removed again.
///
/// # Errors
/// As [`TracefsRecorder::start`].
pub fn tracefs_recorder() -> Result<BlindSpots, TracefsError> {
    Ok(TracefsRecorder::start()?.blind_spots())
}

/// Events that the fanotify recorder can't see, and how many mounts it can't watch.
///
/// # Errors
/// As [`FanotifyRecorder::start`].
pub fn fanotify_recorder() -> Result<(BlindSpots, usize), FanotifyError> {
    let unwatched = FanotifyRecorder::start()?.unwatched_mounts();
    Ok((FanotifyRecorder::BLIND_SPOTS, unwatched))
}

/// `kernel.io_uring_disabled`: 0 enabled for all, 1 for a group and the privileged, 2 for none;
/// `None` before Linux 6.6.
#[must_use]
pub fn io_uring_disabled() -> Option<u32> {
    fs::read_to_string("/proc/sys/kernel/io_uring_disabled")
        .ok()?
        .trim()
        .parse()
        .ok()
}

/// Asks cachestat about a file of our own, in memory.
///
/// # Errors
/// `ENOSYS` before Linux 6.5, or where a filter hides it.
pub fn cachestat() -> io::Result<()> {
    let file = rustix::fs::memfd_create("foreread-doctor", MemfdFlags::CLOEXEC)?;
    foreread_sys::cache::cached_pages(&file, 0, 1).map(drop)
}

/// Opens the root directory with `RESOLVE_CACHED`.
///
/// # Errors
/// `ENOSYS` before Linux 5.6, `EINVAL` before 5.12.
pub fn resolve_cached() -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    rustix::fs::openat2(
        rustix::fs::CWD,
        "/",
        flags,
        Mode::empty(),
        ResolveFlags::CACHED,
    )?;
    Ok(())
}

/// How a replay will read the metadata of a file system.
#[derive(Debug)]
pub enum MetadataRoute {
    /// In disk order, through the page cache of this block device.
    Device,
    /// Inode by inode, since only ext4 keeps its metadata in the cache of its device.
    Looking,
    /// Inode by inode, although it's ext4: its device can't be used, for this reason.
    LookingForLackOfDevice(String),
}

/// A mounted file system that isn't made up by the kernel.
#[derive(Debug)]
pub struct FileSystem {
    /// One of its mounts: the widest, then the earliest.
    pub mount: MountPoint,
    /// How its metadata are read.
    pub route: MetadataRoute,
}

/// All file systems that have files on something slower than memory, each once.
///
/// # Errors
/// When `/proc` isn't there.
pub fn file_systems() -> io::Result<Vec<FileSystem>> {
    let mounts = mounts_of_self()?;
    let mut found: Vec<MountPoint> = Vec::new();
    for point in mounts.points().iter().filter(|point| !point.is_virtual()) {
        let same =
            |other: &&mut MountPoint| (other.major, other.minor) == (point.major, point.minor);
        match found.iter_mut().find(same) {
            Some(other) if point.root.len() < other.root.len() => *other = point.clone(),
            Some(_) => {}
            None => found.push(point.clone()),
        }
    }
    let with_route = |mount: MountPoint| FileSystem {
        route: metadata_route(&mount),
        mount,
    };
    Ok(found.into_iter().map(with_route).collect())
}

fn metadata_route(mount: &MountPoint) -> MetadataRoute {
    if !mount.fs_type.starts_with(b"ext") {
        return MetadataRoute::Looking;
    }
    let device = match BlockDevice::open(mount.major, mount.minor) {
        Ok(device) => device,
        Err(error) => return MetadataRoute::LookingForLackOfDevice(error.to_string()),
    };
    match Geometry::read(&mut &device) {
        Ok(_) => MetadataRoute::Device,
        Err(error) => MetadataRoute::LookingForLackOfDevice(error.to_string()),
    }
}

/// A directory that is to be written to.
#[derive(Debug)]
pub struct Place {
    /// The directory, or the nearest one above it that exists.
    pub existing: PathBuf,
    /// Bytes that are free there for us.
    pub free_bytes: u64,
    /// Its permission bits.
    pub mode: u32,
}

/// Whether files can be made in a directory, or it itself in the nearest one above it that exists.
/// Nothing is made.
///
/// # Errors
/// As the kernel says: no permission, a read-only file system, something else in the way.
pub fn place(directory: &Path) -> io::Result<Place> {
    let exists = |path: &&Path| !path.as_os_str().is_empty() && path.symlink_metadata().is_ok();
    let existing = directory
        .ancestors()
        .find(exists)
        .unwrap_or(Path::new("."))
        .to_owned();
    let metadata = fs::metadata(&existing)?;
    if !metadata.is_dir() {
        let what = format!("{} is not a directory", existing.display());
        return Err(io::Error::new(io::ErrorKind::NotADirectory, what));
    }
    let may = Access::WRITE_OK | Access::EXEC_OK;
    rustix::fs::accessat(rustix::fs::CWD, &existing, may, AtFlags::EACCESS)?;
    let space = rustix::fs::statvfs(&existing)?;
    let free_bytes = space.f_bavail.saturating_mul(space.f_frsize);
    let mode = std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o7777;
    Ok(Place {
        existing,
        free_bytes,
        mode,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_system_comes_once() -> io::Result<()> {
        let found = file_systems()?;
        let mut devices: Vec<_> = found
            .iter()
            .map(|f| (f.mount.major, f.mount.minor))
            .collect();
        devices.sort_unstable();
        devices.dedup();
        assert_eq!(devices.len(), found.len());
        assert!(found.iter().all(|f| !f.mount.is_virtual()));
        Ok(())
    }

    #[test]
    fn a_place_is_found_without_being_made() -> io::Result<()> {
        let directory = tempfile::tempdir()?;
        let deep = directory.path().join("a/b");
        let place_found = place(&deep)?;
        assert_eq!(place_found.existing, directory.path());
        assert!(!deep.exists() && place_found.free_bytes > 0);
        fs::write(directory.path().join("file"), "")?;
        let error = place(&directory.path().join("file/b"))
            .err()
            .map(|e| e.kind());
        assert_eq!(error, Some(io::ErrorKind::NotADirectory));
        Ok(())
    }
}
