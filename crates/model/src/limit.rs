// SPDX-License-Identifier: MIT OR Apache-2.0
//! The least time a disk needs for a set of bytes.

use crate::disk::{Completion, Disk, Request};
use crate::parameters::DiskParameters;

/// A range of bytes on a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Extent {
    /// Where it starts.
    pub offset_bytes: u64,
    /// Length in bytes.
    pub length_bytes: u64,
}

impl Extent {
    /// The first byte after it.
    pub fn end_bytes(&self) -> u64 {
        self.offset_bytes.saturating_add(self.length_bytes)
    }
}

/// The same bytes, each once, in physical order, in as few extents as possible.
pub fn distinct_extents(extents: &[Extent]) -> Vec<Extent> {
    let mut sorted: Vec<Extent> = extents
        .iter()
        .copied()
        .filter(|e| e.length_bytes > 0)
        .collect();
    sorted.sort_unstable();
    let mut distinct: Vec<Extent> = Vec::new();
    for extent in sorted {
        match distinct.last_mut() {
            Some(last) if extent.offset_bytes <= last.end_bytes() => {
                let end = last.end_bytes().max(extent.end_bytes());
                last.length_bytes = end - last.offset_bytes;
            }
            _ => distinct.push(extent),
        }
    }
    distinct
}

/// Smaller requests than a page do not exist on the page cache's way to a disk.
const REQUEST_BYTES_MIN: u64 = 4096;

/// Largest gap that is tried as part of a request. A full-stroke seek of 15 ms is worth the
/// transfer of 1.8 MB on the modelled disks.
const BRIDGED_BYTES_MAX: u64 = 4 << 20;

/// Time that a disk with these parameters needs for the distinct bytes of `extents`, read once and
/// in physical order. Requests are as large as `request_bytes_max` allows (at least 4096). The disk
/// has as many of them at a time as it serves at once. The head starts at byte 0.
///
/// A gap is read as part of a request if that is faster than another request or a seek. So no order
/// and no merging of requests is faster than this.
pub fn limit_ns(parameters: &DiskParameters, extents: &[Extent], request_bytes_max: u64) -> u64 {
    let distinct = distinct_extents(extents);
    let request_bytes_max = request_bytes_max.max(REQUEST_BYTES_MIN);
    bridges_bytes()
        .map(|bridged_bytes| {
            let bridged = bridged(&distinct, bridged_bytes);
            time_ns(parameters, &bridged, request_bytes_max)
        })
        .min()
        .unwrap_or(0)
}

/// The widths of gaps to try: 0, then from a page on in steps of a quarter. These come within a few
/// per cent of the best width for any device.
fn bridges_bytes() -> impl Iterator<Item = u64> {
    let widths = std::iter::successors(Some(REQUEST_BYTES_MIN), |width| Some(width + width / 4));
    std::iter::once(0).chain(widths.take_while(|&width| width <= BRIDGED_BYTES_MAX))
}

/// Distinct extents, with gaps up to `bridged_bytes` read as if they were needed.
fn bridged(distinct: &[Extent], bridged_bytes: u64) -> Vec<Extent> {
    let mut extents: Vec<Extent> = Vec::new();
    for extent in distinct {
        match extents.last_mut() {
            Some(last) if extent.offset_bytes - last.end_bytes() <= bridged_bytes => {
                last.length_bytes = extent.end_bytes() - last.offset_bytes;
            }
            _ => extents.push(*extent),
        }
    }
    extents
}

/// The time for exactly these extents.
fn time_ns(parameters: &DiskParameters, extents: &[Extent], request_bytes_max: u64) -> u64 {
    let mut requests = split(extents, request_bytes_max);
    let mut disk = Disk::new(parameters.clone());
    // One more than it serves at once, so that a successor is there when a request ends.
    let window = parameters.served_at_once().saturating_add(1);
    let mut now_ns = 0;
    let mut completions: Vec<Completion> = Vec::new();
    loop {
        while disk.queue_depth() < window {
            let Some(request) = requests.next() else {
                break;
            };
            disk.submit(now_ns, request);
        }
        let Some(event_ns) = disk.next_event_ns() else {
            break;
        };
        now_ns = now_ns.max(event_ns);
        completions.clear();
        disk.advance(now_ns, &mut completions);
    }
    now_ns
}

/// The extents cut into requests of at most `request_bytes_max`, in order.
fn split(extents: &[Extent], request_bytes_max: u64) -> impl Iterator<Item = Request> {
    extents.iter().flat_map(move |extent| {
        (0..extent.length_bytes.div_ceil(request_bytes_max)).map(move |piece| {
            let skip_bytes = piece * request_bytes_max;
            Request {
                id: piece,
                offset_bytes: extent.offset_bytes.saturating_add(skip_bytes),
                length_bytes: (extent.length_bytes - skip_bytes).min(request_bytes_max),
                write: false,
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(offset_bytes: u64, length_bytes: u64) -> Extent {
        Extent {
            offset_bytes,
            length_bytes,
        }
    }

    #[test]
    fn bytes_count_once() {
        let extents = [
            extent(8, 4),
            extent(0, 4),
            extent(2, 4),
            extent(6, 2),
            extent(50, 0),
        ];
        assert_eq!(distinct_extents(&extents), [extent(0, 12)]);
        assert_eq!(distinct_extents(&[extent(0, 4), extent(5, 4)]).len(), 2);
        assert_eq!(
            distinct_extents(&[extent(u64::MAX, 9), extent(3, u64::MAX)]).len(),
            1
        );
    }

    #[test]
    fn hdd_reads_gaps_over_and_seeks_once() {
        let mut hdd = DiskParameters::preset("hdd").unwrap();
        hdd.capacity_bytes = 400_000_000;
        // 1.2 MB from byte 0: 10 ms. A gap of 120,000, read as part of a request: 1 ms. 1.2 MB:
        // 10 ms. Then a seek to a quarter of the disk away, 0.8 + 5 + 4.17 ms, and 1.2 MB: 10 ms.
        let extents = [
            extent(0, 1_200_000),
            extent(1_320_000, 1_200_000),
            extent(102_520_000, 1_200_000),
        ];
        assert_eq!(
            limit_ns(&hdd, &extents, 600_000),
            10_000_000 + 11_000_000 + 19_970_000
        );
    }

    #[test]
    fn hdd_reads_a_gap_that_is_shorter_than_a_seek() {
        let mut hdd = DiskParameters::preset("hdd").unwrap();
        hdd.capacity_bytes = 400_000_000;
        // Beyond what the head reads over by itself: 3 ms of transfer instead of 5.3 ms of seek.
        let extents = [extent(0, 1_200_000), extent(1_560_000, 1_200_000)];
        assert_eq!(limit_ns(&hdd, &extents, 600_000), 23_000_000);
    }

    #[test]
    fn usb_reads_a_gap_that_is_shorter_than_a_request() {
        let usb = DiskParameters::preset("usb").unwrap();
        // 10,000 bytes take 0.4 ms, a request 1.2 ms; 50,000 take 2 ms.
        let near = [extent(0, 100_000), extent(110_000, 90_000)];
        assert_eq!(limit_ns(&usb, &near, 1 << 20), 1_200_000 + 8_000_000);
        let far = [extent(0, 100_000), extent(150_000, 50_000)];
        assert_eq!(limit_ns(&usb, &far, 1 << 20), 2 * 1_200_000 + 6_000_000);
    }

    #[test]
    fn no_merging_beats_the_limit() {
        let extents: Vec<Extent> = (0..200)
            .map(|index: u64| extent(index * index * 9_000, 4096 * (1 + index % 5)))
            .collect();
        let distinct = distinct_extents(&extents);
        for name in ["hdd", "usb", "cloud", "nvme"] {
            let mut parameters = DiskParameters::preset(name).unwrap();
            parameters.capacity_bytes = 1 << 30;
            let limit = limit_ns(&parameters, &extents, 1 << 20);
            for width in [0, 4096, 30_000, 262_144, 700_000, 1 << 24] {
                let merged = bridged(&distinct, width);
                // Within the few per cent of the widths tried.
                let time = time_ns(&parameters, &merged, 1 << 20);
                assert!(limit <= time + time / 50, "{name} {width}: {limit} {time}");
            }
        }
    }

    #[test]
    fn usb_pays_each_request() {
        let usb = DiskParameters::preset("usb").unwrap();
        assert_eq!(
            limit_ns(&usb, &[extent(0, 1_000_000)], 250_000),
            4 * 11_200_000
        );
    }

    #[test]
    fn parallel_devices_hide_their_latency() {
        let nvme = DiskParameters::preset("nvme").unwrap();
        // Only the first latency shows; then the pipe is full: 150 MB at 1,500 MB/s.
        assert_eq!(
            limit_ns(&nvme, &[extent(0, 150_000_000)], 1_500_000),
            100_090_000
        );
    }

    #[test]
    fn cloud_is_held_by_its_rate_when_requests_are_small() {
        let cloud = DiskParameters::preset("cloud").unwrap();
        // 1,000 requests of 4096 bytes: 999 intervals, then a latency and one transfer.
        let expected = 999 * 333_334 + 700_000 + 32_768;
        assert_eq!(limit_ns(&cloud, &[extent(0, 4_096_000)], 4_096), expected);
    }

    #[test]
    fn nothing_takes_no_time() {
        let hdd = DiskParameters::preset("hdd").unwrap();
        assert_eq!(limit_ns(&hdd, &[], 1 << 20), 0);
        let instant = DiskParameters::preset("instant").unwrap();
        assert_eq!(limit_ns(&instant, &[extent(0, 1 << 30)], 1 << 20), 0);
    }
}
