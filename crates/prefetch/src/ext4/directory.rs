// SPDX-License-Identifier: MIT OR Apache-2.0
//! The names in a block of a directory.
//!
//! A block is a chain of records, each with an inode number and a name. The index of a large
//! directory lies in blocks of the same form: its records have inode 0, as those of deleted names
//! and of checksums have. So a directory with an index reads like one without, if all of its blocks
//! are read.

use super::Ext4Error;
use super::bytes::Fields;

/// Inode number, length of the record, length of the name, and type.
const RECORD_HEAD_BYTES: usize = 8;

/// One name in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryEntry<'b> {
    /// The inode with that name.
    pub inode: u32,
    /// The name, not empty, without `/`.
    pub name: &'b [u8],
}

/// The names in one block of a directory, `.` and `..` among them. A record that makes no sense is
/// an error, and the last item.
pub fn directory_entries(
    block: &[u8],
) -> impl Iterator<Item = Result<DirectoryEntry<'_>, Ext4Error>> {
    let mut rest = block;
    std::iter::from_fn(move || {
        while !rest.is_empty() {
            match record(rest) {
                Ok((entry, after)) => {
                    rest = after;
                    if entry.inode != 0 && !entry.name.is_empty() {
                        return Some(Ok(entry));
                    }
                }
                Err(error) => {
                    rest = &[];
                    return Some(Err(error));
                }
            }
        }
        None
    })
}

/// The first record, and what comes after it.
fn record(bytes: &[u8]) -> Result<(DirectoryEntry<'_>, &[u8]), Ext4Error> {
    let fields = Fields::new(bytes, "directory");
    let inode = fields.u32(0)?;
    let length = record_bytes(fields.u16(4)?, bytes.len());
    // Without the feature `filetype`, the byte after it is the high half of the length, which is 0:
    // no name has more than 255 bytes.
    let name_bytes = usize::from(fields.u16(6)? & 0xff);
    let is_bad = length < RECORD_HEAD_BYTES + name_bytes || !length.is_multiple_of(4);
    let (record, after) =
        bytes
            .split_at_checked(length)
            .filter(|_| !is_bad)
            .ok_or(Ext4Error::BadDirectory {
                what: "length of a record",
                value: length as u64,
            })?;
    let name = &record[RECORD_HEAD_BYTES..RECORD_HEAD_BYTES + name_bytes];
    Ok((DirectoryEntry { inode, name }, after))
}

/// The length of a record. One that fills a block of 64 KiB doesn't fit into the field: 0 and
/// 65,535 stand for the rest of the block.
fn record_bytes(field: u16, rest_bytes: usize) -> usize {
    match field {
        0 | u16::MAX if rest_bytes >= usize::from(u16::MAX) => rest_bytes,
        field => usize::from(field),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn put(block: &mut Vec<u8>, inode: u32, length: u16, name: &[u8]) {
        let start = block.len();
        block.extend(inode.to_le_bytes());
        block.extend(length.to_le_bytes());
        block.push(name.len() as u8);
        block.push(2);
        block.extend(name);
        block.resize(start + usize::from(length), 0);
    }

    fn names(block: &[u8]) -> Vec<(u32, String)> {
        let entries = directory_entries(block).map(Result::unwrap);
        entries
            .map(|entry| (entry.inode, String::from_utf8(entry.name.to_vec()).unwrap()))
            .collect()
    }

    #[test]
    fn deleted_names_indexes_and_checksums_are_passed_over() {
        let mut block = Vec::new();
        put(&mut block, 2, 12, b".");
        put(&mut block, 2, 12, b"..");
        put(&mut block, 0, 16, b"gone");
        put(&mut block, 12, 20, b"lost+found");
        put(&mut block, 0, 12, b"");
        let expected = [(2, "."), (2, ".."), (12, "lost+found")];
        let expected: Vec<(u32, String)> = expected.map(|(at, name)| (at, name.into())).into();
        assert_eq!(names(&block), expected);
    }

    #[test]
    fn a_record_may_fill_a_block_of_64_kib() {
        for field in [0_u16, u16::MAX] {
            let mut block = Vec::new();
            put(&mut block, 7, 12, b"a");
            block[4..6].copy_from_slice(&field.to_le_bytes());
            block.resize(65536, 0);
            assert_eq!(names(&block), [(7, "a".to_owned())]);
        }
    }

    #[test]
    fn records_that_make_no_sense_end_a_block() {
        let mut good = Vec::new();
        put(&mut good, 5, 12, b"a");
        // Too short for its name, not a multiple of four, beyond the block, without end.
        for length in [8_u16, 14, 4096, 0] {
            let mut block = good.clone();
            put(&mut block, 6, 16, b"bcdefgh");
            block[16..18].copy_from_slice(&length.to_le_bytes());
            let entries: Vec<_> = directory_entries(&block).collect();
            assert_eq!(entries.len(), 2, "{length}");
            assert!(entries[0].is_ok() && entries[1].is_err(), "{entries:?}");
        }
        assert!(directory_entries(&good[..7]).all(|entry| entry.is_err()));
    }

    proptest! {
        #[test]
        fn any_bytes_end_and_names_lie_inside(block in prop::collection::vec(any::<u8>(), 0..600)) {
            let entries: Vec<_> = directory_entries(&block).collect();
            prop_assert!(entries.len() <= block.len() / RECORD_HEAD_BYTES + 1);
            let errors = entries.iter().filter(|entry| entry.is_err()).count();
            prop_assert!(errors <= 1);
        }
    }
}
