// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists the streams that are followed now.

use std::fs;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use foreread_sys::process_stat::start_ticks;
use foreread_watch::log::followed::FollowedFile;
use rustix::time::{ClockId, clock_gettime};
use thiserror::Error;

/// Time limit for an answer. The thread that follows streams answers after its pending work. A
/// client of `watch` has 5 s in all, so that it still hears that there was no answer.
const PATIENCE: Duration = Duration::from_secs(4);
/// Length of a clock tick in `/proc`.
const TICK_NS: u64 = 10_000_000;

/// Why there is no list of followed streams.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum NotFollowed {
    /// No streams are followed, for this reason.
    #[error("{0}")]
    Refused(String),
    /// The thread that follows streams didn't answer in time.
    #[error("the thread that follows streams did not answer within {} s", PATIENCE.as_secs())]
    Busy,
}

impl NotFollowed {
    pub(super) fn ended() -> Self {
        Self::Refused("following them has ended".to_owned())
    }
}

/// An answer that may not have arrived yet.
#[derive(Debug)]
pub struct Asked {
    pub(super) answer: Result<Receiver<Vec<FollowedFile>>, NotFollowed>,
    pub(super) numbers_are_ours: bool,
}

impl Asked {
    /// The answer if no thread follows streams.
    #[must_use]
    pub fn of_none() -> Self {
        Self {
            answer: Err(NotFollowed::Refused(
                "there was no thread, or no map of processes, for it".to_owned(),
            )),
            numbers_are_ours: false,
        }
    }

    /// Waits for the answer, at most 4 s.
    ///
    /// # Errors
    /// [`NotFollowed`] if no answer arrives.
    pub fn wait(self) -> Result<Vec<FollowedFile>, NotFollowed> {
        let answered = self.answer?.recv_timeout(PATIENCE);
        let mut files = answered.map_err(|error| match error {
            RecvTimeoutError::Timeout => NotFollowed::Busy,
            RecvTimeoutError::Disconnected => NotFollowed::ended(),
        })?;
        let clocks = Clocks::now();
        for stream in files.iter_mut().flat_map(|file| &mut file.streams) {
            let used_ns = stream.stream.used_ns;
            stream.idle_ns = used_ns.map(|used| clocks.monotonic_ns.saturating_sub(used));
            if self.numbers_are_ours {
                stream.process = process_of(stream.stream.thread, used_ns, &clocks);
            }
        }
        Ok(files)
    }
}

struct Clocks {
    /// The clock of the accesses (CLOCK_MONOTONIC).
    monotonic_ns: u64,
    /// The clock of the start times of threads in `/proc` (CLOCK_BOOTTIME).
    boot_ns: u64,
}

impl Clocks {
    fn now() -> Self {
        Self {
            monotonic_ns: now_ns(ClockId::Monotonic),
            boot_ns: now_ns(ClockId::Boottime),
        }
    }
}

pub(super) fn now_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    let ns = u64::try_from(now.tv_nsec).unwrap_or_default();
    seconds.saturating_mul(1_000_000_000).saturating_add(ns)
}

/// The process of a thread that existed at this time. `None` if its number may belong to another
/// thread by now.
fn process_of(thread: u32, used_ns: Option<u64>, clocks: &Clocks) -> Option<u32> {
    let begun_ticks = start_ticks(thread)?;
    let ago_ns = clocks.monotonic_ns.saturating_sub(used_ns?);
    if begun_ticks.saturating_mul(TICK_NS) > clocks.boot_ns.saturating_sub(ago_ns) {
        return None;
    }
    let status = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    let mut lines = status.lines();
    let process = lines.find_map(|line| line.strip_prefix("Tgid:"))?;
    process.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::thread;

    #[test]
    fn threads_are_of_the_process_that_they_were_of() {
        let here = thread::spawn(|| rustix::thread::gettid().as_raw_nonzero().get());
        let here = u32::try_from(here.join().unwrap()).unwrap();
        let us = std::process::id();
        let (hold, held) = channel::<()>();
        let (tell, told) = channel();
        let other = thread::spawn(move || {
            tell.send(rustix::thread::gettid().as_raw_nonzero().get())
                .unwrap();
            let _ = held.recv();
        });
        let thread = u32::try_from(told.recv().unwrap()).unwrap();
        let clocks = Clocks::now();
        let now = Some(clocks.monotonic_ns);
        assert_eq!(process_of(us, now, &clocks), Some(us));
        assert_eq!(process_of(thread, now, &clocks), Some(us));
        // Before the thread began, its number could belong to another one.
        assert_eq!(process_of(thread, Some(1), &clocks), None);
        assert_eq!(process_of(thread, None, &clocks), None);
        drop(hold);
        other.join().unwrap();
        assert_eq!(process_of(here, now, &clocks), None);
    }

    #[test]
    fn who_has_gone_does_not_answer() {
        let (answer, receiver) = channel();
        drop(answer);
        let asked = Asked {
            answer: Ok(receiver),
            numbers_are_ours: true,
        };
        assert_eq!(asked.wait(), Err(NotFollowed::ended()));
    }
}
