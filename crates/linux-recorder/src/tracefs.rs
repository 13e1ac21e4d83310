// SPDX-License-Identifier: MIT OR Apache-2.0
//! Accesses from a trace instance of our own, paths from fanotify.
//!
//! For where BPF is refused. Each access is an event of 44 bytes in the kernel's ring buffer and is
//! summed up here, so a hot loop costs more than with BPF, and a loop hotter than [`drain`] can
//! follow loses events; how many is counted.
//!
//! [`drain`]: TracefsRecorder::drain

mod instance;
mod trace;

use std::collections::HashSet;
use std::io;

use foreread_profile::{BlindSpots, PAGE_BYTES, Profile, Program, Recorder, Source};
use foreread_recorder::tracefs::{
    Chosen, Decoder, FormatError, Kind, PageLayout, ReaderSetup, join, page_layout,
};
use foreread_recorder::{Ancestry, Counts, Names, Unresolved, assemble, device_of, resident};
use foreread_sys::fanotify::{FanotifyError, Group};
use foreread_sys::mounts::{Mounts, mounts_of_self};
use foreread_sys::process_stat::parent_of;
use rustix::param::page_size;
use rustix::process::getpid;
use rustix::thread::gettid;
use thiserror::Error;

use super::fanotify::{LiveFile, inherited_names, now_ns, read_pages, wall_ns};
use super::live_tree::{LiveTree, answering, resolve};
pub(crate) use instance::remove_abandoned;
use instance::{Instance, Tracefs};
use trace::{Cpus, Trace};

/// Why a trace instance can't record here.
#[derive(Debug, Error)]
pub enum TracefsError {
    /// No tracefs, or no right to it.
    #[error(
        "can't reach tracefs: {0}; it needs root, a kernel with CONFIG_FTRACE, and no lockdown in \
         confidentiality mode"
    )]
    Unreachable(io::Error),
    /// The instance couldn't be set up.
    #[error("the kernel refused a trace instance ({step}): {reason}")]
    Refused {
        /// The step that was attempted.
        step: &'static str,
        /// The kernel's answer.
        reason: io::Error,
    },
    /// The kernel's events are not as expected.
    #[error(
        "this kernel doesn't describe its event {0} as expected, so the trace can't be read; \
         please report the kernel version"
    )]
    UnknownFormat(&'static str),
    /// Without paths inodes are of no use.
    #[error(transparent)]
    NoNames(#[from] FanotifyError),
}

fn refused(step: &'static str) -> impl FnOnce(io::Error) -> TracefsError {
    move |reason| TracefsError::Refused { step, reason }
}

/// How to record; the default is what fits a program's first run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracefsOptions {
    /// Ring buffer of all CPUs together.
    pub buffer_kib: u64,
    /// Ring buffer of one CPU at most.
    pub buffer_per_cpu_kib: u64,
    /// Use the events of accesses (Linux 6.13 and later) where there are any. Without, pages count
    /// when they come into the page cache, and those that were in it already by residency.
    pub access_events: bool,
}

impl Default for TracefsOptions {
    fn default() -> Self {
        Self {
            buffer_kib: 64 << 10,
            buffer_per_cpu_kib: 8 << 10,
            access_events: true,
        }
    }
}

/// Two pages are the least that a ring buffer works with.
const BUFFER_KIB_MIN: u64 = 8;

/// Records the pages that a process tree accesses.
pub struct TracefsRecorder {
    // Before the instance, which can't be removed while its buffers are open.
    trace: Trace,
    instance: Instance,
    group: Group,
    names: Names,
    ancestry: Ancestry<fn(i32) -> Option<i32>>,
    /// Process numbers in fanotify's events are others than in the trace.
    numbers_differ: bool,
    blind_spots: BlindSpots,
    drained_ns: u64,
    started_ns: u64,
    started_wall_ns: i64,
}

impl TracefsRecorder {
    /// Starts to trace. The next child of this thread that calls exec is the program recorded.
    ///
    /// # Errors
    /// [`TracefsError`] when tracefs or fanotify can't be had or isn't as expected.
    pub fn start() -> Result<Self, TracefsError> {
        Self::start_with(&TracefsOptions::default())
    }

    /// As [`start`](Self::start), with options.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_with(options: &TracefsOptions) -> Result<Self, TracefsError> {
        let mounts = mounts_of_self().map_err(FanotifyError::NoMounts)?;
        // First, since it may start a thread: after the trace knows this thread, it would be
        // traced.
        let group = Group::watch(&answering(&mounts))?;
        let names = inherited_names();
        let root = Tracefs::open().map_err(TracefsError::Unreachable)?;
        let instance = Instance::create(root).map_err(refused("making it"))?;
        let cpus = Cpus::open(&instance).map_err(refused("opening its buffers"))?;
        set_buffer(&instance, cpus.count(), options).map_err(refused("setting its buffers"))?;
        let header = instance
            .header_page()
            .map_err(refused("reading header_page"))?;
        let layout = page_layout(&header).ok_or(TracefsError::UnknownFormat("header_page"))?;
        let chosen = choose_events(&instance, options)?;
        let own_tid = own_tid(&instance, &cpus, layout, &chosen.decoder)
            .map_err(refused("finding this thread in it"))?;
        enable(&instance, own_tid, &chosen.kinds)?;
        let started_ns = now_ns();
        let local = mounts.points().iter().filter(|point| !point.is_virtual());
        let setup = ReaderSetup {
            layout,
            decoder: chosen.decoder,
            own_tid,
            disks: local.map(device_of).collect(),
            by_access: chosen.by_access,
            unit: page_size() as u64 / PAGE_BYTES,
        };
        let trace = Trace::new(cpus, setup);
        Ok(Self {
            trace,
            instance,
            group,
            names,
            ancestry: Ancestry::new(getpid().as_raw_pid(), parent_of),
            numbers_differ: own_tid != gettid().as_raw_pid(),
            blind_spots: chosen.blind_spots,
            drained_ns: started_ns,
            started_ns,
            started_wall_ns: wall_ns(),
        })
    }

    /// Accesses that it can't see on this kernel.
    #[must_use]
    pub fn blind_spots(&self) -> BlindSpots {
        self.blind_spots
    }

    /// The directory of the trace instance, below tracefs' `instances`.
    #[must_use]
    pub fn instance_name(&self) -> &str {
        self.instance.name()
    }

    /// How many mounts fanotify couldn't watch: accesses there have no path.
    #[must_use]
    pub fn unwatched_mounts(&self) -> usize {
        self.group.unwatched()
    }

    /// Takes in the events that have come since. Call it every 20 ms or so: a ring buffer of 8 MiB
    /// holds 190,000 accesses, and paths are best read before files are renamed or deleted.
    pub fn drain(&mut self) {
        let now = now_ns();
        self.trace.take(&self.instance);
        self.take_names((self.drained_ns, now));
        self.trace.settle();
        self.ancestry.forget();
        self.drained_ns = now;
    }

    fn take_names(&mut self, span: (u64, u64)) {
        let (trace, instance) = (&mut self.trace, &self.instance);
        let (names, ancestry) = (&mut self.names, &mut self.ancestry);
        let numbers_differ = self.numbers_differ;
        let mut strangers = HashSet::new();
        self.group.read(|opened| {
            if strangers.contains(&opened.pid) {
                return;
            }
            let mut ours = trace.reader().has(opened.pid);
            if !ours && !numbers_differ {
                // It may have been forked since. Its fork is in the trace before it first runs.
                trace.take(instance);
                ours = trace.reader().has(opened.pid);
            }
            if !ours && (numbers_differ || trace.has_lost()) {
                // One that has ended can't be asked about; a name too many does no harm.
                ours = ancestry.descends(opened.pid).unwrap_or(true);
            }
            if ours {
                names.note(&LiveFile(opened.fd), opened.executed, span);
            } else {
                strangers.insert(opened.pid);
            }
        });
    }

    /// Ends the recording and makes a profile of it. `source` is completed with the recorder, its
    /// blind spots and what was lost.
    #[must_use]
    pub fn finish(
        mut self,
        mounts: &Mounts,
        program: Program,
        mut source: Source,
    ) -> (Profile, Unresolved, Counts) {
        // Without this a program that lives on would keep the buffers filled.
        let _ = self.instance.files().write("tracing_on", "0");
        self.drain();
        let mut counts = self.trace.counts(&self.instance);
        counts.lost_records += self.group.lost();
        counts.lost_paths = self.names.lost();
        let start_ns = self.trace.reader().start_ns().unwrap_or(self.started_ns);
        let (by_access, since_wall_ns) = (self.trace.reader().by_access(), self.started_wall_ns);
        let accessed = self.trace.into_inodes();
        drop(self.instance);
        let tree = LiveTree::new(mounts);
        let mut already = Vec::new();
        let names = self.names.into_all().inspect(|name| {
            if !by_access && name.uses.0 != 0 {
                let pages = read_pages(name, &tree, since_wall_ns);
                let name = name.clone();
                already.extend(resident(name, pages, start_ns, mounts, &tree));
            }
        });
        let mut joined = join(names, accessed, start_ns, mounts, &tree);
        joined.seen.append(&mut already);
        let recording = assemble(joined.seen, joined.nameless, counts, mounts, &tree);
        source.recorder = Recorder::Tracefs;
        source.blind_spots = BlindSpots(source.blind_spots.0 | self.blind_spots.0);
        source.events_lost = counts.lost();
        let (profile, unresolved) = resolve(&recording, mounts, program, source, None);
        (profile, unresolved, counts)
    }
}

fn set_buffer(instance: &Instance, cpus: usize, options: &TracefsOptions) -> io::Result<()> {
    let share = options.buffer_kib / (cpus.max(1) as u64);
    let kib = share.min(options.buffer_per_cpu_kib).max(BUFFER_KIB_MIN);
    let files = instance.files();
    files.write("buffer_size_kb", &kib.to_string())?;
    // The beginning of a cold start matters most: when the buffer is full, new events are dropped.
    files.write("options/overwrite", "0")?;
    // Names of threads aren't needed; keeping them costs at each switch.
    let _ = files.write("options/record-cmd", "0");
    files.write("trace_clock", "mono")?;
    files.write("options/event-fork", "1")
}

fn choose_events(instance: &Instance, options: &TracefsOptions) -> Result<Chosen, TracefsError> {
    let format = |kind: Kind| {
        let path = format!("events/{}/format", kind.directory());
        instance.files().read(&path)
    };
    Chosen::new(format, options.access_events).map_err(|error| match error {
        FormatError::Unread(reason) => refused("reading event formats")(reason),
        FormatError::Unknown(event) => TracefsError::UnknownFormat(event),
    })
}

/// The number of this thread in the trace. In a container it is another than the one it knows, so a
/// mark is left in the trace and read back.
fn own_tid(
    instance: &Instance,
    cpus: &Cpus,
    layout: PageLayout,
    decoder: &Decoder,
) -> io::Result<i32> {
    /// Inode of the first namespace of processes (`PROC_PID_INIT_INO`).
    const FIRST: &str = "pid:[4026531836]";
    if std::fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link.as_os_str() == FIRST) {
        return Ok(gettid().as_raw_pid());
    }
    marked_tid(instance, cpus, layout, decoder)
}

fn marked_tid(
    instance: &Instance,
    cpus: &Cpus,
    layout: PageLayout,
    decoder: &Decoder,
) -> io::Result<i32> {
    instance.files().write("trace_marker", "foreread")?;
    let mut page = vec![0; layout.page_bytes];
    let mut found = None;
    for cpu in 0..cpus.count() {
        while let Some(page) = cpus.read(cpu, &mut page)? {
            layout.events(page, |_, event| found = found.or(decoder.pid_of(event)));
        }
    }
    found.ok_or_else(|| io::Error::other("a mark that was left in it isn't there"))
}

fn enable(instance: &Instance, own_tid: i32, kinds: &[Kind]) -> Result<(), TracefsError> {
    let files = instance.files();
    files
        .replace("set_event_pid", &own_tid.to_string())
        .map_err(refused("limiting it to one process tree"))?;
    for kind in kinds {
        let directory = kind.directory();
        if !matches!(kind, Kind::Fork | Kind::Exec | Kind::Exit) {
            // This thread is in the list for its children's sake only.
            files
                .write(
                    &format!("events/{directory}/filter"),
                    &format!("common_pid != {own_tid}"),
                )
                .map_err(refused("filtering events"))?;
        }
        files
            .write(&format!("events/{directory}/enable"), "1")
            .map_err(refused("switching events on"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether or not this runs in a container, where no other way leads to the number.
    #[test]
    fn a_mark_in_the_trace_tells_this_thread() {
        let Ok(root) = Tracefs::open() else {
            println!("skipped: no tracefs");
            return;
        };
        let instance = Instance::create(root).expect("an instance");
        let cpus = Cpus::open(&instance).expect("buffers");
        let layout = page_layout(&instance.header_page().expect("header_page"));
        let decoder = Decoder::new(
            &instance
                .files()
                .read("events/sched/sched_process_fork/format")
                .expect("a format"),
        );
        let (layout, decoder) = (layout.expect("a layout"), decoder.expect("a decoder"));
        let tid = own_tid(&instance, &cpus, layout, &decoder).expect("a number");
        let marked = marked_tid(&instance, &cpus, layout, &decoder).expect("a number");
        assert_eq!(tid, marked);
    }

    #[test]
    fn a_refusal_says_what_was_tried() {
        let error = refused("making it")(io::Error::from_raw_os_error(libc::EPERM));
        assert!(error.to_string().contains("making it"));
    }
}
