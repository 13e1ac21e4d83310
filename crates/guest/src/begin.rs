// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where foreread begins in a boot: the name of each way, for command lines and tables.

/// Where foreread begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Begin {
    /// With a unit of systemd.
    Unit,
    /// In an initramfs of initramfs-tools.
    Initramfs,
    /// In one of dracut, which the system `small` has.
    Dracut,
}

impl Begin {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unit => "unit",
            Self::Initramfs => "initramfs",
            Self::Dracut => "dracut",
        }
    }
}
