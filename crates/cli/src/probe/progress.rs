// SPDX-License-Identifier: MIT OR Apache-2.0
//! How far a probe is, on a terminal; nothing elsewhere.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::output;

/// A bar on stderr, which hides itself where that is no terminal.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    pub fn new() -> Self {
        let bar = output::progress(100);
        if let Ok(style) = ProgressStyle::with_template("{bar:20} {percent} %  {msg}  {elapsed}") {
            bar.set_style(style.progress_chars("=> "));
        }
        // Often enough for the seconds to move, seldom enough to cost the reads nothing.
        bar.enable_steady_tick(Duration::from_millis(500));
        Self { bar }
    }

    /// Shows `what` is being measured, and the share that is done, 0 to 1.
    pub fn at(&self, what: String, share: f64) {
        self.bar
            .set_position((share.clamp(0.0, 1.0) * 100.0) as u64);
        self.bar.set_message(what);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
