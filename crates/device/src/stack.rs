// SPDX-License-Identifier: MIT OR Apache-2.0
//! The size that suits a device made of others. It can't do better than its members. A striped one
//! only does as well when a window keeps all of its disks busy.

use foreread_core::grouped;

use crate::class::Reading;
use crate::facts::{Block, Device, DeviceKind, MapperMaker, Stack};

/// Windows of a stripe: while one is used, the next is read from all disks.
const STRIPES: u64 = 2;

/// How a device spreads its data over its members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// One after the other, or the same on each: a stream reads from one at a time.
    One,
    /// In stripes.
    Striped {
        /// Data in a stripe, in bytes, without parity; `None` where it can't be read.
        stripe_bytes: Option<u64>,
        /// Disks that a stripe lies on, without parity.
        disks: u64,
    },
}

/// The size that follows from the members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Combined {
    /// The size in KiB.
    pub kib: u64,
    /// In a few words.
    pub brief: String,
    /// As a sentence without its end.
    pub why: String,
    /// Whether it is the size that suits one member.
    pub is_as_member: bool,
}

/// How a device is spread over its members.
#[must_use]
pub fn spread(device: &Device) -> Spread {
    let members = device.members.len() as u64;
    let Some(block) = device.block() else {
        return Spread::One;
    };
    match &block.stack {
        Stack::Raid {
            level,
            chunk_bytes,
            disks,
        } => raid(level, *chunk_bytes, disks.map_or(members, u64::from)),
        Stack::Mapper { maker, .. } if *maker != MapperMaker::Multipath && members > 1 => {
            mapped_stripes(block, members)
        }
        _ => Spread::One,
    }
}

fn raid(level: &str, chunk_bytes: Option<u64>, disks: u64) -> Spread {
    let data = match level {
        "raid0" => disks,
        "raid4" | "raid5" => disks.saturating_sub(1),
        "raid6" => disks.saturating_sub(2),
        // Each chunk is there twice.
        "raid10" => disks / 2,
        _ => return Spread::One,
    };
    if data < 2 {
        return Spread::One;
    }
    Spread::Striped {
        stripe_bytes: chunk_bytes.and_then(|chunk| chunk.checked_mul(data)),
        disks: data,
    }
}

/// Stripes are told from volumes that go on on another disk by their requests alone: a striped one
/// likes a chunk at least and a stripe best.
fn mapped_stripes(block: &Block, members: u64) -> Spread {
    let (Some(chunk), Some(stripe)) = (block.io_min_bytes, block.io_opt_bytes) else {
        return Spread::One;
    };
    let disks = stripe / chunk.max(1);
    if disks < 2 || disks > members {
        return Spread::One;
    }
    Spread::Striped {
        stripe_bytes: Some(stripe),
        disks,
    }
}

/// The size that suits a device whose members are suited by these sizes, in KiB; `None` without
/// any.
#[must_use]
pub fn combined(device: &Device, members_kib: &[u64], reading: Reading) -> Option<Combined> {
    let largest = members_kib.iter().copied().max()?;
    let is_small = matches!(reading, Reading::Mapped | Reading::Random);
    if let Spread::Striped {
        stripe_bytes,
        disks,
    } = spread(device)
        && !is_small
    {
        return Some(striped(largest, stripe_bytes, disks));
    }
    let (brief, why) = match &device.kind {
        DeviceKind::Block(block) => below(block),
        DeviceKind::Mount(_) => ("its disk", "as the disk under it".to_owned()),
    };
    Some(Combined {
        kib: largest,
        brief: brief.to_owned(),
        why,
        is_as_member: true,
    })
}

fn striped(member_kib: u64, stripe_bytes: Option<u64>, disks: u64) -> Combined {
    let all = member_kib.saturating_mul(disks);
    let stripes = stripe_bytes.map_or(0, |bytes| (bytes / 1024).saturating_mul(STRIPES));
    if stripes > all {
        let stripe_kib = grouped(stripes / STRIPES);
        return Combined {
            kib: stripes,
            brief: format!("{STRIPES} stripes of {disks} disks"),
            why: format!(
                "two stripes of {stripe_kib} KiB, so that all {disks} disks read the next one \
                 while one is used, as the kernel does"
            ),
            is_as_member: false,
        };
    }
    Combined {
        kib: all,
        brief: format!("{disks} x its disks"),
        why: format!(
            "a window lies on {disks} disks, and each of them gets the {} KiB that suit it",
            grouped(member_kib)
        ),
        is_as_member: false,
    }
}

fn below(block: &Block) -> (&'static str, String) {
    match &block.stack {
        Stack::Mapper {
            maker: MapperMaker::Multipath,
            ..
        } => (
            "its disk, many paths",
            "as one of its paths: all of them lead to the same disk".to_owned(),
        ),
        Stack::Loop { .. } => (
            "its file's device",
            "as the device that holds its file".to_owned(),
        ),
        Stack::Raid { level, .. } => (
            "its disks",
            format!("as the best of its disks: a stream reads from one at a time ({level})"),
        ),
        _ => ("its disk", "as what it lies on".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parity_holds_no_data() {
        let of = |level: &str, disks| match raid(level, Some(512 << 10), disks) {
            Spread::Striped {
                stripe_bytes,
                disks,
            } => (stripe_bytes.unwrap_or(0) >> 10, disks),
            Spread::One => (0, 1),
        };
        assert_eq!(of("raid0", 4), (2048, 4));
        assert_eq!(of("raid5", 4), (1536, 3));
        assert_eq!(of("raid6", 4), (1024, 2));
        assert_eq!(of("raid10", 4), (1024, 2));
        assert_eq!(of("raid1", 4), (0, 1));
        assert_eq!(of("raid5", 2), (0, 1));
        assert_eq!(of("raid6", 0), (0, 1));
        assert!(matches!(
            raid("raid0", Some(u64::MAX), 9),
            Spread::Striped {
                stripe_bytes: None,
                disks: 9
            }
        ));
    }

    #[test]
    fn a_window_keeps_all_disks_busy() {
        assert_eq!(striped(512, Some(1 << 20), 2).kib, 2048);
        assert_eq!(striped(1024, Some(128 << 10), 2).kib, 2048);
        assert_eq!(striped(1024, None, 6).kib, 6144);
    }

    #[test]
    fn volumes_that_go_on_elsewhere_are_no_stripes() {
        let block = |io_min_bytes, io_opt_bytes| Block {
            io_min_bytes,
            io_opt_bytes,
            ..Block::default()
        };
        assert_eq!(mapped_stripes(&block(Some(512), None), 2), Spread::One);
        assert_eq!(
            mapped_stripes(&block(Some(4096), Some(33_553_920)), 2),
            Spread::One
        );
        assert_eq!(
            mapped_stripes(&block(Some(65_536), Some(131_072)), 3),
            Spread::Striped {
                stripe_bytes: Some(131_072),
                disks: 2
            }
        );
    }
}
