// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which files a trace is about: their paths, and where they lie on their devices.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;

use foreread_sys::fiemap;
use foreread_sys::mounts::{Mounts, mounts_of_self};
use foreread_trace::limits::FILES_MAX;
use foreread_trace::{Event, Extent, File, FileId, WriteError, frt};
use rustix::fs::{Mode, OFlags, fstat, open};

use foreread_recorder::NodeRecord;
use foreread_recorder::accesses::AccessRecord;

/// Extents that are kept of one file.
const EXTENTS_OF_FILE_MAX: usize = 4096;
/// Directories above a file; as many as a path of 4,096 bytes can name.
const DEPTH_MAX: usize = 2048;

/// A file that was defined.
struct Noted {
    id: FileId,
    path: Vec<u8>,
    inode: u64,
    size_bytes: u64,
}

/// Files and block devices that were defined.
pub(super) struct Files {
    mounts: Mounts,
    /// By node.
    files: HashMap<u32, Noted>,
    /// By number.
    devices: HashMap<u32, FileId>,
}

impl Files {
    pub fn new() -> Self {
        Self {
            mounts: mounts_of_self().unwrap_or_default(),
            files: HashMap::new(),
            devices: HashMap::new(),
        }
    }

    /// Files, without devices.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// The file of a record, defined when it is new; `None` when there are too many.
    pub fn note<W: Write>(
        &mut self,
        record: &AccessRecord,
        nodes: &HashMap<u32, NodeRecord>,
        writer: &mut frt::Writer<W>,
    ) -> Option<FileId> {
        if record.kind.is_metadata() {
            return self.note_device(record, writer);
        }
        if let Some(noted) = self.files.get(&record.id) {
            return Some(noted.id);
        }
        let node = nodes.get(&record.id);
        let path = node.and_then(|node| path_of(node, nodes, &self.mounts));
        let (inode, device) = node.map_or((0, 0), |node| (node.number, node.device));
        let path = path.unwrap_or_else(|| format!("inode-{inode}").into_bytes());
        let file = File {
            path: path.clone(),
            size_bytes: Some(record.size_bytes),
            device: device_number(device),
            inode,
            metadata: false,
        };
        let id = self.define(file, writer)?;
        let noted = Noted {
            id,
            path,
            inode,
            size_bytes: record.size_bytes,
        };
        self.files.insert(record.id, noted);
        Some(id)
    }

    fn note_device<W: Write>(
        &mut self,
        record: &AccessRecord,
        writer: &mut frt::Writer<W>,
    ) -> Option<FileId> {
        if let Some(id) = self.devices.get(&record.device) {
            return Some(*id);
        }
        let file = File {
            path: device_path(record.device),
            size_bytes: Some(record.size_bytes),
            device: device_number(record.device),
            inode: 0,
            metadata: true,
        };
        let id = self.define(file, writer)?;
        self.devices.insert(record.device, id);
        Some(id)
    }

    fn define<W: Write>(&self, file: File, writer: &mut frt::Writer<W>) -> Option<FileId> {
        let count = self.files.len() + self.devices.len();
        let id = FileId(u32::try_from(count).ok()?);
        if id.0 >= FILES_MAX {
            return None;
        }
        // An event that the format refuses costs its accesses, which are counted then.
        writer.write(&Event::File(id, Box::new(file))).ok()?;
        Some(id)
    }

    /// Writes where the files lie, as far as their paths still lead there.
    pub fn write_extents<W: Write>(self, writer: &mut frt::Writer<W>) -> Result<(), WriteError> {
        let mut files: Vec<Noted> = self.files.into_values().collect();
        files.sort_by_key(|file| file.id);
        for file in &files {
            let extents = extents(file);
            if extents.is_empty() {
                continue;
            }
            match writer.write(&Event::Extents(file.id, extents)) {
                Err(error @ WriteError::Io(_)) => return Err(error),
                // The trace holds no more of them; the other files lie somewhere.
                Err(_) => break,
                Ok(()) => {}
            }
        }
        Ok(())
    }
}

/// The kernel's number of a device as `stat` gives it.
fn device_number(device: u32) -> u64 {
    libc::makedev(device >> 20, device & 0xf_ffff)
}

/// The node of a block device, or its numbers where it has none.
fn device_path(device: u32) -> Vec<u8> {
    let (major, minor) = (device >> 20, device & 0xf_ffff);
    let uevent = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/uevent"));
    let uevent = uevent.unwrap_or_default();
    let name = uevent
        .lines()
        .find_map(|line| line.strip_prefix("DEVNAME="));
    match name {
        Some(name) => format!("/dev/{name}").into_bytes(),
        None => format!("device-{major}:{minor}").into_bytes(),
    }
}

/// Where mounts show a node, by the names above it.
fn path_of(
    node: &NodeRecord,
    nodes: &HashMap<u32, NodeRecord>,
    mounts: &Mounts,
) -> Option<Vec<u8>> {
    let mut names = Vec::new();
    let mut at = node;
    while at.parent != 0 {
        names.push(at.name.as_slice());
        at = nodes.get(&at.parent)?;
        if names.len() > DEPTH_MAX {
            return None;
        }
    }
    if names.is_empty() || !at.name.is_empty() {
        return None;
    }
    let mut inside = Vec::new();
    for name in names.iter().rev() {
        inside.push(b'/');
        inside.extend_from_slice(name);
    }
    let (major, minor) = (node.device >> 20, node.device & 0xf_ffff);
    let reached = mounts.reach(major, minor, &inside).into_iter().next();
    reached.map_or(Some(inside), |(_, path)| Some(path))
}

/// Where a file is on its device, as far as its path still leads there.
fn extents(file: &Noted) -> Vec<Extent> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let path = OsStr::from_bytes(&file.path);
    let Ok(opened) = open(path, flags, Mode::empty()) else {
        return Vec::new();
    };
    if !fstat(&opened).is_ok_and(|stat| stat.st_ino == file.inode) {
        return Vec::new();
    }
    let runs = fiemap::runs(&opened, 0, file.size_bytes, EXTENTS_OF_FILE_MAX);
    let extent = |run: fiemap::Run| Extent {
        logical_bytes: run.offset_bytes,
        physical_bytes: run.place_bytes,
        length_bytes: run.length_bytes,
    };
    runs.unwrap_or_default().into_iter().map(extent).collect()
}
