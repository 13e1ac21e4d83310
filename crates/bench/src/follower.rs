// SPDX-License-Identifier: MIT OR Apache-2.0
//! A `foreread` that follows the whole machine while other things are measured.

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use foreread_measure::MeasureError;
use foreread_measure::foreread::Foreread;
use foreread_measure::process::processor_time;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Time until it has loaded its programs, and has detached again the ones that early misses
/// attached for two seconds. A real service has done both long ago.
const SETTLE: Duration = Duration::from_secs(5);

/// One that runs; killed where it isn't ended.
#[derive(Debug)]
pub struct Follower {
    /// Its command line, for messages.
    line: String,
    child: Child,
}

impl Follower {
    /// Starts `foreread` with these words, and gives it time to be ready.
    ///
    /// # Errors
    /// It can't be started, or ends at once.
    pub fn start(foreread: &Foreread, words: &[&str]) -> Result<Self, MeasureError> {
        let line = format!("foreread {}", words.join(" "));
        let mut command = Command::new(foreread.executable());
        command.args(words).stdin(Stdio::null());
        let child = command.stdout(Stdio::piped()).spawn();
        let mut follower = Self {
            child: child.map_err(MeasureError::system(format!("start {line}")))?,
            line,
        };
        thread::sleep(SETTLE);
        let ended = follower.child.try_wait();
        match ended.map_err(follower.cannot("wait for"))? {
            None => Ok(follower),
            Some(status) => Err(follower.failed(&status.to_string())),
        }
    }

    /// Processor time so far.
    ///
    /// # Errors
    /// It has ended.
    pub fn processor_time(&self) -> Result<Duration, MeasureError> {
        processor_time(self.child.id())
    }

    /// Ends it as Ctrl-C does, with one of these exit codes; the last document that it printed.
    ///
    /// # Errors
    /// It ends otherwise, or prints no document.
    pub fn end(mut self, good_ends: &[i32]) -> Result<Value, MeasureError> {
        let told = kill_process(Pid::from_child(&self.child), Signal::INT);
        told.map_err(self.cannot("end"))?;
        let stdout = self.child.stdout.take().map(std::io::read_to_string);
        let text = stdout.transpose().map_err(self.cannot("read from"))?;
        let status = self.child.wait().map_err(self.cannot("wait for"))?;
        if !status.code().is_some_and(|code| good_ends.contains(&code)) {
            return Err(self.failed(&status.to_string()));
        }
        let text = text.unwrap_or_default();
        let last = text.lines().next_back().unwrap_or_default();
        serde_json::from_str(last).map_err(|_| MeasureError::Report("foreread", text))
    }

    fn cannot<E: Into<std::io::Error>>(
        &self,
        what: &str,
    ) -> impl FnOnce(E) -> MeasureError + use<E> {
        MeasureError::system(format!("{what} {}", self.line))
    }

    fn failed(&self, status: &str) -> MeasureError {
        MeasureError::Failed {
            command: self.line.clone(),
            status: status.to_owned(),
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        // It has ended where all went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
