// SPDX-License-Identifier: MIT OR Apache-2.0
//! From an access to come to pages that are on their way.

use std::ops::Range;

use super::Oracle;
use super::ahead::Coming;
use super::batch::{Batch, Run};
use crate::cache::{FileId, NewFolio, StreamId};
use crate::engine::Simulation;

/// Pages of one thread that are looked at before those of another.
const LOOK_PAGES: u64 = 64;

impl Simulation {
    /// Takes the missing ones of the next pages of an access into the batch.
    pub(super) fn look_at(
        &mut self,
        oracle: &mut Oracle,
        number: usize,
        mut coming: Coming,
        batch: &mut Batch,
    ) {
        if oracle.threads[number].is_under_way(coming.number) {
            let index = self.processes[number].index().unwrap_or(coming.pages.end);
            coming.pages.start = coming.pages.start.max(index);
        }
        let end = coming.pages.end.min(coming.pages.start + LOOK_PAGES);
        while coming.pages.start < end && !batch.is_full() {
            let file = self.files[coming.file];
            let rest = coming.pages.start..end;
            let missing = self.cache.missing_run(file, rest.clone());
            if missing.is_empty() {
                coming.pages.start = end;
                break;
            }
            let run = missing.start..missing.end.min(missing.start + batch.left_pages);
            coming.pages.start = run.end;
            if !self.take(oracle, batch, number, &coming, run) {
                coming.pages.start = coming.pages.end;
                batch.left_pages = 0;
            }
        }
        self.put_back(oracle, number, coming);
    }

    /// Takes missing pages into the batch, with the hole before them where that costs less than a
    /// request; `false` when there is no memory.
    fn take(
        &mut self,
        oracle: &mut Oracle,
        batch: &mut Batch,
        number: usize,
        coming: &Coming,
        pages: Range<u64>,
    ) -> bool {
        let file = self.files[coming.file];
        let stream = self.early_stream(oracle, oracle.threads[number].program, coming.file);
        let hole = self.hole(oracle, batch, file, &pages);
        for pages in [hole, pages] {
            let end = self.insert_pages(file, stream, pages.clone());
            let inserted = end - pages.start;
            if inserted > 0 {
                oracle.threads[number].fetched(coming.number, pages.start, inserted);
                oracle.ahead_pages += inserted;
                batch.add(Run {
                    file,
                    stream,
                    pages: pages.start..end,
                });
            }
            if end < pages.end {
                return false;
            }
        }
        true
    }

    /// The pages between the last run and these, where all of them are missing and reading them is
    /// cheaper than a request.
    fn hole(&self, oracle: &Oracle, batch: &Batch, file: FileId, pages: &Range<u64>) -> Range<u64> {
        let nothing = pages.start..pages.start;
        let before = oracle.last.as_ref().filter(|_| oracle.room.is_head);
        let last = batch.last().or(before);
        let Some(last) = last.filter(|last| last.file == file) else {
            return nothing;
        };
        let hole = if last.pages.end <= pages.start {
            last.pages.end..pages.start
        } else {
            pages.end..last.pages.start
        };
        let length = hole.end.saturating_sub(hole.start);
        let left = batch.left_pages.saturating_sub(pages.end - pages.start);
        if length > oracle.room.hole_pages.min(left) {
            return nothing;
        }
        match self.cache.missing_run(file, hole.clone()) == hole {
            true => hole,
            false => nothing,
        }
    }

    /// Inserts pages into the cache. Returns the page at which it stopped.
    pub(super) fn insert_pages(
        &mut self,
        file: FileId,
        stream: StreamId,
        pages: Range<u64>,
    ) -> u64 {
        for index in pages.clone() {
            let new = NewFolio::page(index);
            if self.cache.insert(file, stream, new).is_err() {
                return index;
            }
        }
        pages.end
    }

    /// The stream that these pages belong to, even before the program has opened the file.
    fn early_stream(&mut self, oracle: &mut Oracle, program: usize, file: usize) -> StreamId {
        if self.replay.is_some() {
            return self.traced_stream(program, file);
        }
        if let Some(stream) = oracle.stream(program, file) {
            return stream;
        }
        let files = &self.setup.programs[program].files;
        let place = files.iter().position(|other| *other == file).unwrap_or(0);
        let known = self.opened[program].stream_of(place);
        let stream = known.unwrap_or_else(|| self.new_stream(Some(program), file));
        oracle.streams.insert((program, file), stream);
        stream
    }

    pub(super) fn submit_batch(&mut self, oracle: &mut Oracle, batch: Batch, process: u32) {
        for run in batch.runs() {
            let stats = self.io.stats_mut(run.stream);
            stats.windows += 1;
            stats.window_pages += run.pages.end - run.pages.start;
        }
        oracle.last = batch.last().cloned();
        let disks = self.io.disks.len();
        let by_disk =
            batch.submissions(&self.io, process, disks, oracle.room.is_head, &oracle.heads);
        for (disk, submissions) in by_disk.into_iter().enumerate() {
            let Some(last) = submissions.last() else {
                continue;
            };
            oracle.heads[disk] = last.offset_bytes + last.length_bytes;
            self.io.disks[disk].submit_together(self.io.now_ns, submissions);
            self.io.disks[disk].unplug(self.io.now_ns);
            self.io.touched.push(disk);
        }
        self.look_at_disks();
    }
}
