// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters of pages, between which no page can be lost.
//!
//! A page that is read in moves one way: fetched, arrived, and then used on time, used late or
//! wasted. Each step has a counter that only grows. The numbers of unused pages in memory and of
//! pages in flight are differences of these. So in each [`Counts`], each sum and each [`Change`]
//!
//! ```text
//! fetched = used_on_time + used_late + wasted + resident_unused + in_flight
//! ```

use std::ops::AddAssign;

/// Counters of one account as they were read: those of later steps first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Pages that were in memory at their first use.
    pub used_on_time: u64,
    /// Pages that a program waited for.
    pub used_late: u64,
    /// Pages that left memory before their first use.
    pub wasted: u64,
    /// Pages that have arrived, whatever became of them.
    pub arrived: u64,
    /// Pages that were asked for.
    pub fetched: u64,
    /// Times that readahead was issued.
    pub windows: u64,
    /// Requests to devices.
    pub requests: u64,
    /// Their bytes.
    pub request_bytes: u64,
    /// Time that programs waited for reads.
    pub stall_ns: u64,
    /// Number of these waits.
    pub stalls: u64,
}

/// Counters in which every page is in exactly one place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts(Counters);

impl Counts {
    /// `None` when pages are in two places: the counters were read while one was moving, and are to
    /// be read again.
    #[must_use]
    pub fn new(counters: Counters) -> Option<Self> {
        let ended = counters
            .used_on_time
            .checked_add(counters.used_late)?
            .checked_add(counters.wasted)?;
        (ended <= counters.arrived && counters.arrived <= counters.fetched)
            .then_some(Self(counters))
    }

    /// The counters themselves.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.0
    }

    /// Pages that are in memory, and not used yet.
    #[must_use]
    pub const fn resident_unused(&self) -> u64 {
        self.0.arrived - self.0.used_on_time - self.0.used_late - self.0.wasted
    }

    /// Pages that were asked for and aren't there yet.
    #[must_use]
    pub const fn in_flight(&self) -> u64 {
        self.0.fetched - self.0.arrived
    }

    /// Pages that hold memory and are not used yet.
    #[must_use]
    pub const fn held(&self) -> u64 {
        self.resident_unused() + self.in_flight()
    }

    /// Pages that were used.
    #[must_use]
    pub const fn used(&self) -> u64 {
        self.0.used_on_time + self.0.used_late
    }

    /// The change since `earlier`, an earlier reading of the same counters.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Change {
        let (now, then) = (&self.0, &earlier.0);
        Change {
            fetched: now.fetched.saturating_sub(then.fetched),
            used_on_time: now.used_on_time.saturating_sub(then.used_on_time),
            used_late: now.used_late.saturating_sub(then.used_late),
            wasted: now.wasted.saturating_sub(then.wasted),
            resident_unused: difference(self.resident_unused(), earlier.resident_unused()),
            in_flight: difference(self.in_flight(), earlier.in_flight()),
            windows: now.windows.saturating_sub(then.windows),
            requests: now.requests.saturating_sub(then.requests),
            request_bytes: now.request_bytes.saturating_sub(then.request_bytes),
            stall_ns: now.stall_ns.saturating_sub(then.stall_ns),
            stalls: now.stalls.saturating_sub(then.stalls),
        }
    }
}

fn difference(now: u64, then: u64) -> i64 {
    now.cast_signed().wrapping_sub(then.cast_signed())
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        let (sum, more) = (&mut self.0, &other.0);
        sum.used_on_time += more.used_on_time;
        sum.used_late += more.used_late;
        sum.wasted += more.wasted;
        sum.arrived += more.arrived;
        sum.fetched += more.fetched;
        sum.windows += more.windows;
        sum.requests += more.requests;
        sum.request_bytes += more.request_bytes;
        sum.stall_ns += more.stall_ns;
        sum.stalls += more.stalls;
    }
}

impl std::iter::Sum for Counts {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::default(), |mut sum, more| {
            sum += more;
            sum
        })
    }
}

/// The change between two readings. Current amounts may have become less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Pages asked for.
    pub fetched: u64,
    /// Pages used on time, whenever they were fetched.
    pub used_on_time: u64,
    /// Pages used late.
    pub used_late: u64,
    /// Pages wasted.
    pub wasted: u64,
    /// Change in the number of unused pages in memory.
    pub resident_unused: i64,
    /// Change in the number of pages in flight.
    pub in_flight: i64,
    /// Times that readahead was issued.
    pub windows: u64,
    /// Requests to devices.
    pub requests: u64,
    /// Their bytes.
    pub request_bytes: u64,
    /// Time that programs waited for reads.
    pub stall_ns: u64,
    /// Number of these waits.
    pub stalls: u64,
}

impl Change {
    /// Whether every fetched page is in exactly one place.
    #[must_use]
    pub fn balances(&self) -> bool {
        let ended =
            i128::from(self.used_on_time) + i128::from(self.used_late) + i128::from(self.wasted);
        let held = i128::from(self.resident_unused) + i128::from(self.in_flight);
        i128::from(self.fetched) == ended + held
    }

    /// Whether nothing happened.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// Pages fetched for each page used; `None` when none was used.
    #[must_use]
    pub fn amplification(&self) -> Option<f64> {
        let used = self.used_on_time + self.used_late;
        (used > 0).then(|| self.fetched as f64 / used as f64)
    }

    /// Bytes of a request, on average; `None` when there was none.
    #[must_use]
    pub fn request_bytes_mean(&self) -> Option<u64> {
        self.request_bytes.checked_div(self.requests)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counts(fetched: u64, arrived: u64, ended: [u64; 3]) -> Option<Counts> {
        let [used_on_time, used_late, wasted] = ended;
        Counts::new(Counters {
            used_on_time,
            used_late,
            wasted,
            arrived,
            fetched,
            ..Counters::default()
        })
    }

    #[test]
    fn a_page_in_two_places_is_refused() {
        assert!(counts(3, 3, [1, 1, 1]).is_some());
        assert!(counts(3, 2, [1, 1, 1]).is_none());
        assert!(counts(2, 3, [1, 1, 1]).is_none());
        assert!(counts(u64::MAX, u64::MAX, [u64::MAX, 1, 0]).is_none());
    }

    #[test]
    fn pages_are_in_flight_then_resident_then_ended() {
        let counts = counts(10, 7, [2, 1, 1]).unwrap();
        assert_eq!((counts.in_flight(), counts.resident_unused()), (3, 3));
        assert_eq!((counts.held(), counts.used()), (6, 3));
    }

    #[test]
    fn nothing_used_has_no_amplification() {
        let none = Change::default();
        assert_eq!(
            (none.amplification(), none.request_bytes_mean()),
            (None, None)
        );
        let change = counts(10, 10, [4, 1, 0]).unwrap().since(&Counts::default());
        assert_eq!(change.amplification(), Some(2.0));
    }

    /// Steps of the pages of one account, in an order that can happen.
    fn steps() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(0u8..5, 0..200)
    }

    fn step(counters: &mut Counters, step: u8) {
        let ended = counters.used_on_time + counters.used_late + counters.wasted;
        match step {
            0 => counters.fetched += 1,
            1 if counters.arrived < counters.fetched => counters.arrived += 1,
            2 if ended < counters.arrived => counters.used_on_time += 1,
            3 if ended < counters.arrived => counters.used_late += 1,
            4 if ended < counters.arrived => counters.wasted += 1,
            _ => {}
        }
    }

    proptest! {
        #[test]
        fn each_sum_and_each_change_balances(first in steps(), then in steps(), other in steps()) {
            let mut one = Counters::default();
            first.iter().for_each(|number| step(&mut one, *number));
            let earlier = Counts::new(one).unwrap();
            then.iter().for_each(|number| step(&mut one, *number));
            let now = Counts::new(one).unwrap();
            prop_assert!(now.since(&earlier).balances());
            let mut two = Counters::default();
            other.iter().for_each(|number| step(&mut two, *number));
            let sum: Counts = [now, Counts::new(two).unwrap()].into_iter().sum();
            prop_assert!(sum.since(&Counts::default()).balances());
            prop_assert_eq!(
                sum.counters().fetched,
                sum.used() + sum.counters().wasted + sum.resident_unused() + sum.in_flight()
            );
        }
    }
}
