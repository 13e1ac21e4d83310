// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which bytes of a file are whose, when the threads of a program share it.

use super::setup::{Phase, ProgramSetup};

/// The part of one thread: every so-manieth piece, counted as if it lay together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    thread: u64,
    threads: u64,
    piece_bytes: u64,
    /// Length of all threads' parts together.
    length_bytes: u64,
}

impl Share {
    pub fn new(program: &ProgramSetup, phase: &Phase, length_bytes: u64, thread: u64) -> Self {
        let threads = program.threads.max(1);
        let request = phase.request_bytes.max(1);
        let piece_bytes = match program.piece_bytes {
            0 => length_bytes.div_ceil(threads).div_ceil(request).max(1) * request,
            bytes => bytes,
        };
        Self {
            thread,
            threads,
            piece_bytes,
            length_bytes,
        }
    }

    /// The thread's part of the length.
    pub fn length_bytes(&self) -> u64 {
        if self.threads == 1 {
            return self.length_bytes;
        }
        let whole = self.length_bytes / self.piece_bytes;
        let rest = self.length_bytes % self.piece_bytes;
        let pieces = (whole + self.threads - 1).saturating_sub(self.thread) / self.threads;
        let has_rest = whole % self.threads == self.thread;
        pieces * self.piece_bytes + if has_rest { rest } else { 0 }
    }

    /// From a place in the thread's part to one in the file, not beyond the end of the piece.
    pub fn place(&self, (at, bytes): (u64, u64)) -> (u64, u64) {
        if self.threads == 1 {
            return (at, bytes);
        }
        let (piece, within) = (at / self.piece_bytes, at % self.piece_bytes);
        let start = (piece * self.threads + self.thread) * self.piece_bytes;
        (start + within, bytes.min(self.piece_bytes - within))
    }
}
