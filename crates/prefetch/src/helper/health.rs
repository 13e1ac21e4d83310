// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which file systems are left alone for a while, because they did not answer.
//!
//! Input: what became of each request, and the time since some start. Output: whether a file system
//! may be asked now. The pause doubles each time that it does not answer.

use std::collections::HashMap;
use std::time::Duration;

use foreread_core::Device;

/// Time limits for requests to file systems, measured from the last progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HelperLimits;

impl HelperLimits {
    /// A server that takes longer for one request would not be ahead of any program. NFS retries
    /// after a lost packet within 1 s on TCP.
    pub const FOREIGN: Duration = Duration::from_secs(5);
    /// Where somebody waits for the answer and can do without.
    pub const BRIEF: Duration = Duration::from_millis(500);
    /// A disk that has to spin up takes up to 15 s. One that resets its bus takes up to 30 s.
    pub const LOCAL: Duration = Duration::from_secs(40);
}

/// First pause, and the longest.
const PAUSE_MIN: Duration = Duration::from_secs(30);
const PAUSE_MAX: Duration = Duration::from_secs(60 * 60);
/// File systems that are remembered; of more, the one that failed first is forgotten.
const REMEMBERED_MAX: usize = 256;

/// See the [module](self).
#[derive(Debug, Default)]
pub struct Health {
    superblocks: HashMap<Device, Failures>,
}

#[derive(Clone, Copy, Debug)]
struct Failures {
    /// In a row.
    count: u32,
    last: Duration,
}

impl Failures {
    fn pause(self) -> Duration {
        let doubled = 1u32.checked_shl(self.count.saturating_sub(1));
        let pause = PAUSE_MIN.checked_mul(doubled.unwrap_or(u32::MAX));
        pause.map_or(PAUSE_MAX, |pause| pause.min(PAUSE_MAX))
    }

    fn left_at(self, now: Duration) -> Duration {
        self.last.saturating_add(self.pause()).saturating_sub(now)
    }
}

impl Health {
    /// Whether a file system may be asked.
    #[must_use]
    pub fn may_ask(&self, device: Device, now: Duration) -> bool {
        self.left_alone_for(device, now).is_zero()
    }

    /// Time for which a file system is still left alone.
    #[must_use]
    pub fn left_alone_for(&self, device: Device, now: Duration) -> Duration {
        let failures = self.superblocks.get(&device);
        failures.map_or(Duration::ZERO, |failures| failures.left_at(now))
    }

    /// Whether its last answer did not come. Then it is asked through a helper, local or not.
    #[must_use]
    pub fn has_failed(&self, device: Device) -> bool {
        self.superblocks.contains_key(&device)
    }

    /// It did not answer in time. Failures of several requests at the same time are one.
    pub fn failed(&mut self, device: Device, now: Duration) {
        let is_left_alone = !self.may_ask(device, now);
        if self.superblocks.len() >= REMEMBERED_MAX && !self.superblocks.contains_key(&device) {
            let oldest = self.superblocks.iter().min_by_key(|(_, of)| of.last);
            if let Some(oldest) = oldest.map(|(device, _)| *device) {
                self.superblocks.remove(&oldest);
            }
        }
        let failures = self.superblocks.entry(device).or_insert(Failures {
            count: 0,
            last: now,
        });
        if !is_left_alone {
            failures.count = failures.count.saturating_add(1);
            failures.last = now;
        }
    }

    /// It has answered.
    pub fn answered(&mut self, device: Device, now: Duration) {
        // The answer to a request that was made before the failure tells nothing.
        if self.may_ask(device, now) {
            self.superblocks.remove(&device);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEVICE: Device = Device { major: 0, minor: 7 };
    const OTHER: Device = Device { major: 0, minor: 8 };

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn pauses_double_until_it_answers() {
        let mut health = Health::default();
        assert!(health.may_ask(DEVICE, s(0)) && !health.has_failed(DEVICE));
        let mut now = s(10);
        for pause in [30, 60, 120, 240] {
            health.failed(DEVICE, now);
            assert!(!health.may_ask(DEVICE, now + s(pause) - s(1)));
            assert_eq!(health.left_alone_for(DEVICE, now + s(1)), s(pause - 1));
            now += s(pause);
            assert!(health.may_ask(DEVICE, now), "{pause}");
        }
        assert!(health.may_ask(OTHER, now) && health.has_failed(DEVICE));
        health.answered(DEVICE, now);
        assert!(!health.has_failed(DEVICE));
        health.failed(DEVICE, now);
        assert_eq!(health.left_alone_for(DEVICE, now), s(30));
    }

    #[test]
    fn requests_that_fail_together_are_one_failure() {
        let mut health = Health::default();
        for second in 0..20 {
            health.failed(DEVICE, s(second));
        }
        assert_eq!(health.left_alone_for(DEVICE, s(20)), s(10));
        // A late answer ends no pause.
        health.answered(DEVICE, s(21));
        assert!(!health.may_ask(DEVICE, s(22)));
    }

    #[test]
    fn pauses_and_memory_have_a_limit() {
        let mut health = Health::default();
        let mut now = s(0);
        for _ in 0..100 {
            health.failed(DEVICE, now);
            now += health.left_alone_for(DEVICE, now);
        }
        health.failed(DEVICE, now);
        assert_eq!(health.left_alone_for(DEVICE, now), PAUSE_MAX);
        for minor in 0..10_000 {
            health.failed(Device { major: 1, minor }, now + s(minor.into()));
        }
        assert_eq!(health.superblocks.len(), REMEMBERED_MAX);
        assert!(!health.has_failed(DEVICE));
    }
}
