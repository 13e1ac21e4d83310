// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds out whether the I/O of a process is limited by its cgroup.
//!
//! The kernel charges a read to the cgroup of the thread that starts it. `watch` can't start reads
//! in the name of another cgroup: only members of a cgroup count for it. So fetches ahead of a
//! program in a limited cgroup would go round the limit, and such programs are left alone.
//!
//! Input: the texts of `/proc/PID/cgroup`, of our mounts, and of the files of limits. Output: the
//! files to read, and whether one of them limits reads. A limit counts whatever disk it is for:
//! file systems on partitions, device mapper and btrfs have other device numbers than the disk.

use foreread_core::mounts::Mounts;

/// Levels of cgroups that are looked at.
const LEVELS_MAX: usize = 32;
/// Files with limits of reads, of version 2 and of version 1.
const FILES_2: [&str; 2] = ["io.max", "io.latency"];
const FILES_1: [&str; 2] = [
    "blkio.throttle.read_bps_device",
    "blkio.throttle.read_iops_device",
];

/// Paths of the files that may limit the reads of a process: those of its cgroup and of all above
/// it. Some of them don't exist, as those of the root cgroup. A cgroup outside of our cgroup
/// namespace has none.
#[must_use]
pub fn files_of_limits(cgroups: &str, mounts: &Mounts) -> Vec<Vec<u8>> {
    let mut files = Vec::new();
    for line in cgroups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
            continue;
        };
        let has = |name: &str| controllers.split(',').any(|one| one == name);
        let (fs_type, names): (&[u8], _) = match controllers {
            "" => (b"cgroup2", FILES_2),
            _ if has("blkio") => (b"cgroup", FILES_1),
            _ => continue,
        };
        let points = mounts.points().iter().filter(|point| {
            let mut options = point.super_options.split(|byte| *byte == b',');
            point.fs_type == fs_type
                && (controllers.is_empty() || options.any(|one| one == b"blkio"))
        });
        for point in points {
            let root = point.root.strip_suffix(b"/").unwrap_or(&point.root);
            let Some(below) = path.as_bytes().strip_prefix(root) else {
                continue;
            };
            let below = below.strip_suffix(b"/").unwrap_or(below);
            if !below.is_empty() && !below.starts_with(b"/") {
                continue;
            }
            if below.split(|byte| *byte == b'/').any(|name| name == b"..") {
                continue;
            }
            let ends = (0..=below.len()).rev();
            let ends = ends.filter(|end| below.get(*end).is_none_or(|byte| *byte == b'/'));
            for end in ends.take(LEVELS_MAX) {
                let directory = [&point.mount_point, &below[..end], b"/"].concat();
                files.extend(names.map(|name| [&directory, name.as_bytes()].concat()));
            }
        }
    }
    files
}

/// Whether a file of limits with this path and text limits reads.
#[must_use]
pub fn limits_reads(path: &[u8], text: &str) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next();
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    match name {
        // As `8:0 rbps=1048576 wbps=max riops=max wiops=max`.
        Some(b"io.max") => lines.any(|line| {
            let mut limits = line.split_whitespace().skip(1);
            limits.any(|limit| match limit.split_once('=') {
                Some(("rbps" | "riops", value)) => value != "max",
                _ => false,
            })
        }),
        // A line for each device with a target or a limit.
        _ => lines.next().is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MOUNTS: &[u8] = b"\
31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
38 31 0:35 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n\
39 31 0:36 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n\
41 31 0:38 /box /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

    fn files(cgroups: &str) -> Vec<String> {
        let files = files_of_limits(cgroups, &Mounts::parse(MOUNTS)).into_iter();
        files.map(|path| String::from_utf8(path).unwrap()).collect()
    }

    #[test]
    fn a_process_is_limited_by_its_cgroup_and_those_above() {
        let found = files("8:pids:/x\n7:blkio:/a/b\n");
        let expected = ["a/b/", "a/", ""]
            .map(|group| FILES_1.map(|name| format!("/sys/fs/cgroup/blkio/{group}{name}")));
        assert_eq!(found, expected.concat());
        let found = files("0::/box/c\n");
        let expected = ["c/", ""]
            .map(|group| FILES_2.map(|name| format!("/sys/fs/cgroup/unified/{group}{name}")));
        assert_eq!(found, expected.concat());
        assert_eq!(files("0::/box\n").len(), 2);
        // Outside of our namespace, or no line of a cgroup.
        assert!(files("0::/../other\n0::/boxes\n7\n").is_empty());
    }

    #[test]
    fn limits_of_reads_count() {
        let max = |text| limits_reads(b"/c/io.max", text);
        assert!(max("8:0 rbps=1048576 wbps=max riops=max wiops=max\n"));
        assert!(max(
            "8:0 rbps=max wbps=max riops=max wiops=max\n8:16 riops=5\n"
        ));
        assert!(!max("8:0 rbps=max wbps=1000 riops=max wiops=7\n"));
        assert!(!max("\n"));
        assert!(limits_reads(b"/c/io.latency", "8:0 target=75000\n"));
        assert!(limits_reads(
            b"/c/blkio.throttle.read_bps_device",
            "7:0 1000\n"
        ));
        assert!(!limits_reads(b"/c/blkio.throttle.read_bps_device", ""));
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "[0-9:a-z,/.\n]{0,80}") {
            for file in files(&text) {
                prop_assert!(file.starts_with("/sys/fs/cgroup/"));
                prop_assert!(!file.contains("/../"));
                let is_empty = text.trim().is_empty();
                prop_assert!(!is_empty || !limits_reads(file.as_bytes(), &text));
            }
        }
    }
}
