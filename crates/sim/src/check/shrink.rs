// SPDX-License-Identifier: MIT OR Apache-2.0
//! Delta debugging: the shortest part of a program that still shows a difference.

use super::program::{Program, Step};

/// Leaves out steps, first many at once, for as long as `differs` still holds. Calls it at most
/// `tries_max` times.
///
/// # Errors
/// Those of `differs`.
pub fn shrink<E>(
    program: &Program,
    tries_max: usize,
    mut differs: impl FnMut(&Program) -> Result<bool, E>,
) -> Result<Program, E> {
    let mut steps = program.steps.clone();
    let mut tries = 0;
    let mut piece = (steps.len() / 2).max(1);
    loop {
        let mut at = 0;
        let mut found = false;
        while at < steps.len() && tries < tries_max {
            let shorter = without(&steps, at, piece);
            tries += 1;
            if !shorter.is_empty() && differs(&program.with_steps(shorter.clone()))? {
                steps = shorter;
                found = true;
            } else {
                at += piece;
            }
        }
        if tries >= tries_max || (piece == 1 && !found) {
            return Ok(program.with_steps(steps));
        }
        piece = (piece / 2).max(1);
    }
}

fn without(steps: &[Step], at: usize, piece: usize) -> Vec<Step> {
    let end = (at + piece).min(steps.len());
    [&steps[..at], &steps[end..]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::generate;
    use std::convert::Infallible;

    #[test]
    fn what_a_difference_needs_is_what_remains() {
        let mut program = generate(1, 1);
        let (first, last) = (Step::Touch { page: 11 }, Step::Touch { page: 12 });
        program.steps.insert(0, first);
        program.steps.push(last);
        let needs_both = |program: &Program| -> Result<bool, Infallible> {
            let (first, last) = (program.steps.first(), program.steps.last());
            Ok(first == Some(&Step::Touch { page: 11 }) && last == Some(&Step::Touch { page: 12 }))
        };
        let Ok(shrunk) = shrink(&program, 10_000, needs_both);
        assert_eq!(shrunk.steps, [first, last]);
    }

    #[test]
    fn tries_are_bounded() {
        let mut tries = 0;
        let Ok(_) = shrink(&generate(1, 1), 5, |_| -> Result<bool, Infallible> {
            tries += 1;
            Ok(false)
        });
        assert!(tries <= 5);
    }
}
