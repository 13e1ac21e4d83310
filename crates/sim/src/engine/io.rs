// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the page cache to the disks: the [`Host`] of a simulation.

use std::collections::VecDeque;
use std::ops::Range;

use foreread_core::policy::{Budget, Device, Memory, Streams};
use foreread_trace::Extent;

use super::explain::{Explained, Watch};
use super::setup::FileSetup;
use super::stats::Stats;
use crate::block::{BlockQueue, Piece, Submission};
use crate::cache::{FileId, StreamId};
use crate::path::{Batch, Decided, Host, PAGE_BYTES};

/// Disks, files and counters, as they are at `now_ns` for the process that runs.
#[derive(Debug)]
pub(super) struct Io {
    pub now_ns: u64,
    pub process: u32,
    /// The number of the call that runs.
    pub call: u64,
    pub disks: Vec<BlockQueue>,
    /// Whether submitted batches are kept until there is room for their pages.
    pub makes_room: bool,
    /// Batches that their disk was not asked for yet.
    pub kept: VecDeque<Batch>,
    /// By disk: its measured properties.
    pub devices: Vec<Device>,
    /// By file: its streams, for policies that remember them.
    pub streams: Option<Vec<Option<Box<Streams>>>>,
    /// The memory that all share.
    pub budget: Budget,
    pub files: Vec<FileSetup>,
    /// Statistics by stream.
    pub stats: Vec<Stats>,
    pub watch: Watch,
    /// A disk whose events have changed.
    pub touched: Vec<usize>,
}

impl Io {
    pub fn stats_mut(&mut self, stream: StreamId) -> &mut Stats {
        &mut self.stats[stream.number()]
    }

    /// A program waits for a page of a disk.
    pub fn wait(&mut self, disk: usize) {
        self.disks[disk].unplug(self.now_ns);
        self.touched.push(disk);
    }

    /// The parts of a file that lie together on its disk: where, and which pages.
    fn extents(file: &FileSetup, pages: Range<u64>) -> Vec<(u64, Range<u64>)> {
        let step = file.extent_step_bytes / PAGE_BYTES;
        if !file.extents.is_empty() {
            return mapped(&file.extents, pages);
        }
        if step < 2 {
            let at = file.offset_bytes + pages.start * PAGE_BYTES;
            return vec![(at, pages)];
        }
        let extent = step / 2;
        let mut extents = Vec::new();
        let mut at = pages.start;
        while at < pages.end {
            let (number, within) = (at / extent, at % extent);
            let end = ((number + 1) * extent).min(pages.end);
            let place = file.offset_bytes + (number * step + within) * PAGE_BYTES;
            extents.push((place, at..end));
            at = end;
        }
        extents
    }
}

impl Io {
    /// Asks the disk for a batch.
    pub fn request(&mut self, batch: Batch) {
        if let Some(windows) = &mut self.watch.windows {
            windows.submitted(self.now_ns, &batch);
        }
        let disk = self.files[batch.file.number()].disk;
        for submission in self.placed(batch.file, batch.stream, self.process, batch.pages) {
            self.disks[disk].submit(self.now_ns, submission);
        }
        if !batch.needed {
            self.disks[disk].after_readahead(self.now_ns, batch.reader_has_data);
        }
        self.touched.push(disk);
    }

    /// Pages of a file as submissions to its disk.
    pub fn placed(
        &self,
        file: FileId,
        stream: StreamId,
        process: u32,
        pages: Range<u64>,
    ) -> Vec<Submission> {
        let parts = Self::extents(&self.files[file.number()], pages).into_iter();
        let placed = parts.map(|(offset_bytes, pages)| Submission {
            offset_bytes,
            length_bytes: (pages.end - pages.start) * PAGE_BYTES,
            piece: Piece { file, pages },
            stream,
            process,
        });
        placed.collect()
    }
}

/// The parts of pages by the extents of their file. What no extent has (a hole) reads nothing from
/// a real disk; here it lies behind the extent before it.
fn mapped(extents: &[Extent], pages: Range<u64>) -> Vec<(u64, Range<u64>)> {
    let mut parts = Vec::new();
    let mut at = pages.start;
    while at < pages.end {
        let byte = at * PAGE_BYTES;
        let next = extents.partition_point(|extent| extent.logical_bytes <= byte);
        let (place, mut end) = match next.checked_sub(1).map(|before| &extents[before]) {
            Some(extent) => {
                let within = byte - extent.logical_bytes;
                let left = extent.length_bytes.saturating_sub(within);
                let end = (byte + left).div_ceil(PAGE_BYTES);
                let end = if left > 0 { end } else { pages.end };
                (extent.physical_bytes + within, end)
            }
            None => (0, pages.end),
        };
        if let Some(extent) = extents.get(next) {
            end = end.min(extent.logical_bytes.div_ceil(PAGE_BYTES));
        }
        let end = end.clamp(at + 1, pages.end);
        parts.push((place, at..end));
        at = end;
    }
    parts
}

impl Host for Io {
    fn now_ns(&self) -> u64 {
        self.now_ns
    }

    fn thread(&self) -> u32 {
        self.process + 1
    }

    fn memory(&mut self, file: FileId) -> Memory<'_> {
        let Some(streams) = &mut self.streams else {
            return Memory::default();
        };
        let of_file = streams.get_mut(file.number());
        let device = self.files.get(file.number()).map(|setup| setup.disk);
        Memory {
            streams: of_file.map(|streams| &mut **streams.get_or_insert_default()),
            device: device.and_then(|disk| self.devices.get_mut(disk)),
            budget: Some(&mut self.budget),
        }
    }

    fn submit(&mut self, batch: Batch) {
        if self.makes_room {
            self.kept.push_back(batch);
        } else {
            self.request(batch);
        }
    }

    fn decided(&mut self, decided: &Decided<'_>) {
        let stats = self.stats_mut(decided.stream);
        stats.count_reason(decided.decision.reason);
        if decided.fetched_pages > 0 {
            stats.windows += 1;
            stats.window_pages += decided.fetched_pages;
        }
        if self.watch.wants_decisions() {
            self.watch.decided(Explained {
                time_ns: self.now_ns,
                call: self.call,
                stream: decided.stream,
                access: *decided.access,
                before: *decided.before,
                decision: *decided.decision,
                fetched_pages: decided.fetched_pages,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_lie_where_their_extents_say() {
        let extent = |logical, physical, length| Extent {
            logical_bytes: logical * PAGE_BYTES,
            physical_bytes: physical * PAGE_BYTES,
            length_bytes: length * PAGE_BYTES,
        };
        // A hole at 6 and 7, and one from 10 on.
        let extents = [extent(0, 100, 4), extent(4, 50, 2), extent(8, 200, 2)];
        let parts = |pages| {
            let parts = mapped(&extents, pages).into_iter();
            let parts = parts.map(|(at, pages)| (at / PAGE_BYTES, pages));
            parts.collect::<Vec<_>>()
        };
        let whole = [
            (100, 0..4),
            (50, 4..6),
            (52, 6..8),
            (200, 8..10),
            (202, 10..12),
        ];
        assert_eq!(parts(0..12), whole);
        assert_eq!(parts(3..5), [(103, 3..4), (50, 4..5)]);
    }
}
