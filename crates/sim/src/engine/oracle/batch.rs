// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pages that are read ahead together, and the order in which a disk is asked for them.

use std::ops::Range;

use crate::block::Submission;
use crate::cache::{FileId, StreamId};
use crate::engine::io::Io;

/// Requests of a batch at most, counted before neighbours are merged.
const RUNS_MAX: usize = 4096;

/// Missing pages in a row, inserted into the cache.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub file: FileId,
    pub stream: StreamId,
    pub pages: Range<u64>,
}

/// Runs of pages that are read ahead together, in the order of need.
#[derive(Debug)]
pub(super) struct Batch {
    runs: Vec<Run>,
    /// Pages that it may have yet.
    pub left_pages: u64,
}

/// Submissions that lie next to each other, and how soon the first of them is needed.
struct Neighbours {
    needed: usize,
    submissions: Vec<Submission>,
}

impl Batch {
    pub fn new(pages_max: u64) -> Self {
        Self {
            runs: Vec::new(),
            left_pages: pages_max,
        }
    }

    pub fn is_full(&self) -> bool {
        self.left_pages == 0 || self.runs.len() >= RUNS_MAX
    }

    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The run that was added last.
    pub fn last(&self) -> Option<&Run> {
        self.runs.last()
    }

    /// Adds pages, to the end or the front of the last run where they touch it.
    pub fn add(&mut self, run: Run) {
        self.left_pages = self
            .left_pages
            .saturating_sub(run.pages.end - run.pages.start);
        if let Some(last) = self.runs.last_mut()
            && last.file == run.file
            && last.stream == run.stream
        {
            if last.pages.end == run.pages.start {
                last.pages.end = run.pages.end;
                return;
            }
            if run.pages.end == last.pages.start {
                last.pages.start = run.pages.start;
                return;
            }
        }
        self.runs.push(run);
    }

    /// The runs, for the counters.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// By disk: its requests, neighbours behind each other. A head goes upward from its place and
    /// then from the lowest one; on other disks the pages needed first come first.
    pub fn submissions(
        mut self,
        io: &Io,
        process: u32,
        disks: usize,
        is_head: bool,
        heads: &[u64],
    ) -> Vec<Vec<Submission>> {
        let mut by_disk: Vec<Vec<(usize, Submission)>> = (0..disks).map(|_| Vec::new()).collect();
        for (needed, run) in self.runs.drain(..).enumerate() {
            let disk = io.files[run.file.number()].disk;
            let parts = io.placed(run.file, run.stream, process, run.pages);
            let parts = parts.into_iter().map(|part| (needed, part));
            by_disk[disk].extend(parts);
        }
        let ordered = by_disk.into_iter().zip(heads);
        ordered
            .map(|(parts, head)| in_order(parts, is_head, *head))
            .collect()
    }
}

fn in_order(mut parts: Vec<(usize, Submission)>, is_head: bool, head: u64) -> Vec<Submission> {
    parts.sort_by_key(|(_, part)| part.offset_bytes);
    let mut all: Vec<Neighbours> = Vec::new();
    for (needed, part) in parts {
        let end = |last: &Submission| last.offset_bytes + last.length_bytes;
        match all.last_mut() {
            Some(last) if last.submissions.last().map(end) == Some(part.offset_bytes) => {
                last.needed = last.needed.min(needed);
                last.submissions.push(part);
            }
            _ => all.push(Neighbours {
                needed,
                submissions: vec![part],
            }),
        }
    }
    if is_head {
        let start = |one: &Neighbours| one.submissions[0].offset_bytes;
        let behind = all.partition_point(|one| start(one) < head);
        all.rotate_left(behind);
    } else {
        all.sort_by_key(|one| one.needed);
    }
    all.into_iter().flat_map(|one| one.submissions).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Piece;
    use crate::cache::PageCache;

    #[test]
    fn neighbours_stay_together_and_a_head_goes_upward() {
        let mut cache = PageCache::new(None);
        let (file, stream) = (cache.add_file(), cache.add_stream());
        let part = |page: u64, pages: u64| Submission {
            offset_bytes: page * 4096,
            length_bytes: pages * 4096,
            piece: Piece {
                file,
                pages: page..page + pages,
            },
            stream,
            process: 0,
        };
        let places = |is_head, head: u64| {
            let parts = [(30, 2), (10, 1), (32, 1), (20, 1)].map(|(at, pages)| part(at, pages));
            let parts = parts.into_iter().enumerate().collect();
            let ordered = in_order(parts, is_head, head * 4096).into_iter();
            ordered
                .map(|part| part.offset_bytes / 4096)
                .collect::<Vec<_>>()
        };
        assert_eq!(places(false, 0), [30, 32, 10, 20]);
        assert_eq!(places(true, 0), [10, 20, 30, 32]);
        assert_eq!(places(true, 20), [20, 30, 32, 10]);
        assert_eq!(places(true, 40), [10, 20, 30, 32]);
    }
}
