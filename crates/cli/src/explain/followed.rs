// SPDX-License-Identifier: MIT OR Apache-2.0
//! Streams that a running `watch` follows now.

use anyhow::Result;
use foreread_core::grouped;
use foreread_watch::log::followed::{FollowedFile, FollowedStream, Told};
use foreread_watch::log::{Header, parsed};
use serde::Serialize;
use serde_json::Value;

use super::Subject;
use super::direction::Direction;
use super::streams::number_of;
use crate::output::{counted, time};
use crate::text::escaped;

/// Streams that the running `watch` follows now, as far as they concern the subject.
pub struct Followed<'a> {
    subject: &'a Subject,
    files: Vec<FollowedFile>,
    unknown: Option<String>,
}

/// A file whose streams are followed, for programs.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FollowedFileReport {
    /// Its path, where it is known.
    file: Option<String>,
    /// Major and minor number.
    device: String,
    /// Number of the inode.
    inode: u64,
    /// Accesses to it that the policy was told of.
    accesses: u32,
    /// Its streams that are reported.
    streams: usize,
}

/// A stream that is followed, for programs.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FollowedReport {
    /// None where its thread has ended, or can't be seen.
    process: Option<u32>,
    /// The thread that began it.
    thread: u32,
    /// The path of its file, where it is known.
    file: Option<String>,
    /// Major and minor number.
    device: String,
    /// Number of the inode.
    inode: u64,
    /// How it reads, in words.
    direction: String,
    /// Where it is: upward the page after the last access, downward the page of it, with steps the
    /// first page of the last piece.
    page: u64,
    /// Pages between there and the end of what was asked for.
    ahead_pages: u64,
    /// The distance ahead of it that was decided last.
    distance_pages: u32,
    /// Pages of the last window; none with steps, or without one.
    window_pages: Option<u32>,
    /// Maximum distance, where pages were evicted before they were used.
    ceiling_pages: Option<u32>,
    /// Pages of its run that were read.
    run_pages: u32,
    /// Pages that were read since its reader last waited.
    quiet_pages: u32,
    /// Time since its last access.
    idle_ns: Option<u64>,
}

impl<'a> Followed<'a> {
    pub fn new(subject: &'a Subject) -> Self {
        Self {
            subject,
            files: Vec::new(),
            unknown: None,
        }
    }

    /// Takes a line, whatever it is about.
    pub fn take(&mut self, header: &Header<'_>, line: &Value) -> Result<()> {
        if !Told::WHATS.contains(&header.what) {
            return Ok(());
        }
        match parsed(line)? {
            Told::File(file) => self.files.push(file),
            Told::Unknown { why } => self.unknown = Some(why),
        }
        Ok(())
    }

    /// Why nothing is told, where that is so.
    pub fn unknown(&self) -> Option<&str> {
        self.unknown.as_deref()
    }

    /// Files, with those of their streams that are told of.
    fn touching(&self) -> impl Iterator<Item = (&FollowedFile, Vec<&FollowedStream>)> {
        let files = self.files.iter().filter_map(|file| {
            let streams = file.streams.iter();
            match self.subject {
                Subject::File(_) => self.is_subject(file).then(|| (file, streams.collect())),
                Subject::Process(process) => {
                    let of = streams.filter(|stream| is_of(stream, *process));
                    let of: Vec<&FollowedStream> = of.collect();
                    (!of.is_empty()).then_some((file, of))
                }
            }
        });
        files.into_iter()
    }

    fn is_subject(&self, file: &FollowedFile) -> bool {
        let Subject::File(named) = self.subject else {
            return false;
        };
        // Some file systems say another device than the kernel has of them.
        named.number == Some(number_of(&file.file)) || file.path.as_ref() == Some(&named.path)
    }

    pub fn is_known(&self) -> bool {
        self.touching().next().is_some()
    }

    pub fn human(&self) -> String {
        let mut text = String::new();
        for (file, streams) in self.touching() {
            if streams.is_empty() {
                text += &format!(
                    "Of {} to {}, which is followed, none makes a stream now.\n",
                    counted(file.accesses.into(), "access", "accesses"),
                    name(file)
                );
            }
            let streams = streams.into_iter();
            text.extend(streams.map(|stream| human(file, stream)));
        }
        if !text.is_empty() {
            text += "Why so far, and what of it was fetched and used, is in a log only: \
                     `foreread watch --log`.\n";
        }
        if let Some(why) = &self.unknown {
            text += &format!("Of streams in large files nothing is known: {why}.\n");
        }
        text
    }

    /// The same for programs.
    pub fn reports(&self) -> Vec<FollowedReport> {
        let touching = self.touching();
        let reports = touching.flat_map(|(file, streams)| {
            let streams = streams.into_iter();
            streams.map(|stream| FollowedReport::of(file, stream))
        });
        reports.collect()
    }

    /// The files for programs.
    pub fn files(&self) -> Vec<FollowedFileReport> {
        let file = |(file, streams): (&FollowedFile, Vec<_>)| FollowedFileReport {
            file: file.path.as_deref().map(escaped),
            device: file.file.device.to_string(),
            inode: file.file.inode,
            accesses: file.accesses,
            streams: streams.len(),
        };
        self.touching().map(file).collect()
    }
}

/// Whether a stream is that of `process`. The process of an ended thread is not known; its main
/// thread has the number of the process.
fn is_of(stream: &FollowedStream, process: u32) -> bool {
    stream.process.unwrap_or(stream.stream.thread) == process
}

fn name(file: &FollowedFile) -> String {
    let number = format!("inode {} of device {}", file.file.inode, file.file.device);
    match &file.path {
        Some(path) => format!("{} ({number})", escaped(path)),
        None => number,
    }
}

fn human(file: &FollowedFile, followed: &FollowedStream) -> String {
    let stream = &followed.stream;
    let whose = match followed.process {
        Some(process) => format!("of process {process} "),
        None => "(which has ended, or isn't seen from here) ".to_owned(),
    };
    let ago = followed.idle_ns;
    let ago = ago.map(|ns| format!(", read last {} ago", time(ns)));
    let mut text = format!(
        "A stream that thread {} {whose}began in {} goes {}: it is at page {}{}",
        stream.thread,
        name(file),
        Direction::from(stream),
        grouped(stream.page),
        ago.unwrap_or_default(),
    );
    if stream.quiet_pages > 0 {
        let quiet = counted(stream.quiet_pages.into(), "page", "pages");
        text += &format!(", and nobody waited for the last {quiet}");
    }
    text += ".\n";
    text += &match (stream.ahead_pages, stream.distance_pages) {
        (0, 0) => "  Nothing was asked for ahead of it".to_owned(),
        (ahead_pages, distance_pages) => format!(
            "  What was asked for ends {} ahead of it; it may be {} ahead",
            counted(ahead_pages, "page", "pages"),
            grouped(distance_pages.into()),
        ),
    };
    if stream.ceiling_pages > 0 {
        text += &format!(
            ", and no more than {}, since pages were evicted before it came to them",
            grouped(stream.ceiling_pages.into())
        );
    }
    text += ".\n";
    if stream.window_pages > 0 {
        let window = counted(stream.window_pages.into(), "page", "pages");
        text += &format!("  Last window: {window}.\n");
    }
    text
}

impl FollowedReport {
    fn of(file: &FollowedFile, followed: &FollowedStream) -> Self {
        let stream = &followed.stream;
        let some = |pages: u32| (pages > 0).then_some(pages);
        Self {
            process: followed.process,
            thread: stream.thread,
            file: file.path.as_deref().map(escaped),
            device: file.file.device.to_string(),
            inode: file.file.inode,
            direction: Direction::from(stream).to_string(),
            page: stream.page,
            ahead_pages: stream.ahead_pages,
            distance_pages: stream.distance_pages,
            window_pages: some(stream.window_pages),
            ceiling_pages: some(stream.ceiling_pages),
            run_pages: stream.run_pages,
            quiet_pages: stream.quiet_pages,
            idle_ns: followed.idle_ns,
        }
    }
}
