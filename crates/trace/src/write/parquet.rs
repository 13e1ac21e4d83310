// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parquet: a row for each access, with the columns of the CSV.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;

use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use super::csv::{put_flags, put_text};
use super::{Sink, Wrote};
use crate::error::WriteError;
use crate::types::{Access, Event, FileId, LeftOut, ThreadId};

/// Rows that are gathered before they are written: some 10 MB.
const ROWS_MAX: usize = 1 << 16;

const SCHEMA: &str = "message access {
    required int64 time_ns (INTEGER(64, false));
    required int32 pid (INTEGER(32, false));
    required int32 tid (INTEGER(32, false));
    required binary name (STRING);
    required binary path (STRING);
    required int32 stream (INTEGER(32, false));
    required binary kind (STRING);
    required int64 offset_bytes (INTEGER(64, false));
    required int64 length_bytes (INTEGER(64, false));
    required binary flags (STRING);
    optional int64 waited_ns (INTEGER(64, false));
    optional int64 duration_ns (INTEGER(64, false));
}";

/// Writes one.
pub(super) struct Parquet<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    /// Texts are shared between rows.
    paths: HashMap<FileId, ByteArray>,
    threads: HashMap<ThreadId, (u32, u32, ByteArray)>,
    rows: Vec<Access>,
    wrote: Wrote,
}

impl<W: Write + Send> Parquet<W> {
    pub fn new(output: W) -> Result<Self, WriteError> {
        let schema = parse_message_type(SCHEMA).map_err(failed)?;
        let properties = Arc::new(WriterProperties::builder().build());
        let writer = SerializedFileWriter::new(output, Arc::new(schema), properties);
        Ok(Self {
            writer: writer.map_err(failed)?,
            paths: HashMap::new(),
            threads: HashMap::new(),
            rows: Vec::with_capacity(ROWS_MAX),
            wrote: Wrote::default(),
        })
    }

    fn put_rows(&mut self) -> Result<(), WriteError> {
        let rows = std::mem::take(&mut self.rows);
        if rows.is_empty() {
            return Ok(());
        }
        let none = (0, 0, ByteArray::from(Vec::new()));
        let thread = |row: &Access| self.threads.get(&row.thread).unwrap_or(&none);
        let path = |row: &Access| self.paths.get(&row.file).unwrap_or(&none.2).clone();
        let flags = |row: &Access| {
            let mut text = Vec::new();
            put_flags(&mut text, row.flags);
            ByteArray::from(text)
        };
        let kind = |row: &Access| ByteArray::from(row.kind.name());
        let mut whole_group = self.writer.next_row_group().map_err(failed)?;
        let group = &mut whole_group;
        // Unsigned numbers are stored as their bits.
        put::<Int64Type, _>(group, &rows, |row| row.time_ns as i64)?;
        put::<Int32Type, _>(group, &rows, |row| thread(row).0 as i32)?;
        put::<Int32Type, _>(group, &rows, |row| thread(row).1 as i32)?;
        put::<ByteArrayType, _>(group, &rows, |row| thread(row).2.clone())?;
        put::<ByteArrayType, _>(group, &rows, path)?;
        put::<Int32Type, _>(group, &rows, |row| row.stream as i32)?;
        put::<ByteArrayType, _>(group, &rows, kind)?;
        put::<Int64Type, _>(group, &rows, |row| row.offset_bytes as i64)?;
        put::<Int64Type, _>(group, &rows, |row| row.length_bytes as i64)?;
        put::<ByteArrayType, _>(group, &rows, flags)?;
        put_optional(group, &rows, |row| row.waited_ns)?;
        put_optional(group, &rows, |row| row.duration_ns)?;
        whole_group.close().map_err(failed)?;
        Ok(())
    }

    fn end_rows(&mut self) -> Result<(), WriteError> {
        self.put_rows()?;
        self.rows = Vec::with_capacity(ROWS_MAX);
        Ok(())
    }
}

/// Writes the next column.
fn put<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    rows: &[Access],
    value: impl FnMut(&Access) -> T::T,
) -> Result<(), WriteError> {
    let values: Vec<T::T> = rows.iter().map(value).collect();
    put_values::<T, W>(group, &values, None)
}

fn put_optional<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    rows: &[Access],
    value: impl Fn(&Access) -> Option<u64>,
) -> Result<(), WriteError> {
    let values: Vec<i64> = rows.iter().filter_map(&value).map(|ns| ns as i64).collect();
    let is_there = |row: &Access| i16::from(value(row).is_some());
    let levels: Vec<i16> = rows.iter().map(is_there).collect();
    put_values::<Int64Type, W>(group, &values, Some(&levels))
}

fn put_values<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> Result<(), WriteError> {
    let column = group.next_column().map_err(failed)?;
    let mut column = column.ok_or(WriteError::Unfit("has more columns than its schema"))?;
    let writer = column.typed::<T>();
    writer.write_batch(values, levels, None).map_err(failed)?;
    column.close().map_err(failed)
}

fn failed(error: ParquetError) -> WriteError {
    WriteError::Io(io::Error::other(error))
}

fn text(bytes: &[u8]) -> ByteArray {
    let mut text = Vec::new();
    put_text(&mut text, bytes, false);
    ByteArray::from(text)
}

impl<W: Write + Send> Sink for Parquet<W> {
    fn write(&mut self, event: &Event) -> Result<(), WriteError> {
        match event {
            Event::File(id, file) => {
                self.paths.insert(*id, text(&file.path));
            }
            Event::Thread(id, thread) => {
                let row = (thread.pid, thread.tid, text(&thread.name));
                self.threads.insert(*id, row);
            }
            Event::Access(access) => {
                self.rows.push(*access);
                self.wrote.accesses += 1;
                if self.rows.len() >= ROWS_MAX {
                    self.end_rows()?;
                }
            }
            Event::Extents(..) | Event::ThreadEnd { .. } => {}
        }
        Ok(())
    }

    fn left_out(&mut self, _: LeftOut, _: u64) -> Result<(), WriteError> {
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Wrote, WriteError> {
        self.put_rows()?;
        self.writer.close().map_err(failed)?;
        Ok(self.wrote)
    }
}
