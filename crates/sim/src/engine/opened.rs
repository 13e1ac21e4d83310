// SPDX-License-Identifier: MIT OR Apache-2.0
//! Open files of programs. The threads of a program that are in the same pass through a file share
//! an open file. That is one `struct file` in the kernel, so one state of readahead and one
//! mapping.

use std::collections::BTreeMap;

use crate::cache::StreamId;
use crate::path::OpenFile;

/// Which of a program's files, in which pass through it. Programs come to these in order. Of a
/// trace: which file, and which of its open files.
pub(super) type Pass = (usize, u64);

/// The open files of one program.
#[derive(Clone, Debug, Default)]
pub(super) struct Opened {
    passes: BTreeMap<Pass, OpenFile>,
}

impl Opened {
    pub fn get(&self, pass: Pass) -> Option<&OpenFile> {
        self.passes.get(&pass)
    }

    pub fn get_mut(&mut self, pass: Pass) -> Option<&mut OpenFile> {
        self.passes.get_mut(&pass)
    }

    /// The stream of a file that was opened for another pass.
    pub fn stream_of(&self, file: usize) -> Option<StreamId> {
        let mut passes = self.passes.range((file, 0)..=(file, u64::MAX));
        passes.next().map(|(_, open)| open.stream)
    }

    pub fn insert(&mut self, pass: Pass, open: OpenFile) {
        self.passes.insert(pass, open);
    }

    pub fn remove(&mut self, pass: Pass) {
        self.passes.remove(&pass);
    }

    /// Closes files that no thread will use again.
    pub fn close_before(&mut self, pass: Pass) {
        while self
            .passes
            .first_key_value()
            .is_some_and(|(first, _)| *first < pass)
        {
            self.passes.pop_first();
        }
    }
}
