// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loads and attaches `bpf/watch.bpf.c`, and reads its events.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use foreread_bpf::skeletons::watch::{OpenWatchSkel, WatchSkel, WatchSkelBuilder};
use foreread_bpf::system_calls::fill as fill_syscall_classes;
use foreread_bpf::{MissingHook, Served, likes, needs};
use foreread_sys::process_stat::parent_of;
use foreread_watch::traversal::PAGES_PER_FILE;
use libbpf_rs::skel::Skel;
use libbpf_rs::{Link, MapCore, MapFlags, ProgramInput, RingBuffer};

use super::abi::{Follower, Seen, Sight};
use super::error::{WatchError, refused};

/// Events that are taken at a time. Programs may write events as fast as they are read, and each
/// may have a path of 2 KiB.
pub(super) const EVENTS_MAX: usize = 2048;

/// The scope: which processes are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whom {
    /// Every process.
    All,
    /// The next child of this thread, and its children.
    NextChild,
    /// A process and its children.
    Process(u32),
    /// A cgroup and its descendants.
    Cgroup {
        /// Its number in the kernel.
        id: u64,
        /// Its depth below the root of the hierarchy.
        level: u32,
    },
}

/// The programs in the kernel. Detached when dropped.
pub(super) struct Seeing {
    // Dropped, and so detached, before the objects that the links use.
    _links: Vec<Link>,
    /// The program at hits; attached while there is a walk.
    hits: Option<Link>,
    /// The program at lookups; attached while there is a walk that only looks files up.
    looks: Option<Link>,
    walkers: HashMap<u32, Sight>,
    /// Processes of walks for which there was no room.
    unseen: Cell<u64>,
    skel: WatchSkel<'static>,
    served: Served,
    ring: RingBuffer<'static>,
    inbox: Rc<RefCell<Vec<Seen>>>,
    /// Whether the kernel's process numbers are those of our `/proc`.
    pub numbers_are_ours: bool,
}

impl Seeing {
    pub fn start(whom: Whom) -> Result<Self, WatchError> {
        let set = |open: &mut OpenWatchSkel<'static>| {
            if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
                rodata.only_tree = u32::from(matches!(whom, Whom::NextChild | Whom::Process(_)));
                if let Whom::Cgroup { id, level } = whom {
                    rodata.only_cgroup = id;
                    rodata.cgroup_level = level;
                }
                rodata.pages_per_file = PAGES_PER_FILE;
                fill_syscall_classes(&mut rodata.syscall_class);
                #[cfg(target_arch = "x86_64")]
                {
                    rodata.call_stat = libc::SYS_stat as u32;
                    rodata.call_lstat = libc::SYS_lstat as u32;
                }
            }
            Ok(())
        };
        let wanted = [
            needs("forked"),
            needs("exited"),
            needs("missed"),
            needs("hit"),
            likes("look_waits", "programs that only look at files"),
            likes("looked", "programs that only look at files"),
        ];
        let (mut skel, mut served) = foreread_bpf::load::<WatchSkelBuilder>(&wanted, set)?;
        let inbox = Rc::new(RefCell::new(Vec::new()));
        let receiver = Rc::clone(&inbox);
        let mut last_shares = None;
        let ring = foreread_bpf::ring(&skel.maps.fr_watch_ring, move |bytes| {
            let shares = Seen::shares(bytes);
            // A process makes most of its reads in a row.
            if shares != last_shares {
                receiver.borrow_mut().extend(shares.clone());
                last_shares = shares;
            }
            receiver.borrow_mut().extend(Seen::from_bytes(bytes));
        })?;
        skel.progs
            .fr_watch_whoami
            .test_run(ProgramInput::default())
            .map_err(refused("asking for the process number"))?;
        let mut numbers_are_ours = false;
        if let Some(bss) = skel.maps.bss_data.as_deref_mut() {
            numbers_are_ours = bss.whoami_tgid == std::process::id();
            if whom == Whom::NextChild {
                bss.adopt_pid = bss.whoami_pid;
            }
        }
        // The hook at forks comes first, so that no child is missed.
        let watching = ["forked", "exited", "missed", "look_waits"];
        let links = served.attach(skel.object(), &watching)?;
        if let Whom::Process(process) = whom {
            if !numbers_are_ours {
                return Err(WatchError::Container);
            }
            for member in tree_of(process) {
                let key = member.to_ne_bytes();
                let added = skel.maps.fr_tree.update(&key, &[1], MapFlags::ANY);
                added.map_err(refused("naming the processes"))?;
            }
        }
        Ok(Self {
            _links: links,
            hits: None,
            looks: None,
            walkers: HashMap::new(),
            unseen: Cell::new(0),
            skel,
            served,
            ring,
            inbox,
            numbers_are_ours,
        })
    }

    /// Waits for events, for `also` or for the timeout; returns the events.
    pub fn wait(&self, also: Option<BorrowedFd<'_>>, limit: Duration) -> Vec<Seen> {
        foreread_bpf::wait(&self.ring, also, Some(limit));
        self.take()
    }

    /// The events since the last call, at most [`EVENTS_MAX`].
    pub fn take(&self) -> Vec<Seen> {
        // An error means a damaged ring, which has no more events.
        let _ = self.ring.consume_raw_n(EVENTS_MAX);
        std::mem::take(&mut *self.inbox.borrow_mut())
    }

    /// Attaches or detaches (`None`) the programs that see hits and lookups of the processes of a
    /// walk. While there is no walk, hits and calls cost nothing.
    pub fn follow(&mut self, leader: u32, sight: Option<Sight>) -> Result<(), WatchError> {
        for (member, walker) in self.members(leader) {
            match sight {
                Some(sight) => self.put(member, Follower { sight, ..walker }),
                // The process may have ended.
                None => drop(
                    self.skel
                        .maps
                        .fr_watch_walkers
                        .delete(&member.to_ne_bytes()),
                ),
            }
        }
        match sight {
            Some(sight) if self.walkers.insert(leader, sight).is_none() => {
                self.share(leader, leader, false);
            }
            Some(_) => {}
            None => drop(self.walkers.remove(&leader)),
        }
        self.fit()
    }

    /// Lets a process share a walk, and with `takes_children` its later children.
    pub fn share(&self, leader: u32, member: u32, takes_children: bool) {
        let Some(sight) = self.walkers.get(&leader).copied() else {
            return;
        };
        let walker = Follower {
            leader,
            sight,
            takes_children,
        };
        self.put(member, walker);
    }

    /// Adds a process to the map. If the map is full, the walk goes on, but the process is not
    /// seen.
    fn put(&self, member: u32, walker: Follower) {
        let walkers = &self.skel.maps.fr_watch_walkers;
        let added = walkers.update(&member.to_ne_bytes(), &walker.to_bytes(), MapFlags::ANY);
        self.unseen
            .set(self.unseen.get() + u64::from(added.is_err()));
    }

    /// The processes that share a walk.
    fn members(&self, leader: u32) -> Vec<(u32, Follower)> {
        let walkers = &self.skel.maps.fr_watch_walkers;
        let known = walkers.keys().filter_map(|key| {
            let member = u32::from_ne_bytes(key.get(..4)?.try_into().ok()?);
            let walker = walkers.lookup(&key, MapFlags::ANY).ok()??;
            Some((member, Follower::from_bytes(&walker)?))
        });
        known
            .filter(|(_, walker)| walker.leader == leader)
            .collect()
    }

    /// Attaches the programs that are needed, and detaches the others.
    fn fit(&mut self) -> Result<(), WatchError> {
        let object = self.skel.object();
        if self.walkers.is_empty() {
            self.hits = None;
        } else if self.hits.is_none() {
            self.hits = self.served.attach(object, &["hit"])?.pop();
        }
        if !self.walkers.values().any(|sight| *sight == Sight::Looks) {
            self.looks = None;
        } else if self.looks.is_none() {
            self.looks = self.served.attach(object, &["looked"])?.pop();
        }
        Ok(())
    }

    /// Hooks that this kernel lacks, and why.
    pub fn lacking(&self) -> &[MissingHook] {
        self.served.lacking()
    }

    /// Whether hits are seen.
    pub fn sees_hits(&self) -> bool {
        self.hits.is_some()
    }

    /// The map of the watched processes; used if the scope is a tree of processes.
    pub fn tree(&self) -> io::Result<OwnedFd> {
        self.skel.maps.fr_tree.as_fd().try_clone_to_owned()
    }

    /// Records and processes for which there was no room.
    pub fn lost(&self) -> u64 {
        let lost = self.skel.maps.bss_data.as_deref().map_or(0, |bss| bss.lost);
        lost + self.unseen.get()
    }
}

/// A process and all its descendants.
fn tree_of(process: u32) -> Vec<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(id) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        if let Some(parent) = parent_of(id) {
            children.entry(parent).or_default().push(id);
        }
    }
    let mut tree = vec![process];
    let mut at = 0;
    while let Some(parent) = tree.get(at) {
        tree.extend(children.remove(parent).unwrap_or_default());
        at += 1;
    }
    tree
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_processes_than_there_is_room_for_are_lost_and_no_error() {
        let leader = std::process::id();
        let mut seeing = match Seeing::start(Whom::Cgroup { id: 0, level: 0 }) {
            Ok(seeing) => seeing,
            Err(error) => return println!("skipped: {error}"),
        };
        seeing.follow(leader, Some(Sight::Reads)).unwrap();
        assert_eq!(seeing.lost(), 0);
        for member in 1 << 22..(1 << 22) + 70_000 {
            seeing.share(leader, member, true);
        }
        assert!(seeing.lost() >= 70_000 - (1 << 16), "{}", seeing.lost());
        seeing.follow(leader, None).unwrap();
        assert!(!seeing.sees_hits());
        assert_eq!(seeing.members(leader).len(), 0);
    }

    #[test]
    fn children_are_found() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let tree = tree_of(std::process::id());
        let is_found = tree.contains(&child.id()) && tree.contains(&std::process::id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(is_found, "{tree:?}");
    }
}
