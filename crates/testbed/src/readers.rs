// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who else reads from devices while a test runs.
//!
//! A test that counts what one program reads from a device fails if another process has read the
//! same pages before. Then its message names the processes that read meanwhile.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::fs;

/// How much each process has read from devices, at a moment.
///
/// A process that has ended since is not found.
pub struct Readers {
    before: BTreeMap<u32, u64>,
}

impl Readers {
    /// Notes how much each process has read from devices so far.
    pub fn now() -> Self {
        Self { before: read() }
    }

    /// The processes, but this one, that have read from devices since.
    pub fn since(&self) -> ReadSince {
        let mut lines = Vec::new();
        for (process, bytes) in read() {
            let before = self.before.get(&process).copied().unwrap_or(0);
            if bytes > before && process != std::process::id() {
                let name = command_line(process);
                lines.push(format!("{process} read {} bytes: {name}", bytes - before));
            }
        }
        ReadSince(lines)
    }
}

/// A line for each process that has read.
pub struct ReadSince(Vec<String>);

impl Display for ReadSince {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("no process that still runs has read from a device");
        }
        write!(f, "read from devices meanwhile:\n{}", self.0.join("\n"))
    }
}

/// Bytes that each process has read from devices, by process number.
fn read() -> BTreeMap<u32, u64> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let process = entry.file_name().to_str()?.parse().ok()?;
            let io = fs::read_to_string(entry.path().join("io")).ok()?;
            Some((process, read_bytes(&io)?))
        })
        .collect()
}

/// The field `read_bytes` of a file `/proc/PID/io`.
fn read_bytes(io: &str) -> Option<u64> {
    let line = io.lines().find_map(|line| line.strip_prefix("read_bytes:"));
    line?.trim().parse().ok()
}

fn command_line(process: u32) -> String {
    let bytes = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let words = String::from_utf8_lossy(&bytes).replace('\0', " ");
    if words.is_empty() {
        return fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_from_devices() {
        let io = "rchar: 6976\nsyscr: 10\nread_bytes: 4096\nwrite_bytes: 1\n";
        assert_eq!(read_bytes(io), Some(4096));
        assert_eq!(read_bytes("rchar: 6976\n"), None);
    }

    #[test]
    fn who_read_before_is_not_named() {
        let mut readers = Readers::now();
        let own = std::process::id();
        readers.before.retain(|process, _| *process == own);
        // Process 1 has read programs.
        let said = readers.since().to_string();
        assert!(!said.contains(&format!("{own} read")), "{said}");
        let Readers { before } = Readers::now();
        if before.get(&1).is_some_and(|bytes| *bytes > 0) {
            assert!(said.contains("\n1 read "), "{said}");
        }
    }
}
