// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bios and requests under way.

use super::BIOS_MAX;
use super::index::Placed;
use crate::depth::{Clocks, Depth};
use crate::event::Event;
use crate::request::{Bio, Joined, Request};

/// A bio without a request, or one that went into a request that isn't known.
#[derive(Clone, Debug)]
pub struct Loose {
    pub bio: Bio,
    pub is_merged: bool,
}

impl Placed for Loose {
    fn start(&self) -> u64 {
        self.bio.sector
    }

    fn end(&self) -> u64 {
        self.bio.sector.saturating_add(u64::from(self.bio.sectors))
    }
}

/// A request with readings of the clocks.
#[derive(Debug)]
pub struct Followed {
    pub request: Request,
    /// The first sector that is not completed yet: a device may complete a request in parts.
    pub left_from: u64,
    /// Time of its entry into its plug; the event that releases it goes into the request itself.
    pub plugged: Option<(u64, Clocks)>,
    pub released: Option<Clocks>,
    /// The thread in whose plug it lies, if in any.
    pub holder: Option<u32>,
    /// When it began to wait for the scheduler.
    pub waits: Option<(u64, Clocks)>,
    pub issued: Clocks,
    /// Later requests that were issued before this one was inserted.
    pub passed_before: u64,
}

impl Placed for Followed {
    fn start(&self) -> u64 {
        self.left_from
    }

    fn end(&self) -> u64 {
        self.request.end_sector()
    }
}

impl Followed {
    /// A request of which only this event is known.
    pub fn of(event: &Event) -> Self {
        Self {
            request: Request {
                device: event.device,
                rwbs: event.rwbs,
                sector: event.sector,
                sectors: u64::from(event.sectors),
                bios: Vec::new(),
                bio_count: 0,
                got_ns: None,
                inserted_ns: None,
                issued_ns: None,
                completed_ns: None,
                error: 0,
                requeues: 0,
                plug: None,
                queue: None,
            },
            left_from: event.sector,
            plugged: None,
            released: None,
            holder: None,
            waits: None,
            issued: Clocks::default(),
            passed_before: 0,
        }
    }

    /// The request with the times of the clocks.
    pub fn settled(self, depth: &Depth) -> Request {
        let mut request = self.request;
        if let (Some(hold), Some((_, since)), Some(until)) =
            (&mut request.plug, self.plugged, self.released)
        {
            hold.idle_ns = depth.between(since, until).idle_ns;
        }
        if let (Some(wait), Some((_, since))) = (&mut request.queue, self.waits) {
            let passed = depth.between(since, self.issued);
            wait.idle_ns = passed.idle_ns;
            wait.room_ns = passed.room_ns;
        }
        request
    }
}

impl Request {
    pub(super) fn add(&mut self, bio: Bio) {
        self.bio_count += 1;
        if self.bios.len() < BIOS_MAX {
            self.bios.push(bio);
        }
    }
}

/// A bio that was queued before the trace.
pub fn unseen(event: &Event, joined: Joined) -> Bio {
    Bio {
        pid: event.pid,
        process: event.process.clone(),
        sector: event.sector,
        sectors: event.sectors,
        queued_ns: None,
        joined,
    }
}

/// Cuts a bio at a sector inside of it.
pub fn cut(mut first: Loose, at_sector: u64) -> (Loose, Loose) {
    let length = u32::try_from(at_sector.saturating_sub(first.bio.sector));
    let length = length.unwrap_or(u32::MAX).min(first.bio.sectors);
    let mut second = first.clone();
    first.bio.sectors = length;
    second.bio.sector = at_sector;
    second.bio.sectors -= length;
    (first, second)
}
