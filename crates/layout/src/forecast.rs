// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long a replay takes on a device, in virtual time.
//!
//! In: the metadata that a replay reads, step by step, the pieces of data, and a modelled device.
//! Out: time, requests and seeks. The reads are those of the executor, in its order and by its
//! pace. It waits for each step of metadata, and reads gaps below 16 KiB through. Data go out by
//! windows of need, 64 reads at a time, and neighbours among those merge. Nothing is cached at the
//! beginning, nobody else reads, and processors take no time.

use std::collections::BTreeMap;

use foreread_model::{Completion, Disk, DiskModel, DiskParameters, Request};
use foreread_prefetch::ext4::{Extent, READ_THROUGH_BYTES_MAX, merge_extents};
use foreread_prefetch::order::{Piece, Queue, Service, Windows};
use foreread_prefetch::pace::{BATCH_READS_MAX, Pace, READ_BYTES_MAX, READS_MAX};
use foreread_profile::PAGE_BYTES;

/// A device as it is modelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// The disk.
    pub disk: DiskParameters,
    /// The largest request that the kernel makes.
    pub request_bytes_max: u64,
}

impl Device {
    /// A disk with a head, from the mean time of a random small read. Its seeks have the shape of
    /// those of a 7,200 rpm disk: a part of the mean goes into the shortest seek and half a turn,
    /// the rest grows with the distance.
    #[must_use]
    pub fn with_head(
        read_ns: u64,
        bandwidth_bytes_per_s: u64,
        capacity_bytes: u64,
        request_bytes_max: u64,
    ) -> Self {
        let mut disk = DiskParameters::preset("hdd").unwrap_or_else(DiskParameters::instant);
        let model = Self {
            disk: disk.clone(),
            request_bytes_max,
        };
        let scaled = |ns: u64| {
            let scaled = u128::from(ns) * u128::from(read_ns) / u128::from(model.seek_ns().max(1));
            u64::try_from(scaled).unwrap_or(u64::MAX)
        };
        disk.seek_min_ns = scaled(disk.seek_min_ns);
        disk.half_turn_ns = scaled(disk.half_turn_ns);
        disk.seek_span_ns = scaled(disk.seek_span_ns);
        disk.bandwidth_bytes_per_s = bandwidth_bytes_per_s.max(1);
        disk.capacity_bytes = capacity_bytes;
        Self {
            disk,
            request_bytes_max,
        }
    }

    /// A disk without a head, from the time of a small read, the number of reads that it serves at
    /// once, and its bandwidth.
    #[must_use]
    pub fn without_head(
        read_ns: u64,
        reads_at_once: u64,
        bandwidth_bytes_per_s: u64,
        request_bytes_max: u64,
    ) -> Self {
        let mut disk = DiskParameters::instant();
        disk.model = DiskModel::Parallel;
        disk.latency_ns = read_ns;
        disk.parallel_requests = reads_at_once.max(1);
        disk.bandwidth_bytes_per_s = bandwidth_bytes_per_s.max(1);
        Self {
            disk,
            request_bytes_max,
        }
    }

    /// Whether order and place matter for more than the merging of requests.
    #[must_use]
    pub fn has_head(&self) -> bool {
        self.disk.model == DiskModel::Head
    }

    /// What a seek over the middle distance takes, or, without a head, a request by itself.
    #[must_use]
    pub fn seek_ns(&self) -> u64 {
        match self.disk.model {
            DiskModel::Head => {
                // The mean of sqrt(|a - b|) for two random places of the disk is 8/15.
                let span_ns = u128::from(self.disk.seek_span_ns) * 8 / 15;
                let span_ns = u64::try_from(span_ns).unwrap_or(u64::MAX);
                let least_ns = self.disk.seek_min_ns.saturating_add(self.disk.half_turn_ns);
                least_ns.saturating_add(span_ns)
            }
            DiskModel::Parallel => self.disk.latency_ns / self.disk.parallel_requests.max(1),
            DiskModel::Instant => 0,
        }
    }

    fn windows(&self) -> Windows {
        let service = match self.has_head() {
            true => Service::HEAD,
            false => Service::default(),
        };
        // If no program reads meanwhile, none is ahead.
        Windows::of(service.windows().max_bytes)
    }
}

/// What a replay takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forecast {
    /// From its first read to the arrival of its last byte.
    pub time_ns: u64,
    /// The part of it until all metadata was there.
    pub metadata_ns: u64,
    /// Requests.
    pub requests: u64,
    /// Requests for which a head is moved. Without a head: those that don't begin where the one
    /// before them ended.
    pub seeks: u64,
    /// Bytes, with the gaps that are read through.
    pub bytes: u64,
}

/// See the [module](self). Steps of metadata are in bytes of the device.
#[must_use]
pub fn forecast(device: &Device, metadata: &[Vec<Extent>], pieces: Vec<Piece>) -> Forecast {
    let mut reader = Reader::new(device);
    for step in metadata {
        let mut missing = reader.missing(step);
        if device.has_head()
            && let Some(first) = missing.first_mut()
        {
            // The executor moves the head in front of a step before it asks for all of it.
            let page = first.length_bytes.min(PAGE_BYTES);
            reader.read(first.offset_bytes, page);
            reader.finish();
            first.offset_bytes += page;
            first.length_bytes -= page;
        }
        for extent in missing {
            reader.read(extent.offset_bytes, extent.length_bytes);
        }
        reader.finish();
    }
    let metadata_ns = reader.now_ns;
    reader.pace = Pace::new(metadata_ns);
    let mut queue = Queue::new(pieces, device.windows(), u64::MAX);
    let mut is_first = device.has_head();
    while let Some(piece) = queue.next(|_| false) {
        reader.read(piece.place_bytes, piece.pages.saturating_mul(PAGE_BYTES));
        if std::mem::take(&mut is_first) {
            reader.finish();
        }
    }
    reader.finish();
    let counters = reader.disk.counters();
    Forecast {
        time_ns: reader.now_ns,
        metadata_ns,
        requests: counters.requests,
        seeks: match device.has_head() {
            true => counters.seeks,
            false => reader.jumps,
        },
        bytes: counters.bytes,
    }
}

/// Reads under way on a modelled disk.
struct Reader {
    disk: Disk,
    request_bytes_max: u64,
    now_ns: u64,
    pace: Pace,
    /// Reads that will be submitted together.
    queued: Vec<Extent>,
    queued_bytes: u64,
    /// Bytes of each request under way.
    under_way: BTreeMap<u64, u64>,
    under_way_bytes: u64,
    next_id: u64,
    /// Where the last request ended.
    last_end_bytes: Option<u64>,
    /// Requests that began elsewhere.
    jumps: u64,
    /// Metadata that is in memory: starts and ends, without overlaps.
    cached: BTreeMap<u64, u64>,
}

impl Reader {
    fn new(device: &Device) -> Self {
        Self {
            // Where its head is when a replay begins, nobody knows.
            disk: Disk::with_head_at(device.disk.clone(), device.disk.capacity_bytes / 2),
            request_bytes_max: device.request_bytes_max.max(PAGE_BYTES),
            now_ns: 0,
            pace: Pace::new(0),
            queued: Vec::new(),
            queued_bytes: 0,
            under_way: BTreeMap::new(),
            under_way_bytes: 0,
            next_id: 0,
            last_end_bytes: None,
            jumps: 0,
            cached: BTreeMap::new(),
        }
    }

    /// The parts of a step of metadata that aren't in memory, in order of the device; from now on
    /// they are.
    fn missing(&mut self, step: &[Extent]) -> Vec<Extent> {
        let pages = |extent: Extent| {
            let start = extent.offset_bytes / PAGE_BYTES * PAGE_BYTES;
            let end = extent.end_bytes().div_ceil(PAGE_BYTES) * PAGE_BYTES;
            (start, end)
        };
        let mut missing = Vec::new();
        for extent in merge_extents(step.to_vec(), READ_THROUGH_BYTES_MAX) {
            let (mut at, end) = pages(extent);
            while at < end {
                let before = self.cached.range(..=at).next_back();
                if let Some((_, cached_end)) = before.filter(|(_, cached_end)| **cached_end > at) {
                    at = *cached_end;
                    continue;
                }
                let next = self.cached.range(at..).next().map(|(start, _)| *start);
                let part_end = next.unwrap_or(end).min(end);
                missing.push(Extent {
                    offset_bytes: at,
                    length_bytes: part_end - at,
                });
                self.cached.insert(at, part_end);
                at = part_end;
            }
        }
        missing
    }

    fn read(&mut self, offset_bytes: u64, length_bytes: u64) {
        let end = offset_bytes.saturating_add(length_bytes);
        let mut at = offset_bytes;
        while at < end {
            let length_bytes = (end - at).min(u64::from(READ_BYTES_MAX));
            self.queued.push(Extent {
                offset_bytes: at,
                length_bytes,
            });
            self.queued_bytes += length_bytes;
            at += length_bytes;
            let most_bytes = self.pace.under_way_bytes_max();
            if self.queued.len() < BATCH_READS_MAX && self.queued_bytes < most_bytes / 2 {
                continue;
            }
            self.submit();
            let reads_max = READS_MAX as usize - BATCH_READS_MAX;
            while self.under_way_bytes > most_bytes || self.under_way.len() > reads_max {
                if !self.wait() {
                    break;
                }
            }
        }
    }

    /// Hands what is queued to the disk; neighbours merge.
    fn submit(&mut self) {
        let mut merged: Vec<Extent> = Vec::new();
        for read in self.queued.drain(..) {
            match merged.last_mut() {
                Some(last) if last.end_bytes() == read.offset_bytes => {
                    last.length_bytes += read.length_bytes;
                }
                _ => merged.push(read),
            }
        }
        self.queued_bytes = 0;
        for extent in merged {
            let end = extent.end_bytes();
            let mut at = extent.offset_bytes;
            while at < end {
                let length_bytes = (end - at).min(self.request_bytes_max);
                let id = self.next_id;
                self.next_id += 1;
                self.under_way.insert(id, length_bytes);
                self.under_way_bytes += length_bytes;
                self.jumps += u64::from(self.last_end_bytes != Some(at));
                self.disk.submit(
                    self.now_ns,
                    Request {
                        id,
                        offset_bytes: at,
                        length_bytes,
                        write: false,
                    },
                );
                at += length_bytes;
                self.last_end_bytes = Some(at);
            }
        }
    }

    /// Waits for the next thing that the disk does; `false` when nothing is under way.
    fn wait(&mut self) -> bool {
        let Some(event_ns) = self.disk.next_event_ns() else {
            return false;
        };
        self.now_ns = self.now_ns.max(event_ns);
        let mut done: Vec<Completion> = Vec::new();
        self.disk.advance(self.now_ns, &mut done);
        for completion in done {
            let bytes = self.under_way.remove(&completion.id).unwrap_or(0);
            self.under_way_bytes -= bytes;
            self.pace.arrived(bytes, self.now_ns);
        }
        true
    }

    fn finish(&mut self) {
        self.submit();
        while self.wait() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreread_profile::NodeId;

    fn device(name: &str) -> Device {
        let mut disk = DiskParameters::preset(name).unwrap();
        disk.capacity_bytes = 1 << 30;
        Device {
            disk,
            request_bytes_max: 1 << 20,
        }
    }

    fn extent(offset_bytes: u64, length_bytes: u64) -> Extent {
        Extent {
            offset_bytes,
            length_bytes,
        }
    }

    fn piece(node: u32, place_bytes: u64, pages: u64) -> Piece {
        Piece {
            node: NodeId(node),
            start_page: 0,
            pages,
            need_ns: u64::from(node),
            place_bytes,
        }
    }

    #[test]
    fn scattered_files_cost_a_seek_each_and_neighbours_cost_none() {
        let hdd = device("hdd");
        let scattered = (0..100).map(|n| piece(n, u64::from(n) * 7_000_000 / 4096 * 4096, 4));
        let together = (0..100).map(|n| piece(n, (50 << 20) + u64::from(n) * 16_384, 4));
        let scattered = forecast(&hdd, &[], scattered.collect());
        let together = forecast(&hdd, &[], together.collect());
        assert_eq!(scattered.bytes, 100 * 16_384);
        assert_eq!(together.bytes, 100 * 16_384);
        // The first piece lies where the head is.
        // The first is that from where the head was.
        assert_eq!((scattered.seeks, together.seeks), (100, 1));
        assert!(scattered.time_ns > 99 * 5_000_000, "{scattered:?}");
        // A seek, and 1.6 MB at 120 MB/s.
        assert!(together.time_ns < 30_000_000, "{together:?}");
    }

    #[test]
    fn metadata_comes_first_and_once() {
        let usb = device("usb");
        let steps = [
            vec![extent(4096, 4096), extent(16_384, 100)],
            vec![extent(8192, 4096), extent(1 << 20, 8192)],
        ];
        let read = forecast(&usb, &steps, vec![piece(1, 2 << 20, 1)]);
        // The gap of the first step is read through, and so holds the first extent of the second.
        assert_eq!(read.bytes, 16_384 + 8192 + 4096);
        assert_eq!(read.requests, 3);
        let bytes_ns = |bytes: u64| 1_200_000 + bytes * 40;
        let metadata_ns = bytes_ns(16_384) + bytes_ns(8192);
        assert_eq!(read.metadata_ns, metadata_ns);
        assert_eq!(read.time_ns, metadata_ns + bytes_ns(4096));
    }

    #[test]
    fn a_parallel_device_hides_latencies() {
        let nvme = device("nvme");
        let pieces = |count| {
            (0..count)
                .map(|n| piece(n, u64::from(n) << 16, 1))
                .collect()
        };
        let one = forecast(&nvme, &[], pieces(1)).time_ns;
        let many = forecast(&nvme, &[], pieces(64)).time_ns;
        assert!(many < 4 * one, "{many} {one}");
    }

    #[test]
    fn a_measured_disk_seeks_as_long_as_was_measured() {
        let twice = Device::with_head(20_000_000, 50_000_000, 1 << 40, 1 << 20);
        assert!(
            twice.seek_ns().abs_diff(20_000_000) < 10,
            "{}",
            twice.seek_ns()
        );
        let preset = device("hdd");
        let same = Device::with_head(preset.seek_ns(), 120_000_000, 1 << 30, 1 << 20);
        assert_eq!(same, preset);
        let usb = Device::without_head(1_200_000, 1, 25_000_000, 1 << 20);
        let one = forecast(&usb, &[], vec![piece(0, 0, 1)]).time_ns;
        assert_eq!(
            one,
            forecast(&device("usb"), &[], vec![piece(0, 0, 1)]).time_ns
        );
    }

    #[test]
    fn nothing_takes_no_time() {
        for name in ["hdd", "usb", "nvme", "instant"] {
            assert_eq!(
                forecast(&device(name), &[], Vec::new()),
                Forecast::default()
            );
        }
        let instant = forecast(&device("instant"), &[], vec![piece(0, 0, 5)]);
        assert_eq!((instant.time_ns, instant.bytes), (0, 5 * 4096));
    }
}
