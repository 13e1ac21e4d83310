// SPDX-License-Identifier: MIT OR Apache-2.0
//! Free space of a file system, and where in it something of a size fits.

use foreread_prefetch::ext4::{Extent, merge_extents};

/// Free runs, in order of the device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FreeSpace {
    runs: Vec<Extent>,
}

impl FreeSpace {
    /// From free extents in any order. Bytes that don't fill a block are left out.
    #[must_use]
    pub fn new(extents: Vec<Extent>, block_bytes: u64) -> Self {
        let block_bytes = block_bytes.max(1);
        let whole_blocks = |extent: Extent| {
            let start = extent.offset_bytes.div_ceil(block_bytes) * block_bytes;
            let end = extent.end_bytes() / block_bytes * block_bytes;
            (start < end).then(|| Extent {
                offset_bytes: start,
                length_bytes: end - start,
            })
        };
        let merged = merge_extents(extents, 0);
        Self {
            runs: merged.into_iter().filter_map(whole_blocks).collect(),
        }
    }

    /// The free runs, in order of the device.
    #[must_use]
    pub fn runs(&self) -> &[Extent] {
        &self.runs
    }

    /// Bytes of all runs.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let lengths = self.runs.iter().map(|run| run.length_bytes);
        lengths.fold(0, u64::saturating_add)
    }

    /// The fewest runs that hold so many bytes, the largest first taken, in order of the device;
    /// `None` when all of them hold less.
    #[must_use]
    pub fn largest(&self, bytes: u64) -> Option<Vec<Extent>> {
        let mut by_size = self.runs.clone();
        by_size.sort_unstable_by_key(|run| (u64::MAX - run.length_bytes, run.offset_bytes));
        let mut taken = Vec::new();
        let mut held_bytes = 0u64;
        for run in by_size {
            if held_bytes >= bytes {
                break;
            }
            held_bytes = held_bytes.saturating_add(run.length_bytes);
            taken.push(run);
        }
        taken.sort_unstable();
        (held_bytes >= bytes).then_some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(offset_bytes: u64, length_bytes: u64) -> Extent {
        Extent {
            offset_bytes,
            length_bytes,
        }
    }

    #[test]
    fn only_whole_blocks_are_free() {
        let space = FreeSpace::new(
            vec![extent(4000, 200), extent(8000, 9000), extent(1, 9)],
            4096,
        );
        assert_eq!(space.runs(), [extent(8192, 8192)]);
        assert_eq!(space.bytes(), 8192);
    }

    #[test]
    fn the_largest_runs_are_taken_and_no_more_of_them() {
        let space = FreeSpace::new(vec![extent(0, 10), extent(20, 30), extent(60, 20)], 1);
        assert_eq!(space.largest(30), Some(vec![extent(20, 30)]));
        assert_eq!(
            space.largest(31),
            Some(vec![extent(20, 30), extent(60, 20)])
        );
        assert_eq!(space.largest(61), None);
        assert_eq!(space.largest(0), Some(Vec::new()));
    }
}
