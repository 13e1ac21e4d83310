// SPDX-License-Identifier: MIT OR Apache-2.0
//! The progress of measurements, as a bar on the terminal: what is done now, how far it is, and the
//! time since the begin. Prints nothing elsewhere.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::output;

/// A bar on standard error, which hides itself where that is no terminal.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar for so many steps.
    pub fn of_steps(steps: u64) -> Self {
        Self::new(steps, "{bar:20} {pos}/{len}  {msg}  {elapsed}")
    }

    /// A bar for a share of the whole.
    pub fn of_share() -> Self {
        Self::new(100, "{bar:20} {percent} %  {msg}  {elapsed}")
    }

    fn new(steps: u64, template: &str) -> Self {
        let bar = output::progress(steps);
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        // Often enough for the seconds to move, seldom enough to cost what is measured nothing.
        bar.enable_steady_tick(Duration::from_millis(500));
        Self { bar }
    }

    /// A step begins, and the one before it is done.
    pub fn step(&self, what: &str) {
        if !self.bar.message().is_empty() {
            self.bar.inc(1);
        }
        self.bar.set_message(what.to_owned());
    }

    /// Steps that won't be taken.
    pub fn skip(&self, steps: u64) {
        self.bar.inc(steps);
    }

    /// Shows `what` is being measured, and the share that is done, 0 to 1.
    pub fn share(&self, what: String, share: f64) {
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
