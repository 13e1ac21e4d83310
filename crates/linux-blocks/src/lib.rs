// SPDX-License-Identifier: MIT OR Apache-2.0
//! Watches the requests of disks: `bpf/block.bpf.c`, loaded, attached, drained.
#![forbid(unsafe_code)]

mod abi;
mod disk;

pub use disk::{Disk, DiskError, disks, find};
pub use foreread_blocktrace::{Action, Device, Event};

use std::cell::RefCell;
use std::rc::Rc;

use foreread_bpf::skeletons::block::{BlockSkel, BlockSkelBuilder, OpenBlockSkel};
use foreread_bpf::{BpfError, MissingHook, Served, likes, needs, refused};
use libbpf_rs::skel::Skel;
use libbpf_rs::{Link, RingBuffer};

/// `BLOCK_DISKS_MAX`: disks that can be watched at once.
pub const DISKS_MAX: usize = 16;

/// Between the start of a request's life and its end, the later ones first.
const STEPS: [&str; 9] = [
    "requeued",
    "request_merged",
    "inserted",
    "unplugged",
    "plugged",
    "split",
    "front_merged",
    "back_merged",
    "got_request",
];

/// Events that wait to be drained: some 150,000.
const EVENTS_BYTES: u32 = 16 << 20;

/// An event, and whose it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// The event.
    pub event: Event,
    /// The process that ran meanwhile: of a queued request, the one that asks for it.
    pub process: u32,
    /// Its control group in the unified hierarchy: the inode number of its directory.
    pub group: u64,
}

/// The events of a request that are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steps {
    /// All that the kernel shows.
    All,
    /// When it was queued, and when its parts were there.
    Ends,
}

/// The programs in the kernel. Detached when dropped.
pub struct BlockWatcher {
    skel: BlockSkel<'static>,
    served: Served,
    ring: RingBuffer<'static>,
    steps: Steps,
    seen: Rc<RefCell<Vec<Seen>>>,
    links: Vec<Link>,
    since_ns: u64,
}

impl BlockWatcher {
    /// Watches these disks from now on, at most [`DISKS_MAX`] of them.
    ///
    /// # Errors
    /// [`BpfError`] when BPF, BTF or one of the tracepoints isn't there, or rights are missing.
    pub fn start(disks: &[Disk]) -> Result<Self, BpfError> {
        Self::start_with(disks, Steps::All, EVENTS_BYTES)
    }

    /// The same of these steps, with room for `events_bytes` bytes of events that wait to be
    /// drained: a power of two, at least a page.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_with(disks: &[Disk], steps: Steps, events_bytes: u32) -> Result<Self, BpfError> {
        let set = |open: &mut OpenBlockSkel<'static>| {
            if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
                let numbers = disks.iter().map(|disk| disk.device);
                for (slot, device) in rodata.disks.iter_mut().zip(numbers) {
                    *slot = u64::from(device.major) << 32 | u64::from(device.minor);
                    rodata.disk_count += 1;
                }
            }
            let events = &mut open.maps.fr_blk_events;
            events
                .set_max_entries(events_bytes)
                .map_err(refused("sizing the ring buffer"))
        };
        let mut wanted = vec![needs("completed"), needs("queued")];
        if steps == Steps::All {
            wanted.push(needs("issued"));
            wanted.extend(STEPS.map(|hook| likes(hook, "one of a request's steps to its device")));
        }
        let (skel, served) = foreread_bpf::load::<BlockSkelBuilder>(&wanted, set)?;
        let seen = Rc::new(RefCell::new(Vec::new()));
        let receiver = Rc::clone(&seen);
        let ring = foreread_bpf::ring(&skel.maps.fr_blk_events, move |bytes| {
            receiver.borrow_mut().extend(abi::seen(bytes));
        })?;
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let mut watcher = Self {
            skel,
            served,
            ring,
            steps,
            seen,
            links: Vec::new(),
            since_ns: now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64,
        };
        watcher.attach()?;
        Ok(watcher)
    }

    fn attach(&mut self) -> Result<(), BpfError> {
        // Ends of lives first: a request that begins before all programs are attached is followed
        // to its end.
        let hooks = match self.steps {
            Steps::All => [
                &["completed"],
                &STEPS[..2],
                &["issued"],
                &STEPS[2..],
                &["queued"],
            ]
            .concat(),
            Steps::Ends => vec!["completed", "queued"],
        };
        self.links = self.served.attach(self.skel.object(), &hooks)?;
        Ok(())
    }

    /// Events since the last call, with times since the start. Events of different processors may
    /// be slightly out of order. To be called every few milliseconds.
    pub fn drain(&self) -> Vec<Event> {
        let since_start = |seen: Seen| Event {
            time_ns: seen.event.time_ns.saturating_sub(self.since_ns),
            ..seen.event
        };
        self.drain_seen().into_iter().map(since_start).collect()
    }

    /// The same with whose they are, and with times of `CLOCK_MONOTONIC`.
    pub fn drain_seen(&self) -> Vec<Seen> {
        // An error here is a damaged ring: its events are missing like lost ones.
        let _ = self.ring.consume();
        self.seen.take()
    }

    /// The steps of requests that this kernel doesn't show.
    #[must_use]
    pub fn lacking(&self) -> &[MissingHook] {
        self.served.lacking()
    }

    /// Events that found no room.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.skel.maps.bss_data.as_deref().map_or(0, |bss| bss.lost)
    }
}
