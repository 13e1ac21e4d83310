// SPDX-License-Identifier: MIT OR Apache-2.0
//! The model compared with a kernel of which only residency is seen: another model, blindfolded.

use std::collections::BTreeSet;
use std::convert::Infallible;

use foreread_core::policy::{Kernel, Limits};
use foreread_sim::Random;
use foreread_sim::check::{
    Checked, Facts, Machine, Model, Modelled, Program, Seen, Sight, Step, What, check, generate,
};

const FACTS: Facts = Facts {
    ra_pages: 32,
    io_pages: 320,
    folio_order_max: 9,
};

/// Shows the cached and mapped pages. Its reads are late at random; other faults are up to `spoil`,
/// by the number of the run and of the step, from 0.
struct Blindfolded<F> {
    model: Modelled,
    random: Random,
    run: usize,
    step: usize,
    spoil: F,
}

impl<F: FnMut(usize, usize, &mut Seen)> Blindfolded<F> {
    fn new(model: Model, spoil: F) -> Self {
        Self {
            model: Modelled::new(model).with_facts(FACTS),
            random: Random::new(1),
            run: 0,
            step: 0,
            spoil,
        }
    }

    fn late(&mut self, step: &Step) -> BTreeSet<u64> {
        let Ok(seen) = self.model.clone().step(step);
        let folios = seen.inserted.iter().map(|folio| folio.index);
        folios.filter(|_| self.random.below(3) == 0).collect()
    }
}

impl<F: FnMut(usize, usize, &mut Seen)> Machine for Blindfolded<F> {
    type Error = Infallible;

    fn begin(&mut self, program: &Program) -> Result<Facts, Infallible> {
        self.run += 1;
        self.step = 0;
        self.model.begin(program)
    }

    fn step(&mut self, step: &Step) -> Result<Seen, Infallible> {
        let late = match step {
            Step::Touch { .. } => self.late(step),
            _ => BTreeSet::new(),
        };
        let all = self.model.step_with(step, &late);
        let mut seen = Seen {
            cached: all.cached,
            mapped: all.mapped,
            ..Seen::default()
        };
        (self.spoil)(self.run - 1, self.step, &mut seen);
        self.step += 1;
        Ok(seen)
    }

    fn sight(&self) -> Sight {
        Sight::Residency
    }
}

fn checked(program: &Program, quirks: u8, spoil: impl FnMut(usize, usize, &mut Seen)) -> Checked {
    let model = Model::linux(quirks);
    let Ok(checked) = check(&mut Blindfolded::new(model, spoil), program, model);
    checked
}

fn nothing(_run: usize, _step: usize, _seen: &mut Seen) {}

/// Reads that bring in something at the second step, and at the last one.
fn reads() -> Program {
    let read = |page: u64| Step::Read {
        descriptor: 0,
        offset_bytes: page * 4096,
        bytes: 4096,
    };
    Program {
        file: 14,
        ..generate(1, 0)
    }
    .with_steps(vec![Step::Open { descriptor: 0 }, read(0), read(500)])
}

#[test]
fn what_arrived_late_is_told_by_what_is_mapped() {
    let mut late = 0;
    for number in 0..400 {
        let program = generate(2, number);
        let checked = checked(&program, Limits::QUIRKS_6_18, nothing);
        assert_eq!(checked.difference, None, "program {number}");
        assert_eq!((checked.tries, checked.is_unsure), (1, false));
        let touches = |step: &&Step| matches!(step, Step::Touch { .. });
        late += program.steps.iter().filter(touches).count();
    }
    assert!(late > 1000, "{late} touches");
}

#[test]
fn a_page_too_many_is_a_difference() {
    let checked = checked(&reads(), 0, |_, step, seen| {
        if step == 2 {
            seen.cached.push((900, 1));
        }
    });
    let difference = checked.difference.expect("a difference");
    assert_eq!((difference.step, difference.what), (2, What::Cached));
    assert_eq!(
        difference.sides(),
        ("0+4 500+1 900+1".to_owned(), "0+4 500+1".to_owned())
    );
    assert_eq!((checked.tries, checked.unconfirmed), (2, 0));
}

#[test]
fn a_difference_that_does_not_come_again_is_counted_and_not_believed() {
    let checked = checked(&reads(), 0, |run, step, seen| {
        if run == 0 && step == 1 {
            seen.cached.clear();
        }
    });
    assert_eq!(checked.difference, None);
    assert_eq!((checked.tries, checked.unconfirmed), (2, 1));
}

#[test]
fn another_difference_at_the_same_step_confirms_nothing() {
    let checked = checked(&reads(), 0, |run, step, seen| {
        if run < 2 && step == 2 {
            seen.cached.push((900 + run as u64, 1));
        }
    });
    assert_eq!(checked.difference, None);
    assert_eq!((checked.tries, checked.unconfirmed), (3, 2));
}

#[test]
fn differences_that_come_and_go_prove_nothing() {
    let checked = checked(&reads(), 0, |run, step, seen| {
        if step == 1 + run % 2 {
            seen.cached.clear();
        }
    });
    assert!(checked.is_unsure);
    assert_eq!(checked.unconfirmed + 1, checked.tries);
}

#[test]
fn a_run_that_was_disturbed_is_taken_again_and_confirms_nothing() {
    let checked = checked(&reads(), 0, |run, step, seen| {
        seen.is_unsure = run == 1 && step == 1;
        if step == 2 {
            seen.cached.clear();
        }
    });
    assert!(checked.difference.is_some() && !checked.is_unsure);
    assert_eq!((checked.tries, checked.unconfirmed), (3, 0));
}

/// Marks and states are out of sight, but their effects are not.
#[test]
fn each_departure_of_a_kernel_shows_in_residency() {
    for (name, quirk) in Limits::QUIRKS {
        // This quirk changes only the state, and only behind the end of the file.
        if quirk == Limits::QUIRK_PAST_END {
            continue;
        }
        let models = Kernel::ALL.map(|kernel| Model::of(kernel.policy));
        let having = models.into_iter().filter(|model| model.quirks & quirk != 0);
        let mut found = having.flat_map(|all| (0..1000).map(move |number| (all, number)));
        let shows = |all: Model, number: u64, quirks: u8| {
            let mut machine = Blindfolded::new(all, nothing);
            let model = Model { quirks, ..all };
            let Ok(checked) = check(&mut machine, &generate(1, number), model);
            checked.difference.is_some()
        };
        let found = found.find(|(all, number)| shows(*all, *number, all.quirks & !quirk));
        let Some((all, number)) = found else {
            panic!("{name} shows in none");
        };
        assert!(!shows(all, number, all.quirks), "{name}: {number}");
    }
}
