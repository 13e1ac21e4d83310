// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers the calls of one planner for the log.
//!
//! Input: calls in their order. Output: each call with the number of its planner and its own, from
//! 1 on without a gap. Repeated waits are left out: a decision after a wait, without a call between
//! them, would be the same.

/// Takes calls for the log.
pub(super) type Note<'a, Call> = Box<dyn FnMut(Call) + 'a>;

/// Numbers calls and hands them on; without a `note` it copies nothing.
pub(super) struct CallNumbers<'a, Call> {
    planner: u64,
    pub(super) calls: u64,
    /// Whether the last call was a decision to wait.
    waits: bool,
    note: Option<Note<'a, Call>>,
}

impl<'a, Call> CallNumbers<'a, Call> {
    /// Of the planner with this number.
    pub fn new(planner: u64, note: Option<Note<'a, Call>>) -> Self {
        Self {
            planner,
            calls: 0,
            waits: false,
            note,
        }
    }

    /// Notes a call. `call` gets the numbers of the planner and of the call.
    pub fn note(&mut self, call: impl FnOnce(u64, u64) -> Call) {
        self.waits = false;
        let Some(note) = &mut self.note else {
            return;
        };
        self.calls += 1;
        note(call(self.planner, self.calls));
    }

    /// Notes a decision; of repeated waits the first.
    pub fn note_decision(&mut self, waits: bool, call: impl FnOnce(u64, u64) -> Call) {
        if !(waits && self.waits) {
            self.note(call);
        }
        self.waits = waits;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_numbered_and_waits_noted_once() {
        let mut all = Vec::new();
        let mut numbers = CallNumbers::new(7, Some(Box::new(|call| all.push(call))));
        numbers.note_decision(true, |planner, call| (planner, call, "wait"));
        numbers.note_decision(true, |planner, call| (planner, call, "again"));
        numbers.note(|planner, call| (planner, call, "hit"));
        numbers.note_decision(true, |planner, call| (planner, call, "wait"));
        numbers.note_decision(false, |planner, call| (planner, call, "read"));
        drop(numbers);
        let wanted = [
            (7, 1, "wait"),
            (7, 2, "hit"),
            (7, 3, "wait"),
            (7, 4, "read"),
        ];
        assert_eq!(all, wanted);
    }
}
