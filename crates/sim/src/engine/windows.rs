// SPDX-License-Identifier: MIT OR Apache-2.0
//! Windows over time, and what became of their pages: for a picture of a run.
//!
//! In: batches that were submitted, decisions, arrivals, and the fates of pages. Out: each run of
//! pages that was read at once, with the time at which it was asked for, arrived, and was used or
//! evicted. The counts are those of the accounts: each page that is kept is in one part.

use std::collections::BTreeMap;
use std::ops::Range;

use foreread_core::policy::{Access, Kind, Reason};

use crate::cache::{Fate, FileId, Met, StreamId};
use crate::path::Batch;

/// Windows kept for a picture; more can't be told apart in one.
const WINDOWS_MAX: usize = 20_000;
/// Parts with a time of their own. Beyond, pages that follow each other join the part before them,
/// which bounds memory at some tens of megabytes.
const PARTS_MAX: usize = 1 << 20;

/// Pages that were read at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowSeen {
    /// When they were asked for.
    pub time_ns: u64,
    /// The stream.
    pub stream: StreamId,
    /// Its program, as a number of [`super::Setup::programs`].
    pub program: Option<usize>,
    /// The file, by number.
    pub file: usize,
    /// The first page, and how many.
    pub start: u64,
    /// How many there are.
    pub pages: u64,
    /// Whether a program needed a page of it then: synchronous readahead, not asynchronous.
    pub is_synchronous: bool,
    /// The page that the program was at, and why the policy decided so; `None` where no policy
    /// decided: a page that readahead left out, or metadata.
    pub decision: Option<(u64, Reason)>,
    /// When the pages came, in the order of that.
    pub arrivals: Vec<Arrival>,
    /// What became of the pages. Each page is in exactly one part.
    pub parts: Vec<Part>,
}

/// Pages of a window that arrived together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The pages.
    pub pages: Range<u64>,
    /// When.
    pub time_ns: u64,
}

/// Pages of a window that met one fate at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The pages.
    pub pages: Range<u64>,
    /// What became of them.
    pub fate: Fate,
    /// When; `None` for [`Fate::Unread`].
    pub time_ns: Option<u64>,
}

/// Pages whose window is known: their end, and which window it is.
type Owned = BTreeMap<u64, (u64, usize)>;

/// Windows as they come.
#[derive(Clone, Debug, Default)]
pub(super) struct Windows {
    windows: Vec<WindowSeen>,
    /// Windows from this one on wait for the decision that they belong to.
    undecided: usize,
    /// Windows from this one on have pages whose fetch is not known to be in the cache yet.
    fresh: usize,
    dropped: u64,
    parts: usize,
    /// By file.
    owned: BTreeMap<usize, Owned>,
}

impl Windows {
    /// Pages are read. The decision that asked for them follows, if there was one.
    pub fn submitted(&mut self, time_ns: u64, batch: &Batch) {
        let Range { start, end } = batch.pages;
        if batch.alone {
            self.undecided = self.windows.len();
        }
        let file = batch.file.number();
        let first = self.undecided.max(self.fresh).min(self.windows.len());
        let before = self.windows[first..].last_mut();
        // A window is read in several batches: chunks, or requests.
        let goes_on = before.filter(|before| {
            (before.file, before.stream, before.time_ns) == (file, batch.stream, time_ns)
                && before.start + before.pages == start
        });
        if let Some(before) = goes_on {
            before.pages += end - start;
        } else if self.windows.len() < WINDOWS_MAX {
            self.windows.push(WindowSeen {
                time_ns,
                stream: batch.stream,
                program: None,
                file,
                start,
                pages: end - start,
                is_synchronous: batch.needed,
                decision: None,
                arrivals: Vec::new(),
                parts: Vec::new(),
            });
        } else {
            self.dropped += 1;
            return;
        }
        if batch.alone {
            self.undecided = self.windows.len();
        }
    }

    /// A policy decided at an access of a stream: the windows of it were submitted before.
    pub fn decided(&mut self, stream: StreamId, access: &Access, reason: Reason) {
        let first = self.undecided.min(self.windows.len());
        for window in &mut self.windows[first..] {
            if window.stream == stream {
                window.decision = Some((access.index, reason));
                // A policy that looks may decide before a page is missing.
                window.is_synchronous &= !matches!(access.kind, Kind::ReadMark | Kind::FaultMark);
            }
        }
        self.undecided = self.windows.len();
    }

    /// Pages came from the disk.
    pub fn arrived(&mut self, time_ns: u64, file: FileId, pages: Range<u64>) {
        let windows = &mut self.windows;
        each_owned(&self.owned, file, pages, |owner, pages| {
            let arrivals = &mut windows[owner].arrivals;
            let before = arrivals.last_mut();
            match before.filter(|last| last.time_ns == time_ns && last.pages.end == pages.start) {
                Some(last) => last.pages.end = pages.end,
                None => arrivals.push(Arrival { pages, time_ns }),
            }
        });
    }

    /// What happened in the cache until now, in order. A page may have been evicted and fetched
    /// again meanwhile.
    pub fn met(&mut self, time_ns: u64, met: &[Met]) {
        for one in met {
            for (start, end) in one.runs() {
                match one.fate {
                    None => self.fetched(one.file, start..end),
                    Some(fate) => self.ended(time_ns, fate, one.file, start..end),
                }
            }
        }
        if !met.is_empty() {
            self.fresh = self.windows.len();
        }
    }

    /// Pages belong to the window that they were fetched by.
    fn fetched(&mut self, file: FileId, pages: Range<u64>) {
        let owned = self.owned.entry(file.number()).or_default();
        disown(owned, pages.start, pages.end);
        let fresh = self.windows.iter().enumerate().skip(self.fresh);
        for (owner, window) in fresh.filter(|(_, window)| window.file == file.number()) {
            let end = pages.end.min(window.start + window.pages);
            let start = pages.start.max(window.start);
            if start < end {
                owned.insert(start, (end, owner));
            }
        }
    }

    fn ended(&mut self, time_ns: u64, fate: Fate, file: FileId, pages: Range<u64>) {
        let (windows, parts) = (&mut self.windows, &mut self.parts);
        each_owned(&self.owned, file, pages, |owner, pages| {
            let is_full = *parts >= PARTS_MAX;
            let known = &mut windows[owner].parts;
            let goes_on = |last: &&mut Part| {
                last.fate == fate
                    && last.pages.end == pages.start
                    && (is_full || last.time_ns == Some(time_ns))
            };
            if let Some(last) = known.last_mut().filter(goes_on) {
                last.pages.end = pages.end;
                last.time_ns = Some(time_ns);
                return;
            }
            known.push(Part {
                pages,
                fate,
                time_ns: Some(time_ns),
            });
            *parts += 1;
        });
    }

    /// The windows, with the pages that nothing became of until the end, and how many more there
    /// were.
    pub fn finish(mut self) -> (Vec<WindowSeen>, u64) {
        for window in &mut self.windows {
            window.parts.sort_by_key(|part| part.pages.start);
            let mut unread = Vec::new();
            let mut at = window.start;
            let ends = window.parts.iter().map(|part| part.pages.clone());
            let end = window.start + window.pages;
            for known in ends.chain(std::iter::once(end..end)) {
                if at < known.start {
                    unread.push(Part {
                        pages: at..known.start,
                        fate: Fate::Unread,
                        time_ns: None,
                    });
                }
                at = known.end;
            }
            window.parts.append(&mut unread);
            window.parts.sort_by_key(|part| part.pages.start);
        }
        (self.windows, self.dropped)
    }
}

/// Pages are read again: they belong to another window from now on.
fn disown(owned: &mut Owned, start: u64, end: u64) {
    let before = owned.range(..end).rev();
    let over: Vec<(u64, (u64, usize))> = before
        .take_while(|(_, (known_end, _))| *known_end > start)
        .map(|(at, known)| (*at, *known))
        .collect();
    for (at, (known_end, owner)) in over {
        owned.remove(&at);
        if at < start {
            owned.insert(at, (start, owner));
        }
        if known_end > end {
            owned.insert(end, (known_end, owner));
        }
    }
}

/// Calls for each stretch of the pages that a window is known of.
fn each_owned(
    owned: &BTreeMap<usize, Owned>,
    file: FileId,
    pages: Range<u64>,
    mut call: impl FnMut(usize, Range<u64>),
) {
    let Some(owned) = owned.get(&file.number()) else {
        return;
    };
    let first = owned.range(..=pages.start).next_back();
    let from = first.map_or(pages.start, |(start, _)| *start);
    for (start, (end, owner)) in owned.range(from..pages.end) {
        let stretch = pages.start.max(*start)..pages.end.min(*end);
        if !stretch.is_empty() {
            call(*owner, stretch);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_are_read_again_change_their_window() {
        let mut owned = Owned::from([(0, (10, 0)), (20, (30, 1))]);
        disown(&mut owned, 5, 25);
        owned.insert(5, (25, 2));
        let known: Vec<(u64, u64, usize)> = owned
            .iter()
            .map(|(start, (end, owner))| (*start, *end, *owner))
            .collect();
        assert_eq!(known, [(0, 5, 0), (5, 25, 2), (25, 30, 1)]);
        let owned = BTreeMap::from([(0, owned)]);
        let mut seen = Vec::new();
        each_owned(&owned, FileId::FIRST, 3..27, |owner, pages| {
            seen.push((owner, pages));
        });
        assert_eq!(seen, [(0, 3..5), (2, 5..25), (1, 25..27)]);
    }
}
