// SPDX-License-Identifier: MIT OR Apache-2.0
//! Settings of the [oracle](super::oracle)'s readahead.

/// The order in which threads get their pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turns {
    /// Those needed first, by the pace of each thread.
    ByNeed,
    /// Pages of the thread that costs a disk least in all, then those of the next one. As long as
    /// all threads wait for disks, this halves the total time that many of them wait.
    OneByOne,
}

/// How the oracle reads ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Foresight {
    /// Pages that are asked for together, at most: many where places matter, few where waiting
    /// for the first one does.
    pub batch_pages: u64,
    /// Pages that are asked for together at once when a thread finds one missing, at most, besides
    /// those of its access.
    pub miss_pages: u64,
    /// The order in which threads get their pages.
    pub turns: Turns,
}

impl Foresight {
    /// The settings that are tried; the run with the least stall counts.
    pub const ALL: [Self; 4] = [
        Self::new(16, 0, Turns::ByNeed),
        Self::new(64, 0, Turns::ByNeed),
        Self::new(1 << 14, 512, Turns::ByNeed),
        Self::new(64, 0, Turns::OneByOne),
    ];

    const fn new(batch_pages: u64, miss_pages: u64, turns: Turns) -> Self {
        Self {
            batch_pages,
            miss_pages,
            turns,
        }
    }
}
