// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's way from a system call or a fault to readahead and back, over a [`PageCache`].
//!
//! Each call ([`ReadCall`], [`FaultCall`]) goes on step by step and stops where a program would
//! wait for a page. What waiting means is up to the caller: in a simulation time passes, in a check
//! of decisions the page is simply there. What is to be read goes to a [`Host`], and so does each
//! decision, so that everything that shows decisions shows the same ones.

mod fault;
mod given;
mod issue;
mod read;

pub use fault::{FaultCall, Mapping};
pub use given::{GivenCall, fetch};
pub use read::ReadCall;

use std::ops::Range;

use foreread_core::policy::{
    Access, Advice, Decision, Feedback, Limits, Memory, Near, Policy, Rules, State,
};

use crate::cache::{FileId, FileView, FolioId, PageCache, StreamId};

/// Bytes of a page.
pub const PAGE_BYTES: u64 = 4096;

/// One contiguous batch of pages to read from the device, which the kernel submits in one plug.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The file.
    pub file: FileId,
    /// The stream that it is read for.
    pub stream: StreamId,
    /// Which pages.
    pub pages: Range<u64>,
    /// Whether a program needs a page of it now: a miss, not readahead at a mark.
    pub needed: bool,
    /// At a mark: whether the marked folio had arrived when it was reached.
    pub reader_has_data: bool,
    /// Whether it is a page that no decision asked for, read alone because a program needs it.
    pub alone: bool,
}

impl Batch {
    /// Number of its pages.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.pages.end.saturating_sub(self.pages.start)
    }
}

/// A decision, with its inputs.
#[derive(Clone, Copy, Debug)]
pub struct Decided<'a> {
    /// The file.
    pub file: FileId,
    /// The stream of the access.
    pub stream: StreamId,
    /// The access, as the policy saw it.
    pub access: &'a Access,
    /// The state before.
    pub before: &'a State,
    /// The decision and its reason.
    pub decision: &'a Decision,
    /// Pages of its windows that were not cached and are read now.
    pub fetched_pages: u64,
    /// The quirks (`Limits::QUIRK_*`) that hid cached pages from it.
    pub misled: u8,
}

/// Where reads and decisions go.
pub trait Host {
    /// Pages were inserted into the cache and have to be read; [`PageCache::arrive`] is to follow.
    fn submit(&mut self, batch: Batch);

    /// The time, for policies that go by it.
    fn now_ns(&self) -> u64 {
        0
    }

    /// Which thread makes the accesses; 0 when that does not matter.
    fn thread(&self) -> u32 {
        0
    }

    /// The state that is kept of a file, its device and the machine.
    fn memory(&mut self, file: FileId) -> Memory<'_> {
        let _ = file;
        Memory::default()
    }

    /// The policy decided; the batches of its windows have been submitted.
    fn decided(&mut self, decided: &Decided<'_>) {
        let _ = decided;
    }
}

/// Quirks that the core itself takes into account when it decides.
const CORE_QUIRKS: [u8; 3] = [
    Limits::QUIRK_HISTORY_CAP,
    Limits::QUIRK_NO_HOLE,
    Limits::QUIRK_PAST_END,
];

/// An open file of a program.
#[derive(Clone, Debug)]
pub struct OpenFile {
    /// The file.
    pub file: FileId,
    /// The stream that reads it.
    pub stream: StreamId,
    /// The policy that decides.
    pub policy: Policy,
    /// The kernel's rules around decisions: those of the policy's own kernel, else of Linux 6.18.
    pub rules: Rules,
    /// The limits. Memory is filled in for each decision when the cache has a capacity.
    pub limits: Limits,
    /// The state of the policy.
    pub state: State,
    /// Size of the file. A read at its end leaves the position there, within the last page.
    pub file_bytes: u64,
    /// The advice that was given last.
    pub(crate) advised: Option<Advice>,
    /// Pages read since the last window.
    hit_pages: u64,
    /// Waste of this stream that the policy has been told of.
    wasted_told: u64,
}

impl OpenFile {
    /// A file just opened.
    #[must_use]
    pub fn new(file: FileId, stream: StreamId, policy: Policy, limits: Limits) -> Self {
        Self {
            file,
            stream,
            policy,
            rules: Rules::of(policy),
            limits,
            state: State::open(&limits),
            file_bytes: limits.file_pages.saturating_mul(PAGE_BYTES),
            advised: None,
            hit_pages: 0,
            wasted_told: 0,
        }
    }

    /// Skips the waste of its stream before the file was opened again: the policy is not told of
    /// that.
    pub(crate) fn begin_at(&mut self, cache: &PageCache) {
        self.wasted_told = cache.account(self.stream).wasted;
    }

    /// posix_fadvise(2), but for `WILLNEED` ([`force`]) and `DONTNEED`
    /// ([`PageCache::drop_pages`]).
    pub fn advise(&mut self, advice: Advice) {
        self.advised = Some(advice);
        self.state.advise(advice, &self.limits);
    }

    /// Asks the policy, and issues its decision.
    fn decide(
        &mut self,
        cache: &mut PageCache,
        mut access: Access,
        from: &From,
        host: &mut dyn Host,
    ) -> Decision {
        self.take_stock(cache);
        if !self.policy.sees() {
            access.hit_pages = self.hit_pages;
        }
        access.time_ns = host.now_ns();
        access.thread = host.thread();
        let before = self.state;
        let (near, misled) = self.look_around(cache, &access);
        // The answers of the view already contain the error, so the policy must not apply it again.
        let limits = Limits {
            quirks: self.limits.quirks & !FileView::QUIRKS,
            ..self.limits
        };
        let memory = host.memory(self.file);
        let decision = self
            .policy
            .decide_with(&mut self.state, &access, &near, &limits, memory);
        let misled = misled | self.misled(&before, &access, &near, &decision);
        if let (true, Some(marked)) = (decision.clears_mark(), from.marked) {
            cache.clear_mark(marked);
        }
        if let Some((start, pages)) = decision.retain() {
            cache.retain(self.file, start, start.saturating_add(pages.into()));
        }
        if decision.changed_state() {
            self.hit_pages = 0;
        }
        let (fetched_pages, moved) = issue::issue(cache, self, &decision, from, host);
        let misled = misled | moved;
        self.tell_issued(&decision, fetched_pages, host);
        host.decided(&Decided {
            file: self.file,
            stream: self.stream,
            access: &access,
            before: &before,
            decision: &decision,
            fetched_pages,
            misled,
        });
        decision
    }

    fn tell_issued(&self, decision: &Decision, fetched_pages: u64, host: &mut dyn Host) {
        if !self.policy.remembers() || decision.windows().is_empty() {
            return;
        }
        let windows = decision.every_window(&self.limits);
        let pages = windows.map(|window| u64::from(window.read_pages())).sum();
        let thread = host.thread();
        if let Some(streams) = host.memory(self.file).streams {
            self.policy.issued(streams, thread, pages, fetched_pages);
        }
    }

    /// A program waited for a page since `since_ns`; `asked` when it was on its way already.
    fn tell_waited(&mut self, since_ns: u64, asked: bool, pages: u64, host: &mut dyn Host) {
        self.policy.feedback(&mut self.state, Feedback::Late, pages);
        if !self.policy.remembers() {
            return;
        }
        let waited_ns = host.now_ns().saturating_sub(since_ns);
        let thread = host.thread();
        let memory = host.memory(self.file);
        self.policy.waited(memory, thread, waited_ns, asked);
    }

    /// The cached pages around an access as the kernel sees them, and the quirks by which that view
    /// differs from the real one.
    fn look_around(&self, cache: &PageCache, access: &Access) -> (Near, u8) {
        let (policy, state, limits) = (self.policy, &self.state, &self.limits);
        let view = cache.view(self.file);
        let truth = policy.ask(state, access, &view, limits);
        if self.limits.quirks & FileView::QUIRKS == 0 {
            return (truth, 0);
        }
        let view = view.with_quirks(self.limits.quirks);
        let seen = policy.ask(state, access, &view, limits);
        let mut misled = 0;
        if seen.after_pages != truth.after_pages {
            misled |= Limits::QUIRK_LATE_HOLE;
        }
        if seen.before_pages != truth.before_pages {
            misled |= Limits::QUIRK_SHORT_HISTORY;
        }
        (seen, misled)
    }

    /// Quirks of the core without which it would have decided otherwise.
    fn misled(&self, before: &State, access: &Access, near: &Near, decision: &Decision) -> u8 {
        let mut misled = 0;
        for quirk in CORE_QUIRKS {
            if self.limits.quirks & quirk == 0 {
                continue;
            }
            let limits = Limits {
                quirks: self.limits.quirks & !quirk,
                ..self.limits
            };
            let mut state = *before;
            let without = self.policy.decide_near(&mut state, access, near, &limits);
            if without.windows() != decision.windows() || state != self.state {
                misled |= quirk;
            }
        }
        misled
    }

    /// Tells the policy the state of memory, and pages that were dropped unread. No policy uses
    /// the latter yet; a policy under test may.
    fn take_stock(&mut self, cache: &PageCache) {
        if let Some(capacity) = cache.capacity_pages() {
            self.limits.memory_pages = capacity;
            self.limits.reclaim_pages = cache.reclaim_pages();
            self.limits.aged_pages = cache.aged_pages();
        }
        let wasted = cache.account(self.stream).wasted;
        if wasted > self.wasted_told {
            let pages = wasted - self.wasted_told;
            self.policy
                .feedback(&mut self.state, Feedback::Wasted, pages);
            self.wasted_told = wasted;
        }
    }

    /// A page is missing: tells the policy when it had been read ahead and was evicted.
    fn note_miss(&mut self, cache: &mut PageCache, page: u64) {
        if cache.miss(self.file, page, self.stream) {
            self.policy.feedback(&mut self.state, Feedback::Thrashed, 1);
        }
    }

    /// A page that readahead did not bring in is read alone.
    fn read_alone(&mut self, cache: &mut PageCache, page: u64, host: &mut dyn Host) {
        if cache.insert_needed(self.file, self.stream, page).is_ok() {
            host.submit(Batch {
                file: self.file,
                stream: self.stream,
                pages: page..page + 1,
                needed: true,
                reader_has_data: false,
                alone: true,
            });
        }
    }
}

/// Where a decision comes from.
struct From {
    /// The marked folio that was reached.
    marked: Option<FolioId>,
    /// Whether a page is needed now.
    needed: bool,
    /// Whether the page that was reached has arrived.
    up_to_date: bool,
}

impl From {
    const MISS: Self = Self {
        marked: None,
        needed: true,
        up_to_date: false,
    };
}

/// `POSIX_FADV_WILLNEED`, readahead(2), `MADV_WILLNEED`: no thread waits for these pages yet.
pub fn force(
    cache: &mut PageCache,
    open: &mut OpenFile,
    start: u64,
    pages: u64,
    host: &mut dyn Host,
) {
    let from = From {
        marked: None,
        needed: false,
        up_to_date: true,
    };
    open.decide(cache, Access::force(start, pages), &from, host);
}

/// The result of a step of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The program waits until the folio is up to date. It is pinned; step on when it is.
    Wait(FolioId),
    /// A fault is taken again, after the reads that it started were submitted; step on.
    Again,
    /// The program used this many pages, and goes on.
    Used(u64),
    /// The call returns.
    Done,
}
