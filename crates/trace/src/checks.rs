// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks for oddities of an access, in any format.

use crate::findings::{Findings, Place};
use crate::types::{Access, File, FileId, Kind, Source};

/// State with which accesses are compared.
#[derive(Clone, Debug)]
pub(crate) struct Checks {
    page_bytes: u64,
    last_ns: u64,
    /// Sizes by file; `u64::MAX` where not known.
    sizes_bytes: Vec<u64>,
    /// Whether the length of a read is the requested one, of which the end of a file may leave
    /// less.
    reads_ask: bool,
}

impl Checks {
    pub fn new(page_bytes: u32) -> Self {
        Self {
            page_bytes: u64::from(page_bytes.max(1)),
            last_ns: 0,
            sizes_bytes: Vec::new(),
            reads_ask: false,
        }
    }

    /// The same for a trace of this source.
    pub fn of(source: Source, page_bytes: u32) -> Self {
        Self {
            reads_ask: source == Source::Recorded,
            ..Self::new(page_bytes)
        }
    }

    /// A file was defined. Its id is within the limits.
    pub fn file(&mut self, id: FileId, file: &File) {
        let Some(size_bytes) = file.size_bytes else {
            return;
        };
        let at = id.0 as usize;
        if self.sizes_bytes.len() <= at {
            self.sizes_bytes.resize(at + 1, u64::MAX);
        }
        self.sizes_bytes[at] = size_bytes;
    }

    /// Counts the oddities of an access.
    #[inline]
    pub fn access(&mut self, access: &Access, place: Place, findings: &mut Findings) {
        if access.time_ns < self.last_ns {
            findings.time_back.add(place);
        }
        self.last_ns = access.time_ns;
        let size_bytes = self.sizes_bytes.get(access.file.0 as usize);
        if let Some(&size_bytes) = size_bytes
            && size_bytes != u64::MAX
            && access.kind.uses_pages()
        {
            // A mapping goes to the end of the last page.
            let pages_bytes = size_bytes.div_ceil(self.page_bytes);
            // Nor is a file as large at its first access as when it was written on.
            if self.reads_ask && access.kind == Kind::Read {
                return;
            }
            if access.end_bytes() > pages_bytes.saturating_mul(self.page_bytes) {
                findings.past_end.add(place);
            }
        }
    }
}
