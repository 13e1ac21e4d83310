// SPDX-License-Identifier: MIT OR Apache-2.0
//! Asks the page cache for the pages of a replay; asking brings nothing in.

use std::os::fd::{AsFd, OwnedFd};

use foreread_prefetch::helper::{Reply, Request};
use foreread_profile::{NodeId, PagesOf, Profile};
use foreread_recorder::{Fetched, Residency};
use foreread_sys::cache::{cached_pages, has_cachestat, missing_by_map};
use foreread_sys::mounts::{Mounts, mounts_of_self};
use foreread_sys::paths::Opener;

use super::live_tree::LiveTree;

/// Accounts for the pages of `replayed` that arrived, where no BPF program watched them. `recorded`
/// holds what the program accessed, or read as far as could be seen.
#[must_use]
pub fn account_fetched(
    pages: &[PagesOf],
    replayed: &Profile,
    recorded: Option<&Profile>,
) -> Fetched {
    let mounts = mounts_of_self().unwrap_or_default();
    let mut residency = LiveResidency::new(replayed, &mounts);
    Fetched::of(pages, replayed, recorded, &mut residency)
}

/// How many of these pages of a profile have left the page cache. Pages that can't be asked about
/// count as resident.
pub(super) fn gone_pages(pages: &[PagesOf], profile: &Profile, mounts: &Mounts) -> u64 {
    let tree = LiveTree::new(mounts);
    let mut opener = Opener::new(profile);
    let mut gone = 0;
    for parts in pages.chunk_by(|one, next| one.node == next.node) {
        let path = profile.path(parts[0].node);
        if !tree.is_near(&path) {
            let ranges = parts.iter().map(|part| (part.start_page, part.pages));
            gone += gone_far(&tree, path, ranges.collect()).unwrap_or(0);
            continue;
        }
        let Ok(file) = opener.open(parts[0].node, false) else {
            continue;
        };
        for part in parts {
            let cached = cached_pages(file.as_fd(), part.start_page, part.pages);
            gone += part.pages - cached.unwrap_or(part.pages);
        }
    }
    gone
}

/// How many pages of a file are not cached, by the answer of a helper.
fn gone_far(tree: &LiveTree<'_>, path: Vec<u8>, ranges: Vec<(u64, u64)>) -> Option<u64> {
    let all: u64 = ranges.iter().map(|(_, pages)| pages).sum();
    let request = Request::Cached {
        path: path.clone(),
        ranges,
    };
    match tree.ask(&path, &request)? {
        Reply::Pages(cached) => Some(all.saturating_sub(cached.iter().sum())),
        _ => None,
    }
}

/// Asks which pages are cached; keeps the last file open, since parts come file by file.
struct LiveResidency<'a> {
    profile: &'a Profile,
    tree: LiveTree<'a>,
    opener: Opener<'a>,
    has_cachestat: bool,
    last: Option<(NodeId, Option<OwnedFd>)>,
}

impl<'a> LiveResidency<'a> {
    fn new(profile: &'a Profile, mounts: &'a Mounts) -> Self {
        Self {
            profile,
            tree: LiveTree::new(mounts),
            opener: Opener::new(profile),
            has_cachestat: has_cachestat(),
            last: None,
        }
    }
}

impl Residency for LiveResidency<'_> {
    fn gone(&mut self, node: NodeId, start_page: u64, pages: u64) -> Option<u64> {
        let path = self.profile.path(node);
        if !self.tree.is_near(&path) {
            return gone_far(&self.tree, path, vec![(start_page, pages)]);
        }
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

    use foreread_profile::{NodeKind, PAGE_BYTES, ProfileBuilder, Program, Source};

    use super::*;

    #[test]
    fn pages_of_a_hole_are_gone() -> io::Result<()> {
        let Ok(directory) = tempfile::tempdir_in("/dev/shm") else {
            println!("skipped: nothing can be written in /dev/shm");
            return Ok(());
        };
        // A file of 20 pages. The last 10 are a hole: they are never cached.
        let path = directory.path().canonicalize()?.join("file");
        fs::write(&path, vec![1; 10 * PAGE_BYTES as usize])?;
        let file = fs::OpenOptions::new().write(true).open(&path)?;
        file.set_len(20 * PAGE_BYTES)?;
        let mut builder = ProfileBuilder::new(Program::default(), Source::default());
        let node = builder.node(path.as_os_str().as_bytes());
        let node = node.map_err(|error| io::Error::other(format!("{error:?}")))?;
        builder.set_kind(node, NodeKind::File);
        builder.pages(node, 0, 20, 0);
        let replayed = builder.finish();
        let node = replayed.find(path.as_os_str().as_bytes());
        let node = node.ok_or_else(|| io::Error::other("not in the profile"))?;
        let part = |start_page, pages| PagesOf {
            node,
            start_page,
            pages,
        };
        let fetched = account_fetched(&[part(0, 4), part(4, 16)], &replayed, None);
        assert_eq!((fetched.arrived, fetched.gone), (20, Some(10)));
        Ok(())
    }
}
