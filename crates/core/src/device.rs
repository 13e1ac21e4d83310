// SPDX-License-Identifier: MIT OR Apache-2.0
//! The number by which the kernel knows a device: files, accounts and streams are told apart by it.

use std::fmt;

/// Number of a block device, or of a file system without one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Device {
    /// 12 bits.
    pub major: u32,
    /// 20 bits.
    pub minor: u32,
}

impl Device {
    /// Of a number as the kernel keeps it: the major in the upper 12 bits, the minor in 20 bits.
    #[must_use]
    pub const fn from_kernel(number: u32) -> Self {
        Self {
            major: number >> 20,
            minor: number & 0xf_ffff,
        }
    }

    /// The number as the kernel keeps it. Bits that it has no room for are lost.
    #[must_use]
    pub const fn to_kernel(self) -> u32 {
        self.major << 20 | self.minor & 0xf_ffff
    }

    /// The number that `stat` gives to programs, in `st_dev` and `st_rdev`.
    #[must_use]
    pub const fn to_stat(self) -> u64 {
        let (major, minor) = (self.major as u64, self.minor as u64);
        (major & 0xffff_f000) << 32
            | (major & 0xfff) << 8
            | (minor & 0xffff_ff00) << 12
            | minor & 0xff
    }
}

impl fmt::Display for Device {
    /// `8:1`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_kernel_and_of_stat_are_laid_out_differently() {
        let device = Device {
            major: 259,
            minor: 0x1_2345,
        };
        assert_eq!(Device::from_kernel(device.to_kernel()), device);
        assert_eq!(device.to_kernel(), 0x1031_2345);
        assert_eq!(device.to_stat(), 0x1231_0345);
    }
}
