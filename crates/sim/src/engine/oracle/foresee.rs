// SPDX-License-Identifier: MIT OR Apache-2.0
//! When the oracle reads ahead: at each access, at each arrival, and where a page is missing.

use foreread_trace::Access;

use super::ahead::Coming;
use super::batch::{Batch, Run};
use super::{Oracle, Turns, room};
use crate::block::AHEAD;
use crate::engine::Simulation;
use crate::engine::pattern::Request;
use crate::path::PAGE_BYTES;

/// Pages of an access that are asked for at once, at most.
const ACCESS_PAGES_MAX: u64 = 512;

impl Simulation {
    /// A thread of a program begins an access.
    pub(in crate::engine) fn oracle_begins(
        &mut self,
        number: usize,
        request: &Request,
        time_ns: u64,
    ) {
        let Some(oracle) = &mut self.oracle else {
            return;
        };
        let thread = &mut oracle.threads[number];
        thread.begins(&self.setup.programs[thread.program], request, time_ns);
        oracle.enter(number);
    }

    /// A thread of a trace begins an access that uses pages.
    pub(in crate::engine) fn oracle_begins_traced(&mut self, number: usize, access: &Access) {
        if let Some(oracle) = &mut self.oracle
            && access.kind.uses_pages()
        {
            oracle.threads[number].begins_some(0);
        }
    }

    /// A thread has come further.
    pub(in crate::engine) fn oracle_comes_past(&mut self, number: usize) {
        let Some(oracle) = &mut self.oracle else {
            return;
        };
        let index = self.processes[number].index();
        let past = oracle.threads[number].come_past(index.unwrap_or(u64::MAX));
        oracle.ahead_pages = oracle.ahead_pages.saturating_sub(past);
    }

    /// A thread is about to find a page missing. The missing pages of its access are requested at
    /// once, with further pages that it needs next.
    pub(in crate::engine) fn oracle_covers(&mut self, number: usize, time_ns: u64) {
        if self.oracle.is_none() {
            return;
        }
        let process = &self.processes[number];
        let Some((rest, stream)) = process.rest().zip(process.stream()) else {
            return;
        };
        let file = self.files[self.streams[stream.number()].1];
        if rest.is_empty() || self.cache.find(file, rest.start).is_some() {
            return;
        }
        let Some(mut oracle) = self.oracle.take() else {
            return;
        };
        self.io.now_ns = time_ns;
        self.cache.miss(file, rest.start, stream);
        let mut batch = Batch::new(ACCESS_PAGES_MAX);
        let mut at = rest.start;
        while at < rest.end && !batch.is_full() {
            let missing = self.cache.missing_run(file, at..rest.end);
            if missing.is_empty() {
                break;
            }
            let pages = missing.start..missing.end.min(missing.start + batch.left_pages);
            let end = self.insert_pages(file, stream, pages.clone());
            if end > pages.start {
                batch.add(Run {
                    file,
                    stream,
                    pages: pages.start..end,
                });
            }
            at = pages.end;
            if end < pages.end {
                break;
            }
        }
        let pages_max = room::ahead_pages_max(&self.cache);
        let free = pages_max.saturating_sub(oracle.ahead_pages);
        batch.left_pages = oracle.foresight.miss_pages.min(free);
        if self.replay.is_none() {
            while !batch.is_full()
                && self.look_at_thread(&mut oracle, number, &mut batch, pages_max)
            {}
            oracle.enter(number);
        }
        match oracle.foresight.turns {
            _ if batch.is_empty() => {}
            Turns::ByNeed => self.submit_batch(&mut oracle, batch, number as u32),
            Turns::OneByOne => {
                oracle.held.insert((oracle.turns[number], number), batch);
            }
        }
        self.oracle = Some(oracle);
    }

    fn look_at_thread(
        &mut self,
        oracle: &mut Oracle,
        number: usize,
        batch: &mut Batch,
        pages_max: u64,
    ) -> bool {
        let thread = &mut oracle.threads[number];
        let program = &self.setup.programs[thread.program];
        if !thread.look(program, &self.setup.files, pages_max) {
            return false;
        }
        let Some(coming) = thread.coming.take() else {
            return false;
        };
        self.look_at(oracle, number, coming, batch);
        true
    }

    /// Reads ahead as long as a disk has little to do and memory has room.
    pub(in crate::engine) fn foresee(&mut self, time_ns: u64) {
        let Some(mut oracle) = self.oracle.take() else {
            return;
        };
        self.io.now_ns = time_ns;
        for number in std::mem::take(&mut oracle.blocked) {
            oracle.enter(number);
        }
        while self.foresee_batch(&mut oracle) {}
        self.oracle = Some(oracle);
    }

    /// Asks for one batch; whether there was anything to ask for.
    fn foresee_batch(&mut self, oracle: &mut Oracle) -> bool {
        let room = oracle.room;
        if !self.io.disks.iter().any(|disk| room.is_in(disk)) {
            return false;
        }
        let pages_max = room::ahead_pages_max(&self.cache);
        let free = pages_max.saturating_sub(oracle.ahead_pages);
        let mut batch = Batch::new(oracle.foresight.batch_pages.min(free));
        let held = oracle.held.first_key_value().map(|(key, _)| key.0);
        let next = oracle.looking.first().map(|entry| entry.0);
        if held.is_some_and(|held| next.is_none_or(|next| held <= next) || batch.is_full()) {
            self.submit_held(oracle);
            return true;
        }
        while !batch.is_full() && self.look_ahead(oracle, &mut batch, pages_max) {}
        if batch.is_empty() {
            return self.submit_held(oracle);
        }
        self.submit_batch(oracle, batch, AHEAD);
        true
    }

    /// Submits the held batch of the thread whose turn comes first. Returns whether there was one.
    fn submit_held(&mut self, oracle: &mut Oracle) -> bool {
        let Some((_, batch)) = oracle.held.pop_first() else {
            return false;
        };
        self.submit_batch(oracle, batch, AHEAD);
        true
    }

    /// Looks at the access that is needed next; `false` when there is none.
    fn look_ahead(&mut self, oracle: &mut Oracle, batch: &mut Batch, pages_max: u64) -> bool {
        let Some((number, coming)) = self.next_coming(oracle, pages_max) else {
            return false;
        };
        let is_free = |disk: usize| oracle.room.is_in(&self.io.disks[disk]);
        if !is_free(self.io.files[coming.file].disk) {
            self.put_back(oracle, number, coming);
            if self.replay.is_some() {
                return false;
            }
            oracle.leave(number);
            oracle.blocked.push(number);
            return true;
        }
        self.look_at(oracle, number, coming, batch);
        if self.replay.is_none() {
            oracle.enter(number);
        }
        true
    }

    /// The access that is needed next, with the number of its thread.
    fn next_coming(&mut self, oracle: &mut Oracle, pages_max: u64) -> Option<(usize, Coming)> {
        if self.replay.is_some() {
            return self.next_traced(oracle);
        }
        while let Some(&(_, _, number)) = oracle.looking.first() {
            let thread = &mut oracle.threads[number];
            let program = &self.setup.programs[thread.program];
            let had_none = thread.coming.is_none();
            if !thread.look(program, &self.setup.files, pages_max) {
                oracle.leave(number);
                continue;
            }
            // It was entered before its next read was known.
            if had_none {
                oracle.enter(number);
                if oracle.looking.first().map(|entry| entry.2) != Some(number) {
                    continue;
                }
            }
            let coming = oracle.threads[number].coming.take()?;
            return Some((number, coming));
        }
        None
    }

    fn next_traced(&mut self, oracle: &mut Oracle) -> Option<(usize, Coming)> {
        loop {
            let next = match oracle.traced.take() {
                Some(next) => Some(next),
                None => self.look_ahead_traced(),
            };
            let (number, coming) = next?;
            if !oracle.threads[number].is_over(coming.number) && !coming.pages.is_empty() {
                return Some((number, coming));
            }
        }
    }

    fn look_ahead_traced(&mut self) -> Option<(usize, Coming)> {
        let replay = self.replay.as_mut()?;
        let (thread, number, access) = replay.look_ahead()?;
        let file = replay.file_number(&access)?;
        let end = access.end_bytes().min(self.setup.files[file].bytes);
        let coming = Coming {
            number,
            file,
            pages: access.offset_bytes / PAGE_BYTES..end.div_ceil(PAGE_BYTES),
            unhindered_ns: 0,
        };
        Some((thread, coming))
    }

    pub(super) fn put_back(&self, oracle: &mut Oracle, number: usize, coming: Coming) {
        if self.replay.is_some() {
            oracle.traced = Some((number, coming));
        } else {
            oracle.threads[number].coming = Some(coming);
        }
    }
}
