// SPDX-License-Identifier: MIT OR Apache-2.0
//! Progress on a terminal; prints nothing elsewhere.

use std::time::Duration;

use foreread_measure::cold::Stage;
use indicatif::{ProgressBar, ProgressStyle};

use crate::output;

/// A bar on stderr, which hides itself where that is no terminal.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar for so many steps.
    pub fn new(steps: u64) -> Self {
        let bar = output::progress(steps);
        let style = ProgressStyle::with_template("{bar:20} {pos}/{len}  {msg}  {elapsed}");
        if let Ok(style) = style {
            bar.set_style(style.progress_chars("=> "));
        }
        // Often enough for the seconds to move, seldom enough to cost the programs nothing.
        bar.enable_steady_tick(Duration::from_millis(500));
        Self { bar }
    }

    /// A step begins.
    pub fn step(&self, what: &str) {
        if !self.bar.message().is_empty() {
            self.bar.inc(1);
        }
        self.bar.set_message(what.to_owned());
    }

    /// A step of measuring a program begins.
    pub fn stage(&self, program: &str, stage: Stage) {
        self.step(&format!("{program}: {}", in_words(stage)));
    }

    /// Steps that won't be taken.
    pub fn skip(&self, steps: u64) {
        self.bar.inc(steps);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn in_words(stage: Stage) -> &'static str {
    match stage {
        Stage::Needed => "what it reads",
        Stage::Cached => "with everything in memory",
        Stage::Kernel => "cold, the kernel alone",
        Stage::First => "cold, the first run, which is recorded",
        Stage::Second => "cold, a second run, with replay",
    }
}
