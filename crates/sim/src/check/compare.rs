// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a program on two machines and finds the first difference.

use std::fmt;

use super::machine::Machine;
use super::modelled::{Model, Modelled};
use super::program::Program;
use super::seen::{Placed, Run, Seen, Sight};

/// The kind of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum What {
    /// The folios that went into the page cache.
    Inserted,
    /// The folios that left it.
    Removed,
    /// The pages that are in it.
    Cached,
    /// The mapped pages.
    Mapped,
    /// The readahead state of a descriptor.
    Remembered(usize),
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inserted => f.write_str("folios read"),
            Self::Removed => f.write_str("folios dropped"),
            Self::Cached => f.write_str("pages cached"),
            Self::Mapped => f.write_str("pages mapped"),
            Self::Remembered(number) => write!(f, "readahead state of descriptor {number}"),
        }
    }
}

/// Where a kernel and the model part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The number of the step, from 0.
    pub step: usize,
    /// The kind of the difference.
    pub what: What,
    /// The results of the kernel, step by step up to this one.
    pub kernel: Vec<Seen>,
    /// The results of the model.
    pub model: Vec<Seen>,
}

impl Difference {
    /// The kernel's side of it, and the model's, a line each.
    #[must_use]
    pub fn sides(&self) -> (String, String) {
        let side = |seen: Option<&Seen>| seen.map_or_else(String::new, |s| line(self.what, s));
        (side(self.kernel.last()), side(self.model.last()))
    }
}

impl Difference {
    /// The properties that another run has to show again. Mapped pages are left out: they depend on
    /// which pages were late.
    fn shown(&self) -> (usize, What, Vec<Run>) {
        let last = self.kernel.last();
        let cached = last.map(|seen| seen.cached.clone());
        (self.step, self.what, cached.unwrap_or_default())
    }
}

/// Folios for people: `12+4` is one of four pages from page 12 on, `16+8 in 1s` are eight in a row
/// of one page.
#[must_use]
pub fn in_runs(folios: &[Placed]) -> String {
    let mut runs: Vec<(u64, u64, u8)> = Vec::new();
    for folio in folios {
        let pages = 1u64 << folio.order;
        match runs.last_mut() {
            Some((start, length, order))
                if *order == folio.order && *start + *length == folio.index =>
            {
                *length += pages;
            }
            _ => runs.push((folio.index, pages, folio.order)),
        }
    }
    if runs.is_empty() {
        return "none".to_owned();
    }
    let text = runs.iter().map(|(start, pages, order)| {
        let of = 1u64 << order;
        match *pages == of {
            true => format!("{start}+{pages}"),
            false => format!("{start}+{pages} in {of}s"),
        }
    });
    text.collect::<Vec<_>>().join(", ")
}

fn pages_in_runs(runs: &[Run]) -> String {
    if runs.is_empty() {
        return "none".to_owned();
    }
    let runs: Vec<String> = runs
        .iter()
        .map(|(at, pages)| format!("{at}+{pages}"))
        .collect();
    runs.join(" ")
}

fn line(what: What, seen: &Seen) -> String {
    match what {
        What::Inserted => in_runs(&seen.inserted),
        What::Removed => in_runs(&seen.removed),
        What::Cached => pages_in_runs(&seen.cached),
        What::Mapped => pages_in_runs(&seen.mapped),
        What::Remembered(number) => match seen.remembered.get(number).copied().flatten() {
            Some(remembered) => remembered.to_string(),
            None => "closed".to_owned(),
        },
    }
}

/// The result of comparing a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Where they part, if they do.
    pub difference: Option<Difference>,
    /// The known defects (`Limits::QUIRK_*`) that the program met.
    pub misled: u8,
    /// Steps that were compared.
    pub steps: usize,
    /// Folios that the kernel inserted; 0 by [`Sight::Residency`].
    pub folios: u64,
    /// Pages that came into the page cache.
    pub pages: u64,
    /// Number of runs until each step was sure and the difference was seen twice.
    pub tries: usize,
    /// Differences that the next run did not show: see [`check`].
    pub unconfirmed: usize,
    /// Whether it never was; then nothing was proved.
    pub is_unsure: bool,
}

/// Number of runs after which the timing of a program counts as indeterminable.
const TRIES_MAX: usize = 1000;

/// Runs a program on a machine and on the model, up to the first difference. Starts again if the
/// machine was unsure of a step, see [`Seen::is_unsure`].
///
/// By residency, a page that another process dropped and that a step brought back looks as if
/// nothing had happened to it. So a difference counts when two runs, one after the other, show it
/// at the same step with the same pages cached.
///
/// # Errors
/// The machine can't carry it out.
pub fn check<M: Machine>(
    machine: &mut M,
    program: &Program,
    model: Model,
) -> Result<Checked, M::Error> {
    let mut tries = 0;
    let mut unconfirmed = 0;
    let mut doubted = None;
    loop {
        machine.take_care(doubted.is_some());
        let mut checked = check_once(machine, program, model)?;
        tries += 1;
        checked.is_unsure |= checked.difference.is_some() && machine.has_missed_events();
        let shown = checked.difference.as_ref().map(Difference::shown);
        if !checked.is_unsure {
            unconfirmed += usize::from(doubted.is_some() && shown != doubted);
        }
        let is_believed = shown.is_none() || shown == doubted || machine.sight() == Sight::Events;
        if (!checked.is_unsure && is_believed) || tries == TRIES_MAX {
            checked.is_unsure |= !is_believed;
            checked.tries = tries;
            checked.unconfirmed = unconfirmed;
            return Ok(checked);
        }
        if !checked.is_unsure {
            doubted = shown;
        }
    }
}

fn check_once<M: Machine>(
    machine: &mut M,
    program: &Program,
    model: Model,
) -> Result<Checked, M::Error> {
    let facts = machine.begin(program)?;
    let mut model = Modelled::new(model).with_facts(facts);
    let Ok(_) = model.begin(program);
    let sight = machine.sight();
    let mut checked = Checked::default();
    let (mut kernel_did, mut model_did) = (Vec::new(), Vec::new());
    for (number, step) in program.steps.iter().enumerate() {
        let there = machine.step(step)?;
        let here = match sight {
            Sight::Events => model.step_with(step, &there.late),
            Sight::Residency => model.step_as_mapped(step, &there.mapped),
        };
        checked.count(&there, &here);
        if checked.is_unsure {
            break;
        }
        let what = differ(sight, &there, &here);
        kernel_did.push(there);
        model_did.push(here);
        if let Some(what) = what {
            checked.difference = Some(Difference {
                step: number,
                what,
                kernel: kernel_did,
                model: model_did,
            });
            break;
        }
    }
    Ok(checked)
}

impl Checked {
    fn count(&mut self, kernel: &Seen, model: &Seen) {
        self.steps += 1;
        self.misled |= model.misled;
        self.folios += kernel.inserted.len() as u64;
        self.pages += kernel.new_pages;
        self.is_unsure = kernel.is_unsure;
    }
}

fn differ(sight: Sight, kernel: &Seen, model: &Seen) -> Option<What> {
    let what = match sight {
        Sight::Events => by_events(kernel, model),
        Sight::Residency => (kernel.cached != model.cached).then_some(What::Cached),
    };
    what.or_else(|| (kernel.mapped != model.mapped).then_some(What::Mapped))
}

fn by_events(kernel: &Seen, model: &Seen) -> Option<What> {
    if kernel.inserted != model.inserted {
        return Some(What::Inserted);
    }
    if kernel.removed != model.removed {
        return Some(What::Removed);
    }
    let states = kernel.remembered.iter().zip(&model.remembered);
    let number = states.into_iter().position(|(there, here)| there != here);
    number.map(What::Remembered)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{Facts, generate};
    use foreread_core::policy::Kernel;

    const FACTS: Facts = Facts {
        ra_pages: 32,
        io_pages: 320,
        folio_order_max: 9,
    };

    #[test]
    fn the_model_equals_itself() {
        for (number, kernel) in (0..200).zip(Kernel::ALL.into_iter().cycle()) {
            let model = Model::of(kernel.policy);
            let mut machine = Modelled::new(model).with_facts(FACTS);
            let program = generate(1, number);
            let Ok(checked) = check(&mut machine, &program, model);
            assert_eq!(checked.difference, None, "program {number}");
            assert_eq!(checked.steps, program.steps.len());
        }
    }

    #[test]
    fn each_kernel_differs_from_the_next() {
        let kernels = Kernel::ALL.map(|kernel| Model {
            quirks: 0,
            ..Model::of(kernel.policy)
        });
        for pair in kernels.windows(2) {
            let differs = |number| {
                let mut machine = Modelled::new(pair[0]).with_facts(FACTS);
                let Ok(checked) = check(&mut machine, &generate(1, number), pair[1]);
                checked.difference.is_some()
            };
            assert!((0..100).any(differs), "{pair:?}");
        }
    }

    #[test]
    fn a_defect_shows_when_the_model_is_run_without_it() {
        for kernel in Kernel::ALL {
            let model = Model::of(kernel.policy);
            let without = Model { quirks: 0, ..model };
            let (mut met, mut shown) = (0, 0);
            for number in 0..300 {
                let program = generate(1, number);
                let mut machine = Modelled::new(model).with_facts(FACTS);
                let Ok(with) = check(&mut machine, &program, model);
                assert_eq!(with.difference, None, "{kernel}, program {number}");
                met |= with.misled;
                let mut machine = Modelled::new(model).with_facts(FACTS);
                let Ok(without) = check(&mut machine, &program, without);
                if let Some(difference) = without.difference {
                    shown += 1;
                    let (kernel, model) = difference.sides();
                    assert_ne!(kernel, model, "program {number}");
                    assert!(with.misled != 0, "program {number}");
                }
            }
            assert!(shown > 0, "{kernel}");
            assert_eq!(met & !model.quirks, 0, "{kernel}");
        }
    }
}
