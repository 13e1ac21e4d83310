// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events of several processors in order of time.

use std::collections::BTreeMap;

use crate::event::Event;

/// Maximum number of events that wait for an earlier one.
const WINDOW: usize = 4096;

/// Puts events in order of time; those of one time stay as they came.
#[derive(Debug, Default)]
pub struct Order {
    waiting: BTreeMap<(u64, u64), Event>,
    arrivals: u64,
    last_ns: u64,
    late: u64,
}

impl Order {
    /// Takes an event, and gives the one whose turn it is, if that is known by now.
    pub fn push(&mut self, event: Event) -> Option<Event> {
        self.arrivals += 1;
        self.waiting.insert((event.time_ns, self.arrivals), event);
        if self.waiting.len() > WINDOW {
            return self.pop();
        }
        None
    }

    /// The next event of those that are left.
    pub fn pop(&mut self) -> Option<Event> {
        let (_, event) = self.waiting.pop_first()?;
        self.late += u64::from(event.time_ns < self.last_ns);
        self.last_ns = self.last_ns.max(event.time_ns);
        Some(event)
    }

    /// Events that came after more than 4,096 later ones; they could not be put in order.
    #[must_use]
    pub fn late(&self) -> u64 {
        self.late
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::parse_line;

    fn at(time_ns: u64, pid: u32) -> Event {
        let line = format!("8,0 1 2 0.{time_ns:09} {pid} Q R 8 + 8 [x]");
        parse_line(&line).unwrap().unwrap()
    }

    #[test]
    fn processors_are_interleaved_and_equal_times_stay_in_order() {
        let mut order = Order::default();
        for event in [at(3, 1), at(5, 2), at(1, 3), at(3, 4), at(2, 5)] {
            assert!(order.push(event).is_none());
        }
        let pids: Vec<u32> = std::iter::from_fn(|| order.pop()).map(|e| e.pid).collect();
        assert_eq!((pids, order.late()), (vec![3, 5, 1, 4, 2], 0));
    }

    #[test]
    fn what_is_held_is_bounded_and_what_comes_too_late_is_counted() {
        let mut order = Order::default();
        let mut given = 0;
        for time_ns in 0..2 * WINDOW as u64 {
            given += usize::from(order.push(at(10 + time_ns, 1)).is_some());
        }
        assert_eq!(given, WINDOW);
        order.push(at(1, 9));
        while order.pop().is_some() {}
        assert_eq!(order.late(), 1);
    }
}
