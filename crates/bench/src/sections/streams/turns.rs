// SPDX-License-Identifier: MIT OR Apache-2.0
//! One program run with `foreread watch` and without, in turn.

use std::time::Instant;

use foreread_measure::MeasureError;
use foreread_measure::sample::Sample;
use serde_json::Value;

use super::Streams;
use super::bed::{Bed, Program, Run};
use crate::sections::costs::milliseconds;

/// Times that something is run again before a disturbance is taken as it is.
const ATTEMPTS: usize = 5;

/// The runs of a program, as many with as without.
#[derive(Default)]
pub struct Turns {
    pub alone: Vec<Run>,
    pub watched: Vec<Run>,
}

impl Turns {
    /// Runs a program from a cold disk, with and without, as often as there is time. `prepare` is
    /// called before each run, when nothing is in memory, with whether it is a watched one; every
    /// other round begins with that.
    pub fn take(
        streams: &mut Streams<'_>,
        bed: &Bed,
        program: &Program,
        mut prepare: impl FnMut(bool) -> Result<(), MeasureError>,
    ) -> Result<Self, MeasureError> {
        let rounds = streams.rounds();
        let began = Instant::now();
        let mut turns = Self::default();
        while rounds.wants_more(turns.alone.len(), began) {
            let is_odd = !turns.alone.len().is_multiple_of(2);
            for is_watched in [is_odd, !is_odd] {
                let run = undisturbed(|| {
                    bed.make_cold()?;
                    prepare(is_watched)?;
                    bed.run(program, &bed.watch(is_watched))
                })?;
                match is_watched {
                    true => turns.watched.push(run),
                    false => turns.alone.push(run),
                }
            }
        }
        if turns.watched.iter().any(|run| run.is_partial) {
            let name = program.name;
            streams.note(format!("{name}: `foreread watch` lost records on the way."));
        }
        Ok(turns)
    }

    /// Bytes that the kernel alone reads in a second.
    pub fn alone_bytes_per_s(&self) -> f64 {
        bytes_per_s(&self.alone)
    }

    /// Bytes read in a second with `foreread watch`.
    pub fn watched_bytes_per_s(&self) -> f64 {
        bytes_per_s(&self.watched)
    }

    /// Time of `foreread watch` before and after the program.
    pub fn start_and_end(&self) -> String {
        let around = |runs: &[Run]| median(runs, |run| run.wall_ns.saturating_sub(run.inside_ns));
        milliseconds(around(&self.watched) - around(&self.alone))
    }

    /// Every single run.
    pub fn documents(&self) -> (Value, Value) {
        let all = |runs: &[Run]| runs.iter().map(Run::document).collect::<Value>();
        (all(&self.alone), all(&self.watched))
    }
}

/// Runs something again when another process has dropped the caches meanwhile.
pub fn undisturbed(
    mut run: impl FnMut() -> Result<Run, MeasureError>,
) -> Result<Run, MeasureError> {
    let mut done = run()?;
    for _ in 1..ATTEMPTS {
        if !done.is_disturbed {
            break;
        }
        done = run()?;
    }
    Ok(done)
}

/// The median of something over some runs.
pub fn median(runs: &[Run], of: impl Fn(&Run) -> u64) -> f64 {
    Sample::of_ns(runs.iter().map(of)).median()
}

fn bytes_per_s(runs: &[Run]) -> f64 {
    let speed = |run: &Run| run.bytes as f64 * 1e9 / run.inside_ns.max(1) as f64;
    Sample::new(runs.iter().map(speed)).median()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(inside_ns: u64, wall_ns: u64) -> Run {
        Run {
            inside_ns,
            wall_ns,
            bytes: 1000,
            requests: 1,
            device_bytes: 2000,
            write_requests: 0,
            is_partial: false,
            is_disturbed: false,
            said: Value::Null,
        }
    }

    #[test]
    fn a_disturbed_run_is_repeated_but_not_for_ever() {
        let mut runs = 0;
        let third = undisturbed(|| {
            runs += 1;
            let is_disturbed = runs < 3;
            let done = run(runs, 0);
            Ok(Run {
                is_disturbed,
                ..done
            })
        });
        assert_eq!(third.unwrap().inside_ns, 3);
        let last = undisturbed(|| {
            let done = run(1, 0);
            Ok(Run {
                is_disturbed: true,
                ..done
            })
        });
        assert!(last.unwrap().is_disturbed);
    }

    #[test]
    fn speeds_are_the_programs_own_and_the_rest_is_start_and_end() {
        let turns = Turns {
            alone: vec![run(1_000_000_000, 1_003_000_000); 3],
            watched: vec![run(500_000_000, 603_000_000), run(500_000_000, 603_000_000)],
        };
        assert_eq!(turns.alone_bytes_per_s(), 1000.0);
        assert_eq!(turns.watched_bytes_per_s(), 2000.0);
        assert_eq!(turns.start_and_end(), "100.0 ms");
        assert_eq!(turns.documents().1[0]["device_bytes"], 2000);
    }
}
