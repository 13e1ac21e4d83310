// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a file's flags say against moving it.

use foreread_layout::Obstacle;
use foreread_prefetch::ext4::InodeFlags;

/// The first reason not to move a file with these flags. `has_extents` is whether all files of its
/// file system have extents, whatever their flags say (as on XFS).
pub(crate) fn of_flags(flags: InodeFlags, has_extents: bool) -> Option<Obstacle> {
    let has = |flag| flags.contains(flag);
    let reasons = [
        (
            has(InodeFlags::IMMUTABLE) || has(InodeFlags::APPEND),
            Obstacle::Immutable,
        ),
        (has(InodeFlags::INLINE_DATA), Obstacle::Inline),
        (has(InodeFlags::ENCRYPT), Obstacle::Encrypted),
        (has(InodeFlags::VERITY), Obstacle::Verity),
        (has(InodeFlags::DAX), Obstacle::Dax),
        (has(InodeFlags::JOURNAL_DATA), Obstacle::JournalledData),
        (
            !has_extents && !has(InodeFlags::EXTENTS),
            Obstacle::NoExtents,
        ),
    ];
    let found = reasons.into_iter().find(|(is_so, _)| *is_so);
    found.map(|(_, obstacle)| obstacle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_file_can_be_moved_and_each_flag_speaks_against_it() {
        let extents = InodeFlags::EXTENTS.0;
        assert_eq!(of_flags(InodeFlags(extents), false), None);
        assert_eq!(of_flags(InodeFlags(0), true), None);
        let cases = [
            (0, Obstacle::NoExtents),
            (extents | 0x10, Obstacle::Immutable),
            (extents | 0x20, Obstacle::Immutable),
            (extents | 0x800, Obstacle::Encrypted),
            (extents | 0x4000, Obstacle::JournalledData),
            (extents | 0x10_0000, Obstacle::Verity),
            (extents | 0x200_0000, Obstacle::Dax),
            (0x1000_0000, Obstacle::Inline),
        ];
        for (flags, obstacle) in cases {
            assert_eq!(of_flags(InodeFlags(flags), false), Some(obstacle));
        }
    }
}
