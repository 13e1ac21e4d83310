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

impl fmt::Display for Device {
    /// `8:1`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}
