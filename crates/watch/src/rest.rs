// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is left of a profile when its program is known, window after window.
//!
//! The program may turn out to be another one that only began alike. So the next window follows
//! when half of the last was used, and is four times as large; the first one is what such a mistake
//! costs.

use std::collections::{BTreeSet, HashMap};

use foreread_profile::{
    NodeId, NodeKind, PAGE_BYTES, Profile, ProfileBuilder, Program, Source, Uses,
};

use crate::known::first_need_ns;
use crate::line::Device;
use crate::tally::Tally;

/// The first window, in files and in pages (8 MiB).
const FIRST_WINDOW_FILES: usize = 64;
const FIRST_WINDOW_PAGES: u64 = 2048;
/// What else is looked at with each file of a window.
const LOOKED_AT_PER_FILE: usize = 16;
/// How much larger each window is than the one before.
const WINDOW_GROWTH: usize = 4;
/// A program that misses so many files in a row that aren't in the profile reads elsewhere.
const ELSEWHERE_FILES: u32 = 16;

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Fetch this, of so many bytes at most.
    Fetch(Box<Profile>, u64),
    /// The program isn't near enough to the end of what is fetched.
    Wait,
    /// Nothing is worth doing any more.
    End(Why),
}

/// Why it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// All was fetched, and the program has come to it.
    Done,
    /// The program reads elsewhere.
    Left,
    /// The program reads elsewhere, and less than half of what was fetched was used.
    Unused,
    /// It has come to no file of the profile for a while.
    Idle,
    /// The program has ended.
    Exited,
    /// Memory runs short.
    Memory,
    /// Nothing is to be fetched.
    Stopped,
}

impl Why {
    /// As a log has it.
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
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Needed before the program was known, or none of ours.
    Past,
    /// Not asked for yet.
    Ahead,
    /// Asked for in this window.
    Asked(u32),
    /// The program has come to it.
    Passed,
}

#[derive(Clone, Copy, Debug)]
struct File {
    state: State,
    /// Whether a use of it is seen.
    counts: bool,
    /// All that was asked of it and is not used yet.
    held_pages: u64,
}

/// A part of a file, or only what is known about something.
#[derive(Clone, Copy, Debug)]
struct Piece {
    need_ns: u64,
    node: NodeId,
    start_page: u64,
    pages: u64,
}

/// The rest of a profile.
#[derive(Debug)]
pub struct Rest<'a> {
    profile: &'a Profile,
    /// By need.
    pieces: Vec<Piece>,
    /// How many of them were asked for, or left out.
    at: usize,
    files: HashMap<(Device, u64), File>,
    /// Where the files of the pieces are.
    devices: HashMap<NodeId, Device>,
    budget_pages: u64,
    held_pages: u64,
    window: u32,
    /// Of the last window, the files that count, and those that the program has come to.
    asked: u64,
    passed: u64,
    /// Files missed in a row that aren't in the profile.
    elsewhere: u32,
    over: Option<Why>,
    tally: Tally,
}

impl<'a> Rest<'a> {
    /// What a program needs from `from_ns` on. `device` says on which file system a path is, and
    /// `None` of what is to be left alone.
    #[must_use]
    pub fn new(
        profile: &'a Profile,
        from_ns: u64,
        budget_bytes: u64,
        mut device: impl FnMut(&[u8]) -> Option<Device>,
    ) -> Self {
        let (mut pieces, mut files, mut devices) = (Vec::new(), HashMap::new(), HashMap::new());
        let mut path = Vec::new();
        for (id, node) in profile.iter() {
            if node.identity.inode == 0 || node.kind == NodeKind::Absent {
                continue;
            }
            profile.path_into(id, &mut path);
            let Some(device) = device(&path) else {
                continue;
            };
            devices.insert(id, device);
            match first_need_ns(profile, id) {
                Some(first_ns) => {
                    pieces.extend(pieces_of(profile, id, from_ns));
                    let is_ahead = first_ns >= from_ns;
                    let file = File {
                        state: if is_ahead { State::Ahead } else { State::Past },
                        counts: is_ahead && is_seen(profile, id),
                        held_pages: 0,
                    };
                    files.insert((device, node.identity.inode), file);
                }
                None if node.need_ns >= from_ns => pieces.push(Piece {
                    need_ns: node.need_ns,
                    node: id,
                    start_page: 0,
                    pages: 0,
                }),
                None => {}
            }
        }
        pieces.sort_by_key(|piece| piece.need_ns);
        Self {
            profile,
            pieces,
            at: 0,
            files,
            devices,
            budget_pages: budget_bytes / PAGE_BYTES,
            held_pages: 0,
            window: 0,
            asked: 0,
            passed: 0,
            elsewhere: 0,
            over: None,
            tally: Tally::default(),
        }
    }

    /// What came of it so far.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Whether the program hasn't turned out to be another, nor ended.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        self.over.is_none()
    }

    /// Says what to do next.
    pub fn decide(&mut self) -> Next {
        if let Some(why) = self.over {
            return Next::End(why);
        }
        if self.passed * 2 < self.asked {
            return Next::Wait;
        }
        let window = self.next_window();
        if !window.is_empty() {
            let pages: u64 = window.iter().map(|piece| piece.pages).sum();
            let profile = part(self.profile, &window);
            return Next::Fetch(Box::new(profile), pages.saturating_mul(PAGE_BYTES));
        }
        match self.at == self.pieces.len() && self.passed >= self.asked {
            true => Next::End(Why::Done),
            false => Next::Wait,
        }
    }

    /// The program has read this from memory, or waited for it while it came in. Says whether it
    /// hadn't come to it before.
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

    /// The program has missed this. Says whether it is of the rest, and it hadn't come to it
    /// before.
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
        let is_first = matches!(file.state, State::Asked(_) | State::Ahead);
        if is_first {
            self.tally.missed_files += 1;
            file.state = State::Passed;
            if file.counts {
                self.held_pages -= std::mem::take(&mut file.held_pages);
            }
        }
        is_first
    }

    /// The last window is in memory, or as much of it as came in: so many pages. So many of its
    /// files are gone, or others have their names now, and nobody will come to them.
    pub fn fetched(&mut self, pages: u64, gone_files: u64) {
        self.tally.fetched_pages += pages;
        let gone = gone_files.min(self.tally.wasted_files());
        self.tally.fetched_files -= gone;
        self.passed += gone;
    }

    /// The last window was stopped when so many of its pages were there or had come in. Which files
    /// they are of isn't known, for they come in the order of the disk.
    pub fn stopped(&mut self, pages: u64) {
        let asked = |file: &&mut File| file.state == State::Asked(self.window);
        let mut left: Vec<&mut File> = self.files.values_mut().filter(asked).collect();
        let all: u64 = left.iter().map(|file| file.held_pages).sum();
        let files = left.len() as u64;
        let there = files * pages.min(all) / all.max(1);
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
        }
    }

    /// It is over, for this reason where there is none yet.
    pub fn end_for(&mut self, why: Why) {
        self.over.get_or_insert(why);
    }

    /// Takes the pieces that come next, as far as there is room.
    fn next_window(&mut self) -> Vec<Piece> {
        let growth = WINDOW_GROWTH.saturating_pow(self.window);
        let files_max = FIRST_WINDOW_FILES.saturating_mul(growth);
        let pages_max = FIRST_WINDOW_PAGES.saturating_mul(growth as u64);
        let room_pages = self.budget_pages.saturating_sub(self.held_pages);
        let pages_max = pages_max.min(room_pages);
        let (mut window, mut parts, mut pages, mut asked) = (Vec::new(), 0, 0, 0);
        let number = self.window + 1;
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
            let device = self.devices.get(&next.node).copied().unwrap_or_default();
            let inode = self.profile.node(next.node).map(|node| node.identity.inode);
            let key = (device, inode.unwrap_or_default());
            let file = self.files.get_mut(&key).filter(|_| taken > 0);
            // Its start was read meanwhile, behind which the kernel reads by itself.
            let is_read = |file: &&mut File| file.state == State::Passed && piece.start_page == 0;
            let is_over = taken == next.pages || file.as_ref().is_some_and(is_read);
            next.start_page += taken;
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
                file.held_pages += taken;
                self.held_pages += taken;
            }
            pages += taken;
            window.push(piece);
        }
        if !window.is_empty() {
            (self.window, self.asked, self.passed) = (number, asked, 0);
        }
        window
    }
}

/// Whether the program will be seen to come to a file: reads are, at its start; faults aren't.
fn is_seen(profile: &Profile, id: NodeId) -> bool {
    let starts = profile
        .ranges(id)
        .first()
        .is_some_and(|range| range.start_page == 0);
    let uses = profile.node(id).map(|node| node.uses).unwrap_or_default();
    starts && (uses.contains(Uses::READ) || !uses.contains(Uses::MAPPED))
}

/// What is needed of a file from then on.
fn pieces_of(profile: &Profile, id: NodeId, from_ns: u64) -> impl Iterator<Item = Piece> {
    let later = profile
        .ranges(id)
        .iter()
        .filter(move |range| range.need_ns >= from_ns);
    later.map(move |range| Piece {
        need_ns: range.need_ns,
        node: id,
        start_page: range.start_page,
        pages: range.pages,
    })
}

/// These pieces as a profile, with all directories above them.
fn part(profile: &Profile, pieces: &[Piece]) -> Profile {
    let mut builder = ProfileBuilder::new(Program::default(), Source::default());
    let mut nodes = BTreeSet::new();
    for piece in pieces {
        let mut above = Some(piece.node);
        while let Some(id) = above.filter(|id| nodes.insert(*id)) {
            above = profile.node(id).and_then(|node| node.parent);
        }
    }
    let mut ids = HashMap::new();
    let mut path = Vec::new();
    for id in nodes {
        let Some(node) = profile.node(id) else {
            continue;
        };
        profile.path_into(id, &mut path);
        // What was a path in one profile is one in another.
        let Ok(copy) = builder.node(&path) else {
            continue;
        };
        builder.set_kind(copy, node.kind);
        builder.set_identity(copy, node.identity);
        builder.used(copy, node.uses, node.need_ns);
        ids.insert(id, copy);
    }
    for piece in pieces.iter().filter(|piece| piece.pages > 0) {
        let is_file = profile.node(piece.node).map(|node| node.kind) == Some(NodeKind::File);
        if let Some(id) = ids.get(&piece.node).filter(|_| is_file) {
            builder.pages(*id, piece.start_page, piece.pages, piece.need_ns);
        }
    }
    builder.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreread_profile::Identity;
    use proptest::prelude::*;

    /// Files by number, each of so many pages, needed one after another.
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

    fn rest_of(profile: &Profile, from_ns: u64, budget_bytes: u64) -> Rest<'_> {
        Rest::new(profile, from_ns, budget_bytes, |_| Some(Device::default()))
    }

    /// What is fetched next: the inodes.
    fn fetched(rest: &mut Rest<'_>) -> Option<Vec<u64>> {
        let Next::Fetch(part, _) = rest.decide() else {
            return None;
        };
        rest.fetched(part.total_pages(), 0);
        let mut inodes: Vec<u64> = part.files().map(|(_, node)| node.identity.inode).collect();
        inodes.sort_unstable();
        Some(inodes)
    }

    fn use_all(rest: &mut Rest<'_>, inodes: &[u64]) {
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
        // One that has used it has left.
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
        // It can be at its beginning only.
        use_all(&mut rest, &[1]);
        assert!(matches!(rest.decide(), Next::Fetch(part, _) if part.total_pages() == 100));
        let mut rest = rest_of(&profile, 0, 0);
        assert_eq!(rest.decide(), Next::Wait);
    }

    #[test]
    fn what_is_left_alone_or_unseen_is_not_waited_for() {
        let all = profile(&[2; 300]);
        let is_other = |path: &[u8]| path.starts_with(b"/d3");
        let device = |path: &[u8]| (!is_other(path)).then(Device::default);
        let mut rest = Rest::new(&all, 0, u64::MAX, device);
        let mut files = Vec::new();
        while let Some(more) = fetched(&mut rest) {
            use_all(&mut rest, &more);
            files.extend(more);
        }
        assert!(files.iter().all(|file| file % 7 != 3) && files.len() > 250);
        // Of what is mapped nobody sees whether it is used.
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
        // One of those that seemed gone.
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
                    prop_assert!(part.validate().is_ok());
                    prop_assert!(part.total_pages() * PAGE_BYTES <= bytes);
                    for (id, node) in part.files() {
                        let asked = asked.entry(node.identity.inode).or_insert(0);
                        for range in part.ranges(id) {
                            prop_assert!(range.start_page >= *asked);
                            *asked = range.end_page();
                        }
                    }
                }
                let unused: u64 = rest.files.values().map(|file| file.held_pages).sum();
                prop_assert_eq!(unused, rest.held_pages);
                prop_assert!(rest.held_pages <= budget_pages);
                let tally = rest.tally();
                prop_assert!(tally.used_files <= tally.fetched_files);
            }
        }
    }
}
