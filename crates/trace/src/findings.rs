// SPDX-License-Identifier: MIT OR Apache-2.0
//! Findings of a reader that a person should know, each reported once with a count.

use std::fmt;

use crate::types::LeftOut;

/// Bad records that are kept with their place; more are only counted.
const BAD_RECORDS_KEPT: usize = 5;

/// Where in the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A line, from 1.
    Line(u64),
    /// A byte, from 0. Of compressed input, the byte after unpacking.
    Byte(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(f, "line {line}"),
            Self::Byte(byte) => write!(f, "byte {byte}"),
        }
    }
}

/// A record that could not be understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRecord {
    /// Its place.
    pub place: Place,
    /// The error in it, as a clause.
    pub why: &'static str,
}

/// Counts, by kind, of data that is not in the trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOutCounts([u64; LeftOut::ALL.len()]);

impl LeftOutCounts {
    /// Counts `count` more.
    pub fn add(&mut self, what: LeftOut, count: u64) {
        let counted = &mut self.0[what as usize];
        *counted = counted.saturating_add(count);
    }

    /// The number of this kind.
    #[must_use]
    pub fn get(&self, what: LeftOut) -> u64 {
        self.0[what as usize]
    }

    /// Those that are not 0.
    pub fn iter(&self) -> impl Iterator<Item = (LeftOut, u64)> {
        let all = LeftOut::ALL.into_iter();
        all.map(|what| (what, self.get(what)))
            .filter(|(_, count)| *count > 0)
    }
}

/// Something that happened a number of times, and the place of the first time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Number of times.
    pub count: u64,
    /// Where first, if at all.
    pub first: Option<Place>,
}

impl Counted {
    /// Once more.
    pub fn add(&mut self, place: Place) {
        self.count += 1;
        self.first.get_or_insert(place);
    }
}

/// Findings of a reader.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Records that could not be understood.
    pub bad_records: u64,
    /// The first of them.
    pub bad_records_first: Vec<BadRecord>,
    /// Accesses whose time is before that of the one before them.
    pub time_back: Counted,
    /// Reads past the end of a file.
    pub past_end: Counted,
    /// Accesses of files or threads that are not defined.
    pub undefined: Counted,
    /// Accesses of files or threads beyond the limits of a trace.
    pub over_limits: u64,
    /// The input ended in the middle of something; everything before it was read.
    pub cut_off: Option<Place>,
    /// Events that the trace does not hold.
    pub left_out: LeftOutCounts,
}

impl Findings {
    /// A record could not be understood.
    pub fn bad_record(&mut self, place: Place, why: &'static str) {
        self.bad_records += 1;
        self.left_out.add(LeftOut::BadRecords, 1);
        if self.bad_records_first.len() < BAD_RECORDS_KEPT {
            self.bad_records_first.push(BadRecord { place, why });
        }
    }

    /// An access can't be in the trace because its file or thread can't.
    pub fn over_limit(&mut self) {
        self.over_limits += 1;
        self.left_out.add(LeftOut::OverLimits, 1);
    }

    /// Whether all of the input could be read.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.bad_records == 0
            && self.cut_off.is_none()
            && self.undefined.count == 0
            && self.over_limits == 0
    }
}
