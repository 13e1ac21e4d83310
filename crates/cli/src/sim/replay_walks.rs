// SPDX-License-Identifier: MIT OR Apache-2.0
//! Walks of a log of `watch`, decided again.

use std::collections::HashMap;

use anyhow::{Context, Result};
use foreread_core::grouped;
use foreread_watch::walk_call::{Answer, WalkAgain, WalkCall, WalkCalled};
use serde_json::{Value, json};

use super::replay_call::{Differs, Lost, Made};
use crate::output::counted;
use crate::text::escaped;

/// All walks, by process and number.
#[derive(Default)]
pub(super) struct Walks {
    walks: HashMap<(u32, u64), (WalkAgain, u64)>,
    begun: u64,
    pub calls: u64,
    decisions: u64,
}

impl Walks {
    /// Makes a call of a walk of this process.
    pub fn make(&mut self, process: u32, call: &WalkCall) -> Result<Made> {
        let key = (process, call.walk);
        let which = |number: u64| format!("process {process}, walk {}, call {number}", call.walk);
        let expected = self.walks.get(&key).map_or(1, |(_, calls)| calls + 1);
        if call.number != expected {
            return Ok(Made::Lost(Lost {
                which: which(expected),
                number: expected,
            }));
        }
        self.calls += 1;
        let Some((walk, calls)) = self.walks.get_mut(&key) else {
            let begun = WalkAgain::begin(&call.what);
            let begun = begun.context("the first call of a walk doesn't begin it")?;
            self.walks.insert(key, (begun, 1));
            self.begun += 1;
            return Ok(Made::Same);
        };
        *calls += 1;
        let made = walk.make(&call.what);
        self.decisions += u64::from(matches!(call.what, WalkCalled::Decide(_)));
        Ok(match made.as_ref() == Some(&call.what) {
            true => Made::Same,
            false => Made::Other(Differs {
                which: which(call.number),
                number: call.number,
                logged: words(Some(&call.what)),
                made: words(made.as_ref()),
            }),
        })
    }

    /// Somebody else watches from here on.
    pub fn start(&mut self) {
        self.walks.clear();
    }

    pub fn people(&self) -> String {
        let walks = counted(self.begun, "walk", "walks");
        let (decisions, calls) = (grouped(self.decisions), grouped(self.calls));
        format!("{decisions} decisions in {calls} calls of {walks}")
    }

    pub fn document(&self) -> Value {
        json!({
            "walks": self.begun,
            "calls": self.calls,
            "decisions": self.decisions,
        })
    }
}

/// What a walk answers; of two answers that read alike the inodes or names differ.
fn words(called: Option<&WalkCalled>) -> String {
    let Some(called) = called else {
        return "sees no jump".to_owned();
    };
    match called {
        WalkCalled::Decide(answer) => of_answer(answer),
        WalkCalled::Hit { inode, met }
        | WalkCalled::Missed { inode, met, .. }
        | WalkCalled::Looked { inode, met, .. } => {
            format!("finds inode {inode} {met:?}").to_lowercase()
        }
        WalkCalled::WaitsIn { directory, met } => {
            format!(
                "finds {} {}",
                escaped(directory),
                format!("{met:?}").to_lowercase()
            )
        }
        WalkCalled::Jumped((above, [from, to])) => format!(
            "sees a jump in {} from {} to {}",
            escaped(above),
            escaped(from),
            escaped(to)
        ),
        WalkCalled::Rise { above, .. } => match above {
            Some((above, _)) => format!("may rise to {}", escaped(above)),
            None => "can't rise".to_owned(),
        },
        WalkCalled::Fetching { files } | WalkCalled::StoppedFetching { files, .. } => {
            format!("has {files} files to fetch")
        }
        WalkCalled::Begin { .. }
        | WalkCalled::Listed { .. }
        | WalkCalled::Fetched { .. }
        | WalkCalled::Raise { .. }
        | WalkCalled::End(_) => "is told something".to_owned(),
    }
}

fn of_answer(answer: &Answer) -> String {
    match answer {
        Answer::List(directories) => {
            let first = directories.first().map(|path| escaped(path));
            format!(
                "lists {} from {}",
                counted(directories.len() as u64, "directory", "directories"),
                first.unwrap_or_default()
            )
        }
        Answer::Fetch {
            inodes,
            names_hash,
            budget_bytes,
        } => format!(
            "fetches {} from inode {} on, names {names_hash:016x}, in {budget_bytes} bytes",
            counted(inodes.len() as u64, "file", "files"),
            inodes.first().unwrap_or(&0),
        ),
        Answer::Wait => "waits".to_owned(),
        Answer::End(why) => format!("ends: {}", why.name()),
    }
}
