// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits of a profile's content.
//!
//! Every limit holds in the builder, in the merge and in the decoder alike, so each accepts the
//! profiles of the others. They are far above the needs of real programs (a boot uses some 20,000
//! files). Because of them, neither a hostile file nor years of merging can exhaust the memory of
//! the machine.

/// Longest name of one path component, in bytes: the kernel's `NAME_MAX`.
pub const NAME_BYTES_MAX: usize = 255;

/// Longest path, in bytes: the kernel's `PATH_MAX`.
pub const PATH_BYTES_MAX: usize = 4096;

/// Most nodes in a profile.
pub const NODES_MAX: usize = 1 << 19;

/// Most page ranges in a profile.
pub const RANGES_MAX: usize = 1 << 20;

/// Most bytes of names in a profile.
pub const NAMES_BYTES_MAX: usize = 1 << 24;

/// Most mounts in a profile.
pub const MOUNTS_MAX: usize = 256;

/// Most parts of a boot.
pub const PHASES_MAX: usize = 4;

/// Most control groups in a profile.
pub const UNITS_MAX: usize = 4096;

/// Most block devices in a profile.
pub const DEVICES_MAX: usize = 64;

/// Most ranges of all its block devices together.
pub const DEVICE_RANGES_MAX: usize = 1 << 16;

/// Most pages of all its block devices together: 256 MiB.
pub const DEVICE_PAGES_MAX: u64 = 1 << 16;

/// Longest string about the program, the machine or a mount, in bytes.
pub const TEXT_BYTES_MAX: usize = 4096;

/// Most arguments that are kept of a command line.
pub const ARGUMENTS_MAX: usize = 1024;

/// Most bytes that are kept of a command line.
pub const ARGUMENTS_BYTES_MAX: usize = 1 << 16;

/// Most scripts of a program.
pub const SCRIPTS_MAX: usize = 16;

/// First page that no file can have: the largest file offset is `i64::MAX`.
pub const PAGE_END_MAX: u64 = 1 << 51;
