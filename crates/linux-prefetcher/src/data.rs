// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the data: opens each file once, asks what is cached, reads the rest.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::PoisonError;

use foreread_prefetch::order::{Piece, Queue, Service, Windows};
use foreread_prefetch::pace::READ_BYTES_MAX;
use foreread_prefetch::plan::ReadPlan;
use foreread_profile::{NodeId, PAGE_BYTES, PagesOf};
use foreread_sys::cache::{
    WHOLE_PAGES_MAX, has_cachestat, is_missing, missing_by_map, missing_ranges,
};
use foreread_sys::paths::Opener;
use foreread_sys::uring::Finished;
use rustix::fs::{Advice, FileType, fadvise, fstat};
use rustix::process::{Uid, geteuid};

use super::is_shrunk;
use super::pump::{self, Pump};
use super::targets::Target;
use super::under_way::Shared;

/// A file kept open until its reads are done.
struct Open {
    node: NodeId,
    fd: OwnedFd,
    size_bytes: u64,
    /// Whether the kernel tells us the truth about a mapping of it.
    own: bool,
}

/// How to ask what of a file is cached.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ask {
    Stat,
    Map,
}

impl Ask {
    fn of(fs_type: &[u8]) -> Self {
        // Overlays keep nothing in inodes of their own, of which alone cachestat knows.
        if fs_type == b"overlay" || !has_cachestat() {
            Self::Map
        } else {
            Self::Stat
        }
    }

    /// Finds those of these pages that aren't cached; all of them where that can't be told. `own`
    /// is whether the kernel tells us the truth about a mapping of the file.
    fn missing(
        self,
        fd: BorrowedFd<'_>,
        own: bool,
        start_page: u64,
        pages: u64,
        missing: &mut Vec<(u64, u64)>,
    ) {
        match self {
            Self::Stat => missing_ranges(fd, start_page, pages, missing),
            // A program that has read some of the range has read its first page, most often.
            Self::Map if pages <= WHOLE_PAGES_MAX && is_missing(fd, start_page) => {
                missing.push((start_page, pages));
            }
            Self::Map if own && missing_by_map(fd, start_page, pages, missing).is_ok() => {}
            Self::Map => {
                missing.clear();
                missing.push((start_page, pages));
            }
        }
        missing.retain(|(_, pages)| *pages > 0);
    }
}

/// Pages of one read.
pub(super) struct Token {
    _file: Rc<Open>,
    node: NodeId,
    start_page: u64,
    pages: u64,
}

/// Brings pieces into the page cache; returns the bytes that this takes of the budget.
pub(super) fn read(
    plan: &ReadPlan,
    target: &Target,
    pieces: Vec<Piece>,
    service: Service,
    budget_bytes: u64,
    shared: &Shared,
    kept: &mut Option<pump::Reader<Token>>,
) -> u64 {
    shared.metadata_done(target);
    let mut windows = service.windows();
    if !shared.stops_when_overtaken {
        // If no program reads meanwhile, none is ahead.
        windows = Windows::of(windows.max_bytes);
    }
    let mut queue = Queue::new(pieces, windows, budget_bytes);
    if queue.taken_pages() > 0 {
        shared.wait_for_release();
        if let Err(error) = read_pieces(plan, target, &mut queue, service, shared, kept) {
            shared.count_failed_file_system(&error);
        }
    }
    shared
        .tally
        .add(|t| &t.over_budget_pages, queue.over_budget_pages());
    queue.taken_pages() * PAGE_BYTES
}

fn read_pieces(
    plan: &ReadPlan,
    target: &Target,
    queue: &mut Queue,
    service: Service,
    shared: &Shared,
    kept: &mut Option<pump::Reader<Token>>,
) -> io::Result<()> {
    let mut pump = Pump::new(shared, kept)?;
    let mut reader = Reader::new(plan, Ask::of(&target.fs_type), shared, service.has_head());
    let going_on = reader
        .read_all(queue, &mut pump)
        .and_then(|going_on| Ok(going_on && pump.finish(|finished| done(finished, shared))?));
    match going_on {
        Ok(true) => *kept = pump.into_reader(),
        _ => pump.abandon(|finished| done(finished, shared)),
    }
    going_on.map(drop)
}

/// Whether to check if the program has overtaken the replay, after this many cached pieces in a
/// row. A program that is ahead finds everything cached, and the rest may be cached too. Files that
/// were in memory from the start look alike. So the rest is checked before anything is given up,
/// each time after twice as many pieces.
fn is_time_to_ask(cached_in_a_row: usize) -> bool {
    const FIRST: usize = 64;
    cached_in_a_row >= FIRST && cached_in_a_row.is_power_of_two()
}

/// Opens files and asks for what of them is missing.
struct Reader<'a> {
    plan: &'a ReadPlan,
    shared: &'a Shared,
    opener: Opener<'a>,
    ask: Ask,
    user: Uid,
    last: Option<(NodeId, Option<Rc<Open>>)>,
    /// Which nodes were opened already: each counts once, in however many pieces it lies.
    seen: Vec<bool>,
    /// Whether the pump knows what reads on this file system are like.
    has_learned: bool,
    /// Whether the head is to be moved before the first of many reads is asked for.
    places_head: bool,
}

impl<'a> Reader<'a> {
    fn new(plan: &'a ReadPlan, ask: Ask, shared: &'a Shared, places_head: bool) -> Self {
        Self {
            plan,
            shared,
            opener: Opener::new(plan),
            ask,
            user: geteuid(),
            last: None,
            seen: vec![false; plan.len()],
            has_learned: false,
            places_head,
        }
    }

    fn read_all(&mut self, queue: &mut Queue, pump: &mut Pump<'_, Token>) -> io::Result<bool> {
        let mut missing = Vec::new();
        let shared = self.shared;
        while let Some(piece) = queue.next(|piece| self.is_cached(piece)) {
            if shared.stopped() {
                return Ok(false);
            }
            let Some(file) = self.file(piece.node, pump)? else {
                shared.tally.add(|t| &t.skipped_pages, piece.pages);
                queue.free(piece.pages);
                continue;
            };
            if !std::mem::replace(&mut self.has_learned, true) {
                pump.learn_from(&file.fd);
            }
            let end_page = file.size_bytes.div_ceil(PAGE_BYTES);
            let pages = piece.pages.min(end_page.saturating_sub(piece.start_page));
            shared.tally.add(|t| &t.skipped_pages, piece.pages - pages);
            missing.clear();
            let fd = file.fd.as_fd();
            self.ask
                .missing(fd, file.own, piece.start_page, pages, &mut missing);
            let missing_pages: u64 = missing.iter().map(|(_, pages)| pages).sum();
            shared.tally.add(|t| &t.cached_pages, pages - missing_pages);
            queue.free(piece.pages - missing_pages);
            shared.tally.add(|t| &t.asked_pages, missing_pages);
            for &(start, pages) in &missing {
                shared.note_asked(piece.node, start, pages);
                if !read_range(&file, start, pages, pump, shared)? {
                    return Ok(false);
                }
                // A disk that serves the nearest request first may come from behind all of them. It
                // would go back piece by piece, with half a turn for each.
                if std::mem::take(&mut self.places_head)
                    && !pump.finish(|finished| done(finished, shared))?
                {
                    return Ok(false);
                }
            }
            queue.tell(missing_pages == 0);
            if shared.stops_when_overtaken
                && is_time_to_ask(queue.cached_in_a_row())
                && self.is_cached_throughout(queue)
            {
                let pages = queue.rest().map(|piece| piece.pages).sum();
                shared.tally.add(|t| &t.overtaken_pages, pages);
                break;
            }
        }
        Ok(true)
    }

    /// Whether pieces spread over all that is still to come are all cached.
    fn is_cached_throughout(&mut self, queue: &Queue) -> bool {
        const SAMPLE: usize = 32;
        let step = queue.rest().count().div_ceil(SAMPLE).max(1);
        queue
            .rest()
            .step_by(step)
            .all(|piece| self.is_cached(piece))
    }

    /// Whether all of a piece is known to be cached.
    fn is_cached(&mut self, piece: &Piece) -> bool {
        self.shared.note_looked_up(self.plan, piece.node);
        let Ok(fd) = self.opener.open(piece.node, false) else {
            return false;
        };
        let mut missing = Vec::new();
        // The owner of the file isn't looked up here.
        let own = self.user.is_root();
        self.ask
            .missing(fd.as_fd(), own, piece.start_page, piece.pages, &mut missing);
        missing.is_empty()
    }

    /// The open file of a node; `None` when it isn't to be read.
    fn file(&mut self, id: NodeId, pump: &mut Pump<'_, Token>) -> io::Result<Option<Rc<Open>>> {
        if let Some((node, file)) = &self.last
            && *node == id
        {
            return Ok(file.clone());
        }
        self.last = None;
        self.shared.note_looked_up(self.plan, id);
        let mut opened = self.opener.open(id, false);
        if opened.as_ref().is_err_and(out_of_descriptors) && pump.pending() > 0 {
            // Those of the reads under way come back when they are done.
            pump.finish(|finished| done(finished, self.shared))?;
            opened = self.opener.open(id, false);
        }
        let first = !std::mem::replace(&mut self.seen[id.0 as usize], true);
        let file = checked(self.plan, opened, id, first, self.user, self.shared).map(Rc::new);
        self.last = Some((id, file.clone()));
        Ok(file)
    }
}

fn out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

fn read_range(
    file: &Rc<Open>,
    start_page: u64,
    pages: u64,
    pump: &mut Pump<'_, Token>,
    shared: &Shared,
) -> io::Result<bool> {
    let (mut at, mut left) = (start_page, pages);
    while left > 0 {
        let pages = left.min(pump.read_bytes_max() / PAGE_BYTES);
        let token = Token {
            _file: Rc::clone(file),
            node: file.node,
            start_page: at,
            pages,
        };
        let length = u32::try_from(pages * PAGE_BYTES).unwrap_or(READ_BYTES_MAX);
        let fd = file.fd.as_raw_fd();
        if !pump.read(fd, at * PAGE_BYTES, length, token, |finished| {
            done(finished, shared)
        })? {
            return Ok(false);
        }
        at += pages;
        left -= pages;
    }
    Ok(true)
}

fn done(finished: Finished<Token>, shared: &Shared) {
    match finished.result {
        Ok(bytes) => {
            let pages = u64::from(bytes)
                .div_ceil(PAGE_BYTES)
                .min(finished.token.pages);
            shared.tally.add(|t| &t.arrived_pages, pages);
            let Token {
                node, start_page, ..
            } = finished.token;
            if let Some(fetched) = &shared.fetched {
                let mut fetched = fetched.lock().unwrap_or_else(PoisonError::into_inner);
                fetched.push(PagesOf {
                    node,
                    start_page,
                    pages,
                });
            }
            let is_short = pages < finished.token.pages;
            shared.tally.add(|t| &t.short_reads, is_short.into());
        }
        Err(error) => shared.count_failed_read(&error),
    }
}

/// An opened file, if it is still the one that was recorded; what has become of it is counted when
/// it is met first.
fn checked(
    plan: &ReadPlan,
    opened: io::Result<OwnedFd>,
    id: NodeId,
    first: bool,
    user: Uid,
    shared: &Shared,
) -> Option<Open> {
    let count = u64::from(first);
    let identity = plan.node(id)?.identity;
    let opened = opened.and_then(|fd| Ok((fstat(&fd)?, fd)));
    let (stat, fd) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            shared.count_failure(&error, count);
            return None;
        }
    };
    let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    if !regular || stat.st_ino != identity.inode {
        shared.tally.add(|t| &t.replaced_files, count);
        return None;
    }
    let size_bytes = u64::try_from(stat.st_size).unwrap_or(0);
    let mtime_ns = mtime_ns(&stat);
    if is_shrunk(plan, id, size_bytes) {
        shared.tally.add(|t| &t.shrunk_files, count);
    } else if size_bytes != identity.size_bytes
        || (identity.mtime_ns != 0 && mtime_ns != identity.mtime_ns)
    {
        shared.tally.add(|t| &t.changed_files, count);
    }
    // Exactly what is asked for: no readahead around it.
    if fadvise(fd.as_fd(), 0, None, Advice::Random).is_err() {
        shared.tally.add(|t| &t.unreadable_files, count);
        return None;
    }
    shared.tally.add(|t| &t.files, count);
    Some(Open {
        node: id,
        fd,
        size_bytes,
        own: user.is_root() || user.as_raw() == stat.st_uid,
    })
}

fn mtime_ns(stat: &rustix::fs::Stat) -> i64 {
    let nanoseconds = i64::try_from(stat.st_mtime_nsec).unwrap_or(0);
    stat.st_mtime
        .saturating_mul(1_000_000_000)
        .saturating_add(nanoseconds)
}
