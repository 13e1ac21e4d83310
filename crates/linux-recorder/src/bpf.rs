// SPDX-License-Identifier: MIT OR Apache-2.0
//! The recorder proper: `bpf/record.bpf.c`, loaded, attached, drained and read out.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::rc::Rc;
use std::time::Instant;

use foreread_bpf::skeletons::record::{OpenRecordSkel, RecordSkel, RecordSkelBuilder};
use foreread_bpf::system_calls;
use foreread_bpf::{BpfError, MissingHook, Served, Wanted, likes, needs, refused};
use foreread_profile::BlindSpots;
use foreread_recorder::accesses::AccessRecord;
use foreread_recorder::{Counts, Inbox, NodeRecord, Record, Recording};
use foreread_sys::kernel::{kernel_release, kernel_version};
use foreread_sys::mounts::mounts_of_self;
use foreread_sys::process_stat::parent_of;
use libbpf_rs::skel::Skel;
use libbpf_rs::{Link, MapCore, MapFlags, ProgramInput, RingBuffer};

use super::abi;
use super::device_pages;

/// How much to watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// All accesses and all names: for a recording.
    Everything,
    /// The same, and each access by itself: for a trace.
    EachAccess,
    /// Pages that were not in memory, and the use of the replay's pages: for a refresh.
    Refresh,
    /// All accesses and all names of all processes, each with its control group: for a boot.
    Machine,
}

/// How much the tables in the kernel hold. What doesn't fit is counted as lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of records waiting to be drained: a power of two, at least a page.
    pub records_bytes: u32,
    /// Inodes.
    pub inodes: u32,
    /// Chunks of 64 pages beyond the first of each file.
    pub chunks: u32,
    /// Processes alive at once.
    pub processes: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            records_bytes: 4 << 20,
            inodes: 1 << 18,
            chunks: 1 << 18,
            processes: 1 << 16,
        }
    }
}

/// In the order in which they are attached.
const LIVES: [&str; 3] = ["forked", "exited", "executed"];
const PAGES: [&str; 4] = ["map_pages", "fault", "page_added", "switched"];
const EXTRAS: [&str; 4] = [
    "user_fault",
    "kernel_fault",
    "file_pages_mapped",
    "ring_read_done",
];
/// Accesses that aren't seen without one of [`EXTRAS`]: not every architecture has tracepoints of
/// page faults, and rarely is all compiled in.
const EXTRAS_LOSS: &str = "pages that a huge page maps without a fault, or io_uring reads in parts";

impl Watch {
    fn wanted(self) -> Vec<Wanted> {
        let mut wanted = Vec::new();
        match self {
            // No process has to be told from others.
            Self::Machine => wanted.push(needs("executed")),
            _ => wanted.extend(LIVES.map(needs)),
        }
        wanted.extend(PAGES.map(needs));
        wanted.push(needs("get_pages"));
        // Lookups are seen by full recordings only: the hook at the end of system calls is the one
        // that costs every process of the machine something.
        if self != Self::Refresh {
            wanted.push(needs("call_done"));
            // A refresh does without them: what a replay brings in is no folio that a PMD could
            // map.
            wanted.extend(EXTRAS.map(|hook| likes(hook, EXTRAS_LOSS)));
        }
        if self == Self::EachAccess {
            wanted.push(likes("block_touched", "metadata that is in memory already"));
        }
        wanted
    }
}

/// The recorder's programs in the kernel. Detached when dropped.
pub struct BpfRecorder {
    skel: RecordSkel<'static>,
    served: Served,
    links: Vec<Link>,
    hits_link: Option<Link>,
    has_missed_hits: bool,
    ring: RingBuffer<'static>,
    inbox: Rc<RefCell<Inbox>>,
}

impl BpfRecorder {
    /// Loads the programs; nothing is attached yet.
    ///
    /// # Errors
    /// [`BpfError`] when BPF, BTF or one of the tracepoints isn't there, or rights are missing.
    pub fn load(watch: Watch) -> Result<Self, BpfError> {
        Self::load_with(watch, Limits::default())
    }

    /// The same with tables of other sizes.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn load_with(watch: Watch, limits: Limits) -> Result<Self, BpfError> {
        let set = |open: &mut OpenRecordSkel<'static>| {
            if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
                system_calls::fill(&mut rodata.syscall_class);
                rodata.maps_whole_folios = u32::from(maps_whole_folios());
                rodata.sends_accesses = u32::from(watch == Watch::EachAccess);
                rodata.only_brought_in = u32::from(watch == Watch::Refresh);
                rodata.records_machine = u32::from(watch == Watch::Machine);
            }
            let maps = &mut open.maps;
            maps.fr_rec_records
                .set_max_entries(limits.records_bytes)
                .and_then(|()| maps.fr_rec_inodes.set_max_entries(limits.inodes))
                .and_then(|()| maps.fr_rec_chunks.set_max_entries(limits.chunks))
                .and_then(|()| maps.fr_rec_traced.set_max_entries(limits.processes))
                .map_err(refused("sizing the tables"))
        };
        let (skel, served) = foreread_bpf::load::<RecordSkelBuilder>(&watch.wanted(), set)?;
        let inbox = Rc::new(RefCell::new(Inbox::default()));
        let receiver = Rc::clone(&inbox);
        let mut repeats = abi::Repeats::default();
        let ring = foreread_bpf::ring(&skel.maps.fr_rec_records, move |bytes| {
            if repeats.are_of(bytes) {
                return;
            }
            if let Some(record) = abi::record(bytes) {
                receiver.borrow_mut().take(record);
            }
        })?;
        Ok(Self {
            skel,
            served,
            links: Vec::new(),
            hits_link: None,
            has_missed_hits: false,
            ring,
            inbox,
        })
    }

    /// Accesses that it can't see on this kernel.
    #[must_use]
    pub fn blind_spots(&self) -> BlindSpots {
        if self.lacking().iter().any(|l| EXTRAS.contains(&l.hook)) {
            BlindSpots::NO_MAPPED_FAULTS
        } else {
            BlindSpots::default()
        }
    }

    /// The programs that this kernel has no place for or refuses.
    #[must_use]
    pub fn lacking(&self) -> &[MissingHook] {
        self.served.lacking()
    }

    /// Attaches the programs. From now on the next child of this thread is the one recorded, once
    /// it calls exec.
    ///
    /// # Errors
    /// [`BpfError`] when a tracepoint refuses.
    pub fn attach(&mut self) -> Result<(), BpfError> {
        self.attach_programs(true)
    }

    /// Attaches the programs to a process that runs since `started`, and to what it has started by
    /// now. Only in the first PID namespace are process numbers the kernel's own.
    ///
    /// # Errors
    /// [`BpfError`] when a tracepoint refuses.
    pub fn attach_to(&mut self, pid: u32, started: Instant) -> Result<(), BpfError> {
        self.start_at(started);
        self.trace(pid)?;
        self.attach_programs(false)?;
        // Children from before forks were seen. Each round may find more, of those not traced yet.
        let mut known = vec![pid];
        loop {
            let children = descendants(&known);
            if children.is_empty() {
                break;
            }
            for child in &children {
                self.trace(*child)?;
            }
            known.extend(children);
        }
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            bss.epoch += 1;
        }
        Ok(())
    }

    /// Attaches the programs to all processes but this one, for one loaded with [`Watch::Machine`].
    /// Times of need count from here.
    ///
    /// # Errors
    /// [`BpfError`] when a tracepoint refuses.
    pub fn attach_to_machine(&mut self) -> Result<(), BpfError> {
        self.start_at(Instant::now());
        self.attach_programs(false)
    }

    fn start_at(&mut self, started: Instant) {
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
            let now_ns = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
            let ago_ns = u64::try_from(started.elapsed().as_nanos()).unwrap_or(0);
            bss.start_ns = now_ns.saturating_sub(ago_ns).max(1);
        }
    }

    fn trace(&self, pid: u32) -> Result<(), BpfError> {
        /// `TRACED_ACTIVE` of `bpf/record.h`.
        const ACTIVE: [u8; 1] = [2];
        let traced = &self.skel.maps.fr_rec_traced;
        traced
            .update(&pid.to_ne_bytes(), &ACTIVE, MapFlags::ANY)
            .map_err(refused("noting the process"))
    }

    fn attach_programs(&mut self, adopt: bool) -> Result<(), BpfError> {
        self.skel
            .progs
            .fr_rec_whoami
            .test_run(ProgramInput::default())
            .map_err(refused("asking for the process number"))?;
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            bss.adopt_pid = if adopt { bss.whoami_pid } else { 0 };
        }
        let hooks = [
            &LIVES[..],
            &PAGES[..],
            &["call_done", "block_touched"],
            &EXTRAS[..],
        ];
        let object = self.skel.object();
        self.links = self.served.attach(object, &hooks.concat())?;
        self.watch_hits(true)
    }

    /// Notes pages of block devices that are in memory by now, as needed from the start: for one
    /// that was attached to the machine early in its boot.
    pub fn note_resident_device_pages(&self) {
        let mounts = mounts_of_self().unwrap_or_default();
        let mut inbox = self.inbox.borrow_mut();
        for record in device_pages::resident(&mounts) {
            inbox.take(Record::Device(record));
        }
    }

    /// Notes files of the root file system that were read while this process was started, as needed
    /// before all others: for one that was attached to the machine early in its boot.
    ///
    /// # Errors
    /// [`BpfError`] when the kernel doesn't run the program that looks for them.
    pub fn note_files_read_earlier(&self) -> Result<(), BpfError> {
        let resident = &self.skel.progs.fr_rec_resident;
        let ran = resident.test_run(ProgramInput::default());
        ran.map_err(refused("looking for files in memory"))?;
        self.drain();
        Ok(())
    }

    /// Counts reads of this process into the page cache as the replay's, or no longer.
    pub fn count_own_reads(&mut self, count: bool) {
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            bss.replay_tgid = if count { bss.whoami_tgid } else { 0 };
        }
    }

    /// Takes reads of helper processes, as of now, for reads of this process. Only in the first PID
    /// namespace are their numbers the kernel's own.
    pub fn note_helpers(&mut self) {
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            let mut helpers = foreread_linux_helper::processes().into_iter();
            let helpers = std::array::from_fn(|_| helpers.next().unwrap_or(0));
            if bss.replay_helpers != helpers {
                bss.replay_helpers = helpers;
                // One of them may have been taken for a process to record.
                bss.epoch += 1;
            }
        }
    }

    /// Sees each page access (`true`), or misses only. A refresh switches to the latter when
    /// accesses bring no more news, so that a program that reads what is cached isn't slowed.
    ///
    /// # Errors
    /// [`BpfError`] when the tracepoint refuses.
    pub fn watch_hits(&mut self, hits: bool) -> Result<(), BpfError> {
        if hits && self.hits_link.is_none() {
            let links = self.served.attach(self.skel.object(), &["get_pages"])?;
            self.hits_link = links.into_iter().next();
        }
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            bss.misses_only = u32::from(!hits);
        }
        if !hits {
            self.hits_link = None;
            self.has_missed_hits = true;
        }
        Ok(())
    }

    /// Whether page accesses that hit are seen now.
    #[must_use]
    pub fn watches_hits(&self) -> bool {
        self.hits_link.is_some()
    }

    /// Whether every access since the start was seen, hits included.
    #[must_use]
    pub fn has_watched_hits_only(&self) -> bool {
        self.hits_link.is_some() && !self.has_missed_hits
    }

    /// Takes what has come since; call it every few tens of milliseconds, so that the ring buffer
    /// of 4 MiB holds what comes between.
    pub fn drain(&self) {
        // An error here is a damaged ring: what it held is counted as lost at its source.
        let _ = self.ring.consume();
    }

    /// The accesses that came since the last time, each after what is known of its file; with
    /// [`Watch::EachAccess`] only.
    pub fn take_accesses(&self, take: impl FnMut(AccessRecord, &HashMap<u32, NodeRecord>)) {
        self.drain();
        self.inbox.borrow_mut().take_accesses(take);
    }

    /// The sums now, but for the missed events: [`Self::finish`] gives these.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        let key = 0u32.to_ne_bytes();
        if let Ok(Some(cpus)) = self
            .skel
            .maps
            .fr_rec_totals
            .lookup_percpu(&key, MapFlags::ANY)
        {
            for bytes in cpus {
                sum += abi::counts(&bytes);
            }
        }
        sum
    }

    /// Detaches and reads the tables out.
    #[must_use]
    pub fn finish(mut self) -> Recording {
        self.links.clear();
        self.hits_link = None;
        self.drain();
        let mut counts = self.counts();
        // This takes a system call for each program, so it is done once, at the end.
        counts.missed_events = foreread_bpf::missed_calls(&self.served.all(self.skel.object()));
        let inbox = self.inbox.take();
        let inodes = foreread_bpf::entries(&self.skel.maps.fr_rec_inodes)
            .iter()
            .map(|(key, value)| abi::inode(key, value))
            .collect();
        let chunks = foreread_bpf::entries(&self.skel.maps.fr_rec_chunks)
            .iter()
            .map(|(key, value)| {
                let (id, number) = abi::chunk_of(key);
                (id, number, abi::chunk(value))
            })
            .collect();
        inbox.finish(inodes, chunks, counts)
    }
}

/// Linux 6.18 began to map all of a large folio at a fault, where it had mapped 16 pages.
fn maps_whole_folios() -> bool {
    kernel_version(&kernel_release()) >= Some((6, 18))
}

/// Processes whose parent is among `parents` and that aren't themselves.
fn descendants(parents: &[u32]) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pids = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| {
        !parents.contains(pid) && parent_of(*pid).is_some_and(|p| parents.contains(&p))
    })
    .collect()
}
