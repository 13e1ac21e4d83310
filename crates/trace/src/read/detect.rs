// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which format it is, from its first bytes.

use std::io::{Chain, Cursor, Read, Result};

use zstd::stream::read::Decoder;

use super::lines::whole_lines;
use super::{Format, blkparse, fio, juicefs, oracle, strace};
use crate::frt;
use crate::input::fill;

/// Maximum number of bytes that are examined.
const PEEK_BYTES: usize = 1 << 16;
/// Lines that are looked at: a program that is traced may print its own before the first call.
const LINES_MAX: usize = 200;
/// First bytes of a zstd frame.
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Largest window that unpacking may take memory for, as a power of two: the default limit of
/// `zstd` itself, 128 MiB.
const WINDOW_LOG_MAX: u32 = 27;

/// An input whose first bytes were looked at; it still gives all.
pub(super) struct Peeked<'a> {
    input: Chain<Cursor<Vec<u8>>, Box<dyn Read + 'a>>,
}

impl<'a> Peeked<'a> {
    fn new(mut input: Box<dyn Read + 'a>) -> Result<Self> {
        let mut first = vec![0; PEEK_BYTES];
        let got = fill(&mut *input, &mut first)?;
        first.truncate(got);
        let input = Cursor::new(first).chain(input);
        Ok(Self { input })
    }

    pub fn peeked(&self) -> &[u8] {
        self.input.get_ref().0.get_ref()
    }
}

impl Read for Peeked<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize> {
        self.input.read(bytes)
    }
}

/// The input, unpacked where zstd packed it.
pub(super) fn unpacked<'a>(input: Box<dyn Read + 'a>) -> Result<Peeked<'a>> {
    let input = Peeked::new(input)?;
    if !input.peeked().starts_with(&ZSTD_MAGIC) {
        return Ok(input);
    }
    let mut decoder = Decoder::new(input)?;
    decoder.window_log_max(WINDOW_LOG_MAX)?;
    Peeked::new(Box::new(decoder))
}

/// The format of something that starts like this.
pub(super) fn format(peeked: &[u8]) -> Option<Format> {
    if peeked.starts_with(&frt::MAGIC) {
        return Some(Format::Frt);
    }
    if fio::is_one(peeked) {
        return Some(Format::Fio);
    }
    let any = |is_one: fn(&[u8]) -> bool| whole_lines(peeked).take(LINES_MAX).any(is_one);
    // Their first lines have a form of their own; strace's lines have none, so it comes last.
    if any(juicefs::is_line) {
        Some(Format::JuiceFs)
    } else if any(blkparse::is_line) {
        Some(Format::Blkparse)
    } else if any(strace::is_line) {
        Some(Format::Strace)
    } else if oracle::is_one(peeked) {
        Some(Format::OracleGeneral)
    } else {
        None
    }
}
