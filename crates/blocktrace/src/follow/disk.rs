// SPDX-License-Identifier: MIT OR Apache-2.0
//! The events of one device.

mod ends;

use std::collections::VecDeque;

use super::followed::{Followed, Loose, cut, unseen};
use super::index::{Index, Placed};
use super::{BIOS_MAX, Counts};
use crate::depth::{Depth, DepthSummary};
use crate::event::{Action, Event};
use crate::plug::{Coming, Id, Plugs, Released};
use crate::request::{Bio, Joined, PlugHold, QueueWait, Request};

#[derive(Debug, Default)]
pub struct Disk {
    next_id: Id,
    loose: Index<Loose>,
    waiting: Index<Followed>,
    issued: Index<Followed>,
    plugs: Plugs,
    depth: Depth,
    /// Numbers of those that went to the driver while older ones waited, in order.
    gone_early: VecDeque<Id>,
}

impl Disk {
    pub fn depth(&self) -> DepthSummary {
        self.depth.summary()
    }

    pub fn event(&mut self, event: Event, counts: &mut Counts, finished: &mut Vec<Request>) {
        self.depth.advance(event.time_ns);
        match event.action {
            Action::Plugged => {
                counts.plugs += 1;
                self.plugged(&event);
            }
            Action::Unplugged { .. } => {
                counts.unplugs += 1;
                self.unplugged(&event);
            }
            Action::TimerUnplugged { .. } => {
                counts.timer_unplugs += 1;
                self.unplugged(&event);
            }
            Action::Slept => counts.sleeps += 1,
            Action::Remapped { .. } => counts.remaps += 1,
            Action::Bounced => counts.bounces += 1,
            Action::Unknown(_) => counts.unknown_actions += 1,
            Action::Lost { .. } => {}
            Action::Split { at_sector } => {
                counts.splits += 1;
                self.split(event.sector, at_sector);
            }
            _ if event.sectors == 0 => counts.without_data += 1,
            Action::Queued => self.queued(event),
            Action::GotRequest => self.got(&event),
            Action::Inserted => self.inserted(&event),
            Action::BackMerged => self.merged(&event, true, counts),
            Action::FrontMerged => self.merged(&event, false, counts),
            Action::Issued => self.issued(&event),
            Action::Requeued { .. } => self.requeued(&event),
            Action::Completed { error } => self.completed(&event, error, counts, finished),
        }
        self.keep_bounds(counts, finished);
    }

    fn id(&mut self) -> Id {
        self.next_id += 1;
        self.next_id
    }

    fn queued(&mut self, event: Event) {
        let id = self.id();
        let loose = Loose {
            is_merged: false,
            bio: Bio {
                pid: event.pid,
                sector: event.sector,
                sectors: event.sectors,
                queued_ns: Some(event.time_ns),
                joined: Joined::First,
                process: event.process,
            },
        };
        self.loose.insert(id, loose);
    }

    fn split(&mut self, sector: u64, at_sector: u64) {
        let inside = |loose: &Loose| u8::from(loose.start() < at_sector && at_sector < loose.end());
        let Some(id) = self.loose.starting(sector, inside) else {
            return;
        };
        if let Some(loose) = self.loose.remove(id) {
            let (first, second) = cut(loose, at_sector);
            self.loose.insert(id, first);
            let id = self.id();
            self.loose.insert(id, second);
        }
    }

    /// The bio of this event, cut if it is longer.
    fn take_bio(&mut self, event: &Event) -> Option<Bio> {
        let id = self.loose.starting(event.sector, |loose| {
            match (loose.is_merged, loose.bio.pid == event.pid) {
                _ if loose.bio.sectors < event.sectors => 0,
                (true, _) => 0,
                (_, is_own) => {
                    1 + u8::from(is_own) + 2 * u8::from(loose.bio.sectors == event.sectors)
                }
            }
        })?;
        let loose = self.loose.remove(id)?;
        if loose.bio.sectors == event.sectors {
            return Some(loose.bio);
        }
        let at_sector = loose.bio.sector + u64::from(event.sectors);
        let (first, second) = cut(loose, at_sector);
        let id = self.id();
        self.loose.insert(id, second);
        Some(first.bio)
    }

    fn got(&mut self, event: &Event) {
        let bio = self.take_bio(event);
        let mut followed = Followed::of(event);
        followed.request.got_ns = Some(event.time_ns);
        let coming = Coming {
            event,
            queued_ns: bio.as_ref().and_then(|bio| bio.queued_ns),
            is_merge: false,
        };
        followed.plugged = Some((event.time_ns, self.depth.clocks()));
        followed
            .request
            .add(bio.unwrap_or_else(|| unseen(event, Joined::First)));
        let id = self.id();
        followed.holder = self.plugs.add(id, &coming).then_some(event.pid);
        self.wait(id, followed);
    }

    fn plugged(&mut self, event: &Event) {
        let clocks = self.depth.clocks();
        for id in self.plugs.open(event) {
            if let Some(followed) = self.waiting.get_mut(id) {
                followed.plugged = Some((event.time_ns, clocks));
            }
        }
    }

    fn unplugged(&mut self, event: &Event) {
        for released in self.plugs.unplug(event) {
            self.release(released, event.time_ns);
        }
    }

    fn release(&mut self, released: Released, now_ns: u64) {
        let clocks = self.depth.clocks();
        for id in released.requests {
            let Some(followed) = self.waiting.get_mut(id) else {
                continue;
            };
            let Some((since_ns, _)) = followed.plugged else {
                continue;
            };
            followed.request.plug = Some(PlugHold {
                since_ns,
                until_ns: now_ns,
                idle_ns: 0,
                release: released.release.clone(),
            });
            followed.released = Some(clocks);
            followed.holder = None;
            followed.waits = Some((now_ns, clocks));
        }
    }

    fn inserted(&mut self, event: &Event) {
        let id = match self.waiting.starting(event.sector, |followed| {
            let request = &followed.request;
            let is_equal = request.sectors == u64::from(event.sectors);
            1 + u8::from(is_equal) + 2 * u8::from(request.inserted_ns.is_none())
        }) {
            Some(id) => id,
            None => self.begin(event),
        };
        let clocks = self.depth.clocks();
        let passed = self.gone_before(id);
        let Some(followed) = self.waiting.get_mut(id) else {
            return;
        };
        if followed.released.is_none() {
            followed.holder = self.plugs.insert(id, followed.holder);
        }
        if followed.request.inserted_ns.is_none() {
            followed.request.inserted_ns = Some(event.time_ns);
            followed.passed_before = passed;
        }
        let now = (event.time_ns, clocks);
        match followed.holder {
            Some(_) => followed.plugged.get_or_insert(now),
            None => followed.waits.get_or_insert(now),
        };
    }

    fn merged(&mut self, event: &Event, is_back: bool, counts: &mut Counts) {
        let (from, to) = (
            event.sector,
            event.sector.saturating_add(u64::from(event.sectors)),
        );
        let suits = |followed: &Followed| {
            let is_own = followed
                .request
                .asker()
                .is_some_and(|bio| bio.pid == event.pid);
            1 + u8::from(is_own)
        };
        let target = match is_back {
            true => self.waiting.ending(from, suits),
            false => self.waiting.starting(to, suits),
        };
        let joined = if is_back { Joined::Back } else { Joined::Front };
        let bio = self.take_bio(event).map(|bio| Bio { joined, ..bio });
        let Some(target) = target else {
            counts.unseen_merges += 1;
            let bio = bio.unwrap_or_else(|| unseen(event, joined));
            let loose = Loose {
                bio,
                is_merged: true,
            };
            let id = self.id();
            self.loose.insert(id, loose);
            return;
        };
        let queued_ns = bio.as_ref().and_then(|bio| bio.queued_ns);
        let came = match bio {
            Some(bio) => vec![bio],
            None => self.absorb(event, target, joined),
        };
        let mut holder = None;
        if let Some(mut followed) = self.waiting.remove(target) {
            holder = followed.holder;
            followed.request.sectors += u64::from(event.sectors);
            if !is_back {
                followed.request.sector = from;
                followed.left_from = from;
            }
            for bio in came {
                followed.request.add(bio);
            }
            self.waiting.insert(target, followed);
        }
        let coming = Coming {
            event,
            queued_ns,
            is_merge: true,
        };
        if let Some(holder) = holder {
            self.plugs.merge(holder, &coming);
        }
    }

    /// The bios of a merge that isn't a bio of its own: those of a whole request, or one that was
    /// queued before the trace.
    fn absorb(&mut self, event: &Event, target: Id, joined: Joined) -> Vec<Bio> {
        let other = self.waiting.starting(event.sector, |followed| {
            u8::from(followed.request.sectors == u64::from(event.sectors))
        });
        let other = other.filter(|other| *other != target);
        if let Some(followed) = other.and_then(|id| self.take_waiting(id))
            && !followed.request.bios.is_empty()
        {
            let bios = followed.request.bios.into_iter();
            let joined = Joined::WithRequest;
            return bios.map(|bio| Bio { joined, ..bio }).collect();
        }
        vec![unseen(event, joined)]
    }

    fn issued(&mut self, event: &Event) {
        let sectors = u64::from(event.sectors);
        let suits = |f: &Followed| 1 + u8::from(f.request.sectors == sectors);
        let id = match self.waiting.starting(event.sector, suits) {
            Some(id) => id,
            None => match self
                .issued
                .starting(event.sector, |f| u8::from(f.request.sectors == sectors))
            {
                // The driver gave it back unseen.
                Some(id) => {
                    if let Some(followed) = self.issued.get_mut(id) {
                        followed.request.requeues += 1;
                        followed.request.issued_ns = Some(event.time_ns);
                    }
                    return;
                }
                None => self.begin(event),
            },
        };
        let holder = self.waiting.get(id).and_then(|followed| followed.holder);
        if let Some(released) = holder.and_then(|holder| self.plugs.issue(id, holder)) {
            self.release(released, event.time_ns);
        }
        let passed = self.gone_before(id);
        let Some(mut followed) = self.waiting.remove(id) else {
            return;
        };
        // The part that is done already stays a part of the request.
        followed.request.sectors = followed.left_from - followed.request.sector + sectors;
        followed.holder = None;
        followed.issued = self.depth.clocks();
        followed.request.issued_ns = Some(event.time_ns);
        followed.request.queue = followed.waits.map(|(since_ns, _)| QueueWait {
            since_ns,
            until_ns: event.time_ns,
            idle_ns: 0,
            room_ns: 0,
            overtaken: match followed.request.inserted_ns {
                Some(_) => passed.saturating_sub(followed.passed_before),
                None => 0,
            },
        });
        self.attach(&mut followed.request);
        if followed.request.rwbs.is_read() {
            self.depth.read_goes();
        }
        self.depth.issue();
        self.issued.insert(id, followed);
        self.note_gone(id);
    }

    /// Bios that were merged into this request before it was known.
    fn attach(&mut self, request: &mut Request) {
        let ids = self
            .loose
            .starting_in(request.sector, request.end_sector(), BIOS_MAX);
        for id in ids {
            if self.loose.get(id).is_some_and(|loose| loose.is_merged)
                && let Some(loose) = self.loose.remove(id)
            {
                request.add(loose.bio);
            }
        }
    }

    fn take_waiting(&mut self, id: Id) -> Option<Followed> {
        let followed = self.waiting.remove(id)?;
        if let Some(holder) = followed.holder {
            self.plugs.remove(id, holder);
        }
        if followed.request.rwbs.is_read() {
            self.depth.read_goes();
        }
        Some(followed)
    }

    /// Begins to follow a request that was made before the trace.
    fn begin(&mut self, event: &Event) -> Id {
        let mut followed = Followed::of(event);
        // It may have been queued within the trace: `G` isn't in every trace.
        if let Some(bio) = self.take_bio(event) {
            followed.request.add(bio);
        }
        let id = self.id();
        self.wait(id, followed);
        id
    }

    fn wait(&mut self, id: Id, followed: Followed) {
        if followed.request.rwbs.is_read() {
            self.depth.read_waits();
        }
        self.waiting.insert(id, followed);
    }

    /// Number of younger requests that have gone to the driver.
    fn gone_before(&self, id: Id) -> u64 {
        (self.gone_early.len() - self.gone_early.partition_point(|gone| *gone <= id)) as u64
    }

    fn note_gone(&mut self, id: Id) {
        let oldest = self.waiting.first_id().unwrap_or(Id::MAX);
        while self.gone_early.front().is_some_and(|gone| *gone < oldest) {
            self.gone_early.pop_front();
        }
        if id > oldest {
            let at = self.gone_early.partition_point(|gone| *gone < id);
            self.gone_early.insert(at, id);
        }
    }
}
