// SPDX-License-Identifier: MIT OR Apache-2.0
//! Subjects of accounts, and lines: sums of the accounts that aren't told apart.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use foreread_core::Device;

use crate::account::Counts;

/// The kind of readahead that brought pages in, by the origin of its window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Nothing: only waits.
    #[default]
    None,
    /// The first window of a stream: at the start of a file, behind the last read, or for a request
    /// larger than a window.
    Initial,
    /// The next window, when its marker was met.
    Subsequent,
    /// A stream that is known only by the cached pages around it.
    Context,
    /// Around a fault of a mapping.
    Around,
    /// Only the requested pages: no stream was found, or the file is to be read at random.
    Random,
    /// `posix_fadvise`, `readahead(2)`, `madvise`.
    Forced,
    /// The one page or folio that was missing, without readahead.
    Demand,
}

impl Kind {
    /// All of them, in order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::None,
        Self::Initial,
        Self::Subsequent,
        Self::Context,
        Self::Around,
        Self::Random,
        Self::Forced,
        Self::Demand,
    ];

    /// As it is printed.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Initial => "initial",
            Self::Subsequent => "subsequent",
            Self::Context => "context",
            Self::Around => "around",
            Self::Random => "random",
            Self::Forced => "forced",
            Self::Demand => "demand",
        }
    }
}

/// Properties that lines are told apart by; with none there is one line for the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct By {
    /// The device that a file is on.
    pub device: bool,
    /// The process that fetched the pages.
    pub process: bool,
    /// The file.
    pub file: bool,
    /// The cgroup of the process.
    pub cgroup: bool,
    /// The kind of readahead that brought them in.
    pub kind: bool,
}

/// A word that names nothing that lines are told apart by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByError(String);

impl fmt::Display for ByError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is none of machine, device, process, file, cgroup, kind",
            self.0
        )
    }
}

impl std::error::Error for ByError {}

impl FromStr for By {
    type Err = ByError;

    /// One word.
    fn from_str(word: &str) -> Result<Self, ByError> {
        let mut by = Self::default();
        match word {
            "machine" => {}
            "device" => by.device = true,
            "process" => by.process = true,
            "file" => by.file = true,
            "cgroup" => by.cgroup = true,
            "kind" => by.kind = true,
            _ => return Err(ByError(word.to_owned())),
        }
        Ok(by)
    }
}

impl By {
    /// Told apart by either.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            device: self.device | other.device,
            process: self.process | other.process,
            file: self.file | other.file,
            cgroup: self.cgroup | other.cgroup,
            kind: self.kind | other.kind,
        }
    }
}

/// A process. Its number may have been another's before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Process {
    /// Number.
    pub id: u32,
    /// When it started, on the kernel's clock.
    pub started_ns: u64,
}

/// A file, as its file system knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileOf {
    /// The file system.
    pub device: Device,
    /// Number of the inode.
    pub inode: u64,
    /// Tells apart those that had the same number.
    pub generation: u32,
}

/// The subject of an account or a line; `None` for properties that aren't told apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subject {
    /// The device.
    pub device: Option<Device>,
    /// The process.
    pub process: Option<Process>,
    /// The file.
    pub file: Option<FileOf>,
    /// The number of the cgroup.
    pub cgroup: Option<u64>,
    /// The kind of readahead that brought pages in.
    pub kind: Option<Kind>,
    /// Whether it stands for everything without room in the table of accounts: all else is `None`
    /// then.
    pub is_other: bool,
}

impl Subject {
    /// Only the properties that lines are told apart by.
    #[must_use]
    pub fn only(&self, by: By) -> Self {
        Self {
            device: self.device.filter(|_| by.device),
            process: self.process.filter(|_| by.process),
            file: self.file.filter(|_| by.file),
            cgroup: self.cgroup.filter(|_| by.cgroup),
            kind: self.kind.filter(|_| by.kind),
            is_other: self.is_other,
        }
    }
}

/// A line: its subject and its counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its subject.
    pub subject: Subject,
    /// Since the beginning.
    pub counts: Counts,
}

/// Adds accounts up by the properties in `by`. Without any, there is always exactly one line.
#[must_use]
pub fn lines(accounts: impl IntoIterator<Item = (Subject, Counts)>, by: By) -> Vec<Line> {
    let mut sums: BTreeMap<Subject, Counts> = BTreeMap::new();
    if by == By::default() {
        let sum = accounts.into_iter().map(|(_, counts)| counts).sum();
        sums.insert(Subject::default(), sum);
    } else {
        for (subject, counts) in accounts {
            *sums.entry(subject.only(by)).or_default() += counts;
        }
    }
    let line = |(subject, counts)| Line { subject, counts };
    sums.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::Counters;

    fn account(minor: u32, kind: Kind, fetched: u64) -> (Subject, Counts) {
        let subject = Subject {
            device: Some(Device { major: 8, minor }),
            kind: Some(kind),
            ..Subject::default()
        };
        let counters = Counters {
            fetched,
            ..Counters::default()
        };
        (subject, Counts::new(counters).unwrap())
    }

    #[test]
    fn accounts_that_are_not_told_apart_are_one_line() {
        let accounts = [
            account(0, Kind::Initial, 1),
            account(0, Kind::Forced, 2),
            account(1, Kind::Forced, 4),
        ];
        let fetched = |by: &str| -> Vec<u64> {
            let by = by
                .split(',')
                .fold(By::default(), |sum, word| sum.and(word.parse().unwrap()));
            let lines = lines(accounts, by);
            lines.iter().map(|l| l.counts.counters().fetched).collect()
        };
        assert_eq!(fetched("machine"), [7]);
        assert_eq!(fetched("device"), [3, 4]);
        assert_eq!(fetched("kind"), [1, 6]);
        assert_eq!(fetched("device,kind"), [1, 2, 4]);
        assert_eq!(lines([], By::default()).len(), 1);
    }

    #[test]
    fn an_unknown_word_is_named() {
        let error = "disk".parse::<By>().unwrap_err().to_string();
        assert!(
            error.contains("disk") && error.contains("cgroup"),
            "{error}"
        );
    }
}
