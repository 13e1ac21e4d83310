// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interface of planners to the log: a sequence of calls, each with its answer.

use std::hash::Hash;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Decides what to fetch, list or wait for. Its answers follow from its calls alone: it has no
/// clock and reads no file.
///
/// The log and the [replay](super::replay) know planners by this trait only. A new planner needs
/// nothing but this, and an entry in `Replay::default`.
pub trait Planner: Sized {
    /// A call: its arguments and its answer.
    type Call: Clone + PartialEq + Serialize + DeserializeOwned;
    /// Identifies one of several planners of this kind.
    type Key: Eq + Hash;

    /// The name of this kind of planner, in the plural, such as `walks`.
    const NAME: &'static str;
    /// The values of `what` in the lines of its calls.
    const WHATS: &'static [&'static str];
    /// Names, singular and plural, of the things that a replay counts in the calls.
    const COUNTED: &'static [[&'static str; 2]];

    /// The number of a call, from 1, in the order of the planner's calls. A missing number shows
    /// that a call was lost.
    fn number(call: &Self::Call) -> u64;

    /// The planner of this kind to which the call belongs. `process` is that of the line.
    fn key(process: u32, call: &Self::Call) -> Self::Key;

    /// A key in words, such as `process 7, walk 1`.
    fn words(key: &Self::Key) -> String;

    /// A planner in its state before its first call, which is this one; `None` if no planner begins
    /// with such a call.
    fn begin(call: &Self::Call) -> Option<Self>;

    /// Makes a call again. Returns it with the present answer; `None` if it has no such answer.
    fn again(&mut self, call: &Self::Call) -> Option<Self::Call>;

    /// Adds a call to the counts of [`Self::COUNTED`].
    fn count(call: &Self::Call, counts: &mut [u64]);
}
