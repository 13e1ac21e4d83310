// SPDX-License-Identifier: MIT OR Apache-2.0
//! Machines that carry out programs: the running kernel, or a model of one.

use super::program::{Program, Step};
use super::seen::{Facts, Seen, Sight};

/// Something that carries out programs.
pub trait Machine {
    /// Why it can't.
    type Error;

    /// Gets ready: nothing of the file is cached, nothing is open.
    ///
    /// # Errors
    /// It can't.
    fn begin(&mut self, program: &Program) -> Result<Facts, Self::Error>;

    /// Does one step. All that it reads has arrived when this returns.
    ///
    /// # Errors
    /// It can't.
    fn step(&mut self, step: &Step) -> Result<Seen, Self::Error>;

    /// The next program is run again because a difference is doubted: waits for events that can't
    /// be counted should take longer.
    fn take_care(&mut self, is_doubted: bool) {
        let _ = is_doubted;
    }

    /// Whether it may not have seen all that happened since the program began.
    fn has_missed_events(&mut self) -> bool {
        false
    }

    /// The means by which it observes itself.
    fn sight(&self) -> Sight {
        Sight::Events
    }
}
