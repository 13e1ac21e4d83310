// SPDX-License-Identifier: MIT OR Apache-2.0
//! Joins a record to the one before it of the same thread.

use super::record::{AccessKind, AccessRecord, MappingBits};

/// Bytes of a page.
const PAGE_BYTES: u64 = 4096;

/// How a record relates to the one before it of the same thread.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Join {
    /// It adds to the one before, and more may come.
    Grown,
    /// It tells the same access completely.
    Replaced,
    /// It is another access.
    Apart,
}

/// Joins `next` to `before` where both are of one access, and shares out the waits.
pub(super) fn join(before: &mut AccessRecord, next: &mut AccessRecord) -> Join {
    let end = |record: &AccessRecord| record.start_bytes.saturating_add(record.length_bytes);
    let is_same = before.id == next.id;
    match (before.kind, next.kind) {
        // Each of the kernel's steps asks for all that is left of a read.
        (AccessKind::Read, AccessKind::Read)
            if is_same && end(before) == end(next) && next.start_bytes > before.start_bytes =>
        {
            go_on(before, next);
            Join::Grown
        }
        (AccessKind::Read, AccessKind::ReadCall) if is_same => {
            next.waited_ns = next.waited_ns.saturating_add(before.waited_ns);
            Join::Replaced
        }
        // A fault that waited is taken again.
        (AccessKind::Fault, AccessKind::Fault)
            if is_same && next.start_bytes == before.start_bytes =>
        {
            go_on(before, next);
            Join::Grown
        }
        (AccessKind::Fault, AccessKind::Mapped)
            if is_same && (next.start_bytes..end(next)).contains(&before.start_bytes) =>
        {
            go_on(before, next);
            // The pages that the thread may go on to without a fault.
            before.kind = AccessKind::Mapped;
            before.mapping.0 |= MappingBits::KNOWN;
            before.length_bytes = end(next) - before.start_bytes;
            Join::Grown
        }
        // Cached pages around it have been mapped; the page itself was not among them.
        (AccessKind::Mapped, AccessKind::Fault)
            if is_same && next.start_bytes == before.start_bytes =>
        {
            next.waited_ns = next.waited_ns.saturating_add(before.waited_ns);
            Join::Replaced
        }
        // The next fault of a thread that went on where it was is right behind the pages that were
        // mapped, or at the first one that was left out: it has come through all before.
        (AccessKind::Mapped, AccessKind::Mapped | AccessKind::Fault)
            if is_same
                && next.start_bytes > before.start_bytes
                && next.start_bytes <= end(before)
                && knows_page(next) =>
        {
            before.length_bytes = next.start_bytes - before.start_bytes;
            Join::Apart
        }
        (AccessKind::Mapped, _) => {
            end_alone(before);
            Join::Apart
        }
        // The wait after a fault is the fault's; others are of what follows.
        (AccessKind::Fault, _) => {
            let waited_ns = next.first_waited_ns.min(next.waited_ns);
            before.waited_ns = before.waited_ns.saturating_add(waited_ns);
            before.time_ns = before.time_ns.saturating_add(waited_ns).min(next.time_ns);
            next.waited_ns -= waited_ns;
            Join::Apart
        }
        _ => Join::Apart,
    }
}

fn knows_page(record: &AccessRecord) -> bool {
    record.kind == AccessKind::Fault || record.mapping.has(MappingBits::KNOWN)
}

/// Nothing is known of where a thread went from a fault: only its page is sure.
pub(super) fn end_alone(record: &mut AccessRecord) {
    if record.kind == AccessKind::Mapped && record.mapping.has(MappingBits::KNOWN) {
        record.length_bytes = record.length_bytes.min(PAGE_BYTES);
    }
}

fn go_on(before: &mut AccessRecord, next: &AccessRecord) {
    before.waited_ns = before.waited_ns.saturating_add(next.waited_ns);
    before.time_ns = next.time_ns;
    let (knows, knew) = (next.mapping, before.mapping);
    if knows.has(MappingBits::KNOWN) && !knew.has(MappingBits::KNOWN) {
        before.mapping = next.mapping;
        before.map_bytes = next.map_bytes;
        before.file = next.file;
    }
}
