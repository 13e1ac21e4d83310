// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replays the rest of a matched profile, one window at a time.
//!
//! Input: the [`Parts`] of a profile that its program still needs, a budget in bytes, and the
//! program's hits and misses. Output: [`Next`], which names the next window to fetch. No I/O.
//!
//! A program that starts like the profile may be another one. So the next window follows when half
//! of the last one was used, and is four times as large. A wrong match costs at most the first
//! window (64 files, 8 MiB).
//!
//! The budget bounds held pages: fetched, and not used yet. A file's pages are used when the
//! program reads the file. Two uses can't be seen: of mapped files, and of later ranges of a file
//! that the program has begun to read. Such pages are needed at about the time of the others in
//! their window. They count as used in three cases:
//!
//! * the window after the next one begins,
//! * the program has used all visible files of the last window,
//! * the program misses a file that comes later.

mod parts;

use std::collections::BTreeMap;

use foreread_core::Device;
use foreread_profile::PAGE_BYTES;
use serde::{Deserialize, Serialize};

use crate::skipped::Skipped;
use crate::tally::Tally;

pub use parts::{FilePart, Parts, Piece, Remaining};

/// The first window, in files and in pages (8 MiB).
const FIRST_WINDOW_FILES: usize = 64;
const FIRST_WINDOW_PAGES: u64 = 2048;
/// Maximum number of pieces in a window for each of its files. Pieces without pages are metadata.
const LOOKED_AT_PER_FILE: usize = 16;
/// Factor by which each window is larger than the one before.
const WINDOW_GROWTH: usize = 4;
/// The replay ends after this many misses in a row in files that the profile doesn't have.
const ELSEWHERE_FILES: u32 = 16;

/// The next action for the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next<W = Vec<Piece>> {
    /// Fetch this window, at most this many bytes.
    Fetch(W, u64),
    /// The program has used less than half of the last window, or the budget is full.
    Wait,
    /// The replay has ended.
    End(Why),
}

/// Why a replay ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// All was fetched, and the program has read it.
    Done,
    /// The program reads other files.
    Left,
    /// The program reads other files, and less than half of the fetched files were used.
    Unused,
    /// The program has read no file of the profile for a while.
    Idle,
    /// The program has ended.
    Exited,
    /// Memory is short.
    Memory,
    /// Nothing may be fetched.
    Stopped,
    /// It isn't known what the program may read.
    NotPermitted,
    /// The I/O of the program's cgroup is limited.
    Throttled,
    /// The memory of the watch for its user is used up.
    UserBudget,
    /// The memory of the watch is used up.
    TotalBudget,
}

impl From<Skipped> for Why {
    fn from(why: Skipped) -> Self {
        match why {
            Skipped::Throttled => Self::Throttled,
            Skipped::UserBudget => Self::UserBudget,
            Skipped::TotalBudget => Self::TotalBudget,
            // Of streams only; a walk leaves out the file, and goes on.
            Skipped::Leased
            | Skipped::NoPermission
            | Skipped::UnknownReader
            | Skipped::MixedThreads
            | Skipped::Confined => Self::NotPermitted,
        }
    }
}

impl Why {
    /// Its name in a log.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Left => "left",
            Self::Unused => "unused",
            Self::Idle => "idle",
            Self::Exited => "exited",
            Self::Memory => "memory",
            Self::Stopped => "stopped",
            Self::NotPermitted => "not_permitted",
            Self::Throttled => "throttled",
            Self::UserBudget => "user_budget",
            Self::TotalBudget => "total_budget",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Needed before the program was matched, or not to be fetched.
    Past,
    /// Not fetched yet.
    Ahead,
    /// Fetched in the window of this number.
    Asked(u32),
    /// The program has read it.
    Passed,
}

#[derive(Clone, Copy, Debug)]
struct File {
    state: State,
    /// Whether its use can be seen.
    counts: bool,
    /// Pages that were fetched and are not used yet.
    held_pages: u64,
}

/// The rest of a profile.
#[derive(Debug)]
pub struct Rest {
    /// In the order of need.
    pieces: Vec<Piece>,
    /// Number of pieces that were fetched or left out.
    at: usize,
    /// In a fixed order, since [`Rest::stopped`] takes some of them.
    files: BTreeMap<(Device, u64), File>,
    budget_pages: u64,
    /// Held pages, with those whose use can't be seen.
    held_pages: u64,
    /// Pages whose use can't be seen, of the last window and of the one before.
    unseen_pages: u64,
    unseen_before_pages: u64,
    window: u32,
    /// Number of files of the last window whose use can be seen, and of those that the program has
    /// read.
    asked: u64,
    passed: u64,
    /// Misses in a row in files that aren't in the profile.
    elsewhere: u32,
    over: Option<Why>,
    tally: Tally,
}

impl Rest {
    /// Replays these parts. At most `budget_bytes` are fetched and not used yet.
    #[must_use]
    pub fn new(parts: &Parts, budget_bytes: u64) -> Self {
        let file = |part: &FilePart| {
            let file = File {
                state: match part.is_ahead {
                    true => State::Ahead,
                    false => State::Past,
                },
                counts: part.counts,
                held_pages: 0,
            };
            ((part.device, part.inode), file)
        };
        Self {
            pieces: parts.pieces.clone(),
            at: 0,
            files: parts.files.iter().map(file).collect(),
            budget_pages: budget_bytes / PAGE_BYTES,
            held_pages: 0,
            unseen_pages: 0,
            unseen_before_pages: 0,
            window: 0,
            asked: 0,
            passed: 0,
            elsewhere: 0,
            over: None,
            tally: Tally::default(),
        }
    }

    /// Files and pages fetched, used and missed so far.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Whether the replay has not ended.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        self.over.is_none()
    }

    /// Decides the next action.
    pub fn decide(&mut self) -> Next {
        if let Some(why) = self.over {
            return Next::End(why);
        }
        if self.passed * 2 < self.asked {
            return Next::Wait;
        }
        let mut window = self.next_window();
        let is_all_used = self.asked > 0 && self.passed >= self.asked;
        if window.is_empty() && is_all_used && self.release_unseen() {
            window = self.next_window();
        }
        if !window.is_empty() {
            let pages: u64 = window.iter().map(|piece| piece.pages).sum();
            return Next::Fetch(window, pages.saturating_mul(PAGE_BYTES));
        }
        match self.at == self.pieces.len() && self.passed >= self.asked {
            true => Next::End(Why::Done),
            false => Next::Wait,
        }
    }

    /// The program has read this file from memory, or waited for a page in flight. Returns whether
    /// this is its first access to a file of the rest.
    pub fn hit(&mut self, device: Device, inode: u64) -> bool {
        let window = self.window;
        let Some(file) = self.files.get_mut(&(device, inode)) else {
            return false;
        };
        self.elsewhere = 0;
        if let State::Asked(asked) = file.state
            && file.counts
        {
            self.tally.used_files += 1;
            self.passed += u64::from(asked == window);
        }
        let is_first = matches!(file.state, State::Asked(_) | State::Ahead);
        if is_first {
            file.state = State::Passed;
            if file.counts {
                self.held_pages -= std::mem::take(&mut file.held_pages);
            }
        }
        is_first
    }

    /// The program has missed this file. Returns whether this is its first access to a file of the
    /// rest.
    pub fn missed(&mut self, device: Device, inode: u64) -> bool {
        let window = self.window;
        let Some(file) = self.files.get_mut(&(device, inode)) else {
            self.elsewhere += 1;
            if self.elsewhere >= ELSEWHERE_FILES {
                let is_used = self.tally.used_files * 2 >= self.tally.fetched_files;
                self.end_for(if is_used { Why::Left } else { Why::Unused });
            }
            return false;
        };
        self.elsewhere = 0;
        if let State::Asked(asked) = file.state
            && file.counts
        {
            self.tally.fetched_files = self.tally.fetched_files.saturating_sub(1);
            self.passed += u64::from(asked == window);
        }
        let is_later = file.state == State::Ahead;
        let is_first = matches!(file.state, State::Asked(_) | State::Ahead);
        if is_first {
            self.tally.missed_files += 1;
            file.state = State::Passed;
            if file.counts {
                self.held_pages -= std::mem::take(&mut file.held_pages);
            }
        }
        if is_later {
            self.release_unseen();
        }
        is_first
    }

    /// Counts pages whose use can't be seen as used. Returns whether there were any.
    fn release_unseen(&mut self) -> bool {
        let unseen =
            std::mem::take(&mut self.unseen_pages) + std::mem::take(&mut self.unseen_before_pages);
        self.held_pages -= unseen;
        unseen > 0
    }

    /// The fetch of the last window has ended: `pages` have come in. `gone_files` of its files are
    /// gone, replaced or unreadable, so the program will not use them.
    pub fn fetched(&mut self, pages: u64, gone_files: u64) {
        self.tally.fetched_pages += pages;
        let gone = gone_files.min(self.tally.wasted_files());
        self.tally.fetched_files -= gone;
        self.passed += gone;
    }

    /// The fetch of the last window was stopped when `pages` of it were cached or had come in.
    /// Their files are not known, since pages come in the order of the disk.
    pub fn stopped(&mut self, pages: u64) {
        let asked = |file: &&mut File| file.state == State::Asked(self.window);
        let mut left: Vec<&mut File> = self.files.values_mut().filter(asked).collect();
        let all: u64 = left.iter().map(|file| file.held_pages).sum();
        let files = left.len() as u64;
        let there = files.saturating_mul(pages.min(all)) / all.max(1);
        for file in left
            .iter_mut()
            .skip(usize::try_from(there).unwrap_or(usize::MAX))
        {
            let counter = match file.counts {
                true => &mut self.tally.fetched_files,
                false => &mut self.tally.uncounted_files,
            };
            *counter = counter.saturating_sub(1);
            file.state = State::Past;
            self.held_pages -= std::mem::take(&mut file.held_pages);
        }
    }

    /// Ends the replay. A reason that was given before stays.
    pub fn end_for(&mut self, why: Why) {
        self.over.get_or_insert(why);
    }

    /// Takes the next pieces, within the window's size and the budget.
    fn next_window(&mut self) -> Vec<Piece> {
        let growth = WINDOW_GROWTH.saturating_pow(self.window);
        let files_max = FIRST_WINDOW_FILES.saturating_mul(growth);
        let pages_max = FIRST_WINDOW_PAGES.saturating_mul(growth as u64);
        let held_pages = self.held_pages - self.unseen_before_pages;
        let room_pages = self.budget_pages.saturating_sub(held_pages);
        let pages_max = pages_max.min(room_pages);
        let (mut window, mut parts, mut pages, mut asked) = (Vec::new(), 0, 0, 0);
        let (number, mut unseen) = (self.window + 1, 0);
        while let Some(next) = self.pieces.get_mut(self.at) {
            let room_pages = pages_max.saturating_sub(pages);
            let is_full = window.len() >= files_max.saturating_mul(LOOKED_AT_PER_FILE);
            if is_full || (next.pages > 0 && (room_pages == 0 || parts >= files_max)) {
                break;
            }
            let taken = next.pages.min(room_pages);
            let piece = Piece {
                pages: taken,
                ..*next
            };
            let file = next.file.filter(|_| taken > 0);
            let file = file.and_then(|key| self.files.get_mut(&key));
            // The program has read the start of the file meanwhile; the kernel reads ahead from
            // there.
            let is_read = |file: &&mut File| file.state == State::Passed && piece.start_page == 0;
            let is_over = taken == next.pages || file.as_ref().is_some_and(is_read);
            next.start_page = next.start_page.saturating_add(taken);
            next.pages -= taken;
            self.at += usize::from(is_over);
            if let Some(file) = file {
                if is_read(&file) {
                    continue;
                }
                if file.state == State::Ahead {
                    file.state = State::Asked(number);
                    asked += u64::from(file.counts);
                    match file.counts {
                        true => self.tally.fetched_files += 1,
                        false => self.tally.uncounted_files += 1,
                    }
                }
                parts += 1;
                match file.counts && file.state != State::Passed {
                    true => file.held_pages += taken,
                    false => unseen += taken,
                }
                self.held_pages += taken;
            }
            pages += taken;
            window.push(piece);
        }
        if !window.is_empty() {
            (self.window, self.asked, self.passed) = (number, asked, 0);
            self.held_pages -= self.unseen_before_pages;
            self.unseen_before_pages = std::mem::replace(&mut self.unseen_pages, unseen);
        }
        window
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreread_prefetch::plan::ReadPlan;
    use foreread_profile::{Identity, Profile, ProfileBuilder, Program, Source, Uses};
    use proptest::prelude::*;
    use std::collections::HashMap;
    use std::ops::{Deref, DerefMut};

    /// A rest that returns its windows as plans.
    struct OfProfile<'a> {
        remaining: Remaining<'a>,
        rest: Rest,
    }

    impl Deref for OfProfile<'_> {
        type Target = Rest;

        fn deref(&self) -> &Rest {
            &self.rest
        }
    }

    impl DerefMut for OfProfile<'_> {
        fn deref_mut(&mut self) -> &mut Rest {
            &mut self.rest
        }
    }

    impl<'a> OfProfile<'a> {
        fn new(
            profile: &'a Profile,
            from_ns: u64,
            budget_bytes: u64,
            device: impl FnMut(&[u8]) -> Option<Device>,
        ) -> Self {
            let remaining = Remaining::of(profile, from_ns, device);
            let rest = Rest::new(remaining.parts(), budget_bytes);
            Self { remaining, rest }
        }

        fn decide(&mut self) -> Next<ReadPlan> {
            match self.rest.decide() {
                Next::Fetch(window, bytes) => Next::Fetch(self.remaining.plan(&window), bytes),
                Next::Wait => Next::Wait,
                Next::End(why) => Next::End(why),
            }
        }
    }

    /// Files by number, with `pages` pages each, needed one after another.
    fn profile(pages: &[u64]) -> Profile {
        let mut builder = ProfileBuilder::new(Program::default(), Source::default());
        for (file, pages) in (1u64..).zip(pages) {
            let path = format!("/d{}/{file}", file % 7);
            let id = builder.node(path.as_bytes()).unwrap();
            builder.used(id, Uses::READ, file);
            builder.pages(id, 0, *pages, file);
            let inode = file;
            let identity = Identity {
                inode,
                ..Identity::default()
            };
            builder.set_identity(id, identity);
        }
        builder.finish()
    }

    fn rest_of(profile: &Profile, from_ns: u64, budget_bytes: u64) -> OfProfile<'_> {
        OfProfile::new(profile, from_ns, budget_bytes, |_| Some(Device::default()))
    }

    /// Inode numbers that are fetched next.
    fn fetched(rest: &mut OfProfile<'_>) -> Option<Vec<u64>> {
        let Next::Fetch(part, _) = rest.decide() else {
            return None;
        };
        rest.fetched(part.total_pages(), 0);
        let mut inodes: Vec<u64> = part
            .files_with_pages()
            .map(|(_, node)| node.identity.inode)
            .collect();
        inodes.sort_unstable();
        Some(inodes)
    }

    fn use_all(rest: &mut OfProfile<'_>, inodes: &[u64]) {
        for inode in inodes {
            assert!(rest.hit(Device::default(), *inode));
        }
    }

    #[test]
    fn what_comes_next_follows_when_half_of_the_last_is_used() {
        let profile = profile(&[2; 500]);
        let mut rest = rest_of(&profile, 5, u64::MAX);
        let first = fetched(&mut rest).unwrap();
        assert_eq!(first, (5..69).collect::<Vec<u64>>());
        assert_eq!(rest.decide(), Next::Wait);
        use_all(&mut rest, &first[..31]);
        assert_eq!(rest.decide(), Next::Wait);
        use_all(&mut rest, &first[31..32]);
        let second = fetched(&mut rest).unwrap();
        assert_eq!((second[0], second.len()), (69, 256));
        use_all(&mut rest, &first[32..]);
        use_all(&mut rest, &second);
        let third = fetched(&mut rest).unwrap();
        assert_eq!(third.last(), Some(&500));
        use_all(&mut rest, &third);
        assert_eq!(rest.decide(), Next::End(Why::Done));
        let expected = Tally {
            fetched_files: 496,
            fetched_pages: 992,
            used_files: 496,
            ..Tally::default()
        };
        assert_eq!(rest.tally(), expected);
    }

    #[test]
    fn who_goes_elsewhere_costs_a_window() {
        let profile = profile(&[2; 500]);
        let mut rest = rest_of(&profile, 5, u64::MAX);
        let first = fetched(&mut rest).unwrap();
        for inode in 0..u64::from(ELSEWHERE_FILES) {
            assert_eq!(rest.decide(), Next::Wait);
            assert!(!rest.missed(Device::default(), 10_000 + inode));
        }
        assert!(!rest.goes_on());
        assert_eq!(rest.decide(), Next::End(Why::Unused));
        assert_eq!(rest.tally().wasted_files(), first.len() as u64);
        // If the program has used the window, the reason is `Left`.
        let mut rest = rest_of(&profile, 5, u64::MAX);
        let first = fetched(&mut rest).unwrap();
        use_all(&mut rest, &first[..40]);
        for inode in 0..u64::from(ELSEWHERE_FILES) {
            rest.missed(Device::default(), 10_000 + inode);
        }
        assert_eq!(rest.decide(), Next::End(Why::Left));
    }

    #[test]
    fn large_files_come_in_parts_and_a_budget_bounds_what_is_unused() {
        let profile = profile(&[1 << 40, 8]);
        let mut rest = rest_of(&profile, 0, 100 * PAGE_BYTES);
        let Next::Fetch(part, bytes) = rest.decide() else {
            panic!();
        };
        assert_eq!((part.total_pages(), bytes), (100, 100 * PAGE_BYTES));
        assert_eq!(rest.decide(), Next::Wait);
        // It can only be at its beginning.
        use_all(&mut rest, &[1]);
        assert!(matches!(rest.decide(), Next::Fetch(part, _) if part.total_pages() == 100));
        let mut rest = rest_of(&profile, 0, 0);
        assert_eq!(rest.decide(), Next::Wait);
    }

    /// Files of 40 pages with a budget of 100. The start of each file is seen, or nothing of it.
    #[test]
    fn what_nobody_sees_used_does_not_fill_the_budget_for_ever() {
        let budget_bytes = 100 * PAGE_BYTES;
        let mut all = profile(&[40; 50]);
        // Every other file is mapped.
        for node in all
            .nodes
            .iter_mut()
            .filter(|node| node.identity.inode % 2 == 0)
        {
            node.uses = Uses::MAPPED;
        }
        let mut rest = rest_of(&all, 0, budget_bytes);
        let mut pages = 0;
        while let Next::Fetch(part, _) = rest.decide() {
            pages += part.total_pages();
            for (_, node) in part
                .files_with_pages()
                .filter(|(_, n)| !n.uses.contains(Uses::MAPPED))
            {
                rest.hit(Device::default(), node.identity.inode);
            }
            assert!(rest.held_pages <= 100);
        }
        assert_eq!((pages, rest.decide()), (50 * 40, Next::End(Why::Done)));
        // If all files are mapped, a miss shows the position of the program.
        for node in &mut all.nodes {
            node.uses = Uses::MAPPED;
        }
        let mut rest = rest_of(&all, 0, budget_bytes);
        let fetched = |rest: &mut OfProfile<'_>| {
            let mut pages = 0;
            while let Next::Fetch(part, _) = rest.decide() {
                pages += part.total_pages();
            }
            pages
        };
        assert_eq!(fetched(&mut rest), 100);
        assert!(rest.missed(Device::default(), 30));
        assert_eq!(fetched(&mut rest), 100);
    }

    #[test]
    fn what_is_left_alone_or_unseen_is_not_waited_for() {
        let all = profile(&[2; 300]);
        let is_other = |path: &[u8]| path.starts_with(b"/d3");
        let device = |path: &[u8]| (!is_other(path)).then(Device::default);
        let mut rest = OfProfile::new(&all, 0, u64::MAX, device);
        let mut files = Vec::new();
        while let Some(more) = fetched(&mut rest) {
            use_all(&mut rest, &more);
            files.extend(more);
        }
        assert!(files.iter().all(|file| file % 7 != 3) && files.len() > 250);
        // The use of mapped files can't be seen.
        let mut mapped = all.clone();
        for node in &mut mapped.nodes {
            node.uses = Uses::MAPPED;
        }
        let mut rest = rest_of(&mapped, 0, u64::MAX);
        while fetched(&mut rest).is_some() {}
        assert_eq!(rest.decide(), Next::End(Why::Done));
        let tally = rest.tally();
        assert_eq!((tally.fetched_files, tally.uncounted_files), (0, 300));
    }

    #[test]
    fn nobody_waits_for_files_that_are_gone() {
        let profile = profile(&[2; 500]);
        let mut rest = rest_of(&profile, 0, u64::MAX);
        assert!(matches!(rest.decide(), Next::Fetch(..)));
        rest.fetched(60, 34);
        assert!(matches!(rest.decide(), Next::Fetch(..)));
        assert_eq!(rest.tally().fetched_files, 64 - 34 + 256);
        rest.fetched(0, u64::MAX);
        assert_eq!(rest.tally().wasted_files(), 0);
        assert!(!rest.hit(Device::default(), 10_000));
        assert!(rest.hit(Device::default(), 1) && !rest.hit(Device::default(), 1));
        // This is one of the files that seemed gone.
        assert!(rest.missed(Device::default(), 2));
    }

    #[test]
    fn a_window_that_was_stopped_counts_as_far_as_it_came() {
        let profile = profile(&[2; 500]);
        let mut rest = rest_of(&profile, 0, u64::MAX);
        assert!(matches!(rest.decide(), Next::Fetch(..)));
        assert!(rest.missed(Device::default(), 1));
        rest.stopped(63);
        rest.end_for(Why::Exited);
        assert_eq!(rest.decide(), Next::End(Why::Exited));
        let tally = rest.tally();
        assert_eq!((tally.fetched_files, tally.missed_files), (31, 1));
    }

    proptest! {
        #[test]
        fn each_page_is_asked_for_once_and_the_budget_holds(
            pages in prop::collection::vec(0u64..4000, 1..400),
            from_ns in 0u64..50,
            budget_pages in 0u64..20_000,
            reads in prop::collection::vec((0u8..4, 1u64..450), 0..600),
        ) {
            let profile = profile(&pages);
            let mut rest = rest_of(&profile, from_ns, budget_pages * PAGE_BYTES);
            let mut asked: HashMap<u64, u64> = HashMap::new();
            for (what, inode) in reads {
                match what {
                    0 => drop(rest.hit(Device::default(), inode)),
                    1 => drop(rest.missed(Device::default(), inode)),
                    _ => {}
                }
                if let Next::Fetch(part, bytes) = rest.decide() {
                    prop_assert!(part.total_pages() * PAGE_BYTES <= bytes);
                    for (id, node) in part.files_with_pages() {
                        let asked = asked.entry(node.identity.inode).or_insert(0);
                        for range in part.ranges(id) {
                            prop_assert!(range.start_page >= *asked);
                            *asked = range.end_page();
                        }
                    }
                }
                let seen: u64 = rest.files.values().map(|file| file.held_pages).sum();
                let unseen = rest.unseen_pages + rest.unseen_before_pages;
                prop_assert_eq!(seen + unseen, rest.held_pages);
                prop_assert!(rest.held_pages <= budget_pages);
                let tally = rest.tally();
                prop_assert!(tally.used_files <= tally.fetched_files);
            }
        }
    }
}
