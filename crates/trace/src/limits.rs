// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits of a trace's content.
//!
//! Accesses are not limited: they stream. Files and threads, which must be kept meanwhile, are
//! limited, and every limit holds in writers and readers alike. So no trace takes more memory than
//! this, whatever its origin.

/// Most files in a trace, and the first id that no file has.
pub const FILES_MAX: u32 = 1 << 20;

/// Most threads in a trace, and the first id that no thread has.
pub const THREADS_MAX: u32 = 1 << 20;

/// Longest path of a file or name of a thread, in bytes: the kernel's `PATH_MAX`.
pub const PATH_BYTES_MAX: usize = 4096;

/// Most bytes of all paths and names together.
pub const NAMES_BYTES_MAX: u64 = 1 << 26;

/// Most extents of all files together.
pub const EXTENTS_MAX: u64 = 1 << 20;

/// Longest text in a header, in bytes.
pub const TEXT_BYTES_MAX: usize = 4096;

/// Most arguments that are kept of a command line.
pub const ARGUMENTS_MAX: usize = 1024;

/// Most bytes that are kept of a command line.
pub const ARGUMENTS_BYTES_MAX: usize = 1 << 16;

/// First offset that no file has: the largest one in the kernel is `i64::MAX`.
pub const OFFSET_BYTES_MAX: u64 = 1 << 63;
