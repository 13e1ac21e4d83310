// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory that is left, and pressure on it.

use std::fs;
use std::path::{Path, PathBuf};

use foreread_prefetch::budget::Memory;

use crate::mounts::mounts_of_self;

/// Whether the multi-generational LRU is on: bit 0 of a number like `0x0007`. Kernels built without
/// it don't have the file.
#[must_use]
pub fn has_lru_generations() -> bool {
    let text = fs::read_to_string("/sys/kernel/mm/lru_gen/enabled").unwrap_or_default();
    let digits = text.trim().trim_start_matches("0x");
    u32::from_str_radix(digits, 16).is_ok_and(|bits| bits & 1 != 0)
}

/// Memory available on the machine and under the limits of our cgroups. Without `/proc`, nothing.
#[must_use]
pub fn memory() -> Memory {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = meminfo.lines().find_map(|line| {
        line.strip_prefix("MemAvailable:")?
            .trim()
            .strip_suffix("kB")?
            .trim()
            .parse::<u64>()
            .ok()
    });
    Memory {
        available_bytes: kib.unwrap_or(0).saturating_mul(1024),
        cgroup_left_bytes: cgroup_left_bytes(),
    }
}

/// The least that any memory limit between our cgroup and the root leaves.
fn cgroup_left_bytes() -> Option<u64> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = mounts_of_self().ok()?;
    let mut least = None;
    for line in own.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let (fs_type, limit_file, used_file): (&[u8], _, _) = match controllers {
            "" => (b"cgroup2", "memory.max", "memory.current"),
            c if c.split(',').any(|c| c == "memory") => {
                (b"cgroup", "memory.limit_in_bytes", "memory.usage_in_bytes")
            }
            _ => continue,
        };
        for point in mounts.points().iter().filter(|point| {
            point.fs_type == fs_type
                && (controllers.is_empty()
                    || point
                        .super_options
                        .split(|&b| b == b',')
                        .any(|o| o == b"memory"))
        }) {
            let Ok(top) = std::str::from_utf8(&point.mount_point) else {
                continue;
            };
            let root = String::from_utf8_lossy(&point.root).into_owned();
            let inside = path
                .strip_prefix(root.trim_end_matches('/'))
                .unwrap_or(path);
            let mut at = PathBuf::from(top).join(inside.trim_start_matches('/'));
            while at.starts_with(top) {
                if let Some(left) = left_in(&at, limit_file, used_file) {
                    least = Some(least.map_or(left, |least: u64| least.min(left)));
                }
                if !at.pop() {
                    break;
                }
            }
        }
    }
    least
}

fn left_in(group: &Path, limit_file: &str, used_file: &str) -> Option<u64> {
    /// cgroup v1 writes "no limit" as a number near 2^63.
    const UNLIMITED_BYTES_MIN: u64 = 1 << 60;
    let number = |name: &str| -> Option<u64> {
        fs::read_to_string(group.join(name))
            .ok()?
            .trim()
            .parse()
            .ok()
    };
    let limit = number(limit_file).filter(|limit| *limit < UNLIMITED_BYTES_MIN)?;
    // Cached file pages count as used, yet can be given up.
    let stat = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let cached = |name: &str| {
        let lines = stat.lines().filter_map(|line| line.split_once(' '));
        // cgroup v1 has what belongs to the group alone under the bare name.
        let of_all_below = lines
            .clone()
            .find(|(key, _)| key.strip_prefix("total_") == Some(name));
        let line = of_all_below.or_else(|| lines.clone().find(|(key, _)| *key == name));
        line.and_then(|(_, number)| number.trim().parse::<u64>().ok())
            .unwrap_or(0)
    };
    let cached = cached("inactive_file").saturating_add(cached("active_file"));
    Some(limit.saturating_sub(number(used_file)?.saturating_sub(cached)))
}

/// Share of the last ten seconds in which all tasks at once waited for memory, in percent; `None`
/// where the kernel doesn't measure pressure.
#[must_use]
pub fn full_memory_pressure_percent() -> Option<f64> {
    let text = fs::read_to_string("/proc/pressure/memory").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("full "))?;
    line.split(' ')
        .find_map(|field| field.strip_prefix("avg10="))?
        .parse()
        .ok()
}

/// Makes all threads share one heap from now on. By default each has its own, and glibc keeps the
/// heaps of threads that have ended for later ones. These are some megabytes each in programs that
/// start and end threads.
pub fn share_one_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: a plain call that any thread may make at any time.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Gives free memory of ours back to the kernel.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: a plain call that any thread may make at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Whether the kernel measures pressure on memory.
#[must_use]
pub fn measures_pressure() -> bool {
    full_memory_pressure_percent().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_memory() {
        assert!(memory().available_bytes > 0);
    }

    #[test]
    fn limits_leave_what_is_not_used() -> std::io::Result<()> {
        let group = tempfile::tempdir()?;
        let write = |name: &str, text: &str| fs::write(group.path().join(name), text);
        write("memory.max", "1000\n")?;
        write("memory.current", "600\n")?;
        let left = || left_in(group.path(), "memory.max", "memory.current");
        write("memory.stat", "anon 1\ninactive_file 100\n")?;
        assert_eq!(left(), Some(500));
        // Read twice, once by us and once by whom it was fetched for, a page is active.
        write("memory.stat", "anon 1\ninactive_file 100\nactive_file 50\n")?;
        assert_eq!(left(), Some(550));
        let version_1 = "inactive_file 1\nactive_file 2\ntotal_inactive_file 100\n\
                         total_active_file 150\n";
        write("memory.stat", version_1)?;
        assert_eq!(left(), Some(650));
        write("memory.max", "max\n")?;
        assert_eq!(left(), None);
        Ok(())
    }
}
