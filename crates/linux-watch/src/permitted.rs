// SPDX-License-Identifier: MIT OR Apache-2.0
//! Holds lists and read plans against the rights of their reader.
//!
//! Input: directories to list, plans to carry out. Output: the part of them that the reader may
//! read itself. A directory on the way must be searchable, a directory to list readable as well,
//! and a file readable. The rules are those of [`foreread_watch::permission`]; here their facts are
//! found: mode, owner and access control list of each, by its path.
//!
//! Looking an entry up is access to its directory, so a directory is checked before anything below
//! it is looked up. File systems with servers are left alone, since only the server knows.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use foreread_core::mounts::{MountPoint, Mounts};
use foreread_prefetch::plan::ReadPlan;
use foreread_profile::{NodeId, NodeKind, PathTree, Uses};
use foreread_sys::mounts::MountTable;
use foreread_watch::permission::{
    Acl, Inode, ListState, READ, SEARCH, is_local, permits, translate,
};
use foreread_watch::skipped::Skipped;
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, getxattr, lgetxattr, openat2,
    statat,
};
use rustix::io::Errno;

use super::listing::far;
use super::reader::{Limits, Reader, Rights};

/// An answer about a directory counts for this long.
const ANSWERS_FOR: Duration = Duration::from_secs(1);
/// Directories whose answers are kept.
const ANSWERS_MAX: usize = 4096;
/// Access control lists have at most some hundred entries on the known file systems.
const LIST_BYTES_MAX: usize = 1 << 14;
const LIST_NAME: &str = "system.posix_acl_access";

/// The rights of one reader, and what was found by them.
pub(super) struct Permitted {
    reader: Reader,
    mount_table: MountTable,
    /// Whether the reader may search this directory and all above it, and read it.
    answers: HashMap<Vec<u8>, Answer>,
    since: Instant,
    rights: Rights,
    /// Whether the reader may not list a directory that was asked about.
    has_refused: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Answer {
    may_search: bool,
    may_read: bool,
}

/// A plan as far as its reader may read it.
pub(super) struct Checked {
    pub plan: ReadPlan,
    /// Files and directories that the reader may not read.
    pub withheld: u64,
}

impl Permitted {
    pub fn new(reader: Reader) -> Self {
        Self {
            reader,
            mount_table: MountTable::default(),
            answers: HashMap::new(),
            since: Instant::now(),
            rights: Rights::None(Skipped::UnknownReader),
            has_refused: false,
        }
    }

    /// Finds the rights of the reader anew, before each list and each fetch. Returns why nothing
    /// may be read on its behalf.
    pub fn begin(&mut self) -> Option<Skipped> {
        let rights = self.reader.rights();
        let is_same = match (&self.rights, &rights) {
            (Rights::Some(old), Rights::Some(new)) => {
                let both = [old, new];
                let see_as_we = both.iter().all(|of| of.mounts.is_none());
                see_as_we && old.credentials == new.credentials
            }
            _ => false,
        };
        if !is_same || self.since.elapsed() >= ANSWERS_FOR || self.answers.len() >= ANSWERS_MAX {
            self.answers = HashMap::new();
            self.since = Instant::now();
        }
        self.rights = rights;
        match self.rights {
            Rights::None(why) => Some(why),
            Rights::All | Rights::Some(_) => None,
        }
    }

    /// The user to whom the reader wholly belonged when its rights were found last.
    pub fn owner(&self) -> Option<u32> {
        self.reader.owner()
    }

    /// Whether a directory that was asked about may not be listed.
    pub fn has_refused(&self) -> bool {
        self.has_refused
    }

    /// Whether the reader may list a directory, given by its path here, and look its entries up.
    pub fn may_list(&mut self, path: &[u8]) -> bool {
        let may_list = match self.rights.clone() {
            Rights::All => true,
            Rights::Some(limits) if path.is_empty() => self.answer(&limits, b"/").may_read,
            Rights::Some(limits) => self.answer(&limits, path).may_read,
            Rights::None(_) => false,
        };
        self.has_refused |= !may_list;
        may_list
    }

    /// The part of a plan that the reader may read. `fetch` brings in the metadata of a part, so
    /// that looking it up here doesn't wait for one disk access after the other.
    pub fn check(&mut self, plan: ReadPlan, mut fetch: impl FnMut(ReadPlan)) -> Checked {
        let limits = match self.rights.clone() {
            Rights::All => return Checked { plan, withheld: 0 },
            Rights::Some(limits) => limits,
            Rights::None(_) => {
                let withheld = plan.wanted() as u64;
                return Checked {
                    plan: ReadPlan::default(),
                    withheld,
                };
            }
        };
        let mut plan = plan;
        let mut withheld = self.check_directories(&limits, &mut plan, &mut fetch);
        withheld += self.check_files(&limits, &mut plan, &mut fetch);
        Checked { plan, withheld }
    }

    /// Goes through the directories of a plan, level by level, and leaves out what lies in those
    /// that the reader may not search. Returns the number of what it left out.
    fn check_directories(
        &mut self,
        limits: &Arc<Limits>,
        plan: &mut ReadPlan,
        fetch: &mut impl FnMut(ReadPlan),
    ) -> u64 {
        let mut levels: Vec<Vec<NodeId>> = Vec::new();
        let mut level_of: Vec<usize> = Vec::with_capacity(plan.len());
        for (id, node) in plan.iter() {
            let above = node.parent.map(|parent| level_of[parent.0 as usize] + 1);
            let level = above.unwrap_or_default();
            level_of.push(level);
            if node.kind == NodeKind::Directory {
                levels.resize_with(levels.len().max(level + 1), Vec::new);
                levels[level].push(id);
            }
        }
        let is_same_view = limits.mounts.is_none();
        let mut is_open = vec![false; plan.len()];
        let mut closed = Vec::new();
        for level in levels {
            // In another mount namespace, other directories lie above it.
            let is_reached = |id: &NodeId| {
                let above = plan.node(*id).and_then(|node| node.parent);
                !is_same_view || above.is_none_or(|parent| is_open[parent.0 as usize])
            };
            let (reached, below_closed): (Vec<NodeId>, Vec<NodeId>) =
                level.into_iter().partition(is_reached);
            closed.extend(below_closed);
            let is_unknown = |id: &NodeId| !self.answers.contains_key(&path_of(plan, *id));
            let unknown: Vec<NodeId> = reached.iter().copied().filter(is_unknown).collect();
            let is_wanted = |id: &NodeId| plan.node(*id).is_some_and(|of| of.identity.inode != 0);
            if is_same_view && unknown.iter().any(is_wanted) {
                fetch(plan.metadata_of(&unknown));
            }
            for id in reached {
                let answer = self.answer(limits, &path_of(plan, id));
                is_open[id.0 as usize] = answer.may_search;
                if !answer.may_search || !answer.may_read && plan.uses(id).contains(Uses::LISTED) {
                    closed.push(id);
                }
            }
        }
        let files = plan.iter().filter(|(_, node)| {
            let is_reached = node.parent.is_some_and(|parent| is_open[parent.0 as usize]);
            node.kind != NodeKind::Directory && !is_reached
        });
        closed.extend(files.map(|(id, _)| id));
        let left_out = closed.into_iter().filter(|id| plan.leave_out(*id));
        left_out.count() as u64
    }

    /// Leaves the pages of files out that the reader may not read. Their metadata may be fetched:
    /// the reader may look them up.
    fn check_files(
        &mut self,
        limits: &Arc<Limits>,
        plan: &mut ReadPlan,
        fetch: &mut impl FnMut(ReadPlan),
    ) -> u64 {
        let files: Vec<NodeId> = plan.files_with_pages().map(|(id, _)| id).collect();
        if files.is_empty() {
            return 0;
        }
        fetch(plan.metadata_of(&files));
        let mut withheld = 0;
        let mut directory: Option<(NodeId, Option<OwnedFd>)> = None;
        for id in files {
            let Some(parent) = plan.node(id).and_then(|node| node.parent) else {
                continue;
            };
            if directory.as_ref().map(|(of, _)| *of) != Some(parent) {
                directory = Some((parent, open(&path_of(plan, parent)).ok()));
            }
            let opened = directory.as_ref().and_then(|(_, opened)| opened.as_ref());
            let is_open = opened.is_some_and(|opened| {
                let inode = inode_of_file(opened.as_fd(), plan.name(id), limits);
                inode.is_some_and(|inode| permits(&limits.credentials, &inode, READ))
            });
            if !is_open {
                withheld += u64::from(plan.leave_out(id));
            }
        }
        withheld
    }

    /// The answer about a directory, by its path here.
    fn answer(&mut self, limits: &Arc<Limits>, path: &[u8]) -> Answer {
        let Ok(ours) = self.mount_table.current() else {
            return Answer::default();
        };
        // All directories on the way, as the reader has them, up to one whose answer is known.
        let mut way = vec![path.to_vec()];
        while let Some(at) = way.last()
            && !self.answers.contains_key(at)
        {
            match above(at, limits.mounts.as_ref(), &ours) {
                Above::Directory(above) => way.push(above),
                Above::Nothing => break,
                Above::Unknown => {
                    self.answers.insert(path.to_vec(), Answer::default());
                    return Answer::default();
                }
            }
        }
        let mut is_open = true;
        let mut answer = Answer::default();
        for at in way.into_iter().rev() {
            answer = match self.answers.get(&at) {
                Some(known) => *known,
                None if is_open => of_directory(limits, &ours, &at),
                None => Answer::default(),
            };
            is_open = answer.may_search;
            self.answers.insert(at, answer);
        }
        answer
    }
}

fn path_of(plan: &ReadPlan, id: NodeId) -> Vec<u8> {
    let mut path = Vec::new();
    plan.path_into(id, &mut path);
    path
}

enum Above {
    Directory(Vec<u8>),
    /// It is the root directory of the reader.
    Nothing,
    /// The reader doesn't see it, or something above it isn't seen here.
    Unknown,
}

/// The path here of the directory above one, as the reader has it.
fn above(path: &[u8], theirs: Option<&Mounts>, ours: &Mounts) -> Above {
    let Some(theirs) = theirs else {
        return parent(path).map_or(Above::Nothing, |above| Above::Directory(above.to_vec()));
    };
    let Some(there) = translate(ours, theirs, path) else {
        return Above::Unknown;
    };
    match parent(&there) {
        None => Above::Nothing,
        Some(above) => translate(theirs, ours, above).map_or(Above::Unknown, Above::Directory),
    }
}

fn parent(path: &[u8]) -> Option<&[u8]> {
    let slash = path.iter().rposition(|byte| *byte == b'/')?;
    (path.len() > 1).then(|| &path[..slash.max(1)])
}

fn of_directory(limits: &Limits, ours: &Mounts, path: &[u8]) -> Answer {
    let point = ours.mount_of(path).and_then(|at| ours.points().get(at));
    // Directories in memory only lead to mounts: nothing is fetched from them. A look at autofs
    // would mount what it stands for.
    let is_in_memory = |point: &MountPoint| point.is_virtual() && point.fs_type != b"autofs";
    let is_known = point.is_some_and(|point| is_local(&point.fs_type) || is_in_memory(point));
    let is_judged = is_known && ours.is_local(path) && far(ours, path).is_none();
    let opened = is_judged.then(|| open(path).ok()).flatten();
    let inode = opened.and_then(|opened| inode_of(&opened, limits));
    let Some(inode) = inode else {
        return Answer::default();
    };
    let may_search = permits(&limits.credentials, &inode, SEARCH);
    Answer {
        may_search,
        may_read: may_search && permits(&limits.credentials, &inode, READ),
    }
}

fn open(path: &[u8]) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let path = Path::new(OsStr::from_bytes(path));
    openat2(rustix::fs::CWD, path, flags, Mode::empty(), resolve)
}

fn inode_of(directory: &OwnedFd, limits: &Limits) -> Option<Inode> {
    let mut inode = without_list(&fstat(directory).ok()?);
    if inode.needs_list(&limits.credentials) {
        // A descriptor of this kind gives its attributes by this path only.
        let path = format!("/proc/self/fd/{}", directory.as_raw_fd());
        inode.list = list_of(|value| getxattr(&path, LIST_NAME, value));
    }
    Some(inode)
}

/// The facts about a regular file; `None` of anything else.
fn inode_of_file(directory: BorrowedFd<'_>, name: &[u8], limits: &Limits) -> Option<Inode> {
    let stat = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return None;
    }
    let mut inode = without_list(&stat);
    if inode.needs_list(&limits.credentials) {
        let mut path = format!("/proc/self/fd/{}/", directory.as_raw_fd()).into_bytes();
        path.extend_from_slice(name);
        inode.list = list_of(|value| lgetxattr(path.as_slice(), LIST_NAME, value));
    }
    Some(inode)
}

fn without_list(stat: &Stat) -> Inode {
    Inode {
        mode: stat.st_mode,
        user: stat.st_uid,
        group: stat.st_gid,
        list: ListState::None,
    }
}

fn list_of(read: impl FnOnce(&mut [u8]) -> rustix::io::Result<usize>) -> ListState {
    let mut value = [0; LIST_BYTES_MAX];
    match read(&mut value) {
        Ok(bytes) => {
            let list = value.get(..bytes).and_then(Acl::parse);
            list.map_or(ListState::Unknown, ListState::List)
        }
        // It has none, or its file system has no lists.
        Err(Errno::NODATA | Errno::NOTSUP) => ListState::None,
        Err(_) => ListState::Unknown,
    }
}

#[cfg(test)]
mod tests;
