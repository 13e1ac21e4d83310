// SPDX-License-Identifier: MIT OR Apache-2.0
//! The planner that replays the rest of a matched profile ahead of its program.
//!
//! Input: the accesses of the program, and results of fetches. Output: plans of one window each.
//! The decisions are those of a [`Rest`](crate::rest::Rest).

use foreread_core::Device;
use foreread_profile::Profile;

use crate::ahead::{Access, Action, Ahead, Event, Fetch, Fetched, Machine};
use crate::log::note::{OfProfile, What};
use crate::log::rest_call::{NoteRest, NotedRest};
use crate::rest::{Next, Remaining, Why};
use crate::tally::Tally;

/// See the [module](self).
pub struct ProfileReplay<'a> {
    remaining: Remaining<'a>,
    rest: NotedRest<'a>,
    /// Files of the fetch that is under way.
    asked_files: u64,
    why: Option<Why>,
}

impl<'a> ProfileReplay<'a> {
    /// Begins the replay of the part of a profile that is needed from `from_ns` on. `number` is its
    /// number in the log. `device` gives the file system of a path, or `None` if the path must not
    /// be fetched. `note` takes its calls for the log.
    #[must_use]
    pub fn begin(
        profile: &'a Profile,
        from_ns: u64,
        device: impl FnMut(&[u8]) -> Option<Device>,
        budget_bytes: u64,
        number: u64,
        note: Option<NoteRest<'a>>,
    ) -> Self {
        let remaining = Remaining::of(profile, from_ns, device);
        Self {
            rest: NotedRest::begin(remaining.parts(), budget_bytes, number, note),
            remaining,
            asked_files: 0,
            why: None,
        }
    }

    /// Why it has ended; `None` before [`Action::End`].
    #[must_use]
    pub fn why(&self) -> Option<Why> {
        self.why
    }

    fn access(&mut self, access: &Access) -> bool {
        match access {
            Access::Hit { device, inode, .. } => self.rest.hit(*device, *inode),
            Access::Missed(missed) => self.rest.missed(missed.device, missed.inode),
            Access::Waits(_) | Access::Looked { .. } => false,
        }
    }

    fn fetched(&mut self, fetched: Fetched, machine: &mut dyn Machine) {
        if fetched.lacks_memory {
            self.rest.end_for(Why::Memory);
        }
        let not_there = fetched.gone_files + fetched.withheld_files;
        self.rest.fetched(fetched.pages, not_there);
        if !self.rest.rest().goes_on() {
            self.rest.stopped(fetched.pages + fetched.cached_pages);
        }
        machine.note(What::OfProfile(Box::new(OfProfile::Fetched {
            files: self.asked_files,
            pages: fetched.pages,
            took_ns: fetched.took_ns,
        })));
    }
}

impl Ahead for ProfileReplay<'_> {
    fn take(&mut self, event: Event, machine: &mut dyn Machine) -> bool {
        match event {
            Event::Access(access) => return self.access(&access),
            Event::Fetched(fetched) => {
                self.fetched(fetched, machine);
                // Before the fetch ended, the program could use nothing of it.
                return true;
            }
            Event::Idle => self.rest.end_for(Why::Idle),
            Event::Exited => self.rest.end_for(Why::Exited),
            Event::Stopped => self.rest.end_for(Why::Stopped),
            Event::Skipped(why) => self.rest.end_for(why.into()),
            Event::Listed(_) => {}
        }
        false
    }

    fn next(&mut self) -> Action {
        match self.rest.decide() {
            Next::Fetch(window, budget_bytes) => {
                let plan = self.remaining.plan(&window);
                self.asked_files = plan.files_with_pages().count() as u64;
                // Free memory may have shrunk meanwhile; the executor checks it.
                Action::Fetch(Fetch {
                    plan,
                    budget_bytes,
                    takes_accesses: true,
                })
            }
            Next::Wait => Action::Wait,
            Next::End(why) => {
                self.why = Some(why);
                Action::End
            }
        }
    }

    fn goes_on(&self) -> bool {
        self.rest.rest().goes_on()
    }

    fn tally(&self) -> Tally {
        self.rest.rest().tally()
    }
}
