// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plugs: their requests, and the events that release them.
//!
//! Since Linux 2.6.39 a plug belongs to a thread and lies before the scheduler: its requests are
//! inserted when it ends. Before, it belonged to the device and lay behind the scheduler: inserted
//! requests of all threads waited until one of them unplugged the device. The trace tells which
//! kind it is: only while a device's plug lasts, requests are inserted.

use std::collections::{BTreeMap, BTreeSet};

use crate::event::{Action, Event};
use crate::request::{Later, Release};

/// Number of a request.
pub type Id = u64;

/// Threads with a plug; far more than a machine has processors.
const PLUGS_MAX: usize = 4096;

/// `q->unplug_thresh` of a device's plug.
const DEVICE_PLUG_FULL: u64 = 4;
/// `BLK_MAX_REQUEST_COUNT` of a thread's plug.
const THREAD_PLUG_FULL: u64 = 32;

/// The last bio that came to a plug, and how long nothing had come before.
#[derive(Debug)]
struct LastBio {
    later: Later,
    is_merge: bool,
    quiet_ns: u64,
}

/// The plug of a thread: requests that it has taken and not yet released.
#[derive(Debug, Default)]
struct Plug {
    opened_ns: Option<u64>,
    /// The request for which it was made.
    made_for: Option<Id>,
    is_of_device: bool,
    requests: BTreeSet<Id>,
    touched_ns: u64,
    last: Option<LastBio>,
}

/// A bio on its way into a plug.
pub struct Coming<'a> {
    /// The event that puts it in.
    pub event: &'a Event,
    /// When it was queued.
    pub queued_ns: Option<u64>,
    /// Whether it is merged into a request that lies there.
    pub is_merge: bool,
}

/// Requests that are let go.
#[derive(Debug)]
pub struct Released {
    /// The requests.
    pub requests: BTreeSet<Id>,
    /// The event that released them.
    pub release: Release,
}

/// The plugs of one device.
#[derive(Debug, Default)]
pub struct Plugs {
    by_thread: BTreeMap<u32, Plug>,
}

impl Plugs {
    /// A thread makes a plug. Returns the requests that it has just got: they lie in it from now
    /// on.
    pub fn open(&mut self, event: &Event) -> Vec<Id> {
        let Some(plug) = self.plug_of(event.pid) else {
            return Vec::new();
        };
        plug.opened_ns = Some(event.time_ns);
        plug.made_for = plug.requests.last().copied();
        plug.touched_ns = event.time_ns;
        plug.last = None;
        plug.requests.iter().copied().collect()
    }

    /// A thread gets a request. Returns whether it is noted as the thread's.
    pub fn add(&mut self, request: Id, coming: &Coming<'_>) -> bool {
        let Some(plug) = self.plug_of(coming.event.pid) else {
            return false;
        };
        plug.requests.insert(request);
        plug.touch(coming, true);
        true
    }

    /// A bio is merged into a request of this thread's plug.
    pub fn merge(&mut self, holder: u32, coming: &Coming<'_>) {
        if let Some(plug) = self.by_thread.get_mut(&holder) {
            plug.touch(coming, holder == coming.event.pid);
        }
    }

    /// A request, of the thread's if that is noted, goes to the scheduler. Returns whose plug holds
    /// it there.
    pub fn insert(&mut self, request: Id, holder: Option<u32>) -> Option<u32> {
        if let Some(pid) = holder
            && let Some(plug) = self.by_thread.get_mut(&pid)
        {
            plug.is_of_device |= plug.opened_ns.is_some() && plug.made_for == Some(request);
            if plug.is_of_device {
                return holder;
            }
            self.remove(request, pid);
        }
        let mut plugs = self.by_thread.iter_mut();
        let (pid, plug) = plugs.find(|(_, plug)| plug.is_of_device)?;
        plug.requests.insert(request);
        Some(*pid)
    }

    /// A thread's request is its own no more: it went to the driver, or into another one.
    pub fn remove(&mut self, request: Id, holder: u32) {
        if let Some(plug) = self.by_thread.get_mut(&holder) {
            plug.requests.remove(&request);
            if plug.requests.is_empty() && plug.opened_ns.is_none() {
                self.by_thread.remove(&holder);
            }
        }
    }

    /// A thread unplugs: its own plug ends, and each plug of the device.
    pub fn unplug(&mut self, event: &Event) -> Vec<Released> {
        let all = std::mem::take(&mut self.by_thread);
        let ends = |pid: u32, plug: &Plug| pid == event.pid || plug.is_of_device;
        let (ended, kept) = all.into_iter().partition(|(pid, plug)| ends(*pid, plug));
        self.by_thread = kept;
        let ended: BTreeMap<u32, Plug> = ended;
        let released = ended.into_iter().map(|(pid, plug)| Released {
            release: plug.release(pid, event),
            requests: plug.requests,
        });
        released.collect()
    }

    /// A request goes to the driver although no unplug was seen. If the plug was of the device,
    /// that isn't plugged any more.
    pub fn issue(&mut self, request: Id, holder: u32) -> Option<Released> {
        if !self.by_thread.get(&holder)?.is_of_device {
            self.remove(request, holder);
            return None;
        }
        let plug = self.by_thread.remove(&holder)?;
        let requests = plug.requests.len() as u64;
        Some(Released {
            release: match requests >= DEVICE_PLUG_FULL {
                true => Release::Full { requests },
                false => Release::NotSeen,
            },
            requests: plug.requests,
        })
    }

    fn plug_of(&mut self, pid: u32) -> Option<&mut Plug> {
        if self.by_thread.len() >= PLUGS_MAX && !self.by_thread.contains_key(&pid) {
            // Plugs of threads that have ended in between: the trace lost their unplugs.
            self.by_thread.retain(|_, plug| !plug.requests.is_empty());
            if self.by_thread.len() >= PLUGS_MAX {
                return None;
            }
        }
        Some(self.by_thread.entry(pid).or_default())
    }
}

impl Plug {
    fn touch(&mut self, coming: &Coming<'_>, is_same: bool) {
        let event = coming.event;
        let came_ns = coming.queued_ns.unwrap_or(event.time_ns);
        self.last = Some(LastBio {
            quiet_ns: came_ns.saturating_sub(self.touched_ns),
            is_merge: coming.is_merge,
            later: Later {
                pid: event.pid,
                process: event.process.clone(),
                is_same,
                is_read: event.rwbs.is_read(),
                sector: event.sector,
                sectors: event.sectors,
            },
        });
        self.touched_ns = event.time_ns;
    }

    fn release(&self, owner: u32, event: &Event) -> Release {
        let requests = match event.action {
            Action::TimerUnplugged { .. } if event.pid == owner => return Release::Sleep,
            Action::TimerUnplugged { .. } => return Release::Timer,
            Action::Unplugged { requests } => requests.map_or(0, u64::from),
            _ => 0,
        };
        if let (Some(last), Some(opened_ns)) = (&self.last, self.opened_ns)
            && last.later.pid == event.pid
            && last.quiet_ns > event.time_ns.saturating_sub(opened_ns) / 2
        {
            return match last.is_merge {
                true => Release::Merge(last.later.clone()),
                false => Release::LaterRequest(last.later.clone()),
            };
        }
        let full = match self.is_of_device {
            true => DEVICE_PLUG_FULL,
            false => THREAD_PLUG_FULL,
        };
        if requests >= full {
            Release::Full { requests }
        } else if event.pid == owner {
            Release::Owner
        } else {
            Release::Other {
                pid: event.pid,
                process: event.process.clone(),
            }
        }
    }
}
