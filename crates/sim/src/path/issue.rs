// SPDX-License-Identifier: MIT OR Apache-2.0
//! From windows to batches of pages: cached pages are skipped, and each run without a gap is one
//! batch (page_cache_ra_order, page_cache_ra_unbounded).

use foreread_core::policy::{Decision, Feedback, Folio, Folios, Limits, Window};

use super::{Batch, From, Host, OpenFile};
use crate::cache::{NewFolio, PageCache, Refused};

/// Quirks of issuing.
const QUIRKS: [u8; 2] = [Limits::QUIRK_EOF_MARK, Limits::QUIRK_LONG_FALLBACK];

/// Issues the windows of a decision; how many pages are read, and the quirks (`Limits::QUIRK_*`)
/// without which other pages had been read or marked.
pub(super) fn issue(
    cache: &mut PageCache,
    open: &mut OpenFile,
    decision: &Decision,
    from: &From,
    host: &mut dyn Host,
) -> (u64, u8) {
    let (mut fetched, mut moved) = (0, 0);
    let limits = open.limits;
    for window in decision.every_window(&limits) {
        let (pages, is_moved) = issue_window(cache, open, &window, from, host);
        moved |= is_moved;
        let feedback = match pages {
            0 => Feedback::Cached,
            _ => Feedback::Read,
        };
        let size = window.size().into();
        open.policy.feedback(&mut open.state, feedback, size);
        fetched += pages;
    }
    (fetched, moved)
}

fn issue_window(
    cache: &mut PageCache,
    open: &OpenFile,
    window: &Window,
    from: &From,
    host: &mut dyn Host,
) -> (u64, u8) {
    let mut folios = window.folios(&open.limits);
    let mut batch: Option<Batch> = None;
    let (mut fetched, mut moved) = (0, 0);
    let mut by_rule = ByRule::of(window, &open.limits);
    while let Some(folio) = folios.next() {
        let departs = by_rule.departs(&folio);
        let new = NewFolio {
            index: folio.index,
            order: folio.order,
            marked: folio.marked,
        };
        match cache.insert(open.file, open.stream, new) {
            Ok(_) => {}
            // No page to be had: the rest of the window is given up.
            Err(Refused::NoMemory) if folio.order == 0 => break,
            Err(_) => {
                folios.refuse();
                by_rule.refuse();
                continue;
            }
        }
        let end = folio.index + folio.pages();
        fetched += folio.pages();
        moved |= departs;
        match &mut batch {
            Some(batch) if !folio.starts_request => batch.pages.end = end,
            _ => {
                let next = Batch {
                    file: open.file,
                    stream: open.stream,
                    pages: folio.index..end,
                    needed: from.needed,
                    reader_has_data: from.up_to_date,
                    alone: false,
                };
                if let Some(full) = batch.replace(next) {
                    host.submit(full);
                }
            }
        }
    }
    if let Some(last) = batch {
        host.submit(last);
    }
    (fetched, moved)
}

/// The folios of a window without each of the quirks, in step with those that are issued.
struct ByRule(Vec<(u8, Folios)>);

impl ByRule {
    fn of(window: &Window, limits: &Limits) -> Self {
        let held = QUIRKS
            .into_iter()
            .filter(|quirk| limits.quirks & quirk != 0);
        let folios = held.map(|quirk| {
            let quirks = limits.quirks & !quirk;
            (quirk, window.folios(&Limits { quirks, ..*limits }))
        });
        Self(folios.collect())
    }

    /// The quirks without which the next folio is not this one.
    fn departs(&mut self, folio: &Folio) -> u8 {
        let mut departs = 0;
        for (quirk, folios) in &mut self.0 {
            if folios.next().is_none_or(|rule| rule.marked != folio.marked) {
                departs |= *quirk;
            }
        }
        departs
    }

    fn refuse(&mut self) {
        for (_, folios) in &mut self.0 {
            folios.refuse();
        }
    }
}
