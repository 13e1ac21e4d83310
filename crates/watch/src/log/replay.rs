// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the calls of a log again, and compares each answer with that of the log.
//!
//! Input: the lines of a log, in order. Output: the first answer that differs, or the first call
//! that was lost.

use std::collections::HashMap;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::detect_call::Detectors;
use super::planner::Planner;
use super::stream_call::Remembered;
use super::walk_call::WalkAgain;
use super::{LineError, header_of};

/// How many characters of a field that differs are shown.
const SHOWN_CHARS: usize = 160;

/// The result of a call that was made again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Made {
    /// The answer of the log.
    Same,
    /// Another answer.
    Other(Differs),
    /// None: calls before this one were lost.
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
    /// The same fields as they are now.
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
    /// [`Planner::COUNTED`], and how many there were of each.
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
        ])
    }
}

impl Replay {
    /// Makes the call of a line, where it has one.
    ///
    /// # Errors
    /// It is no line of a log, or says less than a call needs, or what can't be.
    pub fn take(&mut self, line: &Value) -> Result<Made, LineError> {
        let header = header_of(line)?;
        if header.is_start() {
            self.0.iter_mut().for_each(|again| again.start());
            return Ok(Made::Same);
        }
        let mut all = self.0.iter_mut();
        match all.find(|again| again.has(header.what)) {
            Some(again) => again.take(header.process, line),
            None => Ok(Made::Same),
        }
    }

    /// What was replayed, kind by kind.
    #[must_use]
    pub fn replayed(&self) -> Vec<Replayed> {
        self.0.iter().map(|again| again.replayed()).collect()
    }
}

/// Planners of one kind, whatever that is.
trait Again {
    /// Whether a line with this as `what` is a call of one.
    fn has(&self, what: &str) -> bool;
    fn take(&mut self, process: u32, line: &Value) -> Result<Made, LineError>;
    /// Forgets all of them: another watcher writes from here on.
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
    fn has(&self, what: &str) -> bool {
        P::WHATS.contains(&what)
    }

    fn take(&mut self, process: u32, line: &Value) -> Result<Made, LineError> {
        let call: P::Call = call_of(line)?;
        let key = P::key(process, &call);
        let who = P::words(&key);
        let number = P::number(&call);
        let due = self.planners.get(&key).map_or(1, |(_, last)| last + 1);
        if number != due {
            return Ok(Made::Lost(Lost { who, number: due }));
        }
        if due == 1 {
            let planner = P::begin(&call).ok_or(LineError::BeginsNothing)?;
            self.planners.insert(P::key(process, &call), (planner, 0));
        }
        let Some((planner, last)) = self.planners.get_mut(&key) else {
            return Err(LineError::BeginsNothing);
        };
        *last = number;
        self.calls += 1;
        P::count(&call, &mut self.counts);
        let made = planner.again(&call);
        if made.as_ref() == Some(&call) {
            return Ok(Made::Same);
        }
        let [logged, made] = differing(&fields_of(Some(&call)), &fields_of(made.as_ref()));
        Ok(Made::Other(Differs {
            who,
            number,
            logged,
            made,
        }))
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

/// The call of a line that has one of this planner.
///
/// # Errors
/// It says less than a call needs, or what can't be.
pub fn call_of<C: DeserializeOwned>(line: &Value) -> Result<C, LineError> {
    C::deserialize(line).map_err(LineError::Wrong)
}

fn fields_of<C: Serialize>(call: Option<&C>) -> Map<String, Value> {
    match call.map(serde_json::to_value) {
        Some(Ok(Value::Object(fields))) => fields,
        _ => Map::new(),
    }
}

/// The fields that differ, as text: those of the one and those of the other.
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
