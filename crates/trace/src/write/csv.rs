// SPDX-License-Identifier: MIT OR Apache-2.0
//! Comma-separated values: a line for each access.

use std::io::Write;

use super::{Sink, Wrote};
use crate::error::WriteError;
use crate::known::Known;
use crate::types::{Access, Event, Flags, LeftOut};

/// Names of the columns.
const HEADER: &str = "time_ns,pid,tid,name,path,stream,kind,offset_bytes,length_bytes,flags,\
                      waited_ns,duration_ns";

/// Writes them.
pub(super) struct Csv<W: Write> {
    output: W,
    known: Known,
    line: Vec<u8>,
    wrote: Wrote,
}

impl<W: Write> Csv<W> {
    pub fn new(mut output: W) -> Result<Self, WriteError> {
        writeln!(output, "{HEADER}")?;
        Ok(Self {
            output,
            known: Known::default(),
            line: Vec::new(),
            wrote: Wrote::default(),
        })
    }

    fn access(&mut self, access: &Access) -> Result<(), WriteError> {
        let file = self.known.file(access.file);
        let thread = self.known.thread(access.thread);
        let (Some(file), Some(thread)) = (file, thread) else {
            let what = "names a file or a thread that is not defined";
            return Err(WriteError::Unfit(what));
        };
        let line = &mut self.line;
        line.clear();
        write!(line, "{},{},{},", access.time_ns, thread.pid, thread.tid)?;
        put_text(line, &thread.name, true);
        line.push(b',');
        put_text(line, &file.path, true);
        let (kind, stream) = (access.kind, access.stream);
        let (offset_bytes, length_bytes) = (access.offset_bytes, access.length_bytes);
        write!(line, ",{stream},{kind},{offset_bytes},{length_bytes},")?;
        put_flags(line, access.flags);
        for ns in [access.waited_ns, access.duration_ns] {
            line.push(b',');
            if let Some(ns) = ns {
                write!(line, "{ns}")?;
            }
        }
        line.push(b'\n');
        self.output.write_all(line)?;
        self.wrote.accesses += 1;
        Ok(())
    }
}

/// Names with a plus between them.
pub(super) fn put_flags(line: &mut Vec<u8>, flags: Flags) {
    let start = line.len();
    for (flag, name) in Flags::NAMES {
        if flags.contains(flag) {
            if line.len() > start {
                line.push(b'+');
            }
            line.extend_from_slice(name.as_bytes());
        }
    }
}

/// In quotes where commas and quotes ask for it. What isn't UTF-8, control characters and
/// backslashes are escaped as `\xHH`: each line is one of text, and different names stay different.
pub(super) fn put_text(line: &mut Vec<u8>, text: &[u8], with_commas: bool) {
    let quoted = with_commas && text.iter().any(|byte| b",\"".contains(byte));
    if quoted {
        line.push(b'"');
    }
    for chunk in text.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' if with_commas => line.extend_from_slice(b"\"\""),
                '\\' => line.extend_from_slice(b"\\x5c"),
                c if c.is_control() => {
                    let mut bytes = [0; 4];
                    put_hex(line, c.encode_utf8(&mut bytes).as_bytes());
                }
                c => line.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        put_hex(line, chunk.invalid());
    }
    if quoted {
        line.push(b'"');
    }
}

fn put_hex(line: &mut Vec<u8>, bytes: &[u8]) {
    for byte in bytes {
        line.extend_from_slice(format!("\\x{byte:02x}").as_bytes());
    }
}

impl<W: Write> Sink for Csv<W> {
    fn write(&mut self, event: &Event) -> Result<(), WriteError> {
        self.known.learn(event);
        match event {
            Event::Access(access) => self.access(access),
            _ => Ok(()),
        }
    }

    fn left_out(&mut self, _: LeftOut, _: u64) -> Result<(), WriteError> {
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Wrote, WriteError> {
        self.output.flush()?;
        Ok(self.wrote)
    }
}
