// SPDX-License-Identifier: MIT OR Apache-2.0
//! fio's iolog: the reads, so that `fio --read_iolog` repeats them.

use std::io::Write;

use super::{Sink, Wrote};
use crate::error::WriteError;
use crate::types::{Access, Event, File, FileId, Kind, LeftOut};

/// fio reads lengths into 32 bits.
const LENGTH_BYTES_MAX: u64 = u32::MAX as u64;
/// fio's buffer for a name.
const NAME_BYTES_MAX: usize = 255;
/// fio takes no notice of shorter waits.
const WAIT_US_MIN: u64 = 100;

/// Writes one.
pub(super) struct Fio<W: Write> {
    output: W,
    has_times: bool,
    names: Vec<Option<Name>>,
    /// Until when version 2 has waited.
    waited_us: u64,
    wrote: Wrote,
}

struct Name {
    text: Vec<u8>,
    is_open: bool,
    /// Where the file ends, if that is known.
    size_bytes: Option<u64>,
}

impl<W: Write> Fio<W> {
    /// Version 3 has times, version 2 has not.
    pub fn new(mut output: W, has_times: bool) -> Result<Self, WriteError> {
        let version = if has_times { 3 } else { 2 };
        writeln!(output, "fio version {version} iolog")?;
        Ok(Self {
            output,
            has_times,
            names: Vec::new(),
            waited_us: 0,
            wrote: Wrote::default(),
        })
    }

    /// fio splits lines at blanks and names at colons, and has no way to quote them.
    fn name(&mut self, id: FileId, file: &File) {
        let path = file.path.as_slice();
        let allowed = |byte: &u8| byte.is_ascii_graphic() && *byte != b':' || *byte >= 0x80;
        let mut text: Vec<u8> = path
            .iter()
            .map(|byte| if allowed(byte) { *byte } else { b'_' })
            .collect();
        if text.is_empty() {
            text = format!("file-{}", id.0).into_bytes();
        }
        // The end tells files apart better than the start.
        let excess = text.len().saturating_sub(NAME_BYTES_MAX);
        text.drain(..excess);
        self.wrote.renamed_files += u64::from(text != path);
        let at = id.0 as usize;
        if self.names.len() <= at {
            self.names.resize_with(at + 1, || None);
        }
        let is_open = false;
        let size_bytes = file.size_bytes;
        self.names[at] = Some(Name {
            text,
            is_open,
            size_bytes,
        });
    }

    fn access(&mut self, access: &Access) -> Result<(), WriteError> {
        let is_too_long = access.length_bytes > LENGTH_BYTES_MAX;
        if !access.kind.uses_pages() || is_too_long {
            // Files are opened and closed anyway.
            if !matches!(access.kind, Kind::Open | Kind::Close) {
                self.wrote.left_out.add(LeftOut::NoWord, 1);
            }
            return Ok(());
        }
        let Some(Some(name)) = self.names.get_mut(access.file.0 as usize) else {
            return Err(WriteError::Unfit("names a file that is not defined"));
        };
        let time_us = access.time_ns / 1000;
        let output = &mut self.output;
        let mut line = |name: &[u8], rest: &str| -> Result<(), WriteError> {
            if self.has_times {
                write!(output, "{time_us} ")?;
            }
            output.write_all(name)?;
            writeln!(output, " {rest}")?;
            Ok(())
        };
        if !name.is_open {
            line(&name.text, "add")?;
            line(&name.text, "open")?;
            name.is_open = true;
        }
        let wait_us = time_us.saturating_sub(self.waited_us);
        if !self.has_times && wait_us >= WAIT_US_MIN {
            line(&name.text, &format!("wait {wait_us} 0"))?;
            self.waited_us = time_us;
        }
        // A read beyond the end of its file returned only the bytes before it.
        let left_bytes = name
            .size_bytes
            .and_then(|size| size.checked_sub(access.offset_bytes));
        let length_bytes = match left_bytes {
            None | Some(0) => access.length_bytes,
            Some(left_bytes) => access.length_bytes.min(left_bytes),
        };
        let range = format!("read {} {length_bytes}", access.offset_bytes);
        line(&name.text, &range)?;
        self.waited_us = self.waited_us.max(if self.has_times { time_us } else { 0 });
        self.wrote.accesses += 1;
        Ok(())
    }
}

impl<W: Write> Sink for Fio<W> {
    fn write(&mut self, event: &Event) -> Result<(), WriteError> {
        match event {
            Event::File(id, file) => self.name(*id, file),
            Event::Access(access) => self.access(access)?,
            Event::Extents(..) | Event::Thread(..) | Event::ThreadEnd { .. } => {}
        }
        Ok(())
    }

    fn left_out(&mut self, _: LeftOut, _: u64) -> Result<(), WriteError> {
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Wrote, WriteError> {
        for name in self.names.iter().flatten().filter(|name| name.is_open) {
            if self.has_times {
                write!(self.output, "{} ", self.waited_us)?;
            }
            self.output.write_all(&name.text)?;
            self.output.write_all(b" close\n")?;
        }
        self.output.flush()?;
        Ok(self.wrote)
    }
}
