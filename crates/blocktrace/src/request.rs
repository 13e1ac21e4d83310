// SPDX-License-Identifier: MIT OR Apache-2.0
//! The life of a request, as far as the trace shows it.

use crate::event::{Device, Rwbs, SECTOR_BYTES};

/// How a bio came into its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joined {
    /// The request was made for it.
    First,
    /// It was put at the end.
    Back,
    /// It was put at the beginning.
    Front,
    /// It came with another request, which was put at the end.
    WithRequest,
}

/// A bio: sectors that one thread asked for in one go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bio {
    /// The thread.
    pub pid: u32,
    /// Its name.
    pub process: Box<str>,
    /// First sector.
    pub sector: u64,
    /// Number of sectors.
    pub sectors: u32,
    /// Time when it was queued; `None` from before the trace.
    pub queued_ns: Option<u64>,
    /// How it came into the request.
    pub joined: Joined,
}

/// The event that released the requests of a plug.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Release {
    /// A later read or write was merged with one that had lain there untouched for most of the
    /// time.
    Merge(Later),
    /// A later request came in, likewise.
    LaterRequest(Later),
    /// The plug was full, with this many waiting requests.
    Full {
        /// Number of requests.
        requests: u64,
    },
    /// Its process went to sleep.
    Sleep,
    /// The timer of the plug ran out (before Linux 2.6.39).
    Timer,
    /// Its own process let them go: it had nothing more to ask, or waited for the data.
    Owner,
    /// Another process did.
    Other {
        /// The thread.
        pid: u32,
        /// Its name.
        process: Box<str>,
    },
    /// The trace shows no unplug.
    NotSeen,
}

impl Release {
    /// A word for programs.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Merge(_) => "merge",
            Self::LaterRequest(_) => "later-request",
            Self::Full { .. } => "full",
            Self::Sleep => "sleep",
            Self::Timer => "timer",
            Self::Owner => "owner",
            Self::Other { .. } => "other-process",
            Self::NotSeen => "not-seen",
        }
    }
}

/// The later bio that let a plug's requests go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Later {
    /// The thread that asked.
    pub pid: u32,
    /// Its name.
    pub process: Box<str>,
    /// Whether it is the thread that made the plug.
    pub is_same: bool,
    /// Whether it reads.
    pub is_read: bool,
    /// First sector.
    pub sector: u64,
    /// Number of sectors.
    pub sectors: u32,
}

/// A stay in a plug.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlugHold {
    /// Start of the stay, in nanoseconds.
    pub since_ns: u64,
    /// End of the stay, in nanoseconds.
    pub until_ns: u64,
    /// Part of the stay in which the device had no other request, as far as the trace shows.
    pub idle_ns: u64,
    /// The event that ended it.
    pub release: Release,
}

impl PlugHold {
    /// Duration of the stay.
    #[must_use]
    pub fn held_ns(&self) -> u64 {
        self.until_ns.saturating_sub(self.since_ns)
    }
}

/// The wait behind the plug: for the scheduler and the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueWait {
    /// Start of the wait, in nanoseconds.
    pub since_ns: u64,
    /// End of the wait, in nanoseconds.
    pub until_ns: u64,
    /// Part of the wait in which the device had no request, as far as the trace shows.
    pub idle_ns: u64,
    /// Part of the wait in which the device had fewer requests than its maximum before.
    pub room_ns: u64,
    /// Requests that came later and went first.
    pub overtaken: u64,
}

impl QueueWait {
    /// Duration of the wait.
    #[must_use]
    pub fn waited_ns(&self) -> u64 {
        self.until_ns.saturating_sub(self.since_ns)
    }

    /// Time that the scheduler held the request back. If other requests went first, all of the
    /// wait; otherwise the part in which the device had room.
    #[must_use]
    pub fn held_ns(&self) -> u64 {
        match self.overtaken {
            0 => self.room_ns,
            _ => self.waited_ns(),
        }
    }
}

/// A part of a request's life, in the order of `btt`'s table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leg {
    /// Queued, until it has a request.
    QueueToGet,
    /// In the plug of its process; up to the issue where nothing is inserted.
    GetToInsert,
    /// In the scheduler, and before Linux 2.6.39 in the plug of the device.
    InsertToIssue,
    /// At the device.
    IssueToComplete,
    /// All before the device.
    QueueToIssue,
    /// All.
    QueueToComplete,
}

impl Leg {
    /// All, in order.
    pub const ALL: [Self; 6] = [
        Self::QueueToGet,
        Self::GetToInsert,
        Self::InsertToIssue,
        Self::IssueToComplete,
        Self::QueueToIssue,
        Self::QueueToComplete,
    ];

    /// As in `btt`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::QueueToGet => "Q2G",
            Self::GetToInsert => "G2I",
            Self::InsertToIssue => "I2D",
            Self::IssueToComplete => "D2C",
            Self::QueueToIssue => "Q2D",
            Self::QueueToComplete => "Q2C",
        }
    }

    /// The name in words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::QueueToGet => "queue to get request",
            Self::GetToInsert => "get request to insert",
            Self::InsertToIssue => "insert to issue",
            Self::IssueToComplete => "issue to completion",
            Self::QueueToIssue => "queue to issue",
            Self::QueueToComplete => "queue to completion",
        }
    }
}

/// A request. Times that the trace doesn't show are `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Which device.
    pub device: Device,
    /// The operation.
    pub rwbs: Rwbs,
    /// Where it begins.
    pub sector: u64,
    /// Number of sectors, with all merged bios.
    pub sectors: u64,
    /// The bios that it consists of; the first [`BIOS_MAX`](crate::follow::BIOS_MAX) of them.
    pub bios: Vec<Bio>,
    /// Number of bios in it.
    pub bio_count: u64,
    /// When it was made.
    pub got_ns: Option<u64>,
    /// When it went to the scheduler.
    pub inserted_ns: Option<u64>,
    /// When it went to the driver, the last time.
    pub issued_ns: Option<u64>,
    /// When it was done.
    pub completed_ns: Option<u64>,
    /// The status that the device reported, 0 for success.
    pub error: i32,
    /// Number of times that the driver requeued it.
    pub requeues: u32,
    /// Its stay in a plug.
    pub plug: Option<PlugHold>,
    /// Its wait behind that.
    pub queue: Option<QueueWait>,
}

impl Request {
    /// Its size.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.sectors.saturating_mul(SECTOR_BYTES)
    }

    /// Where it ends.
    #[must_use]
    pub fn end_sector(&self) -> u64 {
        self.sector.saturating_add(self.sectors)
    }

    /// When its first bio was queued; `None` when that isn't in the trace.
    #[must_use]
    pub fn queued_ns(&self) -> Option<u64> {
        let first = self.bios.iter().find(|bio| bio.joined == Joined::First);
        first.and_then(|bio| bio.queued_ns)
    }

    /// The earliest that is known of it.
    #[must_use]
    pub fn begin_ns(&self) -> u64 {
        let known = [
            self.queued_ns(),
            self.got_ns,
            self.inserted_ns,
            self.issued_ns,
            self.completed_ns,
        ];
        known.into_iter().flatten().next().unwrap_or(0)
    }

    /// Duration of a part of its life; `None` if an end of the part isn't in the trace.
    #[must_use]
    pub fn leg_ns(&self, leg: Leg) -> Option<u64> {
        let inserted = self.inserted_ns;
        let (from, to) = match leg {
            Leg::QueueToGet => (self.queued_ns(), self.got_ns),
            Leg::GetToInsert => (self.got_ns, inserted.or(self.issued_ns)),
            Leg::InsertToIssue => (inserted, self.issued_ns),
            Leg::IssueToComplete => (self.issued_ns, self.completed_ns),
            Leg::QueueToIssue => (self.queued_ns(), self.issued_ns),
            Leg::QueueToComplete => (self.queued_ns(), self.completed_ns),
        };
        Some(to?.saturating_sub(from?))
    }

    /// The time before the device, from the earliest that is known.
    #[must_use]
    pub fn before_issue_ns(&self) -> u64 {
        let issued = self.issued_ns.unwrap_or_else(|| self.begin_ns());
        issued.saturating_sub(self.begin_ns())
    }

    /// The bio that asked for it first; `None` when no bio of it is in the trace.
    #[must_use]
    pub fn asker(&self) -> Option<&Bio> {
        let first = self.bios.iter().find(|bio| bio.joined == Joined::First);
        first.or(self.bios.first())
    }

    /// Its stay in a plug, if that was this long.
    #[must_use]
    pub fn held_by_plug(&self, over_ns: u64) -> Option<&PlugHold> {
        self.plug.as_ref().filter(|hold| hold.held_ns() >= over_ns)
    }

    /// Its wait for the scheduler, if that held it back this long.
    #[must_use]
    pub fn held_by_scheduler(&self, over_ns: u64) -> Option<&QueueWait> {
        let held = |wait: &&QueueWait| wait.held_ns() >= over_ns;
        // A threshold of nothing is no reason to call every wait a hold.
        self.queue
            .as_ref()
            .filter(|wait| wait.held_ns() > 0)
            .filter(held)
    }

    /// Time that a plug and the scheduler held it back. Each counts only if it is longer than
    /// `over_ns`.
    #[must_use]
    pub fn held_ns(&self, over_ns: u64) -> u64 {
        let plug = self.held_by_plug(over_ns).map_or(0, PlugHold::held_ns);
        let queue = self
            .held_by_scheduler(over_ns)
            .map_or(0, QueueWait::held_ns);
        plug.saturating_add(queue)
    }
}
