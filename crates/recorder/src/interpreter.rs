// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the dynamic linker that an executable names. The kernel opens it by that name, in no
//! system call of the program.

/// Program headers looked at; linkers write about a dozen.
const HEADERS_MAX: usize = 64;
const PT_INTERP: u64 = 3;

/// Reads the name from the headers of an ELF file of this machine's byte order. `None` for scripts
/// and for programs that are linked statically. `read_at` fills a buffer from a place of the file
/// on; `None` when it can't.
pub fn interpreter(read_at: impl Fn(u64, &mut [u8]) -> Option<()>) -> Option<Vec<u8>> {
    let mut header = [0u8; 64];
    read_at(0, &mut header)?;
    let wide = match (header.starts_with(b"\x7fELF"), header[4]) {
        (true, 1) => false,
        (true, 2) => true,
        _ => return None,
    };
    // Offsets of a field in the headers of 32 and of 64 bits, and its size in each.
    let (table, size_at, count_at) = match wide {
        false => (number(&header, 28, 4)?, 42, 44),
        true => (number(&header, 32, 8)?, 54, 56),
    };
    let size = usize::try_from(number(&header, size_at, 2)?).ok()?;
    let count = usize::try_from(number(&header, count_at, 2)?).ok()?;
    if !(32..=256).contains(&size) {
        return None;
    }
    let mut headers = vec![0; size * count.min(HEADERS_MAX)];
    read_at(table, &mut headers)?;
    let header = headers
        .chunks_exact(size)
        .find(|h| number(h, 0, 4) == Some(PT_INTERP))?;
    let (start, length) = match wide {
        false => (number(header, 4, 4)?, number(header, 16, 4)?),
        true => (number(header, 8, 8)?, number(header, 32, 8)?),
    };
    let mut name = vec![
        0;
        usize::try_from(length)
            .ok()
            .filter(|length| *length <= 4096)?
    ];
    read_at(start, &mut name)?;
    let end = name.iter().position(|byte| *byte == 0)?;
    name.truncate(end);
    name.starts_with(b"/").then_some(name)
}

fn number(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + size)?;
    Some(match size {
        2 => u16::from_ne_bytes(bytes.try_into().ok()?).into(),
        4 => u32::from_ne_bytes(bytes.try_into().ok()?).into(),
        _ => u64::from_ne_bytes(bytes.try_into().ok()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named_by(file: &[u8]) -> Option<Vec<u8>> {
        interpreter(|at, buffer| {
            let start = usize::try_from(at).ok()?;
            let bytes = file.get(start..start.checked_add(buffer.len())?)?;
            buffer.copy_from_slice(bytes);
            Some(())
        })
    }

    #[test]
    fn a_file_that_is_no_dynamic_program_names_none() {
        let mut elf = vec![0u8; 64];
        elf[..5].copy_from_slice(b"\x7fELF\x02");
        // Headers of 56 bytes, more than there are, far behind the end.
        elf[32..40].copy_from_slice(&u64::MAX.to_ne_bytes());
        elf[54..58].copy_from_slice(&[56, 0, 255, 255]);
        for bytes in [&b""[..], b"#!/bin/sh\n", &[0; 100], &elf] {
            assert_eq!(named_by(bytes), None);
        }
    }

    #[test]
    fn the_name_is_read() {
        let mut elf = vec![0u8; 64 + 56];
        elf[..5].copy_from_slice(b"\x7fELF\x02");
        elf[32] = 64;
        elf[54] = 56;
        elf[56] = 1;
        elf[64] = 3;
        elf[64 + 8] = 120;
        elf[64 + 32] = 11;
        elf.extend(b"/lib/ld.so\0");
        assert_eq!(named_by(&elf), Some(b"/lib/ld.so".to_vec()));
    }
}
