// SPDX-License-Identifier: MIT OR Apache-2.0
//! The header of the file: 40 bytes, then its texts.

use std::io::Read;

use foreread_core::bytes::{Cursor, Fault, put_text, put_varint};

use super::format::{HEADER_BYTES, HEADER_TEXTS_BYTES_MAX, MAGIC, VERSION, u16_at, u32_at, u64_at};
use crate::error::ReadError;
use crate::input::fill;
use crate::limits::{ARGUMENTS_BYTES_MAX, ARGUMENTS_MAX, TEXT_BYTES_MAX};
use crate::types::{Header, Source, TimeIs};

/// The stored form. Of a command line beyond the limits, the first arguments.
pub(super) fn encode(header: &Header) -> Vec<u8> {
    let mut bytes = 0;
    let arguments = header.command.iter().take(ARGUMENTS_MAX);
    let arguments: Vec<&Vec<u8>> = arguments
        .take_while(|argument| {
            bytes += argument.len();
            bytes <= ARGUMENTS_BYTES_MAX
        })
        .collect();
    let mut texts = Vec::new();
    put_varint(&mut texts, arguments.len() as u64);
    for argument in arguments {
        put_text(&mut texts, argument);
    }
    let kernel = &header.kernel[..header.kernel.len().min(TEXT_BYTES_MAX)];
    put_text(&mut texts, kernel);
    let mut out = MAGIC.to_vec();
    out.extend(VERSION.to_le_bytes());
    out.extend([header.source as u8, header.time_is as u8]);
    out.extend(header.page_bytes.to_le_bytes());
    out.extend(header.started_unix_ns.unwrap_or(0).to_le_bytes());
    out.extend((texts.len() as u32).to_le_bytes());
    out.extend(crc32fast::hash(&texts).to_le_bytes());
    out.extend([0; 4]);
    out.extend(crc32fast::hash(&out).to_le_bytes());
    out.extend(texts);
    out
}

/// Reads it. Its length in the file is the second of the result.
pub(super) fn read(input: &mut impl Read) -> Result<(Header, u64), ReadError> {
    let mut bytes = [0; HEADER_BYTES];
    let got = fill(input, &mut bytes)?;
    let magic = &bytes[..got.min(MAGIC.len())];
    if magic.is_empty() || !MAGIC.starts_with(magic) {
        return Err(ReadError::NotATrace);
    }
    if got < HEADER_BYTES {
        return Err(ReadError::CutShort);
    }
    if crc32fast::hash(&bytes[..36]) != u32_at(&bytes, 36) {
        return Err(ReadError::Damaged);
    }
    let found = u16_at(&bytes, 8);
    if found > VERSION {
        let known = VERSION;
        return Err(ReadError::Newer { found, known });
    }
    let texts_bytes = u32_at(&bytes, 24) as usize;
    if texts_bytes > HEADER_TEXTS_BYTES_MAX {
        return Err(ReadError::BadHeader("has longer texts than any"));
    }
    let mut texts = vec![0; texts_bytes];
    if fill(input, &mut texts)? < texts_bytes {
        return Err(ReadError::CutShort);
    }
    if crc32fast::hash(&texts) != u32_at(&bytes, 28) {
        return Err(ReadError::Damaged);
    }
    let header = decode(&bytes, &texts).map_err(ReadError::BadHeader)?;
    Ok((header, (HEADER_BYTES + texts_bytes) as u64))
}

fn decode(bytes: &[u8; HEADER_BYTES], texts: &[u8]) -> Result<Header, Fault> {
    let page_bytes = u32_at(bytes, 12);
    if !page_bytes.is_power_of_two() || !(512..=1 << 20).contains(&page_bytes) {
        return Err("names a page size that no machine has");
    }
    let mut cursor = Cursor::new(texts);
    let arguments: usize = cursor.number()?;
    if arguments > ARGUMENTS_MAX {
        return Err("has more arguments than any");
    }
    let mut command = Vec::new();
    for _ in 0..arguments {
        command.push(cursor.text(ARGUMENTS_BYTES_MAX)?.to_vec());
    }
    let kernel = cursor.text(TEXT_BYTES_MAX)?.to_vec();
    cursor.end()?;
    Ok(Header {
        page_bytes,
        source: *Source::ALL
            .get(usize::from(bytes[10]))
            .ok_or("names a source that is not known")?,
        time_is: *TimeIs::ALL
            .get(usize::from(bytes[11]))
            .ok_or("gives its times a meaning that is not known")?,
        started_unix_ns: Some(u64_at(bytes, 16)).filter(|ns| *ns > 0),
        command,
        kernel,
    })
}
