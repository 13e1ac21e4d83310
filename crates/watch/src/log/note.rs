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
use crate::tally::Tally;
use crate::walk::Why;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The process.
    pub process: u32,
    /// Whether it began because the process missed data of files, and not only metadata.
    pub began_by_reads: bool,
    /// The event.
    pub what: What,
}

/// An event of a walk.
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
    /// The process is walked ahead of there already.
    Known,
    /// The process shares a walk from now on: its reads count as reads of that walk's process.
    Shares {
        /// The process with which the walk began.
        leader: u32,
    },
    /// The process walks below this directory.
    Begun {
        /// Its path.
        top: Vec<u8>,
        /// How it goes.
        order: Order,
    },
    /// Now it reads files, at which it only looked before.
    Reads,
    /// It goes in another order than was thought.
    Ordered {
        /// How it goes.
        order: Order,
    },
    /// It walks below this one further up.
    Raised {
        /// Its path.
        top: Vec<u8>,
        /// How it goes.
        order: Order,
    },
    /// Directories have been listed.
    Listed {
        /// Number of directories.
        directories: u64,
        /// Their entries.
        entries: u64,
        /// How long it took.
        took_ns: u64,
    },
    /// Files have been fetched.
    Fetched {
        /// How many were asked for.
        files: u64,
        /// Pages that came in.
        pages: u64,
        /// How many files may be ahead of the program.
        window_files: u64,
        /// How long it took.
        took_ns: u64,
    },
    /// A planner was called.
    Called(PlannerCall),
    /// Of a replay ahead of a program that has a profile.
    OfProfile(Box<OfProfile>),
    /// It is over.
    Ended {
        /// The reason.
        why: Why,
        /// Files and pages that the walk fetched, and their use.
        tally: Tally,
    },
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
    /// It isn't the profile's own, or nothing is to be done.
    Refused {
        /// The file of the profile.
        profile_file: PathBuf,
        /// Why, in a few words.
        why: String,
    },
    /// It is, and the rest of the profile is replayed.
    Matched {
        /// The file of the profile.
        profile_file: PathBuf,
        /// The paths by which it was known, in the order in which they were missed.
        files: Vec<Vec<u8>>,
        /// By chance it would look so once in two to the power of this.
        odds_bits: u32,
        /// The program, and those of its children that missed the files.
        processes: Vec<u32>,
    },
    /// A window of it was fetched.
    Fetched {
        /// Files asked for.
        files: u64,
        /// Pages that came in.
        pages: u64,
        /// How long it took.
        took_ns: u64,
    },
    /// It is over.
    Ended {
        /// The file of the profile.
        profile_file: PathBuf,
        /// The reason.
        why: rest::Why,
        /// Files and pages that the replay fetched, and their use.
        tally: Tally,
    },
}
