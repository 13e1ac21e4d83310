// SPDX-License-Identifier: MIT OR Apache-2.0
//! Request counters of a guest's disks, from `/sys/block/*/stat`, at named points of its script.

use std::collections::BTreeMap;
use std::ops::Sub;

use foreread_model::Counters as ModelCounters;

/// Requests to a guest's disk since the guest started, or between two points.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskCounters {
    /// Read requests that reached the device, after merging.
    pub reads: u64,
    /// Reads that were merged into one of these.
    pub merged_reads: u64,
    /// 512-byte sectors read.
    pub read_sectors: u64,
    /// Write requests that reached the device.
    pub writes: u64,
    /// 512-byte sectors written.
    pub written_sectors: u64,
}

impl DiskCounters {
    /// From the fields of a `stat` file, in their order there.
    fn from_stat(fields: &[u64]) -> Option<Self> {
        Some(Self {
            reads: *fields.first()?,
            merged_reads: *fields.get(1)?,
            read_sectors: *fields.get(2)?,
            writes: *fields.get(4)?,
            written_sectors: *fields.get(6)?,
        })
    }
}

impl Sub for DiskCounters {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            reads: self.reads.saturating_sub(before.reads),
            merged_reads: self.merged_reads.saturating_sub(before.merged_reads),
            read_sectors: self.read_sectors.saturating_sub(before.read_sectors),
            writes: self.writes.saturating_sub(before.writes),
            written_sectors: self.written_sectors.saturating_sub(before.written_sectors),
        }
    }
}

/// The counters of all disks, by name. A disk of the host has the name that it was given, and the
/// root disk is `root`. A device mapper, md or loop device has the guest's kernel name (`dm-0`,
/// `md0`, `loop0`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters(BTreeMap<String, DiskCounters>);

impl Counters {
    /// The counters of one disk; zeros where the guest has no such disk.
    #[must_use]
    pub fn disk(&self, name: &str) -> DiskCounters {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// Read requests of all disks whose name starts with `prefix`.
    #[must_use]
    pub fn reads_of(&self, prefix: &str) -> u64 {
        let of_prefix = self.0.iter().filter(|(name, _)| name.starts_with(prefix));
        of_prefix.map(|(_, disk)| disk.reads).sum()
    }

    /// The counts since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let since =
            |(name, disk): (&String, &DiskCounters)| (name.clone(), *disk - before.disk(name));
        Self(self.0.iter().map(since).collect())
    }
}

/// A place in the script where the counters were noted: `point NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// Its name; the first is `begin`, the last `end`.
    pub name: String,
    /// The counters there.
    pub counters: Counters,
    /// The counters of the models of disks in virtual time, by the name of the disk.
    pub modelled: BTreeMap<String, ModelCounters>,
}

/// Reads the guest's control lines: `counters POINT DISK FIELD...`, and
/// `model POINT DISK REQUESTS BYTES BUSY_NS SEEKS GAPS FIRST_TOUCHES`.
pub(crate) fn points(lines: &str) -> Vec<Point> {
    let mut points: Vec<Point> = Vec::new();
    for line in lines.lines() {
        let mut words = line.split_whitespace();
        let (Some(kind), Some(point), Some(disk)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let fields: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
        match kind {
            "counters" => {
                if let Some(counters) = DiskCounters::from_stat(&fields) {
                    let point = point_named(&mut points, point);
                    point.counters.0.insert(disk.to_owned(), counters);
                }
            }
            "model" => {
                if let [requests, bytes, busy_ns, seeks, gaps, first_touches] = fields[..] {
                    let counters = ModelCounters {
                        requests,
                        bytes,
                        busy_ns,
                        seeks,
                        gaps,
                        first_touches,
                        ..ModelCounters::default()
                    };
                    let point = point_named(&mut points, point);
                    point.modelled.insert(disk.to_owned(), counters);
                }
            }
            _ => {}
        }
    }
    points
}

/// The last point, if it has this name, or a new one.
fn point_named<'a>(points: &'a mut Vec<Point>, name: &str) -> &'a mut Point {
    let at = match points.iter().rposition(|point| point.name == name) {
        Some(at) if at + 1 == points.len() => at,
        _ => {
            points.push(Point {
                name: name.to_owned(),
                counters: Counters::default(),
                modelled: BTreeMap::new(),
            });
            points.len() - 1
        }
    };
    &mut points[at]
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "up 9.1 2.0 6.1.0\n\
        counters begin root 10 0 80 5 1 0 8 1 0 1 6\n\
        counters begin data 0 0 0 0 0 0 0 0 0 0 0\n\
        counters end root 12 0 96 5 1 0 8 1 0 1 6\n\
        counters end data-2 3 1 24 0 0 0 0 0 0 0 0\n\
        counters end data 100 7 1600 9 2 0 16 1 0 1 6\n\
        counters end broken 1 2\nmodel end root 12 49152 7000 3 1 5\nmodel end data 1 2\nexit 0\n";

    #[test]
    fn points_hold_the_counters_of_all_disks() {
        let points = points(LINES);
        let names: Vec<&str> = points.iter().map(|point| point.name.as_str()).collect();
        assert_eq!(names, ["begin", "end"]);
        let between = points[1].counters.since(&points[0].counters);
        let data = between.disk("data");
        assert_eq!(
            (data.reads, data.merged_reads, data.read_sectors),
            (100, 7, 1600)
        );
        assert_eq!((data.writes, data.written_sectors), (2, 16));
        assert_eq!(between.disk("root").reads, 2);
        assert_eq!(between.reads_of("data"), 103);
        assert_eq!(between.disk("broken"), DiskCounters::default());
        assert!(points[0].modelled.is_empty());
        let modelled = &points[1].modelled;
        assert_eq!(modelled.keys().collect::<Vec<_>>(), ["root"]);
        let root = modelled["root"];
        assert_eq!(
            (root.requests, root.busy_ns, root.seeks, root.first_touches),
            (12, 7000, 3, 5)
        );
    }
}
