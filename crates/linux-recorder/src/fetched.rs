// SPDX-License-Identifier: MIT OR Apache-2.0
//! What became of the pages that a replay fetched, where no BPF program watched them.
//!
//! Input: the pages that arrived, and what was recorded meanwhile, if it was. Output: which of them
//! were used, and which have left the page cache again. It is found by asking the page cache once,
//! after the run; asking brings nothing in.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};

use foreread_profile::{BlindSpots, NodeId, PagesOf, Profile};
use foreread_sys::cache::{cached_pages, has_cachestat, missing_by_map};
use foreread_sys::paths::Opener;

/// Sums of pages. `None` is what can't be known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fetched {
    /// Pages that arrived.
    pub arrived: u64,
    /// Of these, pages that have left the page cache.
    pub gone: Option<u64>,
    /// Of these, pages that the program accessed; only where accesses were recorded.
    pub used: Option<u64>,
    /// Pages that it did not access and that have left the page cache.
    pub wasted: Option<u64>,
    /// Distinct pages that the program accessed.
    pub accessed: Option<u64>,
}

impl Fetched {
    /// Accounts for `pages` of `replayed`. `recorded` is what the program accessed, or read as far
    /// as could be seen.
    #[must_use]
    pub fn of(pages: &[PagesOf], replayed: &Profile, recorded: Option<&Profile>) -> Self {
        let sees_accesses = |profile: &&Profile| {
            let blind = profile.source.blind_spots.0;
            blind & (BlindSpots::RESIDENCY_NOT_ACCESS.0 | BlindSpots::NO_MAPPED_FAULTS.0) == 0
                && profile.source.events_lost == 0
        };
        let recorded = recorded.filter(sees_accesses);
        let mut residency = Residency::new(replayed);
        let mut sums = Self {
            gone: Some(0),
            used: recorded.map(|_| 0),
            wasted: recorded.map(|_| 0),
            accessed: recorded.map(Profile::total_pages),
            ..Self::default()
        };
        let mut found: HashMap<NodeId, Option<NodeId>> = HashMap::new();
        for part in pages {
            sums.arrived += part.pages;
            let gone = residency.gone(part.node, part.start_page, part.pages);
            sums.gone = sums.gone.zip(gone).map(|(sum, gone)| sum + gone);
            let Some(recorded) = recorded else { continue };
            let node = *found.entry(part.node).or_insert_with(|| {
                let mut path = Vec::new();
                replayed.path_into(part.node, &mut path);
                recorded.find(&path)
            });
            let unused = unused(recorded, node, part);
            let unused_pages: u64 = unused.iter().map(|(_, pages)| pages).sum();
            sums.used = sums.used.map(|sum| sum + part.pages - unused_pages);
            for (start_page, pages) in unused {
                let gone = residency.gone(part.node, start_page, pages);
                sums.wasted = sums.wasted.zip(gone).map(|(sum, gone)| sum + gone);
            }
        }
        sums
    }
}

/// The parts of some pages that aren't in what was recorded of their file.
fn unused(recorded: &Profile, node: Option<NodeId>, part: &PagesOf) -> Vec<(u64, u64)> {
    let end = part.start_page + part.pages;
    let ranges = node.map_or(&[][..], |node| recorded.ranges(node));
    let mut unused = Vec::new();
    let mut at = part.start_page;
    for range in ranges {
        let from = range.start_page.clamp(at, end);
        if from > at {
            unused.push((at, from - at));
        }
        at = at.max(range.end_page().min(end));
    }
    if at < end {
        unused.push((at, end - at));
    }
    unused
}

/// Asks what is cached; keeps the last file open, since parts come file by file.
struct Residency<'a> {
    opener: Opener<'a>,
    has_cachestat: bool,
    last: Option<(NodeId, Option<OwnedFd>)>,
}

impl<'a> Residency<'a> {
    fn new(profile: &'a Profile) -> Self {
        Self {
            opener: Opener::new(profile),
            has_cachestat: has_cachestat(),
            last: None,
        }
    }

    /// How many of these pages aren't cached; `None` when that can't be told.
    fn gone(&mut self, node: NodeId, start_page: u64, pages: u64) -> Option<u64> {
        if self.last.as_ref().is_none_or(|(last, _)| *last != node) {
            self.last = Some((node, self.opener.open(node, false).ok()));
        }
        let file = self.last.as_ref()?.1.as_ref()?.as_fd();
        let counted = || Some(pages - cached_pages(file, start_page, pages).ok()?);
        let mapped = || {
            let mut missing = Vec::new();
            missing_by_map(file, start_page, pages, &mut missing).ok()?;
            Some(missing.iter().map(|(_, pages)| pages).sum())
        };
        // On overlays cachestat sees nothing at all; a mapping tells the truth there.
        match self.has_cachestat.then(counted).flatten() {
            Some(gone) if gone < pages => Some(gone),
            _ => mapped(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    use foreread_profile::{NodeKind, PAGE_BYTES, ProfileBuilder, Program, Source};

    use super::*;

    fn profile(path: &Path, ranges: &[(u64, u64)], blind_spots: u32) -> io::Result<Profile> {
        let source = Source {
            blind_spots: BlindSpots(blind_spots),
            ..Source::default()
        };
        let mut builder = ProfileBuilder::new(Program::default(), source);
        let id = builder.node(path.as_os_str().as_bytes());
        let id = id.map_err(|error| io::Error::other(format!("{error:?}")))?;
        builder.set_kind(id, NodeKind::File);
        for (start_page, pages) in ranges {
            builder.pages(id, *start_page, *pages, 0);
        }
        Ok(builder.finish())
    }

    #[test]
    fn pages_are_used_gone_or_unknown() -> io::Result<()> {
        let Ok(directory) = tempfile::tempdir_in("/dev/shm") else {
            println!("skipped: nothing can be written in /dev/shm");
            return Ok(());
        };
        // Of 20 pages the last 10 are a hole: they are never cached.
        let path = directory.path().canonicalize()?.join("file");
        fs::write(&path, vec![1; 10 * PAGE_BYTES as usize])?;
        let file = fs::OpenOptions::new().write(true).open(&path)?;
        file.set_len(20 * PAGE_BYTES)?;
        let replayed = profile(&path, &[(0, 20)], 0)?;
        let node = replayed.find(path.as_os_str().as_bytes());
        let node = node.ok_or_else(|| io::Error::other("not in the profile"))?;
        let part = |start_page, pages| PagesOf {
            node,
            start_page,
            pages,
        };
        let pages = [part(0, 4), part(4, 16)];
        let arrived = Fetched {
            arrived: 20,
            gone: Some(10),
            ..Fetched::default()
        };
        assert_eq!(Fetched::of(&pages, &replayed, None), arrived);
        // Accessed: 2 to 8, and 15.
        let recorded = profile(&path, &[(2, 6), (15, 1)], 0)?;
        let known = Fetched {
            used: Some(7),
            wasted: Some(9),
            accessed: Some(7),
            ..arrived
        };
        assert_eq!(Fetched::of(&pages, &replayed, Some(&recorded)), known);
        // What merely lies in memory wasn't used for that.
        let blind = BlindSpots::RESIDENCY_NOT_ACCESS.0;
        let recorded = profile(&path, &[(2, 6), (15, 1)], blind)?;
        assert_eq!(Fetched::of(&pages, &replayed, Some(&recorded)), arrived);
        // Nothing of it was recorded at all.
        let other = profile(Path::new("/other"), &[(0, 9)], 0)?;
        let none = Fetched::of(&pages, &replayed, Some(&other));
        assert_eq!((none.used, none.wasted), (Some(0), Some(10)));
        Ok(())
    }
}
