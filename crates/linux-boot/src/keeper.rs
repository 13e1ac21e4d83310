// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps the history while the boot goes on, in a thread of its own: a write may wait for a busy
//! disk, and the recorder's buffer must be emptied meanwhile.
//!
//! The boot is entered before anything else, as soon as the file system can be written to. Early in
//! a boot it may be read-only.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use foreread_boot::trace::TracedUnit;
use foreread_boot::{Boot, DELAYING_UNITS, History, Measured, Reads, delay, is_timed_only};

use crate::state::{StateDirectory, StateError};
use crate::systemd;

/// A boot that isn't entered by then is not replayed any further: should it fail, nobody would
/// know.
const ENTERED_WITHIN: Duration = Duration::from_secs(30);
/// How often it is tried on a file system that is read-only still.
const TRY_EVERY: Duration = Duration::from_millis(100);

/// Its start is the time at which a boot has reached its target.
const REACHED_UNIT: &str = "foreread-boot-reached.service";
/// On a busy processor we notice that 0.1 to 0.3 s later. A longer time is that of another boot, or
/// of a system that has the unit and is not booting.
const NOTICED_WITHIN: Duration = Duration::from_secs(10);

/// For the thread.
enum Message {
    /// The boot has reached its target.
    Reached(Reached),
    /// It was ended in order before that.
    Withdraw,
}

/// What is known when a boot reaches its target.
#[derive(Clone, Copy, Debug)]
pub struct Reached {
    /// When we noticed, since the kernel started.
    pub at: Duration,
    /// Whether it had before we were started.
    pub was_reached: bool,
    /// When we were started, since the kernel was.
    pub served_from: Duration,
    /// Whether that was in the initramfs.
    pub from_initramfs: bool,
    /// Sum of the times that processes waited for disks, in ns.
    pub stall_ns: Option<u64>,
    /// For how long it was recorded.
    pub recorded_for: Option<Duration>,
    /// What disks were read for, of a boot with a replay.
    pub reads: Option<Reads>,
}

/// What has become of it.
pub enum Told {
    /// The boot can't be entered, for this reason.
    NotEntered(StateError),
    /// It is confirmed. It may be that it could not be kept.
    Confirmed(Measured, Result<(), StateError>),
}

/// The thread.
pub struct Keeper {
    /// `None` once it is to end.
    messages: Option<Sender<Message>>,
    told: Receiver<Told>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread has.
struct Entry {
    state: StateDirectory,
    history: History,
    /// Of the boot.
    id: String,
    sets_aside: bool,
}

impl Entry {
    /// Does what it is told, until nobody can tell it any more. Before that, it enters the boot.
    fn keep(mut self, messages: &Receiver<Message>, tell: &Sender<Told>) {
        let begun = Instant::now();
        let mut is_to_enter = true;
        loop {
            if is_to_enter {
                let entered = self.enter();
                let may_come =
                    |error: &StateError| error.is_read_only() && begun.elapsed() < ENTERED_WITHIN;
                is_to_enter = entered.as_ref().is_err_and(may_come);
                if let Err(error) = entered
                    && !is_to_enter
                {
                    // The receiver may have ended.
                    let _ = tell.send(Told::NotEntered(error));
                }
            }
            let message = match is_to_enter {
                true => messages.recv_timeout(TRY_EVERY),
                false => messages.recv().map_err(RecvTimeoutError::from),
            };
            match message {
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
                Ok(Message::Withdraw) => {
                    self.history.withdraw(&self.id);
                    // A boot that could not be entered is none to be withdrawn either.
                    let _ = self.state.keep_history(&self.history);
                }
                Ok(Message::Reached(reached)) => {
                    is_to_enter = false;
                    let _ = tell.send(self.confirm(reached));
                }
            }
        }
    }

    fn enter(&self) -> Result<(), StateError> {
        if self.sets_aside {
            self.state.set_profile_aside()?;
        }
        self.state.keep_history(&self.history)
    }

    fn confirm(&mut self, reached: Reached) -> Told {
        // `systemctl` is run once for all of them.
        let asked = [&DELAYING_UNITS[..], &[REACHED_UNIT]].concat();
        let units = systemd::units(&asked);
        let reached = Reached {
            at: target_time(&reached, &units),
            ..reached
        };
        let measured = measured(reached);
        let target_ns = u64::try_from(reached.at.as_nanos()).unwrap_or(u64::MAX);
        let delayed_by = delay(&units, target_ns);
        self.history.confirm(&self.id, measured, delayed_by);
        let kept = self.state.keep_history(&self.history).and_then(|()| {
            self.state.forget_changes();
            // The hook in an initramfs starts us in any case.
            let is_timed_only = !reached.from_initramfs && is_timed_only(&self.history);
            self.state.set_timed_only(is_timed_only)
        });
        Told::Confirmed(measured, kept)
    }
}

impl Keeper {
    /// Enters a boot. With `sets_aside`, the profile is set aside before: if this boot fails, too,
    /// the next one must not replay it. `None` when no thread can be started.
    pub fn start(
        state: StateDirectory,
        mut history: History,
        boot: Boot,
        sets_aside: bool,
    ) -> Option<Self> {
        let (messages, received) = mpsc::channel();
        let (tell, told) = mpsc::channel();
        let id = boot.id.clone();
        history.begin(boot);
        let entry = Entry {
            state,
            history,
            id,
            sets_aside,
        };
        let builder = thread::Builder::new().name("history".into());
        let thread = builder.spawn(move || entry.keep(&received, &tell));
        Some(Self {
            messages: Some(messages),
            told,
            thread: Some(thread.ok()?),
        })
    }

    /// Confirms the boot.
    pub fn reached(&self, reached: Reached) {
        self.say(Message::Reached(reached));
    }

    /// Forgets the boot: it was ended in order.
    pub fn withdraw(&self) {
        self.say(Message::Withdraw);
    }

    /// What it tells next, if anything.
    pub fn told(&self) -> Option<Told> {
        self.told.try_recv().ok()
    }

    /// Ends it, once all is kept. Returns the rest of what it tells.
    pub fn finish(&mut self) -> Vec<Told> {
        self.messages = None;
        if let Some(thread) = self.thread.take() {
            // It has no reason to panic; what it kept is whole in any case.
            let _ = thread.join();
        }
        self.told.try_iter().collect()
    }

    fn say(&self, message: Message) {
        if let Some(messages) = &self.messages {
            // A thread that has ended has told why.
            let _ = messages.send(message);
        }
    }
}

/// When the boot had reached its target, by systemd if that tells: the same for a boot that was
/// noticed at once as for one that was noticed later.
fn target_time(reached: &Reached, units: &[TracedUnit]) -> Duration {
    let is_it = |told: &Duration| {
        let noticed_after = reached.at.checked_sub(*told);
        noticed_after.is_some_and(|after| reached.was_reached || after <= NOTICED_WITHIN)
    };
    let unit = units.iter().find(|unit| unit.name == REACHED_UNIT);
    let told = unit.and_then(|unit| unit.started_ns.map(Duration::from_nanos));
    told.filter(is_it).unwrap_or(reached.at)
}

fn measured(reached: Reached) -> Measured {
    let from = match reached.from_initramfs {
        true => reached.served_from,
        false => systemd::init_started().unwrap_or(reached.served_from),
    };
    let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    Measured {
        target_ns: nanoseconds(reached.at.saturating_sub(from)),
        recorded_ns: reached.recorded_for.map(nanoseconds),
        from_initramfs: reached.from_initramfs,
        stall_ns: reached.stall_ns,
        reads: reached.reads,
    }
}
