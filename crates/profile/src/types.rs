// SPDX-License-Identifier: MIT OR Apache-2.0
//! Types of a profile. Plain values; see `docs/profile-format.md` for how they are stored.

/// Ranges count pages of this many bytes on every machine, whatever its own page size.
pub const PAGE_BYTES: u64 = 4096;

/// Index of a node in [`Profile::nodes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

/// Files and pages that a program or a boot reads.
///
/// Nodes form a tree by absolute path: node 0 is the root directory `/` with an empty name. They
/// are in breadth-first order, sorted by parent and then by the bytes of their names. So every
/// parent comes before its children, and the children of one directory are contiguous. Only
/// directories have children. Names and ranges are in `names` and `ranges` in the order of the
/// nodes, without gaps. Only files have ranges. The ranges of one file are sorted by page, and
/// neither overlap nor touch at equal need and weight. Sizes are bounded by [`crate::limits`].
/// [`Profile::validate`] checks all of this.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Profile {
    /// The recorded program, for people and for keys.
    pub program: Program,
    /// The recorder, and the things that it can't see.
    pub source: Source,
    /// File systems that the nodes are on. The first is the unknown one, with empty fields, for
    /// nodes whose file system was not looked up.
    pub mounts: Vec<Mount>,
    /// Control groups of the processes that needed something first, as paths below the root of the
    /// hierarchy, such as `/system.slice/ssh.service`. Recorded for a boot; see [`Profile::unit`].
    pub units: Vec<Vec<u8>>,
    /// Parts of a boot, in their order; none for a program.
    pub phases: Vec<Phase>,
    /// Pages of block devices that a boot read.
    pub devices: Vec<DevicePages>,
    /// Everything that was looked at, parents first.
    pub nodes: Vec<Node>,
    /// Names of all nodes, one after another; see [`Node::name`].
    pub names: Vec<u8>,
    /// Page ranges of all nodes; see [`Node::ranges`].
    pub ranges: Vec<PageRange>,
    /// Measurements of earlier runs, oldest first, at most [`RUNS_MAX`].
    pub runs: Vec<Run>,
    /// Whether the program went elsewhere in the last replayed run: the next one records it.
    pub is_astray: bool,
}

/// Pages of a block device: metadata of a file system, labels, a partition table.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct DevicePages {
    /// Mount point of a file system on the device.
    pub mount_point: Vec<u8>,
    /// Whether the device is a whole disk, and the file system is on a partition of it.
    pub is_whole_disk: bool,
    /// In the order of the device, without overlaps.
    pub ranges: Vec<DeviceRange>,
}

/// Pages of a block device that lie together and are needed at about the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct DeviceRange {
    /// First page of 4 KiB.
    pub start_page: u64,
    /// Number of pages, at least one.
    pub pages: u64,
    /// When the first of them was needed, from the start of the recording.
    pub need_ns: u64,
}

impl DeviceRange {
    /// The page after the last.
    #[must_use]
    pub const fn end_page(&self) -> u64 {
        self.start_page.saturating_add(self.pages)
    }
}

/// Runs remembered in a profile.
pub const RUNS_MAX: usize = 32;

/// Where a part of a boot begins. It ends with the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase {
    /// Which part.
    pub kind: PhaseKind,
    /// When it began, from the start of the recording.
    pub start_ns: u64,
}

/// The parts of a boot, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum PhaseKind {
    /// Before the root file system's own init.
    Initramfs = 0,
    /// Until `sysinit.target`.
    Sysinit = 1,
    /// From then on: the units of the default target.
    Target = 2,
    /// From the first login on.
    Session = 3,
}

/// Weight of an entry that was seen in every run.
pub const WEIGHT_MAX: u8 = 255;

/// The program that a profile belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Program {
    /// Absolute path of the executable, as bytes.
    pub executable: Vec<u8>,
    /// Command line of the latest recording.
    pub arguments: Vec<Vec<u8>>,
    /// Working directory of the latest recording.
    pub directory: Vec<u8>,
    /// The key that `run` files it under.
    pub key: Vec<u8>,
    /// The scripts that it ran in the latest recording; none when that wasn't looked for.
    pub scripts: Vec<Script>,
}

/// A script, by what it is and not only where: a changed one may read something else.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Script {
    /// Its canonical path.
    pub path: Vec<u8>,
    /// Size.
    pub size_bytes: u64,
    /// CRC-32 of its content; of a long one, of its beginning and its end.
    pub checksum: u32,
}

/// The recorder; those that see most come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, PartialOrd, Ord)]
#[repr(u8)]
pub enum Recorder {
    /// Accesses, aggregated in the kernel.
    #[default]
    Bpf = 0,
    /// Accesses, from a tracefs instance, paths from fanotify.
    Tracefs = 1,
    /// Opened files by fanotify, pages by residency.
    Fanotify = 2,
}

/// Things that a recording couldn't see, as a set of bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct BlindSpots(pub u32);

impl BlindSpots {
    /// Page ranges come from residency: too many pages, and none that were evicted again.
    pub const RESIDENCY_NOT_ACCESS: Self = Self(1);
    /// Inodes looked at but not opened are missing.
    pub const NO_LOOKUPS: Self = Self(1 << 1);
    /// Faults of mapped files are missing.
    pub const NO_MAPPED_FAULTS: Self = Self(1 << 2);
    /// Accesses by other processes on the same files are included.
    pub const NOT_ONLY_THIS_TREE: Self = Self(1 << 3);
    /// Times of need are those of the first open, not of the page.
    pub const NO_PAGE_TIMES: Self = Self(1 << 4);
    /// The time that the program waited was not measured.
    pub const NO_STALL: Self = Self(1 << 5);
}

/// How the latest full recording was made.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Source {
    /// Which recorder.
    pub recorder: Recorder,
    /// Things that the recorder couldn't see.
    pub blind_spots: BlindSpots,
    /// Events that were lost in the recording.
    pub events_lost: u64,
    /// When, in seconds since 1970.
    pub recorded_unix_s: u64,
    /// Kernel release of the machine.
    pub kernel: Vec<u8>,
}

/// A file system at the time of recording; a hint for people, checked at replay.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Mount {
    /// Type as in mountinfo, such as `ext4`.
    pub fs_type: Vec<u8>,
    /// Where it was mounted.
    pub mount_point: Vec<u8>,
    /// Device number of the superblock then.
    pub device_major: u32,
    /// See `device_major`.
    pub device_minor: u32,
}

/// The kind of file that a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum NodeKind {
    /// A regular file.
    #[default]
    File = 0,
    /// A directory.
    Directory = 1,
    /// A symbolic link.
    Symlink = 2,
    /// Looked for and not there: its parents were read for it.
    Absent = 3,
}

/// How a node was used, as a set of bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Uses(pub u8);

impl Uses {
    /// Reached by name, or on the path to something that was.
    pub const LOOKED_UP: Self = Self(1);
    /// A directory whose entries were read.
    pub const LISTED: Self = Self(1 << 1);
    /// Pages read by `read` and its kin.
    pub const READ: Self = Self(1 << 2);
    /// Pages touched through a mapping.
    pub const MAPPED: Self = Self(1 << 3);
    /// Run as a program.
    pub const EXECUTED: Self = Self(1 << 4);
    /// Opened.
    pub const OPENED: Self = Self(1 << 5);
    /// Its inode was looked at (stat and its kin).
    pub const STATTED: Self = Self(1 << 6);

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

/// Identity by which a stale entry is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Identity {
    /// Inode number on its own file system; 0 when never seen.
    pub inode: u64,
    /// Inode generation; 0 when not known.
    pub generation: u32,
    /// Size.
    pub size_bytes: u64,
    /// Time of the last change of the content, nanoseconds since 1970.
    pub mtime_ns: i64,
}

/// One path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Node {
    /// The directory it is in; `None` only for the root.
    pub parent: Option<NodeId>,
    /// Where its name starts in [`Profile::names`].
    pub name_start: u32,
    /// Length of its name in bytes, at most 255.
    pub name_length: u8,
    /// The kind of file.
    pub kind: NodeKind,
    /// How it was used.
    pub uses: Uses,
    /// How firmly it belongs to the program: 255 seen in every run, falling when unseen.
    pub weight: u8,
    /// Index in [`Profile::mounts`].
    pub mount: u16,
    /// The identity by which it is recognised.
    pub identity: Identity,
    /// The control group that needed it first; see [`Profile::unit`].
    pub unit: u16,
    /// When it was first needed, from the start of the program.
    pub need_ns: u64,
    /// First of its ranges in [`Profile::ranges`].
    pub range_start: u32,
    /// Number of its ranges.
    pub range_count: u32,
}

/// Pages of one file that were accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PageRange {
    /// First page.
    pub start_page: u64,
    /// Number of pages, at least one.
    pub pages: u64,
    /// When the first of them was needed, from the start of the program.
    pub need_ns: u64,
    /// As [`Node::weight`].
    pub weight: u8,
    /// The control group that had this need; see [`Profile::unit`].
    pub unit: u16,
}

/// How `run` used the profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum RunMode {
    /// Recorded in full, nothing replayed.
    #[default]
    Recorded = 0,
    /// Replayed, and refreshed from the run's accesses.
    Replayed = 1,
    /// Replayed, and recorded in full.
    ReplayedRecorded = 2,
    /// Replay was off; measured only.
    Plain = 3,
}

/// Measurements of one run. `None` is "not measured".
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Run {
    /// When it started, in seconds since 1970.
    pub started_unix_s: u64,
    /// How the run used the profile.
    pub mode: RunMode,
    /// Time from start to exit of the program, in nanoseconds.
    pub wall_ns: u64,
    /// Time that its threads waited for reads.
    pub stall_ns: Option<u64>,
    /// Share of the profile's pages that were cached before the start, in thousandths.
    pub cached_before_permille: Option<u16>,
    /// Pages that the program itself had to fetch.
    pub missed_pages: Option<u64>,
    /// Pages that the replay fetched.
    pub fetched_pages: u64,
    /// Fetched pages that were used after they had arrived; if it is unknown which were late, all
    /// that were used.
    pub used_on_time_pages: Option<u64>,
    /// Fetched pages that were used while they were still in flight.
    pub used_late_pages: Option<u64>,
}

impl Run {
    /// Fetched pages that were used, on time or late; `None` when that wasn't measured.
    #[must_use]
    pub fn used_pages(&self) -> Option<u64> {
        let late = self.used_late_pages.unwrap_or(0);
        Some(self.used_on_time_pages?.saturating_add(late))
    }
}
