// SPDX-License-Identifier: MIT OR Apache-2.0
//! `/proc/PID/stat` and `/proc/PID/status`: parent, start, state and signals of a process.

use std::ffi::OsStr;
use std::fmt::Display;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::str::FromStr;

/// The fields after the name, which may hold blanks and brackets itself.
fn fields_after_name(stat: &[u8]) -> Option<&str> {
    let at = stat.iter().rposition(|&b| b == b')')?;
    std::str::from_utf8(stat.get(at + 1..)?).ok()
}

/// One of them, counted from 0.
fn field<N: FromStr>(stat: &[u8], number: usize) -> Option<N> {
    let mut fields = fields_after_name(stat)?.split_whitespace();
    fields.nth(number)?.parse().ok()
}

fn stat_of(process: impl Display) -> Option<Vec<u8>> {
    fs::read(format!("/proc/{process}/stat")).ok()
}

/// The parent of a process; `None` when it has ended.
pub fn parent_of<N: Display + FromStr>(process: N) -> Option<N> {
    field(&stat_of(process)?, 1)
}

/// When a process or a thread started, in clock ticks since boot: with its number it names one for
/// good. `None` when it has ended.
pub fn start_ticks(process: impl Display) -> Option<u64> {
    field(&stat_of(process)?, 19)
}

/// Whether a process is stopped by a signal.
#[must_use]
pub fn is_stopped(process: impl Display) -> bool {
    stat_of(process).is_some_and(|stat| field::<char>(&stat, 0) == Some('T'))
}

/// Whether a thread of this process has the processor, or waits for nothing else.
#[must_use]
pub fn thread_runs(thread: impl Display) -> bool {
    let stat = stat_of(format_args!("self/task/{thread}"));
    stat.is_some_and(|stat| is_running(&stat))
}

/// The same of any thread of a process.
#[must_use]
pub fn any_thread_runs(process: impl Display) -> bool {
    let threads = fs::read_dir(format!("/proc/{process}/task"));
    let stats = threads.into_iter().flatten().flatten();
    let mut stats = stats.filter_map(|thread| fs::read(thread.path().join("stat")).ok());
    stats.any(|stat| is_running(&stat))
}

fn is_running(stat: &[u8]) -> bool {
    field::<char>(stat, 0) == Some('R')
}

/// Where the words of this process's command line are in its memory: start and end. Whoever writes
/// there changes what `/proc/PID/cmdline` tells.
pub(crate) fn argument_span() -> Option<(usize, usize)> {
    let stat = stat_of("self")?;
    let (start, end) = (field(&stat, 45)?, field(&stat, 46)?);
    (0 < start && start < end).then_some((start, end))
}

/// Reads the beginning of `/proc/PID/FILE`. Returns its length. Allocates nothing.
fn read_into(into: &mut [u8], pid: i32, file: &str) -> Option<usize> {
    let mut path = [0; 32];
    let mut rest = path.as_mut_slice();
    write!(rest, "/proc/{pid}/{file}").ok()?;
    let unused = rest.len();
    let path = path.get(..32 - unused)?;
    let mut file = fs::File::open(OsStr::from_bytes(path)).ok()?;
    let mut length = 0;
    loop {
        match file.read(into.get_mut(length..)?).ok()? {
            0 => return Some(length),
            more => length += more,
        }
    }
}

/// Whether a process waits in `sigtimedwait(2)`, or can't be looked at. Meanwhile the kernel shows
/// the signals that it waits for as not blocked. `None` while it runs, or waits for a processor: it
/// may be on its way out of that call. Async-signal-safe: it allocates nothing.
pub(crate) fn waits_for_signals(pid: i32) -> Option<bool> {
    let mut call = [0; 512];
    let Some(length) = read_into(&mut call, pid, "syscall") else {
        return Some(true);
    };
    // The number of the call, or "running".
    let number = call
        .get(..length)
        .and_then(|call| call.split(|&b| b == b' ').next());
    let number: i64 = std::str::from_utf8(number?).ok()?.parse().ok()?;
    Some(number == libc::SYS_rt_sigtimedwait)
}

/// A set of signals of a process, such as `SigCgt`, those that it has handlers for: bit 0 is signal
/// 1. `None` when it has ended. Async-signal-safe: it allocates nothing.
pub(crate) fn signal_mask(pid: i32, name: &str) -> Option<u64> {
    // Some 1.5 KB, with the masks at its end.
    let mut status = [0; 8192];
    let length = read_into(&mut status, pid, "status")?;
    let lines = status.get(..length)?.split(|&b| b == b'\n');
    let of_name = |line: &'_ [u8]| {
        let mask = line.strip_prefix(name.as_bytes())?.strip_prefix(b":")?;
        std::str::from_utf8(mask)
            .ok()
            .map(str::trim)
            .map(|mask| u64::from_str_radix(mask, 16))
    };
    lines.filter_map(of_name).next()?.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_is_found_behind_any_name() {
        assert_eq!(field(b"12 (a) b) (c) S 34 12 12 0", 1), Some(34));
        assert_eq!(field(b"12 (\xff) S 34 12 12 0", 1), Some(34));
        assert_eq!(field::<i32>(b"12 a S", 1), None);
        let own = std::process::id();
        assert_eq!(parent_of(own), Some(std::os::unix::process::parent_id()));
        assert!(start_ticks(own).is_some_and(|ticks| ticks > 0));
    }

    #[test]
    fn state_and_signals_of_this_process_are_told() {
        assert!(!is_stopped(std::process::id()));
        assert!(any_thread_runs(std::process::id()));
        assert!(thread_runs(rustix::thread::gettid()));
        assert!(!any_thread_runs("none") && !thread_runs("none"));
        // Rust ignores SIGPIPE.
        let ignored = signal_mask(std::process::id().cast_signed(), "SigIgn").unwrap();
        assert_eq!(ignored >> (libc::SIGPIPE - 1) & 1, 1);
        // This thread runs, but it need not be the first one, of which the file tells.
        assert_ne!(
            waits_for_signals(std::process::id().cast_signed()),
            Some(true)
        );
        let (start, end) = argument_span().unwrap();
        let words: usize = std::env::args_os().map(|word| word.len() + 1).sum();
        assert_eq!(end - start, words);
    }
}
