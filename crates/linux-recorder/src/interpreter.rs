// SPDX-License-Identifier: MIT OR Apache-2.0
//! The dynamic linker that an executable names: the kernel opens it by that name, in no system call
//! of the program.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Program headers looked at; linkers write about a dozen.
const HEADERS_MAX: usize = 64;
const PT_INTERP: u64 = 3;

/// Reads the name from the headers of an ELF file of this machine's byte order. `None` for scripts
/// and for what is linked statically.
pub(super) fn interpreter(path: &Path) -> Option<Vec<u8>> {
    let file = File::open(path).ok()?;
    let mut header = [0u8; 64];
    file.read_exact_at(&mut header, 0).ok()?;
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
    file.read_exact_at(&mut headers, table).ok()?;
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
    file.read_exact_at(&mut name, start).ok()?;
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

    #[test]
    fn what_is_no_dynamic_program_has_none() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let mut elf = vec![0u8; 64];
        elf[..5].copy_from_slice(b"\x7fELF\x02");
        // Headers of 56 bytes, more than there are, far behind the end.
        elf[32..40].copy_from_slice(&u64::MAX.to_ne_bytes());
        elf[54..58].copy_from_slice(&[56, 0, 255, 255]);
        for bytes in [&b""[..], b"#!/bin/sh\n", &[0; 100], &elf] {
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(interpreter(&path), None);
        }
    }

    #[test]
    fn the_name_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let mut elf = vec![0u8; 64 + 56];
        elf[..5].copy_from_slice(b"\x7fELF\x02");
        elf[32] = 64;
        elf[54] = 56;
        elf[56] = 1;
        elf[64] = 3;
        elf[64 + 8] = 120;
        elf[64 + 32] = 11;
        elf.extend(b"/lib/ld.so\0");
        std::fs::write(&path, elf).unwrap();
        assert_eq!(interpreter(&path), Some(b"/lib/ld.so".to_vec()));
    }
}
