// SPDX-License-Identifier: MIT OR Apache-2.0
//! The planner of a directory traversal: a confirmed [`Walk`](crate::walk), and the file system
//! below it.
//!
//! Input: the accesses of the program, lists of directories, and results of fetches. Output:
//! directories to list, and plans of files. It follows the program to directories above its top,
//! and to another order of entries, if the lists of these directories explain that.

mod confirm;
mod plan;

use std::path::Path;

use foreread_core::Device;

use crate::ahead::{Access, Action, Ahead, Event, Fetch, Fetched, Listed, Machine};
use crate::log::note::What;
use crate::log::noted_walk::{NoteWalk, NotedWalk};
use crate::look::Look;
use crate::order::Orders;
use crate::paths::is_within;
use crate::place::Place;
use crate::tally::Tally;
use crate::walk::{Decision, FileToFetch, Met, Why};

pub use confirm::{Confirmed, Refusal, confirm};
pub use plan::{PAGES_PER_FILE, of_directories};

/// See the [module](self).
pub struct Traversal<'a> {
    place: Place,
    device: Device,
    walk: NotedWalk<'a>,
    /// The orders that explain all accesses up to now.
    orders: Orders,
    last_thread: u32,
    /// The files of the fetch that is under way.
    fetching: Vec<FileToFetch>,
    why: Option<Why>,
}

impl<'a> Traversal<'a> {
    /// Begins a confirmed traversal. `number` is its number among those of its process. `note`
    /// takes its calls for the log.
    #[must_use]
    pub fn begin(confirmed: Confirmed, number: u64, note: Option<NoteWalk<'a>>) -> Self {
        let Confirmed {
            place,
            device,
            orders,
            walk,
        } = confirmed;
        Self {
            place,
            device,
            walk: NotedWalk::begin(walk, number, note),
            orders,
            last_thread: 0,
            fetching: Vec::new(),
            why: None,
        }
    }

    /// Why it has ended; `None` before [`Action::End`].
    #[must_use]
    pub fn why(&self) -> Option<Why> {
        self.why
    }

    fn access(&mut self, access: Access, machine: &mut dyn Machine) {
        match access {
            Access::Hit {
                thread,
                device,
                inode,
            } if device == self.device => {
                self.walk.hit(inode);
                self.reorder(thread, machine);
            }
            Access::Looked {
                device,
                inode,
                is_late,
            } if device == self.device => {
                self.walk.looked(inode, is_late);
            }
            Access::Missed(missed) if missed.device == self.device => {
                let did_read = self.walk.reads();
                if self.walk.missed(&missed.directory, missed.inode) == Met::Outside {
                    self.rise(&missed.directory, machine);
                }
                self.reorder(missed.thread, machine);
                if self.walk.reads() && !did_read {
                    machine.note(What::Reads);
                }
            }
            Access::Waits(look) => self.waits(&look, machine),
            Access::Hit { .. } | Access::Looked { .. } | Access::Missed(_) => {}
        }
    }

    fn waits(&mut self, look: &Look, machine: &mut dyn Machine) {
        // A program that reads files is followed by its misses.
        if self.walk.reads() {
            return;
        }
        let directory = match look.device == self.device {
            true => Some(look.directory.clone()),
            false => self.followed(look, machine),
        };
        if let Some(directory) = directory
            && self.walk.waits_in(&directory) == Met::Outside
        {
            self.rise(&directory, machine);
        }
    }

    /// The directory in this file system to which a path leads that starts in another.
    fn followed(&self, look: &Look, machine: &mut dyn Machine) -> Option<Vec<u8>> {
        let mounts = machine.mounts()?;
        let (place, device) = Place::follow(&mounts, look.device, &look.directory)?;
        (device == self.device).then_some(place.inside)
    }

    /// After a jump of the program, checks whether another order explains its accesses. If the
    /// directory can't be listed, the order stays.
    fn reorder(&mut self, thread: u32, machine: &mut dyn Machine) {
        let is_same = std::mem::replace(&mut self.last_thread, thread) == thread;
        let Some((above, names)) = self.walk.jumped() else {
            return;
        };
        // Two threads at two places do not show a jump.
        if !is_same {
            return;
        }
        let below = above.strip_prefix(self.place.inside.as_slice());
        let Some(entries) = machine.list(&self.place, below.unwrap_or_default()) else {
            return;
        };
        let both = self.orders.both(Orders::of_looks(&entries, &names));
        let Some(order) = both.first() else {
            return;
        };
        self.orders = both;
        if !both.contains(self.walk.order()) {
            let top = self.walk.top().to_vec();
            machine.note(What::Ordered { order });
            self.walk.raise(&top, order);
        }
    }

    /// Follows the program out of the tree, if it continues with the next entry of a directory
    /// above. The walk counts any other access as a stray one.
    fn rise(&mut self, directory: &[u8], machine: &mut dyn Machine) {
        let Some((above, names)) = self.walk.rise(directory) else {
            return;
        };
        let mounts = machine.mounts();
        let Some(place) = mounts.and_then(|mounts| Place::find(&mounts, self.device, &above))
        else {
            return;
        };
        // Too many programs read below the root directory one after the other.
        if place.path() == Path::new("/") {
            return;
        }
        let Some(entries) = machine.list(&place, b"") else {
            return;
        };
        let orders = Orders::of(&entries, &names);
        // Lookups come from several threads at several places.
        let known = match self.walk.reads() {
            true => orders,
            false => self.orders,
        };
        if orders.first().is_none() {
            return;
        }
        let orders = self.orders.and(known);
        let Some(order) = orders.first() else {
            return;
        };
        if !machine.claim(self.device, &above) {
            self.walk.end_for(Why::Left);
            return;
        }
        self.orders = orders;
        machine.note(What::Raised {
            top: place.path_of(&place.inside),
            order,
        });
        self.walk.raise(&above, order);
        self.place = place;
    }

    fn listed(&mut self, listed: &Listed, machine: &mut dyn Machine) {
        machine.note(What::Listed {
            directories: listed.lists.len() as u64,
            entries: listed.entries(),
            took_ns: listed.took_ns,
        });
        self.walk.listed(&listed.tried, &listed.lists);
    }

    fn fetched(&mut self, fetched: Fetched, files_before: u64, machine: &mut dyn Machine) {
        let pages = match self.walk.reads() {
            true => fetched.pages,
            false => fetched.metadata_pages,
        };
        let files = std::mem::take(&mut self.fetching);
        let withheld = usize::try_from(fetched.withheld_files).unwrap_or(usize::MAX);
        self.walk
            .fetch_ended(&files, withheld, pages, fetched.is_cut);
        if fetched.lacks_memory {
            self.walk.end_for(Why::Memory);
        }
        machine.note(What::Fetched {
            files: self.walk.tally().fetched_files - files_before,
            pages,
            window_files: self.walk.window_files(),
            took_ns: fetched.took_ns,
        });
    }
}

impl Ahead for Traversal<'_> {
    fn take(&mut self, event: Event, machine: &mut dyn Machine) -> bool {
        match event {
            Event::Access(access) => {
                self.access(access, machine);
                return true;
            }
            Event::Listed(listed) => self.listed(&listed, machine),
            Event::Fetched(fetched) => {
                self.fetched(fetched, self.walk.tally().fetched_files, machine);
            }
            Event::Idle => self.walk.end_for(Why::Idle),
            Event::Exited => self.walk.end_for(Why::Exited),
            Event::Stopped => self.walk.end_for(Why::Stopped),
            Event::Skipped(why) => self.walk.end_for(why.into()),
        }
        false
    }

    fn next(&mut self) -> Action {
        match self.walk.decide() {
            Decision::List(directories) => Action::List {
                top: self.place.clone(),
                directories,
            },
            Decision::Fetch(files, budget_bytes) => {
                self.walk.fetching(&files);
                let plan = plan::of_files(&self.place, &files, self.walk.reads());
                self.fetching = files;
                Action::Fetch(Fetch {
                    plan,
                    budget_bytes,
                    takes_accesses: false,
                })
            }
            Decision::Wait => Action::Wait,
            Decision::End(why) => {
                self.why = Some(why);
                Action::End
            }
        }
    }

    fn goes_on(&self) -> bool {
        self.walk.goes_on()
    }

    fn tally(&self) -> Tally {
        self.walk.tally()
    }

    fn held_bytes(&self) -> u64 {
        self.walk.held_bytes()
    }
}

/// Whether `place` lies below `of` on the same file system, at most `levels_max` levels deeper.
fn is_near(place: &Place, of: &Place, levels_max: usize) -> bool {
    is_within(&of.inside, &place.inside) && of.levels() + levels_max >= place.levels()
}
