// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much a process, and all that it has started, had disks read by now.
//!
//! The kernel adds the account of a process to its parent's when the parent has waited for it. So
//! the sum over the processes that live misses only those whose parent has ended before them.

use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

/// Processes that are looked at. A program that has more of them is seen in part.
const PROCESSES_MAX: usize = 64;
/// Descriptors of a process that are looked at.
const DESCRIPTORS_MAX: usize = 64;

/// A process and its descendants, as far as they are looked at.
pub struct TreeReads {
    /// Bytes that they had disks read, metadata and readahead included.
    pub read_bytes: u64,
    /// How often their first threads were given a processor.
    pub slices: u64,
    /// How long these threads, which were ready to run, waited for a processor.
    pub delayed: Duration,
    /// Their numbers.
    pub pids: Vec<u32>,
}

/// What a process and its descendants had disks read. `None` when this isn't known: the process has
/// ended, isn't ours, or the kernel doesn't account.
#[must_use]
pub fn tree_reads(pid: u32) -> Option<TreeReads> {
    let mut sum = read_bytes(&fs::read(format!("/proc/{pid}/io")).ok()?)?;
    let mut pids = vec![pid];
    pids.extend(children(pid));
    let mut at = 1;
    while let Some(pid) = pids.get(at).copied() {
        at += 1;
        let io = fs::read(format!("/proc/{pid}/io"));
        sum += io.ok().and_then(|io| read_bytes(&io)).unwrap_or(0);
        if pids.len() < PROCESSES_MAX {
            pids.extend(children(pid));
        }
    }
    let (mut slices, mut delayed_ns) = (0, 0);
    for (delay_ns, count) in pids.iter().filter_map(|pid| schedule(*pid)) {
        slices += count;
        delayed_ns += delay_ns;
    }
    Some(TreeReads {
        read_bytes: sum,
        slices,
        delayed: Duration::from_nanos(delayed_ns),
        pids,
    })
}

/// The paths of files and directories that a process has open; of one with many, some.
#[must_use]
pub fn open_paths(pid: u32) -> Vec<Vec<u8>> {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd"));
    let descriptors = descriptors.into_iter().flatten().flatten();
    descriptors
        .take(DESCRIPTORS_MAX)
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .map(|path| path.into_os_string().into_vec())
        .filter(|path| path.starts_with(b"/") && !path.starts_with(b"/dev/"))
        .collect()
}

/// The second and third number of `schedstat`: ns of waiting for a processor, and how often one was
/// given. `None` where the kernel keeps none.
fn schedule(pid: u32) -> Option<(u64, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
    let mut numbers = text.split_whitespace().skip(1).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// What a process had disks read, of its `/proc/PID/io`.
#[must_use]
pub fn read_bytes(io: &[u8]) -> Option<u64> {
    let io = std::str::from_utf8(io).ok()?;
    let line = io.lines().find_map(|line| line.strip_prefix("read_bytes:"));
    line?.trim().parse().ok()
}

/// The children of all threads of a process; none where the kernel lists none
/// (`CONFIG_PROC_CHILDREN`).
fn children(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    let tasks = tasks.into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let list: String = lists.take(PROCESSES_MAX).collect();
    list.split_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn one_line_counts() {
        let io = b"rchar: 1\nwchar: 2\nread_bytes: 4096\nwrite_bytes: 8192\n";
        assert_eq!(read_bytes(io), Some(4096));
        assert_eq!(read_bytes(b"rchar: 1\n"), None);
        assert_eq!(read_bytes(b"\xff"), None);
    }

    #[test]
    fn open_files_are_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = fs::canonicalize(file.path()).unwrap();
        let path = path.into_os_string().into_vec();
        // Not this process: other tests may have more files open here than are looked at.
        let mut holder = Command::new("sleep")
            .arg("1000")
            .stdin(file.reopen().unwrap())
            .spawn()
            .unwrap();
        let found = open_paths(holder.id());
        holder.kill().unwrap();
        holder.wait().unwrap();
        assert!(found.contains(&path));
        assert!(open_paths(0).is_empty());
    }

    #[test]
    fn a_process_that_runs_was_given_a_processor() {
        if let Some((_, slices)) = schedule(std::process::id()) {
            assert!(slices > 0);
        }
        assert_eq!(schedule(0), None);
    }

    #[test]
    fn children_are_found_and_a_process_that_has_ended_is_unknown() {
        let mut child = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let has_lists = std::path::Path::new("/proc/thread-self/children").exists();
        let found = children(std::process::id()).contains(&child.id());
        assert!(found || !has_lists);
        let has_accounts = std::path::Path::new("/proc/self/io").exists();
        assert_eq!(tree_reads(child.id()).is_some(), has_accounts);
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(tree_reads(child.id()).is_none());
    }
}
