// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether disks are read from.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use foreread_boot::Reads;
use foreread_sys::tree_reads::read_bytes;

/// Reads of all disks in a second below which they count as quiet: the journal and timers read a
/// little now and then.
const QUIET_READS_PER_S: u64 = 4;

/// Tells since when nobody reads.
pub struct Quiet {
    reads: u64,
    looked: Instant,
    since: Option<Instant>,
}

impl Quiet {
    pub fn begin() -> Self {
        Self {
            reads: reads(),
            looked: Instant::now(),
            since: None,
        }
    }

    /// Looks, at most once a second. Returns for how long disks have been quiet.
    pub fn look(&mut self) -> Duration {
        const LOOK_EVERY: Duration = Duration::from_secs(1);
        let passed = self.looked.elapsed();
        if passed >= LOOK_EVERY {
            let now = reads();
            let most = QUIET_READS_PER_S * passed.as_secs().max(1);
            self.since = match now.saturating_sub(self.reads) <= most {
                true => self.since.or(Some(self.looked)),
                false => None,
            };
            (self.reads, self.looked) = (now, Instant::now());
        }
        self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

/// What disks were read for since the kernel started, and this process's part of that. `None` where
/// the kernel doesn't count it.
pub fn reads_so_far() -> Option<Reads> {
    let sectors = disk_sectors(&fs::read_to_string("/proc/diskstats").ok()?, &is_disk);
    Some(Reads {
        disk_bytes: sectors.saturating_mul(512),
        replay_bytes: read_bytes(&fs::read("/proc/self/io").ok()?)?,
    })
}

/// Whether it is a disk, and no partition of one, no mapping of others, and nothing in memory.
fn is_disk(name: &str) -> bool {
    let path = Path::new("/sys/block").join(name);
    let has = |what: &str| {
        let entries = fs::read_dir(path.join(what));
        entries.is_ok_and(|mut entries| entries.next().is_some())
    };
    // A partition has no entry there. Memory and loop devices belong to no bus.
    path.join("device").exists() && !has("slaves")
}

/// Of `/proc/diskstats`: the sixth field is sectors read.
fn disk_sectors(text: &str, is_disk: &dyn Fn(&str) -> bool) -> u64 {
    let of_disks = text.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let sectors = fields.get(5)?.parse::<u64>().ok()?;
        is_disk(fields.get(2)?).then_some(sectors)
    });
    of_disks.fold(0, u64::saturating_add)
}

/// Reads that all disks have completed.
fn reads() -> u64 {
    of_text(&fs::read_to_string("/proc/diskstats").unwrap_or_default())
}

/// Of `/proc/diskstats`: the fourth field is reads completed. A device that lies on another one
/// counts twice, which makes no difference to what is quiet.
fn of_text(text: &str) -> u64 {
    let reads = text.lines().filter_map(|line| {
        let field = line.split_whitespace().nth(3)?;
        field.parse::<u64>().ok()
    });
    reads.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sectors_of_disks_count_and_those_of_partitions_do_not() {
        let text = "254 0 vda 10 2 800 5 1 0 8 1 0 1 6\n254 1 vda1 9 2 700 5 1 0 8 1 0 1 6\n\
                    7 0 loop0 5 0 40 0\nbroken line\n";
        assert_eq!(disk_sectors(text, &|name| name == "vda"), 800);
        assert_eq!(disk_sectors("", &|_| true), 0);
        assert_eq!(
            read_bytes(b"rchar: 9\nread_bytes: 4096\nwrite_bytes: 1\n"),
            Some(4096)
        );
        assert_eq!(read_bytes(b"read_bytes: much\n"), None);
    }

    #[test]
    fn reads_of_all_disks_are_added_up() {
        let text = "   8       0 sda 120 3 4 5 6 7 8\n 253 0 dm-0 7 0 0\nshort line\n";
        assert_eq!(of_text(text), 127);
        assert_eq!(of_text(""), 0);
    }

    #[test]
    fn it_is_quiet_only_after_a_look() {
        assert_eq!(Quiet::begin().look(), Duration::ZERO);
    }
}
