// SPDX-License-Identifier: MIT OR Apache-2.0
//! The model compared with a kernel some of whose events were not seen: another model that leaves
//! out folios that it inserted.

use std::convert::Infallible;

use foreread_core::policy::Limits;
use foreread_sim::check::{Checked, Facts, Machine, Model, Modelled, Program, Seen, Step};
use foreread_sim::check::{check, generate};

const FACTS: Facts = Facts {
    ra_pages: 32,
    io_pages: 320,
    folio_order_max: 0,
};

/// Leaves out the folios that it inserted in its first runs, and reports that or not.
struct Forgetful {
    model: Modelled,
    run: usize,
    forgetful_runs: usize,
    says_so: bool,
}

impl Machine for Forgetful {
    type Error = Infallible;

    fn begin(&mut self, program: &Program) -> Result<Facts, Infallible> {
        self.run += 1;
        self.model.begin(program)
    }

    fn step(&mut self, step: &Step) -> Result<Seen, Infallible> {
        let mut seen = self.model.step(step)?;
        if self.run <= self.forgetful_runs {
            seen.inserted.clear();
        }
        Ok(seen)
    }

    fn has_missed_events(&mut self) -> bool {
        self.says_so && self.run <= self.forgetful_runs
    }
}

fn checked(forgetful_runs: usize, says_so: bool) -> Checked {
    let model = Model::linux(Limits::QUIRKS_6_18);
    let mut machine = Forgetful {
        model: Modelled::new(model).with_facts(FACTS),
        run: 0,
        forgetful_runs,
        says_so,
    };
    let Ok(checked) = check(&mut machine, &generate(1, 0), model);
    checked
}

#[test]
fn a_difference_after_missed_events_is_not_believed() {
    let checked = checked(2, true);
    assert_eq!(checked.difference, None);
    assert_eq!((checked.tries, checked.is_unsure), (3, false));
}

#[test]
fn the_same_difference_counts_when_no_event_was_missed() {
    let checked = checked(2, false);
    assert!(checked.difference.is_some());
    assert_eq!(checked.tries, 1);
}

#[test]
fn a_kernel_that_always_misses_events_proves_nothing() {
    assert!(checked(usize::MAX, true).is_unsure);
}
