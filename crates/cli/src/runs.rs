// SPDX-License-Identifier: MIT OR Apache-2.0
//! Many runs of the simulator, on all cores. Each is deterministic by itself, so which core had it
//! does not show.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use indicatif::{ProgressBar, ProgressStyle};

use crate::output;

/// A progress bar is shown once the runs take longer than this.
const PATIENCE: Duration = Duration::from_secs(1);

/// Calls `run` with each number below `runs`, on all processors, and returns the results in order.
pub fn all<T: Send>(runs: usize, run: impl Fn(usize) -> T + Sync) -> Result<Vec<T>> {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    let mut outcomes: Vec<Option<T>> = (0..runs).map(|_| None).collect();
    thread::scope(|scope| {
        for _ in 0..cores.min(runs) {
            let (sender, next, run) = (sender.clone(), &next, &run);
            scope.spawn(move || {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= runs || sender.send((number, run(number))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let mut bar = Bar::new(runs);
        loop {
            match receiver.recv_timeout(PATIENCE) {
                Ok((number, outcome)) => {
                    outcomes[number] = Some(outcome);
                    bar.done(1);
                }
                Err(RecvTimeoutError::Timeout) => bar.done(0),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
    });
    let outcomes: Option<Vec<T>> = outcomes.into_iter().collect();
    let Some(outcomes) = outcomes else {
        bail!("a run has not come to its end")
    };
    Ok(outcomes)
}

/// A bar on stderr, once it has taken long enough, and hidden where that is no terminal.
struct Bar {
    since: Instant,
    runs: usize,
    finished: u64,
    bar: Option<ProgressBar>,
}

impl Bar {
    fn new(runs: usize) -> Self {
        Self {
            since: Instant::now(),
            runs,
            finished: 0,
            bar: None,
        }
    }

    fn done(&mut self, finished: u64) {
        self.finished += finished;
        if self.since.elapsed() < PATIENCE {
            return;
        }
        let runs = self.runs as u64;
        let bar = self.bar.get_or_insert_with(|| {
            let bar = output::progress(runs);
            let style = ProgressStyle::with_template("{bar:20} {pos}/{len} runs  {elapsed}");
            if let Ok(style) = style {
                bar.set_style(style.progress_chars("=> "));
            }
            bar.enable_steady_tick(Duration::from_millis(500));
            bar
        });
        bar.set_position(self.finished);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
