// SPDX-License-Identifier: MIT OR Apache-2.0
//! Matches programs with known profiles, and starts their replays.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread::{self, JoinHandle};

use foreread_linux_prefetcher::Executor;
use foreread_prefetch::budget::budget_bytes;
use foreread_profile::Profile;
use foreread_sys::memory::{give_back, memory};
use foreread_watch::ahead::Access;
use foreread_watch::detect::Missed;
use foreread_watch::excluded::Excluded;
use foreread_watch::known::Known;
use foreread_watch::log::note::{Note, OfProfile};
use foreread_watch::memory_budget::MemoryBudget;
use foreread_watch::rest::Why;
use foreread_watch::saved::{Baselines, Pace, Who};
use foreread_watch::tally::Tally;
use foreread_watch::together::Matcher;

use super::beat;
use super::cgroups::Cgroups;
use super::error::LoadError;
use super::mailbox::{Mailbox, Told};
use super::reader::Reader;
use super::replayer::{Load, Start, run};
use super::{WatchError, Watching, Whom};

/// Replays at the same time; each has a thread.
const REPLAYS_MAX: usize = 4;

/// The known profiles.
pub struct Profiles {
    known: Known,
    paths: Vec<PathBuf>,
    load: Arc<Load>,
}

impl Profiles {
    /// No profiles. `load` reads a profile again when its program has been seen, or returns why it
    /// can't.
    pub fn new(load: impl Fn(&Path) -> Result<Profile, LoadError> + Send + Sync + 'static) -> Self {
        Self {
            known: Known::default(),
            paths: Vec::new(),
            load: Arc::new(load),
        }
    }

    /// Adds a profile with the path of its file.
    pub fn add(&mut self, path: &Path, profile: &Profile) {
        self.known.add(profile);
        self.paths.push(path.to_owned());
    }
}

/// Counters of profile replay since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProfilesSummary {
    /// Known profiles.
    pub known: u64,
    /// Programs that matched a profile, the rest of which was replayed.
    pub matched: u64,
    /// Programs that seemed to match, but were other programs or needed no replay.
    pub refused: u64,
    /// Files and pages of all replays that have ended.
    pub tally: Tally,
}

/// A replay's thread.
struct Replaying {
    /// The user of its processes.
    user: u32,
    /// The process of the profile's program, and the children that missed its files.
    members: Vec<u32>,
    mailbox: Arc<Mailbox<Told>>,
    thread: JoinHandle<()>,
}

/// All known profiles and running replays.
pub(super) struct Together {
    matcher: Matcher,
    profiles: Option<Profiles>,
    /// Keyed by the process that missed the first files of a profile.
    replays: HashMap<u32, Replaying>,
    summary: ProfilesSummary,
    lost_reads: u64,
    /// Number of replays that were begun.
    begun: u64,
}

/// Settings for a replay.
pub(super) struct Setting<'a> {
    pub budget_bytes: Option<u64>,
    pub is_dry_run: bool,
    pub excluded: &'a Excluded,
    pub numbers_are_ours: bool,
    /// Whether the parents of a process are watched as well.
    pub sees_parents: bool,
    pub notes: &'a Sender<Note>,
    pub executor: &'a Executor,
    pub memory: &'a MemoryBudget,
    pub cgroups: &'a Cgroups,
    /// Whether to note the calls of replays.
    pub is_logged: bool,
    /// What files cost programs without help.
    pub baselines: &'a Baselines,
    /// The time of the miss.
    pub at_ns: u64,
}

impl Together {
    pub fn new() -> Self {
        Self {
            matcher: Matcher::default(),
            profiles: None,
            replays: HashMap::new(),
            summary: ProfilesSummary::default(),
            lost_reads: 0,
            begun: 0,
        }
    }

    /// Sets the known profiles; `None` turns matching off.
    pub fn know(&mut self, profiles: Option<Profiles>) {
        self.profiles = profiles;
        let known = self.profiles.as_mut().map(|profiles| &mut profiles.known);
        self.matcher
            .know(known.map(std::mem::take).unwrap_or_default());
    }

    pub fn summary(&self) -> Option<ProfilesSummary> {
        self.profiles.as_ref().map(|profiles| ProfilesSummary {
            known: profiles.paths.len() as u64,
            ..self.summary
        })
    }

    /// Reads for which a replay had no room.
    pub fn lost_reads(&self) -> u64 {
        self.lost_reads
    }

    /// Whether no replay runs.
    pub fn is_idle(&self) -> bool {
        self.replays.is_empty()
    }

    /// Whether a replay runs ahead of a process.
    pub fn is_on(&self, process: u32) -> bool {
        self.of(process).is_some()
    }

    /// Whether a replay needs the hits of the process that the BPF programs know by this number.
    pub fn leads(&self, process: u32) -> bool {
        self.replays.contains_key(&process) || self.is_on(process)
    }

    fn of(&self, process: u32) -> Option<&Replaying> {
        let mut replays = self.replays.values();
        replays.find(|of| of.members.contains(&process))
    }

    /// The process that stands for all processes of a process's replay.
    pub fn leader_of(&self, process: u32) -> Option<u32> {
        self.of(process)?.members.first().copied()
    }

    /// Passes a read of a process to its replay.
    pub fn tell(&mut self, process: u32, read: &Access, at_ns: u64) {
        let is_lost = self.of(process).is_some_and(|of| {
            let access = read.clone();
            of.mailbox.put(Told { access, at_ns })
        });
        self.lost_reads += u64::from(is_lost);
    }

    /// Takes a miss of a process without a replay. Returns the process for which a replay begins
    /// with this miss.
    pub fn missed(&mut self, file: &Missed, set: &Setting<'_>) -> Option<u32> {
        // If we started the command, its parent is this process, which is no part of the program.
        let above = if file.parent == std::process::id() {
            0
        } else {
            file.parent
        };
        let profiles = self.profiles.as_ref()?;
        let found = self.matcher.missed(&Missed {
            parent: above,
            ..file.clone()
        })?;
        let process = found.process;
        if self.replays.len() >= REPLAYS_MAX || self.is_on(process) {
            return None;
        }
        let charge = set.memory.charge_of(file.user);
        let mailbox = Arc::new(Mailbox::charging(charge));
        // A script is known by what its children miss.
        let who = |parent| Who {
            process,
            parent,
            user: file.user,
        };
        let baseline = match found.by == process {
            true => set.baselines.of(who(above), file.device),
            false => set.baselines.of_siblings(who(process), file.device),
        };
        let pace = Pace::since(set.at_ns, baseline, None);
        let members = match found.by == process {
            true => vec![process],
            false => vec![process, found.by],
        };
        let start = Start {
            path: profiles.paths.get(found.profile)?.clone(),
            found,
            reader: Reader::of_either(
                [file.process, process],
                file.user,
                set.numbers_are_ours,
                set.cgroups,
            ),
            load: Arc::clone(&profiles.load),
            budget_bytes: budget_bytes(memory(), set.budget_bytes),
            memory: set.memory.clone(),
            user: file.user,
            is_dry_run: set.is_dry_run,
            excluded: set.excluded.clone(),
            numbers_are_ours: set.numbers_are_ours,
            sees_parents: set.sees_parents,
            mailbox: Arc::clone(&mailbox),
            pace,
            executor: set.executor.clone(),
            notes: set.notes.clone(),
            number: self.begun + 1,
            is_logged: set.is_logged,
        };
        let thread = thread::Builder::new().name("together".into());
        // Without a thread there is no replay.
        let thread = thread.spawn(move || run(&start)).ok()?;
        self.begun += 1;
        self.replays.insert(
            process,
            Replaying {
                user: file.user,
                members,
                mailbox,
                thread,
            },
        );
        Some(process)
    }

    /// Whether the processes of a replay belong to this user.
    fn is_of(&self, process: u32, user: u32) -> bool {
        self.of(process).is_some_and(|of| of.user == user)
    }

    /// Another process reads what is replayed, too. The replay ends if that has another user, whose
    /// rights may be smaller. Returns whether it ends.
    pub fn shared_by(&mut self, process: u32, user: u32) -> bool {
        let ends = self.is_on(process) && !self.is_of(process, user);
        if let Some(of) = self.of(process).filter(|_| ends) {
            of.mailbox.stop();
        }
        ends
    }

    /// The processes of a replay. The first is the one with which it began.
    pub fn members(&self, process: u32) -> Vec<u32> {
        let of = self.replays.get(&process);
        of.map(|of| of.members.clone()).unwrap_or_default()
    }

    /// A process has ended.
    pub fn ended(&mut self, process: u32) {
        self.matcher.ended(process);
        for replaying in self.replays.values() {
            if replaying.members.first() == Some(&process) {
                replaying.mailbox.stop();
            }
        }
    }

    /// Takes a note of a replay. Returns the processes that it runs ahead of from now on; `None` if
    /// they do not change.
    pub fn take(&mut self, process: u32, what: &OfProfile) -> Option<Vec<u32>> {
        match what {
            OfProfile::Matched { processes, .. } => {
                self.summary.matched += 1;
                let of = self.replays.get_mut(&process)?;
                of.members.clone_from(processes);
                return Some(processes.clone());
            }
            OfProfile::Refused { .. } => {
                self.summary.refused += 1;
                self.matcher.was_wrong(process);
            }
            OfProfile::Fetched { .. } => {}
            OfProfile::Ended { why, tally, .. } => {
                self.summary.tally = self.summary.tally.and(*tally);
                if matches!(why, Why::Unused | Why::Memory) {
                    self.matcher.was_wrong(process);
                }
            }
        }
        None
    }

    /// Replays whose threads have ended.
    pub fn over(&self) -> Vec<u32> {
        let replays = self.replays.iter();
        let over = replays.filter(|(_, of)| of.thread.is_finished());
        over.map(|(process, _)| *process).collect()
    }

    /// Removes a replay that is over. Returns its processes.
    pub fn leave(&mut self, process: u32) -> Vec<u32> {
        let Some(replaying) = self.replays.remove(&process) else {
            return Vec::new();
        };
        // This was its last note.
        let _ = replaying.thread.join();
        replaying.members
    }

    /// Ends all replays.
    pub fn stop(&mut self) {
        for replaying in self.replays.values() {
            replaying.mailbox.stop();
        }
        let replays = std::mem::take(&mut self.replays).into_values();
        beat::join(replays.map(|replaying| replaying.thread));
    }
}

impl Watching {
    /// The process ahead of which the rest of a profile is replayed, if it or a child of it missed
    /// this file. May begin a replay.
    pub(super) fn replayed(
        &mut self,
        missed: &Missed,
        at_ns: u64,
    ) -> Result<Option<u32>, WatchError> {
        let (process, parent) = (missed.process, missed.parent);
        if let Some(leader) = self.together.leader_of(process) {
            return Ok(Some(leader));
        }
        // A process with a walk needs no replay.
        if self.is_followed(process) {
            return Ok(None);
        }
        if let Some(leader) = self.together.leader_of(parent)
            && self.together.is_of(parent, missed.user)
        {
            // The child was started before the profile was matched.
            self.seeing.share(leader, process, true);
            return Ok(Some(leader));
        }
        let set = Setting {
            budget_bytes: self.options.budget_bytes,
            is_dry_run: self.options.is_dry_run,
            excluded: &self.excluded,
            numbers_are_ours: self.seeing.numbers_are_ours,
            sees_parents: matches!(self.options.whom, Whom::All | Whom::NextChild),
            notes: &self.notes.0,
            executor: &self.executor,
            memory: &self.memory,
            cgroups: &self.cgroups,
            is_logged: self.options.is_logged,
            baselines: &self.baselines,
            at_ns,
        };
        if let Some(began) = self.together.missed(missed, &set) {
            self.look_at_replay(&self.together.members(began))?;
        }
        Ok(None)
    }

    /// Requests the reads of the processes of a replay, of which the first stands for all, and
    /// their children.
    pub(super) fn look_at_replay(&mut self, members: &[u32]) -> Result<(), WatchError> {
        let Some(leader) = members.first() else {
            return Ok(());
        };
        self.look_at(*leader)?;
        for member in members {
            self.seeing.share(*leader, *member, true);
        }
        Ok(())
    }

    pub(super) fn leave_replay(&mut self, process: u32) -> Result<(), WatchError> {
        let members = self.together.leave(process);
        for member in members.iter().chain([&process]) {
            self.look_at(*member)?;
        }
        if self.walks.is_empty() {
            give_back();
        }
        Ok(())
    }
}
