// SPDX-License-Identifier: MIT OR Apache-2.0
//! The thread of a profile replay: confirms the match, and drives the replay to its end.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use foreread_linux_prefetcher::{Executor, Neighbours, warm};
use foreread_profile::benefit::judge;
use foreread_profile::{NodeId, Profile};
use foreread_sys::mounts::{Mounts, mounts_of_self};
use foreread_watch::ahead::{Ahead, Machine};
use foreread_watch::detect::Missed;
use foreread_watch::excluded::Excluded;
use foreread_watch::known::first_need_ns;
use foreread_watch::log::note::{Note, OfProfile, PlannerCall, What};
use foreread_watch::log::rest_call::NoteRest;
use foreread_watch::memory_budget::MemoryBudget;
use foreread_watch::paths::joined;
use foreread_watch::profile_replay::ProfileReplay;
use foreread_watch::rest::Why;
use foreread_watch::saved::Pace;
use foreread_watch::together::Found;

use super::driver::Driver;
use super::error::{LoadError, NotReplayed};
use super::left_alone::is_program;
use super::listing::Lists;
use super::mailbox::{Mailbox, Told};
use super::permitted::Permitted;
use super::program_of::{is_run, program_of};
use super::reader::Reader;

/// A profile is not replayed if at least this part of it is cached, in thousandths.
const WARM_PERMILLE: u16 = 950;
/// The replay ends when its program reads no file of the profile for this long.
const IDLE: Duration = Duration::from_secs(30);

/// Reads a profile from its file.
pub(super) type Load = dyn Fn(&Path) -> Result<Profile, LoadError> + Send + Sync;

/// The arguments of a replay's thread.
pub(super) struct Start {
    pub found: Found,
    /// The process that missed its files, whose rights bound what is replayed.
    pub reader: Reader,
    pub path: PathBuf,
    pub load: Arc<Load>,
    pub budget_bytes: u64,
    /// The memory of all planners, and the user to whom this one is charged.
    pub memory: MemoryBudget,
    pub user: u32,
    pub is_dry_run: bool,
    pub excluded: Excluded,
    pub numbers_are_ours: bool,
    pub sees_parents: bool,
    pub mailbox: Arc<Mailbox<Told>>,
    /// The pace of the program, from its last miss on.
    pub pace: Pace,
    pub executor: Executor,
    pub notes: Sender<Note>,
    /// The number by which the log tells it from other replays.
    pub number: u64,
    /// Whether to note its calls.
    pub is_logged: bool,
}

impl Start {
    fn note(&self, what: OfProfile, owner: Option<u32>) {
        self.send(What::OfProfile(Box::new(what)), owner);
    }

    fn send(&self, what: What, owner: Option<u32>) {
        let note = Note {
            process: self.found.process,
            began_by_reads: true,
            owner,
            what,
        };
        // Without a receiver of notes this thread ends soon.
        let _ = self.notes.send(note);
    }

    /// Returns the profile and its program, or why the profile is not replayed.
    fn confirm(&self, permitted: &RefCell<Permitted>) -> Result<Confirmed, NotReplayed> {
        let process = self.found.process;
        if let Some(why) = permitted.borrow_mut().begin() {
            return Err(NotReplayed::Skipped(why));
        }
        if self.numbers_are_ours && is_run(process) {
            return Err(NotReplayed::ByRun);
        }
        let profile = (self.load)(&self.path)?;
        if !judge(&profile.runs).replays() {
            return Err(NotReplayed::NoBenefit);
        }
        let looks_above = self.numbers_are_ours && self.sees_parents;
        let processes = program_of(&profile, &self.found, looks_above);
        let is_excluded =
            |process: &u32| is_program(&self.excluded, *process, self.numbers_are_ours);
        if processes.iter().any(is_excluded) {
            return Err(NotReplayed::Excluded);
        }
        let mounts = mounts_of_self().map_err(NotReplayed::Mounts)?;
        let files = self.found.files.iter();
        let files: Option<Vec<NodeId>> =
            files.map(|file| node_of(&mounts, &profile, file)).collect();
        let files = files.ok_or(NotReplayed::FilesElsewhere)?;
        if warm::cached_permille(&profile) >= WARM_PERMILLE {
            return Err(NotReplayed::Cached);
        }
        Ok(Confirmed {
            profile,
            mounts,
            files,
            processes,
        })
    }
}

struct Confirmed {
    profile: Profile,
    mounts: Mounts,
    /// The files by which the profile was matched.
    files: Vec<NodeId>,
    processes: Vec<u32>,
}

/// The file of the profile that was missed.
fn node_of(mounts: &Mounts, profile: &Profile, file: &Missed) -> Option<NodeId> {
    let inside = joined(&file.directory, &file.name);
    let paths = mounts.reach(file.device.major, file.device.minor, &inside);
    let mut nodes = paths.iter().filter_map(|(_, path)| profile.find(path));
    nodes.find(|id| {
        let node = profile.node(*id);
        node.is_some_and(|node| node.identity.inode == file.inode)
    })
}

/// Confirms a match, and replays the rest of its profile.
pub(super) fn run(start: &Start) {
    let profile_file = start.path.clone();
    let permitted = RefCell::new(Permitted::new(start.reader.clone()));
    let Confirmed {
        profile,
        mounts,
        files,
        processes,
    } = match start.confirm(&permitted) {
        Ok(confirmed) => confirmed,
        Err(why) => {
            let why = why.to_string();
            let owner = permitted.borrow().owner();
            return start.note(OfProfile::Refused { profile_file, why }, owner);
        }
    };
    let matched = OfProfile::Matched {
        profile_file: profile_file.clone(),
        files: files.iter().map(|id| profile.path(*id)).collect(),
        odds_bits: start.found.odds_bits,
        processes,
    };
    start.note(matched, permitted.borrow().owner());
    // The program has missed the last file itself.
    let last_ns = files.last().and_then(|id| first_need_ns(&profile, *id));
    let from_ns = last_ns.map_or(0, |need_ns| need_ns.saturating_add(1));
    let device = |path: &[u8]| {
        let point = mounts
            .mount_of(path)
            .and_then(|at| mounts.points().get(at))?;
        let is_ours = !point.is_virtual()
            && !start.excluded.is_path(path)
            && !start.excluded.is_device(point.device());
        is_ours.then(|| point.device())
    };
    let note = start.is_logged.then(|| -> NoteRest<'_> {
        Box::new(|call| start.send(What::Called(PlannerCall::Rest(Box::new(call))), None))
    });
    let (budget_bytes, number) = (start.budget_bytes, start.number);
    let mut replay = ProfileReplay::begin(&profile, from_ns, device, budget_bytes, number, note);
    let driver = Driver {
        mailbox: &start.mailbox,
        executor: &start.executor,
        lists: &Lists::default(),
        permitted: &permitted,
        budget: &start.memory,
        user: start.user,
        budget_bytes: start.budget_bytes,
        neighbours: Neighbours::new(false),
        idle: IDLE,
        is_dry_run: start.is_dry_run,
        pace: RefCell::new(start.pace.clone()),
        is_shared: &|| false,
    };
    let mut notes = NotesOnly {
        start,
        permitted: &permitted,
    };
    driver.drive(&mut replay, &mut notes);
    let ended = OfProfile::Ended {
        profile_file,
        why: replay.why().unwrap_or(Why::Stopped),
        tally: replay.tally(),
    };
    start.note(ended, permitted.borrow().owner());
}

/// A replay asks nothing of the machine: its profile names all files.
struct NotesOnly<'a> {
    start: &'a Start,
    permitted: &'a RefCell<Permitted>,
}

impl Machine for NotesOnly<'_> {
    fn note(&mut self, what: What) {
        self.start.send(what, self.permitted.borrow().owner());
    }
}
