// SPDX-License-Identifier: MIT OR Apache-2.0
//! The requests of a program, one after the other, without a list of them.

use super::setup::{Pattern, ProgramSetup};
use crate::random::Random;

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// Which of the program's files.
    pub file: usize,
    pub offset_bytes: u64,
    pub bytes: u64,
    /// Whether it is the first one of a pass through the file.
    pub opens: bool,
}

/// Where a program is in its pattern.
#[derive(Clone, Debug)]
pub(super) struct Requests {
    file: usize,
    round: u64,
    /// Requests of this pass done.
    step: u64,
    random: Random,
}

impl Requests {
    pub fn new(seed: u64) -> Self {
        Self {
            file: 0,
            round: 0,
            step: 0,
            random: Random::new(seed),
        }
    }

    /// The next request; `None` when the program is through. `file_bytes` gives the size of each
    /// of its files.
    pub fn next(
        &mut self,
        program: &ProgramSetup,
        file_bytes: impl Fn(usize) -> u64,
    ) -> Option<Request> {
        while self.file < program.files.len() {
            let size = file_bytes(self.file).saturating_sub(program.offset_bytes);
            let length = program.length_bytes.min(size);
            if let Some((at, bytes)) = self.place(program, length) {
                let opens = self.step == 0;
                self.step += 1;
                return Some(Request {
                    file: self.file,
                    offset_bytes: program.offset_bytes + at,
                    bytes,
                    opens,
                });
            }
            self.step = 0;
            self.round += 1;
            if self.round >= program.repeat {
                self.round = 0;
                self.file += 1;
            }
        }
        None
    }

    /// The place of the request of this step within `length` bytes, and its size.
    fn place(&mut self, program: &ProgramSetup, length: u64) -> Option<(u64, u64)> {
        let request = program.request_bytes.max(1);
        let step = self.step;
        let upward = |distance: u64| {
            let at = step.checked_mul(distance).filter(|at| *at < length)?;
            Some((at, request.min(length - at)))
        };
        match &program.pattern {
            Pattern::Sequential => upward(request),
            Pattern::Strided { stride_bytes } => upward((*stride_bytes).max(1)),
            Pattern::Backward => {
                let at = upward(request)?;
                let mirrored = length - at.0 - at.1;
                Some((mirrored, at.1))
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
                let places = (length / request).max(1);
                let at = self.random.below(places) * request;
                (step < *requests && length > 0).then_some((at, request.min(length)))
            }
            Pattern::Zipf { requests } => {
                let places = (length / request).max(1);
                let at = scattered(self.zipf(places), places) * request;
                (step < *requests && length > 0).then_some((at, request.min(length)))
            }
            Pattern::List(list) => list.get(usize::try_from(step).ok()?).copied(),
        }
    }

    /// A rank below `places`, rank n about as often as 1/(n+1): the rank doubles as often as a
    /// fair coin says so, within all doublings equally likely, and is even within one.
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

/// Where the place of a rank is: neighbours in rank are no neighbours in the file.
fn scattered(rank: u64, places: u64) -> u64 {
    let mixed = Random::new(rank).draw();
    ((u128::from(mixed) * u128::from(places)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::setup::Through;

    fn program(pattern: Pattern) -> ProgramSetup {
        ProgramSetup {
            name: String::new(),
            files: vec![0],
            pattern,
            offset_bytes: 0,
            length_bytes: u64::MAX,
            request_bytes: 4,
            through: Through::Read,
            advice: None,
            repeat: 1,
            start_ns: 0,
            think_ns: 0,
            cpu_per_page_ns: 0,
            cpu_per_call_ns: 0,
            rate_bytes_per_s: 0,
            seed: 7,
        }
    }

    fn places(program: &ProgramSetup, file_bytes: u64) -> Vec<(u64, u64)> {
        let mut requests = Requests::new(program.seed);
        let next = || requests.next(program, |_| file_bytes);
        std::iter::from_fn(next)
            .map(|request| (request.offset_bytes, request.bytes))
            .collect()
    }

    #[test]
    fn patterns_read_what_they_say() {
        let sequential = program(Pattern::Sequential);
        assert_eq!(places(&sequential, 10), [(0, 4), (4, 4), (8, 2)]);
        let backward = program(Pattern::Backward);
        assert_eq!(places(&backward, 10), [(6, 4), (2, 4), (0, 2)]);
        let strided = program(Pattern::Strided { stride_bytes: 6 });
        assert_eq!(places(&strided, 10), [(0, 4), (6, 4)]);
        let interleaved = program(Pattern::Interleaved { streams: 2 });
        assert_eq!(places(&interleaved, 20), [(0, 4), (8, 4), (4, 4), (12, 4)]);
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
}
