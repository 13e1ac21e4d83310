// SPDX-License-Identifier: MIT OR Apache-2.0
//! The means of a worker: its threads and its rings, kept from one plan to the next.

use foreread_linux_helper::Asker;
use foreread_prefetch::ext4::Extent;

use super::crew::Crew;
use super::data::Token;
use super::pump::Reader;

/// See the [module](self).
pub(super) struct Means {
    /// Asks a file system that may never answer.
    pub asker: Option<Asker>,
    pub crew: Crew,
    pub data: Option<Reader<Token>>,
    pub metadata: Option<Reader<Extent>>,
}
