// SPDX-License-Identifier: MIT OR Apache-2.0
//! What comes of a call of a log that is made again: the same, something else, or that one is lost.

/// What came of a call.
pub(super) enum Made {
    /// What the log says.
    Same,
    /// Something else.
    Other(Differs),
    /// It isn't the one that is due, which was lost.
    Lost(Lost),
}

/// A decision that differs. As sentences without the one who decides.
pub(super) struct Differs {
    /// Which, such as `call 7, page 3`.
    pub which: String,
    /// Its number.
    pub number: u64,
    /// What the log says that it was.
    pub logged: String,
    /// What it is now.
    pub made: String,
}

/// The first call that is not in the log, though a later one is.
pub(super) struct Lost {
    /// Which, such as `call 7`.
    pub which: String,
    /// Its number.
    pub number: u64,
}
