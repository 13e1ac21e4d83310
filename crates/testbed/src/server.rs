// SPDX-License-Identifier: MIT OR Apache-2.0
//! The FUSE server: one file, each read of which takes the time the modelled disk needs.
//!
//! Two threads. The receiver (a thread of the FUSE library) takes requests from the kernel and
//! hands them to the disk. The timer sleeps until the disk has completed a request, and replies.
//! Neither touches a file system: the bytes are in a memfd, which no dropping of caches empties.
//!
//! They share their process with the readers of the disk, but not their file descriptors. When the
//! process is killed, a thread that waits in the kernel for the disk cannot die before its read is
//! answered, and no thread answers any more. The read ends only when the last descriptor of
//! `/dev/fuse` is closed, and a table of descriptors is closed with its last thread. With a table
//! of their own, these threads close `/dev/fuse` at once, and all reads end with an error. They
//! also leave the mount namespace of the disk. The last thread of that namespace unmounts in the
//! kernel, which writes to the disk, before its own descriptors are closed.

use std::ffi::{CString, OsStr};
use std::fs::{File, OpenOptions};
use std::io;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use foreread_model::{Completion, Counters, Disk, DiskParameters, Request};
use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen,
    ReplyStatfs, ReplyWrite, Session, SessionACL, WriteFlags,
};
use rustix::fs::FallocateFlags;
use rustix::mount::{MountFlags, mount};
use rustix::process::configure_io_flusher_behavior;
use rustix::thread::set_current_timer_slack;
use rustix::time::{ClockId, clock_gettime};

use crate::error::TestbedError;
use crate::memory_file::memory_file;
use crate::namespace::{self, MountNamespace};
use crate::sys;
use crate::write_log::{self, LogEntry};

/// The largest request: the largest read that FUSE passes in one message by default (256 pages).
pub(crate) const REQUEST_BYTES_MAX: u32 = 1 << 20;

const FILE_INODE: INodeNo = INodeNo(2);
/// Nothing changes behind the kernel's back: it need never ask again.
const FOREVER: Duration = Duration::from_secs(1 << 30);

/// One read as the server saw it. Times are of `CLOCK_MONOTONIC`, as in BPF's `bpf_ktime_get_ns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceEntry {
    /// When the server took it from the kernel.
    pub arrived_ns: u64,
    /// When the modelled disk turned to it.
    pub started_ns: u64,
    /// When the modelled disk was done with it. The reply follows.
    pub done_ns: u64,
    /// Where it starts on the device.
    pub offset_bytes: u64,
    /// Length in bytes.
    pub length_bytes: u64,
}

/// Counters of the server besides the reads that the disk counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerCounters {
    /// Writes.
    pub write_requests: u64,
    /// Their bytes.
    pub write_bytes: u64,
    /// Replies whose time was waited for.
    pub timed_replies: u64,
    /// By how much those replies were late together: from the time the modelled disk was done to
    /// the time the reply was begun. Divide by `timed_replies` for the mean.
    pub late_ns: u64,
}

/// `CLOCK_MONOTONIC` in nanoseconds.
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(u64::try_from(now.tv_nsec).unwrap_or(0))
}

enum Reply {
    Read(ReplyData),
    Write(ReplyWrite),
}

impl Reply {
    fn error(self, errno: Errno) {
        match self {
            Self::Read(reply) => reply.error(errno),
            Self::Write(reply) => reply.error(errno),
        }
    }
}

struct Pending {
    reply: Reply,
    offset_bytes: u64,
    length_bytes: u32,
    fails: bool,
}

struct Due {
    pending: Pending,
    done_ns: u64,
}

struct Core {
    disk: Disk,
    /// Requests with the disk, by the number they were submitted under. Few, so a sorted list of
    /// them would gain nothing over this map.
    pending: std::collections::HashMap<u64, Pending>,
    next_id: u64,
    trace: Option<Vec<TraceEntry>>,
    counters: ServerCounters,
    completions: Vec<Completion>,
    /// The time until which the timer sleeps, `u64::MAX` without end; `None` while it is awake.
    timer_until_ns: Option<u64>,
    stopping: bool,
    /// Reads that touch these bytes fail.
    failing: Range<u64>,
    /// Writes are answered in the time that the disk takes for them; otherwise at once.
    times_writes: bool,
    /// The content when the log was begun, and what came since.
    log: Option<(File, Vec<LogEntry>)>,
}

impl Core {
    /// Lets the disk run until now and moves the finished requests to `due`.
    fn collect(&mut self, now_ns: u64, due: &mut Vec<Due>) {
        let mut completions = std::mem::take(&mut self.completions);
        self.disk.advance(now_ns, &mut completions);
        for done in completions.drain(..) {
            let Some(pending) = self.pending.remove(&done.id) else {
                continue;
            };
            // It is one of reads.
            if let (Some(trace), Reply::Read(_)) = (&mut self.trace, &pending.reply) {
                trace.push(TraceEntry {
                    arrived_ns: done.arrived_ns,
                    started_ns: done.started_ns,
                    done_ns: done.done_ns,
                    offset_bytes: pending.offset_bytes,
                    length_bytes: u64::from(pending.length_bytes),
                });
            }
            if done.done_ns > done.arrived_ns {
                self.counters.timed_replies += 1;
                self.counters.late_ns += now_ns.saturating_sub(done.done_ns);
            }
            due.push(Due {
                pending,
                done_ns: done.done_ns,
            });
        }
        self.completions = completions;
    }
}

/// Measures the delay of timers on this machine. An idle processor of a virtual machine takes about
/// 30 us to wake up, a third of the latency of the fastest disk. The timer's thread sets its alarm
/// earlier by this delay, and stays awake for the rest of the time, which is mostly none.
#[derive(Default)]
struct Lateness {
    expected_ns: u64,
}

impl Lateness {
    /// Passing more time awake than this would take the processor from the programs measured.
    const MAX_NS: u64 = 50_000;

    /// Follows a change within about eight alarms.
    fn learn(&mut self, late_ns: u64) {
        let late_ns = late_ns.min(Self::MAX_NS);
        self.expected_ns = (self.expected_ns * 7 + late_ns) / 8;
    }
}

/// The state that the threads and the [`crate::Testbed`] share.
pub(crate) struct Server {
    core: Mutex<Core>,
    wake_timer: Condvar,
    store: File,
    /// For replies that the receiver gives itself. Kept: a new one would be zeroed each time.
    buffer: Mutex<Vec<u8>>,
    capacity_bytes: u64,
    file_name: String,
    takes_flushes: bool,
}

impl Server {
    pub(crate) fn new(
        store: File,
        capacity_bytes: u64,
        file_name: String,
        parameters: DiskParameters,
        takes_flushes: bool,
    ) -> Arc<Self> {
        let core = Core {
            disk: Disk::new(parameters),
            pending: std::collections::HashMap::new(),
            next_id: 0,
            trace: None,
            counters: ServerCounters::default(),
            completions: Vec::new(),
            timer_until_ns: None,
            stopping: false,
            failing: 0..0,
            times_writes: false,
            log: None,
        };
        Arc::new(Self {
            core: Mutex::new(core),
            wake_timer: Condvar::new(),
            store,
            buffer: Mutex::new(Vec::new()),
            capacity_bytes,
            file_name,
            takes_flushes,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Core> {
        self.core
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(crate) fn parameters(&self) -> DiskParameters {
        self.lock().disk.parameters().clone()
    }

    pub(crate) fn set_parameters(&self, parameters: DiskParameters) {
        self.lock().disk.set_parameters(now_ns(), parameters);
        // Waiting requests may now be due at another time.
        self.wake_timer.notify_all();
    }

    pub(crate) fn counters(&self) -> Counters {
        self.lock().disk.counters()
    }

    pub(crate) fn server_counters(&self) -> ServerCounters {
        self.lock().counters
    }

    pub(crate) fn reset_counters(&self) {
        let mut core = self.lock();
        core.counters = ServerCounters::default();
        core.disk.reset_counters();
    }

    pub(crate) fn forget_touches(&self) {
        self.lock().disk.forget_touches(now_ns());
    }

    pub(crate) fn trace_start(&self) {
        self.lock().trace = Some(Vec::new());
    }

    pub(crate) fn trace_stop(&self) -> Vec<TraceEntry> {
        self.lock().trace.take().unwrap_or_default()
    }

    pub(crate) fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    /// The memfd that holds the bytes.
    pub(crate) fn store(&self) -> &File {
        &self.store
    }

    /// Reads that touch these bytes fail from now on, in the time they would take.
    pub(crate) fn fail_reads(&self, bytes: Range<u64>) {
        self.lock().failing = bytes;
    }

    pub(crate) fn time_writes(&self, times_writes: bool) {
        self.lock().times_writes = times_writes;
    }

    pub(crate) fn log_writes(&self) -> Result<(), TestbedError> {
        if !self.takes_flushes {
            return Err(TestbedError::Misuse(
                "a log of writes needs a testbed that takes flushes".to_owned(),
            ));
        }
        let start = memory_file(self.capacity_bytes)?;
        // No write comes between the copy and the log.
        let mut core = self.lock();
        write_log::copy(&self.store, &start).map_err(TestbedError::system("copy the disk"))?;
        core.log = Some((start, Vec::new()));
        Ok(())
    }

    pub(crate) fn take_write_log(&self) -> Option<(File, Vec<LogEntry>)> {
        self.lock().log.take()
    }

    fn stop_timer(&self) {
        self.lock().stopping = true;
        self.wake_timer.notify_all();
    }

    /// Starts the thread that mounts the served file at `point` and serves it until it is
    /// unmounted. Returns when the file can be opened.
    pub(crate) fn spawn(
        self: &Arc<Self>,
        point: PathBuf,
        namespace: &MountNamespace,
    ) -> Result<JoinHandle<()>, TestbedError> {
        let server = Arc::clone(self);
        let outside = namespace.outside();
        let (ready, outcome) = mpsc::channel();
        let thread = thread::Builder::new()
            .name("testbed-server".to_owned())
            .spawn(move || match server.connect(&point, &outside) {
                Ok((session, timer)) => {
                    let _ = ready.send(Ok(()));
                    // Ends when the file system is unmounted; reads that are still under way get an
                    // error.
                    let _ = session.run();
                    server.stop_timer();
                    let _ = timer.join();
                }
                Err(error) => {
                    let _ = ready.send(Err(error));
                }
            })
            .map_err(TestbedError::system("start the server's thread"))?;
        let died = |_| TestbedError::Misuse("the server's thread died".to_owned());
        match outcome.recv().map_err(died).and_then(|outcome| outcome) {
            Ok(()) => Ok(thread),
            Err(error) => {
                let _ = thread.join();
                Err(error)
            }
        }
    }

    /// Makes the calling thread the server's: mounts and greets the kernel.
    fn connect(
        self: &Arc<Self>,
        point: &Path,
        outside: &File,
    ) -> Result<(Session<DiskFile>, JoinHandle<()>), TestbedError> {
        sys::part_descriptors(&[self.store.as_fd(), outside.as_fd()]).map_err(
            TestbedError::system("give the server file descriptors of its own"),
        )?;
        prepare_thread();
        let fuse = OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/fuse")
            .map_err(TestbedError::system("open /dev/fuse"))?;
        let data = format!(
            "fd={},rootmode=40000,user_id=0,group_id=0,max_read={REQUEST_BYTES_MAX}",
            fuse.as_raw_fd()
        );
        let data = CString::new(data)
            .map_err(|error| TestbedError::system("mount FUSE")(io::Error::other(error)))?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        mount("foreread-testbed", point, "fuse", flags, data.as_c_str())
            .map_err(TestbedError::system("mount the FUSE file system"))?;
        namespace::move_into(outside).map_err(TestbedError::system(
            "keep the server out of the disk's namespace",
        ))?;
        let file = DiskFile(Arc::clone(self));
        let config = fuser::Config::default();
        let session = Session::from_fd(file, OwnedFd::from(fuse), SessionACL::Owner, config)
            .map_err(TestbedError::system("agree with the kernel on FUSE"))?;
        let server = Arc::clone(self);
        let timer = thread::Builder::new()
            .name("testbed-timer".to_owned())
            .spawn(move || server.run_timer())
            .map_err(TestbedError::system("start the timer's thread"))?;
        Ok((session, timer))
    }

    fn run_timer(&self) {
        let mut due = Vec::new();
        let mut buffer = Vec::new();
        let mut lateness = Lateness::default();
        while self.wait_for_due(&mut due, &mut lateness) {
            self.reply_all(&mut due, &mut buffer);
        }
    }

    /// Sleeps until something is done. False when the server stops.
    fn wait_for_due(&self, due: &mut Vec<Due>, lateness: &mut Lateness) -> bool {
        let mut core = self.lock();
        loop {
            if core.stopping {
                return false;
            }
            let now = now_ns();
            core.collect(now, due);
            core.timer_until_ns = None;
            if !due.is_empty() {
                return true;
            }
            let event_ns = core.disk.next_event_ns();
            core.timer_until_ns = Some(event_ns.unwrap_or(u64::MAX));
            core = match event_ns {
                None => self
                    .wake_timer
                    .wait(core)
                    .unwrap_or_else(|poisoned| poisoned.into_inner()),
                Some(event_ns) => self.sleep_until(core, now, event_ns, lateness),
            };
        }
    }

    /// Sleeps until the event or until the receiver has an earlier one.
    fn sleep_until<'a>(
        &'a self,
        core: MutexGuard<'a, Core>,
        now: u64,
        event_ns: u64,
        lateness: &mut Lateness,
    ) -> MutexGuard<'a, Core> {
        let wake_ns = event_ns.saturating_sub(lateness.expected_ns);
        if wake_ns <= now {
            drop(core);
            while now_ns() < event_ns {
                std::hint::spin_loop();
            }
            return self.lock();
        }
        let pause = Duration::from_nanos(wake_ns - now);
        let (core, waited) = self
            .wake_timer
            .wait_timeout(core, pause)
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        if waited.timed_out() {
            lateness.learn(now_ns().saturating_sub(wake_ns));
        }
        core
    }

    fn reply_all(&self, due: &mut Vec<Due>, buffer: &mut Vec<u8>) {
        // In the order the disk was done with them.
        debug_assert!(
            due.windows(2)
                .all(|pair| pair[0].done_ns <= pair[1].done_ns)
        );
        for Due { pending, .. } in due.drain(..) {
            if pending.fails {
                pending.reply.error(Errno::EIO);
                continue;
            }
            let reply = match pending.reply {
                Reply::Read(reply) => reply,
                Reply::Write(reply) => {
                    reply.written(pending.length_bytes);
                    continue;
                }
            };
            let length = pending.length_bytes as usize;
            if buffer.len() < length {
                buffer.resize(length, 0);
            }
            match self
                .store
                .read_exact_at(&mut buffer[..length], pending.offset_bytes)
            {
                Ok(()) => reply.data(&buffer[..length]),
                Err(_) => reply.error(Errno::EIO),
            }
        }
    }

    /// Gives a request to the disk, and answers what it is done with.
    fn submit(&self, offset_bytes: u64, length_bytes: u32, reply: Reply) {
        let now = now_ns();
        let mut due = Vec::new();
        {
            let mut core = self.lock();
            let id = core.next_id;
            core.next_id += 1;
            let end_bytes = offset_bytes.saturating_add(u64::from(length_bytes));
            let write = matches!(reply, Reply::Write(_));
            let fails = !write && offset_bytes < core.failing.end && core.failing.start < end_bytes;
            core.pending.insert(
                id,
                Pending {
                    reply,
                    offset_bytes,
                    length_bytes,
                    fails,
                },
            );
            core.disk.submit(
                now,
                Request {
                    id,
                    offset_bytes,
                    length_bytes: u64::from(length_bytes),
                    write,
                },
            );
            core.collect(now, &mut due);
            let sleeps_until_ns = core.timer_until_ns;
            let event_ns = core.disk.next_event_ns();
            if let (Some(until_ns), Some(event_ns)) = (sleeps_until_ns, event_ns)
                && event_ns < until_ns
            {
                core.timer_until_ns = None;
                drop(core);
                self.wake_timer.notify_one();
            }
        }
        if !due.is_empty() {
            let mut buffer = self
                .buffer
                .lock()
                .unwrap_or_else(|poisoned| poisoned.into_inner());
            self.reply_all(&mut due, &mut buffer);
        }
    }

    fn attributes(&self, inode: INodeNo) -> Option<FileAttr> {
        let (kind, perm, size, nlink) = match inode {
            INodeNo::ROOT => (FileType::Directory, 0o700, 0, 2),
            FILE_INODE => (FileType::RegularFile, 0o600, self.capacity_bytes, 1),
            _ => return None,
        };
        let epoch = SystemTime::UNIX_EPOCH;
        Some(FileAttr {
            ino: inode,
            size,
            blocks: size / 512,
            atime: epoch,
            mtime: epoch,
            ctime: epoch,
            crtime: epoch,
            kind,
            perm,
            nlink,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }
}

/// Fits the calling thread, and those it creates, for serving a disk.
fn prepare_thread() {
    // Timers may otherwise fire 50 us late, half a latency of the fastest disk.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
    // Memory that the server allocates must not be won by writing to the disk that it serves.
    let _ = configure_io_flusher_behavior(true);
    // A container may refuse this and the others. They only make the model more exact; the counter
    // `late_ns` shows the cost of doing without them.
    let _ = sys::run_in_real_time();
}

/// The face the FUSE library sees.
struct DiskFile(Arc<Server>);

impl Filesystem for DiskFile {
    fn init(&mut self, _: &fuser::Request, config: &mut KernelConfig) -> io::Result<()> {
        // Without it, the kernel waits for each direct read before it sends the next.
        config
            .add_capabilities(InitFlags::FUSE_ASYNC_DIO)
            .map_err(|_| {
                io::Error::new(
                    io::ErrorKind::Unsupported,
                    "FUSE without asynchronous direct I/O",
                )
            })?;
        // Asynchronous requests count as background ones; the disk's queue bounds them, not FUSE.
        let refused = |nearest: u16| io::Error::other(format!("at most {nearest} in background"));
        config.set_max_background(u16::MAX).map_err(refused)?;
        config
            .set_max_write(REQUEST_BYTES_MAX)
            .map_err(|nearest| io::Error::other(format!("the largest write is {nearest} bytes")))?;
        Ok(())
    }

    fn lookup(&self, _: &fuser::Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.0.attributes(FILE_INODE) {
            Some(attributes) if parent == INodeNo::ROOT && name == self.0.file_name.as_str() => {
                reply.entry(&FOREVER, &attributes, Generation(0));
            }
            _ => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &fuser::Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.0.attributes(inode) {
            Some(attributes) => reply.attr(&FOREVER, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn open(&self, _: &fuser::Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let flags = FopenFlags::FOPEN_DIRECT_IO
            | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES
            | FopenFlags::FOPEN_NOFLUSH;
        reply.opened(FileHandle(0), flags);
    }

    fn read(
        &self,
        _: &fuser::Request,
        _: INodeNo,
        _: FileHandle,
        offset_bytes: u64,
        length_bytes: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let left_bytes = self.0.capacity_bytes.saturating_sub(offset_bytes);
        let left_bytes = u32::try_from(left_bytes).unwrap_or(u32::MAX);
        let length_bytes = length_bytes.min(left_bytes);
        self.0
            .submit(offset_bytes, length_bytes, Reply::Read(reply));
    }

    fn write(
        &self,
        _: &fuser::Request,
        _: INodeNo,
        _: FileHandle,
        offset_bytes: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let end_bytes = offset_bytes.saturating_add(data.len() as u64);
        if end_bytes > self.0.capacity_bytes {
            return reply.error(Errno::ENOSPC);
        }
        // It is stored and logged before the kernel is told.
        let mut core = self.0.lock();
        match (
            self.0.store.write_all_at(data, offset_bytes),
            u32::try_from(data.len()),
        ) {
            (Ok(()), Ok(length)) => {
                core.counters.write_requests += 1;
                core.counters.write_bytes += data.len() as u64;
                if let Some((_, log)) = &mut core.log {
                    log.push(LogEntry::Write {
                        offset_bytes,
                        data: data.to_vec(),
                    });
                }
                let times_writes = core.times_writes;
                drop(core);
                match times_writes {
                    true => self.0.submit(offset_bytes, length, Reply::Write(reply)),
                    false => reply.written(length),
                }
            }
            _ => reply.error(Errno::EIO),
        }
    }

    /// Refused for good, unless the testbed takes flushes: the kernel then takes every flush as
    /// done without asking.
    fn fsync(&self, _: &fuser::Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        if !self.0.takes_flushes {
            return reply.error(Errno::ENOSYS);
        }
        if let Some((_, log)) = &mut self.0.lock().log {
            log.push(LogEntry::Flush);
        }
        reply.ok();
    }

    fn flush(
        &self,
        _: &fuser::Request,
        _: INodeNo,
        _: FileHandle,
        _: LockOwner,
        reply: ReplyEmpty,
    ) {
        reply.error(Errno::ENOSYS);
    }

    /// The loop device asks for the block size when it offers discards.
    fn statfs(&self, _: &fuser::Request, _: INodeNo, reply: ReplyStatfs) {
        let blocks = self.0.capacity_bytes / 4096;
        reply.statfs(blocks, 0, 0, 1, 0, 4096, 255, 4096);
    }

    /// Discards and zeroing give the memory back.
    fn fallocate(
        &self,
        _: &fuser::Request,
        _: INodeNo,
        _: FileHandle,
        offset_bytes: u64,
        length_bytes: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        if mode & (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE) == 0 {
            return reply.error(Errno::EOPNOTSUPP);
        }
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let mut core = self.0.lock();
        let punched = rustix::fs::fallocate(&self.0.store, punch, offset_bytes, length_bytes);
        if let (Ok(()), Some((_, log))) = (punched, &mut core.log) {
            log.push(LogEntry::Discard {
                offset_bytes,
                length_bytes,
            });
        }
        drop(core);
        match punched {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(Errno::from_i32(error.raw_os_error())),
        }
    }
}
