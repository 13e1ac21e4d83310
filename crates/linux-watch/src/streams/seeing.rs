// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loads and attaches `bpf/streams.bpf.c`, and reads its records.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::mem::offset_of;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use foreread_bpf::skeletons::streams::types::stream_file;
use foreread_bpf::skeletons::streams::{OpenStreamsSkel, StreamsSkel, StreamsSkelBuilder};
use foreread_bpf::{BpfError, MissingHook, Served, likes, needs, refused};
use foreread_core::policy::Streams;
use foreread_sys::kernel::{kernel_release, kernel_version};
use foreread_watch::log::stream_call::Call;
use foreread_watch::stream::FileKey;
use libbpf_rs::skel::Skel;
use libbpf_rs::{Link, MapCore, MapFlags, ProgramInput, RingBuffer, RingBufferBuilder};

use super::abi::{Told, call_from_bytes, key_bytes, key_from_bytes, number};
use super::heads::Heads;
use super::load::Load;
use crate::Whom;

/// Size of the ring for calls that wait to be logged: 50,000 of them.
const EVENTS_BYTES: u32 = 16 << 20;

/// The kernel version since which the verifier lets a program call its own global functions with
/// preemption disabled: "bpf: Summarize sleepable global subprogs".
const STAYS_ON_CPU_SINCE: (u32, u32) = (6, 15);

/// The programs in the kernel. Detached when dropped.
pub(super) struct Seeing {
    // Detached before the objects that the links use are dropped.
    _misses: Vec<Link>,
    /// The programs at hits; attached while there are misses.
    hits: Vec<Link>,
    skel: StreamsSkel<'static>,
    served: Served,
    load: Arc<Load>,
    heads: Heads,
    ring: RingBuffer<'static>,
    inbox: Rc<RefCell<Vec<Told>>>,
    calls: Rc<RefCell<Vec<Call>>>,
}

/// Counters of the BPF programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counted {
    /// Accesses that the policy was told of.
    pub accesses: u64,
    /// Accesses that missed a page.
    pub misses: u64,
    /// Markers that reads reached: the kernel reads ahead for them.
    pub marks: u64,
    /// Accesses that were skipped, since the policy was busy with the same disk on another
    /// processor.
    pub untold: u64,
    /// Records for which there was no room.
    pub lost: u64,
}

/// The state of memory, for the policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Room {
    /// Available memory, by which the pages around a fault are bounded.
    pub memory_pages: u64,
    /// Memory that is free or reclaimable without swapping.
    pub reclaim_pages: u64,
    /// Maximum that is ahead of one reader; 0 no such bound.
    pub budget_pages: u32,
}

impl Seeing {
    /// Loads the programs, and attaches those at misses. `tree` is the map of the watched
    /// processes, used if the scope is a tree of processes.
    pub fn start(
        whom: Whom,
        tree: BorrowedFd<'_>,
        room: Room,
        is_logged: bool,
    ) -> Result<Self, BpfError> {
        let set = |open: &mut OpenStreamsSkel<'static>| {
            open.maps
                .fr_tree
                .reuse_fd(tree)
                .map_err(refused("sharing the map of processes"))?;
            if is_logged {
                open.maps
                    .fr_str_events
                    .set_max_entries(EVENTS_BYTES)
                    .map_err(refused("making room for the log"))?;
            }
            if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
                rodata.is_logged = is_logged.into();
                let version = kernel_version(&kernel_release());
                rodata.stays_on_cpu = version.is_some_and(|v| v >= STAYS_ON_CPU_SINCE).into();
                rodata.only_tree = u32::from(matches!(whom, Whom::NextChild | Whom::Process(_)));
                if let Whom::Cgroup { id, level } = whom {
                    rodata.only_cgroup = id;
                    rodata.cgroup_level = level;
                }
            }
            Ok(())
        };
        let wanted = [
            needs("missed"),
            needs("marked"),
            needs("read_ahead"),
            needs("looked"),
            needs("switched"),
            likes("issued", "how busy disks are"),
            likes("completed", "how busy disks are"),
            likes("faulted", "streams in mapped files"),
            likes("mapped", "streams in mapped files"),
        ];
        let (skel, mut served) = foreread_bpf::load::<StreamsSkelBuilder>(&wanted, set)?;
        let inbox = Rc::new(RefCell::new(Vec::new()));
        let receiver = Rc::clone(&inbox);
        let calls = Rc::new(RefCell::new(Vec::new()));
        let logged = Rc::clone(&calls);
        let mut builder = RingBufferBuilder::new();
        foreread_bpf::add_ring(&mut builder, &skel.maps.fr_str_ring, move |bytes| {
            receiver.borrow_mut().extend(Told::from_bytes(bytes));
        })?;
        foreread_bpf::add_ring(&mut builder, &skel.maps.fr_str_events, move |bytes| {
            logged.borrow_mut().extend(call_from_bytes(bytes));
        })?;
        let ring = builder
            .build()
            .map_err(refused("mapping the ring buffer"))?;
        skel.progs
            .fr_str_whoami
            .test_run(ProgramInput::default())
            .map_err(refused("asking for the process number"))?;
        let misses = served.attach(skel.object(), &["missed", "marked", "read_ahead"])?;
        let load =
            Load::of(&skel.maps.fr_str_disks).map_err(refused("reaching the map of disks"))?;
        let heads = Heads::of(&skel.maps.fr_str_headless)
            .map_err(refused("reaching the map of disks without a head"))?;
        let mut seeing = Self {
            _misses: misses,
            hits: Vec::new(),
            load: Arc::new(load),
            heads,
            skel,
            served,
            ring,
            inbox,
            calls,
        };
        seeing.set_room(room);
        seeing.heads.tell();
        Ok(seeing)
    }

    /// Hooks that this kernel lacks, and why.
    pub fn lacking(&self) -> &[MissingHook] {
        self.served.lacking()
    }

    /// Sets the state of memory.
    pub fn set_room(&mut self, room: Room) {
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            bss.memory_pages = room.memory_pages;
            // 0 means unknown.
            bss.reclaim_pages = room.reclaim_pages.max(1);
            bss.budget_pages = room.budget_pages;
        }
    }

    /// Waits for records or for `also`, at most for `limit`; without a limit forever. Returns the
    /// records.
    pub fn wait(&self, also: BorrowedFd<'_>, limit: Option<Duration>) -> Vec<Told> {
        foreread_bpf::wait(&self.ring, Some(also), limit);
        self.consume();
        self.take_told()
    }

    /// The records that were read from the ring since the last call.
    pub fn take_told(&self) -> Vec<Told> {
        std::mem::take(&mut *self.inbox.borrow_mut())
    }

    /// Reads the records in the rings.
    pub fn consume(&self) {
        // An error means a damaged ring, which has no more records.
        let _ = self.ring.consume();
    }

    /// The calls of the core since the last call, for the log.
    pub fn take_calls(&self) -> Vec<Call> {
        std::mem::take(&mut *self.calls.borrow_mut())
    }

    /// Whether the programs at hits are attached.
    pub fn sees_hits(&self) -> bool {
        !self.hits.is_empty()
    }

    /// Attaches the programs at hits, waits and requests of disks.
    pub fn follow(&mut self) -> Result<(), BpfError> {
        if self.sees_hits() {
            return Ok(());
        }
        self.heads.tell();
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            bss.episode += 1;
        }
        let hooks = [
            "issued",
            "completed",
            "switched",
            "looked",
            "faulted",
            "mapped",
        ];
        self.hits = self.served.attach(self.skel.object(), &hooks)?;
        self.set_sees_hits(true, true);
        Ok(())
    }

    /// Detaches the programs at hits until the next miss.
    pub fn leave(&mut self) {
        self.set_sees_hits(false, false);
        self.hits.clear();
    }

    /// Detaches the programs at hits; misses do not attach them again.
    pub fn rest(&mut self) {
        self.set_sees_hits(false, true);
        self.hits.clear();
    }

    /// The load of disks, known while hits are seen.
    pub fn load(&self) -> &Arc<Load> {
        &self.load
    }

    fn set_sees_hits(&mut self, sees_hits: bool, has_begun: bool) {
        self.load.set_seen(sees_hits);
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            bss.sees_hits = sees_hits.into();
            bss.has_begun = has_begun.into();
        }
    }

    /// Drops the state of a file.
    pub fn forget(&self, file: FileKey) {
        // It may have been dropped already.
        let _ = self.skel.maps.fr_str_files.delete(&key_bytes(file));
    }

    /// The files that have a state.
    pub fn files(&self) -> BTreeSet<FileKey> {
        // The kernel starts a file's state anew if it was evicted meanwhile.
        let files = &self.skel.maps.fr_str_files;
        let keys = files.keys().take(files.max_entries() as usize * 4);
        keys.filter_map(|bytes| key_from_bytes(&bytes)).collect()
    }

    /// The state of a file's streams; `None` if it was evicted.
    pub fn remembered(&mut self, file: FileKey) -> Option<Streams> {
        let now = &mut self.skel.maps.bss_data.as_deref_mut()?.to_copy;
        now.inode = file.inode;
        now.device = number(file);
        now.generation = file.generation;
        let copying = &self.skel.progs.fr_str_copy_streams;
        let copying = copying.test_run(ProgramInput::default()).ok()?;
        if copying.return_value == 0 {
            return None;
        }
        let copied = &self.skel.maps.fr_str_copied;
        let bytes = copied.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).ok()??;
        let streams = bytes.get(offset_of!(stream_file, streams)..)?;
        Streams::from_bytes(streams.get(..size_of::<Streams>())?)
    }

    /// Tells the policy how many pages of its windows were requested and read.
    pub fn tell_issued(&mut self, file: FileKey, thread: u32, pages: u64, read_pages: u64) {
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            let now = &mut bss.issued_now;
            now.key.inode = file.inode;
            now.key.device = number(file);
            now.key.generation = file.generation;
            now.thread = thread;
            now.pages = pages;
            now.read_pages = read_pages;
        }
        // If this fails, the policy only knows less.
        let _ = self
            .skel
            .progs
            .fr_str_tell_issued
            .test_run(ProgramInput::default());
    }

    pub fn counted(&self) -> Counted {
        self.skel
            .maps
            .bss_data
            .as_deref()
            .map_or_else(Counted::default, |bss| Counted {
                accesses: bss.accesses,
                misses: bss.misses,
                marks: bss.marks,
                untold: bss.untold,
                lost: bss.lost,
            })
    }
}
