// SPDX-License-Identifier: MIT OR Apache-2.0
//! A walk that can report its calls for a log.

use std::collections::HashMap;

use super::call_numbers::CallNumbers;
use super::walk_call::{Answer, WalkCall, WalkCalled};
use crate::order::{Entry, Order};
use crate::tally::Tally;
use crate::walk::{Above, Decision, FileToFetch, Met, Walk, Why};

/// Takes calls for the log.
pub type NoteWalk<'a> = Box<dyn FnMut(WalkCall) + 'a>;

/// Wraps a [`Walk`] and notes its calls.
pub struct NotedWalk<'a> {
    walk: Walk,
    numbers: CallNumbers<'a, WalkCall>,
}

impl<'a> NotedWalk<'a> {
    /// Takes a new walk. `number` is its number among the walks of the process. Calls are copied
    /// only if there is a `note`.
    #[must_use]
    pub fn begin(walk: Walk, number: u64, note: Option<NoteWalk<'a>>) -> Self {
        let mut noted = Self {
            walk,
            numbers: CallNumbers::new(number, note),
        };
        noted.note(|walk| WalkCalled::Begin {
            top: walk.top().to_vec(),
            order: walk.order(),
            budget_bytes: walk.budget_bytes(),
            reads: walk.reads(),
        });
        noted
    }

    fn note(&mut self, what: impl FnOnce(&Walk) -> WalkCalled) {
        let of = &self.walk;
        self.numbers.note(|walk, number| WalkCall {
            walk,
            number,
            what: what(of),
        });
    }

    /// Calls [`Walk::decide`], and notes the call; repeated waits are noted once.
    pub fn decide(&mut self) -> Decision {
        let decision = self.walk.decide();
        let waits = decision == Decision::Wait;
        self.numbers.note_decision(waits, |walk, number| WalkCall {
            walk,
            number,
            what: WalkCalled::Decide(Answer::of(&decision)),
        });
        decision
    }

    /// Calls [`Walk::listed`], and notes the call.
    pub fn listed(&mut self, tried: &[Vec<u8>], lists: &HashMap<Vec<u8>, Vec<Entry>>) {
        self.walk.listed(tried, lists);
        self.note(|_| WalkCalled::Listed {
            tried: tried.to_vec(),
            lists: lists.clone().into_iter().collect(),
        });
    }

    /// Calls [`Walk::fetching`] for the first files of the last decision, and notes the call.
    pub fn fetching(&mut self, files: &[FileToFetch]) {
        self.walk.fetching(files);
        self.note(|_| WalkCalled::Fetching { files: files.len() });
    }

    /// A fetch of these first files of the last decision has ended; `pages` pages came in.
    /// `withheld` of the files were not requested, because the program may not read them. `is_cut`
    /// if it was stopped before all the others were requested.
    pub fn fetch_ended(
        &mut self,
        files: &[FileToFetch],
        withheld: usize,
        pages: u64,
        is_cut: bool,
    ) {
        match is_cut {
            true => self.stopped_fetching(files, pages),
            false => self.fetched(files.len().saturating_sub(withheld) as u64, pages),
        }
    }

    /// Calls [`Walk::fetched`], and notes the call.
    fn fetched(&mut self, files: u64, pages: u64) {
        self.walk.fetched(files, pages);
        self.note(|_| WalkCalled::Fetched { files, pages });
    }

    /// Calls [`Walk::stopped_fetching`] for the first files of the last decision, and notes the
    /// call.
    fn stopped_fetching(&mut self, files: &[FileToFetch], pages: u64) {
        self.walk.stopped_fetching(files, pages);
        let files = files.len();
        self.note(|_| WalkCalled::StoppedFetching { files, pages });
    }

    /// Calls [`Walk::hit`], and notes the call.
    pub fn hit(&mut self, inode: u64) -> Met {
        let met = self.walk.hit(inode);
        self.note(|_| WalkCalled::Hit { inode, met });
        met
    }

    /// Calls [`Walk::missed`], and notes the call.
    pub fn missed(&mut self, directory: &[u8], inode: u64) -> Met {
        let met = self.walk.missed(directory, inode);
        self.note(|_| WalkCalled::Missed {
            directory: directory.to_vec(),
            inode,
            met,
        });
        met
    }

    /// Calls [`Walk::looked`], and notes the call.
    pub fn looked(&mut self, inode: u64, is_late: bool) -> Met {
        let met = self.walk.looked(inode, is_late);
        self.note(|_| WalkCalled::Looked {
            inode,
            is_late,
            met,
        });
        met
    }

    /// Calls [`Walk::waits_in`], and notes the call.
    pub fn waits_in(&mut self, directory: &[u8]) -> Met {
        let met = self.walk.waits_in(directory);
        self.note(|_| WalkCalled::WaitsIn {
            directory: directory.to_vec(),
            met,
        });
        met
    }

    /// Calls [`Walk::jumped`], as after each read, and notes the call if there is a jump.
    pub fn jumped(&mut self) -> Option<Above> {
        let above = self.walk.jumped()?;
        self.note(|_| WalkCalled::Jumped {
            above: above.clone(),
        });
        Some(above)
    }

    /// Calls [`Walk::rise`], and notes the call.
    pub fn rise(&mut self, directory: &[u8]) -> Option<Above> {
        let above = self.walk.rise(directory);
        self.note(|_| WalkCalled::Rise {
            directory: directory.to_vec(),
            above: above.clone(),
        });
        above
    }

    /// Calls [`Walk::raise`], and notes the call.
    pub fn raise(&mut self, top: &[u8], order: Order) {
        self.walk.raise(top, order);
        self.note(|_| WalkCalled::Raise {
            top: top.to_vec(),
            order,
        });
    }

    /// Calls [`Walk::end_for`], and notes the call.
    pub fn end_for(&mut self, why: Why) {
        self.walk.end_for(why);
        self.note(|_| WalkCalled::End { why });
    }

    /// Returns [`Walk::goes_on`].
    #[must_use]
    pub fn goes_on(&self) -> bool {
        self.walk.goes_on()
    }

    /// Returns [`Walk::reads`].
    #[must_use]
    pub fn reads(&self) -> bool {
        self.walk.reads()
    }

    /// Returns [`Walk::top`].
    #[must_use]
    pub fn top(&self) -> &[u8] {
        self.walk.top()
    }

    /// Returns [`Walk::order`].
    #[must_use]
    pub fn order(&self) -> Order {
        self.walk.order()
    }

    /// Returns [`Walk::tally`].
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.walk.tally()
    }

    /// Returns [`Walk::held_bytes`].
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        self.walk.held_bytes()
    }

    /// Returns [`Walk::window_files`].
    #[must_use]
    pub fn window_files(&self) -> u64 {
        self.walk.window_files()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::walk_call::WalkAgain;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Happens {
        Carried(u64),
        Stopped,
        Hit(u64),
        Missed(u8, u64),
        Looked(u64, bool),
        Waits(u8),
        Raised,
        Ended,
    }

    fn happens() -> impl Strategy<Value = Happens> {
        prop_oneof![
            6 => (0u64..9).prop_map(Happens::Carried),
            1 => Just(Happens::Stopped),
            12 => (0u64..400).prop_map(Happens::Hit),
            12 => (0u64..400, any::<bool>()).prop_map(|(inode, late)| Happens::Looked(inode, late)),
            6 => (0u8..5, 0u64..400).prop_map(|(place, inode)| Happens::Missed(place, inode)),
            2 => (0u8..5).prop_map(Happens::Waits),
            1 => Just(Happens::Raised),
            1 => Just(Happens::Ended),
        ]
    }

    /// Directories below `/t` in a level, some of which can't be listed.
    fn lists(asked: &[Vec<u8>], room: u64) -> HashMap<Vec<u8>, Vec<Entry>> {
        let list = |(at, path): (usize, &Vec<u8>)| {
            let is_top = path.iter().filter(|byte| **byte == b'/').count() < 2;
            let entry = |n: u64| Entry {
                name: vec![b'a' + (n % 20) as u8, b'0' + (n / 20) as u8],
                inode: (u64::from(path[path.len() - 1]) * 7 + n * 37) % 400,
                is_directory: is_top && n.is_multiple_of(3),
            };
            (at as u64 <= room).then(|| (path.clone(), (0..30).map(entry).collect()))
        };
        asked.iter().enumerate().filter_map(list).collect()
    }

    fn directory(place: u8) -> Vec<u8> {
        vec![b'/', b't', b'/', b'a' + place]
    }

    fn play(walk: &mut NotedWalk<'_>, happens: &Happens) {
        match happens {
            Happens::Carried(room) => match walk.decide() {
                Decision::List(asked) => walk.listed(&asked, &lists(&asked, *room)),
                Decision::Fetch(files, _) => {
                    walk.fetching(&files);
                    walk.fetch_ended(&files, 0, room * files.len() as u64, false);
                }
                Decision::Wait | Decision::End(_) => {}
            },
            Happens::Stopped => {
                if let Decision::Fetch(files, _) = walk.decide() {
                    walk.fetching(&files);
                    walk.hit(files[0].inode);
                    walk.fetch_ended(&files, 0, 3, true);
                }
            }
            Happens::Hit(inode) => {
                walk.hit(*inode);
                walk.jumped();
            }
            Happens::Looked(inode, is_late) => {
                walk.looked(*inode, *is_late);
            }
            Happens::Missed(place, inode) => {
                let directory = directory(*place);
                if walk.missed(&directory, *inode) == Met::Outside {
                    walk.rise(&directory);
                }
                walk.jumped();
            }
            Happens::Waits(place) => {
                walk.waits_in(&directory(*place));
            }
            Happens::Raised => walk.raise(b"/t", Order::Name),
            Happens::Ended => walk.end_for(Why::Idle),
        }
    }

    #[test]
    fn a_fetch_that_is_cut_short_counts_no_file_that_was_not_used() {
        for (is_cut, fetched_files) in [(false, 20), (true, 1)] {
            let mut walk = NotedWalk::begin(Walk::new(b"/t", Order::Name, 1 << 30), 3, None);
            while let Decision::List(asked) = walk.decide() {
                walk.listed(&asked, &lists(&asked, 0));
            }
            let Decision::Fetch(files, _) = walk.decide() else {
                panic!("nothing to fetch");
            };
            walk.fetching(&files[..20]);
            walk.hit(files[0].inode);
            walk.fetch_ended(&files[..20], 0, 40, is_cut);
            assert_eq!(walk.tally().fetched_files, fetched_files);
            assert_eq!(walk.tally().fetched_pages, 40);
        }
    }

    fn calls(walk: Walk, all: &[Happens]) -> Vec<WalkCall> {
        let mut calls = Vec::new();
        let note: NoteWalk<'_> = Box::new(|call| calls.push(call));
        let mut walk = NotedWalk::begin(walk, 3, Some(note));
        all.iter().for_each(|happens| play(&mut walk, happens));
        drop(walk);
        calls
    }

    fn first_other(calls: &[WalkCall]) -> Option<u64> {
        let mut again = WalkAgain::begin(&calls[0].what).unwrap();
        let differs = |call: &&WalkCall| again.make(&call.what).as_ref() != Some(&call.what);
        calls.iter().find(differs).map(|call| call.number)
    }

    proptest! {
        #[test]
        fn the_same_calls_get_the_same_answers(
            order in 0usize..3, budget_pages in 0u64..4000, reads in any::<bool>(),
            all in prop::collection::vec(happens(), 0..300)
        ) {
            let (order, budget_bytes) = (Order::ALL[order], budget_pages << 12);
            let walk = match reads {
                true => Walk::new(b"/t/a", order, budget_bytes),
                false => Walk::of_looks(b"/t/a", order, budget_bytes),
            };
            let calls = calls(walk, &all);
            prop_assert!(calls.iter().zip(1..).all(|(call, number)| call.number == number));
            prop_assert_eq!(first_other(&calls), None);
        }
    }

    proptest! {
        #[test]
        fn calls_that_are_lost_or_out_of_order_do_no_harm(
            budget_pages in 0u64..4000, reads in any::<bool>(),
            all in prop::collection::vec(happens(), 0..200),
            lost in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
            swapped in prop::collection::vec(any::<[prop::sample::Index; 2]>(), 0..20)
        ) {
            let walk = match reads {
                true => Walk::new(b"/t/a", Order::Name, budget_pages << 12),
                false => Walk::of_looks(b"/t/a", Order::Name, budget_pages << 12),
            };
            let mut calls = calls(walk, &all);
            let mut again = WalkAgain::begin(&calls.remove(0).what).unwrap();
            for [one, other] in swapped {
                if !calls.is_empty() {
                    let (one, other) = (one.index(calls.len()), other.index(calls.len()));
                    calls.swap(one, other);
                }
            }
            for lost in lost {
                if !calls.is_empty() {
                    calls.remove(lost.index(calls.len()));
                }
            }
            for call in calls {
                again.make(&call.what);
            }
            prop_assert!(again.walk().tally().fetched_files < 1 << 40);
        }
    }

    #[test]
    fn who_begins_to_read_in_the_midst_of_a_fetch_does_no_harm() {
        let mut walk = NotedWalk::begin(Walk::of_looks(b"/t/a", Order::Name, 1 << 30), 1, None);
        let Decision::List(asked) = walk.decide() else {
            panic!("it isn't listed");
        };
        walk.listed(&asked, &lists(&asked, 9));
        let Decision::Fetch(files, _) = walk.decide() else {
            panic!("there is nothing");
        };
        walk.fetching(&files);
        for file in &files[..3] {
            walk.missed(b"/t/a", file.inode);
        }
        walk.stopped_fetching(&files, 3);
        assert!(walk.reads());
        assert!(walk.tally().fetched_files <= files.len() as u64);
    }

    fn some_calls() -> Vec<WalkCall> {
        let walks = (0..200).map(|n| match n % 4 {
            0 => Happens::Carried(8),
            _ => Happens::Hit(n * 37 % 400),
        });
        let walk = Walk::new(b"/t/a", Order::Name, 1 << 30);
        calls(walk, &walks.collect::<Vec<_>>())
    }

    #[test]
    fn another_answer_shows_where_it_is() {
        let mut calls = some_calls();
        let is_fetch = |call: &WalkCall| {
            matches!(&call.what, WalkCalled::Decide(Answer::Fetch { inodes, .. })
                if inodes.len() > 1)
        };
        let at = calls.iter().position(is_fetch).unwrap();
        if let WalkCalled::Decide(Answer::Fetch { names_hash, .. }) = &mut calls[at].what {
            *names_hash ^= 1;
        }
        assert_eq!(first_other(&calls), Some(calls[at].number));
    }

    #[test]
    fn a_jump_that_was_none_shows() {
        let mut calls = some_calls();
        let (above, names) = (b"/t".to_vec(), [b"a".to_vec(), b"b".to_vec()]);
        calls[1].what = WalkCalled::Jumped {
            above: (above, names),
        };
        assert_eq!(first_other(&calls), Some(2));
    }

    #[test]
    fn a_call_that_is_left_out_shows() {
        let mut calls = some_calls();
        let is_list = |call: &WalkCall| matches!(call.what, WalkCalled::Listed { .. });
        let at = calls.iter().position(is_list).unwrap();
        calls.remove(at);
        assert!(first_other(&calls).is_some());
        assert!(WalkAgain::begin(&calls[1].what).is_none());
    }

    #[test]
    fn waiting_on_is_noted_once_and_nothing_where_nobody_wants_it() {
        let waits = vec![Happens::Carried(0); 6];
        let calls = calls(Walk::new(b"/t/a", Order::Name, 0), &waits);
        let is_wait = |call: &&WalkCall| call.what == WalkCalled::Decide(Answer::Wait);
        assert_eq!(calls.iter().filter(is_wait).count(), 1, "{calls:?}");
        let mut walk = NotedWalk::begin(Walk::new(b"/t", Order::Name, 0), 1, None);
        walk.hit(1);
        assert_eq!(walk.numbers.calls, 0);
    }
}
