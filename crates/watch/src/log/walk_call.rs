// SPDX-License-Identifier: MIT OR Apache-2.0
//! Logged calls of a walk, and their replay.
//!
//! The answers of a [`Walk`] follow from its calls alone: the same calls in the same order give the
//! same answers.

use serde::{Deserialize, Serialize};

use super::long::fnv1a;
use super::planner::Planner;
use super::text::{above, above_or_none, bytes, bytes_list, lists, numbers, small};
use crate::order::{Lists, Order};
use crate::walk::{Above, Decision, FileToFetch, Met, Walk, Why};

/// A call of a walk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename = "walk")]
pub struct WalkCall {
    /// Number of the walk among those of the process.
    pub walk: u64,
    /// Number from 1, in the order of the walk's calls. A gap in the numbers is a lost call.
    pub number: u64,
    /// The call and its answer.
    #[serde(flatten)]
    pub what: WalkCalled,
}

/// A call of a walk: its arguments and its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "call", rename_all = "snake_case")]
pub enum WalkCalled {
    /// The walk begins.
    Begin {
        /// The top: a directory, by its path from the root of the file system.
        #[serde(with = "bytes")]
        top: Vec<u8>,
        /// The order of the walk.
        order: Order,
        /// Most bytes ahead of its program.
        budget_bytes: u64,
        /// Whether its program reads files, and doesn't only look them up.
        reads: bool,
    },
    /// The walk decided on the next action.
    Decide(Answer),
    /// Directories were listed.
    Listed {
        /// Directories that were tried.
        #[serde(with = "bytes_list")]
        tried: Vec<Vec<u8>>,
        /// The lists that were read.
        #[serde(with = "lists")]
        lists: Lists,
    },
    /// Files are being fetched.
    Fetching {
        /// Number of files, the first ones of the last decision.
        #[serde(with = "small")]
        files: usize,
    },
    /// Files have been fetched.
    Fetched {
        /// Number of files.
        #[serde(with = "small")]
        files: u64,
        /// Pages of 4 KiB that came in.
        #[serde(with = "small")]
        pages: u64,
    },
    /// Fetching has been stopped before its end.
    StoppedFetching {
        /// Number of files to be fetched, the first ones of the last decision.
        #[serde(with = "small")]
        files: usize,
        /// Pages of 4 KiB that came in.
        #[serde(with = "small")]
        pages: u64,
    },
    /// The program has read a file from memory.
    Hit {
        /// Its inode number.
        inode: u64,
        /// Its location relative to the walk.
        met: Met,
    },
    /// The program has read a file that was not in memory.
    Missed {
        /// Its directory.
        #[serde(with = "bytes")]
        directory: Vec<u8>,
        /// Its inode number.
        inode: u64,
        /// Its location relative to the walk.
        met: Met,
    },
    /// The program has looked a file up.
    Looked {
        /// Its inode number.
        inode: u64,
        /// Whether it may have waited for metadata.
        #[serde(rename = "late")]
        is_late: bool,
        /// Its location relative to the walk.
        met: Met,
    },
    /// The program waits for metadata.
    #[serde(rename = "waits")]
    WaitsIn {
        /// The directory of the file or entry that is waited for.
        #[serde(with = "bytes")]
        directory: Vec<u8>,
        /// Its location relative to the walk.
        met: Met,
    },
    /// The walk reported a jump of the program.
    Jumped {
        /// The common ancestor, and the names below it before and after the jump.
        #[serde(with = "above")]
        above: Above,
    },
    /// The walk was asked whether it may rise, and how far.
    Rise {
        /// The directory in which the program reads.
        #[serde(with = "bytes")]
        directory: Vec<u8>,
        /// The higher top, if it may rise.
        #[serde(with = "above_or_none", default)]
        above: Option<Above>,
    },
    /// The walk continues further up, or in another order.
    Raise {
        /// The new top.
        #[serde(with = "bytes")]
        top: Vec<u8>,
        /// The order of the walk.
        order: Order,
    },
    /// The walk is ended.
    End {
        /// The reason.
        why: Why,
    },
}

/// A [`Decision`] without the parts that follow from the lists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum Answer {
    /// List these directories.
    List {
        /// Paths from the root of the file system.
        #[serde(with = "bytes_list")]
        directories: Vec<Vec<u8>>,
    },
    /// Fetch these files.
    Fetch {
        /// Their inode numbers, in order of need.
        #[serde(with = "numbers")]
        inodes: Vec<u64>,
        /// Hash of their directories and names.
        names_hash: u64,
        /// Most bytes.
        budget_bytes: u64,
    },
    /// Wait for the program.
    Wait,
    /// The walk has ended.
    End {
        /// The reason.
        why: Why,
    },
}

impl Answer {
    /// The part of a decision that is logged.
    #[must_use]
    pub fn of(decision: &Decision) -> Self {
        match decision {
            Decision::List(directories) => Self::List {
                directories: directories.clone(),
            },
            Decision::Fetch(files, budget_bytes) => Self::Fetch {
                inodes: files.iter().map(|file| file.inode).collect(),
                names_hash: names_hash(files),
                budget_bytes: *budget_bytes,
            },
            Decision::Wait => Self::Wait,
            Decision::End(why) => Self::End { why: *why },
        }
    }
}

/// Hash of the files' directories and names. Each is ended by a NUL byte, which no name has.
fn names_hash(files: &[FileToFetch]) -> u64 {
    let texts = files.iter().flat_map(|f| [&*f.directory, &f.name]);
    fnv1a(texts.flat_map(|text| text.iter().chain(&[0]).copied()))
}

/// Replays the logged calls of a walk.
#[derive(Debug)]
pub struct WalkAgain {
    walk: Walk,
    /// Files of the last decision.
    files: Vec<FileToFetch>,
}

impl WalkAgain {
    /// Begins with the first call; `None` if that is not a beginning.
    #[must_use]
    pub fn begin(first: &WalkCalled) -> Option<Self> {
        let WalkCalled::Begin {
            top,
            order,
            budget_bytes,
            reads,
        } = first
        else {
            return None;
        };
        Some(Self {
            walk: match reads {
                true => Walk::new(top, *order, *budget_bytes),
                false => Walk::of_looks(top, *order, *budget_bytes),
            },
            files: Vec::new(),
        })
    }

    /// The walk as it is now.
    #[must_use]
    pub fn walk(&self) -> &Walk {
        &self.walk
    }

    /// Makes a call, and returns it with the present answer. A second beginning changes nothing.
    /// `None` if the walk has no such answer: it finds no jump.
    pub fn make(&mut self, call: &WalkCalled) -> Option<WalkCalled> {
        let walk = &mut self.walk;
        let mut made = call.clone();
        match &mut made {
            WalkCalled::Begin { .. } => {}
            WalkCalled::Decide(answer) => {
                let decision = walk.decide();
                *answer = Answer::of(&decision);
                if let Decision::Fetch(files, _) = decision {
                    self.files = files;
                }
            }
            WalkCalled::Listed { tried, lists } => {
                walk.listed(tried, &std::mem::take(lists).into_iter().collect());
                return Some(call.clone());
            }
            WalkCalled::Fetching { files } => {
                *files = (*files).min(self.files.len());
                walk.fetching(&self.files[..*files]);
            }
            WalkCalled::Fetched { files, pages } => walk.fetched(*files, *pages),
            WalkCalled::StoppedFetching { files, pages } => {
                *files = (*files).min(self.files.len());
                walk.stopped_fetching(&self.files[..*files], *pages);
            }
            WalkCalled::Hit { inode, met } => *met = walk.hit(*inode),
            WalkCalled::Missed {
                directory,
                inode,
                met,
            } => *met = walk.missed(directory, *inode),
            WalkCalled::Looked {
                inode,
                is_late,
                met,
            } => *met = walk.looked(*inode, *is_late),
            WalkCalled::WaitsIn { directory, met } => *met = walk.waits_in(directory),
            WalkCalled::Jumped { above } => *above = walk.jumped()?,
            WalkCalled::Rise { directory, above } => *above = walk.rise(directory),
            WalkCalled::Raise { top, order } => walk.raise(top, *order),
            WalkCalled::End { why } => walk.end_for(*why),
        }
        Some(made)
    }
}

impl Planner for WalkAgain {
    type Call = WalkCall;
    /// The process, and the number of its walk.
    type Key = (u32, u64);

    const NAME: &'static str = "walks";
    const WHATS: &'static [&'static str] = &["walk"];
    const COUNTED: &'static [[&'static str; 2]] = &[["walk", "walks"], ["decision", "decisions"]];

    fn number(call: &WalkCall) -> u64 {
        call.number
    }

    fn key(process: u32, call: &WalkCall) -> Self::Key {
        (process, call.walk)
    }

    fn words((process, walk): &Self::Key) -> String {
        format!("process {process}, walk {walk}")
    }

    fn begin(call: &WalkCall) -> Option<Self> {
        Self::begin(&call.what)
    }

    fn again(&mut self, call: &WalkCall) -> Option<WalkCall> {
        Some(WalkCall {
            what: self.make(&call.what)?,
            ..*call
        })
    }

    fn count(call: &WalkCall, counts: &mut [u64]) {
        let is = [
            matches!(call.what, WalkCalled::Begin { .. }),
            matches!(call.what, WalkCalled::Decide(_)),
        ];
        counts
            .iter_mut()
            .zip(is)
            .for_each(|(count, is)| *count += u64::from(is));
    }
}
