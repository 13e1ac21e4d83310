// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which of the replay's pages nobody used, and which of these are gone again.

use std::os::fd::AsFd;

use foreread_profile::PagesOf;
use foreread_sys::cache::cached_pages;
use foreread_sys::paths::Opener;

use foreread_recorder::{Chunk, Known, Recording, runs};

/// What the replay fetched for nothing.
#[derive(Default)]
pub(super) struct Unused {
    /// Pages fetched and not used.
    pub pages: Vec<PagesOf>,
    /// Of these, pages that have left the page cache. A page that can't be asked about counts as
    /// resident.
    pub wasted_pages: u64,
}

/// Pages that the replay of `known` fetched and that weren't used.
pub(super) fn unused(recording: &Recording, known: &Known<'_>) -> Unused {
    let mut opener = Opener::new(known.profile);
    let mut found = Unused::default();
    let mut chunk = 0;
    for inode in &recording.inodes {
        let mut chunks = vec![(0, inode.first)];
        while let Some((_, number, value)) = recording
            .chunks
            .get(chunk)
            .filter(|(id, _, _)| *id == inode.id)
        {
            chunks.push((u64::from(*number), *value));
            chunk += 1;
        }
        chunks.retain(|(_, chunk)| unused_bits(chunk) != 0);
        if chunks.is_empty() {
            continue;
        }
        let Some(id) = known.file(recording, inode) else {
            continue;
        };
        let file = opener.open(id, false).ok();
        for (number, value) in chunks {
            for (start_page, pages) in runs(number, unused_bits(&value)) {
                found.pages.push(PagesOf {
                    node: id,
                    start_page,
                    pages,
                });
                if let Some(file) = &file {
                    found.wasted_pages += gone(file.as_fd(), start_page, pages);
                }
            }
        }
    }
    found
}

fn unused_bits(chunk: &Chunk) -> u64 {
    chunk.fetched & !chunk.used
}

fn gone(file: impl AsFd, start_page: u64, pages: u64) -> u64 {
    pages - cached_pages(file, start_page, pages).unwrap_or(pages)
}
