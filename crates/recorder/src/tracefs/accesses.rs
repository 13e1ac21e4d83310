// SPDX-License-Identifier: MIT OR Apache-2.0
//! Accesses, summed by inode as they come: a bit a page.

use std::collections::HashMap;

use foreread_profile::Uses;

use super::format::{Kind, Touch};
use crate::pages::Pages;
use crate::recording::CHUNK_PAGES;

/// The kernel's name of an inode: superblock (12 bits major, 20 bits minor) and number.
pub type InodeKey = (u32, u64);

/// Accessed pages of an inode; times by `CLOCK_MONOTONIC`.
#[derive(Debug)]
pub struct Accessed {
    /// How they were accessed.
    pub uses: Uses,
    /// When the first was needed.
    pub need_ns: u64,
    /// Pages of 4 KiB.
    pub pages: Pages,
    last_read: Option<LastRead>,
    added: Option<Added>,
}

impl Accessed {
    /// With these uses, time of first need, and pages.
    #[must_use]
    pub fn new(uses: Uses, need_ns: u64, pages: Pages) -> Self {
        Self {
            uses,
            need_ns,
            pages,
            last_read: None,
            added: None,
        }
    }
}

/// The latest read of an inode, in the kernel's pages.
#[derive(Clone, Copy, Debug)]
struct LastRead {
    pid: i32,
    start: u64,
    end: u64,
    /// Length of the longest read so far, in the kernel's pages.
    pages_max: u64,
}

impl LastRead {
    /// Where a read really began.
    ///
    /// `filemap_get_pages()` returns without an event when the last folio that it found is still on
    /// its way and others came before it; the event that follows covers the rest of the read only.
    /// In a cold sequential read of 96 KiB at a time a fifth of the pages had no event. So a read
    /// that seems to leave a gap behind the one before it is taken to begin where that ended, when
    /// it then is no longer than the longest so far. Buffers grow by doubling, so it may be twice
    /// as long when what is seen of it isn't just as long as the longest: a program that reads
    /// pieces of one size and leaves out others makes such steps too, and every piece of it is seen
    /// whole.
    fn begin(last: Option<Self>, touch: &Touch) -> u64 {
        const SLACK: u64 = 8;
        let Some(last) = last else { return touch.start };
        let seen = touch.end - touch.start;
        let step = touch.end.saturating_sub(last.end);
        let grown = seen != last.pages_max && step <= 2 * last.pages_max + SLACK;
        let fits = step <= last.pages_max || (last.pages_max > SLACK && grown);
        if last.pid == touch.pid && last.end < touch.start && fits {
            last.end
        } else {
            touch.start
        }
    }

    fn after(last: Option<Self>, touch: &Touch, begin: u64) -> Self {
        // An event with the same end is of the same read, further on.
        let same = last.filter(|last| last.pid == touch.pid && last.end == touch.end);
        let start = same.map_or(begin, |last| last.start.min(begin));
        let pages_max = last.map_or(0, |last| last.pages_max);
        Self {
            pid: touch.pid,
            start,
            end: touch.end,
            pages_max: pages_max.max(touch.end - start),
        }
    }
}

/// Pages that came into the page cache since the latest read of the inode, in the kernel's pages:
/// the first run of them without a gap.
#[derive(Clone, Copy, Debug)]
struct Added {
    pid: i32,
    start: u64,
    end: u64,
}

impl Added {
    fn after(run: Option<Self>, touch: &Touch) -> Self {
        match run {
            Some(run) if run.pid == touch.pid && run.end == touch.start => Self {
                end: touch.end,
                ..run
            },
            Some(run) if run.pid == touch.pid => run,
            _ => Self {
                pid: touch.pid,
                start: touch.start,
                end: touch.end,
            },
        }
    }

    /// Where a read really began whose first event is missing (see [`LastRead::begin`]), with no
    /// read before that would tell. A read that misses brings in pages from its own start on.
    fn begin(run: Option<Self>, touch: &Touch) -> Option<u64> {
        let run = run.filter(|run| run.pid == touch.pid)?;
        (run.start < touch.start && touch.start <= run.end).then_some(run.start)
    }
}

/// Chunks of [`CHUNK_PAGES`] pages, some 50 bytes each.
const CHUNKS_MAX: u64 = 1 << 18;
const INODES_MAX: usize = 1 << 18;

/// The accesses of the inode; `None` without room for it.
fn accessed<'a>(
    inodes: &'a mut HashMap<InodeKey, Accessed>,
    touch: &Touch,
) -> Option<&'a mut Accessed> {
    let key = (touch.device, touch.inode);
    if inodes.len() >= INODES_MAX && !inodes.contains_key(&key) {
        return None;
    }
    let new = || Accessed::new(Uses(0), u64::MAX, Pages::default());
    Some(inodes.entry(key).or_insert_with(new))
}

/// Accesses by inode.
#[derive(Debug)]
pub struct Accesses {
    /// Pages of 4 KiB in a page of the kernel.
    unit: u64,
    inodes: HashMap<InodeKey, Accessed>,
    chunks: u64,
    /// A program that reads in a loop mostly touches what it has just touched.
    last: Option<(InodeKey, Kind, u64, u64)>,
    /// Accesses that were noted.
    pub calls: u64,
    /// Accesses of inodes that there was no room for.
    pub lost_inodes: u64,
    /// Accesses of pages that there was no room for.
    pub lost_chunks: u64,
}

impl Accesses {
    /// Starts for a kernel whose pages are `unit` times 4 KiB.
    #[must_use]
    pub fn new(unit: u64) -> Self {
        Self {
            unit: unit.max(1),
            inodes: HashMap::new(),
            chunks: 0,
            last: None,
            calls: 0,
            lost_inodes: 0,
            lost_chunks: 0,
        }
    }

    /// Notes that pages came into the page cache, which alone is no access.
    pub fn note_added(&mut self, touch: &Touch) {
        if let Some(accessed) = accessed(&mut self.inodes, touch) {
            accessed.added = Some(Added::after(accessed.added, touch));
            // The next read of the same pages must see it.
            self.last = None;
        }
    }

    /// Adds an access.
    pub fn note(&mut self, touch: &Touch) {
        self.calls += 1;
        let key = (touch.device, touch.inode);
        if let Some((last, kind, start, end)) = self.last
            && (last, kind) == (key, touch.kind)
            && (start..=end).contains(&touch.start)
            && touch.end <= end
        {
            return;
        }
        if touch.start >= touch.end {
            return;
        }
        let Some(accessed) = accessed(&mut self.inodes, touch) else {
            self.lost_inodes += 1;
            return;
        };
        let begin = if touch.kind == Kind::Read {
            let mut begin = LastRead::begin(accessed.last_read, touch);
            if begin == touch.start {
                begin = Added::begin(accessed.added.take(), touch).unwrap_or(begin);
            }
            accessed.added = None;
            accessed.last_read = Some(LastRead::after(accessed.last_read, touch, begin));
            begin
        } else {
            touch.start
        };
        accessed.uses = accessed.uses.union(match touch.kind {
            Kind::MapAround | Kind::Fault => Uses::MAPPED,
            _ => Uses::READ,
        });
        accessed.need_ns = accessed.need_ns.min(touch.time_ns);
        if self.chunks >= CHUNKS_MAX {
            self.lost_chunks += 1;
            return;
        }
        // Profiles count pages of 4 KiB on every machine.
        let start = begin.saturating_mul(self.unit);
        let mut end = touch.end.saturating_mul(self.unit);
        // One access, too, may have more pages than there is room for.
        let room_pages = (CHUNKS_MAX - self.chunks) * CHUNK_PAGES;
        if end.saturating_sub(start) > room_pages {
            self.lost_chunks += 1;
            end = start.saturating_add(room_pages);
        }
        self.chunks += accessed.pages.set(start, end, touch.time_ns);
        self.last = Some((key, touch.kind, begin, touch.end));
    }

    #[cfg(test)]
    fn pages_of(&self, key: InodeKey) -> u64 {
        self.inodes[&key].pages.count() / self.unit
    }

    /// All inodes with what was accessed of them.
    #[must_use]
    pub fn into_inodes(mut self) -> HashMap<InodeKey, Accessed> {
        // Of some, pages only came into the page cache.
        self.inodes.retain(|_, accessed| accessed.uses != Uses(0));
        self.inodes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As where the kernel has pages of 16 KiB.
    const UNIT: u64 = 4;

    fn touch(kind: Kind, inode: u64, start: u64, end: u64, time_ns: u64) -> Touch {
        Touch {
            kind,
            time_ns,
            pid: 1,
            device: 8 << 20,
            inode,
            start,
            end,
        }
    }

    #[test]
    fn reads_and_faults_of_one_inode_come_together() {
        let mut accesses = Accesses::new(UNIT);
        accesses.note(&touch(Kind::Read, 7, 4, 8, 50));
        accesses.note(&touch(Kind::Read, 7, 5, 6, 60));
        accesses.note(&touch(Kind::Fault, 7, 5, 6, 40));
        accesses.note(&touch(Kind::Read, 8, 3, 3, 60));
        assert_eq!(accesses.calls, 4);
        let inodes = accesses.into_inodes();
        assert_eq!(inodes.len(), 1);
        let seven = &inodes[&(8 << 20, 7)];
        assert_eq!(seven.pages.count(), 4 * UNIT);
        assert_eq!(seven.need_ns, 40);
        assert!(seven.uses.contains(Uses::READ.union(Uses::MAPPED)));
    }

    #[test]
    fn one_access_takes_no_more_room_than_there_is() {
        let mut accesses = Accesses::new(UNIT);
        accesses.note(&touch(Kind::Read, 7, 0, u64::MAX, 1));
        assert_eq!(accesses.lost_chunks, 1);
        // The first chunk of a file takes no room of its own.
        assert_eq!(accesses.chunks, CHUNKS_MAX - 1);
        let pages = accesses.pages_of((8 << 20, 7));
        assert_eq!(pages, CHUNKS_MAX * CHUNK_PAGES / UNIT);
    }

    fn noted(reads: &[(u64, u64)]) -> u64 {
        let mut accesses = Accesses::new(UNIT);
        for (start, end) in reads {
            accesses.note(&touch(Kind::Read, 7, *start, *end, 1));
        }
        accesses.pages_of((8 << 20, 7))
    }

    #[test]
    fn a_read_whose_first_event_is_missing_begins_where_the_last_ended() {
        assert_eq!(noted(&[(0, 24), (32, 48), (50, 72)]), 72);
        assert_eq!(
            noted(&[(0, 24), (32, 48), (40, 48), (64, 72)]),
            72,
            "two events of a read"
        );
    }

    #[test]
    fn a_first_read_whose_first_event_is_missing_begins_where_its_misses_begin() {
        let mut accesses = Accesses::new(UNIT);
        let added = |start, end| touch(Kind::Added, 7, start, end, 1);
        let read = |start, end| touch(Kind::Read, 7, start, end, 2);
        accesses.note_added(&added(0, 4));
        accesses.note_added(&added(4, 16));
        accesses.note_added(&added(32, 64));
        accesses.note(&read(16, 24));
        assert_eq!(accesses.pages_of((8 << 20, 7)), 24);
        // Far on, too. What was brought in before the latest read tells nothing.
        accesses.note_added(&added(1000, 1032));
        accesses.note(&read(1010, 1024));
        accesses.note(&read(1100, 1102));
        assert_eq!(accesses.pages_of((8 << 20, 7)), 24 + 24 + 2);
        // Nor does what another thread brings in.
        accesses.note_added(&Touch {
            pid: 2,
            ..added(2000, 2032)
        });
        accesses.note(&read(2010, 2020));
        assert_eq!(accesses.pages_of((8 << 20, 7)), 24 + 24 + 2 + 10);
    }

    #[test]
    fn pages_that_a_program_leaves_out_stay_out() {
        assert_eq!(noted(&[(0, 8), (12, 20), (24, 32)]), 24, "a stride");
        assert_eq!(noted(&[(0, 32), (64, 96)]), 64, "every other piece");
        assert_eq!(noted(&[(7, 8), (100, 101)]), 2);
        assert_eq!(noted(&[(0, 2), (4, 5), (8, 10)]), 5, "small pieces");
        assert_eq!(noted(&[(100, 140), (0, 20)]), 60, "backward");
        assert_eq!(noted(&[(0, 8), (9, 30)]), 29, "much longer than any before");
    }
}
