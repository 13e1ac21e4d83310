// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a running `watch` reads ahead, by whom, and what became of it. In: the lines that it
//! answers with. Out: a row for each program that it helped, in the order in which it began.

use std::collections::HashMap;
use std::fs;

use anyhow::Result;
use foreread_watch::log::followed::{FollowedFile, Told};
use foreread_watch::log::left_alone::LeftAlone;
use foreread_watch::log::{Header, parsed};
use serde::Serialize;
use serde_json::Value;

use crate::explain::source;
use crate::text::printable;

/// What a running `watch` told.
#[derive(Default)]
pub struct Live {
    pub helped: Vec<Helped>,
    /// Files in which streams are followed now.
    pub followed: Vec<FollowedFile>,
    /// Why streams aren't told of.
    pub streams_unknown: Option<String>,
    /// File systems that are left alone, since they don't answer.
    pub left_alone: Vec<LeftAlone>,
    /// The row of what goes on, by process and what.
    going_on: HashMap<(u32, bool, Kind), usize>,
}

/// How a program is read ahead of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// It walks through a directory tree.
    Walk,
    /// It follows a stored profile.
    Profile,
}

/// A program that was read ahead of.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Helped {
    /// Number of the process.
    pub process: u32,
    /// Its name, where it still runs.
    pub name: Option<String>,
    /// How it was helped.
    pub kind: Kind,
    /// The directory that it walks below, or the file of the profile.
    pub what: String,
    /// Since the watcher's start.
    pub began_ns: u64,
    /// Why it ended; null while it goes on.
    pub ended: Option<String>,
    pub fetched_files: u64,
    pub fetched_pages: u64,
    /// Known when it has ended.
    pub used_files: Option<u64>,
    pub wasted_files: Option<u64>,
    /// Files that were not fetched when the program came to them.
    pub missed_files: Option<u64>,
}

impl Live {
    /// Asks the running `watch`; `None` if none runs.
    ///
    /// # Errors
    /// Fails if it does not answer, or may not be asked.
    pub fn ask() -> Result<Option<Self>> {
        if !source::runs() {
            return Ok(None);
        }
        let mut live = Self::default();
        source::each_line(None, |line| live.take(line))?;
        for helped in live.helped.iter_mut().filter(|one| one.ended.is_none()) {
            let name = fs::read_to_string(format!("/proc/{}/comm", helped.process));
            helped.name = name.ok().map(|name| printable(name.trim_end()));
        }
        Ok(Some(live))
    }

    /// Takes a line.
    pub fn take(&mut self, line: &Value) -> Result<()> {
        let header = Header::of(line)?;
        let reads = line["reads"].as_bool().unwrap_or(true);
        let of = |kind| (header.process, reads, kind);
        let text = |name: &str| printable(line[name].as_str().unwrap_or_default());
        match header.what {
            "begun" => self.begin(of(Kind::Walk), text("top"), line),
            "matched" => self.begin(of(Kind::Profile), text("profile"), line),
            "raised" => {
                if let Some(helped) = self.of(of(Kind::Walk)) {
                    helped.what = text("top");
                }
            }
            "fetched" => self.fetched(of(Kind::Walk), line),
            "replayed" => self.fetched(of(Kind::Profile), line),
            "ended" => self.end(of(Kind::Walk), line),
            "left" => self.end(of(Kind::Profile), line),
            LeftAlone::WHAT => self.left_alone.push(parsed(line)?),
            what if Told::WHATS.contains(&what) => match parsed(line)? {
                Told::File(file) => self.followed.push(file),
                Told::Unknown { why } => self.streams_unknown = Some(why),
            },
            _ => {}
        }
        Ok(())
    }

    fn of(&mut self, key: (u32, bool, Kind)) -> Option<&mut Helped> {
        let number = self.going_on.get(&key)?;
        self.helped.get_mut(*number)
    }

    fn begin(&mut self, key: (u32, bool, Kind), what: String, line: &Value) {
        self.going_on.insert(key, self.helped.len());
        self.helped.push(Helped {
            process: key.0,
            name: None,
            kind: key.2,
            what,
            began_ns: line["since_start_ns"].as_u64().unwrap_or(0),
            ended: None,
            fetched_files: 0,
            fetched_pages: 0,
            used_files: None,
            wasted_files: None,
            missed_files: None,
        });
    }

    fn fetched(&mut self, key: (u32, bool, Kind), line: &Value) {
        let number = |name: &str| line[name].as_u64().unwrap_or(0);
        if let Some(helped) = self.of(key) {
            helped.fetched_files = helped.fetched_files.saturating_add(number("files"));
            helped.fetched_pages = helped.fetched_pages.saturating_add(number("pages"));
        }
    }

    /// The line has the counts of all of it.
    fn end(&mut self, key: (u32, bool, Kind), line: &Value) {
        let number = |name: &str| line[name].as_u64();
        if let Some(helped) = self.of(key) {
            helped.ended = Some(printable(line["why"].as_str().unwrap_or("ended")));
            helped.fetched_files = number("fetched_files").unwrap_or(helped.fetched_files);
            helped.fetched_pages = number("fetched_pages").unwrap_or(helped.fetched_pages);
            helped.used_files = number("used_files");
            helped.wasted_files = number("wasted_files");
            helped.missed_files = number("missed_files");
        }
        self.going_on.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn walks_and_profiles_become_rows() {
        let mut live = Live::default();
        let lines = [
            json!({"process": 7, "what": "begun", "top": "/a\n<b>", "order": "listed"}),
            json!({"process": 7, "what": "raised", "top": "/a", "order": "listed"}),
            json!({"process": 7, "what": "fetched", "files": 3, "pages": 40}),
            json!({"process": 8, "what": "matched", "profile": "x.frp"}),
            json!({"process": 8, "what": "replayed", "files": 2, "pages": 9}),
            json!({"process": 7, "what": "ended", "why": "exited", "fetched_files": 3,
                "fetched_pages": 41, "used_files": 2, "wasted_files": 1, "missed_files": 4}),
            // Of a walk that began before the oldest line that is kept.
            json!({"process": 9, "what": "ended", "why": "exited"}),
            json!({"process": 1, "what": "streams_unknown", "why": "none"}),
        ];
        for line in &lines {
            live.take(line).expect("a line");
        }
        assert_eq!(live.helped.len(), 2);
        let walk = &live.helped[0];
        assert_eq!((&*walk.what, walk.fetched_pages), ("/a", 41));
        assert_eq!(
            (walk.ended.as_deref(), walk.wasted_files),
            (Some("exited"), Some(1))
        );
        let profile = &live.helped[1];
        assert_eq!((profile.kind, profile.fetched_files), (Kind::Profile, 2));
        assert_eq!((profile.ended.as_deref(), profile.used_files), (None, None));
        assert_eq!(live.streams_unknown.as_deref(), Some("none"));
    }
}
