// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread sim --replay`: the decisions of a log of `watch`, made again from the same events.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use foreread_watch::call::{Call, Called, Remembered};
use serde_json::{Value, json};

use super::replay_call::{Differs, Lost, Made};
use super::replay_detection::Detection;
use super::replay_walks::Walks;
use crate::EXIT_PARTLY;
use crate::output::note;
use crate::text;
use crate::watch::{calls, detector_calls, log_lines, walk_calls};

const SCHEMA: &str = "foreread.sim.replay/1";
/// Another decision than that of the log.
const EXIT_DIFFERS: u8 = 1;

/// The policy of streams.
#[derive(Default)]
struct Streams {
    remembered: Remembered,
    /// Of the last call.
    number: u64,
    calls: u64,
    decisions: u64,
    windows: u64,
}

impl Streams {
    fn make(&mut self, call: Call) -> Made {
        let expected = self.number + 1;
        if call.number != expected {
            return Made::Lost(Lost {
                which: format!("call {expected}"),
                number: expected,
            });
        }
        self.number = expected;
        self.calls += 1;
        let made = self.remembered.make(&call);
        let (Called::Access(logged), Some(made)) = (call.what, made) else {
            return Made::Same;
        };
        self.decisions += 1;
        self.windows += made.every_window(&logged.limits).count() as u64;
        if logged.decision.bytes() == made.bytes() {
            return Made::Same;
        }
        Made::Other(Differs {
            which: format!("call {}, page {}", call.number, logged.access.index),
            number: call.number,
            logged: logged.decision.explain(),
            made: made.explain(),
        })
    }

    /// Somebody else watches from here on.
    fn start(&mut self) {
        self.remembered = Remembered::default();
        self.number = 0;
    }
}

/// All that decides.
#[derive(Default)]
struct Replayed {
    streams: Streams,
    walks: Walks,
    detection: Detection,
    lost: Option<Lost>,
    differs: Option<Differs>,
}

/// Replays a log to its end, or to the first decision that differs, or call that was lost.
pub fn replay(path: &Path, is_json: bool) -> Result<ExitCode> {
    let mut replayed = Replayed::default();
    log_lines::each_line(path, |line| replayed.take(line))?;
    if replayed.calls() == 0 && replayed.lost.is_none() {
        bail!(
            "{} has no calls of the policy or of walks; they are in what `foreread watch --log` \
             writes when something is read that isn't in memory",
            path.display()
        );
    }
    match is_json {
        true => text::print_json(&replayed.document())?,
        false => text::print(&replayed.people())?,
    }
    if let Some(lost) = &replayed.lost {
        note(&format!(
            "{} was lost when the log was written; what comes after it can't be replayed",
            lost.which
        ));
    }
    Ok(match (&replayed.differs, replayed.lost) {
        (Some(_), _) => ExitCode::from(EXIT_DIFFERS),
        (None, Some(_)) => ExitCode::from(EXIT_PARTLY),
        (None, None) => ExitCode::SUCCESS,
    })
}

impl Replayed {
    /// Makes the call of a line, where it has one; whether to go on.
    fn take(&mut self, line: &Value) -> Result<bool> {
        let made = if log_lines::is_start(line) {
            self.streams.start();
            self.walks.start();
            self.detection.start();
            Made::Same
        } else if let Some(call) = calls::parse(line)? {
            self.streams.make(call)
        } else if let Some((process, call)) = walk_calls::parse(line)? {
            self.walks.make(process, &call)?
        } else if let Some(call) = detector_calls::parse(line)? {
            self.detection.make(&call)
        } else {
            Made::Same
        };
        match made {
            Made::Same => return Ok(true),
            Made::Other(differs) => self.differs = Some(differs),
            Made::Lost(lost) => self.lost = Some(lost),
        }
        Ok(false)
    }

    fn calls(&self) -> u64 {
        self.streams.calls + self.walks.calls + self.detection.calls
    }

    fn people(&self) -> String {
        if let Some(differs) = &self.differs {
            return format!(
                "{}: the log {}; now it {}\n",
                differs.which, differs.logged, differs.made
            );
        }
        let Streams {
            calls,
            decisions,
            windows,
            ..
        } = &self.streams;
        let streams = format!("{decisions} decisions in {calls} calls, {windows} windows");
        let parts = [
            (*calls, streams),
            (self.walks.calls, self.walks.people()),
            (self.detection.calls, self.detection.people()),
        ];
        let parts = parts.into_iter().filter(|(calls, _)| *calls > 0);
        let parts: Vec<String> = parts.map(|(_, text)| text).collect();
        match parts.is_empty() {
            true => "nothing to replay\n".to_owned(),
            false => format!("{}: all the same\n", parts.join("; ")),
        }
    }

    fn document(&self) -> Value {
        let differs = self.differs.as_ref().map(|differs| {
            json!({
                "which": differs.which,
                "number": differs.number,
                "logged": differs.logged,
                "made": differs.made,
            })
        });
        json!({
            "schema": SCHEMA,
            "calls": self.streams.calls,
            "decisions": self.streams.decisions,
            "windows": self.streams.windows,
            "walks": self.walks.document(),
            "detectors": self.detection.document(),
            "lost": self.lost.as_ref().map(|lost| &lost.which),
            "lost_from": self.lost.as_ref().map(|lost| lost.number),
            "differs": differs,
        })
    }
}
