// SPDX-License-Identifier: MIT OR Apache-2.0
//! From events of the block layer to the reads of a trace. In: each read as it is queued, and each
//! part of a disk that arrives. Out: each read with the time that it took. Memory is bounded: at
//! most [`READS_MAX`] reads are kept, and [`PENDING_MAX`] are in flight.

use std::collections::{BTreeMap, HashMap};

use crate::trace::{READS_MAX, Reader, TracedRead, TracedUnit, UNITS_MAX};

/// Reads in flight that are followed. A disk has some hundreds. Reads whose end is lost stay here,
/// so that there is a bound.
pub const PENDING_MAX: usize = 16_384;
/// Bytes of one bio, at most: `bi_size` is a `u32`.
const BIO_SECTORS_MAX: u64 = 1 << 23;

/// The key of a read in flight: disk, first sector, and number among those with the same sector.
type Place = (u16, u64, u64);

/// A read in flight.
struct Pending {
    read: TracedRead,
    sectors_left: u64,
}

/// Collects reads.
#[derive(Default)]
pub struct Tracer {
    pending: BTreeMap<Place, Pending>,
    reads: Vec<TracedRead>,
    lost: u64,
    queued: u64,
    units: Vec<TracedUnit>,
    unit_indices: HashMap<String, u16>,
}

/// The reads and units of a trace.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Traced {
    /// By the time when they were queued.
    pub reads: Vec<TracedRead>,
    /// Named by index in the reads.
    pub units: Vec<TracedUnit>,
    /// Reads without room, or without an end.
    pub lost_reads: u64,
}

impl Tracer {
    /// The reader that a process of this unit is; [`Reader::Other`] beyond [`UNITS_MAX`] units.
    pub fn reader_of_unit(&mut self, name: &str) -> Reader {
        if let Some(index) = self.unit_indices.get(name) {
            return Reader::Unit(*index);
        }
        let index = u16::try_from(self.units.len()).ok();
        let Some(index) = index.filter(|index| usize::from(*index) < UNITS_MAX) else {
            return Reader::Other;
        };
        self.units.push(TracedUnit {
            name: name.to_owned(),
            ..TracedUnit::default()
        });
        self.unit_indices.insert(name.to_owned(), index);
        Reader::Unit(index)
    }

    /// A read is queued. Its `took_ns` is found when it ends.
    pub fn queued(&mut self, read: TracedRead) {
        let sectors = read.bytes.div_ceil(512);
        if sectors == 0 {
            return;
        }
        if self.pending.len() >= PENDING_MAX || self.reads.len() + self.pending.len() >= READS_MAX {
            self.lost += 1;
            return;
        }
        self.queued += 1;
        let place = (read.disk, read.sector, self.queued);
        let pending = Pending {
            read,
            sectors_left: sectors.min(BIO_SECTORS_MAX),
        };
        self.pending.insert(place, pending);
    }

    /// Sectors of a disk have arrived. Ends the reads that have all of theirs.
    pub fn arrived(&mut self, disk: u16, sector: u64, sectors: u64, at_ns: u64) {
        let end = sector.saturating_add(sectors);
        let from = (disk, sector.saturating_sub(BIO_SECTORS_MAX), 0);
        let mut ended = Vec::new();
        for (place, pending) in self.pending.range_mut(from..(disk, end, 0)) {
            let read = &pending.read;
            let read_end = read.sector.saturating_add(read.bytes.div_ceil(512));
            let common = end.min(read_end).saturating_sub(sector.max(read.sector));
            // A read that was queued after the device answered waits for the next answer.
            if common == 0 || read.at_ns > at_ns {
                continue;
            }
            pending.sectors_left = pending.sectors_left.saturating_sub(common);
            if pending.sectors_left == 0 {
                ended.push(*place);
            }
        }
        for place in ended {
            if let Some(Pending { mut read, .. }) = self.pending.remove(&place) {
                read.took_ns = at_ns.saturating_sub(read.at_ns);
                self.reads.push(read);
            }
        }
    }

    /// Notes reads that were lost before they came here.
    pub fn lost(&mut self, reads: u64) {
        self.lost = self.lost.saturating_add(reads);
    }

    /// All that has ended, with the times of units as systemd tells them.
    #[must_use]
    pub fn finish(mut self, times: Vec<TracedUnit>) -> Traced {
        for told in times {
            if let Reader::Unit(index) = self.reader_of_unit(&told.name)
                && let Some(unit) = self.units.get_mut(usize::from(index))
            {
                *unit = told;
            }
        }
        self.reads.sort_by_key(|read| read.at_ns);
        Traced {
            lost_reads: self.lost.saturating_add(self.pending.len() as u64),
            reads: self.reads,
            units: self.units,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(at_ns: u64, sector: u64, sectors: u64) -> TracedRead {
        TracedRead {
            at_ns,
            took_ns: 0,
            disk: 0,
            sector,
            bytes: sectors * 512,
            by: Reader::Other,
            process: String::new(),
        }
    }

    #[test]
    fn merged_reads_end_together_and_a_split_one_with_its_last_part() {
        let mut tracer = Tracer::default();
        tracer.queued(read(10, 0, 8));
        tracer.queued(read(20, 8, 8));
        tracer.queued(read(30, 100, 64));
        tracer.arrived(1, 0, 1000, 40);
        tracer.arrived(0, 0, 16, 50);
        tracer.arrived(0, 100, 32, 60);
        tracer.arrived(0, 132, 32, 70);
        let traced = tracer.finish(Vec::new());
        let times: Vec<_> = traced.reads.iter().map(|r| (r.at_ns, r.took_ns)).collect();
        assert_eq!(times, [(10, 40), (20, 30), (30, 40)]);
        assert_eq!(traced.lost_reads, 0);
    }

    #[test]
    fn a_read_without_an_end_is_lost() {
        let mut tracer = Tracer::default();
        tracer.queued(read(10, 0, 8));
        tracer.queued(read(90, 0, 8));
        tracer.arrived(0, 0, 8, 50);
        tracer.lost(2);
        let traced = tracer.finish(Vec::new());
        assert_eq!((traced.reads.len(), traced.lost_reads), (1, 3));
    }

    #[test]
    fn units_keep_their_place_when_their_times_are_told() {
        let mut tracer = Tracer::default();
        assert_eq!(tracer.reader_of_unit("b.service"), Reader::Unit(0));
        assert_eq!(tracer.reader_of_unit("b.service"), Reader::Unit(0));
        let told = |name: &str| TracedUnit {
            name: name.into(),
            started_ns: Some(7),
            active_ns: Some(9),
        };
        let traced = tracer.finish(vec![told("a.service"), told("b.service")]);
        let names: Vec<_> = traced.units.iter().map(|unit| &*unit.name).collect();
        assert_eq!(names, ["b.service", "a.service"]);
        assert_eq!(traced.units[0].started_ns, Some(7));
    }

    proptest! {
        #[test]
        fn each_queued_read_is_ended_or_lost(
            events in proptest::collection::vec((any::<bool>(), 0u64..64, 0u64..64), 0..200),
        ) {
            let mut tracer = Tracer::default();
            let mut queued = 0;
            for (at_ns, (is_read, sector, sectors)) in events.into_iter().enumerate() {
                let at_ns = at_ns as u64;
                match is_read {
                    true => {
                        tracer.queued(read(at_ns, sector, sectors));
                        queued += u64::from(sectors > 0);
                    }
                    false => tracer.arrived(0, sector, sectors, at_ns),
                }
            }
            let traced = tracer.finish(Vec::new());
            prop_assert_eq!(traced.reads.len() as u64 + traced.lost_reads, queued);
            prop_assert!(traced.reads.windows(2).all(|pair| pair[0].at_ns <= pair[1].at_ns));
        }
    }
}
