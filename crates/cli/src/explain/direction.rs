// SPDX-License-Identifier: MIT OR Apache-2.0
//! In which direction a thread or a stream reads, in words.

use std::collections::VecDeque;
use std::fmt;

use foreread_core::policy::{Course, Decision, Reason, Stream};

/// Windows that tell how a thread reads. One alone doesn't: a backward reader that waits for page 0
/// also looks like one that starts there.
const WINDOWS_RECENT: usize = 8;

/// Where the next read lies, seen from the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Up,
    Down,
    /// In steps of so many pages, where that is known.
    Steps(Option<i64>),
}

/// Whether what is asked for lies below.
pub fn is_down(decision: &Decision) -> bool {
    matches!(decision.reason, Reason::Reverse | Reason::Backward)
        || decision.repeats().is_some_and(|(_, step)| step < 0)
}

impl From<&Decision> for Direction {
    fn from(decision: &Decision) -> Self {
        match (decision.reason, decision.repeats()) {
            (Reason::Stride, repeats) => Self::Steps(repeats.map(|(_, step)| step)),
            _ if is_down(decision) => Self::Down,
            _ => Self::Up,
        }
    }
}

impl From<&Stream> for Direction {
    fn from(stream: &Stream) -> Self {
        let step = i64::try_from(stream.step_pages).unwrap_or(i64::MAX);
        match stream.course {
            Course::Up => Self::Up,
            Course::Down => Self::Down,
            Course::StepUp => Self::Steps(Some(step)),
            Course::StepDown => Self::Steps(Some(-step)),
        }
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Up => f.write_str("upward"),
            Self::Down => f.write_str("backward"),
            Self::Steps(Some(step)) => write!(f, "in steps of {step} pages"),
            Self::Steps(None) => f.write_str("in steps"),
        }
    }
}

/// Directions of the last windows of a thread.
#[derive(Default)]
pub struct Directions(VecDeque<Direction>);

impl Directions {
    /// Counts a window.
    pub fn take(&mut self, direction: Direction) {
        if self.0.len() == WINDOWS_RECENT {
            self.0.pop_front();
        }
        self.0.push_back(direction);
    }

    /// The direction of most of them; of several such directions, the latest.
    pub fn usual(&self) -> Option<Direction> {
        let times =
            |direction: Direction| self.0.iter().filter(|other| **other == direction).count();
        self.0
            .iter()
            .copied()
            .max_by_key(|direction| times(*direction))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usual(directions: impl IntoIterator<Item = Direction>) -> Option<Direction> {
        let mut recent = Directions::default();
        for direction in directions {
            recent.take(direction);
        }
        recent.usual()
    }

    #[test]
    fn one_window_upward_does_not_make_a_backward_reader_an_upward_one() {
        let backward = [Direction::Down; 61];
        assert_eq!(usual(backward), Some(Direction::Down));
        assert_eq!(
            usual(backward.into_iter().chain([Direction::Up])),
            Some(Direction::Down)
        );
        let turned = backward.into_iter().chain([Direction::Up; 5]);
        assert_eq!(usual(turned), Some(Direction::Up));
    }

    #[test]
    fn the_latest_of_several_equal_directions_is_the_usual_one() {
        assert_eq!(usual([]), None);
        let steps = Direction::Steps(Some(-8));
        assert_eq!(usual([Direction::Up, steps]), Some(steps));
        assert_eq!(
            usual([steps, Direction::Up, Direction::Up, steps]),
            Some(steps)
        );
    }
}
