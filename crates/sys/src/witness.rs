// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tells signals to a whole process group or cgroup from signals to this process alone.
//!
//! The kernel gives both the same siginfo. A wrapped command belongs to our group: it has received
//! a signal to the group by itself, and would get it twice if we passed it on. So a small process,
//! the witness, stays in the group with all signals blocked. A signal that is pending there, too,
//! with the same sender, was sent to the group. `kill(2)` reaches the youngest process of a group
//! first, so the witness has a signal before we read ours.
//!
//! The witness has none of our descriptors, the directory `/`, and another name than ours, so that
//! `pkill foreread` means this process only. It ends with this process.

use std::ffi::c_void;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, AtomicU8, Ordering};

use crate::descriptors::close_from;
use crate::process_stat::{argument_span, signal_mask};

/// Name in lists of processes; at most 15 bytes.
const NAME: &std::ffi::CStr = c"signal-witness";
/// Most signals in one answer.
const RECORDS_MAX: usize = 15;
/// An answer takes some 50 us, more where processors are busy. A witness that is stopped gives
/// none.
const ANSWER_WITHIN_MS: i32 = 500;
/// Who signals all processes of a cgroup, as systemd does, sends to one after the other.
const SENDER_NEEDS_US: u32 = 5_000;

/// A signal and its sender.
type Record = [i32; 2];

/// An answer: the number of the question, the number of records, and these.
type Answer = [i32; 2 + 2 * RECORDS_MAX];

/// The process that is signalled whenever the group is.
pub(crate) struct Witness {
    /// 0 when it has been dismissed.
    pid: AtomicI32,
    channel: OwnedFd,
    asked: AtomicU8,
}

impl Witness {
    /// Starts it. `None` when no process can be made, or no channel to it.
    ///
    /// # Safety
    /// This process must have one thread only, and must have blocked all signals that can be sent
    /// to a group.
    pub(crate) unsafe fn start() -> Option<Self> {
        let mut ends = [0; 2];
        let names = argument_span();
        // SAFETY: plain system calls; the kernel fills an array that lives through the call, with
        // descriptors that no other code owns.
        unsafe {
            let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
            if libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) != 0 {
                return None;
            }
            let [ours, its] = ends.map(|end| OwnedFd::from_raw_fd(end));
            let parent = libc::getpid();
            match libc::fork() {
                -1 => None,
                0 => be_witness(parent, &its, names),
                pid => Some(Self {
                    pid: AtomicI32::new(pid),
                    channel: ours,
                    asked: AtomicU8::new(0),
                }),
            }
        }
    }

    /// Whether a signal that came from this sender came to the group as well. Forgets that it did.
    /// Async-signal-safe.
    pub(crate) fn has_seen(&self, signal: i32, sender: i32) -> bool {
        if !self.has_pending(signal) {
            // SAFETY: a plain system call.
            unsafe { libc::usleep(SENDER_NEEDS_US) };
            if !self.has_pending(signal) {
                return false;
            }
        }
        // Without an answer, what is pending there is most likely this.
        self.ask(signal, sender).unwrap_or(true)
    }

    /// Whether the witness has a signal pending. The kernel tells, also of one that can't run.
    fn has_pending(&self, signal: i32) -> bool {
        let pid = self.pid.load(Ordering::Relaxed);
        let pending = (pid > 0).then(|| signal_mask(pid, "ShdPnd")).flatten();
        pending.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
    }

    /// Asks the witness whether it has received a signal from this sender; `None` without an
    /// answer.
    fn ask(&self, signal: i32, sender: i32) -> Option<bool> {
        let question = self.asked.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let mut has_seen = false;
        // SAFETY: the kernel reads and fills values that live through the calls.
        unsafe {
            let fd = self.channel.as_raw_fd();
            let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
            if libc::send(fd, (&raw const question).cast(), 1, flags) != 1 {
                return None;
            }
            loop {
                let mut poll = libc::pollfd {
                    fd,
                    events: libc::POLLIN,
                    revents: 0,
                };
                if libc::poll(&raw mut poll, 1, ANSWER_WITHIN_MS) != 1 {
                    return has_seen.then_some(true);
                }
                let mut answer: Answer = zeroed();
                let (at, bytes) = ((&raw mut answer).cast::<c_void>(), size_of::<Answer>());
                if libc::recv(fd, at, bytes, libc::MSG_DONTWAIT) < 8 {
                    return has_seen.then_some(true);
                }
                let [asked, count, records @ ..] = answer;
                let count = usize::try_from(count).unwrap_or(0);
                let mut records = records.chunks_exact(2).take(count);
                has_seen |= records.any(|record| record == [signal, sender]);
                // Another number: an answer that came too late for its question.
                if asked == i32::from(question) {
                    return Some(has_seen);
                }
            }
        }
    }

    /// Ends the witness, so that nothing of this process is left behind. Async-signal-safe.
    pub(crate) fn dismiss(&self) {
        /// It takes some 100 us to end. The end of this process ends it, too.
        const LOOKS_MAX: usize = 1000;
        let pid = self.pid.swap(0, Ordering::Relaxed);
        if pid <= 0 {
            return;
        }
        // SAFETY: plain system calls on a descriptor of ours, and on a child that hasn't been
        // waited for.
        unsafe {
            libc::shutdown(self.channel.as_raw_fd(), libc::SHUT_RDWR);
            libc::kill(pid, libc::SIGKILL);
            for _ in 0..LOOKS_MAX {
                if libc::waitpid(pid, std::ptr::null_mut(), libc::WNOHANG) == pid {
                    return;
                }
                libc::usleep(20);
            }
        }
    }
}

/// Answers questions until `parent` has ended.
///
/// # Safety
/// Only in a process that was just forked.
unsafe fn be_witness(parent: i32, channel: &OwnedFd, names: Option<(usize, usize)>) -> ! {
    // SAFETY: plain system calls; no descriptor is used after this but the channel; the span is
    // where the kernel put the words of our command line, which nothing refers to in this process.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if libc::getppid() != parent {
            libc::_exit(0);
        }
        libc::prctl(libc::PR_SET_NAME, NAME.as_ptr());
        if let Some((start, end)) = names {
            let name = NAME.to_bytes();
            let bytes = std::ptr::with_exposed_provenance_mut::<u8>(start);
            bytes.write_bytes(0, end - start);
            bytes.copy_from_nonoverlapping(name.as_ptr(), name.len().min(end - start - 1));
        }
        libc::chdir(c"/".as_ptr());
        libc::dup2(channel.as_raw_fd(), 0);
        close_from(1);
        let mut all: libc::sigset_t = zeroed();
        libc::sigfillset(&raw mut all);
        libc::sigprocmask(libc::SIG_BLOCK, &raw const all, std::ptr::null_mut());
        let mut question = 0u8;
        while libc::recv(0, (&raw mut question).cast(), 1, 0) == 1 {
            let mut answer: Answer = zeroed();
            answer[0] = i32::from(question);
            let mut count = 0;
            for record in answer[2..].chunks_exact_mut(2) {
                let Some(next) = next_pending(&all) else {
                    break;
                };
                record.copy_from_slice(&next);
                count += 1;
            }
            answer[1] = count;
            let (at, bytes) = ((&raw const answer).cast(), size_of::<Answer>());
            libc::send(0, at, bytes, libc::MSG_NOSIGNAL);
        }
        libc::_exit(0)
    }
}

/// Takes a pending signal.
fn next_pending(all: &libc::sigset_t) -> Option<Record> {
    let at_once = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the structs live through the call; the sender is a number in whatever union it is.
    unsafe {
        let mut info: libc::siginfo_t = zeroed();
        let signal = libc::sigtimedwait(all, &raw mut info, &raw const at_once);
        (signal > 0).then(|| [signal, info.si_pid()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_to_the_group_is_told_from_one_to_this_process() {
        // SAFETY: between fork and its loop the witness makes only calls that are allowed after a
        // fork of several threads. SIGURG is ignored by default.
        let (witness, own, group) = unsafe {
            let witness = Witness::start().unwrap();
            (witness, libc::getpid(), libc::getpgrp())
        };
        // It blocks all signals once it answers.
        assert_eq!(witness.ask(libc::SIGURG, own), Some(false));
        // SAFETY: as above.
        unsafe { libc::kill(own, libc::SIGURG) };
        assert!(!witness.has_seen(libc::SIGURG, own));
        // SAFETY: as above.
        unsafe { libc::kill(-group, libc::SIGURG) };
        assert!(witness.has_seen(libc::SIGURG, own));
        assert!(!witness.has_seen(libc::SIGURG, own), "it was told before");
        // SAFETY: as above.
        unsafe { libc::kill(-group, libc::SIGURG) };
        assert!(!witness.has_seen(libc::SIGURG, 1), "another sender");
        witness.dismiss();
        assert!(!witness.has_seen(libc::SIGURG, own));
    }
}
