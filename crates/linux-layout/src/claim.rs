// SPDX-License-Identifier: MIT OR Apache-2.0
//! Donors: nameless files that hold chosen blocks of an ext4.
//!
//! In: blocks of one block group that are wanted and free. Out: those that were got, and in which
//! block of which donor each is. The files have no name (`O_TMPFILE`): when this process ends, or
//! the power is cut, the kernel frees them.
//!
//! The kernel lets nobody choose blocks. What it does when it allocates some is this, and has been
//! since Linux 2.6.31 (`fs/ext4/mballoc.c`, `ext4_ext_find_goal()`):
//!
//! 1. The goal of a block is the place of the nearest block of the same file, plus their distance
//!    in the file. With that, a block of a file with holes can be asked for in any group.
//! 2. The goal is heeded for files of up to 16 blocks (`mb_stream_req`), and for what is written at
//!    the end of a file that nobody has open for writing any more. All else goes where the last of
//!    it went.
//! 3. Heeding it means: in its group, from the first free block on that fits. Only when the group
//!    has none, elsewhere.
//!
//! So a first block is written by 1, to be in the group. It is given to a small donor by an
//! exchange. By 2, all other blocks of that donor are then allocated in the group; the last of them
//! is given to the next donor; and so on, until the wanted blocks are among them. By 3, that is so
//! after at most all free blocks of the group are held: 128 MiB, with blocks of 4 KiB. What
//! is not wanted is given back.
//!
//! Nothing here depends on this being so. Where the blocks are is asked from the kernel, and what
//! wasn't got isn't used.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

use foreread_sys::fiemap::{Run, allocated_runs};
use foreread_sys::move_extents::{Exchange, exchange};
use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate, open, openat};

/// Blocks of a donor: the largest file that the kernel allocates near its goal, by default.
const DONOR_BLOCKS: u64 = 16;

/// Where the first block of a seed lies in the file: half of what a file can have, so that any
/// distance on a device of up to as many blocks can be written before or after it.
const SEED_BLOCK: u64 = 1 << 31;

/// The largest device on which any block can be asked for.
pub(crate) const DEVICE_BLOCKS_MAX: u64 = SEED_BLOCK;

/// Blocks of other groups that are taken before the group counts as full. The kernel gives small
/// files blocks that it has set aside, up to 512 for each processor, before it heeds the goal.
const FOREIGN_BLOCKS_MAX: u64 = 4096;

/// Runs of a donor or a seed: as many as it may have blocks.
const RUNS_MAX: usize = 64;

/// See the [module](self).
#[derive(Default)]
pub(crate) struct Claim {
    donors: Vec<File>,
    /// In order of the blocks.
    held: Vec<Held>,
}

/// Blocks of the device that a donor holds one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Held {
    block: u64,
    blocks: u64,
    donor: usize,
    donor_block: u64,
}

/// A part of a range of blocks that is held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldPart<'c> {
    /// The first block of the device.
    pub block: u64,
    /// How many.
    pub blocks: u64,
    /// The donor.
    pub donor: &'c File,
    /// The first block in it.
    pub donor_block: u64,
}

impl Claim {
    /// Takes what can be had of these blocks of a group. `directory` is any of the file system.
    ///
    /// # Errors
    /// When the kernel refuses; a full file system is no error, but leads to less.
    pub(crate) fn of(
        directory: impl AsFd,
        block_bytes: u64,
        group: &Range<u64>,
        wanted: &[Range<u64>],
    ) -> io::Result<Self> {
        let mut taking = Taking {
            directory: directory.as_fd().try_clone_to_owned()?,
            block_bytes,
            group: group.clone(),
            wanted,
            donors: Vec::new(),
            found_blocks: 0,
            foreign_blocks: 0,
        };
        match taking.take() {
            Ok(()) => {}
            // Out of space or of descriptors: what was got is used.
            Err(error) if is_lack(&error) => {}
            Err(error) => return Err(error),
        }
        taking.kept()
    }

    /// The parts of these blocks that are held, in order.
    pub(crate) fn parts(&self, blocks: Range<u64>) -> impl Iterator<Item = HeldPart<'_>> {
        let first = self
            .held
            .partition_point(|held| held.block + held.blocks <= blocks.start);
        let overlapping = self.held[first..]
            .iter()
            .take_while(move |held| held.block < blocks.end);
        overlapping.map(move |held| {
            let start = held.block.max(blocks.start);
            let end = (held.block + held.blocks).min(blocks.end);
            HeldPart {
                block: start,
                blocks: end - start,
                donor: &self.donors[held.donor],
                donor_block: held.donor_block + (start - held.block),
            }
        })
    }
}

/// A block of the group that the next donor gets as its first.
#[derive(Clone, Copy)]
struct Anchor {
    donor: usize,
    donor_block: u64,
}

struct Taking<'w> {
    directory: OwnedFd,
    block_bytes: u64,
    group: Range<u64>,
    wanted: &'w [Range<u64>],
    donors: Vec<File>,
    /// Wanted blocks that are held.
    found_blocks: u64,
    /// Held blocks of other groups.
    foreign_blocks: u64,
}

impl Taking<'_> {
    fn take(&mut self) -> io::Result<()> {
        let wanted_blocks: u64 = self
            .wanted
            .iter()
            .map(|range| range.end - range.start)
            .sum();
        let Some(mut anchor) = self.seed()? else {
            return Ok(());
        };
        // Large requests go where a group has much free space on average, so they pass over groups
        // that are in pieces. Requests of a block don't.
        let mut request_blocks = DONOR_BLOCKS - 1;
        while self.found_blocks < wanted_blocks && self.foreign_blocks < FOREIGN_BLOCKS_MAX {
            let donor = self.donor(anchor, request_blocks)?;
            let mut foreign_blocks = 0;
            let mut next = None;
            for run in allocated_runs(&donor, 0, u64::MAX, RUNS_MAX)? {
                let (block, blocks) = blocks_of(&run, self.block_bytes);
                let end = block + blocks;
                if !self.group.contains(&block) || end > self.group.end {
                    foreign_blocks += blocks;
                    continue;
                }
                let file_block = run.offset_bytes / self.block_bytes;
                // The first block of the donor was counted before.
                let is_first = u64::from(file_block == 0);
                self.found_blocks += overlap(self.wanted, &(block + is_first..end));
                if self.leads_into_group(block) {
                    next = Some(file_block);
                }
            }
            self.foreign_blocks += foreign_blocks;
            if foreign_blocks > DONOR_BLOCKS / 2 {
                request_blocks = (request_blocks / 2).max(1);
            }
            self.donors.push(donor);
            // It has at least the block that it was given.
            let Some(donor_block) = next else { break };
            anchor = Anchor {
                donor: self.donors.len() - 1,
                donor_block,
            };
        }
        Ok(())
    }

    /// Whether the goals of the blocks of a donor whose first block is this one are in the group.
    fn leads_into_group(&self, block: u64) -> bool {
        self.group.contains(&block) && block + DONOR_BLOCKS <= self.group.end
    }

    /// A first donor with a block in the group. `None` when the kernel puts it elsewhere.
    fn seed(&mut self) -> io::Result<Option<Anchor>> {
        // The kernel may have another group for one goal and not for the next.
        let goals = [
            self.wanted.first().map(|range| range.start),
            self.wanted.last().map(|range| range.end - 1),
            Some(self.group.start + (self.group.end - self.group.start) / 2),
        ];
        for goal in goals.into_iter().flatten() {
            let (seed, file_block) = self.seed_at(goal)?;
            for run in allocated_runs(&seed, 0, u64::MAX, RUNS_MAX)? {
                let (block, _) = blocks_of(&run, self.block_bytes);
                let is_ours = run.offset_bytes / self.block_bytes == file_block;
                if is_ours && self.leads_into_group(block) {
                    self.found_blocks += overlap(self.wanted, &(block..block + 1));
                    self.donors.push(seed);
                    return Ok(Some(Anchor {
                        donor: self.donors.len() - 1,
                        donor_block: file_block,
                    }));
                }
            }
        }
        Ok(None)
    }

    fn seed_at(&self, goal: u64) -> io::Result<(File, u64)> {
        let seed = self.nameless()?;
        // Behind the end of the file, whatever that will be: only what is written at the end of a
        // file goes near its goal.
        let (offset, length) = (SEED_BLOCK * self.block_bytes, self.block_bytes);
        fallocate(&seed, FallocateFlags::KEEP_SIZE, offset, length)?;
        let first = allocated_runs(&seed, 0, u64::MAX, RUNS_MAX)?;
        let Some((place, _)) = first.first().map(|run| blocks_of(run, self.block_bytes)) else {
            return Err(io::Error::other(
                "the kernel doesn't tell where a file lies",
            ));
        };
        let file_block = (SEED_BLOCK + goal).saturating_sub(place);
        let bytes = vec![0; usize::try_from(self.block_bytes).unwrap_or(0)];
        seed.write_all_at(&bytes, file_block * self.block_bytes)?;
        // Nobody may have it open for writing when it is written.
        let path = format!("/proc/self/fd/{}", seed.as_raw_fd());
        let again = |flags| open(path.as_str(), flags | OFlags::CLOEXEC, Mode::empty());
        let reader = again(OFlags::RDONLY)?;
        drop(seed);
        rustix::fs::fdatasync(&reader)?;
        let path = format!("/proc/self/fd/{}", reader.as_raw_fd());
        let writer = open(path.as_str(), OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        // What is written would be copied when it is exchanged, and the kernel refuses that while
        // its pages are busy. Preallocated blocks have no pages.
        let unwritten = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
        fallocate(
            &writer,
            unwritten,
            file_block * self.block_bytes,
            self.block_bytes,
        )?;
        Ok((writer.into(), file_block))
    }

    /// A donor that starts with the block of the anchor, whose donor gets another one for it.
    fn donor(&mut self, anchor: Anchor, request_blocks: u64) -> io::Result<File> {
        let donor = self.nameless()?;
        donor.set_len(DONOR_BLOCKS * self.block_bytes)?;
        self.allocate(&donor, 0, 1)?;
        // It may be one that is wanted.
        for run in allocated_runs(&donor, 0, u64::MAX, RUNS_MAX)? {
            let (block, blocks) = blocks_of(&run, self.block_bytes);
            self.found_blocks += overlap(self.wanted, &(block..block + blocks));
        }
        let what = Exchange {
            file_block: 0,
            donor_block: anchor.donor_block,
            blocks: 1,
        };
        if exchange(&donor, &self.donors[anchor.donor], what)? != 1 {
            return Err(io::Error::other("the kernel exchanged no block"));
        }
        // From the end on, so that the nearest block before is always the first one, and the goal
        // in the group.
        let mut left = DONOR_BLOCKS;
        while left > 1 {
            let blocks = request_blocks.min(left - 1);
            match self.allocate(&donor, left - blocks, blocks) {
                Ok(()) => left -= blocks,
                Err(error) if is_lack(&error) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(donor)
    }

    fn allocate(&self, file: &File, block: u64, blocks: u64) -> io::Result<()> {
        let (offset, length) = (block * self.block_bytes, blocks * self.block_bytes);
        Ok(fallocate(file, FallocateFlags::empty(), offset, length)?)
    }

    fn nameless(&self) -> io::Result<File> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = openat(&self.directory, ".", flags, Mode::RUSR | Mode::WUSR)?;
        Ok(file.into())
    }

    /// The donors that hold something that is wanted; all others are given back.
    fn kept(self) -> io::Result<Claim> {
        let mut claim = Claim::default();
        let (block_bytes, wanted) = (self.block_bytes, self.wanted);
        for donor in self.donors {
            let mut is_kept = false;
            for run in allocated_runs(&donor, 0, u64::MAX, RUNS_MAX)? {
                let (block, blocks) = blocks_of(&run, block_bytes);
                if overlap(wanted, &(block..block + blocks)) > 0 {
                    is_kept = true;
                    claim.held.push(Held {
                        block,
                        blocks,
                        donor: claim.donors.len(),
                        donor_block: run.offset_bytes / block_bytes,
                    });
                }
            }
            if is_kept {
                claim.donors.push(donor);
            }
        }
        claim.held.sort_unstable();
        Ok(claim)
    }
}

/// The first block of a run on the device, and how many it has.
fn blocks_of(run: &Run, block_bytes: u64) -> (u64, u64) {
    (
        run.place_bytes / block_bytes,
        run.length_bytes / block_bytes,
    )
}

/// How many of these blocks are in these ranges.
fn overlap(ranges: &[Range<u64>], blocks: &Range<u64>) -> u64 {
    let common = |range: &Range<u64>| {
        let end = range.end.min(blocks.end);
        end.saturating_sub(range.start.max(blocks.start))
    };
    ranges.iter().map(common).sum()
}

/// No space, or too many open files.
fn is_lack(error: &io::Error) -> bool {
    let lacks = [
        rustix::io::Errno::NOSPC,
        rustix::io::Errno::DQUOT,
        rustix::io::Errno::MFILE,
        rustix::io::Errno::NFILE,
    ];
    let number = error.raw_os_error();
    lacks.iter().any(|lack| Some(lack.raw_os_error()) == number)
}
