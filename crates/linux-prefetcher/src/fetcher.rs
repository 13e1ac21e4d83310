// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads of metadata from a block device, in order of the device and in large batches. They show
//! whether the device has a head.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use foreread_prefetch::ext4::{Extent, READ_THROUGH_BYTES_MAX, merge_extents};
use foreread_prefetch::order::Service;
use foreread_prefetch::pace::READ_BYTES_MAX;
use foreread_profile::PAGE_BYTES;
use foreread_sys::block_device::BlockDevice;
use foreread_sys::cache::{cached_pages, is_missing};
use foreread_sys::uring::Finished;
use rustix::fs::{Advice, fadvise};

use super::pump::{self, Pump};
use super::under_way::Shared;

/// Gaps that a disk with a head reads through, where that is asked for: about what it transfers in
/// a fifth of a seek.
const GAP_BYTES_MAX_WIDE: u64 = 128 * 1024;
/// More than this is not read through at once.
const GAPS_BYTES_MAX: u64 = 8 << 20;

/// Has everything that is missing there read, and doesn't wait for it. A read waits for the first
/// page that others read already, before it asks for the next one that is missing.
pub(super) fn ask_for(device: &BlockDevice, extents: &[Extent]) -> io::Result<()> {
    // The kernel takes as many whole pages at a time as make one request, and drops the rest.
    let step_bytes = device
        .request_bytes_max
        .clamp(PAGE_BYTES, u64::from(READ_BYTES_MAX));
    let step_bytes = step_bytes - step_bytes % PAGE_BYTES;
    for extent in extents {
        let mut at = extent.offset_bytes;
        while at < extent.end_bytes() {
            let length = NonZeroU64::new((extent.end_bytes() - at).min(step_bytes));
            fadvise(device.file(), at, length, Advice::WillNeed)?;
            at += step_bytes;
        }
    }
    Ok(())
}

/// Whether what was asked for then has taken as long as a head needs to move.
pub(super) fn moved_head(since: Instant) -> bool {
    let piece_ns = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
    Service { piece_ns }.has_head()
}

/// Reads extents of the device in order, and watches how long it takes.
pub(super) struct Fetcher<'a> {
    device: &'a BlockDevice,
    shared: &'a Shared,
    pump: Pump<'a, Extent>,
    fetched: HashMap<u64, u64>,
    pieces: u64,
    elapsed_ns: u64,
    /// Single reads that no head was moved for.
    quick_reads: u32,
    /// Whether a head was moved for the last one; `None` before.
    has_head: Option<bool>,
    /// Whether the head is moved before each batch, however quick some reads are.
    always_places_head: bool,
}

/// What is read for these extents: gaps are read through, wider ones on a disk with a head.
pub(super) fn merged(extents: &[Extent], has_head: bool) -> Vec<Extent> {
    let merged = merge_extents(extents.to_vec(), READ_THROUGH_BYTES_MAX);
    match has_head {
        true => widened(merged),
        false => merged,
    }
}

/// Moves the head in front of what is asked for next, see [`Fetcher::place_head`].
pub(super) fn read_first_page(device: &BlockDevice, extents: &[Extent]) {
    if let Some(first) = extents.first() {
        // An error is met again when the page is needed.
        let _ = device.file().read_at(&mut [0; 512], first.offset_bytes);
    }
}

/// The first page of an extent that is not cached. Before Linux 6.5 each page is asked about.
fn first_missing(device: &File, extent: &Extent) -> Option<u64> {
    let start_page = extent.offset_bytes / PAGE_BYTES;
    let end_page = extent.end_bytes().div_ceil(PAGE_BYTES);
    let pages = end_page - start_page;
    if cached_pages(device, start_page, pages).is_ok_and(|cached| cached == pages) {
        return None;
    }
    (start_page..end_page).find(|page| is_missing(device, *page))
}

/// With wider gaps read through, where that isn't too much.
fn widened(extents: Vec<Extent>) -> Vec<Extent> {
    let bytes = |extents: &[Extent]| extents.iter().map(|one| one.length_bytes).sum::<u64>();
    let wide = merge_extents(extents.clone(), GAP_BYTES_MAX_WIDE);
    match bytes(&wide) - bytes(&extents) <= GAPS_BYTES_MAX {
        true => wide,
        false => extents,
    }
}

fn pieces_of(extent: &Extent, bytes_max: u32) -> impl Iterator<Item = Extent> {
    let (mut at, end) = (extent.offset_bytes, extent.end_bytes());
    std::iter::from_fn(move || {
        let piece = Extent {
            offset_bytes: at,
            length_bytes: (end - at).min(u64::from(bytes_max)),
        };
        at = piece.end_bytes();
        (piece.length_bytes > 0).then_some(piece)
    })
}

/// The first quick read may have found the head in place.
const QUICK_READS: u32 = 2;

impl<'a> Fetcher<'a> {
    pub fn new(
        device: &'a BlockDevice,
        shared: &'a Shared,
        kept: &mut Option<pump::Reader<Extent>>,
    ) -> io::Result<Self> {
        device.read_exactly()?;
        let mut pump = Pump::new(shared, kept)?;
        pump.learn_from(device.file());
        Ok(Self {
            device,
            shared,
            pump,
            fetched: HashMap::new(),
            pieces: 0,
            elapsed_ns: 0,
            quick_reads: 0,
            has_head: None,
            always_places_head: false,
        })
    }

    /// Moves the head before each batch, however quick some reads are: beside other programs the
    /// head may have been in place by chance.
    pub fn always_place_head(&mut self) {
        self.always_places_head = true;
    }

    /// Asks for everything before it waits for anything, from now on.
    pub fn read_all_at_once(&mut self) {
        self.pump.fill();
    }

    /// Returns the reader, for the next plan.
    pub fn into_reader(self) -> Option<pump::Reader<Extent>> {
        self.pump.into_reader()
    }

    /// Reads extents, in pieces as large as reads may be.
    pub fn fetch(&mut self, extents: &[Extent]) -> io::Result<()> {
        let most = u32::try_from(self.pump.read_bytes_max());
        self.fetch_pieces(extents, most.unwrap_or(READ_BYTES_MAX), |_| ())
    }

    /// Reads extents in pieces of limited size, and reports each piece that has arrived.
    pub fn fetch_pieces(
        &mut self,
        extents: &[Extent],
        piece_bytes_max: u32,
        mut arrived: impl FnMut(Extent),
    ) -> io::Result<()> {
        let started = Instant::now();
        let extents = self.unread(extents)?;
        if self.reads_all_at_once() {
            ask_for(self.device, &extents)?;
        }
        let known = extents
            .iter()
            .map(|one| (one.offset_bytes, one.length_bytes));
        self.fetched.extend(known);
        self.pieces += extents.len() as u64;
        let pieces = extents
            .iter()
            .flat_map(|extent| pieces_of(extent, piece_bytes_max));
        let shared = self.shared;
        let mut done = |finished: Finished<Extent>| {
            match finished.result {
                Ok(bytes) => shared.tally.add(|t| &t.metadata_bytes, bytes.into()),
                Err(error) => shared.count_failed_read(&error),
            }
            arrived(finished.token);
        };
        let fd = self.device.file().as_raw_fd();
        for piece in pieces {
            let length_bytes = u32::try_from(piece.length_bytes).unwrap_or(piece_bytes_max);
            let at = piece.offset_bytes;
            if !self.pump.read(fd, at, length_bytes, piece, &mut done)? {
                return Ok(());
            }
        }
        self.pump.finish(done)?;
        let elapsed_ns = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.elapsed_ns = self.elapsed_ns.saturating_add(elapsed_ns);
        Ok(())
    }

    /// Extents to read in order to have these: those that weren't fetched yet, merged.
    fn unread(&mut self, extents: &[Extent]) -> io::Result<Vec<Extent>> {
        let mut merged = merge_extents(extents.to_vec(), READ_THROUGH_BYTES_MAX);
        merged.retain(|one| self.fetched.get(&one.offset_bytes) != Some(&one.length_bytes));
        let Some(neighbours) = &self.shared.with_neighbours else {
            self.place_head(&merged)?;
            return Ok(merged);
        };
        // A read that all others wait for is dear while a program reads as well: one will do.
        if neighbours.has_head().is_none() {
            self.place_head(&merged)?;
            neighbours.set_has_head(self.has_head);
        }
        Ok(match neighbours.has_head() {
            Some(true) => widened(merged),
            _ => merged,
        })
    }

    /// Whether everything is asked for before anything is waited for.
    pub fn reads_all_at_once(&self) -> bool {
        self.pump.is_filled()
    }

    /// Moves the head in front of the extents to be read. A disk that serves the nearest request
    /// first may come from behind them. It would then begin with the last extent and go back piece
    /// by piece, with half a turn for each. Moving the head first costs nothing, since it must
    /// cover this distance in any case.
    fn place_head(&mut self, extents: &[Extent]) -> io::Result<()> {
        if self.quick_reads >= QUICK_READS && !self.always_places_head {
            return Ok(());
        }
        let device = self.device.file();
        let Some(page) = extents.iter().find_map(|one| first_missing(device, one)) else {
            return Ok(());
        };
        let offset_bytes = page * PAGE_BYTES;
        let fd = device.as_raw_fd();
        let piece = Extent {
            offset_bytes,
            length_bytes: PAGE_BYTES,
        };
        let started = Instant::now();
        let length_bytes = PAGE_BYTES as u32;
        self.pump
            .read(fd, offset_bytes, length_bytes, piece, |_| {})?;
        // It counts with its piece, which is read as a whole.
        self.pump.finish(|_| {})?;
        let has_head = moved_head(started);
        self.has_head = Some(has_head);
        self.quick_reads += u32::from(!has_head);
        Ok(())
    }

    /// Mean time for a piece of metadata.
    pub fn service(&self) -> Service {
        Service {
            piece_ns: self.elapsed_ns / self.pieces.max(1),
        }
    }
}
