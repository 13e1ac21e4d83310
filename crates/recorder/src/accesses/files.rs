// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files of a trace: their paths, and where they lie on their devices.

use std::collections::HashMap;
use std::io::Write;

use foreread_core::Device;
use foreread_core::mounts::Mounts;
use foreread_trace::limits::FILES_MAX;
use foreread_trace::{Event, Extent, File, FileId, WriteError, frt};

use super::record::AccessRecord;
use crate::recording::{NodeRecord, path_in_file_system};

/// Where files and devices are; the machine is asked for it.
pub trait Places {
    /// Name of a block device below `/dev`; `None` when it has none.
    fn device_name(&self, device: Device) -> Option<String>;

    /// Extents of the file at `path` on its device; none when the path no longer leads to `inode`.
    fn extents(&self, path: &[u8], inode: u64, size_bytes: u64) -> Vec<Extent>;
}

/// A file that was defined.
struct Noted {
    id: FileId,
    path: Vec<u8>,
    inode: u64,
    size_bytes: u64,
}

/// Files and block devices that were defined.
pub(super) struct Files<P: Places> {
    mounts: Mounts,
    places: P,
    /// By node.
    files: HashMap<u32, Noted>,
    /// By number.
    devices: HashMap<u32, FileId>,
}

impl<P: Places> Files<P> {
    pub fn new(mounts: Mounts, places: P) -> Self {
        Self {
            mounts,
            places,
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
            device: Device::from_kernel(device).to_stat(),
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
        let device = Device::from_kernel(record.device);
        let file = File {
            path: device_path(device, self.places.device_name(device)),
            size_bytes: Some(record.size_bytes),
            device: device.to_stat(),
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
            let extents = self.places.extents(&file.path, file.inode, file.size_bytes);
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

/// The path of a block device, or its numbers where it has none.
fn device_path(device: Device, name: Option<String>) -> Vec<u8> {
    let path = match name {
        Some(name) => format!("/dev/{name}"),
        None => format!("device-{device}"),
    };
    path.into_bytes()
}

/// Where mounts show a node, by the names above it.
fn path_of(
    node: &NodeRecord,
    nodes: &HashMap<u32, NodeRecord>,
    mounts: &Mounts,
) -> Option<Vec<u8>> {
    if node.parent == 0 {
        return None;
    }
    let inside = path_in_file_system(node, nodes)?;
    let device = Device::from_kernel(node.device);
    let reached = mounts.reach(device.major, device.minor, &inside);
    let reached = reached.into_iter().next();
    reached.map_or(Some(inside), |(_, path)| Some(path))
}
