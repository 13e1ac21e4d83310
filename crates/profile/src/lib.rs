// SPDX-License-Identifier: MIT OR Apache-2.0
//! Profiles of the files that a program reads: build, merge, age, order, validate. No I/O.
//!
//! * [`builder`] makes a [`Profile`] from the events of a recorder;
//! * [`access`] reads it: paths, ranges, children;
//! * [`encode()`] and [`decode()`] turn it into bytes and back; [`validate`] is the contract
//!   between them and all other code;
//! * [`merge()`] ages it with each further run;
//! * [`need`] puts it in order of need; [`benefit`] judges whether replaying it pays.
#![forbid(unsafe_code)]

pub mod access;
pub mod benefit;
pub mod builder;
pub mod decode;
pub mod devices;
pub mod dump;
pub mod encode;
mod format;
pub mod limits;
pub mod merge;
pub mod need;
mod overlap;
pub mod path_tree;
mod ranges;
pub mod types;
mod units;
mod unused;
pub mod validate;

pub use builder::{PathError, ProfileBuilder};
pub use decode::{DecodeError, decode};
pub use dump::dump;
pub use encode::encode;
pub use merge::{Observation, merge, merge_profiles, within};
pub use overlap::is_another;
pub use path_tree::PathTree;
pub use ranges::need_bucket;
pub use types::*;
pub use unused::PagesOf;
pub use validate::Invalid;
