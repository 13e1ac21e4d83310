// SPDX-License-Identifier: MIT OR Apache-2.0
//! Maps pages of a file to places on the device.

use std::ops::Range;

use foreread_profile::types::PAGE_BYTES;

use super::FileExtent;

/// All pages of a file, however many it has.
pub const WHOLE_FILE: Range<u64> = 0..u64::MAX;

/// Pages of a file that lie one after another on the device.
///
/// Page `file_page + i` is at `offset_bytes + i * 4096`. Two kinds of pages are not there in full.
/// One is the last page of a file. The others are pages that are partly holes or in several pieces
/// (blocks smaller than a page). These have ranges of their own, at the place of their first piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PhysicalRange {
    /// First page, of 4 KiB, in the file.
    pub file_page: u64,
    /// Number of pages, at least 1.
    pub pages: u64,
    /// Where the first page lies, from the start of the file system.
    pub offset_bytes: u64,
}

/// Finds where pages lie, in order of the file. Every page is in at most one range; pages in holes,
/// in unwritten extents and behind the end of the file are in none.
///
/// `extents` must be in order of the file, as in a [`super::BlockMap`]; `pages` must be sorted and
/// not overlap.
#[must_use]
pub fn physical_ranges(
    extents: &[FileExtent],
    block_bytes: u32,
    size_bytes: u64,
    pages: &[Range<u64>],
) -> Vec<PhysicalRange> {
    let mut ranges = Ranges::default();
    let block_bytes = u64::from(block_bytes);
    for wanted in pages {
        let start = wanted.start.saturating_mul(PAGE_BYTES);
        let end = wanted.end.saturating_mul(PAGE_BYTES).min(size_bytes);
        let first = extents.partition_point(|e| e.logical_end() * block_bytes <= start);
        for extent in extents.iter().skip(first) {
            let logical = u64::from(extent.logical_block) * block_bytes;
            let piece_start = logical.max(start);
            let piece_end = (extent.logical_end() * block_bytes).min(end);
            if piece_start >= end {
                break;
            }
            if !extent.unwritten && piece_start < piece_end {
                let physical = extent.physical_block * block_bytes + (piece_start - logical);
                ranges.push(piece_start..piece_end, physical);
            }
        }
    }
    ranges.ranges
}

/// Ranges, and whether the next piece may lengthen the last of them.
#[derive(Default)]
struct Ranges {
    ranges: Vec<PhysicalRange>,
    /// Where the last range ends in the file and on the device, when it is all in one piece.
    run_end: Option<(u64, u64)>,
}

impl Ranges {
    /// Adds bytes of the file that are at `physical`, behind all that were added before.
    fn push(&mut self, logical: Range<u64>, physical: u64) {
        let end_page = logical.end.div_ceil(PAGE_BYTES);
        let physical_end = physical + (logical.end - logical.start);
        if let Some(last) = self.ranges.last_mut()
            && self.run_end == Some((logical.start, physical))
        {
            last.pages = end_page - last.file_page;
            self.run_end = Some((logical.end, physical_end));
            return;
        }
        self.run_end = None;
        let into_page = logical.start % PAGE_BYTES;
        let mut start_page = logical.start / PAGE_BYTES;
        let mut offset_bytes = physical;
        if into_page != 0 {
            let counted = self
                .ranges
                .last()
                .is_some_and(|r| r.file_page + r.pages > start_page);
            if !counted {
                self.ranges.push(PhysicalRange {
                    file_page: start_page,
                    pages: 1,
                    offset_bytes,
                });
            }
            start_page += 1;
            offset_bytes = physical + (PAGE_BYTES - into_page);
        }
        if start_page < end_page {
            let pages = end_page - start_page;
            self.ranges.push(PhysicalRange {
                file_page: start_page,
                pages,
                offset_bytes,
            });
            self.run_end = Some((logical.end, physical_end));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn extent(logical_block: u32, length_blocks: u32, physical_block: u64) -> FileExtent {
        FileExtent {
            logical_block,
            length_blocks,
            physical_block,
            unwritten: false,
        }
    }

    fn range(file_page: u64, pages: u64, offset_bytes: u64) -> PhysicalRange {
        PhysicalRange {
            file_page,
            pages,
            offset_bytes,
        }
    }

    #[test]
    fn holes_and_unwritten_extents_are_left_out() {
        let mut unwritten = extent(4, 2, 500);
        unwritten.unwritten = true;
        let extents = [extent(0, 2, 100), unwritten, extent(8, 1, 108)];
        let ranges = physical_ranges(&extents, 4096, u64::MAX, &[WHOLE_FILE]);
        assert_eq!(ranges, [range(0, 2, 100 * 4096), range(8, 1, 108 * 4096)]);
    }

    #[test]
    fn extents_that_continue_on_the_device_are_joined() {
        let extents = [extent(0, 2, 100), extent(2, 3, 102), extent(5, 1, 104)];
        let ranges = physical_ranges(&extents, 4096, u64::MAX, &[WHOLE_FILE]);
        assert_eq!(ranges, [range(0, 5, 100 * 4096), range(5, 1, 104 * 4096)]);
    }

    #[test]
    fn only_the_wanted_pages_up_to_the_end_of_the_file() {
        let extents = [extent(0, 100, 1000)];
        let ranges = physical_ranges(&extents, 4096, 50 * 4096 + 1, &[3..5, 49..60, 70..80]);
        assert_eq!(
            ranges,
            [range(3, 2, 1003 * 4096), range(49, 2, 1049 * 4096)]
        );
    }

    #[test]
    fn pages_in_pieces_stand_alone_at_their_first_piece() {
        // Page 0 in two pieces, of which the second goes on through pages 1 and 2; page 3 starts
        // with a hole.
        let extents = [extent(0, 2, 100), extent(2, 10, 200), extent(13, 7, 301)];
        let ranges = physical_ranges(&extents, 1024, u64::MAX, &[WHOLE_FILE]);
        let expected = [
            range(0, 1, 100 * 1024),
            range(1, 2, 202 * 1024),
            range(3, 1, 301 * 1024),
            range(4, 1, 304 * 1024),
        ];
        assert_eq!(ranges, expected);
    }

    #[test]
    fn pages_inside_large_blocks_have_their_own_place() {
        let extents = [extent(0, 1, 7), extent(1, 1, 3)];
        let wanted = 5..17;
        let ranges = physical_ranges(&extents, 65536, u64::MAX, std::slice::from_ref(&wanted));
        assert_eq!(
            ranges,
            [range(5, 11, 7 * 65536 + 5 * 4096), range(16, 1, 3 * 65536)]
        );
    }

    /// Extents in order, with holes, some unwritten.
    fn any_extents() -> impl Strategy<Value = Vec<FileExtent>> {
        let pieces = (0_u32..4, 1_u32..9, 1_u64..64, prop::bool::weighted(0.2));
        prop::collection::vec(pieces, 0..24).prop_map(|pieces| {
            let mut logical_block = 0;
            let place = |(hole, length_blocks, physical_block, unwritten)| {
                logical_block += hole;
                let extent = FileExtent {
                    logical_block,
                    length_blocks,
                    physical_block,
                    unwritten,
                };
                logical_block += length_blocks;
                extent
            };
            pieces.into_iter().map(place).collect()
        })
    }

    /// Where byte `at` of the file lies.
    fn place_of(extents: &[FileExtent], block_bytes: u64, at: u64) -> Option<u64> {
        let block = at / block_bytes;
        let extent = extents.iter().find(|e| {
            u64::from(e.logical_block) <= block && block < e.logical_end() && !e.unwritten
        })?;
        Some(
            extent.physical_block * block_bytes + at
                - u64::from(extent.logical_block) * block_bytes,
        )
    }

    proptest! {
        #[test]
        fn every_wanted_page_once_and_where_its_bytes_are(
            extents in any_extents(),
            log_block_size in 0_u32..5,
            size_bytes in 0_u64..1_000_000,
            start in 0_u64..100,
            length in 0_u64..200,
        ) {
            let block_bytes = 1024_u64 << log_block_size;
            let wanted = start..start + length;
            let pages = std::slice::from_ref(&wanted);
            let ranges = physical_ranges(&extents, 1024 << log_block_size, size_bytes, pages);
            let step = block_bytes.min(PAGE_BYTES);
            for page in 0..300 {
                let bytes: Vec<_> = (page * PAGE_BYTES..(page + 1) * PAGE_BYTES)
                    .step_by(step as usize)
                    .filter(|&at| at < size_bytes && wanted.contains(&page))
                    .map(|at| (at, place_of(&extents, block_bytes, at)))
                    .collect();
                let first = bytes.iter().find_map(|&(_, place)| place);
                let found: Vec<_> = ranges
                    .iter()
                    .filter(|r| (r.file_page..r.file_page + r.pages).contains(&page))
                    .collect();
                prop_assert_eq!(found.len(), usize::from(first.is_some()), "page {}", page);
                if let Some(range) = found.first() {
                    let offset = range.offset_bytes + (page - range.file_page) * PAGE_BYTES;
                    prop_assert_eq!(Some(offset), first);
                    if range.pages > 1 && page + 1 < range.file_page + range.pages {
                        let whole = bytes.iter().all(|&(at, place)| {
                            place == Some(offset + at % PAGE_BYTES)
                        });
                        prop_assert!(whole, "page {} is not whole", page);
                    }
                }
            }
        }
    }
}
