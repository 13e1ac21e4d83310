// SPDX-License-Identifier: MIT OR Apache-2.0
//! Moves parts of files on an ext4 to chosen places.
//!
//! In: files by inode number and generation, and steps that say from where to where. Out: what was
//! moved, and why the rest wasn't. It goes group by group of the new places. What is to be moved
//! into a group (at most 128 MiB) is read into the page cache, in the order in which it lies. Then
//! it goes by portions:
//!
//! 1. The files are opened. One that somebody writes, executes or has leased is left alone.
//! 2. The contents are kept in memory.
//! 3. The kernel exchanges it with blocks of donors ([`Claim`]): copy and change of the block map
//!    are one transaction of its journal.
//! 4. It is written and committed. Then its new place is read from the disk, past the page cache,
//!    and compared, and the kernel is asked whether the file lies there. A difference ends the
//!    pass, unless the file was written meanwhile.
//!
//! A stop is heeded while files are looked at and read, and between two exchanges; what was
//! exchanged is compared first.
//!
//! The donors have the old blocks then, and free them when they are closed.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;

use foreread_layout::{Obstacle, PassFile, Run, Step};
use foreread_prefetch::ext4::Geometry;
use foreread_profile::PAGE_BYTES;
use foreread_sys::cache::cached_pages;
use foreread_sys::fiemap::runs;
use foreread_sys::file_flags::flags_of;
use foreread_sys::handle::Handles;
use foreread_sys::leases;
use foreread_sys::move_extents::{Exchange, exchange};
use foreread_sys::read_ahead::readahead;
use foreread_sys::write_out;
use rustix::fs::{Advice, FileType, OFlags, Stat, fadvise, fstat, fsync, syncfs};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use thiserror::Error;

use crate::claim::Claim;
use crate::obstacles;
use crate::refusal::Movable;

/// Runs of a file that are looked at.
const RUNS_MAX: usize = 1 << 16;

/// Bytes that are moved before they are compared, at most: they are kept in memory meanwhile.
const PORTION_BYTES_MAX: u64 = 32 << 20;
const PORTION_BYTES_MIN: u64 = 1 << 20;

/// Parts of a portion: each may be a file, with a descriptor.
const PORTION_PARTS_MAX: usize = 2048;

/// How often a place is tried that is taken. It may be taken by the block map of the very file,
/// which grows while the file is in pieces and shrinks when it is whole again.
const ROUNDS_MAX: u32 = 4;

/// How often an exchange is tried.
const EXCHANGES_MAX: u32 = 4;

/// Descriptors for the files of a portion and for the donors of a group of 32,768 blocks.
const DESCRIPTORS: u64 = 8192;

/// The largest part that is read and compared at a time.
const PART_BYTES_MAX: u64 = 1 << 20;

/// What is read at a time of the new places: more than a part, so that most lie in one piece.
const PLACES_BYTES: usize = 4 << 20;

/// Alignment of reads past the page cache: no logical block of a disk is larger.
const DIRECT_BYTES: usize = 4096;

/// Why a part of a file wasn't moved.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Error)]
pub enum Skipped {
    /// The file was removed, or replaced.
    #[error("the file is gone")]
    Gone,
    /// Its blocks are not where they were when the pass was planned.
    #[error("it was changed since the plan")]
    Changed,
    /// Somebody has it open for writing, mapped so, or has just changed it.
    #[error("somebody writes it")]
    Written,
    /// Somebody executes it.
    #[error("it is being executed")]
    Executed,
    /// Somebody holds a lease on it, such as a file server for a client.
    #[error("somebody has leased it")]
    Leased,
    /// As at the plan.
    #[error("{0}")]
    Obstacle(Obstacle),
    /// Its new place is taken, or the kernel gives other blocks to the donors.
    #[error("its new place is taken")]
    Taken,
    /// The kernel doesn't move it.
    #[error("the kernel refuses: {0}")]
    Refused(String),
}

impl Skipped {
    /// Whether another try can't help either.
    #[must_use]
    pub const fn is_for_good(&self) -> bool {
        matches!(self, Self::Gone | Self::Changed | Self::Taken)
    }
}

/// What a pass did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Bytes that were moved.
    pub bytes: u64,
    /// Bytes that were there already.
    pub there_bytes: u64,
    /// What wasn't moved: the file's index, how many bytes, and why.
    pub skipped: Vec<(usize, u64, Skipped)>,
    /// Bytes that were moved and couldn't be compared, because the file was written meanwhile.
    pub written_bytes: u64,
    /// Whether it was stopped.
    pub is_stopped: bool,
}

/// Where what a pass is about lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Bytes that lie where they should.
    pub there_bytes: u64,
    /// Bytes that lie where they were before.
    pub to_do_bytes: u64,
    /// Bytes that somebody else has given another place, or that are gone.
    pub elsewhere_bytes: u64,
}

/// An error that ends a pass.
#[derive(Debug, Error)]
pub enum MoveError {
    /// What is on the disk isn't what was there before.
    #[error("{path}, byte {offset_bytes}: the contents differ after the move")]
    Differs {
        /// The file.
        path: String,
        /// Where the part starts.
        offset_bytes: u64,
    },
    /// The file system can't be used.
    #[error("{what}: {error}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        error: io::Error,
    },
}

/// Who wants to know how far it is, and may stop it.
pub trait Watcher {
    /// Whether to stop. Asked several times a second.
    fn is_stopped(&mut self) -> bool;
    /// So many bytes more are done or skipped.
    fn done(&mut self, bytes: u64);
}

/// One file system with its blocks.
pub struct Mover<'g> {
    directory: BorrowedFd<'g>,
    device: &'g File,
    handles: Handles,
    geometry: &'g Geometry,
    block_bytes: u64,
    portion_bytes: u64,
}

/// Blocks of a file that go to blocks of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Task {
    file: usize,
    file_block: u64,
    blocks: u64,
    from_block: u64,
    to_block: u64,
    /// Some of it was in the page cache before.
    was_cached: bool,
}

/// A file of a portion.
struct Opened {
    writer: File,
    before: Stat,
}

/// What was read before it was moved.
struct Kept {
    task: Task,
    bytes: Result<Vec<u8>, Skipped>,
    /// Blocks that were moved, from the first on.
    moved_blocks: u64,
}

impl<'g> Mover<'g> {
    /// A mover on a file system. `bandwidth_bytes_per_s` of the device bounds
    /// what is moved at a time to a quarter of a second.
    ///
    /// # Errors
    /// When the file system has no handles.
    pub fn of(movable: &'g Movable, bandwidth_bytes_per_s: u64) -> Result<Self, MoveError> {
        let cannot = |what| move |error| MoveError::Io { what, error };
        more_descriptors();
        let copy = movable
            .directory
            .try_clone()
            .map_err(cannot("its directory"))?;
        Ok(Self {
            directory: movable.directory.as_fd(),
            device: &movable.device,
            handles: Handles::of(copy).map_err(cannot("opening files by number"))?,
            geometry: &movable.geometry,
            block_bytes: movable.geometry.block_bytes().into(),
            portion_bytes: (bandwidth_bytes_per_s / 4).clamp(PORTION_BYTES_MIN, PORTION_BYTES_MAX),
        })
    }

    /// Where what these steps are about lies now. Nothing is moved.
    pub fn standing(
        &self,
        files: &[PassFile],
        steps: &[Step],
        watcher: &mut dyn Watcher,
    ) -> Standing {
        let mut moved = Moved::default();
        let tasks = self.tasks(files, steps, &mut moved, watcher);
        let to_do_blocks: u64 = tasks.iter().map(|task| task.blocks).sum();
        Standing {
            there_bytes: moved.there_bytes,
            to_do_bytes: to_do_blocks * self.block_bytes,
            elsewhere_bytes: moved.skipped.iter().map(|(_, bytes, _)| bytes).sum(),
        }
    }

    /// Moves what these steps say.
    ///
    /// # Errors
    /// When contents differ, or the file system fails. What was moved before stays.
    pub fn run(
        &self,
        files: &[PassFile],
        steps: &[Step],
        watcher: &mut dyn Watcher,
    ) -> Result<Moved, MoveError> {
        // What others have freed can be taken once that is committed: such as the donors of a pass
        // that was cut short.
        self.commit()?;
        let mut moved = self.round(files, steps, watcher)?;
        for _ in 1..ROUNDS_MAX {
            let is_taken = |(_, _, why): &(usize, u64, Skipped)| *why == Skipped::Taken;
            if moved.is_stopped || !moved.skipped.iter().any(is_taken) {
                break;
            }
            let again = self.round(files, steps, watcher)?;
            moved.skipped = again.skipped;
            moved.is_stopped = again.is_stopped;
            moved.written_bytes += again.written_bytes;
            moved.bytes += again.bytes;
            if again.bytes == 0 {
                break;
            }
        }
        moved.skipped.sort();
        Ok(moved)
    }

    fn round(
        &self,
        files: &[PassFile],
        steps: &[Step],
        watcher: &mut dyn Watcher,
    ) -> Result<Moved, MoveError> {
        let mut moved = Moved::default();
        let tasks = self.tasks(files, steps, &mut moved, watcher);
        let mut tasks = &tasks[..];
        while let Some(first) = tasks.first() {
            if moved.is_stopped || watcher.is_stopped() {
                moved.is_stopped = true;
                break;
            }
            let group = self.geometry.group_of_block(first.to_block);
            let of_group = tasks
                .iter()
                .take_while(|task| self.geometry.group_of_block(task.to_block) == group)
                .count();
            let (now, later) = tasks.split_at(of_group);
            self.group(group, files, now, &mut moved, watcher)?;
            tasks = later;
        }
        // The same of the old blocks.
        self.commit()?;
        Ok(moved)
    }

    fn commit(&self) -> Result<(), MoveError> {
        syncfs(self.directory).map_err(|error| MoveError::Io {
            what: "committing what has changed",
            error: error.into(),
        })
    }

    /// What is left to do of these steps, cut at the borders of groups, in the order of the new
    /// places.
    fn tasks(
        &self,
        files: &[PassFile],
        steps: &[Step],
        moved: &mut Moved,
        watcher: &mut dyn Watcher,
    ) -> Vec<Task> {
        let mut by_file: HashMap<usize, Vec<&Step>> = HashMap::new();
        for step in steps {
            by_file.entry(step.file).or_default().push(step);
        }
        let mut tasks = Vec::new();
        let mut seen = HashSet::new();
        for (number, file) in files.iter().enumerate() {
            let Some(steps) = by_file.get(&number) else {
                continue;
            };
            if !seen.insert(file.inode) {
                // A file that is named twice would be moved twice, and its first place compared.
                for step in steps {
                    let skipped = (number, step.length_bytes, Skipped::Changed);
                    moved.skipped.push(skipped);
                    watcher.done(step.length_bytes);
                }
                continue;
            }
            if watcher.is_stopped() {
                moved.is_stopped = true;
                return Vec::new();
            }
            let runs = self.open(file, OFlags::RDONLY).and_then(|file| {
                let found = runs(&file, 0, u64::MAX, RUNS_MAX);
                found.map_err(|error| Skipped::Refused(error.to_string()))
            });
            for step in steps {
                let length_bytes = step.length_bytes;
                let runs = match &runs {
                    Ok(runs) => runs.iter().map(run).collect::<Vec<Run>>(),
                    Err(why) => {
                        moved.skipped.push((number, length_bytes, why.clone()));
                        watcher.done(length_bytes);
                        continue;
                    }
                };
                let progress = step.progress(&runs);
                moved.there_bytes += progress.there_bytes;
                if progress.elsewhere_bytes > 0 {
                    let skipped = (number, progress.elsewhere_bytes, Skipped::Changed);
                    moved.skipped.push(skipped);
                }
                watcher.done(progress.there_bytes + progress.elsewhere_bytes);
                for part in progress.to_do {
                    self.cut(&part, &mut tasks);
                }
            }
        }
        tasks.sort_unstable_by_key(|task| task.to_block);
        tasks
    }

    /// Cuts a step at the borders of groups, and into parts of a bounded size.
    fn cut(&self, step: &Step, tasks: &mut Vec<Task>) {
        let in_blocks = |bytes: u64| bytes / self.block_bytes;
        let mut at = 0;
        let blocks = in_blocks(step.length_bytes);
        while at < blocks {
            let to_block = in_blocks(step.to_bytes) + at;
            let group = self.geometry.group_of_block(to_block);
            let group_end = self.geometry.blocks_of_group(group).end;
            let length = (blocks - at)
                .min(in_blocks(PART_BYTES_MAX))
                .min(group_end.saturating_sub(to_block));
            if length == 0 {
                // Past the end of the file system: nothing can go there.
                break;
            }
            tasks.push(Task {
                file: step.file,
                file_block: in_blocks(step.offset_bytes) + at,
                blocks: length,
                from_block: in_blocks(step.from_bytes) + at,
                to_block,
                was_cached: false,
            });
            at += length;
        }
    }

    fn group(
        &self,
        group: u64,
        files: &[PassFile],
        tasks: &[Task],
        moved: &mut Moved,
        watcher: &mut dyn Watcher,
    ) -> Result<(), MoveError> {
        let mut wanted: Vec<Range<u64>> = Vec::new();
        for task in tasks {
            let end = task.to_block + task.blocks;
            match wanted.last_mut() {
                Some(last) if task.to_block <= last.end => last.end = last.end.max(end),
                _ => wanted.push(task.to_block..end),
            }
        }
        let blocks = self.geometry.blocks_of_group(group);
        let claim = Claim::of(self.directory, self.block_bytes, &blocks, &wanted);
        let claim = claim.map_err(|error| MoveError::Io {
            what: "taking free blocks",
            error,
        })?;
        let mut tasks = tasks.to_vec();
        self.read_group(files, &mut tasks, watcher);
        for portion in self.portions(&tasks) {
            if watcher.is_stopped() {
                moved.is_stopped = true;
                break;
            }
            self.portion(&claim, files, portion, moved, watcher)?;
        }
        Ok(())
    }

    /// Cuts tasks into portions, in their order.
    fn portions<'t>(&self, tasks: &'t [Task]) -> Vec<&'t [Task]> {
        let mut portions = Vec::new();
        let mut rest = tasks;
        while !rest.is_empty() {
            let mut bytes = 0;
            let fitting = rest.iter().take(PORTION_PARTS_MAX).take_while(|task| {
                bytes += task.blocks * self.block_bytes;
                bytes <= self.portion_bytes
            });
            let (now, later) = rest.split_at(fitting.count().max(1));
            portions.push(now);
            rest = later;
        }
        portions
    }

    /// Brings what is to be moved into the page cache, in the order in which it lies: once for all
    /// portions of a group, or the head would go over the old places for each of them. What fails
    /// here fails again when it is kept, and is told then.
    fn read_group(&self, files: &[PassFile], tasks: &mut [Task], watcher: &mut dyn Watcher) {
        tasks.sort_unstable_by_key(|task| task.from_block);
        let lengths: Vec<usize> = self.portions(tasks).iter().map(|part| part.len()).collect();
        let mut rest = &mut *tasks;
        for length in lengths {
            if watcher.is_stopped() {
                break;
            }
            let (now, later) = rest.split_at_mut(length);
            let mut opened = Vec::new();
            for task in now {
                let Ok(file) = self.open(&files[task.file], OFlags::RDONLY) else {
                    continue;
                };
                let (offset, bytes) = self.span(task);
                let pages = (offset / PAGE_BYTES, bytes.div_ceil(PAGE_BYTES));
                let cached = cached_pages(&file, pages.0, pages.1);
                task.was_cached = !matches!(cached, Ok(0));
                let _ = readahead(&file, offset, bytes);
                opened.push((file, offset, bytes));
            }
            // Waits for it, so that no more than a portion is under way.
            for (file, offset, bytes) in opened {
                let _ = read_at(&file, offset, bytes);
            }
            rest = later;
        }
        tasks.sort_unstable_by_key(|task| task.to_block);
    }

    /// Where a part starts in its file, and how long it is, in bytes.
    fn span(&self, task: &Task) -> (u64, u64) {
        (
            task.file_block * self.block_bytes,
            task.blocks * self.block_bytes,
        )
    }

    fn portion(
        &self,
        claim: &Claim,
        files: &[PassFile],
        tasks: &[Task],
        moved: &mut Moved,
        watcher: &mut dyn Watcher,
    ) -> Result<(), MoveError> {
        let mut opened: HashMap<usize, Result<Opened, Skipped>> = HashMap::new();
        for task in tasks {
            let file = task.file;
            let entry = opened.entry(file);
            entry.or_insert_with(|| self.open_to_move(&files[file]));
        }
        let files_of = |task: &Task| opened[&task.file].as_ref().ok();
        let mut skip = |task: &Task, blocks: u64, why: Skipped, watcher: &mut dyn Watcher| {
            let bytes = blocks * self.block_bytes;
            moved.skipped.push((task.file, bytes, why));
            watcher.done(bytes);
        };
        let mut ready = Vec::new();
        for task in tasks {
            match &opened[&task.file] {
                Ok(_) => ready.push(*task),
                Err(why) => skip(task, task.blocks, why.clone(), watcher),
            }
        }
        let mut kept = self.read(ready, &files_of, watcher);
        let mut last = None;
        for one in &mut kept {
            let Some(opened) = files_of(&one.task) else {
                continue;
            };
            if watcher.is_stopped() {
                break;
            }
            let (blocks, why) = match &one.bytes {
                Ok(_) => self.exchange(claim, &one.task, opened),
                Err(why) => (0, Some(why.clone())),
            };
            one.moved_blocks = blocks;
            if let Some(why) = why {
                skip(&one.task, one.task.blocks - blocks, why, watcher);
            }
            if blocks > 0 {
                last = Some(opened);
            }
        }
        if let Some(opened) = last {
            self.write_out(&kept, &files_of, opened)?;
        }
        let mut places = Places::of(self.device, self.block_bytes, &kept);
        for one in kept {
            let Some(opened) = files_of(&one.task) else {
                continue;
            };
            let bytes = one.moved_blocks * self.block_bytes;
            if bytes == 0 {
                continue;
            }
            match self.compare(&one, opened, &mut places) {
                Ok(Comparison::Same) => {}
                Ok(Comparison::Written) => moved.written_bytes += bytes,
                Ok(Comparison::Differs) => {
                    return Err(MoveError::Differs {
                        path: files[one.task.file].path.clone(),
                        offset_bytes: one.task.file_block * self.block_bytes,
                    });
                }
                Err(error) => {
                    return Err(MoveError::Io {
                        what: "reading what was moved",
                        error,
                    });
                }
            }
            moved.bytes += bytes;
            watcher.done(bytes);
            if !one.task.was_cached {
                // It was read for the move only. Who doesn't want the advice reads it again.
                let (offset, length) = self.span(&one.task);
                let length = std::num::NonZero::new(length);
                let _ = fadvise(&opened.writer, offset, length, Advice::DontNeed);
            }
        }
        Ok(())
    }

    /// Writes what was moved, and commits it. `last` was moved last.
    fn write_out<'o>(
        &self,
        kept: &[Kept],
        files_of: &impl Fn(&Task) -> Option<&'o Opened>,
        last: &Opened,
    ) -> Result<(), MoveError> {
        let cannot = |error| MoveError::Io {
            what: "writing what was moved",
            error,
        };
        let moved = || {
            let parts = kept.iter().filter(|one| one.moved_blocks > 0);
            parts.filter_map(|one| {
                let (offset, bytes) = (one.task.file_block, one.moved_blocks);
                let file = &files_of(&one.task)?.writer;
                Some((file, offset * self.block_bytes, bytes * self.block_bytes))
            })
        };
        // All are under way at once, in the order of the new places. Written one by one, each
        // would cost a turn of the disk.
        for (file, offset, bytes) in moved() {
            write_out::begin(file, offset, bytes).map_err(cannot)?;
        }
        for (file, offset, bytes) in moved() {
            write_out::finish(file, offset, bytes).map_err(cannot)?;
        }
        // Commits the last exchange, and with it all before it. For fdatasync(2), an exchange is no
        // change that has to be committed.
        fsync(&last.writer).map_err(|error| cannot(error.into()))
    }

    /// Keeps what parts hold, in the order of the new places.
    fn read<'o>(
        &self,
        tasks: Vec<Task>,
        files_of: &impl Fn(&Task) -> Option<&'o Opened>,
        watcher: &mut dyn Watcher,
    ) -> Vec<Kept> {
        let mut kept = Vec::new();
        for task in tasks {
            let Some(file) = files_of(&task) else {
                continue;
            };
            if watcher.is_stopped() {
                break;
            }
            let (offset, bytes) = self.span(&task);
            let refused = |error: io::Error| Skipped::Refused(error.to_string());
            let bytes = match self.lies_at(&file.writer, &task, task.blocks, task.from_block) {
                Ok(true) => read_at(&file.writer, offset, bytes).map_err(refused),
                // Since the pass began. There may be a hole now, whose new place holds anything.
                Ok(false) => Err(Skipped::Changed),
                Err(error) => Err(refused(error)),
            };
            kept.push(Kept {
                task,
                bytes,
                moved_blocks: 0,
            });
        }
        kept
    }

    /// Exchanges the blocks of a part, from the first on, as far as that can be done. Returns how
    /// many, and why not all.
    fn exchange(&self, claim: &Claim, task: &Task, opened: &Opened) -> (u64, Option<Skipped>) {
        let mut done = 0;
        while done < task.blocks {
            let at = task.to_block + done;
            let mut parts = claim.parts(at..task.to_block + task.blocks);
            let Some(part) = parts.next().filter(|part| part.block == at) else {
                return (done, Some(Skipped::Taken));
            };
            let what = Exchange {
                file_block: task.file_block + done,
                donor_block: part.donor_block,
                blocks: part.blocks,
            };
            match self.exchange_part(&opened.writer, part.donor, what) {
                Ok(0) => return (done, Some(Skipped::Changed)),
                Ok(blocks) => done += blocks,
                Err(error) => return (done, Some(Skipped::Refused(error.to_string()))),
            }
        }
        (done, None)
    }

    /// The kernel refuses while pages are dirty, or being written: then they are written first.
    fn exchange_part(&self, file: &File, donor: &File, what: Exchange) -> io::Result<u64> {
        let mut tries = 0;
        loop {
            let done = exchange(file, donor, what);
            let is_busy = |error: &io::Error| {
                error.raw_os_error() == Some(rustix::io::Errno::BUSY.raw_os_error())
            };
            tries += 1;
            if tries == EXCHANGES_MAX || !done.as_ref().is_err_and(is_busy) {
                return done;
            }
            let (offset, length) = (what.file_block, what.blocks);
            write_out::finish(file, offset * self.block_bytes, length * self.block_bytes)?;
        }
    }

    /// Compares what is on the disk with what was there before.
    fn compare(
        &self,
        kept: &Kept,
        opened: &Opened,
        places: &mut Places<'_>,
    ) -> io::Result<Comparison> {
        let length = kept.moved_blocks * self.block_bytes;
        let before = kept.bytes.as_deref().unwrap_or_default();
        // What lies behind the end of a file isn't compared.
        let before = &before[..before.len().min(length as usize)];
        let after = places.read(kept.task.to_block, kept.moved_blocks)?;
        let is_same = after.get(..before.len()) == Some(before);
        let (task, blocks) = (&kept.task, kept.moved_blocks);
        if is_same && self.lies_at(&opened.writer, task, blocks, task.to_block)? {
            return Ok(Comparison::Same);
        }
        Ok(match fstat(&opened.writer) {
            Ok(now) if times_and_size(&now) == times_and_size(&opened.before) => {
                Comparison::Differs
            }
            _ => Comparison::Written,
        })
    }

    /// Whether the first `blocks` of a part lie from `block` on, all of them.
    fn lies_at(&self, file: &File, task: &Task, blocks: u64, block: u64) -> io::Result<bool> {
        let in_bytes = |blocks: u64| blocks * self.block_bytes;
        let step = Step {
            file: task.file,
            offset_bytes: in_bytes(task.file_block),
            length_bytes: in_bytes(blocks),
            from_bytes: in_bytes(task.from_block),
            to_bytes: in_bytes(block),
        };
        let runs = runs(file, step.offset_bytes, step.length_bytes, RUNS_MAX)?;
        let runs: Vec<Run> = runs.iter().map(run).collect();
        Ok(step.progress(&runs).there_bytes == step.length_bytes)
    }

    /// Opens a file for a move, if it may be moved now.
    fn open_to_move(&self, file: &PassFile) -> Result<Opened, Skipped> {
        let reader = self.open(file, OFlags::RDONLY)?;
        let refused = |error: io::Error| Skipped::Refused(error.to_string());
        let before = fstat(&reader).map_err(|error| refused(error.into()))?;
        let flags = flags_of(&reader).map_err(refused)?;
        if let Some(obstacle) = obstacles::of_flags(flags, false) {
            return Err(Skipped::Obstacle(obstacle));
        }
        if leases::would_break(&before) {
            return Err(Skipped::Leased);
        }
        if is_fresh(&before) {
            return Err(Skipped::Written);
        }
        if leases::has_writers(&reader).map_err(refused)? {
            return Err(Skipped::Written);
        }
        let writer = self.open(file, OFlags::RDWR)?;
        Ok(Opened { writer, before })
    }

    /// Opens a regular file by its number.
    fn open(&self, file: &PassFile, how: OFlags) -> Result<File, Skipped> {
        // Nothing waits, and no time of access changes.
        let flags = how | OFlags::NOATIME | OFlags::NONBLOCK | OFlags::NOCTTY;
        let flags = flags.bits().cast_signed();
        let opened = self.handles.open(file.inode, file.generation, flags);
        let opened = opened.map_err(|error| {
            let is = |errno: rustix::io::Errno| error.raw_os_error() == Some(errno.raw_os_error());
            if is(rustix::io::Errno::STALE) {
                Skipped::Gone
            } else if is(rustix::io::Errno::TXTBSY) {
                Skipped::Executed
            } else if is(rustix::io::Errno::AGAIN) {
                Skipped::Leased
            } else {
                Skipped::Refused(error.to_string())
            }
        })?;
        let opened = File::from(opened);
        let is_file = fstat(&opened)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile);
        match is_file {
            true => Ok(opened),
            false => Err(Skipped::Gone),
        }
    }
}

/// Raises the limit of open files, as far as it may be. Where that isn't enough, less is moved at a
/// time, or not to its place.
fn more_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(u64::MAX).min(DESCRIPTORS);
    if limit.current.is_some_and(|current| current < most) {
        let raised = Rlimit {
            current: Some(most),
            maximum: limit.maximum,
        };
        let _ = setrlimit(Resource::Nofile, raised);
    }
}

/// What comparing has shown.
enum Comparison {
    Same,
    /// It differs, and somebody has written the file meanwhile.
    Written,
    Differs,
}

/// New places, read from the disk in large pieces: one by one, small files would each cost a
/// request.
struct Places<'d> {
    device: &'d File,
    block_bytes: u64,
    /// Blocks that were moved to, in order.
    ranges: Vec<Range<u64>>,
    /// At a multiple of [`DIRECT_BYTES`] in memory, from `skip` on.
    buffer: Vec<u8>,
    skip: usize,
    /// The blocks that are in the buffer.
    read: Range<u64>,
}

impl<'d> Places<'d> {
    fn of(device: &'d File, block_bytes: u64, kept: &[Kept]) -> Self {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for one in kept.iter().filter(|one| one.moved_blocks > 0) {
            let (start, end) = (one.task.to_block, one.task.to_block + one.moved_blocks);
            match ranges.last_mut() {
                Some(last) if start == last.end => last.end = end,
                _ => ranges.push(start..end),
            }
        }
        let buffer = vec![0; PLACES_BYTES + DIRECT_BYTES];
        let skip = buffer.as_ptr().align_offset(DIRECT_BYTES).min(DIRECT_BYTES);
        Self {
            device,
            block_bytes,
            ranges,
            buffer,
            skip,
            read: 0..0,
        }
    }

    /// The bytes of some blocks that were moved to; at most [`PART_BYTES_MAX`].
    fn read(&mut self, block: u64, blocks: u64) -> io::Result<&[u8]> {
        let size = |blocks: u64| usize::try_from(blocks * self.block_bytes).unwrap_or(usize::MAX);
        let end = block + blocks;
        if block < self.read.start || self.read.end < end {
            let after = self.ranges.partition_point(|range| range.end <= block);
            let range_end = self.ranges.get(after).map_or(end, |range| range.end);
            let most = PLACES_BYTES as u64 / self.block_bytes;
            let read = block..range_end.min(block + most).max(end);
            let buffer = &mut self.buffer[self.skip..][..size(read.end - read.start)];
            self.device
                .read_exact_at(buffer, block * self.block_bytes)?;
            self.read = read;
        }
        let at = size(block - self.read.start);
        Ok(&self.buffer[self.skip..][at..at + size(blocks)])
    }
}
/// Whether a file was changed so lately that another change may get the same time: times count in
/// ticks of up to 10 ms. A change after this can be told by its time.
fn is_fresh(stat: &Stat) -> bool {
    const FRESH_MS: i64 = 100;
    let now = clock_gettime(ClockId::Realtime);
    let age_s = now.tv_sec.saturating_sub(stat.st_ctime);
    let nanoseconds = i64::try_from(stat.st_ctime_nsec).unwrap_or(0);
    let age_ms = age_s.saturating_mul(1000) + (now.tv_nsec - nanoseconds) / 1_000_000;
    // A time in the future says nothing.
    (0..FRESH_MS).contains(&age_ms)
}

fn times_and_size(stat: &Stat) -> [i64; 5] {
    [
        stat.st_mtime,
        i64::try_from(stat.st_mtime_nsec).unwrap_or(0),
        stat.st_ctime,
        i64::try_from(stat.st_ctime_nsec).unwrap_or(0),
        stat.st_size,
    ]
}

fn run(run: &foreread_sys::fiemap::Run) -> Run {
    Run {
        offset_bytes: run.offset_bytes,
        place_bytes: run.place_bytes,
        length_bytes: run.length_bytes,
    }
}

/// Reads so many bytes, or up to the end of the file.
fn read_at(file: &File, offset_bytes: u64, bytes: u64) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0; usize::try_from(bytes).map_err(io::Error::other)?];
    let read = fill(file, offset_bytes, &mut buffer)?;
    buffer.truncate(read);
    Ok(buffer)
}

/// Fills a buffer as far as the file goes.
fn fill(file: &File, offset_bytes: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let mut at = 0;
    while at < buffer.len() {
        match file.read_at(&mut buffer[at..], offset_bytes + at as u64) {
            Ok(0) => break,
            Ok(read) => at += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(at)
}
