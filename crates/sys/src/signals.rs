// SPDX-License-Identifier: MIT OR Apache-2.0
//! Signals of a process that wraps a command: they are for the command.
//!
//! [`hold`] blocks them before the first thread is started, since a thread inherits the mask of the
//! one that starts it: a signal that one thread doesn't block ends the whole process, and its
//! command is abandoned. A command gets the mask and the ignored signals that this process was
//! started with.
//!
//! [`Held::pass_on`] sends to the command what was sent to this process alone. The rest has reached
//! the command by itself: the keys of a terminal and signals to the process group do.

use std::io;
use std::mem::zeroed;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};

use crate::interrupt::timespec;
use crate::process_stat::{is_stopped, signal_mask, waits_for_signals};
use crate::witness::Witness;

/// Signals that are not held back: those of errors in this process, which [`crate::child`] handles.
/// SIGKILL and SIGSTOP can't be.
const NOT_HELD: [i32; 6] = [
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGSEGV,
    libc::SIGSYS,
    libc::SIGTRAP,
];
/// Signals that end no process by default.
const HARMLESS: [i32; 4] = [libc::SIGCHLD, libc::SIGCONT, libc::SIGURG, libc::SIGWINCH];
/// Signals that stop a process by default.
const STOPPING: [i32; 3] = [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
/// Pause between two looks at a command of whose end nothing tells.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Pause after a wait that the kernel refused. The command must be waited for all the same.
const AGAIN_AFTER: Duration = Duration::from_millis(20);

/// Whether SIGPIPE was ignored when this process was started. Rust ignores it before `main`.
static IGNORED_PIPES: AtomicBool = AtomicBool::new(false);

/// The runtime of the language calls this before its own `main`, which ignores SIGPIPE.
#[used]
// SAFETY: the section holds pointers to functions of this kind.
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = note_ignored_pipes;

extern "C" fn note_ignored_pipes() {
    IGNORED_PIPES.store(is_ignored_now(libc::SIGPIPE), Ordering::Relaxed);
}

fn is_ignored_now(signal: i32) -> bool {
    // SAFETY: asks only; the kernel fills a struct that lives through the call.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        let asked = libc::sigaction(signal, std::ptr::null(), &raw mut action);
        asked == 0 && action.sa_sigaction == libc::SIG_IGN
    }
}

/// Signals that are held back.
pub struct Held {
    /// Readable when one has come; `None` where the kernel gives no such descriptor.
    fd: Option<OwnedFd>,
    set: libc::sigset_t,
    inherited: libc::sigset_t,
    /// Those that were ignored when this process was started.
    ignored: libc::sigset_t,
    witness: Option<Witness>,
    own_pid: i32,
}

/// A signal that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Came {
    signal: i32,
    /// `si_code`: how it was sent.
    code: i32,
    sender: i32,
    /// What `sigqueue(3)` sends along.
    value: u64,
}

impl Came {
    /// Whether a child of this process has ended, stopped or been continued.
    #[must_use]
    pub fn is_of_child(self) -> bool {
        self.signal == libc::SIGCHLD
    }

    fn is_by_kernel(self) -> bool {
        self.code == libc::SI_KERNEL
    }
}

/// Holds the signals back, from the first call on. That must come before the first thread.
pub fn hold() -> &'static Held {
    static HELD: OnceLock<Held> = OnceLock::new();
    HELD.get_or_init(Held::hold)
}

/// Ends this process by a signal, or, if that doesn't end it, with the exit code that a shell has
/// for it. Async-signal-safe.
pub(crate) fn end_by(signal: i32) -> ! {
    // SAFETY: plain system calls on this process; a core file of ours would only hide the command's
    // own.
    unsafe {
        let none = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
        libc::signal(signal, libc::SIG_DFL);
        libc::kill(libc::getpid(), signal);
        unblock(signal);
        libc::_exit(128 + signal)
    }
}

/// Lets a signal through to this thread.
///
/// # Safety
/// It is handled as this process has it set.
unsafe fn unblock(signal: i32) {
    // SAFETY: the set is initialised by sigemptyset before use.
    unsafe {
        let mut set: libc::sigset_t = zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
    }
}

impl Held {
    fn hold() -> Self {
        // SAFETY: the sets are initialised before use; signalfd returns a new descriptor that
        // nobody else owns. The calls fail for wrong requests only, but for signalfd, without which
        // signals are waited for by sigtimedwait. The caller has no other thread.
        unsafe {
            let mut set: libc::sigset_t = zeroed();
            libc::sigfillset(&raw mut set);
            for signal in NOT_HELD {
                libc::sigdelset(&raw mut set, signal);
            }
            let mut ignored: libc::sigset_t = zeroed();
            libc::sigemptyset(&raw mut ignored);
            for signal in 1..=libc::SIGRTMAX() {
                if is_ignored_now(signal) && signal != libc::SIGPIPE {
                    libc::sigaddset(&raw mut ignored, signal);
                }
            }
            if IGNORED_PIPES.load(Ordering::Relaxed) {
                libc::sigaddset(&raw mut ignored, libc::SIGPIPE);
            }
            let mut inherited: libc::sigset_t = zeroed();
            libc::sigemptyset(&raw mut inherited);
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut inherited);
            // Ignored ends of children could not be waited for.
            if libc::sigismember(&raw const ignored, libc::SIGCHLD) == 1 {
                libc::signal(libc::SIGCHLD, libc::SIG_DFL);
            }
            let fd = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            Self {
                fd: (fd >= 0).then(|| OwnedFd::from_raw_fd(fd)),
                set,
                inherited,
                ignored,
                witness: Witness::start(),
                own_pid: libc::getpid(),
            }
        }
    }

    /// Gives a forked process the mask and the ignored signals that this one was started with. It
    /// is async-signal-safe and allocates nothing.
    pub fn restore(&self) {
        // SAFETY: plain system calls; the sets are initialised.
        unsafe {
            for signal in NOT_HELD
                .into_iter()
                .chain([libc::SIGABRT, libc::SIGCHLD, libc::SIGPIPE])
            {
                let action = match self.ignores(signal) {
                    true => libc::SIG_IGN,
                    false => libc::SIG_DFL,
                };
                libc::signal(signal, action);
            }
            let old = std::ptr::null_mut();
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.inherited, old);
        }
    }

    /// Whether a signal was ignored when this process was started.
    fn ignores(&self, signal: i32) -> bool {
        // SAFETY: the set is initialised.
        unsafe { libc::sigismember(&raw const self.ignored, signal) == 1 }
    }

    /// Whether a signal was blocked when this process was started.
    fn blocks(&self, signal: i32) -> bool {
        // SAFETY: the set is initialised.
        unsafe { libc::sigismember(&raw const self.inherited, signal) == 1 }
    }

    /// Readable when a signal has come; `None` where the kernel gives no such descriptor.
    #[must_use]
    pub fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }

    /// Does what the signals that have come so far would have done to a command in our place: one
    /// may have stopped it; one may have ended it, and is returned. Those that it would have been
    /// started with, since they were blocked, are returned as the second.
    #[must_use]
    pub fn before_start(&self) -> (Option<i32>, Vec<Came>) {
        let mut kept = Vec::new();
        while let Some(came) = self.next() {
            let signal = came.signal;
            if self.ignores(signal) || HARMLESS.contains(&signal) || self.is_own(came) {
                continue;
            }
            if self.blocks(signal) {
                kept.push(came);
            } else if STOPPING.contains(&signal) {
                self.stop_by(signal, || true);
            } else {
                return (Some(signal), kept);
            }
        }
        (None, kept)
    }

    /// Whether a write of ours to a closed pipe, or beyond a limit of file sizes, has caused it.
    fn is_own(&self, came: Came) -> bool {
        [libc::SIGPIPE, libc::SIGXFSZ].contains(&came.signal) && came.sender == self.own_pid
    }

    /// Sends a signal on to the command, if it came to this process alone. Async-signal-safe.
    pub fn pass_on(&self, came: Came, pid: i32) {
        let Came { signal, sender, .. } = came;
        if came.is_of_child() || self.is_own(came) {
            return;
        }
        if came.is_by_kernel() {
            // A timer that was set before this program was executed is the command's. The rest are
            // a terminal's, for all of its group, or limits of this process.
            if signal == libc::SIGALRM {
                send(came, pid);
            }
            return;
        }
        // A command that signals its parent doesn't mean itself.
        if sender == pid {
            return;
        }
        let was_to_group = || {
            let witness = self.witness.as_ref();
            witness.is_some_and(|witness| witness.has_seen(signal, sender))
        };
        if !was_to_group() || !is_in_our_group(pid) || has_not_reached(signal, pid) {
            send(came, pid);
        }
    }

    /// The signals that have come and were not taken yet, as a set.
    pub(crate) fn pending() -> libc::sigset_t {
        // SAFETY: the kernel fills the set, which is initialised.
        unsafe {
            let mut set: libc::sigset_t = zeroed();
            libc::sigemptyset(&raw mut set);
            libc::sigpending(&raw mut set);
            set
        }
    }

    /// Sends on what came until now. `kept` and `pending` came before the command was there: not
    /// even those to our group have reached it.
    ///
    /// What came since is passed on as always: on a busy machine this process may run again so late
    /// that the command has handled a signal to the group already. A signal to the group between
    /// the call that told `pending` and the fork, less than a microsecond, is lost.
    pub(crate) fn pass_on_after_start(&self, kept: &[Came], pending: &libc::sigset_t, pid: i32) {
        for came in kept {
            send(*came, pid);
        }
        while let Some(came) = self.next() {
            // SAFETY: the set is initialised.
            let was_pending = unsafe { libc::sigismember(pending, came.signal) == 1 };
            if was_pending && !came.is_of_child() && !self.is_own(came) {
                send(came, pid);
            } else {
                self.pass_on(came, pid);
            }
        }
    }

    /// Stops this process as the command was stopped, so that a shell takes its terminal back.
    /// Returns when this process has been continued.
    pub fn stop_as(&self, signal: i32, pid: i32) {
        let signal = match STOPPING.contains(&signal) {
            true => signal,
            // SIGSTOP can't be taken back when the command has been continued meanwhile.
            false => libc::SIGTSTP,
        };
        if !self.ignores(signal) {
            self.stop_by(signal, || is_stopped(pid));
        }
    }

    /// Stops this process by a signal if `shall` is true. Whoever continues it after the call of
    /// `shall` began isn't missed: SIGCONT takes pending stop signals back.
    fn stop_by(&self, signal: i32, shall: impl FnOnce() -> bool) {
        // SAFETY: plain system calls on this process; the sets are initialised before use.
        unsafe {
            let mut one: libc::sigset_t = zeroed();
            libc::sigemptyset(&raw mut one);
            libc::sigaddset(&raw mut one, signal);
            libc::kill(self.own_pid, signal);
            if shall() {
                unblock(signal);
                libc::pthread_sigmask(libc::SIG_BLOCK, &raw const one, std::ptr::null_mut());
            } else {
                let at_once = libc::timespec {
                    tv_sec: 0,
                    tv_nsec: 0,
                };
                libc::sigtimedwait(&raw const one, std::ptr::null_mut(), &raw const at_once);
            }
        }
    }

    /// Ends the process that tells signals to the group from others. Async-signal-safe.
    pub(crate) fn dismiss_witness(&self) {
        if let Some(witness) = &self.witness {
            witness.dismiss();
        }
    }

    /// The next signal that has come, if any; doesn't wait.
    #[must_use]
    pub fn next(&self) -> Option<Came> {
        match &self.fd {
            Some(fd) => read(fd),
            None => self.wait_without_fd(Some(Duration::ZERO)),
        }
    }

    /// Waits for a signal, for `also` to be readable, or for at most `limit`. Returns the signal. A
    /// wait that the kernel refuses is a short pause.
    pub fn wait(&self, also: Option<BorrowedFd<'_>>, limit: Option<Duration>) -> Option<Came> {
        let Some(fd) = &self.fd else {
            return self.wait_without_fd(limit);
        };
        let fds = [Some(fd.as_fd()), also].into_iter().flatten();
        let fds = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        let timeout = limit.map(timespec);
        match poll(&mut fds.collect::<Vec<_>>(), timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => pause(limit),
        }
        read(fd)
    }

    /// The same, by system calls that need no descriptor and no memory.
    pub(crate) fn wait_without_fd(&self, limit: Option<Duration>) -> Option<Came> {
        let seconds = |limit: Duration| libc::time_t::try_from(limit.as_secs());
        let timeout = limit.map(|limit| libc::timespec {
            tv_sec: seconds(limit).unwrap_or(libc::time_t::MAX),
            tv_nsec: libc::c_long::from(limit.subsec_nanos().cast_signed()),
        });
        // SAFETY: the structs live through the call, and the set is initialised. Sender and value
        // are numbers in whatever union they are.
        unsafe {
            let mut info: libc::siginfo_t = zeroed();
            let timeout = timeout
                .as_ref()
                .map_or(std::ptr::null(), |of| &raw const *of);
            let signal = libc::sigtimedwait(&raw const self.set, &raw mut info, timeout);
            if signal > 0 {
                return Some(Came {
                    signal,
                    code: info.si_code,
                    sender: info.si_pid(),
                    value: info.si_value().sival_ptr.addr() as u64,
                });
            }
        }
        let error = io::Error::last_os_error().raw_os_error();
        if ![Some(libc::EAGAIN), Some(libc::EINTR)].contains(&error) {
            pause(limit);
        }
        None
    }
}

/// A wait was refused.
fn pause(limit: Option<Duration>) {
    std::thread::sleep(limit.map_or(AGAIN_AFTER, |limit| limit.min(AGAIN_AFTER)));
}

/// Sends a signal as it came, with the value that came with it.
fn send(came: Came, pid: i32) {
    // SAFETY: plain system calls. The child hasn't been waited for, so the number is still its own.
    // The struct lives through the call and has the layout of the kernel's, of 128 bytes.
    unsafe {
        if came.code == libc::SI_QUEUE {
            let mut info = [0u64; 16];
            let (signal, code) = (came.signal.cast_unsigned(), came.code.cast_unsigned());
            let words = [signal, 0, code, 0];
            let at = (&raw mut info).cast::<u32>();
            at.copy_from_nonoverlapping(words.as_ptr(), words.len());
            at.add(4).write(came.sender.cast_unsigned());
            info[3] = came.value;
            let at = &raw const info;
            if libc::syscall(libc::SYS_rt_sigqueueinfo, pid, came.signal, at) == 0 {
                return;
            }
        }
        libc::kill(pid, came.signal);
    }
}

/// How often, each millisecond, it is looked what a running command waits for.
const LOOKS_MAX: usize = 1000;

/// Whether the command is still in our process group.
fn is_in_our_group(pid: i32) -> bool {
    // SAFETY: plain system calls.
    unsafe { libc::getpgid(pid) == libc::getpgrp() }
}

/// Whether a command that lives can't have received a signal: one that it has no handler for, and
/// that would have ended it. To send it then is right, or makes no difference.
fn has_not_reached(signal: i32, pid: i32) -> bool {
    if HARMLESS.contains(&signal) || STOPPING.contains(&signal) {
        return false;
    }
    let has = |mask: &str| signal_mask(pid, mask).is_none_or(|mask| mask >> (signal - 1) & 1 == 1);
    for _ in 0..LOOKS_MAX {
        if has("SigCgt") || has("SigIgn") || has("SigBlk") {
            return false;
        }
        if let Some(waits) = waits_for_signals(pid) {
            return !waits && !has("SigBlk");
        }
        // SAFETY: a plain system call.
        unsafe { libc::usleep(1000) };
    }
    true
}

fn read(fd: &OwnedFd) -> Option<Came> {
    let mut bytes = [0u8; size_of::<libc::signalfd_siginfo>()];
    let count = rustix::io::read(fd, &mut bytes).ok()?;
    let word = |at: usize| {
        let word = bytes.get(at..at + 4).and_then(|word| word.try_into().ok());
        word.map_or(0, i32::from_ne_bytes)
    };
    let long = |at: usize| {
        let long = bytes.get(at..at + 8).and_then(|long| long.try_into().ok());
        long.map_or(0, u64::from_ne_bytes)
    };
    // Of `struct signalfd_siginfo`: ssi_signo, ssi_code, ssi_pid, ssi_ptr.
    (count == bytes.len()).then(|| Came {
        signal: word(0),
        code: word(8),
        sender: word(12),
        value: long(48),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_told_with_and_without_a_descriptor() {
        for has_fd in [true, false] {
            let mut held = Held::hold();
            if !has_fd {
                held.fd = None;
            }
            // This thread has blocked them in the first round.
            // SAFETY: a plain call on a set.
            unsafe { libc::sigemptyset(&raw mut held.inherited) };
            // The end of another test's child may be told.
            let is_other = |came: &Came| !came.is_of_child();
            let limit = Some(Duration::from_millis(1));
            assert_eq!(held.wait(None, limit).filter(is_other), None);
            // SAFETY: a signal to this thread alone, where it is held back.
            unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGUSR1) };
            let mut waits = std::iter::repeat_with(|| held.wait(None, None));
            let came = waits.find_map(|came| came.filter(is_other)).unwrap();
            assert_eq!((came.signal, came.is_by_kernel()), (libc::SIGUSR1, false));
            assert_eq!(came.sender, held.own_pid);
            assert_eq!(held.next().filter(is_other), None);
            // SAFETY: as above.
            unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGWINCH) };
            // SAFETY: as above.
            unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGTERM) };
            assert_eq!(held.before_start().0, Some(libc::SIGTERM));
            assert_eq!(held.before_start().0, None);
            held.dismiss_witness();
        }
    }

    #[test]
    fn a_signal_that_the_command_has_handled_before_we_run_again_is_not_sent_twice() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        // At most 60 s.
        let script = "cd \"$0\" && trap 'echo >> came' WINCH && : > ready &&
            for i in $(seq 6000); do [ -e end ] && exit; sleep 0.01; done";
        let words = [
            "sh".into(),
            "-c".into(),
            script.into(),
            path("").into_os_string(),
        ];
        let times = || std::fs::read(path("came")).map_or(0, |lines| lines.len());
        let until = |condition: &dyn Fn() -> bool| {
            let mut looks = 0..30_000;
            while !condition() {
                assert!(looks.next().is_some(), "not within 30 s");
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        let mut held = Held::hold();
        // SAFETY: a plain call on a set. This thread has blocked them before.
        unsafe { libc::sigemptyset(&raw mut held.inherited) };
        let before = Held::pending();
        let command = crate::spawning::Prepared::new(&words).unwrap();
        let mut number = 0;
        let pid = command.start(&raw mut number).unwrap();
        until(&|| path("ready").exists());
        // Our own comes to this thread alone: the other threads of this process let it pass.
        // SAFETY: plain system calls; the default of this signal is to do nothing.
        unsafe {
            libc::kill(0, libc::SIGWINCH);
            libc::pthread_kill(libc::pthread_self(), libc::SIGWINCH);
        }
        until(&|| times() == 1);
        held.pass_on_after_start(&[], &before, pid);
        // One to this process alone, and so for the command.
        // SAFETY: as above.
        unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGWINCH) };
        held.pass_on_after_start(&[], &before, pid);
        until(&|| times() > 1);
        std::fs::write(path("end"), "").unwrap();
        // SAFETY: a child of ours that nobody else waits for.
        unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
        assert_eq!(times(), 2);
        held.dismiss_witness();
    }
}
