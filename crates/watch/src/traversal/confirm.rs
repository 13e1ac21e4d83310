// SPDX-License-Identifier: MIT OR Apache-2.0
//! Confirms a suspicion: lists the directories, and finds an order of entries that explains the
//! accesses.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::collections::hash_map;
use std::path::Path;

use foreread_core::Device;

use super::is_near;
use crate::ahead::Machine;
use crate::detect::{Passed, Suspicion};
use crate::log::note::What;
use crate::look::{Verdict, above, verdict};
use crate::order::{Entry, Order, Orders};
use crate::place::Place;
use crate::walk::Walk;

/// Maximum number of threads whose sequences are compared with the order of directories.
const EVIDENCE_MAX: usize = 12;
/// Maximum number of levels above the first directories at which a program's list may start.
const START_LEVELS: usize = 6;

/// A traversal that was confirmed.
#[derive(Debug)]
pub struct Confirmed {
    /// The top of the tree.
    pub(super) place: Place,
    pub(super) device: Device,
    pub(super) orders: Orders,
    pub(super) walk: Walk,
}

/// Why a suspicion isn't followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The accesses are in no order, or the directory can't be listed.
    Wrong,
    /// There are too few accesses yet.
    TooEarly,
    /// Another traversal ahead of the process has the directory.
    Known,
}

/// Confirms a suspicion, and claims the top for the traversal.
///
/// # Errors
/// [`Refusal`] if it isn't followed.
pub fn confirm(
    suspicion: &Suspicion,
    budget_bytes: u64,
    machine: &mut dyn Machine,
) -> Result<Confirmed, Refusal> {
    let mounts = machine.mounts().ok_or(Refusal::Wrong)?;
    let follow = |directory: &[u8]| {
        Place::follow(&mounts, suspicion.device, directory).ok_or(Refusal::Wrong)
    };
    let (mut place, device) = follow(&suspicion.directory)?;
    let orders = if suspicion.reads {
        orders_of_reads(&place, suspicion, machine)?
    } else {
        let (orders, explained) = orders_of_looks(&place, suspicion, machine)?;
        let top = above(&explained).ok_or(Refusal::Wrong)?;
        place = follow(&top)?.0;
        orders
    };
    let order = orders.first().ok_or(Refusal::Wrong)?;
    if !machine.is_free(device, &place.inside) {
        return Err(Refusal::Known);
    }
    // A program that follows a list of paths begins at the directory in which the paths start.
    let start = suspicion.start.as_ref();
    if let Some((start, of)) = start.and_then(|start| follow(start).ok())
        && of == device
        && is_near(&place, &start, START_LEVELS)
    {
        place = start;
    }
    place = machine.began_at(suspicion.process, &place).unwrap_or(place);
    // Too many programs look up files everywhere below the root directory.
    if !suspicion.reads && place.path() == Path::new("/") {
        return Err(Refusal::Wrong);
    }
    if !machine.claim(device, &place.inside) {
        return Err(Refusal::Known);
    }
    machine.note(What::Begun {
        top: place.path_of(&place.inside),
        order,
    });
    let walk = match suspicion.reads {
        true => Walk::new(&place.inside, order, budget_bytes),
        false => Walk::of_looks(&place.inside, order, budget_bytes),
    };
    Ok(Confirmed {
        place,
        device,
        orders,
        walk,
    })
}

fn orders_of_reads(
    place: &Place,
    suspicion: &Suspicion,
    machine: &mut dyn Machine,
) -> Result<Orders, Refusal> {
    let entries = machine.list(place, b"").ok_or(Refusal::Wrong)?;
    let passed = suspicion.passed.first();
    Ok(passed.map_or_else(Orders::default, |passed| {
        Orders::of(&entries, &passed.children)
    }))
}

/// The orders that explain the sequences of a process's threads, and the sequences that the first
/// order explains.
fn orders_of_looks(
    place: &Place,
    suspicion: &Suspicion,
    machine: &mut dyn Machine,
) -> Result<(Orders, Vec<Passed>), Refusal> {
    let mut passed: Vec<&Passed> = suspicion.passed.iter().collect();
    passed.sort_by_key(|passed| Reverse(passed.children.len()));
    passed.truncate(EVIDENCE_MAX);
    let mut lists: HashMap<&[u8], Vec<Entry>> = HashMap::new();
    for passed in &passed {
        if let hash_map::Entry::Vacant(vacant) = lists.entry(&passed.directory) {
            let below = passed
                .directory
                .strip_prefix(suspicion.directory.as_slice());
            let list = machine.list(place, below.unwrap_or_default());
            vacant.insert(list.unwrap_or_default());
        }
    }
    let of = |passed: &Passed| {
        let entries = lists.get(passed.directory.as_slice());
        entries.map_or_else(Orders::default, |list| {
            Orders::of_looks(list, &passed.children)
        })
    };
    let found: Vec<(&Passed, Orders)> = passed.into_iter().map(|one| (one, of(one))).collect();
    let judged = Order::ALL.into_iter().map(|order| {
        let explained = found.iter().filter(|(_, orders)| orders.contains(order));
        let explained: Vec<Passed> = explained.map(|(passed, _)| (*passed).clone()).collect();
        let verdict = verdict(&explained, found.len() - explained.len());
        (order, verdict, explained)
    });
    let mut judged: Vec<(Order, Verdict, Vec<Passed>)> = judged.collect();
    let best = judged.iter().map(|(_, verdict, _)| *verdict).max();
    match best.unwrap_or(Verdict::Chance) {
        Verdict::Chance => return Err(Refusal::Wrong),
        Verdict::TooEarly => return Err(Refusal::TooEarly),
        Verdict::Convincing => judged.retain(|(_, of, _)| *of == Verdict::Convincing),
    }
    let orders: Orders = judged.iter().map(|(order, ..)| *order).collect();
    let first = judged.into_iter().next().map(|(.., explained)| explained);
    Ok((orders, first.unwrap_or_default()))
}
