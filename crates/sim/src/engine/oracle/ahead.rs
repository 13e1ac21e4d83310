// SPDX-License-Identifier: MIT OR Apache-2.0
//! The future reads of one thread, and the times at which it comes to them if nothing makes it
//! wait.

use std::collections::VecDeque;
use std::ops::Range;

use crate::engine::pattern::{Request, Requests};
use crate::engine::setup::{FileSetup, ProgramSetup};
use crate::path::PAGE_BYTES;

/// Requests that are counted to find out the total cost of a thread.
const COUNTED_MAX: usize = 1 << 20;

/// A future access, or the part of it that was not looked at yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Coming {
    /// Number of accesses of the thread before it.
    pub number: u64,
    /// As a number of the setup's files.
    pub file: usize,
    pub pages: Range<u64>,
    /// Time at which the thread reaches it, had it never waited.
    pub unhindered_ns: u64,
}

/// Pages that were read ahead for an access.
#[derive(Clone, Copy, Debug)]
struct Fetched {
    number: u64,
    start: u64,
    pages: u64,
}

/// Requests of a thread, with the time that passes between them.
#[derive(Clone, Debug)]
struct Clock {
    next_ns: u64,
    read_bytes: u64,
}

impl Clock {
    /// When this request begins, had nothing before it been waited for.
    fn begin(&mut self, program: &ProgramSetup, request: &Request) -> u64 {
        let begins_ns = self.next_ns;
        let pages = request.pages();
        let cpu_ns = program
            .cpu_per_page_ns
            .saturating_mul(pages.end - pages.start)
            .saturating_add(program.cpu_per_call_ns);
        self.read_bytes = self.read_bytes.saturating_add(request.bytes);
        self.next_ns = begins_ns
            .saturating_add(cpu_ns)
            .saturating_add(program.think_ns)
            .max(program.paced_ns(self.read_bytes));
        begins_ns
    }
}

/// A thread, looked at from ahead.
#[derive(Clone, Debug)]
pub(super) struct Ahead {
    pub program: usize,
    /// The requests beyond those that were looked at.
    requests: Requests,
    /// The access that is looked at next.
    pub coming: Option<Coming>,
    looked: Clock,
    done: Clock,
    looked_at: u64,
    looked_pages: u64,
    begun_pages: u64,
    /// Accesses that have begun.
    begun: u64,
    /// How late it is already.
    late_ns: u64,
    fetched: VecDeque<Fetched>,
}

impl Ahead {
    pub fn new(program: usize, setup: &ProgramSetup, thread: u64) -> Self {
        let clock = Clock {
            next_ns: setup.start_ns,
            read_bytes: 0,
        };
        Self {
            program,
            requests: Requests::new(setup.seed, thread),
            coming: None,
            looked: clock.clone(),
            done: clock,
            looked_at: 0,
            looked_pages: 0,
            begun_pages: 0,
            begun: 0,
            late_ns: 0,
            fetched: VecDeque::new(),
        }
    }

    /// Cost of all reads of the thread for a disk, in pages, for the requests that are counted.
    /// Each jump costs `jump_pages` more, and each file is counted once at most.
    pub fn cost_pages(&self, program: &ProgramSetup, files: &[FileSetup], jump_pages: u64) -> u64 {
        let mut requests = self.requests.clone();
        let next = || requests.next(program, |at| program.file_bytes(files, at));
        let whole = |at| program.file_bytes(files, at).div_ceil(PAGE_BYTES);
        let (mut all, mut cost) = (0u64, 0u64);
        let mut was_at: Option<(usize, Range<u64>)> = None;
        for request in std::iter::from_fn(next).take(COUNTED_MAX) {
            if let Some((file, _)) = was_at.take_if(|(file, _)| *file != request.file) {
                all = all.saturating_add(cost.min(whole(file)));
                cost = 0;
            }
            let pages = request.pages();
            let goes_on = |(file, before): &(usize, Range<u64>)| {
                *file == request.file
                    && pages.start <= before.end.saturating_add(jump_pages)
                    && before.start <= pages.end.saturating_add(jump_pages)
            };
            if !was_at.as_ref().is_some_and(goes_on) {
                cost = cost.saturating_add(jump_pages);
            }
            cost = cost.saturating_add(pages.end - pages.start);
            was_at = Some((request.file, pages));
        }
        let last = was_at.map_or(0, |(file, _)| cost.min(whole(file)));
        all.saturating_add(last)
    }

    /// The access that is under way; those before are over.
    fn under_way(&self) -> u64 {
        self.begun.saturating_sub(1)
    }

    /// The thread begins its next access.
    pub fn begins(&mut self, program: &ProgramSetup, request: &Request, time_ns: u64) {
        let unhindered_ns = self.done.begin(program, request);
        self.late_ns = time_ns.saturating_sub(unhindered_ns);
        let pages = request.pages();
        self.begins_some(pages.end - pages.start);
    }

    /// The thread begins its next access, of `pages` pages.
    pub fn begins_some(&mut self, pages: u64) {
        self.begun_pages += pages;
        self.begun += 1;
    }

    /// Whether an access with this number is over.
    pub fn is_over(&self, number: u64) -> bool {
        number < self.under_way()
    }

    /// Whether an access with this number is the one under way.
    pub fn is_under_way(&self, number: u64) -> bool {
        self.begun > 0 && number == self.under_way()
    }

    /// Pages were read ahead for it.
    pub fn fetched(&mut self, number: u64, start: u64, pages: u64) {
        self.fetched.push_back(Fetched {
            number,
            start,
            pages,
        });
    }

    /// Removes the fetched pages that the thread has passed at page `index` of its access. Returns
    /// their number.
    pub fn come_past(&mut self, index: u64) -> u64 {
        let at = (self.under_way(), index);
        let mut pages = 0;
        while let Some(first) = self.fetched.front() {
            if self.begun == 0 || (first.number, first.start) >= at {
                break;
            }
            pages += first.pages;
            self.fetched.pop_front();
        }
        pages
    }

    /// Time at which the thread reaches the next access to look at, at its present pace.
    pub fn due_ns(&self) -> u64 {
        let unhindered_ns = self
            .coming
            .as_ref()
            .map_or(0, |coming| coming.unhindered_ns);
        unhindered_ns.saturating_add(self.late_ns)
    }

    /// Makes `coming` something that is not over yet; `false` when there is nothing, or when it is
    /// more than `pages_max` ahead.
    pub fn look(&mut self, program: &ProgramSetup, files: &[FileSetup], pages_max: u64) -> bool {
        loop {
            let over = self.under_way();
            let is_left = |coming: &Coming| coming.number >= over && !coming.pages.is_empty();
            if self.coming.as_ref().is_some_and(is_left) {
                return self.looked_pages.saturating_sub(self.begun_pages) <= pages_max;
            }
            self.coming = None;
            let size = |at| program.file_bytes(files, at);
            let Some(request) = self.requests.next(program, size) else {
                return false;
            };
            let unhindered_ns = self.looked.begin(program, &request);
            let pages = request.pages();
            self.looked_pages += pages.end - pages.start;
            self.coming = Some(Coming {
                number: self.looked_at,
                file: program.files[request.file],
                pages,
                unhindered_ns,
            });
            self.looked_at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::setup::{Pattern, Phase};

    fn program(pattern: Pattern) -> ProgramSetup {
        ProgramSetup {
            phases: vec![Phase {
                pattern,
                ..Phase::default()
            }],
            think_ns: 100,
            ..ProgramSetup::new("", vec![0])
        }
    }

    fn file(pages: u64) -> FileSetup {
        FileSetup {
            name: String::new(),
            bytes: pages * PAGE_BYTES,
            disk: 0,
            offset_bytes: 0,
            extent_step_bytes: 0,
            extents: Default::default(),
            cached: None,
        }
    }

    #[test]
    fn what_is_over_is_passed_by_and_what_is_late_is_due_later() {
        let (program, files) = (program(Pattern::Sequential), [file(4)]);
        let mut ahead = Ahead::new(0, &program, 0);
        let mut requests = Requests::new(program.seed, 0);
        let mut next = || requests.next(&program, |_| files[0].bytes);
        let mut begin = |ahead: &mut Ahead, time_ns| {
            let request = next().expect("a request");
            ahead.begins(&program, &request, time_ns);
        };
        begin(&mut ahead, 0);
        assert!(ahead.look(&program, &files, 4));
        assert_eq!(ahead.coming.as_ref().map(|coming| coming.number), Some(0));
        ahead.fetched(0, 0, 1);
        ahead.fetched(1, 1, 1);
        begin(&mut ahead, 150);
        begin(&mut ahead, 250);
        assert_eq!(ahead.come_past(2), 2);
        assert!(ahead.is_over(1) && ahead.is_under_way(2));
        assert!(ahead.look(&program, &files, 4));
        assert_eq!(ahead.coming.as_ref().map(|coming| coming.number), Some(2));
        assert_eq!(ahead.due_ns(), 250);
        ahead.coming = None;
        assert!(ahead.look(&program, &files, 4));
        ahead.coming = None;
        assert!(!ahead.look(&program, &files, 4), "there is no fifth page");
    }

    #[test]
    fn places_that_do_not_go_on_cost_more_up_to_the_whole_file() {
        let cost = |pattern, pages| {
            let program = program(pattern);
            Ahead::new(0, &program, 0).cost_pages(&program, &[file(pages)], 50)
        };
        assert_eq!(cost(Pattern::Sequential, 1000), 1000);
        let random = cost(Pattern::Random { requests: 10 }, 1_000_000);
        assert!((400..=510).contains(&random), "{random}");
        assert_eq!(cost(Pattern::Random { requests: 500 }, 1000), 1000);
    }
}
