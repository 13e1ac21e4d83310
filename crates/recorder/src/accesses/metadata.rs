// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pages of a block device that are brought in together, before one wait.
//!
//! A file system reads them when a program looks up a name or needs to know where a file lies.

use foreread_trace::Kind;

use super::record::{AccessKind, AccessRecord};

/// Bytes of a page.
const PAGE_BYTES: u64 = 4096;

/// The pages that were asked for before one wait.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub first: AccessRecord,
    /// When the last page was asked for.
    pub last_ns: u64,
    /// Runs of bytes in the order of their places.
    runs: Vec<(u64, u64)>,
    /// The bytes that were brought in last: the first, and how many.
    latest: (u64, u64),
    /// The page of the first block that was asked for, and whether it is read by itself. The others
    /// are its neighbours, which the file system expects to need.
    needed: Option<(u64, bool)>,
}

impl Group {
    pub fn new(first: AccessRecord) -> Self {
        let mut group = Self {
            last_ns: first.time_ns,
            runs: Vec::new(),
            latest: (u64::MAX, 0),
            needed: None,
            first: first.clone(),
        };
        group.add(&first);
        group
    }

    /// More pages, before anything was waited for.
    pub fn add(&mut self, record: &AccessRecord) {
        self.last_ns = record.time_ns;
        let (start, length) = (record.start_bytes, record.length_bytes);
        if record.kind == AccessKind::Block && self.needed.is_none() {
            // A block is brought in alone and then looked at; readahead brings in many.
            let is_alone = self.latest == (start, length);
            let is_elsewhere = !self.holds(start);
            self.needed = Some((start, is_alone || is_elsewhere));
        }
        if record.kind == AccessKind::Metadata {
            self.latest = (start, length);
        }
        self.add_run(start, length);
    }

    fn holds(&self, place: u64) -> bool {
        self.runs
            .iter()
            .any(|(start, end)| (*start..*end).contains(&place))
    }

    fn add_run(&mut self, start: u64, length: u64) {
        let end = start.saturating_add(length);
        let at = self.runs.partition_point(|run| run.1 < start);
        let after = self.runs[at..].partition_point(|run| run.0 <= end);
        let touched = &self.runs[at..at + after];
        let start = touched.first().map_or(start, |run| run.0.min(start));
        let end = touched.last().map_or(end, |run| run.1.max(end));
        self.runs.splice(at..at + after, [(start, end)]);
    }

    /// The parts in which it goes to the disk, each with its first byte and length. A block is
    /// asked for when its neighbours have been sent, and goes by itself; pages of readahead go as
    /// one from the needed page on.
    pub fn parts(&self) -> Vec<(Kind, u64, u64)> {
        let (needed, is_alone) = self.needed.unwrap_or((self.first.start_bytes, false));
        let mut parts = Vec::new();
        let mut put = |kind, start: u64, end: u64| {
            if end > start {
                parts.push((kind, start, end - start));
            }
        };
        for (start, end) in &self.runs {
            if !(*start..*end).contains(&needed) {
                put(Kind::Readahead, *start, *end);
                continue;
            }
            put(Kind::Readahead, *start, needed);
            match is_alone {
                true => {
                    let needed_end = needed.saturating_add(PAGE_BYTES);
                    put(Kind::Readahead, needed_end, *end);
                    put(Kind::Read, needed, needed_end);
                }
                false => put(Kind::Read, needed, *end),
            }
        }
        // The part that is waited for comes last.
        parts.sort_by_key(|part| part.0 == Kind::Read);
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: AccessKind, page: u64, pages: u64) -> AccessRecord {
        AccessRecord {
            kind,
            start_bytes: page * PAGE_BYTES,
            length_bytes: pages * PAGE_BYTES,
            ..AccessRecord::default()
        }
    }

    fn parts(records: &[AccessRecord]) -> Vec<(Kind, u64, u64)> {
        let mut group = Group::new(records[0].clone());
        records[1..].iter().for_each(|record| group.add(record));
        let parts = group.parts().into_iter();
        parts
            .map(|(kind, start, length)| (kind, start / PAGE_BYTES, length / PAGE_BYTES))
            .collect()
    }

    fn brought(page: u64, pages: u64) -> AccessRecord {
        record(AccessKind::Metadata, page, pages)
    }

    fn blocks(pages: &[u64]) -> Vec<AccessRecord> {
        let one = |page: &u64| [brought(*page, 1), record(AccessKind::Block, *page, 1)];
        pages.iter().flat_map(one).collect()
    }

    #[test]
    fn a_block_is_waited_for_and_its_neighbours_are_sent_before_it() {
        assert_eq!(parts(&blocks(&[9])), [(Kind::Read, 9, 1)]);
        // The sixth block of a group of inode tables, then the others from the first on.
        let table = parts(&blocks(&[69, 64, 65, 66, 67, 68, 70, 71]));
        let expected = [
            (Kind::Readahead, 64, 5),
            (Kind::Readahead, 70, 2),
            (Kind::Read, 69, 1),
        ];
        assert_eq!(table, expected);
    }

    #[test]
    fn readahead_is_one_request() {
        let needed = record(AccessKind::Block, 9, 1);
        let window = [
            brought(9, 1),
            brought(10, 1),
            brought(11, 2),
            needed.clone(),
        ];
        assert_eq!(parts(&window), [(Kind::Read, 9, 4)]);
        let large = [brought(9, 4), needed];
        assert_eq!(parts(&large), [(Kind::Read, 9, 4)]);
        assert_eq!(parts(&[brought(9, 4)]), [(Kind::Read, 9, 4)]);
    }

    #[test]
    fn a_block_that_another_thread_has_asked_for_is_waited_for() {
        assert_eq!(
            parts(&[record(AccessKind::Block, 9, 1)]),
            [(Kind::Read, 9, 1)]
        );
        let expected = [(Kind::Readahead, 3, 1), (Kind::Read, 9, 1)];
        let both = [brought(3, 1), record(AccessKind::Block, 9, 1)];
        assert_eq!(parts(&both), expected);
    }
}
