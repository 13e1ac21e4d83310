// SPDX-License-Identifier: MIT OR Apache-2.0
//! The accesses of a trace, thread by thread, as the simulation reaches them.
//!
//! In the simulation, threads progress in another way relative to each other than in the recording.
//! So the accesses of other threads that are read on the way to the access of one thread are kept.
//! To bound memory, a thread that is far ahead of the others has to wait for them: [`Next::Full`].

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use foreread_trace::{Access, Event, Events, ReadError, ThreadId};

use super::span::Span;
use super::survey::Survey;
use super::{ACCESS_BYTES_MAX, is_played};

/// Accesses that are kept at most, of all threads together: a few MiB.
const KEPT_MAX: usize = 1 << 16;
/// With fewer accesses kept than this, more are read to look ahead.
const LOOKED_MAX: usize = KEPT_MAX / 4;

/// The next action of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// An access, and its time besides waiting, in nanoseconds.
    Access(Access, u64),
    /// It ends.
    End,
}

/// One step of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub what: What,
    /// Time that the thread thinks before the step.
    pub think_ns: u64,
    /// Threads for whose end it waits, each with the time in nanoseconds after which it continues.
    /// If there are any, they replace the thinking.
    pub after_ends: Vec<(u32, u64)>,
}

/// The feed's answer to a thread.
#[derive(Debug)]
pub(crate) enum Next {
    Item(Item),
    /// It has done everything.
    Ended,
    /// Others have to do something first.
    Full,
}

/// A thread of the trace, as far as it is read.
#[derive(Clone, Debug, Default)]
struct Thread {
    kept: VecDeque<Item>,
    /// Accesses read.
    accesses: u64,
    /// When the last one ended in the recording.
    end_ns: Option<u64>,
    is_ended: bool,
    /// Threads that it started and that ended since, and when.
    ended: Vec<(u32, u64)>,
    /// Accesses read that use pages.
    using: u64,
}

/// The second pass over a trace.
pub(crate) struct Feed {
    events: Box<dyn Events>,
    survey: Arc<Survey>,
    threads: Vec<Thread>,
    kept: usize,
    is_through: bool,
    error: Option<ReadError>,
    /// Accesses that use pages and have not been looked at yet, for the oracle's look-ahead.
    unseen: Option<VecDeque<(usize, u64, Access)>>,
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Feed");
        shown.field("kept", &self.kept);
        shown.field("is_through", &self.is_through).finish()
    }
}

impl Feed {
    /// From the beginning of the trace that the survey is of.
    pub fn new(events: Box<dyn Events>, survey: Arc<Survey>) -> Self {
        Self {
            events,
            threads: vec![Thread::default(); survey.threads.len()],
            survey,
            kept: 0,
            is_through: false,
            error: None,
            unseen: None,
        }
    }

    /// Keeps accesses for the look-ahead from now on.
    pub fn keep_unseen(&mut self) {
        self.unseen.get_or_insert_default();
    }

    /// The next access that uses pages, of any thread, in the order of the trace. Returns its
    /// thread, the number of such accesses of the thread before, and the access. `None` at the end,
    /// or if `LOOKED_MAX` are kept, which bounds memory. Accesses that are not taken in time are
    /// left out.
    pub fn look_ahead(&mut self) -> Option<(usize, u64, Access)> {
        loop {
            if let Some(next) = self.unseen.as_mut()?.pop_front() {
                return Some(next);
            }
            if self.is_through || self.kept >= LOOKED_MAX {
                return None;
            }
            self.read_one();
        }
    }

    /// The next step of a thread.
    pub fn next(&mut self, thread: usize) -> Next {
        loop {
            if let Some(item) = self.threads[thread].kept.pop_front() {
                self.kept -= 1;
                return Next::Item(item);
            }
            if self.is_through || self.is_all_read(thread) {
                return Next::Ended;
            }
            if self.kept >= KEPT_MAX {
                return Next::Full;
            }
            self.read_one();
        }
    }

    /// Whether enough room is free again for the threads that found it full.
    pub fn has_room(&self) -> bool {
        self.kept <= KEPT_MAX / 2
    }

    /// Why the trace could not be read to its end.
    pub fn take_error(&mut self) -> Option<ReadError> {
        self.error.take()
    }

    fn is_all_read(&self, thread: usize) -> bool {
        let (known, read) = (&self.survey.threads[thread], &self.threads[thread]);
        read.accesses >= known.accesses && (read.is_ended || !known.has_end)
    }

    fn read_one(&mut self) {
        match self.events.next_event() {
            Ok(Some(Event::Access(access))) => self.access(access),
            Ok(Some(Event::ThreadEnd { time_ns, thread })) => self.end(time_ns, thread),
            Ok(Some(_)) => {}
            Ok(None) => self.is_through = true,
            Err(error) => {
                self.is_through = true;
                self.error = Some(error);
            }
        }
    }

    fn access(&mut self, mut access: Access) {
        if !is_played(&access) {
            return;
        }
        let survey = Arc::clone(&self.survey);
        let numbers = (
            survey.thread_number(access.thread),
            survey.file_number(access.file),
        );
        // The file that is read may have changed since the survey.
        let (Some(number), Some(_)) = numbers else {
            return;
        };
        if access.kind.uses_pages() {
            access.length_bytes = access.length_bytes.min(ACCESS_BYTES_MAX);
        }
        let span = Span::of(&access, survey.time_is);
        self.keep(number, What::Access(access, span.busy_ns), span.begin_ns);
        let thread = &mut self.threads[number];
        if access.kind.uses_pages() {
            if let Some(unseen) = &mut self.unseen {
                unseen.push_back((number, thread.using, access));
                if unseen.len() > KEPT_MAX {
                    unseen.pop_front();
                }
            }
            thread.using += 1;
        }
        thread.accesses += 1;
        thread.end_ns = Some(span.end_ns);
        let known = &survey.threads[number];
        if thread.accesses == known.accesses && !known.has_end {
            self.tell_parent(number, span.end_ns);
        }
    }

    fn end(&mut self, time_ns: u64, thread: ThreadId) {
        let Some(number) = self.survey.thread_number(thread) else {
            return;
        };
        // The end of another one with the same id, so to say: it did nothing that is played.
        let thread = &mut self.threads[number];
        if thread.accesses == 0 || std::mem::replace(&mut thread.is_ended, true) {
            return;
        }
        self.keep(number, What::End, time_ns);
        self.tell_parent(number, time_ns);
    }

    fn tell_parent(&mut self, number: usize, end_ns: u64) {
        if let Some(parent) = self.survey.threads[number].parent {
            let ended = &mut self.threads[parent as usize].ended;
            ended.push((number as u32, end_ns));
        }
    }

    fn keep(&mut self, number: usize, what: What, begin_ns: u64) {
        let thread = &mut self.threads[number];
        let last_ns = thread.end_ns.unwrap_or(begin_ns);
        let between = last_ns..=begin_ns;
        let ended = thread
            .ended
            .drain(..)
            .filter(|(_, at)| between.contains(at));
        let after_ends = ended.map(|(child, at)| (child, begin_ns - at));
        thread.kept.push_back(Item {
            what,
            think_ns: begin_ns.saturating_sub(last_ns),
            after_ends: after_ends.collect(),
        });
        self.kept += 1;
    }
}
