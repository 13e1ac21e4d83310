// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parts of the device.

/// Gaps in metadata that are read through: about what a slow stick (1.2 ms a request, 25 MB/s)
/// transfers in the time of a request.
pub const READ_THROUGH_BYTES_MAX: u64 = 16 * 1024;

/// A part of the device, in bytes from the start of the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Extent {
    /// Where it starts.
    pub offset_bytes: u64,
    /// Length in bytes.
    pub length_bytes: u64,
}

impl Extent {
    /// The first byte after it, at most `u64::MAX`.
    #[must_use]
    pub const fn end_bytes(&self) -> u64 {
        self.offset_bytes.saturating_add(self.length_bytes)
    }
}

/// Sorts by offset and joins extents that overlap, touch, or are at most `gap_bytes_max` apart.
///
/// A gap of some blocks is worth reading through on a disk with a head, because a separate request
/// costs more than the transfer.
#[must_use]
pub fn merge_extents(mut extents: Vec<Extent>, gap_bytes_max: u64) -> Vec<Extent> {
    extents.retain(|extent| extent.length_bytes > 0);
    extents.sort_unstable();
    extents.dedup_by(|next, last| {
        let joins = next.offset_bytes <= last.end_bytes().saturating_add(gap_bytes_max);
        if joins {
            let end_bytes = last.end_bytes().max(next.end_bytes());
            last.length_bytes = end_bytes - last.offset_bytes;
        }
        joins
    });
    extents
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn extent(offset_bytes: u64, length_bytes: u64) -> Extent {
        Extent {
            offset_bytes,
            length_bytes,
        }
    }

    #[test]
    fn joins_what_overlaps_or_touches_and_keeps_the_rest() {
        let merged = merge_extents(
            vec![
                extent(100, 10),
                extent(0, 20),
                extent(20, 5),
                extent(22, 1),
                extent(200, 0),
            ],
            0,
        );
        assert_eq!(merged, [extent(0, 25), extent(100, 10)]);
    }

    #[test]
    fn joins_over_a_gap_up_to_the_limit() {
        let extents = vec![extent(0, 10), extent(20, 10), extent(41, 10)];
        assert_eq!(merge_extents(extents, 10), [extent(0, 30), extent(41, 10)]);
    }

    proptest! {
        #[test]
        fn covers_the_same_bytes_in_order(
            pairs in prop::collection::vec((0_u64..200, 0_u64..20), 0..40),
        ) {
            let covered = |extents: &[Extent], byte: u64| {
                extents.iter().any(|e| e.offset_bytes <= byte && byte < e.end_bytes())
            };
            let extents: Vec<_> = pairs.iter().map(|&(at, length)| extent(at, length)).collect();
            let merged = merge_extents(extents.clone(), 0);
            for byte in 0..230 {
                prop_assert_eq!(covered(&extents, byte), covered(&merged, byte));
            }
            prop_assert!(merged.windows(2).all(|w| w[0].end_bytes() < w[1].offset_bytes));
        }

        #[test]
        fn never_overflows(
            pairs in prop::collection::vec((any::<u64>(), any::<u64>()), 0..20),
            gap in any::<u64>(),
        ) {
            let extents = pairs.iter().map(|&(at, length)| extent(at, length)).collect();
            let merged = merge_extents(extents, gap);
            prop_assert!(merged.is_sorted());
        }
    }
}
