// SPDX-License-Identifier: MIT OR Apache-2.0
//! The requests of a thread of a program, one after the other, without a list of them.

use std::ops::Range;

use super::setup::{Pattern, Phase, ProgramSetup};
use super::share::Share;
use crate::path::PAGE_BYTES;
use crate::random::Random;

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Which of the program's files.
    pub file: usize,
    /// Which pass through it.
    pub round: u64,
    /// Where it begins in the file.
    pub offset_bytes: u64,
    /// Its length.
    pub bytes: u64,
    /// Whether it is the first one of a pass through the file.
    pub opens: bool,
}

impl Request {
    /// The pages that it touches.
    #[must_use]
    pub fn pages(&self) -> Range<u64> {
        let end = self.offset_bytes.saturating_add(self.bytes);
        self.offset_bytes / PAGE_BYTES..end.div_ceil(PAGE_BYTES)
    }
}

/// A place in a file and a length, in bytes.
type Place = (u64, u64);

/// Where a thread is in its pattern.
#[derive(Clone, Debug)]
pub struct Requests {
    thread: u64,
    file: usize,
    round: u64,
    has_opened: bool,
    phase: usize,
    /// Requests of this phase's pattern done.
    step: u64,
    /// In a mixed pattern: the end of the last request.
    position: u64,
    /// Requests that were put out of order and come next, the last one first.
    shuffled: Vec<Place>,
    random: Random,
}

impl Requests {
    /// Those of thread `thread` of a program with this seed.
    #[must_use]
    pub fn new(seed: u64, thread: u64) -> Self {
        Self {
            thread,
            file: 0,
            round: 0,
            has_opened: false,
            phase: 0,
            step: 0,
            position: 0,
            shuffled: Vec::new(),
            random: Random::new(seed.wrapping_add(thread << 32)),
        }
    }

    /// The next request; `None` when the thread is through. `file_bytes` gives the size of each
    /// of the program's files.
    pub fn next(
        &mut self,
        program: &ProgramSetup,
        file_bytes: impl Fn(usize) -> u64,
    ) -> Option<Request> {
        while self.file < program.files.len() {
            let Some(phase) = program.phases.get(self.phase) else {
                self.end_pass(program);
                continue;
            };
            let size = file_bytes(self.file).saturating_sub(phase.offset_bytes);
            let share = Share::new(program, phase, phase.length_bytes.min(size), self.thread);
            let Some((at, bytes)) = self.in_some_order(program.seed, phase, &share) else {
                self.begin_phase(self.phase + 1);
                continue;
            };
            return Some(Request {
                file: self.file,
                round: self.round,
                offset_bytes: phase.offset_bytes + at,
                bytes,
                opens: !std::mem::replace(&mut self.has_opened, true),
            });
        }
        None
    }

    fn begin_phase(&mut self, phase: usize) {
        self.phase = phase;
        self.step = 0;
        self.position = 0;
    }

    fn end_pass(&mut self, program: &ProgramSetup) {
        self.begin_phase(0);
        self.has_opened = false;
        self.round += 1;
        if self.round >= program.repeat {
            self.round = 0;
            self.file += 1;
        }
    }

    /// The next request, after those of a whole window were put out of order.
    fn in_some_order(&mut self, seed: u64, phase: &Phase, share: &Share) -> Option<Place> {
        if phase.reorder_requests < 2 {
            return self.with_noise(seed, phase, share);
        }
        if self.shuffled.is_empty() {
            for _ in 0..phase.reorder_requests {
                let Some(place) = self.with_noise(seed, phase, share) else {
                    break;
                };
                self.shuffled.push(place);
            }
            for last in (1..self.shuffled.len()).rev() {
                let other = self.random.below(last as u64 + 1);
                self.shuffled.swap(last, other as usize);
            }
        }
        self.shuffled.pop()
    }

    /// Some request anywhere, or the next one of the pattern.
    fn with_noise(&mut self, seed: u64, phase: &Phase, share: &Share) -> Option<Place> {
        let noise = u64::from(phase.noise_percent);
        if noise > 0 && self.random.below(100) < noise {
            let place = self.anywhere(phase.request_bytes.max(1), share.length_bytes())?;
            return Some(share.place(place));
        }
        while self.step < phase.requests_max {
            let place = self.place(phase, share.length_bytes())?;
            self.step += 1;
            let place = share.place(place);
            if !is_hole(seed, phase, place.0) {
                return Some(place);
            }
        }
        None
    }

    /// The place of the request of this step within `length` bytes, and its size.
    fn place(&mut self, phase: &Phase, length: u64) -> Option<Place> {
        let request = phase.request_bytes.max(1);
        let step = self.step;
        let upward = |distance: u64| {
            let at = step.checked_mul(distance).filter(|at| *at < length)?;
            Some((at, request.min(length - at)))
        };
        match &phase.pattern {
            Pattern::Sequential => upward(request),
            Pattern::Strided {
                stride_bytes,
                run_bytes,
            } => {
                let run = (*run_bytes).max(request);
                let requests = run.div_ceil(request);
                let within = step % requests * request;
                let start = (step / requests).checked_mul((*stride_bytes).max(1))?;
                let at = start.checked_add(within).filter(|at| *at < length)?;
                Some((at, request.min(run - within).min(length - at)))
            }
            Pattern::Backward { stride_bytes } => {
                let (at, bytes) = upward((*stride_bytes).max(request))?;
                Some((length - at - bytes, bytes))
            }
            Pattern::ZigZag => {
                let places = length.div_ceil(request);
                let (pair, from_end) = (step / 2, step % 2 == 1);
                let number = if from_end { places - 1 - pair } else { pair };
                let at = number * request;
                (step < places).then(|| (at, request.min(length - at)))
            }
            Pattern::Interleaved { streams } => {
                let part = length / (*streams).max(1) / request * request;
                let (stream, round) = (step % streams, step / streams);
                let at = round
                    .checked_mul(request)
                    .filter(|at| at + request <= part)?;
                Some((stream * part + at, request))
            }
            Pattern::Random { requests } => {
                let place = self.anywhere(request, length)?;
                (step < *requests).then_some(place)
            }
            Pattern::Zipf { requests } => {
                let places = (length / request).max(1);
                let at = scattered(self.zipf(places), places) * request;
                (step < *requests && length > 0).then_some((at, request.min(length)))
            }
            Pattern::Mixed {
                requests,
                sequential_percent,
            } => {
                if step >= *requests {
                    return None;
                }
                let goes_on = self.random.below(100) < u64::from(*sequential_percent);
                if !goes_on || self.position >= length {
                    self.position = self.anywhere(request, length)?.0;
                }
                let at = self.position;
                let bytes = request.min(length - at);
                self.position += bytes;
                Some((at, bytes))
            }
            Pattern::List(list) => list.get(usize::try_from(step).ok()?).copied(),
        }
    }

    /// A request anywhere in `length` bytes, each place as likely as another.
    fn anywhere(&mut self, request: u64, length: u64) -> Option<Place> {
        let places = (length / request).max(1);
        let at = self.random.below(places) * request;
        (length > 0).then_some((at, request.min(length)))
    }

    /// A rank below `places`; rank n has a probability of about 1/(n+1). All doublings of the rank
    /// are equally likely, and so are all ranks within a doubling.
    fn zipf(&mut self, places: u64) -> u64 {
        let doublings = u64::from(u64::BITS - places.leading_zeros());
        loop {
            let from = 1u64 << self.random.below(doublings);
            let rank = from + self.random.below(from) - 1;
            if rank < places {
                return rank;
            }
        }
    }
}

/// Whether a request that starts at `at` is left out. The same runs of the file are left out for
/// every reader and in every order.
fn is_hole(seed: u64, phase: &Phase, at: u64) -> bool {
    let percent = u64::from(phase.holes_percent);
    if percent == 0 {
        return false;
    }
    let run = phase.hole_run_bytes.max(phase.request_bytes).max(1);
    Random::new(Random::new(seed).draw() ^ (at / run)).below(100) < percent
}

/// Where the place of a rank is: neighbours in rank are no neighbours in the file.
fn scattered(rank: u64, places: u64) -> u64 {
    let mixed = Random::new(rank).draw();
    ((u128::from(mixed) * u128::from(places)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(pattern: Pattern) -> ProgramSetup {
        ProgramSetup {
            phases: vec![Phase {
                pattern,
                request_bytes: 4,
                ..Phase::default()
            }],
            seed: 7,
            ..ProgramSetup::new("", vec![0])
        }
    }

    fn changed(pattern: Pattern, change: impl Fn(&mut Phase)) -> ProgramSetup {
        let mut program = program(pattern);
        change(&mut program.phases[0]);
        program
    }

    fn of_thread(program: &ProgramSetup, thread: u64, file_bytes: u64) -> Vec<Place> {
        let mut requests = Requests::new(program.seed, thread);
        let next = || requests.next(program, |_| file_bytes);
        std::iter::from_fn(next)
            .map(|request| (request.offset_bytes, request.bytes))
            .collect()
    }

    fn places(program: &ProgramSetup, file_bytes: u64) -> Vec<Place> {
        of_thread(program, 0, file_bytes)
    }

    fn starts(program: &ProgramSetup, file_bytes: u64) -> Vec<u64> {
        let places = places(program, file_bytes);
        places.iter().map(|(at, _)| *at).collect()
    }

    #[test]
    fn patterns_read_what_they_say() {
        let sequential = program(Pattern::Sequential);
        assert_eq!(places(&sequential, 10), [(0, 4), (4, 4), (8, 2)]);
        let backward = program(Pattern::Backward { stride_bytes: 0 });
        assert_eq!(places(&backward, 10), [(6, 4), (2, 4), (0, 2)]);
        let backward = program(Pattern::Backward { stride_bytes: 12 });
        assert_eq!(places(&backward, 30), [(26, 4), (14, 4), (2, 4)]);
        let strided = |stride_bytes, run_bytes| Pattern::Strided {
            stride_bytes,
            run_bytes,
        };
        assert_eq!(places(&program(strided(6, 0)), 10), [(0, 4), (6, 4)]);
        let runs = [(0, 4), (4, 2), (10, 4), (14, 2), (20, 3)];
        assert_eq!(places(&program(strided(10, 6)), 23), runs);
        let zig_zag = [(0, 4), (16, 2), (4, 4), (12, 4), (8, 4)];
        assert_eq!(places(&program(Pattern::ZigZag), 18), zig_zag);
        let interleaved = program(Pattern::Interleaved { streams: 2 });
        assert_eq!(places(&interleaved, 20), [(0, 4), (8, 4), (4, 4), (12, 4)]);
        let two = changed(Pattern::Sequential, |phase| phase.requests_max = 2);
        assert_eq!(places(&two, 10), [(0, 4), (4, 4)]);
        let list = program(Pattern::List(vec![(1, 2), (0, 9)]));
        assert_eq!(places(&list, 20), [(1, 2), (0, 9)]);
        let twice = ProgramSetup {
            repeat: 2,
            ..sequential
        };
        assert_eq!(places(&twice, 4), [(0, 4), (0, 4)]);
    }

    #[test]
    fn random_places_lie_within_the_file() {
        for pattern in [
            Pattern::Random { requests: 500 },
            Pattern::Zipf { requests: 500 },
        ] {
            let places = places(&program(pattern), 4000);
            assert_eq!(places.len(), 500);
            assert!(places.iter().all(|(at, bytes)| at + bytes <= 4000));
        }
    }

    #[test]
    fn some_places_of_a_zipf_pattern_are_wanted_most() {
        let mut seen = std::collections::BTreeMap::new();
        for (at, _) in places(&program(Pattern::Zipf { requests: 10_000 }), 4000) {
            *seen.entry(at).or_insert(0u32) += 1;
        }
        let most = seen.values().max().copied().unwrap_or(0);
        assert!(most > 800 && seen.len() > 300, "{most} of {}", seen.len());
    }

    #[test]
    fn a_mixed_pattern_goes_on_as_often_as_it_says() {
        for sequential_percent in [0, 30, 70, 100] {
            let places = places(
                &program(Pattern::Mixed {
                    requests: 4000,
                    sequential_percent,
                }),
                4_000_000,
            );
            assert_eq!(places.len(), 4000);
            let follows = places.windows(2).filter(|two| two[1].0 == two[0].0 + 4);
            let percent = follows.count() as u64 * 100 / 3999;
            assert!(percent.abs_diff(u64::from(sequential_percent)) < 3);
        }
    }

    #[test]
    fn reordered_requests_are_all_there_each_in_its_window() {
        let reordered = changed(Pattern::Sequential, |phase| phase.reorder_requests = 8);
        let starts = starts(&reordered, 4 * 100);
        let in_order: Vec<u64> = (0..100).map(|number| number * 4).collect();
        assert_ne!(starts, in_order);
        for (got, all) in starts.chunks(8).zip(in_order.chunks(8)) {
            let mut got = got.to_vec();
            got.sort_unstable();
            assert_eq!(got, all);
        }
    }

    #[test]
    fn holes_come_in_runs_and_are_the_same_in_either_direction() {
        let holes = |pattern| {
            changed(pattern, |phase| {
                phase.holes_percent = 25;
                phase.hole_run_bytes = 16;
            })
        };
        let up = starts(&holes(Pattern::Sequential), 16 * 1000);
        let read = up.len() / 4;
        assert!((700..800).contains(&read), "{read} of 1000 runs");
        assert!(
            up.chunks(4)
                .all(|run| run[3] == run[0] + 12 && run[0] % 16 == 0)
        );
        let pattern = Pattern::Backward { stride_bytes: 0 };
        let mut down = starts(&holes(pattern), 16 * 1000);
        down.reverse();
        assert_eq!(up, down);
    }

    #[test]
    fn noise_comes_between_and_leaves_the_pattern_whole() {
        let noisy = changed(Pattern::Sequential, |phase| phase.noise_percent = 20);
        let starts = starts(&noisy, 4 * 4000);
        let noise = starts.len() - 4000;
        assert!((900..1100).contains(&noise), "{noise}");
        let mut next = 0;
        for at in &starts {
            next += if *at == next { 4 } else { 0 };
        }
        assert_eq!(next, 4 * 4000);
    }

    #[test]
    fn phases_follow_each_other_on_one_open_file() {
        let mut program = program(Pattern::Sequential);
        program.repeat = 2;
        program.phases[0].length_bytes = 8;
        program.phases.push(Phase {
            pattern: Pattern::Backward { stride_bytes: 0 },
            offset_bytes: 8,
            request_bytes: 6,
            ..Phase::default()
        });
        let mut requests = Requests::new(1, 0);
        let next = || requests.next(&program, |_| 20);
        let seen: Vec<_> = std::iter::from_fn(next)
            .map(|r| (r.offset_bytes, r.bytes, r.opens))
            .collect();
        let pass = [(0, 4, true), (4, 4, false), (14, 6, false), (8, 6, false)];
        assert_eq!(seen, [pass, pass].concat());
    }

    #[test]
    fn threads_share_a_file_without_gap_or_overlap() {
        for (threads, piece_bytes) in [(3, 0), (3, 8), (7, 4)] {
            let program = ProgramSetup {
                threads,
                piece_bytes,
                ..program(Pattern::Sequential)
            };
            let mut all: Vec<Place> = (0..threads)
                .flat_map(|thread| of_thread(&program, thread, 101))
                .collect();
            all.sort_unstable();
            let mut next = 0;
            for (at, bytes) in all {
                assert_eq!(at, next, "{threads} threads, pieces of {piece_bytes}");
                next += bytes;
            }
            assert_eq!(next, 101);
        }
    }
}
