// SPDX-License-Identifier: MIT OR Apache-2.0
//! The origin of the present value. The kernel keeps no record, so this is an origin that would
//! have given just this value.

use std::fmt;

use crate::class::Class;
use crate::facts::Device;
use crate::others::{Meant, OtherSetting, OtherValue, Setter};

/// The kernel's default where nothing says otherwise, in KiB.
const KERNEL_DEFAULT_KIB: u64 = 128;
/// The least readahead of btrfs, in KiB.
const BTRFS_KIB: u64 = 4096;

/// Where the present value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// It can't be read.
    Unreadable,
    /// Somebody else set it, at this place.
    Other {
        /// Who.
        setter: Setter,
        /// Where it says so.
        place: String,
        /// Whether it is meant for this device for certain.
        is_certain: bool,
    },
    /// The kernel's default.
    KernelDefault,
    /// The kernel took twice the request that the device likes best.
    TwiceOptimal,
    /// The kernel took twice the largest request, as the device says that it rotates (Linux 6.17).
    TwiceLargest,
    /// The file system took it.
    FileSystem,
    /// None of these: by hand, by a program, or while the device was another one.
    Unknown,
}

impl Source {
    /// The origin of a device's value, given the other settings of readahead on this machine.
    #[must_use]
    pub fn of(device: &Device, others: &[OtherSetting]) -> Self {
        let Some(now_kib) = device.read_ahead_kib else {
            return Self::Unreadable;
        };
        Self::by_others(device, now_kib, others).unwrap_or_else(|| Self::by_kernel(device, now_kib))
    }

    /// The last one wins, and a certain one over one that may be meant.
    fn by_others(device: &Device, now_kib: u64, others: &[OtherSetting]) -> Option<Self> {
        let would_give = |other: &&OtherSetting| {
            matches!(other.value, OtherValue::Kib(kib) | OtherValue::AtLeastKib(kib)
                if kib == now_kib)
        };
        let meant = others
            .iter()
            .filter(would_give)
            .map(|other| (other.meant_for(device), other));
        let (meant, other) = meant
            .filter(|(meant, _)| *meant != Meant::No)
            .max_by_key(|(meant, _)| *meant)?;
        Some(Self::Other {
            setter: other.setter,
            place: other.place.clone(),
            is_certain: meant == Meant::Yes,
        })
    }

    fn by_kernel(device: &Device, now_kib: u64) -> Self {
        if let Some(block) = device.block() {
            // The kernel counts pages, so that a part of one is lost.
            let twice = |bytes: u64| bytes.saturating_mul(2) / 4096 * 4;
            if block
                .io_opt_bytes
                .is_some_and(|bytes| twice(bytes) == now_kib)
            {
                return Self::TwiceOptimal;
            }
            let largest_bytes = block.max_sectors_kib.unwrap_or(0).saturating_mul(1024);
            let takes_largest = block.rotational == Some(true) && block.io_opt_bytes.is_none();
            // A setting never sinks, so a largest request below the default leaves that.
            if takes_largest && now_kib > KERNEL_DEFAULT_KIB && twice(largest_bytes) == now_kib {
                return Self::TwiceLargest;
            }
        } else if Class::of(device) == Class::Btrfs && now_kib.is_multiple_of(BTRFS_KIB) {
            return Self::FileSystem;
        } else if Class::of(device) != Class::Nfs && now_kib != KERNEL_DEFAULT_KIB {
            // FUSE, SMB, ceph and 9p agree on it with their server when they are mounted.
            return Self::FileSystem;
        }
        if now_kib == KERNEL_DEFAULT_KIB {
            Self::KernelDefault
        } else {
            Self::Unknown
        }
    }

    /// In a word or two, for a table.
    #[must_use]
    pub fn brief(&self) -> &'static str {
        match self {
            Self::Unreadable => "-",
            Self::Other { setter, .. } => setter.name(),
            Self::KernelDefault => "kernel",
            Self::TwiceOptimal => "2 x optimal",
            Self::TwiceLargest => "2 x largest",
            Self::FileSystem => "file system",
            Self::Unknown => "by hand?",
        }
    }

    /// The name in documents.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Unreadable => "unreadable",
            Self::Other { setter, .. } => match setter {
                Setter::Udev => "udev",
                Setter::Tuned => "tuned",
                Setter::NfsRahead => "nfsrahead",
                Setter::Fstab => "fstab",
            },
            Self::KernelDefault => "kernel-default",
            Self::TwiceOptimal => "twice-optimal-request",
            Self::TwiceLargest => "twice-largest-request",
            Self::FileSystem => "file-system",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Source {
    /// As the rest of a sentence that begins with the value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable => f.write_str("which can't be read"),
            Self::Other {
                setter,
                place,
                is_certain,
            } => {
                let perhaps = if *is_certain { "" } else { "perhaps " };
                write!(f, "set by {perhaps}a {} ({place})", setter.name())
            }
            Self::KernelDefault => f.write_str("the kernel's default"),
            Self::TwiceOptimal => {
                f.write_str("the kernel's choice: twice the request that the device likes best")
            }
            Self::TwiceLargest => f.write_str(
                "the kernel's choice since Linux 6.17 for a device that says that it rotates: twice \
                 its largest request",
            ),
            Self::FileSystem => f.write_str("taken by the file system when it was mounted"),
            Self::Unknown => f.write_str(
                "of unknown origin: set by hand, or by something that left no trace here",
            ),
        }
    }
}
