// SPDX-License-Identifier: MIT OR Apache-2.0
//! A walk through a directory tree, and how far ahead of its program what is fetched.
//!
//! Whoever carries a walk out asks it what to do ([`Walk::decide`]), does that, and tells it what
//! came of it, and what the program has read meanwhile. It does no I/O, so what it is told decides
//! alone what it answers.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use crate::cursor::{Cursor, Cursors};
use crate::order::{Entry, Order};
use crate::paths::{child_below, common, depth, is_within, joined};
use crate::tally::Tally;
use crate::window::Window;

/// Directories that are listed in one go.
const LISTS_MAX: usize = 64;
/// Steps behind the program that are kept, for programs that don't go quite in order.
const STEPS_BEHIND: usize = 4096;
/// Levels that the top may rise at once.
const RISE_LEVELS: usize = 3;
/// After so many files read or passed, it is seen what the fetching was worth.
const FILES_PER_REVIEW: u64 = 256;
/// One of so many files that are read, or more, must be a fetched one.
const READS_PER_USE_MAX: u64 = 8;
/// What is ahead of a program that reads may be lost, should it go elsewhere: so many files, or so
/// many times as many as it has used already. Three files in order are chance once in twenty times
/// or so, and whoever reads here and there is looked at often.
const AHEAD_FILES_MIN: u64 = 64;
const AHEAD_FILES_PER_USED: u64 = 4;
/// Files read elsewhere, without one of this tree between them, that end the walk.
const STRAYS_MAX: u32 = 4;
/// So many files of which data are read, and not only inodes, make a program one that reads.
const READS_MIN: u32 = 3;
/// Reads and looks that came before what they mean was listed.
const UNPLACED_MAX: usize = 128;
/// Inodes that were looked at and aren't listed yet.
const LOOKED_BEFORE_MAX: usize = 1 << 16;
/// Steps that are kept at most, wherever its program is.
const STEPS_MAX: usize = 1 << 19;

/// A file to fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileToFetch {
    /// Its directory.
    pub directory: Arc<[u8]>,
    /// Its name there.
    pub name: Vec<u8>,
    /// Its inode number.
    pub inode: u64,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// List these directories, and those below them as far as there is room.
    List(Vec<Vec<u8>>),
    /// Fetch these files, in this order of need, of so many bytes at most.
    Fetch(Vec<FileToFetch>, u64),
    /// The program isn't near enough to the end of what is fetched.
    Wait,
    /// Nothing is worth doing any more.
    End(Why),
}

/// Why a walk has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The program reads elsewhere.
    Left,
    /// What was fetched was not what it read.
    Unused,
    /// It has read nothing for a while.
    Idle,
    /// The program has ended.
    Exited,
    /// Memory runs short.
    Memory,
    /// Whoever watches was told to stop.
    Stopped,
}

impl Why {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Left,
        Self::Unused,
        Self::Idle,
        Self::Exited,
        Self::Memory,
        Self::Stopped,
    ];

    /// As a log has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Left => "left",
            Self::Unused => "unused",
            Self::Idle => "idle",
            Self::Exited => "exited",
            Self::Memory => "memory",
            Self::Stopped => "stopped",
        }
    }
}

/// Where a file that was read lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Met {
    /// Among those that the walk knows.
    Known,
    /// Below its top, and not known, or known no longer.
    Below,
    /// Elsewhere.
    Outside,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Fetched,
    Used,
    Missed,
}

#[derive(Clone, Debug)]
enum Step {
    File(FileToFetch),
    /// A directory of which nothing is known yet.
    Unlisted(Vec<u8>),
}

/// Files to fetch, each once.
#[derive(Debug, Default)]
struct Files {
    list: Vec<FileToFetch>,
    inodes: HashSet<u64>,
}

/// One process on its way through one tree.
#[derive(Debug)]
pub struct Walk {
    top: Vec<u8>,
    order: Order,
    window: Window,
    budget_bytes: u64,
    /// Whether its program reads files, or only looks at them.
    reads: bool,
    steps: VecDeque<Step>,
    /// Number of the first step: those before it are forgotten.
    front: u64,
    cursors: Cursors,
    /// Where files are, by their inode numbers.
    places: HashMap<u64, u64>,
    /// Where the entries of directories begin.
    doors: HashMap<u64, u64>,
    states: HashMap<u64, State>,
    tally: Tally,
    /// Since the last review: files read, of them fetched ones.
    read_files: u64,
    read_fetched_files: u64,
    /// Since the last review: fetched files that the program passed, of them unread ones.
    passed_files: u64,
    passed_unread_files: u64,
    /// Whether the window has grown since the last fetch.
    has_grown: bool,
    strays: u32,
    /// What was come to last and isn't listed yet.
    unplaced: VecDeque<u64>,
    /// The directory of the file that was come to last.
    last_directory: Option<Arc<[u8]>>,
    jump: Option<(Vec<u8>, [Vec<u8>; 2])>,
    /// What was looked at before it was listed.
    looked_before: HashSet<u64>,
    /// Files of which data was missed, while only inodes are fetched.
    read_while_looking: u32,
    over: Option<Why>,
}

impl Walk {
    /// A walk below `top`, of which nothing is listed yet.
    #[must_use]
    pub fn new(top: &[u8], order: Order, budget_bytes: u64) -> Self {
        Self {
            top: top.to_vec(),
            order,
            window: Window::new(budget_bytes),
            budget_bytes,
            reads: true,
            steps: VecDeque::from([Step::Unlisted(top.to_vec())]),
            front: 0,
            cursors: Cursors::default(),
            places: HashMap::new(),
            doors: HashMap::new(),
            states: HashMap::new(),
            tally: Tally::default(),
            read_files: 0,
            read_fetched_files: 0,
            passed_files: 0,
            passed_unread_files: 0,
            has_grown: false,
            strays: 0,
            unplaced: VecDeque::new(),
            last_directory: None,
            jump: None,
            looked_before: HashSet::new(),
            read_while_looking: 0,
            over: None,
        }
    }

    /// The same of a program that only looks at files, as far as is known.
    #[must_use]
    pub fn of_looks(top: &[u8], order: Order, budget_bytes: u64) -> Self {
        Self {
            reads: false,
            window: Window::of_inodes(budget_bytes),
            ..Self::new(top, order, budget_bytes)
        }
    }

    /// Whether the data of files are to be fetched, and not only their inodes.
    #[must_use]
    pub fn reads(&self) -> bool {
        self.reads
    }

    /// The directory below which it goes.
    #[must_use]
    pub fn top(&self) -> &[u8] {
        &self.top
    }

    /// The order in which it goes.
    #[must_use]
    pub fn order(&self) -> Order {
        self.order
    }

    /// Most bytes that may be in memory ahead of the program.
    #[must_use]
    pub fn budget_bytes(&self) -> u64 {
        self.budget_bytes
    }

    /// What came of it so far.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Files that may be in memory ahead of the program.
    #[must_use]
    pub fn window_files(&self) -> u64 {
        self.window.files()
    }

    /// What to do next.
    pub fn decide(&mut self) -> Decision {
        if let Some(why) = self.over {
            return Decision::End(why);
        }
        self.find_next();
        let window = self.ahead_max();
        let counting = self.cursors.counting().map(|cursor| *cursor);
        let mut cursors: Vec<Cursor> = counting.collect();
        let share = window / (cursors.len() as u64).max(1);
        // Who is nearest to the end of what is fetched comes first.
        cursors.sort_by_key(Cursor::ahead);
        let mut files = Files::default();
        for cursor in &cursors {
            // The next files fit once half of these are used: a batch that is worth its order.
            if cursor.ahead() < share.div_ceil(2) {
                self.gather(cursor.next, share - cursor.ahead(), &mut files);
            }
        }
        if !files.list.is_empty() {
            let ahead = cursors.iter().map(Cursor::ahead).sum();
            return Decision::Fetch(files.list, self.window.bytes_left(ahead));
        }
        let unlisted = cursors.iter().find(|cursor| {
            cursor.ahead() <= share && matches!(self.step(cursor.next), Some(Step::Unlisted(_)))
        });
        // Without one, it may go on outside.
        unlisted.map_or(Decision::Wait, |cursor| {
            Decision::List(self.unlisted(cursor.next).take(LISTS_MAX).collect())
        })
    }

    /// Files that may be ahead of the program now.
    fn ahead_max(&self) -> u64 {
        let window = self.window.files();
        if !self.reads {
            return window;
        }
        let used = self.tally.used_files.saturating_mul(AHEAD_FILES_PER_USED);
        window.min(used.max(AHEAD_FILES_MIN))
    }

    /// Lets cursors go over what is fetched ahead of them.
    fn find_next(&mut self) {
        let (steps, front, states) = (&self.steps, self.front, &self.states);
        for cursor in self.cursors.all() {
            let from = usize::try_from(cursor.next - front).unwrap_or(usize::MAX);
            let known = steps.range(from.min(steps.len())..).take_while(
                |step| matches!(step, Step::File(file) if states.contains_key(&file.inode)),
            );
            cursor.next += known.count() as u64;
        }
    }

    fn gather(&self, next: u64, files_max: u64, files: &mut Files) {
        let from = usize::try_from(next - self.front).unwrap_or(usize::MAX);
        let ahead = self.steps.range(from.min(self.steps.len())..);
        let ahead = ahead.map_while(|step| match step {
            Step::File(file) => Some(file),
            Step::Unlisted(_) => None,
        });
        let unknown = ahead.filter(|file| !self.states.contains_key(&file.inode));
        let files_max = usize::try_from(files_max).unwrap_or(usize::MAX);
        for file in unknown.take(files_max) {
            if files.inodes.insert(file.inode) {
                files.list.push(file.clone());
            }
        }
    }

    fn unlisted(&self, from: u64) -> impl Iterator<Item = Vec<u8>> + '_ {
        let from = usize::try_from(from - self.front).unwrap_or(usize::MAX);
        self.steps.range(from..).filter_map(|step| match step {
            Step::Unlisted(path) => Some(path.clone()),
            Step::File(_) => None,
        })
    }

    fn step(&self, number: u64) -> Option<&Step> {
        let at = usize::try_from(number.checked_sub(self.front)?).ok()?;
        self.steps.get(at)
    }

    /// Directories as they are listed. One that was tried and isn't here can't be.
    pub fn listed(&mut self, tried: &[Vec<u8>], lists: &HashMap<Vec<u8>, Vec<Entry>>) {
        self.tally.directories += lists.len() as u64;
        let is_done = |step: &Step| match step {
            Step::Unlisted(path) => lists.contains_key(path) || tried.contains(path),
            Step::File(_) => false,
        };
        let Some(at) = self.steps.iter().position(is_done) else {
            return;
        };
        let rest = self.steps.split_off(at.min(self.steps.len()));
        for step in rest {
            match step {
                Step::Unlisted(path) if lists.contains_key(&path) => {
                    self.append(path, lists);
                }
                Step::Unlisted(path) if tried.contains(&path) => {}
                other => self.steps.push_back(other),
            }
        }
        self.find_places(at);
    }

    /// Appends what is below a directory, in the order of the walk.
    fn append(&mut self, directory: Vec<u8>, lists: &HashMap<Vec<u8>, Vec<Entry>>) {
        enum Rest {
            Directory(Vec<u8>, u64),
            File(FileToFetch),
        }
        let mut stack = vec![Rest::Directory(directory, 0)];
        while let Some(rest) = stack.pop() {
            let path = match rest {
                Rest::File(file) => {
                    self.steps.push_back(Step::File(file));
                    continue;
                }
                Rest::Directory(path, inode) => {
                    self.doors
                        .insert(inode, self.front + self.steps.len() as u64);
                    path
                }
            };
            let Some(entries) = lists.get(&path) else {
                self.steps.push_back(Step::Unlisted(path));
                continue;
            };
            let mut entries = entries.clone();
            self.order.sort(&mut entries);
            let directory: Arc<[u8]> = path.into();
            stack.extend(entries.into_iter().rev().map(|entry| {
                if entry.is_directory {
                    Rest::Directory(joined(&directory, &entry.name), entry.inode)
                } else {
                    Rest::File(FileToFetch {
                        directory: Arc::clone(&directory),
                        name: entry.name,
                        inode: entry.inode,
                    })
                }
            }));
        }
    }

    /// Notes where files are, from a step on, and where the program is now.
    fn find_places(&mut self, from: usize) {
        let front = self.front;
        for (at, step) in self.steps.iter().enumerate().skip(from) {
            if let Step::File(file) = step {
                self.places.insert(file.inode, front + at as u64);
                if self.looked_before.remove(&file.inode) {
                    self.states.insert(file.inode, State::Used);
                }
            }
        }
        let (places, doors) = (&self.places, &self.doors);
        for cursor in self.cursors.all() {
            if cursor.reached > front + from as u64 {
                let place = places.get(&cursor.inode).map(|number| number + 1);
                let place = place.or_else(|| doors.get(&cursor.inode).copied());
                cursor.reached = place.unwrap_or(cursor.reached);
                cursor.next = cursor.reached;
            }
        }
        for inode in std::mem::take(&mut self.unplaced) {
            self.find(inode);
        }
    }

    /// Goes to where an inode is; whether that is known.
    fn find(&mut self, inode: u64) -> bool {
        if let Some(number) = self.places.get(&inode).copied() {
            self.come_to(number, number + 1, inode);
        } else if let Some(door) = self.doors.get(&inode).copied() {
            self.come_to(door, door, inode);
        } else {
            if self.unplaced.len() == UNPLACED_MAX {
                self.unplaced.pop_front();
            }
            self.unplaced.push_back(inode);
            return false;
        }
        true
    }

    /// So many files were asked for, and so many pages came in for them.
    pub fn fetched(&mut self, files: u64, pages: u64) {
        self.tally.fetched_files += files;
        self.tally.fetched_pages += pages;
        self.window.fetched(files, pages);
        self.has_grown = false;
    }

    /// These files are being fetched from now on: what of them is missed is missed no longer.
    pub fn fetching(&mut self, files: &[FileToFetch]) {
        for file in files {
            self.states.insert(file.inode, State::Fetched);
        }
    }

    /// These files were to be fetched, and are not, or not all of them; so many pages came in.
    pub fn stopped_fetching(&mut self, files: &[FileToFetch], pages: u64) {
        self.tally.fetched_pages += pages;
        for file in files {
            match self.states.get(&file.inode) {
                Some(State::Fetched) => drop(self.states.remove(&file.inode)),
                // It came in, and was read before the fetch was stopped.
                Some(State::Used) => self.tally.fetched_files += 1,
                _ => {}
            }
        }
        for cursor in self.cursors.all() {
            cursor.next = cursor.reached;
        }
    }

    /// Where the program has gone on far from where it was: the directory that holds both, and the
    /// names there that lead to the old place and to the new one. Told once.
    pub fn jumped(&mut self) -> Option<(Vec<u8>, [Vec<u8>; 2])> {
        self.jump.take()
    }

    /// The program has read a file from memory.
    pub fn hit(&mut self, inode: u64) -> Met {
        match self.states.get(&inode) {
            // Its inode was fetched; what data it has was in memory before.
            _ if !self.reads => return Met::Known,
            Some(State::Fetched) => {
                self.tally.used_files += 1;
                self.read_fetched_files += 1;
                self.read_files += 1;
            }
            // What it missed it reads next; what was in memory before all this is no gain.
            Some(State::Used | State::Missed) => return Met::Known,
            None if self.places.contains_key(&inode) => self.read_files += 1,
            None => {}
        }
        self.met(inode)
    }

    /// The program has read a file that was not in memory.
    pub fn missed(&mut self, directory: &[u8], inode: u64) -> Met {
        if !self.is_below(directory) {
            return Met::Outside;
        }
        if !self.reads {
            self.read_while_looking += u32::from(self.places.contains_key(&inode));
            if self.read_while_looking < READS_MIN {
                return Met::Known;
            }
            self.turn_to_reads();
        }
        self.read_files += 1;
        // One that is under way is waited for, and so was of use: it counts when it is there.
        if self.states.get(&inode) != Some(&State::Fetched) {
            self.was_late(inode);
        }
        let met = self.find(inode);
        self.review();
        match met {
            true => Met::Known,
            false => Met::Below,
        }
    }

    /// The program has looked at something, and may have waited for metadata.
    pub fn looked(&mut self, inode: u64, is_late: bool) -> Met {
        if self.reads {
            return Met::Known;
        }
        match self.states.get(&inode) {
            Some(State::Fetched) => {
                self.tally.used_files += 1;
                self.read_fetched_files += 1;
                self.read_files += 1;
            }
            Some(State::Used | State::Missed) => return Met::Known,
            None if is_late => {
                self.read_files += 1;
                if !self.doors.contains_key(&inode) {
                    self.was_late(inode);
                }
            }
            None if self.places.contains_key(&inode) => self.read_files += 1,
            None => {}
        }
        if self.looked_before.len() < LOOKED_BEFORE_MAX
            && !self.places.contains_key(&inode)
            && !self.doors.contains_key(&inode)
        {
            self.looked_before.insert(inode);
        }
        self.met(inode)
    }

    /// Its program waits for metadata in this directory. Where in it isn't known.
    pub fn waits_in(&mut self, directory: &[u8]) -> Met {
        match self.is_below(directory) {
            true => Met::Known,
            false => Met::Outside,
        }
    }

    fn is_below(&mut self, directory: &[u8]) -> bool {
        if is_within(&self.top, directory) {
            self.strays = 0;
            return true;
        }
        self.strays += 1;
        if self.strays > STRAYS_MAX {
            self.over = Some(Why::Left);
        }
        false
    }

    /// It was not fetched when the program came to it.
    fn was_late(&mut self, inode: u64) {
        self.tally.missed_files += 1;
        self.states.insert(inode, State::Missed);
        if !self.has_grown {
            self.window.grow();
            self.has_grown = true;
        }
    }

    fn met(&mut self, inode: u64) -> Met {
        if self.places.contains_key(&inode) && self.states.get(&inode) != Some(&State::Missed) {
            self.states.insert(inode, State::Used);
        }
        let is_known = self.find(inode);
        self.review();
        match is_known {
            true => Met::Known,
            false => Met::Below,
        }
    }

    /// What was fetched were inodes; from now on it is data.
    fn turn_to_reads(&mut self) {
        self.reads = true;
        self.looked_before = HashSet::new();
        self.window = Window::new(self.budget_bytes);
        let fetched = self
            .states
            .values()
            .filter(|state| **state == State::Fetched);
        // Those that are being fetched just now are not counted yet.
        let fetched = fetched.count() as u64;
        self.tally.fetched_files = self.tally.fetched_files.saturating_sub(fetched);
        // What was looked at before isn't come to any more.
        self.states.retain(|_, state| *state != State::Fetched);
        for cursor in self.cursors.all() {
            cursor.next = cursor.reached;
        }
    }

    fn come_to(&mut self, number: u64, reached: u64, inode: u64) {
        self.strays = 0;
        let moved = self.cursors.come_to(number, reached, inode);
        for passed in std::iter::once(moved.passed).chain(moved.left) {
            let unread = self.unread(passed);
            self.passed_files += unread;
            self.passed_unread_files += unread;
        }
        self.passed_files += reached - number;
        let directory = match self.step(number) {
            Some(Step::File(file)) => Some(Arc::clone(&file.directory)),
            _ => None,
        };
        if let Some(directory) = directory
            && let Some(last) = self.last_directory.replace(Arc::clone(&directory))
            && moved.is_jump
        {
            let above = common(&last, &directory);
            let names = child_below(above, &last).zip(child_below(above, &directory));
            self.jump = names.map(|(old, new)| (above.to_vec(), [old.to_vec(), new.to_vec()]));
        }
        self.forget();
    }

    /// Fetched files of these steps that nobody has read.
    fn unread(&self, steps: Range<u64>) -> u64 {
        let unread = steps.filter(|number| match self.step(*number) {
            Some(Step::File(file)) => self.states.get(&file.inode) == Some(&State::Fetched),
            _ => false,
        });
        unread.count() as u64
    }

    fn review(&mut self) {
        if self.passed_files >= FILES_PER_REVIEW {
            if self.passed_unread_files * 2 > self.passed_files {
                self.window.shrink();
            }
            self.passed_files = 0;
            self.passed_unread_files = 0;
        }
        if self.read_files >= FILES_PER_REVIEW {
            let is_unused = self.read_fetched_files * READS_PER_USE_MAX < self.read_files;
            if is_unused && self.tally.fetched_files >= AHEAD_FILES_MIN {
                self.over = Some(Why::Unused);
            }
            self.read_files = 0;
            self.read_fetched_files = 0;
        }
    }

    /// Forgets steps that lie far behind.
    fn forget(&mut self) {
        if let Some(too_many) = self.steps.len().checked_sub(STEPS_MAX) {
            let front = self.front + (too_many + STEPS_BEHIND * 2) as u64;
            self.cursors.give_up_before(front);
        }
        let behind = self.cursors.hindmost().saturating_sub(self.front);
        let behind = usize::try_from(behind).unwrap_or(usize::MAX);
        let Some(far) = behind.checked_sub(STEPS_BEHIND * 2) else {
            return;
        };
        let far = (far + STEPS_BEHIND).min(self.steps.len());
        let steps: Vec<Step> = self.steps.drain(..far).collect();
        for step in &steps {
            if let Step::File(file) = step {
                self.places.remove(&file.inode);
                self.states.remove(&file.inode);
            }
        }
        self.front += steps.len() as u64;
        let front = self.front;
        self.doors.retain(|_, number| *number >= front);
    }

    /// Where its top may rise to, when the program reads in this directory outside of it; with the
    /// names there, of the old top and of the new place.
    #[must_use]
    pub fn rise(&self, directory: &[u8]) -> Option<(Vec<u8>, [Vec<u8>; 2])> {
        let above = common(&self.top, directory);
        // From there a program may go down to any depth before it comes to a file.
        if depth(&self.top) > depth(above) + RISE_LEVELS {
            return None;
        }
        let names = [
            child_below(above, &self.top)?.to_vec(),
            child_below(above, directory)?.to_vec(),
        ];
        Some((above.to_vec(), names))
    }

    /// Goes on below a directory further up.
    pub fn raise(&mut self, top: &[u8], order: Order) {
        self.top = top.to_vec();
        self.order = order;
        self.front = 0;
        // Where they are is found again when it is listed.
        self.unplaced = self.cursors.all().map(|cursor| cursor.inode).collect();
        self.cursors = Cursors::default();
        self.strays = 0;
        self.places.clear();
        self.doors.clear();
        self.steps = VecDeque::from([Step::Unlisted(top.to_vec())]);
    }

    /// Ends it.
    pub fn end_for(&mut self, why: Why) {
        self.over.get_or_insert(why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    const LARGE_BYTES: u64 = 1 << 40;

    /// Directories of directories, `files` in each.
    fn tree(top: &str, levels: u32, directories: u64, files: u64) -> HashMap<Vec<u8>, Vec<Entry>> {
        let mut lists = HashMap::new();
        let mut inode = 1;
        let mut level = vec![top.as_bytes().to_vec()];
        for depth in 0..=levels {
            let mut next = Vec::new();
            for path in level {
                let mut entries = Vec::new();
                for n in 0..files + if depth < levels { directories } else { 0 } {
                    inode += 1;
                    let is_directory = n >= files;
                    let name = format!("{n:02}").into_bytes();
                    if is_directory {
                        next.push(joined(&path, &name));
                    }
                    entries.push(Entry {
                        name,
                        inode,
                        is_directory,
                    });
                }
                lists.insert(path, entries);
            }
            level = next;
        }
        lists
    }

    /// All files in the order in which a program goes that sorts by name.
    fn files_of(lists: &HashMap<Vec<u8>, Vec<Entry>>, top: &str) -> Vec<FileToFetch> {
        let mut walk = Walk::new(top.as_bytes(), Order::Name, LARGE_BYTES);
        walk.listed(&[], lists);
        let files = walk.steps.into_iter().map(|step| match step {
            Step::File(file) => file,
            Step::Unlisted(path) => panic!("{path:?} is not listed"),
        });
        files.collect()
    }

    /// Carries out what a walk decides until it waits. Lists no deeper than one level a time.
    fn serve(
        walk: &mut Walk,
        lists: &HashMap<Vec<u8>, Vec<Entry>>,
        fetched: &mut Vec<FileToFetch>,
    ) -> Option<Why> {
        loop {
            match walk.decide() {
                Decision::Wait => return None,
                Decision::End(why) => return Some(why),
                Decision::List(asked) => {
                    assert!(!asked.is_empty() && asked.len() <= LISTS_MAX);
                    let of = |path: &Vec<u8>| Some((path.clone(), lists.get(path)?.clone()));
                    walk.listed(&asked, &asked.iter().filter_map(of).collect());
                }
                Decision::Fetch(files, _) => {
                    assert!(!files.is_empty());
                    walk.fetching(&files);
                    walk.fetched(files.len() as u64, 4 * files.len() as u64);
                    fetched.extend(files);
                }
            }
        }
    }

    #[test]
    fn a_program_that_walks_finds_all_but_its_first_files() {
        let lists = tree("/t", 3, 5, 10);
        let files = files_of(&lists, "/t");
        assert_eq!(files.len(), 1560);
        let mut walk = Walk::new(b"/t", Order::Name, LARGE_BYTES);
        let mut fetched = Vec::new();
        for (at, file) in files.iter().enumerate() {
            if at > 20 {
                assert_eq!(serve(&mut walk, &lists, &mut fetched), None);
            }
            if fetched.contains(file) {
                assert_eq!(walk.hit(file.inode), Met::Known);
            } else {
                walk.missed(&file.directory, file.inode);
                assert!(at <= 20, "{at}");
            }
        }
        let tally = walk.tally();
        assert_eq!((tally.missed_files, tally.wasted_files()), (21, 0));
        assert_eq!(tally.used_files, 1560 - 21);
        // What it came through before the walk is not fetched.
        assert!(!fetched.contains(&files[5]));
    }

    #[test]
    fn of_what_is_only_looked_at_inodes_are_fetched_until_it_is_read() {
        let lists = tree("/t", 1, 8, 90);
        let files = files_of(&lists, "/t");
        let mut walk = Walk::of_looks(b"/t", Order::Name, LARGE_BYTES);
        assert!(!walk.reads());
        // Before anything is listed.
        walk.looked(files[0].inode, true);
        let mut fetched = Vec::new();
        serve(&mut walk, &lists, &mut fetched);
        assert_eq!(fetched.len(), files.len() - 1);
        for file in &files[1..100] {
            walk.looked(file.inode, false);
        }
        assert_eq!(walk.tally().used_files, 99);
        for file in &files[100..102] {
            walk.missed(&file.directory, file.inode);
            assert!(!walk.reads());
        }
        walk.missed(&files[102].directory, files[102].inode);
        assert!(walk.reads());
        fetched.clear();
        serve(&mut walk, &lists, &mut fetched);
        assert_eq!(fetched.first(), Some(&files[103]));
        assert!(fetched.len() as u64 <= walk.window_files());
        assert_eq!(walk.tally().used_files, 99);
    }

    #[test]
    fn of_threads_in_several_parts_all_find_their_files() {
        let lists = tree("/t", 0, 0, 8000);
        let files = files_of(&lists, "/t");
        let mut walk = Walk::new(b"/t", Order::Name, LARGE_BYTES);
        let mut fetched = Vec::new();
        serve(&mut walk, &lists, &mut fetched);
        let mut missed = 0;
        for step in 0..2000 {
            for part in 0..4 {
                let file = &files[part * 2000 + step];
                if fetched.contains(file) {
                    walk.hit(file.inode);
                } else {
                    walk.missed(&file.directory, file.inode);
                    missed += 1;
                }
                serve(&mut walk, &lists, &mut fetched);
            }
        }
        assert!(missed <= 12, "{missed}");
        assert_eq!(walk.tally().wasted_files(), 0);
    }

    #[test]
    fn a_jump_tells_where_from_and_where_to() {
        let lists = tree("/t", 1, 8, 90);
        let files = files_of(&lists, "/t");
        let mut walk = Walk::new(b"/t", Order::Name, LARGE_BYTES);
        walk.listed(&[], &lists);
        let (one, far) = (&files[100], &files[600]);
        walk.hit(one.inode);
        assert_eq!(walk.jumped(), None);
        walk.hit(far.inode);
        let name = |file: &FileToFetch| file.directory[b"/t/".len()..].to_vec();
        assert_eq!(
            walk.jumped(),
            Some((b"/t".to_vec(), [name(one), name(far)]))
        );
        assert_eq!(walk.jumped(), None);
    }

    #[test]
    fn what_a_fetch_did_not_come_to_is_fetched_again() {
        let lists = tree("/t", 0, 0, 100);
        let mut walk = Walk::new(b"/t", Order::Name, LARGE_BYTES);
        walk.listed(&[], &lists);
        let Decision::Fetch(files, _) = walk.decide() else {
            panic!("{:?}", walk.decide());
        };
        walk.fetching(&files);
        assert_eq!(walk.decide(), Decision::Wait);
        walk.stopped_fetching(&files, 7);
        assert_eq!(walk.tally().fetched_files, 0);
        assert!(matches!(walk.decide(), Decision::Fetch(again, _) if again == files));
    }

    #[test]
    fn a_program_that_leaves_is_left() {
        let lists = tree("/t", 1, 2, 10);
        let mut walk = Walk::new(b"/t", Order::Name, LARGE_BYTES);
        let mut fetched = Vec::new();
        serve(&mut walk, &lists, &mut fetched);
        for inode in 1000..1000 + u64::from(STRAYS_MAX) {
            assert_eq!(walk.missed(b"/elsewhere", inode), Met::Outside);
            assert_eq!(walk.decide(), Decision::Wait);
        }
        walk.missed(b"/elsewhere", 2000);
        assert_eq!(walk.decide(), Decision::End(Why::Left));
        assert_eq!(walk.tally().wasted_files(), 30);
    }

    #[test]
    fn a_program_that_reads_something_else_of_the_tree_ends_it() {
        let lists = tree("/t", 1, 8, 90);
        let mut walk = Walk::new(b"/t", Order::Name, LARGE_BYTES);
        let mut fetched = Vec::new();
        serve(&mut walk, &lists, &mut fetched);
        // New files, which no list has.
        for inode in 10_000..10_000 + FILES_PER_REVIEW {
            walk.missed(b"/t/90", inode);
        }
        assert_eq!(walk.decide(), Decision::End(Why::Unused));
    }

    #[test]
    fn of_what_is_passed_unread_less_is_fetched() {
        let lists = tree("/t", 0, 0, 4000);
        let files = files_of(&lists, "/t");
        let mut walk = Walk::new(b"/t", Order::Name, LARGE_BYTES);
        let mut fetched = Vec::new();
        for file in files.iter().step_by(10) {
            serve(&mut walk, &lists, &mut fetched);
            walk.hit(file.inode);
        }
        assert_eq!(walk.window_files(), 64);
    }

    #[test]
    fn what_is_ahead_is_in_proportion_to_what_was_used() {
        let lists = tree("/t", 0, 0, 4000);
        let files = files_of(&lists, "/t");
        let mut walk = Walk::new(b"/t", Order::Name, LARGE_BYTES);
        let mut fetched = Vec::new();
        for (used, file) in files[..1000].iter().enumerate() {
            serve(&mut walk, &lists, &mut fetched);
            let ahead = (fetched.len() - used) as u64;
            assert!(ahead <= (used as u64 * 4).max(64), "{used}: {ahead}");
            walk.hit(file.inode);
        }
        assert!(walk.tally().wasted_files() >= 256);
    }

    #[test]
    fn what_there_was_no_room_for_is_asked_for_again_and_what_fails_is_not() {
        let lists = tree("/t", 1, 3, 2);
        let mut walk = Walk::new(b"/t", Order::Name, LARGE_BYTES);
        let only = |path: &str| {
            let path = path.as_bytes().to_vec();
            HashMap::from([(path.clone(), lists[&path].clone())])
        };
        walk.listed(&[b"/t".to_vec()], &only("/t"));
        walk.missed(b"/t", 3);
        let below = ["/t/02", "/t/03", "/t/04"].map(|path| path.as_bytes().to_vec());
        assert_eq!(walk.decide(), Decision::List(below.to_vec()));
        // The first can't be listed, the second could, for the third there was no room.
        walk.listed(&below[..2], &only("/t/03"));
        let Decision::Fetch(files, _) = walk.decide() else {
            panic!("{:?}", walk.decide());
        };
        assert_eq!(files.len(), 2);
        walk.fetching(&files);
        assert_eq!(walk.decide(), Decision::List(below[2..].to_vec()));
    }

    #[test]
    fn it_rises_to_what_holds_both_and_not_too_far() {
        let walk = Walk::new(b"/a/b/c", Order::Name, LARGE_BYTES);
        let names = ["b", "x"].map(|name| name.as_bytes().to_vec());
        assert_eq!(walk.rise(b"/a/x/y/z/z/z"), Some((b"/a".to_vec(), names)));
        // The top's own parent, where no child is left; and one below the top.
        assert_eq!(walk.rise(b"/a/b"), None);
        assert_eq!(walk.rise(b"/a/b/c/d"), None);
        let deep = Walk::new(b"/a/b/c/d/e", Order::Name, LARGE_BYTES);
        assert_eq!(deep.rise(b"/a/x"), None);
    }

    #[test]
    fn what_was_fetched_below_the_old_top_is_not_fetched_again() {
        let lists = tree("/t", 2, 3, 4);
        let mut walk = Walk::new(b"/t/04", Order::Name, LARGE_BYTES);
        let mut fetched = Vec::new();
        serve(&mut walk, &lists, &mut fetched);
        assert_eq!(fetched.len(), 4 * 4);
        walk.raise(b"/t", Order::Name);
        serve(&mut walk, &lists, &mut fetched);
        let distinct: HashSet<u64> = fetched.iter().map(|file| file.inode).collect();
        assert_eq!((distinct.len(), fetched.len()), (13 * 4, 13 * 4));
    }

    proptest! {
        #[test]
        fn whatever_a_program_does_the_bounds_hold(
            budget_pages in 0u64..20_000,
            reads in prop::collection::vec((0usize..2000, any::<bool>(), 0u8..20), 0..600)
        ) {
            let lists = tree("/t", 2, 6, 30);
            let files = files_of(&lists, "/t");
            let budget_bytes = budget_pages * foreread_profile::PAGE_BYTES;
            let mut walk = Walk::new(b"/t", Order::Name, budget_bytes);
            let mut fetched = Vec::new();
            let mut next = 0;
            for (jump, is_hit, luck) in reads {
                let held = walk.tally().wasted_files();
                let before = fetched.len();
                let is_over = serve(&mut walk, &lists, &mut fetched).is_some();
                prop_assert!(!is_over || fetched.len() == before);
                // Not more at once than the window has room for.
                let brought = (fetched.len() - before) as u64;
                prop_assert!(brought <= walk.window_files().max(512), "{brought} {held}");
                next = if luck == 0 { jump } else { next + 1 } % files.len();
                let file = &files[next];
                if is_hit {
                    walk.hit(file.inode);
                } else {
                    walk.missed(&file.directory, file.inode);
                }
            }
            let distinct: HashSet<u64> = fetched.iter().map(|file| file.inode).collect();
            prop_assert_eq!(distinct.len(), fetched.len());
            let tally = walk.tally();
            prop_assert_eq!(tally.fetched_files, fetched.len() as u64);
            prop_assert!(tally.used_files <= tally.fetched_files);
            prop_assert!(budget_pages >= 8 || fetched.is_empty());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn steps_far_behind_are_forgotten(files in 1u64..60_000, step in 1usize..50) {
            let lists = tree("/t", 0, 0, files);
            let mut walk = Walk::new(b"/t", Order::Listed, LARGE_BYTES);
            walk.listed(&[], &lists);
            let inodes: Vec<u64> = lists[&b"/t"[..]].iter().map(|entry| entry.inode).collect();
            for inode in inodes.into_iter().step_by(step) {
                walk.hit(inode);
                let behind = walk.cursors.hindmost() - walk.front;
                prop_assert!(behind <= (STEPS_BEHIND * 2 + step) as u64);
            }
            prop_assert!(walk.states.len() <= walk.places.len());
        }
    }
}
