// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decisions and their results, for a log.

use std::path::PathBuf;

use serde::Serialize;

use super::detect_call::DetectCall;
use super::rest_call::RestCall;
use super::stream_call::Call;
use super::walk_call::WalkCall;
use crate::order::Order;
use crate::rest;
use crate::saved::streams::StreamsSaved;
use crate::saved::{Saved, SavedSum};
use crate::skipped::Skipped;
use crate::tally::Tally;
use crate::walk::Why;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The process.
    pub process: u32,
    /// Whether it began because the process missed data of files, and not only metadata.
    pub began_by_reads: bool,
    /// The user who may be told, because the process was wholly this user's when this happened;
    /// `None` if only root may.
    pub owner: Option<u32>,
    /// The event.
    pub what: What,
}

/// An event of a planner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Files of this directory were missed, but in no order.
    Refused {
        /// Its path.
        directory: Vec<u8>,
    },
    /// The accesses in this directory are in order, but too few to decide.
    TooEarly {
        /// Its path.
        directory: Vec<u8>,
    },
    /// Another walk ahead of the process has this directory already.
    Known,
    /// The process shares a walk from now on: its reads count as reads of that walk's process.
    Shares {
        /// The process with which the walk began.
        leader: u32,
    },
    /// Nothing is fetched for the process, or no more.
    Skipped {
        /// The directory in which it would begin; empty later on.
        directory: Vec<u8>,
        /// The reason.
        why: Skipped,
    },
    /// Files and directories were left out, because the process may not read them itself.
    Withheld {
        /// Number of files.
        files: u64,
        /// Number of directories.
        directories: u64,
    },
    /// The process walks below this directory.
    Begun {
        /// Its path.
        top: Vec<u8>,
        /// The order of the walk.
        order: Order,
    },
    /// The process now reads files. Before, it only looked them up.
    Reads,
    /// The walk changes to another order.
    Ordered {
        /// The order of the walk.
        order: Order,
    },
    /// The walk continues below this directory, further up.
    Raised {
        /// Its path.
        top: Vec<u8>,
        /// The order of the walk.
        order: Order,
    },
    /// Directories have been listed.
    Listed {
        /// Number of directories.
        directories: u64,
        /// Their entries.
        entries: u64,
        /// Duration.
        took_ns: u64,
    },
    /// Files have been fetched.
    Fetched {
        /// Number of files that were requested.
        files: u64,
        /// Pages that came in.
        pages: u64,
        /// Number of files that may be ahead of the program.
        window_files: u64,
        /// Duration.
        took_ns: u64,
    },
    /// The time that a walk or a replay has saved its program so far.
    Saved(Saved),
    /// A process is read ahead of in large files.
    Streamed(Box<Streamed>),
    /// A planner was called.
    Called(PlannerCall),
    /// An event of a profile replay.
    OfProfile(Box<OfProfile>),
    /// The walk has ended.
    Ended {
        /// The reason.
        why: Why,
        /// Files and pages that the walk fetched, and their use.
        tally: Tally,
    },
}

/// The large files of a process that is read ahead of: sums until it paused or ended, or so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Streamed {
    /// The path of the last of these files.
    pub file: Vec<u8>,
    /// Pages that it found in memory, or on their way.
    pub found_pages: u64,
    /// Pages that were fetched for it.
    pub fetched_pages: u64,
    /// Whether it has paused or ended: these are all of them.
    pub is_over: bool,
    /// `None` if too little is known.
    pub saved: Option<StreamsSaved>,
}

impl Streamed {
    /// The time saved, as a part of a sum.
    #[must_use]
    pub fn saved_sum(&self) -> SavedSum {
        SavedSum::of_streams(self.saved.as_ref(), self.found_pages)
    }
}

/// A call of any planner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum PlannerCall {
    /// A call of the policy of streams.
    Stream(Box<Call>),
    /// A call of a walk.
    Walk(Box<WalkCall>),
    /// A call of the detectors of walks.
    Detector(Box<DetectCall>),
    /// A call of the replay of a profile.
    Rest(Box<RestCall>),
}

/// An event of a program that follows a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OfProfile {
    /// The program isn't that of the profile, or needs no replay.
    Refused {
        /// The file of the profile.
        profile_file: PathBuf,
        /// The reason in a few words.
        why: String,
    },
    /// The program is that of the profile, and the rest of the profile is replayed.
    Matched {
        /// The file of the profile.
        profile_file: PathBuf,
        /// The paths by which it was matched, in the order in which they were missed.
        files: Vec<Vec<u8>>,
        /// Probability of a match by chance: 1 in 2^`odds_bits`.
        odds_bits: u32,
        /// The program, and those of its children that missed the files.
        processes: Vec<u32>,
    },
    /// A window of the profile was fetched.
    Fetched {
        /// Number of files that were requested.
        files: u64,
        /// Pages that came in.
        pages: u64,
        /// Duration.
        took_ns: u64,
    },
    /// The replay has ended.
    Ended {
        /// The file of the profile.
        profile_file: PathBuf,
        /// The reason.
        why: rest::Why,
        /// Files and pages that the replay fetched, and their use.
        tally: Tally,
    },
}
