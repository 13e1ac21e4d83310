// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread explain`: what `watch` does for a file or a process, and why, from its log or by
//! itself.

pub mod args;
mod direction;
mod doubts;
mod followed;
mod left_alone;
mod members;
pub mod report;
pub mod source;
mod stream_story;
mod streamed;
mod streams;
mod told_saved;
mod told_walk;
mod walk_report;
mod walk_story;
mod walk_words;
mod walks;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use foreread_sys::mounts::mounts_of_self;
use foreread_watch::log::Header;
use foreread_watch::paths::is_within;

use args::ExplainArguments;
use followed::Followed;
use left_alone::LeftAlones;
use report::ExplainReport;
use streamed::Streamed;
use streams::Streams;
use walks::Walks;

use crate::EXIT_PARTLY;
use crate::output::note;
use crate::text;
use crate::watch::line::OWN_ONLY;

/// A negative answer: nothing is known of it.
const EXIT_UNKNOWN: u8 = 1;

/// A process or a file to explain.
pub enum Subject {
    /// A process.
    Process(u32),
    /// A file, which need not be there any more.
    File(Named),
}

/// A file.
pub struct Named {
    /// Absolute, as far as it is there without links.
    pub path: Vec<u8>,
    /// Where it is there.
    pub number: Option<Number>,
    /// Whether it is one there.
    pub is_directory: bool,
}

/// A file as its file system knows it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Number {
    /// Device number of its file system: major, minor.
    pub device: (u32, u32),
    /// Its inode number.
    pub inode: u64,
}

/// Where a walk goes now, of all tops that it had, the latest first.
fn newest_top(tops: &[String]) -> &str {
    let top = tops.first().map_or("", String::as_str);
    if top.is_empty() { "/" } else { top }
}

impl Subject {
    /// Whether it is that process, or a file in one of the trees to which its walk has come.
    fn is_of(&self, process: u32, tops: &[String]) -> bool {
        match self {
            Self::Process(subject) => *subject == process,
            Self::File(file) => {
                // The log has what is no text as people read it.
                let path = String::from_utf8_lossy(&file.path);
                let is_above = |top: &String| is_within(top.as_bytes(), path.as_bytes());
                tops.iter().any(is_above)
            }
        }
    }

    fn of(what: &OsStr) -> Result<Self> {
        let text = what.to_str().unwrap_or_default();
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            let process = text.parse().ok().filter(|process| *process > 0);
            return process
                .map(Self::Process)
                .with_context(|| format!("{text} is no number of a process"));
        }
        let path = Path::new(what);
        let absolute = std::path::absolute(path);
        let absolute = absolute.with_context(|| format!("{} is no path", path.display()))?;
        // A server may not answer, which is what somebody may want to know.
        let is_local =
            mounts_of_self().is_ok_and(|mounts| mounts.is_local(absolute.as_os_str().as_bytes()));
        let whole = match is_local {
            true => path.canonicalize().unwrap_or(absolute),
            false => absolute,
        };
        let metadata = is_local.then(|| whole.metadata().ok()).flatten();
        let number = metadata.as_ref().map(|metadata| Number {
            device: (
                rustix::fs::major(metadata.dev()),
                rustix::fs::minor(metadata.dev()),
            ),
            inode: metadata.ino(),
        });
        Ok(Self::File(Named {
            path: whole.as_os_str().as_bytes().to_vec(),
            number,
            is_directory: metadata.is_some_and(|metadata| metadata.is_dir()),
        }))
    }

    /// As it is typed.
    fn word(&self) -> String {
        match self {
            Self::Process(process) => process.to_string(),
            Self::File(file) => text::escaped(&file.path),
        }
    }

    /// As people read it.
    fn name(&self) -> String {
        match self {
            Self::Process(process) => format!("process {process}"),
            Self::File(file) => text::escaped(&file.path),
        }
    }
}

/// `foreread explain`.
pub fn explain(arguments: &ExplainArguments) -> Result<ExitCode> {
    let subject = Subject::of(&arguments.what)?;
    let mut walks = Walks::new(&subject);
    let mut streams = Streams::new(&subject);
    let mut streamed = Streamed::new(&subject);
    let mut followed = Followed::new(&subject);
    let mut left_alone = LeftAlones::new(&subject);
    let mut is_own_only = false;
    source::each_line(arguments.log.as_deref(), |line| {
        let header = Header::of(line)?;
        is_own_only |= header.what == OWN_ONLY;
        streams.take(&header, line)?;
        streamed.take(&header, line);
        followed.take(&header, line)?;
        left_alone.take(&header, line)?;
        walks.take(&header, line)
    })?;
    let is_known = walks.is_known()
        || streams.is_known()
        || streamed.is_known()
        || followed.is_known()
        || left_alone.is_known();
    match arguments.json {
        true => text::print_json(&ExplainReport::of(
            &subject,
            &walks,
            &streams,
            &streamed,
            &followed,
            &left_alone,
            is_own_only,
        ))?,
        false if is_known => {
            let streams = streams.human() + &streamed.human() + &followed.human();
            text::print(&(left_alone.human() + &walks.human() + &streams))?;
        }
        false => text::print(&format!(
            "nothing is known of {}: {}\n",
            subject.name(),
            match (&arguments.log, followed.unknown()) {
                // The same whether such a process is there or not.
                _ if is_own_only => format!(
                    "no walk was ahead of it lately, or it belongs to another user; what \
                     concerns other users and streams in large files is told to root only: \
                     `sudo foreread explain {}`",
                    subject.word()
                ),
                (Some(_), _) => "it missed nothing, or wasn't watched".to_owned(),
                (None, None) => "nobody walked ahead of it lately, and no stream of it is \
                                 followed; a log tells of misses, too"
                    .to_owned(),
                (None, Some(why)) => format!(
                    "nobody walked ahead of it lately, and of streams in large files nothing is \
                     known: {why}"
                ),
            }
        ))?,
    }
    if !is_known {
        return Ok(ExitCode::from(EXIT_UNKNOWN));
    }
    if walks.has_lost() || streams.has_lost() {
        note("calls were lost when the log was written: it is told without them");
        return Ok(ExitCode::from(EXIT_PARTLY));
    }
    Ok(ExitCode::SUCCESS)
}
