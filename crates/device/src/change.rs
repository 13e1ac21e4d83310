// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changing settings, and changing them back. Each change is written down as meant, made, looked
//! at, and written down as made. After a kill in between, the next start finds out from the present
//! setting.

use crate::identity::{DeviceNumber, Identity};
use crate::journal::{Ending, Entry, Journal, Origin, Standing, Step};

/// The readahead settings of a machine.
pub trait Knobs {
    /// An open setting.
    type Knob: Knob;

    /// Opens the setting of the device that has this number now; `None` when there is none.
    ///
    /// # Errors
    /// When it is there and can't be opened.
    fn open(
        &mut self,
        number: DeviceNumber,
        access: Access,
    ) -> Result<Option<Self::Knob>, KnobError>;
}

/// The purpose for which a setting is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// To read the setting.
    Look,
    /// To change it.
    Change,
}

/// An open setting. It stays that of the device that it was opened of: when that vanishes, writing
/// fails, and never meets a successor of the same name.
pub trait Knob {
    /// Which device has it.
    fn identity(&self) -> &Identity;

    /// The current value, in KiB.
    ///
    /// # Errors
    /// When it can't be read.
    fn read_kib(&mut self) -> Result<u64, KnobError>;

    /// Sets it, in KiB.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn write_kib(&mut self, kib: u64) -> Result<(), KnobError>;
}

/// The reason why a setting can't be opened: what failed, why, and what to do, in one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct KnobError(pub String);

/// Where the journal is kept.
pub trait Keeper {
    /// Keeps it, whole or not at all.
    ///
    /// # Errors
    /// When it can't be kept; then the old one is still there.
    fn keep(&mut self, journal: &Journal) -> Result<(), KeepError>;
}

/// Why a journal can't be kept, in one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct KeepError(pub String);

/// A value that a setting is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// The device that has the setting.
    pub number: DeviceNumber,
    /// Identity of the device that is meant.
    pub identity: Identity,
    /// In KiB, of whole pages.
    pub kib: u64,
    /// Why, in words.
    pub reason: String,
    /// The origin of the wish.
    pub origin: Origin,
    /// Whether to change a value that somebody else has set since.
    pub take_over: bool,
}

/// The outcome of a wish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied {
    /// Changed, from and to KiB; the kernel rounds to its pages.
    Changed {
        /// Before.
        from_kib: u64,
        /// The value now, in KiB.
        to_kib: u64,
    },
    /// It has that value already.
    AlreadySo,
    /// Somebody else has set this many KiB since, and that stays.
    Foreign {
        /// The value now, in KiB.
        now_kib: u64,
    },
    /// A person has named a size, which advice doesn't change.
    Manual {
        /// The value now, in KiB.
        now_kib: u64,
    },
    /// There is no such device any more, or another one in its place.
    Gone {
        /// Whether there is another one.
        replaced: bool,
    },
    /// The setting could not be changed.
    Failed(KnobError),
}

/// The outcome of a rollback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RolledBack {
    /// The first value is back, from and to KiB.
    Restored {
        /// Before.
        from_kib: u64,
        /// The value now, in KiB.
        to_kib: u64,
    },
    /// Somebody else has set this many KiB since, and that stays.
    Foreign {
        /// The value now, in KiB.
        now_kib: u64,
    },
    /// There is no such device any more, or another one in its place: nothing to undo.
    Gone {
        /// Whether there is another one.
        replaced: bool,
    },
    /// The setting could not be changed; it stays in the journal.
    Failed(KnobError),
}

/// Finds the state of changes and rollbacks that were cut short, from the present settings.
pub fn recover(journal: &mut Journal, knobs: &mut impl Knobs, unix_s: u64) {
    let cut_short = |entry: &&Entry| entry.undoing || entry.steps.iter().any(|step| !step.done);
    let numbers: Vec<DeviceNumber> = journal
        .open()
        .filter(cut_short)
        .map(|entry| entry.number)
        .collect();
    for number in numbers {
        // A device that can't be looked at now is looked at next time.
        let Ok(present) = look(knobs, number) else {
            continue;
        };
        let Some(entry) = journal.open_of_mut(number) else {
            continue;
        };
        let now_kib = match &present {
            Some((identity, kib)) if identity.is_same_attachment(&entry.identity) => *kib,
            _ => {
                entry.ended = Some((Ending::Gone, unix_s));
                continue;
            }
        };
        if entry.undoing {
            entry.undoing = false;
            if now_kib == entry.original_kib {
                entry.ended = Some((Ending::RolledBack, unix_s));
            }
            continue;
        }
        // Only the last can be one that was meant: they are made one after the other.
        if let Some(step) = entry.steps.last_mut() {
            let never_made = now_kib == step.from_kib && step.from_kib != step.to_kib;
            step.done = true;
            if never_made {
                entry.steps.pop();
            }
        }
    }
    journal.tidy();
}

/// Carries out wishes, and writes down the changes. The answers are in the order of the wishes.
///
/// # Errors
/// When the journal can't be kept: before anything was changed, or after all was, when the next
/// start finds out.
pub fn apply(
    journal: &mut Journal,
    knobs: &mut impl Knobs,
    keeper: &mut impl Keeper,
    wishes: &[Wish],
    unix_s: u64,
) -> Result<Vec<Applied>, KeepError> {
    let mut kept = journal.clone();
    recover(journal, knobs, unix_s);
    let mut prepared = Vec::with_capacity(wishes.len());
    for wish in wishes {
        prepared.push(prepare(journal, knobs, wish, unix_s));
    }
    keep_news(journal, &mut kept, keeper)?;
    let answers = wishes.iter().zip(prepared).map(|(wish, prepared)| {
        prepared.map_or_else(
            |answer| answer,
            |(knob, from_kib)| make(journal, wish, knob, from_kib),
        )
    });
    let answers = answers.collect();
    journal.tidy();
    keep_news(journal, &mut kept, keeper)?;
    Ok(answers)
}

/// Keeps a journal that differs from what was last kept.
fn keep_news(
    journal: &Journal,
    kept: &mut Journal,
    keeper: &mut impl Keeper,
) -> Result<(), KeepError> {
    if journal != kept {
        keeper.keep(journal)?;
        kept.clone_from(journal);
    }
    Ok(())
}

/// Writes a wish down as meant, or says why it can't or need not come true.
fn prepare<K: Knobs>(
    journal: &mut Journal,
    knobs: &mut K,
    wish: &Wish,
    unix_s: u64,
) -> Result<(K::Knob, u64), Applied> {
    let mut knob = knobs
        .open(wish.number, Access::Change)
        .map_err(Applied::Failed)?
        .ok_or(Applied::Gone { replaced: false })?;
    if !knob.identity().is_same_attachment(&wish.identity) {
        return Err(Applied::Gone { replaced: true });
    }
    let now_kib = knob.read_kib().map_err(Applied::Failed)?;
    if let Some(entry) = journal.open_of_mut(wish.number) {
        let ending = match entry.standing(Some((knob.identity(), now_kib))) {
            Standing::Manual if wish.origin != Origin::Person => {
                return Err(Applied::Manual { now_kib });
            }
            Standing::Foreign { now_kib } if !wish.take_over => {
                return Err(Applied::Foreign { now_kib });
            }
            Standing::Ours | Standing::Manual => None,
            // For the next change, the foreign value is the original one.
            Standing::Foreign { .. } => Some(Ending::LeftToOthers),
            Standing::Gone { .. } => Some(Ending::Gone),
        };
        entry.ended = ending.map(|ending| (ending, unix_s));
    }
    let meant = Step {
        from_kib: now_kib,
        to_kib: wish.kib,
        reason: wish.reason.clone(),
        origin: wish.origin,
        unix_s,
        done: false,
    };
    match journal.open_of_mut(wish.number) {
        Some(entry) if now_kib == wish.kib => {
            // A person who names the advised size makes it theirs; and the other way round.
            if entry.origin() != Some(wish.origin) {
                entry.push(Step {
                    done: true,
                    ..meant
                });
            }
            return Err(Applied::AlreadySo);
        }
        Some(entry) => entry.push(meant),
        None if now_kib == wish.kib => return Err(Applied::AlreadySo),
        None => journal
            .begin(wish.number, wish.identity.clone(), now_kib)
            .push(meant),
    }
    Ok((knob, now_kib))
}

/// Makes a change that was written down, and notes its outcome in the journal.
fn make(journal: &mut Journal, wish: &Wish, mut knob: impl Knob, from_kib: u64) -> Applied {
    let written = knob
        .write_kib(wish.kib)
        .map(|()| knob.read_kib().unwrap_or(wish.kib));
    let steps = journal
        .open_of_mut(wish.number)
        .map(|entry| &mut entry.steps);
    match (written, steps) {
        (Ok(to_kib), steps) => {
            if let Some(step) = steps.and_then(|steps| steps.last_mut()) {
                step.done = true;
                step.to_kib = to_kib;
            }
            Applied::Changed { from_kib, to_kib }
        }
        (Err(error), steps) => {
            steps.and_then(Vec::pop);
            Applied::Failed(error)
        }
    }
}

/// Restores the first values of these entries, and writes that down. The answers are in the order
/// of the numbers; `None` for a number without an open entry.
///
/// # Errors
/// As [`apply`].
pub fn roll_back(
    journal: &mut Journal,
    knobs: &mut impl Knobs,
    keeper: &mut impl Keeper,
    numbers: &[DeviceNumber],
    unix_s: u64,
) -> Result<Vec<Option<RolledBack>>, KeepError> {
    let mut kept = journal.clone();
    recover(journal, knobs, unix_s);
    let mut prepared = Vec::with_capacity(numbers.len());
    for number in numbers {
        prepared.push(journal.open_of_mut(*number).map(|entry| {
            let prepared = prepare_undo(knobs, entry);
            entry.undoing = prepared.is_ok();
            prepared
        }));
    }
    keep_news(journal, &mut kept, keeper)?;
    let mut answers = Vec::with_capacity(numbers.len());
    for (number, prepared) in numbers.iter().zip(prepared) {
        let entry = journal.open_of_mut(*number);
        answers.push(entry.zip(prepared).map(|(entry, prepared)| {
            let answer = prepared.map_or_else(|answer| answer, |knob| undo(entry, knob));
            entry.undoing = false;
            let ending = match answer {
                RolledBack::Restored { .. } => Some(Ending::RolledBack),
                RolledBack::Foreign { .. } => Some(Ending::LeftToOthers),
                RolledBack::Gone { .. } => Some(Ending::Gone),
                RolledBack::Failed(_) => None,
            };
            entry.ended = ending.map(|ending| (ending, unix_s));
            answer
        }));
    }
    journal.tidy();
    keep_news(journal, &mut kept, keeper)?;
    Ok(answers)
}

fn prepare_undo<K: Knobs>(knobs: &mut K, entry: &Entry) -> Result<(K::Knob, u64), RolledBack> {
    let mut knob = knobs
        .open(entry.number, Access::Change)
        .map_err(RolledBack::Failed)?
        .ok_or(RolledBack::Gone { replaced: false })?;
    let now_kib = knob.read_kib().map_err(RolledBack::Failed)?;
    match entry.standing(Some((knob.identity(), now_kib))) {
        Standing::Ours | Standing::Manual => Ok((knob, now_kib)),
        Standing::Foreign { now_kib } => Err(RolledBack::Foreign { now_kib }),
        Standing::Gone { replaced } => Err(RolledBack::Gone { replaced }),
    }
}

fn undo(entry: &Entry, (mut knob, from_kib): (impl Knob, u64)) -> RolledBack {
    match knob.write_kib(entry.original_kib) {
        Ok(()) => RolledBack::Restored {
            from_kib,
            to_kib: knob.read_kib().unwrap_or(entry.original_kib),
        },
        Err(error) => RolledBack::Failed(error),
    }
}

/// The device that has a number now, and its value in KiB.
///
/// # Errors
/// When the device is there and can't be looked at.
pub fn look(
    knobs: &mut impl Knobs,
    number: DeviceNumber,
) -> Result<Option<(Identity, u64)>, KnobError> {
    let Some(mut knob) = knobs.open(number, Access::Look)? else {
        return Ok(None);
    };
    let kib = knob.read_kib()?;
    Ok(Some((knob.identity().clone(), kib)))
}

#[cfg(test)]
mod tests;
