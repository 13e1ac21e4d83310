// SPDX-License-Identifier: MIT OR Apache-2.0
//! A table on the terminal that is drawn anew in place of the last one.
//!
//! In: text of several lines, again and again. Out: the last text. Lines that are wider than the
//! terminal, and more lines than it has, don't disturb it.

use std::io::{self, IsTerminal};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Draws it on standard output.
pub struct Live {
    bar: ProgressBar,
}

impl Live {
    /// `None` where standard output is no terminal: what is printed there stays.
    pub fn on_terminal() -> Option<Self> {
        if !io::stdout().is_terminal() {
            return None;
        }
        let target = ProgressDrawTarget::stdout();
        let bar = ProgressBar::with_draw_target(None, target);
        bar.set_style(ProgressStyle::with_template("{msg}").ok()?);
        Some(Self { bar })
    }

    /// Draws this text in place of the last one.
    pub fn draw(&self, text: &str) {
        self.bar.set_message(text.trim_end().to_owned());
        self.bar.tick();
    }

    /// Does something that prints above the table.
    pub fn suspend<T>(&self, print: impl FnOnce() -> T) -> T {
        self.bar.suspend(print)
    }
}

impl Drop for Live {
    /// The last text stays.
    fn drop(&mut self) {
        self.bar.abandon();
    }
}
