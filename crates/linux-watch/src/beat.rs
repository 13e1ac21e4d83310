// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shows whether a thread goes on: since when it has been in one call that asks a file system.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Time that an end waits for threads. Those that still hang then end with the process, or when
/// their device answers.
const END_LIMIT: Duration = Duration::from_millis(300);
/// How often it looks whether they have ended.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// See the [module](self). Copies are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Beat(Arc<Mutex<Option<Instant>>>);

impl Beat {
    /// Makes a call that may not return.
    pub fn during<T>(&self, call: impl FnOnce() -> T) -> T {
        self.set(Some(Instant::now()));
        let done = call();
        self.set(None);
        done
    }

    fn set(&self, since: Option<Instant>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }

    /// Whether such a call has not returned for this long.
    pub fn hangs_for(&self, limit: Duration) -> bool {
        let since = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        since.is_some_and(|since| since.elapsed() >= limit)
    }
}

/// Waits for threads that were told to end, but not for those that hang.
pub(super) fn join(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    let began = Instant::now();
    for thread in threads {
        while !thread.is_finished() && began.elapsed() < END_LIMIT {
            thread::sleep(LOOK_EVERY);
        }
        if thread.is_finished() {
            // A thread that panicked has printed its panic.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_call_that_does_not_return_is_seen_and_not_waited_for() {
        let beat = Beat::default();
        let (end, ended) = channel::<()>();
        let (begin, begun) = channel();
        let of_thread = beat.clone();
        let hanging = thread::spawn(move || {
            of_thread.during(|| {
                begin.send(()).unwrap();
                let _ = ended.recv();
            });
        });
        begun.recv().unwrap();
        assert!(beat.hangs_for(Duration::ZERO) && !beat.hangs_for(Duration::from_secs(3600)));
        let quick = thread::spawn(|| ());
        let began = Instant::now();
        join([hanging, quick]);
        assert!(began.elapsed() < Duration::from_secs(60));
        drop(end);
        while beat.hangs_for(Duration::ZERO) {
            thread::yield_now();
        }
    }
}
