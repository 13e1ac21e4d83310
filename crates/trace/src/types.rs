// SPDX-License-Identifier: MIT OR Apache-2.0
//! Types of a trace: a header, then events.
//!
//! Files and threads have ids, defined by an event before their first use; an id is never defined
//! twice. Ids need not be dense, but are below [`FILES_MAX`](crate::limits::FILES_MAX) and
//! [`THREADS_MAX`](crate::limits::THREADS_MAX).

use std::fmt;

/// A file of the trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u32);

/// A thread of the trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadId(pub u32);

/// Properties of a whole trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Page size of the machine that was traced, in bytes: a power of two, 512 to 1 MiB.
    pub page_bytes: u32,
    /// Where the accesses come from.
    pub source: Source,
    /// The meaning of an access's time.
    pub time_is: TimeIs,
    /// Wall clock at time 0, in nanoseconds since 1970; `None` when the source doesn't say.
    pub started_unix_ns: Option<u64>,
    /// Command line of the traced program; empty when not known.
    pub command: Vec<Vec<u8>>,
    /// Kernel release of the machine; empty when not known.
    pub kernel: Vec<u8>,
}

impl Header {
    /// A header with nothing but the source of the trace and the meaning of its times.
    #[must_use]
    pub fn new(source: Source, time_is: TimeIs) -> Self {
        Self {
            page_bytes: 4096,
            source,
            time_is,
            started_unix_ns: None,
            command: Vec::new(),
            kernel: Vec::new(),
        }
    }
}

/// Where accesses come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Source {
    /// Recorded by Foreread.
    Recorded = 0,
    /// fio's iolog, version 2.
    FioIologV2 = 1,
    /// fio's iolog, version 3.
    FioIologV3 = 2,
    /// The output of `strace`.
    Strace = 3,
    /// The output of `blkparse`.
    Blkparse = 4,
    /// The access log of JuiceFS.
    JuiceFs = 5,
    /// libCacheSim's oracleGeneral.
    OracleGeneral = 6,
}

impl Source {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 7] = [
        Self::Recorded,
        Self::FioIologV2,
        Self::FioIologV3,
        Self::Strace,
        Self::Blkparse,
        Self::JuiceFs,
        Self::OracleGeneral,
    ];

    /// For people and for programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Recorded => "recorded",
            Self::FioIologV2 => "fio-iolog-v2",
            Self::FioIologV3 => "fio-iolog-v3",
            Self::Strace => "strace",
            Self::Blkparse => "blkparse",
            Self::JuiceFs => "juicefs",
            Self::OracleGeneral => "oracle-general",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The meaning of an access's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum TimeIs {
    /// When it returned.
    Returned = 0,
    /// When it began.
    Began = 1,
    /// The source has no times; only the order means something.
    Order = 2,
}

impl TimeIs {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Returned, Self::Began, Self::Order];

    /// For people and for programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Returned => "returned",
            Self::Began => "began",
            Self::Order => "order",
        }
    }
}

/// A file, or whatever else has offsets: a device, an address space of objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct File {
    /// Its path as the source names it, at most 4096 bytes.
    pub path: Vec<u8>,
    /// Its size; `None` when the source doesn't say.
    pub size_bytes: Option<u64>,
    /// Device number of its file system, as in `stat`; 0 when not known.
    pub device: u64,
    /// Inode number; 0 when not known.
    pub inode: u64,
    /// A block device's own pages, in which a file system keeps directories and inode tables.
    pub metadata: bool,
}

/// Where a part of a file is on its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First byte in the file.
    pub logical_bytes: u64,
    /// First byte on the device.
    pub physical_bytes: u64,
    /// Length, at least 1.
    pub length_bytes: u64,
}

/// A thread; the first of its process has `tid == pid`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    /// Process number; 0 when not known.
    pub pid: u32,
    /// Thread number; 0 when not known.
    pub tid: u32,
    /// The thread that started it, when that is in the trace.
    pub parent: Option<ThreadId>,
    /// Its name (comm), or that of its program; empty when not known.
    pub name: Vec<u8>,
}

/// The kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Bytes were read, by read(2) and its kin.
    Read = 0,
    /// A page of a mapping was asked for by a fault.
    Fault = 1,
    /// Cached pages were mapped around a fault, without faults of their own.
    MapAround = 2,
    /// The program asked for readahead: readahead(2), `POSIX_FADV_WILLNEED`, `MADV_WILLNEED`.
    Readahead = 3,
    /// The file was opened; begins its stream.
    Open = 4,
    /// The last descriptor of a stream was closed.
    Close = 5,
    /// A part of the file was mapped. Which pages were touched through it, other accesses say.
    Map = 6,
    /// Advice: no special pattern.
    AdviseNormal = 7,
    /// Advice: sequential.
    AdviseSequential = 8,
    /// Advice: random.
    AdviseRandom = 9,
    /// Advice: not needed any more, which drops cached pages.
    AdviseDontNeed = 10,
}

impl Kind {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 11] = [
        Self::Read,
        Self::Fault,
        Self::MapAround,
        Self::Readahead,
        Self::Open,
        Self::Close,
        Self::Map,
        Self::AdviseNormal,
        Self::AdviseSequential,
        Self::AdviseRandom,
        Self::AdviseDontNeed,
    ];

    /// For people and for programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Fault => "fault",
            Self::MapAround => "map-around",
            Self::Readahead => "readahead",
            Self::Open => "open",
            Self::Close => "close",
            Self::Map => "map",
            Self::AdviseNormal => "advise-normal",
            Self::AdviseSequential => "advise-sequential",
            Self::AdviseRandom => "advise-random",
            Self::AdviseDontNeed => "advise-dont-need",
        }
    }

    /// Whether a program used the pages: a read, or a touch through a mapping.
    #[must_use]
    pub const fn uses_pages(self) -> bool {
        matches!(self, Self::Read | Self::Fault | Self::MapAround)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Further properties of an access, as a set of bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// Its stream or mapping was advised to be sequential.
    pub const SEQUENTIAL: Self = Self(1);
    /// Its stream or mapping was advised to be random.
    pub const RANDOM: Self = Self(1 << 1);
    /// Past the page cache (`O_DIRECT`).
    pub const DIRECT: Self = Self(1 << 2);
    /// A request that readahead made, not a program; only traces of block devices have it.
    pub const AHEAD: Self = Self(1 << 3);
    /// A request for metadata; only traces of block devices have it.
    pub const METADATA: Self = Self(1 << 4);
    /// An executable mapping, which is read ahead within its bounds only.
    pub const EXEC: Self = Self(1 << 5);
    /// All of them.
    pub const ALL: Self = Self(0x3f);

    /// Each with its name, for people and for programs.
    pub const NAMES: [(Self, &'static str); 6] = [
        (Self::SEQUENTIAL, "sequential"),
        (Self::RANDOM, "random"),
        (Self::DIRECT, "direct"),
        (Self::AHEAD, "ahead"),
        (Self::METADATA, "metadata"),
        (Self::EXEC, "exec"),
    ];

    /// Both sets together.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of `other` is in this set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// One access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Time since the start of the trace; [`Header::time_is`] tells its meaning.
    pub time_ns: u64,
    /// The thread that makes the access.
    pub thread: ThreadId,
    /// The file.
    pub file: FileId,
    /// Number, within the trace and from 1, of the open through which the file is accessed. An open
    /// is the kernel's `struct file`, which has a readahead state of its own. 0 if the source
    /// doesn't say.
    pub stream: u32,
    /// First byte; below 2^63.
    pub offset_bytes: u64,
    /// Number of bytes; 0 for kinds without a range (`Open`, `Close`) and for advice to the file's
    /// end. The end is at most 2^63. A recorded read that met the end of its file has its requested
    /// length, since readahead depends on that. Bytes behind the end were not read.
    pub length_bytes: u64,
    /// The kind of access.
    pub kind: Kind,
    /// Its further properties.
    pub flags: Flags,
    /// Time that the thread waited for the device in it: 0 not at all, `None` unknown.
    pub waited_ns: Option<u64>,
    /// Duration; `None` if unknown.
    pub duration_ns: Option<u64>,
}

impl Access {
    /// The byte after its last.
    #[must_use]
    pub const fn end_bytes(&self) -> u64 {
        self.offset_bytes.saturating_add(self.length_bytes)
    }
}

/// Events that a trace does not hold though its source did, or would have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum LeftOut {
    /// Writes, syncs and trims.
    Writes = 0,
    /// Other operations without data, such as lookups.
    Others = 1,
    /// Calls that failed.
    Failed = 2,
    /// Reads that returned nothing: at the end of a file.
    Empty = 3,
    /// Accesses of anything but files: pipes, sockets, terminals.
    NotFiles = 4,
    /// Accesses through something whose opening is not in the trace.
    UnknownFiles = 5,
    /// Records that could not be understood.
    BadRecords = 6,
    /// Events that a recorder lost.
    Lost = 7,
    /// Accesses of files or threads beyond the limits of a trace.
    OverLimits = 8,
    /// Accesses that the format written to has no word for.
    NoWord = 9,
}

impl LeftOut {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 10] = [
        Self::Writes,
        Self::Others,
        Self::Failed,
        Self::Empty,
        Self::NotFiles,
        Self::UnknownFiles,
        Self::BadRecords,
        Self::Lost,
        Self::OverLimits,
        Self::NoWord,
    ];

    /// For programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Writes => "writes",
            Self::Others => "others",
            Self::Failed => "failed",
            Self::Empty => "empty",
            Self::NotFiles => "not-files",
            Self::UnknownFiles => "unknown-files",
            Self::BadRecords => "bad-records",
            Self::Lost => "lost",
            Self::OverLimits => "over-limits",
            Self::NoWord => "no-word",
        }
    }

    /// For people, after a number.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Writes => "writes",
            Self::Others => "other operations",
            Self::Failed => "calls that failed",
            Self::Empty => "reads at the end of a file",
            Self::NotFiles => "accesses of pipes, sockets and devices",
            Self::UnknownFiles => "accesses of files whose opening is not in the trace",
            Self::BadRecords => "records that could not be understood",
            Self::Lost => "events that the recorder lost",
            Self::OverLimits => "accesses of files or threads beyond the limits of a trace",
            Self::NoWord => "accesses that the format has no word for",
        }
    }
}

/// One element of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Defines a file.
    File(FileId, Box<File>),
    /// Adds locations of parts of a file on its device to those known before.
    Extents(FileId, Vec<Extent>),
    /// Defines a thread.
    Thread(ThreadId, Box<Thread>),
    /// A thread ended.
    ThreadEnd {
        /// Since the start of the trace.
        time_ns: u64,
        /// The thread.
        thread: ThreadId,
    },
    /// An access.
    Access(Access),
}
