// SPDX-License-Identifier: MIT OR Apache-2.0
//! The roots of all active walks.

use std::sync::{Arc, Mutex, PoisonError};

use foreread_core::Device;
use foreread_watch::paths::is_within;

/// The root of a walk, by its path in the file system.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Top {
    process: u32,
    began_by_reads: bool,
    device: Device,
    path: Vec<u8>,
}

/// The roots of all walks, shared by their threads.
#[derive(Clone, Debug, Default)]
pub(super) struct Tops(Arc<Mutex<Vec<Top>>>);

impl Tops {
    /// Whether no other walk ahead of the process has this directory, or one above it.
    pub fn is_free(&self, process: u32, began_by_reads: bool, device: Device, path: &[u8]) -> bool {
        let here = self.walks_in(device, path);
        !here.contains(&(process, !began_by_reads))
    }

    /// Claims a directory for a walk, in place of its directory before. Returns `false` if another
    /// walk ahead of the same process has it, or one above it.
    pub fn take(&self, process: u32, began_by_reads: bool, device: Device, path: &[u8]) -> bool {
        let mut tops = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |top: &Top| (top.process, top.began_by_reads) == (process, began_by_reads);
        let others = tops.iter().filter(|top| !is_same(top));
        let mut of_process = others.filter(|top| (top.process, top.device) == (process, device));
        if of_process.any(|top| is_within(&top.path, path)) {
            return false;
        }
        tops.retain(|top| !is_same(top));
        tops.push(Top {
            process,
            began_by_reads,
            device,
            path: path.to_vec(),
        });
        true
    }

    /// The walks through this directory, as (process, whether it began by reads).
    pub fn walks_in(&self, device: Device, directory: &[u8]) -> Vec<(u32, bool)> {
        let tops = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let here = tops
            .iter()
            .filter(|top| top.device == device && is_within(&top.path, directory));
        here.map(|top| (top.process, top.began_by_reads)).collect()
    }

    /// A walk is over.
    pub fn give(&self, process: u32, began_by_reads: bool) {
        let mut tops = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tops.retain(|top| (top.process, top.began_by_reads) != (process, began_by_reads));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_walked_through_once_ahead_of_a_process() {
        let tops = Tops::default();
        let device = Device::default();
        assert!(tops.take(1, true, device, b"/a/b"));
        assert!(!tops.take(1, false, device, b"/a/b/c"));
        assert!(tops.take(2, false, device, b"/a/b/c"));
        assert!(tops.take(1, false, device, b"/a"));
        // The walk rises to the directory of the other one.
        assert!(!tops.take(1, true, device, b"/a"));
        let other = Device { major: 1, minor: 1 };
        assert!(tops.take(1, true, other, b"/a"));
        assert_eq!(tops.walks_in(device, b"/a/b/c/d"), [(2, false), (1, false)]);
        assert_eq!(tops.walks_in(device, b"/b"), []);
        tops.give(1, false);
        assert!(tops.take(1, true, device, b"/a"));
    }
}
