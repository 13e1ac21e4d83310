// SPDX-License-Identifier: MIT OR Apache-2.0
//! One access, as the kernel's programs tell it.

/// How a file was accessed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccessKind {
    /// Pages that a read asks for; more of the same read may follow.
    #[default]
    Read,
    /// A call that has returned: these bytes.
    ReadCall,
    /// A fault, before its wait.
    Fault,
    /// Pages mapped around a fault, from its page on where that is known.
    Mapped,
    /// No access: the thread ends.
    Exit,
    /// Pages of a block device are brought in, before their wait.
    Metadata,
    /// No access: a call that has waited for no data returns.
    Call,
    /// A file was opened.
    Open,
    /// Advice was given.
    Advice,
    /// A block of metadata that isn't read yet is asked for, in its page.
    Block,
}

impl AccessKind {
    /// Whether it is about a block device's own pages.
    #[must_use]
    pub const fn is_metadata(self) -> bool {
        matches!(self, Self::Metadata | Self::Block)
    }
}

/// Bits of what is known of the mapping that a fault is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MappingBits(pub u32);

impl MappingBits {
    /// The other bits are valid, and the page is the one that faulted.
    pub const KNOWN: u32 = 1;
    /// It is to be executed.
    pub const EXEC: u32 = 1 << 1;
    /// It was advised to be sequential.
    pub const SEQUENTIAL: u32 = 1 << 2;
    /// It was advised to be random.
    pub const RANDOM: u32 = 1 << 3;

    /// Whether this bit is set.
    #[must_use]
    pub const fn has(self, bit: u32) -> bool {
        self.0 & bit != 0
    }
}

/// One access of a thread, or the end of what it waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessRecord {
    /// How the file was accessed.
    pub kind: AccessKind,
    /// Number of the file's node; 0 of none.
    pub id: u32,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// The thread that started it.
    pub parent_tid: u32,
    /// When, from the start of the program.
    pub time_ns: u64,
    /// First byte.
    pub start_bytes: u64,
    /// How many bytes.
    pub length_bytes: u64,
    /// Tells open files apart; 0 when not known.
    pub file: u64,
    /// Size of the file.
    pub size_bytes: u64,
    /// How long the thread waited for reads since its record before.
    pub waited_ns: u64,
    /// The first of these waits.
    pub first_waited_ns: u64,
    /// Name of the thread.
    pub name: Vec<u8>,
    /// How many bytes a call asked for; 0 when not known.
    pub asked_bytes: u64,
    /// Bytes of the file that the mapping of a fault covers: the first, and the one behind.
    pub map_bytes: (u64, u64),
    /// Further bits about that mapping.
    pub mapping: MappingBits,
    /// As for `posix_fadvise`.
    pub advice: u32,
    /// Block device of metadata: 12 bits major, 20 bits minor.
    pub device: u32,
}
