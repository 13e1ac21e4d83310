// SPDX-License-Identifier: MIT OR Apache-2.0
//! Signs that a program follows its profile: entries that were not in memory, and are now, though
//! the replay has not touched them.
//!
//! Entries are watched in the order of need, a few at a time. An entry is a page, or the name of
//! what no page is read of. Asking brings nothing in: a path is followed only as far as the kernel
//! has its names in memory. A replay that reads metadata from the block device leaves no names
//! there, so each name is the program's doing. Only local file systems are asked.
//!
//! A file of the profile that the program has open is a sign, too: once, or each time if much of
//! the profile is in it.
//!
//! Executables and mapped files are no signs: any program of the same interpreter comes to them.
//! But a program that does so doesn't go elsewhere either, so they are counted apart, as shared.

use std::collections::HashSet;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

use foreread_profile::{NodeId, NodeKind, PAGE_BYTES, Profile};
use foreread_sys::cache::{cached_pages, has_cachestat, missing_by_map};
use foreread_sys::mounts::{Mounts, mounts_of_self};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, open, openat2};
use rustix::process::geteuid;

use super::gate::Gate;
use crate::warm::is_asked;

/// Entries that are watched at once.
const WATCHED: usize = 32;
/// Entries in memory that are passed by in one look, when others take their place.
const PASSED_MAX: usize = 128;
/// After so many looks at which the program had read something else, another entry takes the place
/// of one. Needs of several runs, each at its own speed, don't make one order.
const LOOKS_MAX: u32 = 16;
/// A file with a part in this many of the profile's pages has much of it.
const LARGE_SHARE: u64 = 8;
/// Entries that are put in order at once. A profile may have a million of them.
const SORTED: usize = 4096;
/// Of a long range, a page in this many is an entry. Readahead brings in 32 pages at a time.
const STEP_PAGES: usize = 64;
/// Entries of one range: 256 MiB.
const ENTRIES_OF_RANGE_MAX: usize = 1024;

#[derive(Clone, Copy, Debug)]
struct Entry {
    need_ns: u64,
    node: NodeId,
    /// `None` for the name.
    page: Option<u64>,
}

/// An entry that isn't in memory; the file, once its name is.
struct Watched {
    entry: Entry,
    file: Option<OwnedFd>,
    /// How often it was looked at in vain.
    looks: u32,
}

/// Entries of one kind, and those among them that came into memory.
#[derive(Default)]
struct Entries {
    /// In no order.
    later: Vec<Entry>,
    /// By descending need: the entry that is needed first is the last.
    next: Vec<Entry>,
    watched: Vec<Watched>,
    count: u64,
}

/// See the [module](self).
pub(super) struct Signs {
    place: Place,
    /// Pages of the profile.
    pages: u64,
    own: Entries,
    shared: Entries,
    /// Nodes that were open once.
    opened: HashSet<NodeId>,
    takes_all: bool,
}

/// Where entries are looked for.
struct Place {
    profile: Arc<Profile>,
    gate: Arc<Gate>,
    mounts: Mounts,
}

/// Counts by now, of entries that the program came to and the replay did not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    /// Those that only this program comes to.
    pub signs: u64,
    /// Those that any program of the same interpreter comes to.
    pub shared: u64,
}

impl Signs {
    /// If nearly all entries are shared, they are signs, unless the program is `in_doubt`.
    pub fn new(profile: Arc<Profile>, gate: Arc<Gate>, in_doubt: bool) -> Self {
        let [mut own, mut shared] = entries(&profile);
        let takes_all = !in_doubt && own.len() < WATCHED;
        if takes_all {
            own.append(&mut shared);
        }
        let of = |later| Entries {
            later,
            ..Entries::default()
        };
        let mut signs = Self {
            pages: profile.total_pages(),
            own: of(own),
            shared: of(shared),
            opened: HashSet::new(),
            takes_all,
            place: Place {
                mounts: mounts_of_self().unwrap_or_default(),
                profile,
                gate,
            },
        };
        signs.own.fill(&signs.place);
        signs.shared.fill(&signs.place);
        signs
    }

    /// Whether there is anything to be watched.
    pub fn can_tell(&self) -> bool {
        !self.own.watched.is_empty()
    }

    /// Takes paths that the program has open.
    pub fn take_open(&mut self, paths: impl Iterator<Item = Vec<u8>>) {
        let profile = &self.place.profile;
        for path in paths {
            let found = profile.find(&path);
            let Some((id, node)) = found.and_then(|id| Some((id, profile.node(id)?))) else {
                continue;
            };
            if node.identity.inode == 0 {
                continue;
            }
            let pages: u64 = profile.ranges(id).iter().map(|range| range.pages).sum();
            let is_large = pages > self.pages / LARGE_SHARE;
            if self.opened.insert(id) || is_large {
                match self.takes_all || !node.is_of_any_program() {
                    true => self.own.count += 1,
                    false => self.shared.count += 1,
                }
            }
        }
    }

    /// Counts by now. `has_read`: the program has read by itself since the last time.
    pub fn count(&mut self, has_read: bool) -> Count {
        self.own.look(&self.place, has_read);
        self.shared.look(&self.place, has_read);
        Count {
            signs: self.own.count,
            shared: self.shared.count,
        }
    }
}

impl Entries {
    fn look(&mut self, place: &Place, has_read: bool) {
        let watched = std::mem::take(&mut self.watched);
        for mut one in watched {
            if place.is_ours(one.entry) {
                continue;
            }
            match place.is_there(&mut one) {
                Some(true) => self.count += 1,
                Some(false) => {
                    one.looks += u32::from(has_read);
                    match one.looks < LOOKS_MAX {
                        true => self.watched.push(one),
                        false => self.later.push(one.entry),
                    }
                }
                None => {}
            }
        }
        self.fill(place);
    }

    /// Watches the entries that are needed next. Those in memory tell nothing: they may have been
    /// there from the start.
    fn fill(&mut self, place: &Place) {
        let mut passed = 0;
        while self.watched.len() < WATCHED && passed < PASSED_MAX {
            let Some(entry) = self.pop() else {
                return;
            };
            passed += 1;
            let mut one = Watched {
                entry,
                file: None,
                looks: 0,
            };
            if !place.is_ours(entry) && place.is_there(&mut one) == Some(false) {
                self.watched.push(one);
                passed -= 1;
            }
        }
    }

    fn pop(&mut self) -> Option<Entry> {
        if self.next.is_empty() {
            let key = |entry: &Entry| (entry.need_ns, entry.node, entry.page);
            let count = self.later.len().min(SORTED);
            if count < self.later.len() {
                self.later.select_nth_unstable_by_key(count, key);
            }
            self.next = self.later.drain(..count).collect();
            self.next.sort_unstable_by_key(key);
            self.next.reverse();
        }
        self.next.pop()
    }
}

impl Place {
    fn is_ours(&self, entry: Entry) -> bool {
        match entry.page {
            Some(page) => self.gate.was_asked(entry.node, page),
            None => self.gate.was_looked_up(entry.node),
        }
    }

    /// Whether an entry is in memory; `None` if that can't be told.
    fn is_there(&self, one: &mut Watched) -> Option<bool> {
        let Entry { node, page, .. } = one.entry;
        if one.file.is_none() {
            let mut path = Vec::new();
            self.profile.path_into(node, &mut path);
            if !is_asked(&self.mounts, &path) {
                return None;
            }
            let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            let resolve = ResolveFlags::CACHED | ResolveFlags::NO_SYMLINKS;
            let found = openat2(
                rustix::fs::CWD,
                path.as_slice(),
                flags,
                Mode::empty(),
                resolve,
            );
            let found = match found {
                Ok(found) => found,
                Err(rustix::io::Errno::AGAIN) => return Some(false),
                Err(_) => return None,
            };
            if page.is_none() {
                return Some(true);
            }
            one.file = Some(reopen(&found)?);
        }
        let file = one.file.as_ref()?;
        is_cached(file, page?)
    }
}

/// Opens a regular file for reading that was found.
fn reopen(found: &OwnedFd) -> Option<OwnedFd> {
    // Opening wakes the writer of a FIFO, rewinds a tape, starts a watchdog.
    let stat = fstat(found).ok()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return None;
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let own = format!("/proc/self/fd/{}", found.as_raw_fd());
    open(own, flags, Mode::empty()).ok()
}

/// Whether a page is cached, by means that read nothing in.
fn is_cached(file: &OwnedFd, page: u64) -> Option<bool> {
    // Overlays keep nothing in inodes of their own, of which alone cachestat knows.
    if has_cachestat() && cached_pages(file, page, 1).ok()? > 0 {
        return Some(true);
    }
    let is_own = || fstat(file).is_ok_and(|stat| stat.st_uid == geteuid().as_raw());
    if !geteuid().is_root() && !is_own() {
        return has_cachestat().then_some(false);
    }
    let mut missing = Vec::new();
    missing_by_map(file.as_fd(), page, 1, &mut missing).ok()?;
    Some(missing.is_empty())
}

/// The entries of a profile: those of this program, and those of any program of its interpreter.
fn entries(profile: &Profile) -> [Vec<Entry>; 2] {
    let (mut own, mut shared) = (Vec::new(), Vec::new());
    for (id, node) in profile.iter() {
        if node.kind == NodeKind::Absent || node.identity.inode == 0 {
            continue;
        }
        let entries = match node.is_of_any_program() {
            true => &mut shared,
            false => &mut own,
        };
        let entry = |need_ns, page| Entry {
            need_ns,
            node: id,
            page,
        };
        let ranges = profile.ranges(id);
        if ranges.is_empty() {
            entries.push(entry(node.need_ns, None));
            continue;
        }
        let size_pages = node.identity.size_bytes.div_ceil(PAGE_BYTES);
        for range in ranges {
            let end_page = range.end_page().min(size_pages);
            let pages = (range.start_page..end_page).step_by(STEP_PAGES);
            let pages = pages.take(ENTRIES_OF_RANGE_MAX);
            entries.extend(pages.map(|page| entry(range.need_ns, Some(page))));
        }
    }
    [own, shared]
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    use foreread_prefetch::proof::Allowance;
    use foreread_profile::{Identity, ProfileBuilder, Program, Source, Uses};
    use rustix::fs::{Advice, fadvise};

    use super::*;

    fn profile_of(paths: &[&Path], pages: u64) -> Arc<Profile> {
        let mut builder = ProfileBuilder::new(Program::default(), Source::default());
        for (need_ns, path) in (1..).zip(paths) {
            let id = builder.node(path.as_os_str().as_bytes()).unwrap();
            let identity = Identity {
                inode: 1,
                size_bytes: pages * PAGE_BYTES,
                ..Identity::default()
            };
            builder.set_identity(id, identity);
            builder.pages(id, 0, pages, need_ns << 30);
        }
        Arc::new(builder.finish())
    }

    #[test]
    fn pages_that_come_into_memory_are_signs_unless_the_replay_asked_for_them() {
        let scratch = tempfile::tempdir().unwrap();
        let top = scratch.path().canonicalize().unwrap();
        let [one, two] = ["one", "two"].map(|name| top.join(name));
        for path in [&one, &two] {
            fs::write(path, [1; 4096]).unwrap();
            fs::File::open(path).unwrap().sync_all().unwrap();
            fadvise(fs::File::open(path).unwrap(), 0, None, Advice::DontNeed).unwrap();
        }
        let profile = profile_of(&[&one, &two], 1);
        let gate = Arc::new(Gate::new(Allowance::NOTHING));
        let mut signs = Signs::new(Arc::clone(&profile), Arc::clone(&gate), false);
        if !signs.can_tell() {
            println!(
                "skipped: the pages of files in {} stay in memory",
                top.display()
            );
            return;
        }
        assert_eq!(signs.count(false).signs, 0);
        let watched = signs.own.watched.len();
        let read = |path: &Path| {
            let mut file = fs::File::open(path).unwrap();
            file.read_exact(&mut [0; 4096]).unwrap();
        };
        gate.note_asked(profile.find(two.as_os_str().as_bytes()).unwrap(), 0, 1);
        read(&two);
        assert_eq!(signs.count(false).signs, 0, "the replay may have read it");
        read(&one);
        assert_eq!(signs.count(false).signs, watched as u64 - 1);
        assert!(!signs.can_tell());
    }

    #[test]
    fn what_is_missing_or_a_directory_by_now_is_no_sign() {
        let scratch = tempfile::tempdir().unwrap();
        let top = scratch.path().canonicalize().unwrap();
        let gone = top.join("gone");
        let profile = profile_of(&[&gone, &top.join("under/neath")], 1);
        let gate = Arc::new(Gate::new(Allowance::NOTHING));
        let mut signs = Signs::new(profile, gate, false);
        fs::create_dir(&gone).unwrap();
        assert_eq!(signs.count(false).signs, 0);
    }

    #[test]
    fn an_open_file_is_a_sign_once_or_always_if_it_is_large() {
        let [small, large] = ["/small", "/large"].map(Path::new);
        let mut profile = Profile::clone(&profile_of(&[small, large], 100));
        profile.ranges[1].pages = 3;
        let gate = Arc::new(Gate::new(Allowance::NOTHING));
        let mut signs = Signs::new(Arc::new(profile), gate, false);
        let mut open = |path: &str| {
            signs.take_open(std::iter::once(path.as_bytes().to_vec()));
            signs.count(true).signs
        };
        // Names are in order: the first range is that of the large one.
        assert_eq!([open("/small"), open("/small"), open("/other")], [1, 1, 1]);
        assert_eq!([open("/large"), open("/large")], [2, 3]);
    }

    #[test]
    fn entries_that_nobody_comes_to_make_room_for_others() {
        let scratch = tempfile::tempdir().unwrap();
        let top = scratch.path().canonicalize().unwrap();
        let paths: Vec<_> = (0..2 * WATCHED).map(|n| top.join(n.to_string())).collect();
        let paths: Vec<_> = paths.iter().map(|path| path.as_path()).collect();
        let gate = Arc::new(Gate::new(Allowance::NOTHING));
        let mut signs = Signs::new(profile_of(&paths, 1), gate, false);
        let mut seen = HashSet::new();
        for _ in 0..3 * LOOKS_MAX {
            seen.extend(signs.own.watched.iter().map(|one| one.entry.node));
            signs.count(true);
        }
        let is_listed = seen.len() >= paths.len() || seen.is_empty();
        assert!(is_listed, "{}", seen.len());
    }

    #[test]
    fn long_ranges_and_doubts() {
        let path = Path::new("/long");
        let profile = profile_of(&[path], 192);
        let pages = |entries: &[Entry]| -> Vec<_> {
            entries.iter().filter_map(|entry| entry.page).collect()
        };
        let [own, shared] = entries(&profile);
        assert_eq!((pages(&own), shared.len()), (vec![0, 64, 128], 0));
        let mut mapped = Profile::clone(&profile);
        for node in &mut mapped.nodes {
            node.uses = Uses::MAPPED;
        }
        let [own, shared] = entries(&mapped);
        assert_eq!((own.len(), pages(&shared)), (0, vec![0, 64, 128]));
    }
}
