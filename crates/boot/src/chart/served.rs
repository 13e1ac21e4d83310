// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whose reads the disks served while a unit waited for its own.
//!
//! In: the reads of a trace. Out: for each unit, its waiting time by the owners of the reads that
//! were served in it. The parts of a unit are together exactly the time that it waited.
//!
//! A trace has no time at which a disk began to serve a read, so this is an approximation. Of the
//! reads in flight on a disk, it serves the one that completes next. Where several complete
//! together, as a merged request does, they share the time evenly. That is right for a disk that
//! serves one read at a time. One that serves many at once would often have answered no sooner
//! without the others, so there it is an upper bound of what they cost. Writes are in no trace:
//! their time counts as that of the read that completes next.

use std::collections::{BTreeMap, HashMap};

use crate::trace::{Reader, TracedRead};

/// The time that a unit waited, by the owners of the reads that the disks served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Its own reads.
    pub own_ns: u64,
    /// Those of the replay.
    pub replay_ns: u64,
    /// Those of other units, by their places in [`super::Chart::units`], the longest first.
    pub units: Vec<(usize, u64)>,
    /// Those of processes of no unit.
    pub other_ns: u64,
}

impl Served {
    /// Reads of other units together.
    #[must_use]
    pub fn units_ns(&self) -> u64 {
        let times = self.units.iter().map(|(_, ns)| *ns);
        times.fold(0, u64::saturating_add)
    }
}

/// The reads in flight on one disk.
#[derive(Default)]
struct Disk {
    /// Readers with their numbers of reads, by the time when these complete.
    by_end: BTreeMap<u64, BTreeMap<Reader, u64>>,
    /// Units with their numbers of reads.
    waiting: BTreeMap<u16, u64>,
}

impl Disk {
    fn queue(&mut self, read: &TracedRead) {
        let readers = self.by_end.entry(read.end_ns()).or_default();
        *readers.entry(read.by).or_default() += 1;
        if let Reader::Unit(unit) = read.by {
            *self.waiting.entry(unit).or_default() += 1;
        }
    }

    fn complete(&mut self, at_ns: u64) {
        while let Some(first) = self.by_end.first_entry().filter(|e| *e.key() <= at_ns) {
            for (reader, reads) in first.remove() {
                let Reader::Unit(unit) = reader else {
                    continue;
                };
                if let Some(waiting) = self.waiting.get_mut(&unit) {
                    *waiting = waiting.saturating_sub(reads);
                    if *waiting == 0 {
                        self.waiting.remove(&unit);
                    }
                }
            }
        }
    }

    /// The readers of what completes next.
    fn served(&self) -> Option<&BTreeMap<Reader, u64>> {
        self.by_end.first_key_value().map(|(_, readers)| readers)
    }
}

/// The time of each unit by the owners of the reads that were served in it, without its own.
type Others = HashMap<u16, HashMap<Reader, u64>>;

/// For each unit that waited, by its index in the trace. `waited_ns` is the time that it did.
pub(super) fn served(reads: &[TracedRead], waited_ns: impl Fn(u16) -> u64) -> HashMap<u16, Served> {
    let others = others(reads);
    let of_unit = |(unit, times): (u16, HashMap<Reader, u64>)| {
        let mut served = Served::default();
        for (reader, ns) in times {
            match reader {
                Reader::Replay => served.replay_ns = ns,
                Reader::Unit(other) => served.units.push((usize::from(other), ns)),
                Reader::Other => served.other_ns = ns,
            }
        }
        served.units.retain(|(_, ns)| *ns > 0);
        served
            .units
            .sort_by_key(|(unit, ns)| (std::cmp::Reverse(*ns), *unit));
        let of_others = served.replay_ns + served.other_ns + served.units_ns();
        // What the even parts lose by rounding is here, too.
        served.own_ns = waited_ns(unit).saturating_sub(of_others);
        (unit, served)
    };
    others.into_iter().map(of_unit).collect()
}

fn others(reads: &[TracedRead]) -> Others {
    let mut queued: Vec<&TracedRead> = reads.iter().filter(|read| read.took_ns > 0).collect();
    queued.sort_by_key(|read| read.at_ns);
    let mut times: Vec<u64> = queued.iter().map(|read| read.at_ns).collect();
    times.extend(queued.iter().map(|read| read.end_ns()));
    times.sort_unstable();
    times.dedup();
    let mut others = Others::new();
    let mut disks: BTreeMap<u16, Disk> = BTreeMap::new();
    let mut queued = queued.into_iter().peekable();
    for pair in times.windows(2) {
        let &[from_ns, to_ns] = pair else {
            continue;
        };
        for disk in disks.values_mut() {
            disk.complete(from_ns);
        }
        while let Some(read) = queued.next_if(|read| read.at_ns <= from_ns) {
            disks.entry(read.disk).or_default().queue(read);
        }
        charge(&disks, to_ns - from_ns, &mut others);
    }
    others
}

/// Adds a stretch of time in which no read is queued and none completes.
fn charge(disks: &BTreeMap<u16, Disk>, length_ns: u64, others: &mut Others) {
    // A unit that waits for several disks at once is charged a part for each.
    let mut parts: BTreeMap<u16, u64> = BTreeMap::new();
    for unit in disks.values().flat_map(|disk| disk.waiting.keys()) {
        *parts.entry(*unit).or_default() += 1;
    }
    for disk in disks.values() {
        let Some(served) = disk.served() else {
            continue;
        };
        let reads: u64 = served.values().sum();
        for unit in disk.waiting.keys() {
            let parts = parts.get(unit).copied().unwrap_or(1);
            let times = others.entry(*unit).or_default();
            for (reader, count) in served {
                if *reader != Reader::Unit(*unit) {
                    // Times are below a day and reads below READS_MAX, so that this fits.
                    let ns = length_ns.saturating_mul(*count) / (reads * parts);
                    *times.entry(*reader).or_default() += ns;
                }
            }
        }
    }
}
