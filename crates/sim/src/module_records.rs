// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the decisions of the kernel module once more, by the core on this machine.
//!
//! Input: the text of the tracepoints `foreread:decision`, `foreread:waited` and `foreread:issued`
//! (module/record.h), as tracefs prints it. Output: how many decisions came out the same, bit for
//! bit, by policy.
//!
//! A decision's record has all of its input, but for the streams of the file, which are too large.
//! These begin as zero bytes with the first event of a `streams` number, and each event leads to
//! the next. After an event that is missing in the text, the later ones of the same number can't be
//! replayed. They count as `gaps`, not as equal.

use std::collections::BTreeMap;
use std::fmt;

use foreread_core::policy::{
    Access, Budget, Decision, Device, Limits, Memory, Near, Policy, State, Streams,
};
use thiserror::Error;

/// A line that is no record of a decision.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "line {line} is no record of the module: {reason}; is the module of another version than this program?"
)]
pub struct RecordError {
    /// From 1.
    pub line: usize,
    /// What is wrong with it.
    pub reason: String,
}

/// The outcome of a replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Decisions, and of these the equal ones, by the name of the policy.
    pub by_policy: BTreeMap<&'static str, (u64, u64)>,
    /// Decisions that could not be replayed, since an event before them is missing.
    pub gaps: u64,
    /// The first decision that differs: what the module made of it, and what the core does.
    pub first_difference: Option<String>,
}

impl Replayed {
    /// All decisions.
    #[must_use]
    pub fn decisions(&self) -> u64 {
        self.by_policy.values().map(|(all, _)| all).sum()
    }

    /// The equal ones.
    #[must_use]
    pub fn equal(&self) -> u64 {
        self.by_policy.values().map(|(_, equal)| equal).sum()
    }

    /// Whether there are any, and all of them are equal.
    #[must_use]
    pub fn is_equal(&self) -> bool {
        self.decisions() > 0 && self.equal() == self.decisions()
    }
}

/// One call of the core in the kernel.
struct Event {
    line: usize,
    policy: Policy,
    /// The streams of the file, 0 for policies without.
    streams: u64,
    number: u64,
    call: Call,
}

/// In words.
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Self { line, policy, .. } = self;
        match &self.call {
            Call::Decide(decided) => {
                let made = Decision::from_bytes(&decided.made);
                let made = made.map_or_else(|| "no decision".to_owned(), |made| made.explain());
                let Access {
                    index,
                    req_pages,
                    thread,
                    ..
                } = decided.access;
                let kind = decided.access.kind;
                write!(
                    f,
                    "line {line}, {policy}: thread {thread}, {kind:?} {index}+{req_pages}: {made}"
                )
            }
            Call::Waited {
                thread,
                waited_ns,
                was_asked,
                ..
            } => {
                let which = match was_asked {
                    true => "on its way",
                    false => "that was missing",
                };
                write!(
                    f,
                    "line {line}, {policy}: thread {thread} waited {waited_ns} ns for a page {which}"
                )
            }
            Call::Issued {
                thread,
                pages,
                read_pages,
            } => write!(
                f,
                "line {line}, {policy}: for thread {thread}, {read_pages} of {pages} pages were not cached"
            ),
        }
    }
}

enum Call {
    Decide(Box<Decided>),
    /// A reader has waited for a page.
    Waited {
        thread: u32,
        waited_ns: u64,
        was_asked: bool,
        costs: Option<Box<Device>>,
    },
    Issued {
        thread: u32,
        pages: u64,
        read_pages: u64,
    },
}

struct Decided {
    before: State,
    access: Access,
    near: Near,
    limits: Limits,
    /// What the policy knew of the device and of memory, where it was told.
    costs: Option<Device>,
    budget: Option<Budget>,
    made: Vec<u8>,
    after: Vec<u8>,
}

/// The streams of a file while its events are replayed.
struct File {
    streams: Box<Streams>,
    next: u64,
}

/// Replays all decisions of a text.
///
/// # Errors
/// A line of the tracepoints is not as this version of the module writes it.
pub fn replay(text: &str) -> Result<Replayed, RecordError> {
    replay_each(text, |_| ())
}

/// The same, and tells of each decision of the module in words: those of a file in their order.
///
/// # Errors
/// As those of [`replay`].
pub fn replay_each(
    text: &str,
    mut tell: impl FnMut(&dyn fmt::Display),
) -> Result<Replayed, RecordError> {
    let mut events = Vec::new();
    for (index, line) in text.lines().enumerate() {
        events.extend(event_of(index + 1, line)?);
    }
    // Processors write their events apart, so those of a file may be out of order.
    events.sort_by_key(|event| (event.streams, event.number));
    let mut replayed = Replayed::default();
    let mut files = BTreeMap::<u64, File>::new();
    for event in &events {
        tell(event);
        replay_event(event, &mut files, &mut replayed);
    }
    Ok(replayed)
}

fn replay_event(event: &Event, files: &mut BTreeMap<u64, File>, replayed: &mut Replayed) {
    let mut file = None;
    if event.streams != 0 {
        let known = files.entry(event.streams).or_insert_with(|| File {
            streams: Box::default(),
            next: 1,
        });
        if known.next != event.number {
            replayed.gaps += u64::from(matches!(event.call, Call::Decide(_)));
            return;
        }
        known.next += 1;
        file = Some(known);
    }
    match &event.call {
        Call::Decide(decided) => {
            let streams = file.map(|file| &mut *file.streams);
            let (is_equal, told) = decide(event, decided, streams);
            let counts = replayed.by_policy.entry(event.policy.name()).or_default();
            counts.0 += 1;
            counts.1 += u64::from(is_equal);
            if !is_equal && replayed.first_difference.is_none() {
                replayed.first_difference = Some(told);
            }
        }
        Call::Waited {
            thread,
            waited_ns,
            was_asked,
            costs,
        } => {
            let mut costs = costs.clone();
            let memory = Memory {
                streams: file.map(|file| &mut *file.streams),
                device: costs.as_deref_mut(),
                budget: None,
            };
            event.policy.waited(memory, *thread, *waited_ns, *was_asked);
        }
        Call::Issued {
            thread,
            pages,
            read_pages,
        } => {
            if let Some(file) = file {
                event
                    .policy
                    .issued(&mut file.streams, *thread, *pages, *read_pages);
            }
        }
    }
}

/// Whether the core decides as the module did; and what both decided, if it does not.
fn decide(event: &Event, decided: &Decided, streams: Option<&mut Streams>) -> (bool, String) {
    let mut state = decided.before;
    let (mut costs, mut budget) = (decided.costs, decided.budget);
    let memory = Memory {
        streams,
        device: costs.as_mut(),
        budget: budget.as_mut(),
    };
    let made = event.policy.decide_with(
        &mut state,
        &decided.access,
        &decided.near,
        &decided.limits,
        memory,
    );
    if made.bytes() == decided.made && state.bytes() == decided.after {
        return (true, String::new());
    }
    let module = Decision::from_bytes(&decided.made)
        .map_or_else(|| "no decision".to_owned(), |module| module.explain());
    let told = format!(
        "line {}, {} at page {}: module: {module}; core: {}",
        event.line,
        event.policy,
        decided.access.index,
        made.explain()
    );
    (false, told)
}

/// The event of a line; `None` for lines of other tracepoints and comments.
fn event_of(line: usize, text: &str) -> Result<Option<Event>, RecordError> {
    let found = ["decision", "waited", "issued"]
        .into_iter()
        .find_map(|kind| Some((kind, text.split_once(&format!(": {kind}: "))?.1)));
    let Some((kind, fields)) = found else {
        return Ok(None);
    };
    let fields = Fields { line, text: fields };
    let number = fields.number("policy")?;
    let policy = Policy::ALL
        .into_iter()
        .find(|policy| *policy as u64 == number)
        .ok_or_else(|| fields.error(format!("no policy has the number {number}")))?;
    let thread = || {
        u32::try_from(fields.number("thread")?)
            .map_err(|_| fields.error("thread is too large".to_owned()))
    };
    let call = match kind {
        "decision" => Call::Decide(Box::new(Decided {
            before: fields.of_bytes("before", State::from_bytes)?,
            access: fields.of_bytes("access", Access::from_bytes)?,
            near: fields.of_bytes("near", Near::from_bytes)?,
            limits: fields.of_bytes("limits", Limits::from_bytes)?,
            costs: fields.optional("costs", Device::from_bytes)?,
            budget: fields.optional("budget", Budget::from_bytes)?,
            made: fields.bytes("made")?,
            after: fields.bytes("after")?,
        })),
        "waited" => Call::Waited {
            thread: thread()?,
            waited_ns: fields.number("waited")?,
            was_asked: fields.number("asked")? != 0,
            costs: fields.optional("costs", Device::from_bytes)?.map(Box::new),
        },
        _ => Call::Issued {
            thread: thread()?,
            pages: fields.number("pages")?,
            read_pages: fields.number("read")?,
        },
    };
    Ok(Some(Event {
        line,
        policy,
        streams: fields.number("streams")?,
        number: fields.number("event")?,
        call,
    }))
}

/// The `name=value` pairs of a line.
struct Fields<'text> {
    line: usize,
    text: &'text str,
}

impl Fields<'_> {
    fn error(&self, reason: String) -> RecordError {
        RecordError {
            line: self.line,
            reason,
        }
    }

    fn value(&self, name: &str) -> Result<&str, RecordError> {
        self.text
            .split_whitespace()
            .find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
            .ok_or_else(|| self.error(format!("it has no {name}")))
    }

    fn number(&self, name: &str) -> Result<u64, RecordError> {
        let value = self.value(name)?;
        value
            .parse()
            .map_err(|_| self.error(format!("{name} is `{value}`, not a number")))
    }

    fn bytes(&self, name: &str) -> Result<Vec<u8>, RecordError> {
        let value = self.value(name)?;
        let digit = |at: usize| u8::from_str_radix(value.get(at..at + 2)?, 16).ok();
        let bytes: Option<Vec<u8>> = (0..value.len()).step_by(2).map(digit).collect();
        bytes.ok_or_else(|| self.error(format!("{name} is not hexadecimal")))
    }

    /// A struct, or `-` where the core was given none.
    fn optional<T>(
        &self,
        name: &str,
        from: fn(&[u8]) -> Option<T>,
    ) -> Result<Option<T>, RecordError> {
        match self.value(name)? {
            "-" => Ok(None),
            _ => self.of_bytes(name, from).map(Some),
        }
    }

    fn of_bytes<T>(&self, name: &str, from: fn(&[u8]) -> Option<T>) -> Result<T, RecordError> {
        from(&self.bytes(name)?)
            .ok_or_else(|| self.error(format!("{name} has another size, or is of no kind")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    }

    /// A line as the module writes it.
    fn line(policy: Policy, streams: u64, event: u64, decided: &Decided) -> String {
        format!(
            "  cat-1 [000] ..... 1.0: decision: device=8:16 inode=12 policy={} streams={streams} \
             event={event} before={} access={} near={} limits={} made={} after={} costs=- budget=-",
            policy as u32,
            hex(decided.before.bytes()),
            hex(decided.access.bytes()),
            hex(decided.near.bytes()),
            hex(decided.limits.bytes()),
            hex(&decided.made),
            hex(&decided.after)
        )
    }

    fn decided(policy: Policy, access: Access, streams: Option<&mut Streams>) -> Decided {
        let limits = Limits::new(3568, 32);
        let (before, near) = (State::open(&limits), Near::default());
        let mut state = before;
        let memory = Memory {
            streams,
            device: None,
            budget: None,
        };
        let made = policy.decide_with(&mut state, &access, &near, &limits, memory);
        Decided {
            before,
            access,
            near,
            limits,
            costs: None,
            budget: None,
            made: made.bytes().to_vec(),
            after: state.bytes().to_vec(),
        }
    }

    #[test]
    fn a_decision_of_the_core_is_equal_to_itself_and_to_no_other() {
        let mut decided = decided(Policy::Linux, Access::read_miss(0, 1), None);
        let text = format!("# tracer: nop\n{}\n", line(Policy::Linux, 0, 0, &decided));
        let replayed = replay(&text).unwrap();
        assert!(replayed.is_equal(), "{replayed:?}");
        assert_eq!(replayed.by_policy["linux"], (1, 1));
        decided.made[8] ^= 1;
        let replayed = replay(&line(Policy::Linux, 0, 0, &decided)).unwrap();
        assert!(!replayed.is_equal());
        let told = replayed.first_difference.unwrap();
        assert!(told.contains("line 1, linux at page 0"), "{told}");
    }

    #[test]
    fn streams_are_led_from_event_to_event_in_their_order() {
        let mut streams = Streams::new();
        let mut look = |index| {
            let access = Access::read_look(index, 4);
            decided(Policy::Foreread, access, Some(&mut streams))
        };
        let events = [look(0), look(4), look(8)];
        let lines: Vec<String> = (1..)
            .zip(&events)
            .map(|(number, decided)| line(Policy::Foreread, 7, number, decided))
            .collect();
        let mixed = format!("{}\n{}\n{}\n", lines[2], lines[0], lines[1]);
        let replayed = replay(&mixed).unwrap();
        assert!(replayed.is_equal(), "{replayed:?}");
        assert_eq!(replayed.decisions(), 3);
        let lost = format!("{}\n{}\n", lines[0], lines[2]);
        let replayed = replay(&lost).unwrap();
        assert_eq!((replayed.decisions(), replayed.gaps), (1, 1));
    }

    #[test]
    fn a_line_of_another_version_is_an_error() {
        let good = line(
            Policy::Linux,
            0,
            0,
            &decided(Policy::Linux, Access::read_miss(0, 1), None),
        );
        let cut = good.replace("near=", "near=00");
        let error = replay(&cut).unwrap_err().to_string();
        assert!(
            error.contains("line 1") && error.contains("near"),
            "{error}"
        );
        let unknown = good.replace("policy=0", "policy=99");
        assert!(replay(&unknown).is_err());
        assert_eq!(replay("nothing\n").unwrap(), Replayed::default());
    }
}
