// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tracks the positions of a program in a tree. There is one position, or several if threads or
//! processes each go through a part of the tree.

use std::ops::Range;

/// Steps ahead of a cursor, or behind it, that still belong to it.
const NEAR_STEPS: u64 = 64;
/// A cursor that jumped out of nowhere counts after this many steps in order.
const STEPS_TO_COUNT: u32 = 2;
/// Places at once; the one that was moved last the longest ago is given up for a further one.
const CURSORS_MAX: usize = 32;
/// A cursor that hasn't moved during this many moves of others is given up.
const MOVES_TO_FORGET: u64 = 512;

/// One place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Number of the step behind the one that was come to last.
    pub reached: u64,
    /// Number of the first step from there on that isn't known to be fetched.
    pub next: u64,
    /// The inode that was come to last, 0 none yet.
    pub inode: u64,
    steps: u32,
    moved: u64,
}

/// The effect of a move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// Steps that were passed over.
    pub passed: Range<u64>,
    /// Whether it was none in order.
    pub is_jump: bool,
    /// Fetched ahead of cursors that have been given up.
    pub left: Vec<Range<u64>>,
}

/// All places.
#[derive(Clone, Debug)]
pub struct Cursors {
    /// Never empty.
    all: Vec<Cursor>,
    moves: u64,
}

impl Default for Cursors {
    fn default() -> Self {
        Self {
            all: vec![Cursor::at(0, 0, 0)],
            moves: 0,
        }
    }
}

impl Cursor {
    fn at(reached: u64, inode: u64, moved: u64) -> Self {
        Self {
            reached,
            next: reached,
            inode,
            steps: 0,
            moved,
        }
    }

    /// Steps between it and the next one to fetch.
    #[must_use]
    pub fn ahead(&self) -> u64 {
        self.next - self.reached
    }
}

impl Cursors {
    /// The step `number`, of `inode`, was come to, and `reached` is the one behind it.
    pub fn come_to(&mut self, number: u64, reached: u64, inode: u64) -> Move {
        self.moves += 1;
        let moves = self.moves;
        let mut passed = number..number;
        let is_new = self.all.len() == 1 && self.all[0].inode == 0;
        let mut is_jump = false;
        match self.nearest(number) {
            Some(cursor) => {
                if cursor.reached <= number {
                    passed.start = cursor.reached;
                    cursor.next = cursor.next.max(reached);
                } else {
                    // Back, to a step that was passed over.
                    cursor.next = reached;
                }
                cursor.reached = reached;
                cursor.inode = inode;
                cursor.steps = cursor.steps.saturating_add(1);
                cursor.moved = moves;
            }
            None if is_new => {
                passed.start = self.all[0].reached.min(number);
                self.all = vec![Cursor::at(reached, inode, moves)];
            }
            None => {
                is_jump = true;
                self.all.push(Cursor::at(reached, inode, moves));
            }
        }
        Move {
            passed,
            is_jump,
            left: self.give_up(),
        }
    }

    /// The cursor that a step belongs to.
    fn nearest(&mut self, number: u64) -> Option<&mut Cursor> {
        let near = self
            .all
            .iter_mut()
            .filter(|cursor| cursor.inode != 0 && cursor.reached.abs_diff(number) <= NEAR_STEPS);
        // A cursor in front of it rather than one that has passed it.
        near.min_by_key(|cursor| (cursor.reached > number, cursor.reached.abs_diff(number)))
    }

    fn give_up(&mut self) -> Vec<Range<u64>> {
        let mut left = Vec::new();
        while self.all.len() > 1 {
            let oldest = self.all.iter().enumerate().min_by_key(|(_, c)| c.moved);
            let Some((at, cursor)) = oldest.map(|(at, cursor)| (at, *cursor)) else {
                break;
            };
            let is_old = self.moves - cursor.moved > MOVES_TO_FORGET;
            if !is_old && self.all.len() <= CURSORS_MAX {
                break;
            }
            self.all.swap_remove(at);
            left.push(cursor.reached..cursor.next);
        }
        left
    }

    /// Those that count: a jump is none until it has gone on in order. Never empty.
    pub fn counting(&mut self) -> impl Iterator<Item = &mut Cursor> {
        let is_any = self.all.iter().any(Cursor::counts);
        // At the beginning no cursor has moved on yet.
        let first = self.all.iter().map(|cursor| cursor.moved).min();
        self.all.iter_mut().filter(move |cursor| match is_any {
            true => cursor.counts(),
            false => Some(cursor.moved) == first,
        })
    }

    /// All of them.
    pub fn all(&mut self) -> impl Iterator<Item = &mut Cursor> {
        self.all.iter_mut()
    }

    /// The last step that none of them is behind of.
    #[must_use]
    pub fn hindmost(&self) -> u64 {
        let reached = self.all.iter().map(|cursor| cursor.reached);
        reached.min().unwrap_or(0)
    }

    /// Gives those up that have not reached this step; the foremost stays.
    pub fn give_up_before(&mut self, number: u64) {
        self.all.sort_by_key(|cursor| cursor.reached);
        let keep = self
            .all
            .iter()
            .filter(|c| c.reached >= number)
            .count()
            .max(1);
        let behind = self.all.len() - keep;
        self.all.drain(..behind);
        for cursor in &mut self.all {
            cursor.reached = cursor.reached.max(number);
            cursor.next = cursor.next.max(number);
        }
    }
}

impl Cursor {
    fn counts(&self) -> bool {
        self.steps >= STEPS_TO_COUNT
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn come(cursors: &mut Cursors, number: u64) -> Move {
        cursors.come_to(number, number + 1, number + 1000)
    }

    fn places(cursors: &mut Cursors) -> Vec<u64> {
        let mut places: Vec<u64> = cursors.counting().map(|cursor| cursor.reached).collect();
        places.sort_unstable();
        places
    }

    #[test]
    fn threads_each_in_their_part_have_cursors_of_their_own() {
        let mut cursors = Cursors::default();
        for step in 0..10 {
            for part in 0..4 {
                let moved = come(&mut cursors, part * 500 + step);
                assert_eq!(moved.is_jump, step == 0 && part > 0);
            }
        }
        assert_eq!(places(&mut cursors), [10, 510, 1010, 1510]);
    }

    #[test]
    fn a_jump_counts_when_it_has_gone_on_in_order() {
        let mut cursors = Cursors::default();
        (0..5).for_each(|number| drop(come(&mut cursors, number)));
        assert!(come(&mut cursors, 900).is_jump);
        assert_eq!(places(&mut cursors), [5]);
        come(&mut cursors, 901);
        come(&mut cursors, 903);
        assert_eq!(places(&mut cursors), [5, 904]);
    }

    #[test]
    fn one_that_is_left_is_given_up_with_what_was_fetched_for_it() {
        let mut cursors = Cursors::default();
        (0..5).for_each(|number| drop(come(&mut cursors, number)));
        cursors.all().for_each(|cursor| cursor.next = 50);
        let moves = (1000..2000).flat_map(|number| come(&mut cursors, number).left);
        let left: Vec<Range<u64>> = moves.collect();
        assert_eq!((left.first(), left.len()), (Some(&(5..50)), 1));
        assert_eq!(places(&mut cursors), [2000]);
    }

    #[test]
    fn going_back_a_little_is_no_jump() {
        let mut cursors = Cursors::default();
        (0..20).for_each(|number| drop(come(&mut cursors, number)));
        let back = come(&mut cursors, 12);
        assert_eq!((back.is_jump, back.passed), (false, 12..12));
        assert_eq!(places(&mut cursors), [13]);
        assert_eq!(come(&mut cursors, 18).passed, 13..18);
    }

    proptest! {
        #[test]
        fn there_is_one_at_least_and_not_too_many(
            numbers in prop::collection::vec(0u64..100_000, 0..600), before in 0u64..100_000
        ) {
            let mut cursors = Cursors::default();
            for number in numbers {
                let moved = come(&mut cursors, number);
                prop_assert!(moved.passed.end - moved.passed.start <= number.max(NEAR_STEPS));
                prop_assert!(cursors.all.len() <= CURSORS_MAX);
                prop_assert!(cursors.counting().count() >= 1);
                prop_assert!(cursors.all().any(|cursor| cursor.reached == number + 1));
                prop_assert!(cursors.all().all(|cursor| cursor.reached <= cursor.next));
            }
            cursors.give_up_before(before);
            prop_assert!(cursors.hindmost() >= before);
            prop_assert!(cursors.counting().count() >= 1);
        }
    }
}
