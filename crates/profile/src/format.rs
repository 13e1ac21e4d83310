// SPDX-License-Identifier: MIT OR Apache-2.0
//! Constants of the stored form; `docs/profile-format.md` describes them.

/// First bytes of every profile.
pub const MAGIC: [u8; 8] = *b"FRPROFIL";

/// The version that this code writes, and the newest that it reads.
pub const VERSION: u16 = 1;

/// Length of the header, in every version.
pub const HEADER_BYTES: usize = 32;

/// How the payload is stored.
pub mod method {
    /// As it is.
    pub const PLAIN: u16 = 0;
    /// One zstd frame.
    pub const ZSTD: u16 = 1;
}

/// A payload is never larger than this, whatever the header says. Nodes, ranges and names at their
/// limits, each number at its longest, stay below it.
pub const PAYLOAD_BYTES_MAX: usize = 96 << 20;

/// A payload is at most this many times its stored form. Real profiles compress 2 to 4 times; the
/// writer stores a payload that would compress more than this as it is.
pub const RATIO_MAX: usize = 256;

/// Sections of the payload.
pub mod section {
    /// The program.
    pub const PROGRAM: u8 = 1;
    /// The source.
    pub const SOURCE: u8 = 2;
    /// The mounts.
    pub const MOUNTS: u8 = 3;
    /// The nodes, without their names.
    pub const NODES: u8 = 4;
    /// The names of the nodes.
    pub const NAMES: u8 = 5;
    /// The page ranges.
    pub const RANGES: u8 = 6;
    /// The runs.
    pub const RUNS: u8 = 7;
    /// Added to the tag of a section that a reader may skip when it doesn't know it.
    pub const OPTIONAL: u8 = 0x80;
    /// The scripts of the program, if there are any.
    pub const SCRIPTS: u8 = OPTIONAL | 1;
    /// Empty; there if the program went elsewhere in the last replayed run.
    pub const ASTRAY: u8 = OPTIONAL | 2;
    /// Phases and control groups, of a boot.
    pub const BOOT: u8 = OPTIONAL | 3;
    /// Pages of block devices, if there are any.
    pub const DEVICES: u8 = OPTIONAL | 4;
}

/// Fewest bytes that a node takes in its section: one in each of its eleven columns.
pub const NODE_BYTES_MIN: usize = 11;
/// Fewest bytes that a range takes in its section: one in each of its four columns.
pub const RANGE_BYTES_MIN: usize = 4;
/// Fewest bytes that a run takes in its section.
pub const RUN_BYTES_MIN: usize = 5;
/// Fewest bytes that a mount takes in its section.
pub const MOUNT_BYTES_MIN: usize = 4;

/// Fewest bytes that a phase takes in its section.
pub const PHASE_BYTES_MIN: usize = 2;

/// Fewest bytes that a script takes in its section.
pub const SCRIPT_BYTES_MIN: usize = 6;

/// Which optional fields of a run are there.
pub mod run_has {
    /// `stall_ns`.
    pub const STALL: u8 = 1;
    /// `cached_before_permille`.
    pub const CACHED_BEFORE: u8 = 1 << 1;
    /// `missed_pages`.
    pub const MISSED: u8 = 1 << 2;
    /// `used_on_time_pages`.
    pub const USED_ON_TIME: u8 = 1 << 3;
    /// `used_late_pages`.
    pub const USED_LATE: u8 = 1 << 4;
    /// All of them.
    pub const ALL: u8 = STALL | CACHED_BEFORE | MISSED | USED_ON_TIME | USED_LATE;
}
