// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps a replay from slowing a program that goes elsewhere.
//!
//! A thread looks now and then how much the program had disks read, and whether it came to
//! entries of the profile by itself. From this, [`Proof`] says how much the replay may have under
//! way. If neither can be found out, nothing is limited.

mod gate;
mod signs;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use foreread_prefetch::proof::{Allowance, Followed, Proof, Seen};
use foreread_profile::Profile;
use foreread_sys::tree_reads::{open_paths, tree_reads};

pub use gate::Gate;
pub(crate) use gate::Look;
use signs::Signs;

/// See the [module](self). Dropped, it limits nothing any more.
pub struct Guard {
    shared: Arc<Shared>,
}

struct Shared {
    gate: Arc<Gate>,
    /// Process number of the program; 0 before it has started.
    pid: AtomicU32,
    used_pages: AtomicU64,
    is_over: AtomicBool,
    followed: Mutex<Followed>,
}

impl Guard {
    /// A guard of the replay of this profile; call it before the program starts. `in_doubt` is
    /// whether it is known that the program has changed.
    #[must_use]
    pub fn start(profile: Arc<Profile>, in_doubt: bool) -> Self {
        let proof = Proof::new(in_doubt);
        let shared = Arc::new(Shared {
            gate: Arc::new(Gate::new(proof.allowance())),
            pid: AtomicU32::new(0),
            used_pages: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            followed: Mutex::default(),
        });
        let thread = thread::Builder::new().name("guard".into());
        let own = Arc::clone(&shared);
        let spawned = thread.spawn(move || {
            let _opened = Opened(&own.gate);
            own.watch(&profile, proof, in_doubt);
        });
        if spawned.is_err() {
            shared.gate.open();
        }
        Self { shared }
    }

    /// A guard that limits nothing.
    #[must_use]
    pub fn absent() -> Self {
        let gate = Gate::new(Allowance::ALL);
        gate.open();
        let shared = Shared {
            gate: Arc::new(gate),
            pid: AtomicU32::new(0),
            used_pages: AtomicU64::new(0),
            is_over: AtomicBool::new(true),
            followed: Mutex::default(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// What the threads of the replay ask.
    #[must_use]
    pub fn gate(&self) -> Arc<Gate> {
        Arc::clone(&self.shared.gate)
    }

    /// Tells the process number of the program.
    pub fn program_started(&self, pid: u32) {
        self.shared.pid.store(pid, Ordering::Relaxed);
    }

    /// A way to tell how many pages of the replay the program has used.
    pub fn used_pages(&self) -> impl Fn(u64) + Send + 'static {
        let shared = Arc::clone(&self.shared);
        move |pages| shared.used_pages.store(pages, Ordering::Relaxed)
    }

    /// A way to tell that nothing of the replay is under way any more. There is nothing left to be
    /// limited then, and the program may run for days: the guard ends.
    pub fn replay_ended(&self) -> impl FnOnce() + Send + 'static {
        let shared = Arc::clone(&self.shared);
        move || shared.is_over.store(true, Ordering::Relaxed)
    }

    /// The results so far.
    #[must_use]
    pub fn followed(&self) -> Followed {
        let followed = self.shared.followed.lock();
        *followed.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
    }
}

/// Limits nothing any more when dropped, even by a panic.
struct Opened<'a>(&'a Gate);

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        self.0.open();
    }
}

impl Shared {
    fn watch(&self, profile: &Arc<Profile>, mut proof: Proof, in_doubt: bool) {
        let began = Instant::now();
        let mut signs = Signs::new(Arc::clone(profile), Arc::clone(&self.gate), in_doubt);
        if !signs.can_tell() && !in_doubt {
            return;
        }
        let (mut own_bytes, mut slices, mut delayed) = (0, 0, Duration::ZERO);
        while !self.is_over.load(Ordering::Relaxed) {
            let reads = match self.pid.load(Ordering::Relaxed) {
                0 => None,
                pid => tree_reads(pid),
            };
            let has_read = reads.as_ref().is_some_and(|now| now.read_bytes > own_bytes);
            if let Some(reads) = reads {
                own_bytes = own_bytes.max(reads.read_bytes);
                slices = reads.slices;
                delayed = reads.delayed;
                // A process that waits for a file has it open.
                let open = reads.pids.iter().filter(|_| has_read);
                signs.take_open(open.flat_map(|pid| open_paths(*pid)));
            }
            let count = signs.count(has_read);
            let allowance = proof.look(Seen {
                at: began.elapsed(),
                own_bytes,
                slices,
                delayed,
                signs: count.signs,
                shared: count.shared,
                used_pages: self.used_pages.load(Ordering::Relaxed),
            });
            self.gate.set(allowance);
            let followed = self.followed.lock();
            *followed.unwrap_or_else(PoisonError::into_inner) = proof.followed();
            thread::sleep(proof.look_after());
        }
    }
}
