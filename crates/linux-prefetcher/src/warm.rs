// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the cached share of a profile's files and pages, without reading anything.
//!
//! The command waits for the answer. So nothing is asked that a server or a device could leave
//! unanswered: files of other than local file systems are left out, each file is looked at before
//! it is opened, and only regular files are. Write leases aren't looked for, which would take
//! longer than the look: at most 96 files are opened, all of which the command opened last time.

use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use foreread_profile::{Node, NodeId, NodeKind, PAGE_BYTES, Profile};
use foreread_sys::cache::{cached_pages, is_cached};
use foreread_sys::mounts::{Mounts, mounts_of_self};
use foreread_sys::process_stat::thread_runs;
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, ResolveFlags, Statx, StatxFlags, open, openat2, statx,
};
use rustix::thread::gettid;

/// Number of nodes that are examined, at some microseconds each. These are the heaviest nodes,
/// since one of them may hold most of the pages, and some spread over the rest, which represent it.
const HEAVIEST: usize = 32;
const SAMPLE: usize = 64;

/// Share of the profile that is cached, in thousandths, estimated from the files on local file
/// systems. A path that isn't in the dentry cache counts as not cached, and so does everything
/// before Linux 5.12 (no `RESOLVE_CACHED`) and without `/proc`.
#[must_use]
pub fn cached_permille(profile: &Profile) -> u16 {
    mounts_of_self().map_or(0, |mounts| cached_permille_on(profile, &mounts))
}

/// The same, as long as nothing keeps it waiting for more than [`WAIT_MAX`]: a local disk may be
/// dead, too. `None` then; the thread that looks is left behind.
#[must_use]
pub fn cached_permille_soon(profile: &Arc<Profile>) -> Option<u16> {
    let looker = Arc::new(AtomicI32::new(0));
    let (tell, told) = channel();
    let (of_thread, profile) = (Arc::clone(&looker), Arc::clone(profile));
    let look = move || {
        of_thread.store(gettid().as_raw_nonzero().get(), Ordering::Relaxed);
        // Nobody may wait any more.
        let _ = tell.send(cached_permille(&profile));
    };
    let thread = thread::Builder::new().name("look".into());
    drop(thread.spawn(look).ok()?);
    let began = Instant::now();
    loop {
        match told.recv_timeout(WAIT_MAX) {
            Ok(permille) => return Some(permille),
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) => {}
        }
        // One that waits for the processor will tell soon.
        let looker = looker.load(Ordering::Relaxed);
        let is_running = looker == 0 || thread_runs(looker);
        if !is_running || began.elapsed() > STARVED_MAX {
            return None;
        }
    }
}

/// Time that the command waits for the answer of a look that waits itself.
const WAIT_MAX: Duration = Duration::from_millis(20);
/// Time that it waits where other programs take the processor.
const STARVED_MAX: Duration = Duration::from_millis(500);

fn cached_permille_on(profile: &Profile, mounts: &Mounts) -> u16 {
    let mut nodes: Vec<(u64, NodeId)> = profile
        .iter()
        .filter(|(_, node)| node.kind != NodeKind::Absent && node.identity.inode != 0)
        .map(|(id, _)| (weight(profile, id), id))
        .collect();
    let heaviest = nodes.len().min(HEAVIEST);
    if heaviest < nodes.len() {
        nodes.select_nth_unstable_by(heaviest, |a, b| b.cmp(a));
    }
    let (heaviest, rest) = nodes.split_at_mut(heaviest);
    // As they lie in the profile, so that the sample is spread over all directories.
    rest.sort_unstable_by_key(|(_, id)| *id);
    let step = rest.len().div_ceil(SAMPLE).max(1);
    let of_heaviest = Sums::of(profile, mounts, heaviest.iter());
    let sampled = Sums::of(profile, mounts, rest.iter().step_by(step));
    let rest: u64 = rest.iter().map(|(weight, _)| weight).sum();
    // The sample stands for the rest, in its local part, too.
    let of_rest = |part: u64| {
        let scaled = u128::from(part) * u128::from(rest);
        scaled.checked_div(sampled.all.into()).unwrap_or(0)
    };
    let cached = (u128::from(of_heaviest.cached) + of_rest(sampled.cached)) * 1000;
    let permille = cached.checked_div(u128::from(of_heaviest.local) + of_rest(sampled.local));
    u16::try_from(permille.unwrap_or(0)).unwrap_or(1000)
}

/// Pages of a node; the inode itself weighs as much as one.
fn weight(profile: &Profile, id: NodeId) -> u64 {
    let ranges = profile.ranges(id).iter();
    ranges.fold(1, |sum, range| sum.saturating_add(range.pages))
}

/// Weights of some nodes.
#[derive(Default)]
struct Sums {
    all: u64,
    /// Weight of the nodes on local file systems.
    local: u64,
    /// Weight of the cached part of these.
    cached: u64,
}

impl Sums {
    fn of<'a>(
        profile: &Profile,
        mounts: &Mounts,
        nodes: impl Iterator<Item = &'a (u64, NodeId)>,
    ) -> Self {
        let mut path = Vec::new();
        let mut sums = Self::default();
        for (weight, id) in nodes {
            let Some(node) = profile.node(*id) else {
                continue;
            };
            profile.path_into(*id, &mut path);
            sums.all = sums.all.saturating_add(*weight);
            if is_asked(mounts, &path) {
                let cached = cached_of(profile, *id, node, &path);
                sums.cached = sums.cached.saturating_add(cached);
                sums.local = sums.local.saturating_add(*weight);
            }
        }
        sums
    }
}

/// Whether a path is looked at: nobody else has to answer, and its file has pages. Files that the
/// kernel makes up may do something when they are opened.
pub(super) fn is_asked(mounts: &Mounts, path: &[u8]) -> bool {
    let at = mounts.mount_of(path).and_then(|at| mounts.points().get(at));
    let has_pages = at.is_some_and(|point| {
        let in_memory: [&[u8]; 2] = [b"tmpfs", b"ramfs"];
        !point.is_virtual() || in_memory.contains(&point.fs_type.as_slice())
    });
    has_pages && mounts.is_local(path)
}

fn cached_of(profile: &Profile, id: NodeId, node: &Node, path: &[u8]) -> u64 {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let resolve = ResolveFlags::CACHED | ResolveFlags::NO_SYMLINKS;
    let Ok(seen) = openat2(rustix::fs::CWD, path, flags, Mode::empty(), resolve) else {
        return 0;
    };
    if node.kind != NodeKind::File || node.range_count == 0 {
        return 1;
    }
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let Ok(stat) = statx(
        &seen,
        c"",
        flags,
        StatxFlags::TYPE | StatxFlags::SIZE | StatxFlags::INO,
    ) else {
        return 0;
    };
    // Opening wakes the writer of a FIFO, rewinds a tape, starts a watchdog.
    if file_type(&stat) != FileType::RegularFile {
        return 0;
    }
    // The same file, whatever stands there meanwhile.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let own = format!("/proc/self/fd/{}", seen.as_raw_fd());
    let Ok(fd) = open(own, flags, Mode::empty()) else {
        return 0;
    };
    let size_pages = stat.stx_size.div_ceil(PAGE_BYTES);
    let ranges = profile.ranges(id).iter().map(|range| {
        let gone = range.end_page().saturating_sub(size_pages).min(range.pages);
        let there = range.pages - gone;
        let cached = cached_pages(&fd, range.start_page, there)
            // Not ours to ask about: one page stands for the range.
            .unwrap_or_else(|_| {
                if is_cached(&fd, range.start_page) {
                    there
                } else {
                    0
                }
            });
        cached + gone
    });
    1 + ranges.sum::<u64>()
}

fn file_type(stat: &Statx) -> FileType {
    FileType::from_raw_mode(stat.stx_mode.into())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::{MetadataExt, symlink};
    use std::path::Path;

    use foreread_profile::{Identity, ProfileBuilder, Program, Source};

    use super::*;

    /// A profile of everything there, each file with its first page.
    fn profile_of(paths: &[&Path]) -> Profile {
        let mut builder = ProfileBuilder::new(Program::default(), Source::default());
        for path in paths {
            let id = builder.node(path.as_os_str().as_bytes()).unwrap();
            // A file that is gone was there once.
            let stat = fs::symlink_metadata(path);
            let file_type = stat.as_ref().map(fs::Metadata::file_type);
            let kind = match file_type {
                Ok(kind) if kind.is_dir() => NodeKind::Directory,
                Ok(kind) if kind.is_symlink() => NodeKind::Symlink,
                _ => NodeKind::File,
            };
            builder.set_kind(id, kind);
            let inode = stat.map_or(1, |stat| stat.ino());
            builder.set_identity(
                id,
                Identity {
                    inode,
                    ..Identity::default()
                },
            );
            if path.extension().is_some() {
                builder.pages(id, 0, 1, 0);
            }
        }
        builder.finish()
    }

    #[test]
    fn what_was_just_made_is_cached_whatever_it_is() {
        let scratch = tempfile::tempdir().unwrap();
        let top = scratch.path().canonicalize().unwrap();
        let [read, looked_at, link] = ["read.txt", "looked-at", "link"].map(|name| top.join(name));
        fs::write(&read, [1; 5000]).unwrap();
        fs::write(&looked_at, [1; 5000]).unwrap();
        symlink("read.txt", &link).unwrap();
        // Looked up once, so that the dentries are there.
        for path in [&top, &read, &looked_at, &link] {
            fs::symlink_metadata(path).unwrap();
        }
        let profile = Arc::new(profile_of(&[&top, &read, &looked_at, &link]));
        assert_eq!(cached_permille(&profile), 1000);
        // Starved of the processor it may not come in time.
        assert!(cached_permille_soon(&profile).is_none_or(|permille| permille == 1000));
    }

    #[test]
    fn what_is_not_there_is_not_cached() {
        let scratch = tempfile::tempdir().unwrap();
        let top = scratch.path().canonicalize().unwrap();
        let there = top.join("there");
        fs::write(&there, [1; 5000]).unwrap();
        fs::symlink_metadata(&there).unwrap();
        // Two of two pages' weight are missing, one is there.
        let half = cached_permille(&profile_of(&[&there, &top.join("gone.txt")]));
        assert_eq!(half, 333);
    }

    #[test]
    fn nothing_but_regular_files_of_local_file_systems_is_opened() {
        let scratch = tempfile::tempdir().unwrap();
        let top = scratch.path().canonicalize().unwrap();
        let there = top.join("there.txt");
        fs::write(&there, [1; 4096]).unwrap();
        fs::symlink_metadata(&there).unwrap();
        let profile = profile_of(&[&there]);
        assert_eq!(cached_permille(&profile), 1000);
        // The same file, said to be on a server.
        let mount = |fs_type: &str| {
            let line = format!("22 1 0:50 / / rw - {fs_type} server rw\n");
            Mounts::parse(line.as_bytes())
        };
        assert_eq!(cached_permille_on(&profile, &mount("ext4")), 1000);
        for remote in ["nfs4", "fuse.sshfs", "cifs", "9p", "autofs", "unheard-of"] {
            assert_eq!(cached_permille_on(&profile, &mount(remote)), 0, "{remote}");
        }
        // A FIFO in its place is not opened: its writer would go on.
        fs::remove_file(&there).unwrap();
        let fifo = std::process::Command::new("mkfifo")
            .arg(&there)
            .status()
            .unwrap();
        assert!(fifo.success());
        fs::symlink_metadata(&there).unwrap();
        let flags = OFlags::WRONLY | OFlags::NONBLOCK;
        assert_eq!(cached_permille(&profile), 0);
        let writer = open(&there, flags, Mode::empty());
        assert_eq!(
            writer.unwrap_err(),
            rustix::io::Errno::NXIO,
            "nobody reads it"
        );
    }
}
