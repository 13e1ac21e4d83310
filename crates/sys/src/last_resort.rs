// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps a wrapped command alive when this process fails beyond repair.
//!
//! A failed allocation, an assertion of a library or a read beyond the end of a mapped file ends a
//! process by a signal. Its command would be abandoned, or never started. [`arm`] installs handlers
//! for these signals. A handler says what happened in one line, and then:
//!
//! * executes the command in the place of this process, when it was not started;
//! * else waits for its end, passes signals on meanwhile, and ends as the command did.
//!
//! All of it is async-signal-safe: no allocation, no locks.

use std::ffi::c_int;
use std::io;
use std::mem::zeroed;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::signals;
use crate::spawning::Prepared;

/// Signals of a failure that this process can't recover from.
const FATAL: [i32; 7] = [
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGSEGV,
    libc::SIGSYS,
    libc::SIGTRAP,
];

/// How far the command is: one of the following, or the number of its process.
static STATE: AtomicI32 = AtomicI32::new(NOT_ARMED);
const NOT_ARMED: i32 = 0;
const NOT_STARTED: i32 = -1;
/// From here on until the kernel has written the number of its process.
const STARTING: i32 = -2;
const ENDED: i32 = -3;
/// A handler executes the command.
const TAKEN: i32 = -4;
/// It could not be started, which was said.
const REFUSED: i32 = -5;

/// What waitpid(2) told, once the command has ended.
static STATUS: AtomicI32 = AtomicI32::new(0);
/// The process that was armed. Handlers are inherited by those that it forks.
static OWNER: AtomicI32 = AtomicI32::new(0);
/// The thread whose handler is at work, 0 none.
static FAILED: AtomicI32 = AtomicI32::new(0);
/// `None` where a command must not run without us.
static COMMAND: OnceLock<Option<Prepared>> = OnceLock::new();

/// Installs the handlers. `command` is `None` where the command must not run without us, such as
/// one that is run to be recorded.
pub(crate) fn arm(command: Option<Prepared>) {
    if COMMAND.set(command).is_err() {
        return;
    }
    OWNER.store(own_pid(), Ordering::Relaxed);
    STATE.store(NOT_STARTED, Ordering::Relaxed);
    for signal in FATAL {
        // SAFETY: the handler is of the type that SA_SIGINFO asks for; the standard library gives
        // each thread a stack for such handlers.
        unsafe {
            let mut action: libc::sigaction = zeroed();
            let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut libc::c_void) = failed;
            action.sa_sigaction = handler as libc::sighandler_t;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigfillset(&raw mut action.sa_mask);
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}

/// To be called before the command is started. Returns where the kernel is to write the number of
/// its process. Does not return when a handler executes the command already.
pub(crate) fn starting() -> *mut i32 {
    static UNUSED: AtomicI32 = AtomicI32::new(0);

    let (from, to) = (NOT_STARTED, STARTING);
    let changed = STATE.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst);
    match changed {
        Ok(_) => STATE.as_ptr(),
        Err(TAKEN) => wait_for_ever(),
        Err(_) => UNUSED.as_ptr(),
    }
}

/// Where the command has got to.
pub(crate) enum Now {
    NotStarted,
    Running(i32),
    Ended(i32),
    Refused,
}

/// To be called at each change.
pub(crate) fn is_now(now: &Now) {
    if STATE.load(Ordering::SeqCst) == NOT_ARMED {
        return;
    }
    let state = match *now {
        Now::NotStarted => NOT_STARTED,
        Now::Running(pid) => pid,
        Now::Ended(status) => {
            STATUS.store(status, Ordering::SeqCst);
            ENDED
        }
        Now::Refused => REFUSED,
    };
    STATE.store(state, Ordering::SeqCst);
}

/// Where the command has got to.
pub(crate) fn now() -> Now {
    match STATE.load(Ordering::SeqCst) {
        ENDED => Now::Ended(STATUS.load(Ordering::SeqCst)),
        REFUSED => Now::Refused,
        pid if pid > 0 => Now::Running(pid),
        _ => Now::NotStarted,
    }
}

/// Ends this process as the command ended. Async-signal-safe.
pub(crate) fn end_now(status: c_int) -> ! {
    signals::hold().dismiss_witness();
    // SAFETY: plain system calls on this process.
    unsafe {
        if libc::WIFSIGNALED(status) {
            signals::end_by(libc::WTERMSIG(status));
        }
        libc::_exit(libc::WEXITSTATUS(status))
    }
}

fn own_pid() -> i32 {
    // SAFETY: a plain system call.
    unsafe { libc::getpid() }
}

fn say(parts: &[&[u8]]) {
    for part in parts {
        // SAFETY: reads the bytes; errors have nobody to be told to.
        unsafe { libc::write(libc::STDERR_FILENO, part.as_ptr().cast(), part.len()) };
    }
}

fn wait_for_ever() -> ! {
    loop {
        // SAFETY: a plain system call.
        unsafe { libc::pause() };
    }
}

/// Waits for what another thread does next, at most a second.
fn wait_while(condition: impl Fn() -> bool) {
    for _ in 0..1000 {
        if !condition() {
            return;
        }
        // SAFETY: a plain system call.
        unsafe { libc::usleep(1000) };
    }
}

fn name_of(signal: c_int) -> &'static [u8] {
    match signal {
        libc::SIGABRT => b"SIGABRT",
        libc::SIGBUS => b"SIGBUS",
        libc::SIGFPE => b"SIGFPE",
        libc::SIGILL => b"SIGILL",
        libc::SIGSEGV => b"SIGSEGV",
        libc::SIGSYS => b"SIGSYS",
        _ => b"SIGTRAP",
    }
}

extern "C" fn failed(signal: c_int, _info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    let own = own_pid();
    if OWNER.load(Ordering::Relaxed) != own {
        // SAFETY: plain system calls. The signal comes again, and ends this process.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
        return;
    }
    // SAFETY: a plain system call.
    let thread = unsafe { libc::gettid() };
    let first = FAILED.compare_exchange(0, thread, Ordering::SeqCst, Ordering::SeqCst);
    if first.is_err() {
        wait_for_ever();
    }
    say(&[b"foreread: internal error (", name_of(signal), b"); "]);
    // The thread that starts the command goes on, unless it is this one.
    let is_starting = || STATE.load(Ordering::SeqCst) == STARTING;
    wait_while(is_starting);
    let from = if is_starting() { STARTING } else { NOT_STARTED };
    let to = TAKEN;
    let taken = STATE.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst);
    match (taken, COMMAND.get()) {
        (Ok(_), Some(Some(command))) => {
            say(&[b"the command runs without it\n"]);
            signals::hold().dismiss_witness();
            let _ = command.exec();
            say(&[b"foreread: the command can't be executed\n"]);
            // SAFETY: ends this process.
            unsafe { libc::_exit(126) }
        }
        (Ok(_), _) => {
            say(&[b"the command was not started\n"]);
            // SAFETY: ends this process.
            unsafe { libc::_exit(2) }
        }
        (Err(REFUSED), _) => {
            say(&[b"\n"]);
            // SAFETY: ends this process.
            unsafe { libc::_exit(2) }
        }
        (Err(ENDED), _) => {
            say(&[b"the command had ended\n"]);
            end_now(STATUS.load(Ordering::SeqCst))
        }
        (Err(pid), _) => {
            say(&[b"the command runs on\n"]);
            end_now(end_of(pid))
        }
    }
}

/// Waits for the end of the command, passes signals on meanwhile, and returns how it ended.
fn end_of(pid: i32) -> c_int {
    let held = signals::hold();
    loop {
        if let Some(came) = held.wait_without_fd(Some(signals::LOOK_EVERY)) {
            held.pass_on(came, pid);
        }
        let mut status = 0;
        // SAFETY: the kernel fills a number that lives through the call.
        let waited = unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG) };
        if waited == pid {
            return status;
        }
        // Another thread has waited for it.
        if waited < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ECHILD) {
            wait_while(|| STATE.load(Ordering::SeqCst) != ENDED);
            return STATUS.load(Ordering::SeqCst);
        }
    }
}
