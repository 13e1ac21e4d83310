// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tracks the number of requests at a device over time, and the time without one.

/// Two sums of time; the difference of two readings is the time in between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clocks {
    /// Time without a request at the device.
    pub idle_ns: u64,
    /// Time with fewer requests at the device than it had had at once by then.
    pub room_ns: u64,
}

/// Requests at one device over time.
#[derive(Clone, Debug, Default)]
pub struct Depth {
    first_ns: Option<u64>,
    now_ns: u64,
    in_flight: u64,
    max: u64,
    clocks: Clocks,
    /// The clocks when the last request was done that had been issued before the trace. Until then,
    /// it is unknown whether the device had nothing to do.
    known: Clocks,
    busy_ns: u64,
    /// Requests times nanoseconds.
    area: u128,
    waiting_reads: u64,
    idle_waiting_ns: u64,
}

impl Depth {
    /// Time goes on.
    pub fn advance(&mut self, now_ns: u64) {
        if self.first_ns.is_none() {
            self.first_ns = Some(now_ns);
            self.now_ns = now_ns;
        }
        let passed_ns = now_ns.saturating_sub(self.now_ns);
        self.now_ns += passed_ns;
        self.area += u128::from(self.in_flight) * u128::from(passed_ns);
        if self.in_flight == 0 {
            self.clocks.idle_ns += passed_ns;
            if self.waiting_reads > 0 {
                self.idle_waiting_ns += passed_ns;
            }
        } else {
            self.busy_ns += passed_ns;
        }
        // A device that was never seen with a request has room for one.
        if self.in_flight < self.max.max(1) {
            self.clocks.room_ns += passed_ns;
        }
    }

    /// A request goes to the device.
    pub fn issue(&mut self) {
        self.in_flight += 1;
        self.max = self.max.max(self.in_flight);
    }

    /// A request comes back.
    pub fn complete(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// A request comes back whose issue was not seen.
    pub fn complete_unseen(&mut self) {
        self.known = self.clocks;
        self.idle_waiting_ns = 0;
    }

    /// A read begins to wait for the device.
    pub fn read_waits(&mut self) {
        self.waiting_reads += 1;
    }

    /// It waits no longer.
    pub fn read_goes(&mut self) {
        self.waiting_reads = self.waiting_reads.saturating_sub(1);
    }

    /// The clocks now.
    #[must_use]
    pub fn clocks(&self) -> Clocks {
        self.clocks
    }

    /// The time between two readings, as far as it is certain.
    #[must_use]
    pub fn between(&self, from: Clocks, to: Clocks) -> Clocks {
        let sure = |from: u64, known: u64, to: u64| to.saturating_sub(from.max(known));
        Clocks {
            idle_ns: sure(from.idle_ns, self.known.idle_ns, to.idle_ns),
            room_ns: sure(from.room_ns, self.known.room_ns, to.room_ns),
        }
    }

    /// The sums.
    #[must_use]
    pub fn summary(&self) -> DepthSummary {
        let traced_ns = self.now_ns.saturating_sub(self.first_ns.unwrap_or(0));
        DepthSummary {
            traced_ns,
            busy_ns: self.busy_ns,
            in_flight_max: self.max,
            in_flight_mean: match traced_ns {
                0 => 0.0,
                ns => self.area as f64 / ns as f64,
            },
            idle_while_reads_waited_ns: self.idle_waiting_ns,
        }
    }
}

/// How busy a device was.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DepthSummary {
    /// Time from its first event to its last.
    pub traced_ns: u64,
    /// Time with a request at the device.
    pub busy_ns: u64,
    /// The most requests at once.
    pub in_flight_max: u64,
    /// Over all the time.
    pub in_flight_mean: f64,
    /// Time without a request at the device while a read waited in a plug or in the scheduler.
    pub idle_while_reads_waited_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_and_room_are_told_apart() {
        let mut depth = Depth::default();
        depth.advance(1_000);
        depth.read_waits();
        depth.advance(1_100);
        depth.issue();
        depth.read_goes();
        depth.advance(1_300);
        depth.issue();
        depth.advance(1_400);
        depth.complete();
        depth.advance(1_500);
        let expected = Clocks {
            idle_ns: 100,
            room_ns: 200,
        };
        assert_eq!(depth.clocks(), expected);
        let summary = depth.summary();
        assert_eq!((summary.traced_ns, summary.busy_ns), (500, 400));
        assert_eq!(summary.in_flight_max, 2);
        assert!((summary.in_flight_mean - 1.0).abs() < 1e-9);
        assert_eq!(summary.idle_while_reads_waited_ns, 100);
    }

    #[test]
    fn before_a_completion_without_issue_nothing_is_known() {
        let mut depth = Depth::default();
        depth.advance(0);
        depth.read_waits();
        let before = depth.clocks();
        depth.advance(50);
        depth.complete_unseen();
        let then = depth.clocks();
        depth.advance(80);
        assert_eq!(depth.between(before, then), Clocks::default());
        assert_eq!(depth.between(before, depth.clocks()).idle_ns, 30);
        assert_eq!(depth.summary().idle_while_reads_waited_ns, 30);
    }
}
