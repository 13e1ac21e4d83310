// SPDX-License-Identifier: MIT OR Apache-2.0
//! From windows to batches of pages: what is cached is passed over, and each run without a gap is
//! one batch (page_cache_ra_order, page_cache_ra_unbounded).

use foreread_core::policy::{Decision, Feedback, Folios, Limits, Window};

use super::{Batch, From, Host, OpenFile};
use crate::cache::{NewFolio, PageCache, Refused};

/// Issues the windows of a decision; how many pages are read, and `Limits::QUIRK_EOF_MARK` when a
/// mark was put where the windows don't have it.
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
    // In step with the folios, where they would have the mark by the rule.
    let is_quirky = open.limits.quirks & Limits::QUIRK_EOF_MARK != 0;
    let mut by_rule = is_quirky.then(|| {
        window.folios(&Limits {
            quirks: 0,
            ..open.limits
        })
    });
    while let Some(folio) = folios.next() {
        let rule = by_rule.as_mut().and_then(Iterator::next);
        let is_moved = rule.is_some_and(|rule| rule.marked != folio.marked);
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
                by_rule.as_mut().map(Folios::refuse);
                continue;
            }
        }
        let end = folio.index + folio.pages();
        fetched += folio.pages();
        if is_moved {
            moved = Limits::QUIRK_EOF_MARK;
        }
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
