// SPDX-License-Identifier: MIT OR Apache-2.0
//! The index: where blocks are, which times they hold, and which hold definitions.

use foreread_core::bytes::{Cursor, Fault, TOO_BIG, put_varint};

use super::format::SPANS_MAX;

/// Blocks that stand one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Where the first of them starts in the file.
    pub at: u64,
    /// Number of blocks.
    pub blocks: u32,
    /// Number of blocks that hold definitions.
    pub definition_blocks: u32,
    /// Accesses and ends of threads in them.
    pub records: u64,
    /// Earliest time in them; `u64::MAX` when there is none.
    pub first_ns: u64,
    /// Latest time in them.
    pub last_ns: u64,
}

impl Span {
    /// Whether it can hold accesses of these times, both included.
    #[must_use]
    pub const fn overlaps(&self, from_ns: u64, to_ns: u64) -> bool {
        self.records > 0 && self.first_ns <= to_ns && self.last_ns >= from_ns
    }

    fn joined(self, next: Self) -> Self {
        Self {
            at: self.at,
            blocks: self.blocks.saturating_add(next.blocks),
            definition_blocks: self
                .definition_blocks
                .saturating_add(next.definition_blocks),
            records: self.records.saturating_add(next.records),
            first_ns: self.first_ns.min(next.first_ns),
            last_ns: self.last_ns.max(next.last_ns),
        }
    }
}

/// All blocks of a trace, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Index {
    /// They are at most 32,768: of longer traces, each holds several blocks.
    pub spans: Vec<Span>,
    /// Blocks that a span gets before the next one begins.
    span_blocks: u32,
}

impl Index {
    /// Adds the next block.
    pub(super) fn push(&mut self, block: Span) {
        let span_blocks = self.span_blocks.max(1);
        match self.spans.last_mut() {
            Some(last) if last.blocks < span_blocks => *last = last.joined(block),
            _ => self.spans.push(block),
        }
        if self.spans.len() > SPANS_MAX {
            let pairs = self.spans.chunks(2);
            let joined = pairs.map(|pair| match pair {
                [one, other] => one.joined(*other),
                rest => rest[0],
            });
            self.spans = joined.collect();
            self.span_blocks = span_blocks.saturating_mul(2);
        }
    }

    /// Accesses and ends of threads in the trace.
    #[must_use]
    pub fn records(&self) -> u64 {
        let records = self.spans.iter().map(|span| span.records);
        records.fold(0, u64::saturating_add)
    }

    /// Earliest and latest time in the trace; `None` when nothing is in it.
    #[must_use]
    pub fn times_ns(&self) -> Option<(u64, u64)> {
        let timed = self.spans.iter().filter(|span| span.records > 0);
        let times = timed.map(|span| (span.first_ns, span.last_ns));
        times.reduce(|all, span| (all.0.min(span.0), all.1.max(span.1)))
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, self.spans.len() as u64);
        let mut at = 0;
        for span in &self.spans {
            put_varint(&mut out, span.at - at);
            put_varint(&mut out, u64::from(span.blocks));
            put_varint(&mut out, u64::from(span.definition_blocks));
            put_varint(&mut out, span.records);
            if span.records > 0 {
                put_varint(&mut out, span.first_ns);
                put_varint(&mut out, span.last_ns - span.first_ns);
            }
            at = span.at;
        }
        out
    }

    /// The index of a trace whose first block is at `first_at` and whose index is at `end_at`.
    pub(super) fn decode(bytes: &[u8], first_at: u64, end_at: u64) -> Result<Self, Fault> {
        let mut cursor = Cursor::new(bytes);
        let count: usize = cursor.number()?;
        if count > SPANS_MAX || count > cursor.len() {
            return Err(TOO_BIG);
        }
        let mut spans = Vec::with_capacity(count);
        let mut at = 0_u64;
        for number in 0..count {
            let further = cursor.varint()?;
            at = at.checked_add(further).ok_or(TOO_BIG)?;
            // A span that starts within the one before would be read twice.
            if at < first_at || at >= end_at || (number > 0 && further == 0) {
                return Err("points outside of the trace");
            }
            let mut span = Span {
                at,
                blocks: cursor.number()?,
                definition_blocks: cursor.number()?,
                records: cursor.varint()?,
                first_ns: u64::MAX,
                last_ns: 0,
            };
            if span.records > 0 {
                span.first_ns = cursor.varint()?;
                span.last_ns = span.first_ns.checked_add(cursor.varint()?).ok_or(TOO_BIG)?;
            }
            spans.push(span);
        }
        cursor.end()?;
        let span_blocks = 0;
        Ok(Self { spans, span_blocks })
    }
}
