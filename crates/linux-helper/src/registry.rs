// SPDX-License-Identifier: MIT OR Apache-2.0
//! The helper processes of this process, and the file systems that are left alone.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use foreread_core::Device;
use foreread_prefetch::helper::Health;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::superblock::Superblock;

/// Helpers that hang, of one file system and of all. Each of them holds memory and threads, and
/// none of them can be ended.
const STUCK_MAX: usize = 2;
const STUCK_OF_ALL_MAX: usize = 8;
/// Events of a process that has ended come for so long.
const KNOWN_AFTER_END: Duration = Duration::from_secs(2);

/// A file system that is left alone, because it did not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftAlone {
    /// The file system.
    pub superblock: Superblock,
    /// Time for which it is still left alone.
    pub still: Duration,
    /// Helpers that hang in it.
    pub stuck_helpers: usize,
}

struct Registry {
    began: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    health: Health,
    /// File systems that failed, with their names.
    failed: Vec<Superblock>,
    stuck: Vec<Stuck>,
    processes: Vec<(u32, Option<Instant>)>,
}

/// A helper that was abandoned. Its socket hangs up when it has ended.
struct Stuck {
    device: Device,
    socket: UnixStream,
    process: u32,
}

static IS_ENABLED: AtomicBool = AtomicBool::new(false);

/// Lets askers start helpers. Only an executable whose `main` begins with
/// [`become_helper`](foreread_sys::helper_process::become_helper) may call this.
pub fn enable() {
    IS_ENABLED.store(true, Ordering::Relaxed);
}

/// Whether askers may start helpers.
#[must_use]
pub fn is_enabled() -> bool {
    IS_ENABLED.load(Ordering::Relaxed)
}

fn registry() -> &'static Registry {
    static REGISTRY: OnceLock<Registry> = OnceLock::new();
    REGISTRY.get_or_init(|| Registry {
        began: Instant::now(),
        state: Mutex::default(),
    })
}

fn lock() -> (MutexGuard<'static, State>, Duration) {
    let registry = registry();
    let state = registry.state.lock();
    let mut state = state.unwrap_or_else(PoisonError::into_inner);
    state.forget_ended();
    (state, registry.began.elapsed())
}

impl State {
    fn forget_ended(&mut self) {
        let now = Timespec::default();
        let mut ended = Vec::new();
        self.stuck.retain(|stuck| {
            let mut fds = [PollFd::from_borrowed_fd(
                stuck.socket.as_fd(),
                PollFlags::empty(),
            )];
            let is_there = matches!(poll(&mut fds, Some(&now)), Ok(0));
            if !is_there {
                ended.push(stuck.process);
            }
            is_there
        });
        for process in ended {
            self.ended(process);
        }
        let is_known = |since: Option<Instant>| since.is_none_or(|s| s.elapsed() < KNOWN_AFTER_END);
        self.processes.retain(|(_, ended)| is_known(*ended));
    }

    fn ended(&mut self, process: u32) {
        let mut known = self.processes.iter_mut();
        if let Some((_, ended)) = known.find(|(known, _)| *known == process) {
            *ended = Some(Instant::now());
        }
    }

    fn helpers(&self) -> impl Iterator<Item = u32> {
        let processes = self.processes.iter().map(|(process, _)| *process);
        processes.chain(self.stuck.iter().map(|stuck| stuck.process))
    }

    fn failed(&mut self, superblock: &Superblock, now: Duration) {
        self.health.failed(superblock.device, now);
        self.failed
            .retain(|failed| failed.device != superblock.device);
        self.failed.push(superblock.clone());
    }
}

/// Whether a file system may be asked now.
pub(super) fn may_ask(device: Device) -> bool {
    let (state, now) = lock();
    let of_device = state.stuck.iter().filter(|stuck| stuck.device == device);
    state.health.may_ask(device, now)
        && of_device.count() < STUCK_MAX
        && state.stuck.len() < STUCK_OF_ALL_MAX
}

/// A helper has begun.
pub(super) fn begun(process: u32) {
    lock().0.processes.push((process, None));
}

/// A helper was told to end.
pub(super) fn ended(process: u32) {
    lock().0.ended(process);
}

/// A file system has answered.
pub(super) fn answered(device: Device) {
    let (mut state, now) = lock();
    if state.health.has_failed(device) {
        state.health.answered(device, now);
        if !state.health.has_failed(device) {
            state.failed.retain(|failed| failed.device != device);
        }
    }
}

/// A helper has not answered in time.
pub(super) fn stuck(superblock: &Superblock, process: u32, socket: UnixStream) {
    let (mut state, now) = lock();
    state.failed(superblock, now);
    state.stuck.push(Stuck {
        device: superblock.device,
        socket,
        process,
    });
}

/// A local file system has not answered in time: from now on helpers ask it, after a pause.
pub fn local_failed(superblock: &Superblock) {
    let (mut state, now) = lock();
    state.failed(superblock, now);
}

/// Whether a file system has not answered the last time.
#[must_use]
pub fn has_failed(device: Device) -> bool {
    lock().0.health.has_failed(device)
}

/// The file systems that are left alone now.
#[must_use]
pub fn left_alone() -> Vec<LeftAlone> {
    let (state, now) = lock();
    let left_alone = state.failed.iter().map(|superblock| {
        let of_it = |stuck: &&Stuck| stuck.device == superblock.device;
        LeftAlone {
            superblock: superblock.clone(),
            still: state.health.left_alone_for(superblock.device, now),
            stuck_helpers: state.stuck.iter().filter(of_it).count(),
        }
    });
    left_alone
        .filter(|left| !left.still.is_zero() || left.stuck_helpers > 0)
        .collect()
}

/// The process numbers of helpers, and of those that ended just now.
#[must_use]
pub fn processes() -> Vec<u32> {
    lock().0.helpers().collect()
}

/// Whether a process is a helper of this one.
#[must_use]
pub fn is_helper(process: u32) -> bool {
    lock().0.helpers().any(|helper| helper == process)
}
