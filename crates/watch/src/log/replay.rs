// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the calls of a log again, and compares each answer with that of the log.
//!
//! Input: the lines of a log, in order. Output: the first answer that differs, or the first call
//! that was lost.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use serde::Serialize;
use serde_json::{Map, Value};

use super::detect_call::Detectors;
use super::planner::Planner;
use super::rest_call::RestAgain;
use super::stream_call::Remembered;
use super::walk_call::WalkAgain;
use super::{Header, LineError};

/// Maximum number of characters that are shown of a field that differs.
const SHOWN_CHARS: usize = 160;

/// The result of a call that was made again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Made {
    /// The answer is that of the log.
    Same,
    /// The answer differs.
    Other(Differs),
    /// There is no answer, because calls before this one were lost.
    Lost(Lost),
}

/// An answer that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Differs {
    /// The planner, such as `process 7, walk 1`.
    pub who: String,
    /// The number of the call.
    pub number: u64,
    /// The fields that differ as the log has them.
    pub logged: String,
    /// The same fields of the present answer.
    pub made: String,
}

/// The first call that is not in the log, though a later one is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The planner.
    pub who: String,
    /// The number of the call.
    pub number: u64,
}

/// Counts of a replay, for one kind of planners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// The kind: [`Planner::NAME`].
    pub name: &'static str,
    /// Calls that were made again.
    pub calls: u64,
    /// The names in [`Planner::COUNTED`], each with its count.
    pub counts: Vec<([&'static str; 2], u64)>,
}

/// All planners of a log.
pub struct Replay(Vec<Box<dyn Again>>);

impl Default for Replay {
    fn default() -> Self {
        Self(vec![
            Box::new(AgainOf::<Remembered>::new()),
            Box::new(AgainOf::<WalkAgain>::new()),
            Box::new(AgainOf::<Detectors>::new()),
            Box::new(AgainOf::<RestAgain>::new()),
        ])
    }
}

impl Replay {
    /// Makes the call of a line, if the line has one.
    ///
    /// # Errors
    /// The line is not of a log, has less than a call needs, or is impossible.
    pub fn take(&mut self, line: &Value) -> Result<Made, LineError> {
        let header = Header::of(line)?;
        if header.is_start() {
            self.0.iter_mut().for_each(|again| again.start());
            return Ok(Made::Same);
        }
        for again in &mut self.0 {
            if let Some(made) = again.take(&header, line)? {
                return Ok(made);
            }
        }
        Ok(Made::Same)
    }

    /// Results of the replay, one per kind of planner.
    #[must_use]
    pub fn replayed(&self) -> Vec<Replayed> {
        self.0.iter().map(|again| again.replayed()).collect()
    }
}

/// Planners of one kind, with the kind's type erased.
trait Again {
    /// Makes the call of a line again, if the call is one of this kind.
    fn take(&mut self, header: &Header<'_>, line: &Value) -> Result<Option<Made>, LineError>;
    /// Drops all planners: another watcher writes from here on.
    fn start(&mut self);
    fn replayed(&self) -> Replayed;
}

/// The planners of one kind, each with the number of its last call.
struct AgainOf<P: Planner> {
    planners: HashMap<P::Key, (P, u64)>,
    calls: u64,
    counts: Vec<u64>,
}

impl<P: Planner> AgainOf<P> {
    fn new() -> Self {
        Self {
            planners: HashMap::new(),
            calls: 0,
            counts: vec![0; P::COUNTED.len()],
        }
    }
}

impl<P: Planner> Again for AgainOf<P> {
    fn take(&mut self, header: &Header<'_>, line: &Value) -> Result<Option<Made>, LineError> {
        let Some(call) = header.call::<P>(line)? else {
            return Ok(None);
        };
        let who = || P::words(&P::key(header.process, &call));
        let number = P::number(&call);
        let lost = |due| {
            Made::Lost(Lost {
                who: who(),
                number: due,
            })
        };
        let (planner, last) = match self.planners.entry(P::key(header.process, &call)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(_) if number != 1 => return Ok(Some(lost(1))),
            Entry::Vacant(new) => {
                let planner = P::begin(&call).ok_or(LineError::BeginsNothing)?;
                new.insert((planner, 0))
            }
        };
        if number != *last + 1 {
            return Ok(Some(lost(*last + 1)));
        }
        *last = number;
        self.calls += 1;
        P::count(&call, &mut self.counts);
        let made = planner.again(&call);
        if made.as_ref() == Some(&call) {
            return Ok(Some(Made::Same));
        }
        let [logged, made] = differing(&fields_of(Some(&call)), &fields_of(made.as_ref()));
        Ok(Some(Made::Other(Differs {
            who: who(),
            number,
            logged,
            made,
        })))
    }

    fn start(&mut self) {
        self.planners.clear();
    }

    fn replayed(&self) -> Replayed {
        Replayed {
            name: P::NAME,
            calls: self.calls,
            counts: P::COUNTED
                .iter()
                .copied()
                .zip(self.counts.iter().copied())
                .collect(),
        }
    }
}

fn fields_of<C: Serialize>(call: Option<&C>) -> Map<String, Value> {
    match call.map(serde_json::to_value) {
        Some(Ok(Value::Object(fields))) => fields,
        _ => Map::new(),
    }
}

/// The fields that differ, as text: of one, then of the other.
fn differing(one: &Map<String, Value>, other: &Map<String, Value>) -> [String; 2] {
    let mut names: Vec<&String> = one.keys().chain(other.keys()).collect();
    names.sort_unstable();
    names.dedup();
    names.retain(|name| one.get(*name) != other.get(*name));
    [one, other].map(|fields| {
        let shown = names
            .iter()
            .filter_map(|name| Some((*name, fields.get(*name)?)));
        let shown: Vec<String> = shown
            .map(|(name, value)| shown_field(name, value))
            .collect();
        match shown.is_empty() {
            true => "nothing".to_owned(),
            false => shown.join(", "),
        }
    })
}

fn shown_field(name: &str, value: &Value) -> String {
    let text = value.to_string();
    let mut shown: String = text.chars().take(SHOWN_CHARS).collect();
    if shown.len() < text.len() {
        shown += "...";
    }
    format!("{name} {shown}")
}
