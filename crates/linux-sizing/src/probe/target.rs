// SPDX-License-Identifier: MIT OR Apache-2.0
//! The target of a probe: the device itself, a file, or a file made for it.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use foreread_sys::block_device::node;
use foreread_sys::fiemap;
use foreread_sys::mounts::mounts_of_self;
use foreread_sys::read_ahead::ReadAheadSetting;
use rustix::fs::{SeekFrom, fstatvfs, seek};

use super::READ_BYTES;

/// Below this there is nothing to compare.
const LENGTH_BYTES_MIN: u64 = 64 << 10;
/// An existing file of a file system in use is taken from this size on.
const FILE_BYTES_MIN: u64 = 64 << 20;
/// A file of this size need not be looked for further.
const FILE_BYTES_ENOUGH: u64 = 1 << 30;
/// Limits of the search for such a file.
const ENTRIES_MAX: usize = 50_000;
const SEARCH_TIME: Duration = Duration::from_secs(2);
/// A file made for the probe.
const OWN_BYTES: u64 = 256 << 20;
const OWN_BYTES_MIN: u64 = 4 << 20;
/// Time limit for writing it.
const OWN_TIME: Duration = Duration::from_secs(10);
/// It may take at most one part in this many of the free space.
const OWN_SHARE_OF_FREE: u64 = 10;
/// Pieces of a file that are looked at.
const RUNS_MAX: usize = 4096;

/// The kind of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The device itself.
    Device,
    /// A file that was named.
    File,
    /// A file that was there.
    FoundFile,
    /// A file made for the probe, which has no name and is gone with it.
    OwnFile,
}

/// Something to read, and the setting that governs it.
#[derive(Debug)]
pub struct Target {
    /// Its kind.
    pub kind: Kind,
    /// Open for reading.
    pub file: File,
    /// Its name; that of the directory for a file made for the probe.
    pub path: PathBuf,
    /// Number of bytes that can be read.
    pub length_bytes: u64,
    /// Number of pieces in which a file lies; `None` for a device, or if unknown.
    pub pieces: Option<usize>,
    /// The readahead setting of its device.
    pub setting: ReadAheadSetting,
    /// Why it isn't the device that was asked for.
    pub detour: Option<String>,
}

/// Why something can't be probed.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// It can't be opened or looked at.
    #[error("cannot open it: {0}")]
    Open(#[from] io::Error),
    /// A FIFO, a socket, a character device.
    #[error("it is {0}; give a block device, a file, or a directory on the device")]
    Kind(&'static str),
    /// Too short to compare anything.
    #[error("it has {0} bytes, and a probe needs at least 65536; give a larger file")]
    Small(u64),
    /// The kernel doesn't read ahead there.
    #[error("it lies in memory or on a file system without readahead, so there is nothing to size")]
    NoSetting,
    /// The device is in use in a way that keeps others from reading it, and isn't mounted.
    #[error("cannot open it: {0}; it isn't mounted either, so there is no file to read")]
    Closed(io::Error),
    /// Neither a large file nor room for one.
    #[error(
        "there is no file of 64 MiB or more to read in {path}, and none can be made: {error}; give \
         a large file by name"
    )]
    NoFile {
        /// The directory or path.
        path: String,
        /// Why none can be made.
        error: io::Error,
    },
}

impl Target {
    /// The target for a block device (a path or a name in `/dev`), a file, or a directory.
    ///
    /// # Errors
    /// There is nothing there to probe.
    pub fn of(path: &Path) -> Result<Self, TargetError> {
        let path = &node(path);
        let metadata = fs::metadata(path)?;
        let kind = metadata.file_type();
        if kind.is_block_device() {
            return Self::of_device(path, metadata.rdev());
        }
        if kind.is_dir() {
            return Self::in_directory(path);
        }
        if kind.is_file() {
            return Self::of_file(path, Kind::File);
        }
        Err(TargetError::Kind(if kind.is_char_device() {
            "a character device"
        } else if kind.is_fifo() {
            "a FIFO"
        } else {
            "a socket"
        }))
    }

    fn of_device(path: &Path, number: u64) -> Result<Self, TargetError> {
        match open(path) {
            Ok(file) => {
                let length_bytes = seek(&file, SeekFrom::End(0)).map_err(io::Error::from)?;
                Self::new(Kind::Device, file, path.to_owned(), length_bytes)
            }
            // Some devices that are mounted can't be opened by others; their file systems can.
            Err(error) => {
                let Some(point) = mount_point(number) else {
                    return Err(TargetError::Closed(error));
                };
                let mut target = Self::in_directory(&point)?;
                target.detour = Some(format!(
                    "{} can't be opened ({error}), so a file on it is read",
                    path.display()
                ));
                Ok(target)
            }
        }
    }

    fn of_file(path: &Path, kind: Kind) -> Result<Self, TargetError> {
        let file = open(path)?;
        let length_bytes = file.metadata()?.len();
        Self::new(kind, file, path.to_owned(), length_bytes)
    }

    /// A large file below a directory, on the same file system, or else one made there.
    fn in_directory(directory: &Path) -> Result<Self, TargetError> {
        if ReadAheadSetting::of(&open(directory)?)?.is_none() {
            return Err(TargetError::NoSetting);
        }
        if let Some(path) = large_file(directory) {
            return Self::of_file(&path, Kind::FoundFile);
        }
        let file = own_file(directory).map_err(|error| TargetError::NoFile {
            path: directory.display().to_string(),
            error,
        })?;
        let length_bytes = file.metadata()?.len();
        Self::new(Kind::OwnFile, file, directory.to_owned(), length_bytes)
    }

    fn new(kind: Kind, file: File, path: PathBuf, length_bytes: u64) -> Result<Self, TargetError> {
        let setting = ReadAheadSetting::of(&file)?.ok_or(TargetError::NoSetting)?;
        if length_bytes < LENGTH_BYTES_MIN {
            return Err(TargetError::Small(length_bytes));
        }
        let pieces = (kind != Kind::Device)
            .then(|| pieces(&file, length_bytes))
            .flatten();
        Ok(Self {
            kind,
            file,
            path,
            length_bytes: length_bytes - length_bytes % READ_BYTES,
            pieces,
            setting,
            detour: None,
        })
    }
}

/// Opens for reading only, and never waits for another process.
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)
}

/// Where a device is mounted; its own top rather than a part of it.
fn mount_point(number: u64) -> Option<PathBuf> {
    let device = (rustix::fs::major(number), rustix::fs::minor(number));
    let mounts = mounts_of_self().ok()?;
    let points = mounts.points().iter();
    let mut points: Vec<_> = points
        .filter(|point| (point.major, point.minor) == device)
        .collect();
    points.sort_by_key(|point| point.root.len());
    let path = points.first()?.mount_point.as_slice();
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(path)))
}

/// Neighbouring runs count as one piece.
fn pieces(file: &File, length_bytes: u64) -> Option<usize> {
    let runs = fiemap::runs(file, 0, length_bytes, RUNS_MAX).ok()?;
    let breaks = runs
        .windows(2)
        .filter(|pair| pair[0].place_bytes + pair[0].length_bytes != pair[1].place_bytes);
    Some(breaks.count() + 1)
}

/// The largest file found within the bounds of the search, without holes.
fn large_file(directory: &Path) -> Option<PathBuf> {
    let device = fs::metadata(directory).ok()?.dev();
    let until = Instant::now() + SEARCH_TIME;
    let mut entries = 0;
    let mut queue = VecDeque::from([directory.to_owned()]);
    let mut largest: Option<(u64, PathBuf)> = None;
    while let Some(next) = queue.pop_front() {
        for entry in fs::read_dir(&next).into_iter().flatten().flatten() {
            entries += 1;
            if entries > ENTRIES_MAX || Instant::now() > until {
                return largest.map(|found| found.1);
            }
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            if metadata.dev() != device {
                continue;
            }
            if metadata.is_dir() {
                queue.push_back(entry.path());
                continue;
            }
            let size = metadata.len();
            let whole = metadata.blocks().saturating_mul(512) >= size;
            let larger = largest.as_ref().is_none_or(|found| size > found.0);
            if metadata.is_file() && whole && size >= FILE_BYTES_MIN && larger {
                largest = Some((size, entry.path()));
            }
        }
        if largest
            .as_ref()
            .is_some_and(|found| found.0 >= FILE_BYTES_ENOUGH)
        {
            break;
        }
    }
    largest.map(|found| found.1)
}

/// A file without a name, filled with data that no file system can compress.
fn own_file(directory: &Path) -> io::Result<File> {
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .mode(0o600)
        .custom_flags(libc::O_TMPFILE)
        .open(directory)?;
    let space = fstatvfs(&file)?;
    let free_bytes = space.f_bavail.saturating_mul(space.f_frsize);
    let wanted = OWN_BYTES.min(free_bytes / OWN_SHARE_OF_FREE);
    if wanted < OWN_BYTES_MIN {
        return Err(io::Error::from(io::ErrorKind::StorageFull));
    }
    let until = Instant::now() + OWN_TIME;
    let mut block = vec![0u8; 1 << 20];
    let (mut written, mut state) = (0, 0x9e37_79b9_7f4a_7c15_u64);
    while written < wanted && (Instant::now() < until || written < OWN_BYTES_MIN) {
        for word in block.chunks_exact_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_ne_bytes());
        }
        file.write_all(&block)?;
        written += block.len() as u64;
        // Otherwise it would all be written in the end, however long that takes.
        if written % (16 << 20) == 0 {
            file.sync_data()?;
        }
    }
    file.sync_all()?;
    let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
    Ok(file)
}
