// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces the reads of disks beside a boot, for a chart.
//!
//! In: events of the block layer, and the control groups that are there. Out: a [`BootTrace`]. A
//! read belongs to the unit of the process that queued it. Reads of this process are the replay's.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use foreread_boot::Mode;
use foreread_boot::trace::{
    BootTrace, DISKS_MAX, Reader, TracedDisk, TracedRead, orders, unit_of_group,
};
use foreread_boot::tracer::Tracer;
use foreread_bpf::BpfError;
use foreread_linux_blocks::{
    Action, BlockWatcher, DISKS_MAX as WATCHED_MAX, Device, Seen, Steps, disks,
};
use foreread_sys::clock::{now_unix_s, since_kernel_start};

use crate::systemd;

/// Events that wait to be drained: some 90,000. A boot makes some 7,000.
const EVENTS_BYTES: u32 = 8 << 20;
/// Where the unified hierarchy is mounted: alone, or beside the older ones.
const HIERARCHIES: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
/// How often a group that isn't known is looked for.
const LOOK_FOR_GROUPS_EVERY: Duration = Duration::from_millis(50);
/// Groups of one hierarchy that are looked at.
const GROUPS_MAX: usize = 8192;

/// The programs in the kernel, and what they told.
pub struct BootTracer {
    watcher: BlockWatcher,
    tracer: Tracer,
    disks: Vec<TracedDisk>,
    numbers: HashMap<Device, u16>,
    groups: Groups,
    own_process: u32,
    from: Duration,
}

impl BootTracer {
    /// Traces all disks that are there, from now on.
    ///
    /// # Errors
    /// If BPF, BTF or a tracepoint isn't there, or rights are missing.
    pub fn start() -> Result<Self, BpfError> {
        let mut disks = disks();
        // Of more disks those with hardware are kept.
        disks.sort_by_key(|disk| !has_hardware(&disk.name));
        disks.truncate(WATCHED_MAX.min(DISKS_MAX));
        Ok(Self {
            watcher: BlockWatcher::start_with(&disks, Steps::Ends, EVENTS_BYTES)?,
            tracer: Tracer::default(),
            numbers: (0..)
                .zip(&disks)
                .map(|(at, disk)| (disk.device, at))
                .collect(),
            disks: disks.iter().map(|disk| traced_disk(&disk.name)).collect(),
            groups: Groups::default(),
            own_process: std::process::id(),
            from: since_kernel_start(),
        })
    }

    /// Takes what the kernel has told since the last call. To be called every few milliseconds.
    pub fn drain(&mut self) {
        for seen in self.watcher.drain_seen() {
            self.note(seen);
        }
    }

    fn note(&mut self, seen: Seen) {
        let Seen {
            event,
            process,
            group,
        } = seen;
        let Some(disk) = self.numbers.get(&event.device).copied() else {
            return;
        };
        if !event.rwbs.is_read() || event.sectors == 0 {
            return;
        }
        match event.action {
            Action::Queued => {
                let by = match process == self.own_process {
                    true => Reader::Replay,
                    false => self.groups.reader(group, &mut self.tracer),
                };
                self.tracer.queued(TracedRead {
                    at_ns: event.time_ns,
                    took_ns: 0,
                    disk,
                    sector: event.sector,
                    bytes: u64::from(event.sectors) * 512,
                    by,
                    process: event.process.into(),
                });
            }
            Action::Completed { .. } => {
                let sectors = u64::from(event.sectors);
                self.tracer
                    .arrived(disk, event.sector, sectors, event.time_ns);
            }
            _ => {}
        }
    }

    /// The trace of a boot that was given `mode`, and reached its target at that time since the
    /// kernel's start.
    pub fn finish(
        mut self,
        boot: String,
        kernel: String,
        mode: Mode,
        reached: Option<Duration>,
    ) -> BootTrace {
        self.drain();
        self.tracer.lost(self.watcher.lost());
        let told = systemd::ordered_units();
        let times = told.iter().map(|told| told.unit.clone()).collect();
        let traced = self.tracer.finish(times);
        let mut trace = BootTrace::new(boot, kernel, mode);
        trace.stored_unix_s = now_unix_s();
        trace.traced_from_ns = ns(self.from);
        trace.reached_ns = reached.map(ns);
        trace.lost_reads = traced.lost_reads;
        trace.disks = self.disks;
        trace.default_target = systemd::default_target();
        trace.orders = orders(&traced.units, &told);
        trace.units = traced.units;
        trace.reads = traced.reads;
        trace
    }
}

/// The units of control groups, by the inode numbers of their directories.
#[derive(Default)]
struct Groups {
    known: HashMap<u64, Reader>,
    looked: Option<Instant>,
}

impl Groups {
    /// The reader that processes of this group are. A group that was gone before anybody looked is
    /// no unit's.
    fn reader(&mut self, group: u64, tracer: &mut Tracer) -> Reader {
        if let Some(reader) = self.known.get(&group) {
            return *reader;
        }
        let is_time = self
            .looked
            .is_none_or(|looked| looked.elapsed() >= LOOK_FOR_GROUPS_EVERY);
        if is_time {
            let top = HIERARCHIES
                .into_iter()
                .find(|top| is_unified(Path::new(top)));
            for (number, path) in top
                .map(|top| groups_below(Path::new(top)))
                .unwrap_or_default()
            {
                let unit = unit_of_group(&path);
                let reader = unit.map_or(Reader::Other, |unit| tracer.reader_of_unit(unit));
                self.known.insert(number, reader);
            }
            self.looked = Some(Instant::now());
        }
        self.known.get(&group).copied().unwrap_or(Reader::Other)
    }
}

fn is_unified(top: &Path) -> bool {
    top.join("cgroup.controllers").exists()
}

/// All groups, each with the inode number of its directory and its path from the top.
fn groups_below(top: &Path) -> Vec<(u64, String)> {
    let mut found = Vec::new();
    let mut waiting = vec![top.to_owned()];
    while let Some(path) = waiting.pop() {
        if found.len() >= GROUPS_MAX {
            break;
        }
        let Ok(metadata) = fs::metadata(&path) else {
            continue;
        };
        let relative = path.strip_prefix(top).unwrap_or(&path);
        found.push((metadata.ino(), format!("/{}", relative.display())));
        waiting.extend(directories(&path));
    }
    found
}

fn directories(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    directories.map(|entry| entry.path()).collect()
}

fn sys(name: &str, what: &str) -> PathBuf {
    Path::new("/sys/block").join(name).join(what)
}

/// Memory and loop devices belong to no bus.
fn has_hardware(name: &str) -> bool {
    sys(name, "device").exists()
}

fn traced_disk(name: &str) -> TracedDisk {
    let sectors = fs::read_to_string(sys(name, "size")).ok();
    let sectors: Option<u64> = sectors.and_then(|text| text.trim().parse().ok());
    TracedDisk {
        name: name.to_owned(),
        bytes: sectors.unwrap_or(0).saturating_mul(512),
    }
}

fn ns(since: Duration) -> u64 {
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_found_by_the_numbers_of_their_directories() {
        let top = tempfile::tempdir().unwrap();
        let path = top.path().join("system.slice/ssh.service");
        fs::create_dir_all(&path).unwrap();
        let groups = groups_below(top.path());
        assert_eq!(groups.len(), 3, "{groups:?}");
        let number = fs::metadata(&path).unwrap().ino();
        let found = groups.iter().find(|group| group.0 == number);
        assert_eq!(
            found.map(|group| &*group.1),
            Some("/system.slice/ssh.service")
        );
        assert!(groups_below(Path::new("/nowhere")).is_empty());
    }

    #[test]
    fn a_group_that_is_gone_is_no_units() {
        let mut groups = Groups::default();
        let mut tracer = Tracer::default();
        assert_eq!(groups.reader(u64::MAX, &mut tracer), Reader::Other);
        let looked = groups.looked;
        assert_eq!(groups.reader(u64::MAX - 1, &mut tracer), Reader::Other);
        assert_eq!(groups.looked, looked, "it looks again after a while only");
    }
}
