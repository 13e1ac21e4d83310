// SPDX-License-Identifier: MIT OR Apache-2.0
//! Journal of changes: old value, new value, reason, time. A change is written down before it is
//! made, so that an interrupted change can be found.

use serde::{Deserialize, Serialize};

use crate::identity::{DeviceNumber, Identity};

/// Name and version of the stored form.
const SCHEMA: &str = "foreread.journal/1";
/// Closed entries remembered, for the history; the oldest go first.
const CLOSED_MAX: usize = 1000;
/// Steps remembered of an open entry, the oldest go first: its original value is kept apart.
const STEPS_MAX: usize = 100;

/// The origin of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// It was advised.
    Advice,
    /// It was advised, and udev asked as the device appeared.
    Udev,
    /// A person named a size.
    Person,
}

/// One change of one setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Step {
    /// The value before, in KiB.
    pub from_kib: u64,
    /// The value after, in KiB.
    pub to_kib: u64,
    /// Why, in words.
    pub reason: String,
    /// The origin of the new value.
    pub origin: Origin,
    /// When, in seconds since 1970.
    pub unix_s: u64,
    /// Whether it is known to have been made. A step that was only meant was cut short, and the
    /// present setting tells how far it got.
    pub done: bool,
}

/// How an entry ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The first value is back.
    RolledBack,
    /// Somebody else had set another value since, and it stays.
    LeftToOthers,
    /// The device is no longer there, or another one is.
    Gone,
}

/// All changes of one attachment of a device since somebody else last set it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Entry {
    /// Counts up through the journal.
    pub id: u64,
    /// The device that has the setting; `MAJOR:MINOR` in the file.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub number: DeviceNumber,
    /// Which device it was.
    pub identity: Identity,
    /// The value before the first step, in KiB. A rollback restores it.
    pub original_kib: u64,
    /// The changes, oldest first; at least one.
    pub steps: Vec<Step>,
    /// Whether a rollback was begun and is not known to have ended.
    #[serde(default)]
    pub undoing: bool,
    /// How and when (seconds since 1970) it ended, if it did.
    #[serde(default)]
    pub ended: Option<(Ending, u64)>,
}

impl Entry {
    /// The value that this entry last set or meant to set, in KiB.
    #[must_use]
    pub fn wanted_kib(&self) -> u64 {
        self.steps
            .last()
            .map_or(self.original_kib, |step| step.to_kib)
    }

    /// The origin of that value.
    #[must_use]
    pub fn origin(&self) -> Option<Origin> {
        self.steps.last().map(|step| step.origin)
    }

    /// Whether a person who says this means its device: `sda`, `/dev/sda` or `8:0`.
    #[must_use]
    pub fn is_called(&self, name: &str) -> bool {
        let plain = name.strip_prefix("/dev/").unwrap_or(name);
        self.identity.name == plain || self.identity.name == name || name.parse() == Ok(self.number)
    }

    /// The standing of the change, given the device that has the number now with its value in KiB;
    /// `None` if there is no such device.
    #[must_use]
    pub fn standing(&self, present: Option<(&Identity, u64)>) -> Standing {
        match present {
            Some((identity, now_kib)) if identity.is_same_attachment(&self.identity) => {
                if now_kib != self.wanted_kib() {
                    Standing::Foreign { now_kib }
                } else if self.origin() == Some(Origin::Person) {
                    Standing::Manual
                } else {
                    Standing::Ours
                }
            }
            Some(_) => Standing::Gone { replaced: true },
            None => Standing::Gone { replaced: false },
        }
    }

    pub(crate) fn push(&mut self, step: Step) {
        if self.steps.len() >= STEPS_MAX {
            self.steps.remove(0);
        }
        self.steps.push(step);
    }
}

/// The standing of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// In force, as advised.
    Ours,
    /// In force, as a person wanted it: advice doesn't change it.
    Manual,
    /// Somebody else has set another value since; it is theirs.
    Foreign {
        /// In KiB.
        now_kib: u64,
    },
    /// The device is not there any more, and the change with it.
    Gone {
        /// Whether another device has its name or number now.
        replaced: bool,
    },
}

impl Standing {
    /// The standing in one word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Manual => "manual",
            Self::Foreign { .. } => "foreign",
            Self::Gone { .. } => "gone",
        }
    }
}

/// All entries, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Journal {
    pub(crate) entries: Vec<Entry>,
    next_id: u64,
}

#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Stored {
    schema: String,
    next_id: u64,
    entries: Vec<Entry>,
}

/// Why a stored journal can't be read.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Not JSON, or not of this shape.
    #[error("it is no journal: {0}")]
    Shape(#[from] serde_json::Error),
    /// The journal is of another program or version.
    #[error("it is of schema {0}, and {SCHEMA} is read")]
    Schema(String),
}

impl Journal {
    /// Reads the output of [`Journal::to_json`].
    ///
    /// # Errors
    /// When it is something else.
    pub fn from_json(text: &str) -> Result<Self, JournalError> {
        let stored: Stored = serde_json::from_str(text)?;
        if stored.schema != SCHEMA {
            return Err(JournalError::Schema(stored.schema));
        }
        let past = stored.entries.iter().map(|entry| entry.id);
        let past = past.max().map_or(0, |id| id.saturating_add(1));
        Ok(Self {
            next_id: stored.next_id.max(past),
            entries: stored.entries,
        })
    }

    /// As JSON, for keeping.
    ///
    /// # Errors
    /// None that is known: all values have a form in JSON.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(&Stored {
            schema: SCHEMA.to_owned(),
            next_id: self.next_id,
            entries: self.entries.clone(),
        })
    }

    /// Entries that are in force or should be, oldest first.
    pub fn open(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.ended.is_none())
    }

    /// Entries that have ended, oldest first.
    pub fn closed(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.ended.is_some())
    }

    /// The open entry of the device with this number.
    #[must_use]
    pub fn open_of(&self, number: DeviceNumber) -> Option<&Entry> {
        self.open().find(|entry| entry.number == number)
    }

    pub(crate) fn open_of_mut(&mut self, number: DeviceNumber) -> Option<&mut Entry> {
        let open = |entry: &&mut Entry| entry.ended.is_none() && entry.number == number;
        self.entries.iter_mut().find(open)
    }

    pub(crate) fn begin(
        &mut self,
        number: DeviceNumber,
        identity: Identity,
        original_kib: u64,
    ) -> &mut Entry {
        let at = self.entries.len();
        self.entries.push(Entry {
            id: self.next_id,
            number,
            identity,
            original_kib,
            steps: Vec::new(),
            undoing: false,
            ended: None,
        });
        self.next_id = self.next_id.saturating_add(1);
        &mut self.entries[at]
    }

    /// Forgets entries without steps, and of the closed ones those that are too many.
    pub(crate) fn tidy(&mut self) {
        self.entries.retain(|entry| !entry.steps.is_empty());
        let mut excess = self.closed().count().saturating_sub(CLOSED_MAX);
        self.entries.retain(|entry| {
            let goes = entry.ended.is_some() && excess > 0;
            excess -= usize::from(goes);
            !goes
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal() -> Journal {
        let mut journal = Journal::default();
        for minor in 0..3 {
            let identity = Identity {
                name: format!("sd{minor}"),
                ..Identity::default()
            };
            let entry = journal.begin(DeviceNumber { major: 8, minor }, identity, 128);
            entry.push(step(128, 512));
        }
        journal
    }

    fn step(from_kib: u64, to_kib: u64) -> Step {
        Step {
            from_kib,
            to_kib,
            reason: "as measured".to_owned(),
            origin: Origin::Advice,
            unix_s: 1_700_000_000,
            done: true,
        }
    }

    #[test]
    fn a_journal_is_read_as_it_was_written() {
        let journal = journal();
        let text = journal.to_json().unwrap();
        assert_eq!(Journal::from_json(&text).unwrap(), journal);
    }

    #[test]
    fn what_is_no_journal_is_refused() {
        let text = journal().to_json().unwrap();
        let other = text.replace("journal/1", "journal/2");
        for bad in ["", "[]", "{}", &text[..text.len() / 2], &other] {
            assert!(Journal::from_json(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_are_not_given_out_again() {
        let text = journal().to_json().unwrap();
        let text = text.replace("\"next_id\": 3", "\"next_id\": 0");
        let mut journal = Journal::from_json(&text).unwrap();
        let number = DeviceNumber { major: 9, minor: 0 };
        assert_eq!(journal.begin(number, Identity::default(), 0).id, 3);
    }

    #[test]
    fn history_and_steps_are_bounded_and_the_first_value_stays() {
        let mut journal = journal();
        for entry in &mut journal.entries {
            entry.ended = Some((Ending::RolledBack, 0));
        }
        for minor in 0..2 * CLOSED_MAX as u32 {
            let number = DeviceNumber { major: 9, minor };
            let entry = journal.begin(number, Identity::default(), 7);
            for at in 0..2 * STEPS_MAX as u64 {
                entry.push(step(at, at + 1));
            }
            entry.ended = (minor % 2 == 0).then_some((Ending::Gone, 0));
        }
        journal.tidy();
        assert_eq!(journal.closed().count(), CLOSED_MAX);
        assert_eq!(journal.open().count(), CLOSED_MAX);
        let last = journal.entries.last().unwrap();
        assert_eq!((last.steps.len(), last.original_kib), (STEPS_MAX, 7));
        assert_eq!(last.wanted_kib(), 2 * STEPS_MAX as u64);
    }

    #[test]
    fn a_standing_is_what_is_there_now() {
        let journal = journal();
        let entry = &journal.entries[1];
        let same = entry.identity.clone();
        let other = Identity::default();
        assert_eq!(entry.standing(Some((&same, 512))), Standing::Ours);
        let foreign = Standing::Foreign { now_kib: 64 };
        assert_eq!(entry.standing(Some((&same, 64))), foreign);
        let replaced = Standing::Gone { replaced: true };
        assert_eq!(entry.standing(Some((&other, 512))), replaced);
        let gone = Standing::Gone { replaced: false };
        assert_eq!(entry.standing(None), gone);
    }
}
