// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of each BPF program on this kernel: its place of attachment, and the counts of the
//! verifier.
//!
//! A survey loads and attaches programs as their users do, and listens. `foreread doctor
//! --bpf` prints it, and the verifier's baseline of each kernel is made of it.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::missing_hook::MissingHook;
use super::verifier_log::Verified;

/// `BPF_LOG_STATS`: the verifier's counts, and nothing else.
pub(super) const LOG_STATISTICS: u32 = 4;

thread_local! {
    /// Programs that were loaded on this thread, while a survey is made.
    static MET: RefCell<Option<Vec<ProgramMet>>> = const { RefCell::new(None) };
}

/// A program that was loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramMet {
    /// Its name in `bpf/`.
    pub program: String,
    /// The place where it is attached, in words; `None` when user space or another program runs it.
    pub place: Option<String>,
    /// Instructions that the verifier looked at.
    pub instructions: u64,
    /// Bytes of stack of its functions, each by itself.
    pub stack_bytes: Vec<u64>,
}

/// The result for the programs of one verb.
#[derive(Debug)]
pub struct Survey {
    /// The verb, and which of its objects.
    pub subject: &'static str,
    /// Programs that this kernel has taken.
    pub programs: Vec<ProgramMet>,
    /// Events that aren't seen, or the reason why none are.
    pub outcome: Result<Vec<MissingHook>, String>,
}

impl Survey {
    /// A survey of the programs that `act` loads; `act` returns the missing hooks.
    pub fn of<E: std::fmt::Display>(
        subject: &'static str,
        act: impl FnOnce() -> Result<Vec<MissingHook>, E>,
    ) -> Self {
        MET.set(Some(Vec::new()));
        let outcome = act().map_err(|error| error.to_string());
        Self {
            subject,
            programs: MET.take().unwrap_or_default(),
            outcome,
        }
    }
}

/// Leaves out the programs loaded until now: they belong to another part that the survey's subject
/// needs.
pub fn leave_out_so_far() {
    MET.with_borrow_mut(|met| {
        if let Some(met) = met {
            met.clear();
        }
    });
}

/// Whether a survey is made on this thread.
pub(super) fn is_on() -> bool {
    MET.with_borrow(Option::is_some)
}

/// Notes the loaded programs with their places, and the output of libbpf.
pub(super) fn note(places: impl Iterator<Item = (String, String)>, printed: &str) {
    MET.with_borrow_mut(|met| {
        let Some(met) = met else {
            return;
        };
        let places: BTreeMap<String, String> = places.collect();
        met.extend(
            Verified::all_of(printed)
                .into_iter()
                .map(|verified| ProgramMet {
                    place: places.get(&verified.program).cloned(),
                    program: verified.program,
                    instructions: verified.instructions,
                    stack_bytes: verified.stack_bytes,
                }),
        );
    });
}
