// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pages that a file system reads of its own: metadata. What it reads with a block that it needs is
//! its own rule, which no readahead policy changes; so the pages are given.

use std::ops::Range;

use super::{Batch, Host, OpenFile, Step};
use crate::cache::{FolioId, NewFolio, PageCache, Refused, Use};

/// Brings in those of the pages that are missing, each run of them as one batch. Ends where memory
/// has no room: only the first page may be needed, and nothing is evicted while its read is under
/// way. A trace may name any number of pages.
pub fn fetch(
    cache: &mut PageCache,
    open: &OpenFile,
    pages: Range<u64>,
    needed: bool,
    host: &mut dyn Host,
) {
    let submit = |run: Range<u64>, host: &mut dyn Host| {
        if !run.is_empty() {
            host.submit(Batch {
                file: open.file,
                stream: open.stream,
                pages: run,
                needed,
                reader_has_data: !needed,
                alone: false,
            });
        }
    };
    let end = pages.end.min(open.limits.file_pages);
    let mut run = pages.start..pages.start;
    for page in pages.start..end {
        let inserted = if needed && page == pages.start {
            cache.insert_needed(open.file, open.stream, page)
        } else {
            cache.insert(open.file, open.stream, NewFolio::page(page))
        };
        match inserted {
            Ok(_) => run.end = page + 1,
            Err(Refused::NoMemory) => break,
            Err(Refused::Cached) => {
                submit(run, host);
                run = page + 1..page + 1;
            }
        }
    }
    submit(run, host);
}

/// A block that is needed, at the start of the pages that are brought in with it.
#[derive(Clone, Debug)]
pub struct GivenCall {
    pages: Range<u64>,
    waited: Option<FolioId>,
    late: Option<u32>,
    is_done: bool,
}

impl GivenCall {
    /// Needs the first of these pages.
    #[must_use]
    pub fn new(pages: Range<u64>) -> Self {
        Self {
            pages,
            waited: None,
            late: None,
            is_done: false,
        }
    }

    /// The page that is needed.
    #[must_use]
    pub fn index(&self) -> u64 {
        self.pages.start
    }

    /// Goes on until the page has to be waited for, was used, or there is nothing more to do.
    pub fn step(
        &mut self,
        cache: &mut PageCache,
        open: &mut OpenFile,
        host: &mut dyn Host,
    ) -> Step {
        let page = self.pages.start;
        if self.is_done || page >= self.pages.end.min(open.limits.file_pages) {
            return Step::Done;
        }
        if let Some(folio) = self.waited {
            let Some(stamp) = cache.arrived(folio) else {
                return Step::Wait(folio);
            };
            self.late = Some(stamp);
        } else {
            fetch(cache, open, self.pages.clone(), true, host);
            let Some(folio) = cache.find(open.file, page) else {
                // No memory for a single page.
                return Step::Done;
            };
            if !cache.info(folio).up_to_date {
                cache.pin(folio);
                self.waited = Some(folio);
                return Step::Wait(folio);
            }
        }
        self.is_done = true;
        let how = Use {
            stream: open.stream,
            previous_page: None,
            late: self.late,
            mapped: false,
        };
        cache.use_pages(open.file, page..page + 1, &how);
        Step::Used(1)
    }
}
