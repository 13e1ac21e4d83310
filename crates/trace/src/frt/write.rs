// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writing the own format, in memory that does not grow with the trace.

use std::io::Write;

use zstd::bulk::Compressor;

use super::defined::Defined;
use super::format::{
    BLOCK_BYTES_MAX, BlockHeader, BlockKind, Method, RECORD_BYTES_MAX, TRAILER_BYTES, TRAILER_MAGIC,
};
use super::head;
use super::index::{Index, Span};
use super::record::{
    Before, EXTENTS_IN_RECORD, check_access, check_extent, put_extents, put_file, put_thread,
};
use crate::error::WriteError;
use crate::limits::PATH_BYTES_MAX;
use crate::types::{Access, Event, Extent, FileId, Header, LeftOut, ThreadId};

/// zstd's own default; higher levels cost far more time than they save space here.
const ZSTD_LEVEL: i32 = 3;

/// Writes a trace.
///
/// Definitions and accesses are gathered in blocks of their own, so that a search for a time reads
/// only the definitions before it. A block of definitions is always written before the accesses
/// that came after it.
pub struct Writer<W: Write> {
    output: W,
    /// Bytes written.
    at: u64,
    defined: Defined,
    definitions: Block,
    accesses: Block,
    before: Before,
    compressor: Compressor<'static>,
    packed: Vec<u8>,
    index: Index,
    accesses_count: u64,
}

/// A block that is being filled.
#[derive(Default)]
struct Block {
    plain: Vec<u8>,
    records: u32,
    times_ns: Option<(u64, u64)>,
}

/// Size of a written trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Bytes of the whole trace.
    pub bytes: u64,
    /// Accesses in it.
    pub accesses: u64,
}

impl<W: Write> Writer<W> {
    /// Starts a trace with its header. Blocks are written whole; the output needs no buffer.
    ///
    /// # Errors
    /// [`WriteError::Io`] when the header can't be written, [`WriteError::Unfit`] when its page
    /// size is none.
    pub fn new(mut output: W, header: &Header) -> Result<Self, WriteError> {
        let page_bytes = header.page_bytes;
        if !page_bytes.is_power_of_two() || !(512..=1 << 20).contains(&page_bytes) {
            return Err(WriteError::Unfit("has a page size that no machine has"));
        }
        let head = head::encode(header);
        output.write_all(&head)?;
        Ok(Self {
            output,
            at: head.len() as u64,
            defined: Defined::default(),
            definitions: Block::default(),
            accesses: Block::default(),
            before: Before::new(),
            compressor: Compressor::new(ZSTD_LEVEL)?,
            packed: Vec::new(),
            index: Index::default(),
            accesses_count: 0,
        })
    }

    /// Adds an event.
    ///
    /// # Errors
    /// [`WriteError::Unfit`] and [`WriteError::Full`] when this event breaks a rule; the writer can
    /// go on. [`WriteError::Io`] when the output fails; then it can't.
    pub fn write(&mut self, event: &Event) -> Result<(), WriteError> {
        match event {
            Event::Access(access) => return self.access(access),
            Event::ThreadEnd { time_ns, thread } => return self.thread_end(*time_ns, *thread),
            Event::File(id, file) => {
                if self.defined.has_file(*id) {
                    return Err(WriteError::Unfit("defines a file twice"));
                }
                if file.path.len() > PATH_BYTES_MAX {
                    return Err(WriteError::Unfit("has a path of more than 4096 bytes"));
                }
                let added = self.defined.add_file(*id, file.path.len());
                added.map_err(WriteError::Full)?;
                put_file(&mut self.definitions.plain, *id, file);
            }
            Event::Thread(id, thread) => {
                if self.defined.has_thread(*id) {
                    return Err(WriteError::Unfit("defines a thread twice"));
                }
                if thread.name.len() > PATH_BYTES_MAX {
                    return Err(WriteError::Unfit("has a name of more than 4096 bytes"));
                }
                let added = self.defined.add_thread(*id, thread.name.len());
                added.map_err(WriteError::Full)?;
                put_thread(&mut self.definitions.plain, *id, thread);
            }
            Event::Extents(id, extents) => return self.extents(*id, extents),
        }
        self.defined_one()
    }

    /// Notes that `count` more of these are not in the trace.
    ///
    /// # Errors
    /// [`WriteError::Io`] when the output fails.
    pub fn left_out(&mut self, what: LeftOut, count: u64) -> Result<(), WriteError> {
        if count > 0 {
            Before::put_left_out(&mut self.accesses.plain, what, count);
            self.accesses.records += 1;
            self.flush_if_full()?;
        }
        Ok(())
    }

    /// Writes the gathered records, so that they are there when the process is killed. This makes
    /// blocks smaller, and they compress less well.
    ///
    /// # Errors
    /// [`WriteError::Io`] when the output fails.
    pub fn flush(&mut self) -> Result<(), WriteError> {
        self.put_block(BlockKind::Definitions)?;
        self.put_block(BlockKind::Accesses)?;
        self.output.flush()?;
        Ok(())
    }

    /// Ends the trace with its index. Without this, a trace is read as one that was cut off.
    ///
    /// # Errors
    /// [`WriteError::Io`] when the output fails.
    pub fn finish(mut self) -> Result<(W, Written), WriteError> {
        self.flush()?;
        let index_at = self.at;
        let plain = self.index.encode();
        self.put(BlockKind::Index, &plain, 0, None)?;
        let mut trailer = Vec::with_capacity(TRAILER_BYTES);
        trailer.extend(TRAILER_MAGIC);
        trailer.extend(index_at.to_le_bytes());
        trailer.extend([0; 4]);
        trailer.extend(crc32fast::hash(&trailer).to_le_bytes());
        self.output.write_all(&trailer)?;
        self.output.flush()?;
        let written = Written {
            bytes: self.at + trailer.len() as u64,
            accesses: self.accesses_count,
        };
        Ok((self.output, written))
    }

    fn access(&mut self, access: &Access) -> Result<(), WriteError> {
        if !self.defined.has_file(access.file) || !self.defined.has_thread(access.thread) {
            let what = "names a file or a thread that is not defined";
            return Err(WriteError::Unfit(what));
        }
        check_access(access).map_err(WriteError::Unfit)?;
        self.before.put_access(&mut self.accesses.plain, access);
        self.accesses_count += 1;
        self.timed(access.time_ns)
    }

    fn thread_end(&mut self, time_ns: u64, thread: ThreadId) -> Result<(), WriteError> {
        if !self.defined.has_thread(thread) {
            return Err(WriteError::Unfit("ends a thread that is not defined"));
        }
        let plain = &mut self.accesses.plain;
        self.before.put_thread_end(plain, time_ns, thread);
        self.timed(time_ns)
    }

    fn extents(&mut self, id: FileId, extents: &[Extent]) -> Result<(), WriteError> {
        if !self.defined.has_file(id) {
            return Err(WriteError::Unfit("places a file that is not defined"));
        }
        for extent in extents {
            check_extent(extent).map_err(WriteError::Unfit)?;
        }
        let added = self.defined.add_extents(extents.len());
        added.map_err(WriteError::Full)?;
        for part in extents.chunks(EXTENTS_IN_RECORD) {
            put_extents(&mut self.definitions.plain, id, part);
            self.defined_one()?;
        }
        Ok(())
    }

    fn defined_one(&mut self) -> Result<(), WriteError> {
        self.definitions.records += 1;
        if self.definitions.is_full() {
            self.put_block(BlockKind::Definitions)?;
        }
        Ok(())
    }

    #[inline]
    fn timed(&mut self, time_ns: u64) -> Result<(), WriteError> {
        self.accesses.records += 1;
        let (first, last) = self.accesses.times_ns.unwrap_or((time_ns, time_ns));
        self.accesses.times_ns = Some((first.min(time_ns), last.max(time_ns)));
        self.flush_if_full()
    }

    #[inline]
    fn flush_if_full(&mut self) -> Result<(), WriteError> {
        if self.accesses.is_full() {
            self.put_block(BlockKind::Definitions)?;
            self.put_block(BlockKind::Accesses)?;
        }
        Ok(())
    }

    fn put_block(&mut self, kind: BlockKind) -> Result<(), WriteError> {
        let block = match kind {
            BlockKind::Definitions => &mut self.definitions,
            _ => &mut self.accesses,
        };
        if block.plain.is_empty() {
            return Ok(());
        }
        let mut block = std::mem::take(block);
        let at = self.at;
        self.put(kind, &block.plain, block.records, block.times_ns)?;
        let (first_ns, last_ns) = block.times_ns.unwrap_or((u64::MAX, 0));
        self.index.push(Span {
            at,
            blocks: 1,
            definition_blocks: u32::from(kind == BlockKind::Definitions),
            records: match block.times_ns {
                Some(_) => u64::from(block.records),
                None => 0,
            },
            first_ns,
            last_ns,
        });
        block.plain.clear();
        let plain = block.plain;
        let empty = Block {
            plain,
            ..Block::default()
        };
        if kind == BlockKind::Definitions {
            self.definitions = empty;
        } else {
            self.accesses = empty;
            self.before = Before::new();
        }
        Ok(())
    }

    fn put(
        &mut self,
        kind: BlockKind,
        plain: &[u8],
        records: u32,
        times_ns: Option<(u64, u64)>,
    ) -> Result<(), WriteError> {
        self.packed.resize(plain.len(), 0);
        // It fails when the packed form doesn't fit, which is when it isn't worth it.
        let packed = self
            .compressor
            .compress_to_buffer(plain, &mut self.packed[..]);
        let (method, stored) = match packed {
            Ok(length) if length < plain.len() => (Method::Zstd, &self.packed[..length]),
            _ => (Method::Plain, plain),
        };
        let (first_ns, last_ns) = times_ns.unwrap_or((0, 0));
        let header = BlockHeader {
            kind,
            method,
            stored_bytes: stored.len(),
            plain_bytes: plain.len(),
            records,
            first_ns,
            last_ns,
            stored_crc: crc32fast::hash(stored),
        };
        let header = header.to_bytes();
        self.output.write_all(&header)?;
        self.output.write_all(stored)?;
        self.at += (header.len() + stored.len()) as u64;
        Ok(())
    }
}

impl Block {
    #[inline]
    fn is_full(&self) -> bool {
        self.plain.len() + RECORD_BYTES_MAX > BLOCK_BYTES_MAX
    }
}
