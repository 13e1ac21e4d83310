// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread trace cut`: the part of a trace that is asked for, and nothing that it doesn't need.

use std::collections::HashSet;
use std::process::ExitCode;

use anyhow::{Result, bail};
use foreread_trace::{Access, CopyError, Event, FileId, Known, Sink, ThreadId, WriteError};

use super::args::CutArguments;
use super::convert::Writing;
use super::input::Input;
use super::output::target;

/// `foreread trace cut`. Times stay those of the whole trace.
pub fn cut(arguments: &CutArguments) -> Result<ExitCode> {
    let (from_ns, to_ns) = (arguments.from.unwrap_or(0), arguments.to);
    if to_ns.is_some_and(|to_ns| to_ns <= from_ns) {
        bail!("--to is not after --from: nothing is between them");
    }
    // The end `to` is exclusive.
    let last_ns = to_ns.map_or(u64::MAX, |to_ns| to_ns - 1);
    let target = target(arguments.to_format, &arguments.output, "--to-format")?;
    let options = arguments.how.options();
    let input = Input::open_within(&arguments.input, options, from_ns, last_ns)?;
    let writing = Writing {
        verb: "cut",
        target,
        output: &arguments.output,
        json: arguments.json,
    };
    let mut part = Part {
        wanted: Wanted {
            from_ns,
            last_ns,
            glob: arguments.file.as_deref().map(str::as_bytes),
            pid: arguments.pid,
        },
        known: Known::default(),
        files: HashSet::new(),
        threads: HashSet::new(),
    };
    writing.run(input, |input, sink| part.copy(input, sink))
}

/// The selection of accesses.
struct Wanted<'a> {
    from_ns: u64,
    last_ns: u64,
    glob: Option<&'a [u8]>,
    pid: Option<u32>,
}

/// Files and threads are defined only once they are used.
struct Part<'a> {
    wanted: Wanted<'a>,
    known: Known,
    files: HashSet<FileId>,
    threads: HashSet<ThreadId>,
}

impl Part<'_> {
    fn copy(&mut self, input: &mut Input, sink: &mut dyn Sink) -> Result<(), CopyError> {
        while let Some(event) = input.events.next_event()? {
            self.known.learn(&event);
            match &event {
                Event::Access(access) if self.wants(access) => {
                    self.define(access, sink)?;
                    sink.write(&event)?;
                }
                Event::ThreadEnd { time_ns, thread }
                    if self.threads.contains(thread) && self.is_in_time(*time_ns) =>
                {
                    sink.write(&event)?;
                }
                // Extents are copied for files that are in the part already.
                Event::Extents(file, _) if self.files.contains(file) => sink.write(&event)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn is_in_time(&self, time_ns: u64) -> bool {
        (self.wanted.from_ns..=self.wanted.last_ns).contains(&time_ns)
    }

    fn wants(&self, access: &Access) -> bool {
        let path = || self.known.file(access.file).map_or(&[][..], |f| &f.path);
        let pid = || self.known.thread(access.thread).map(|thread| thread.pid);
        let wanted = &self.wanted;
        self.is_in_time(access.time_ns)
            && wanted.pid.is_none_or(|wanted| pid() == Some(wanted))
            && wanted.glob.is_none_or(|glob| matches(glob, path()))
    }

    fn define(&mut self, access: &Access, sink: &mut dyn Sink) -> Result<(), WriteError> {
        if self.threads.insert(access.thread)
            && let Some(thread) = self.known.thread(access.thread)
        {
            sink.write(&Event::Thread(access.thread, Box::new(thread.clone())))?;
        }
        if self.files.insert(access.file)
            && let Some(file) = self.known.file(access.file)
        {
            sink.write(&Event::File(access.file, Box::new(file.clone())))?;
            let extents = self.known.extents(access.file);
            if !extents.is_empty() {
                sink.write(&Event::Extents(access.file, extents.to_vec()))?;
            }
        }
        Ok(())
    }
}

/// Whether all of `text` is like `glob`: `*` is any text, slashes too, `?` any byte.
fn matches(glob: &[u8], text: &[u8]) -> bool {
    let (mut at_glob, mut at_text) = (0, 0);
    // After the last star: where the glob goes on, and the text that the star has taken so far.
    let mut star = None;
    while at_text < text.len() {
        match glob.get(at_glob) {
            Some(b'*') => {
                at_glob += 1;
                star = Some((at_glob, at_text));
            }
            Some(byte) if *byte == b'?' || *byte == text[at_text] => {
                at_glob += 1;
                at_text += 1;
            }
            _ => {
                let Some((after, taken)) = star else {
                    return false;
                };
                star = Some((after, taken + 1));
                (at_glob, at_text) = (after, taken + 1);
            }
        }
    }
    glob[at_glob..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_whole_paths() {
        for (glob, text) in [
            ("*.h", "/usr/include/a.h"),
            ("/usr/*", "/usr/include/a.h"),
            ("*inc*a.?", "/usr/include/a.h"),
            ("", ""),
            ("*", ""),
            ("a*b*c", "aXbYbZc"),
        ] {
            assert!(matches(glob.as_bytes(), text.as_bytes()), "{glob} {text}");
        }
        for (glob, text) in [("*.h", "/a.hh"), ("a.h", "/a.h"), ("?", ""), ("a*b", "abc")] {
            assert!(!matches(glob.as_bytes(), text.as_bytes()), "{glob} {text}");
        }
    }
}
