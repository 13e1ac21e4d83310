// SPDX-License-Identifier: MIT OR Apache-2.0
//! Estimates the time that windows in large files saved their readers.
//!
//! In: what threads have read and waited for, from the first window on; the measured costs of their
//! disks; the pages that were fetched for them. Out: for each process that paused or ended, the
//! time saved, with bounds. No I/O and no clock: times are given.
//!
//! A stream is read ahead of after a few accesses, when the kernel's own readahead has not reached
//! its full window yet. So its pace before is no measure of what the kernel does alone, as it is
//! for files of a [directory](super). The kernel's rules are known instead, and what a request
//! costs this disk is measured. The time saved is the waits that the kernel's readahead would have
//! left, less the waits that were left:
//!
//! * Forward, the kernel requests a window of `R` pages when the reader comes to the one before.
//!   It does so before the reader waits: `filemap_readahead()` comes before
//!   `filemap_update_page()`. So two windows are under way. A window that takes `T` leaves a wait
//!   of `(T - R * c) / 2`, where `c` is the reader's own time for a page. At the throughput of the
//!   disk it is `R * page - R * c` at least.
//! * Any other access finds nothing, and waits for a request. In a mapping the kernel reads `R`
//!   pages around it, half of them in each direction.
//!
//! A request of `n` pages takes `latency + n * page`. Threads that read from a disk at the same
//! time share its throughput, and on a rotational disk they wait for each other's seeks. Only pages
//! that were fetched and not cached can have helped, so the waits count in that proportion. If
//! threads of a process read at the same time, the process gained only once.

mod kernel_waits;

use std::collections::{BTreeMap, HashMap};

pub use kernel_waits::Costs;
use kernel_waits::{Span, Waits};

use super::Bounds;
use crate::stream::FileKey;

/// A reader without accesses for so long has paused.
const PAUSE_NS: u64 = 1_000_000_000;
/// Waits are estimated for spans of this time at least: the costs of a disk change slowly, and a
/// reader's own pace may change fast.
const SPAN_NS: u64 = 50_000_000;
/// Threads that are followed.
const THREADS_MAX: usize = 4096;
/// A thread counts as reading from a disk for so long after its last access.
const ACTIVE_NS: u64 = 100_000_000;

/// The accesses of a thread so far. `struct streams_counts` of `bpf/streams.h`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Pages found in memory, right after those of the access before.
    pub forward_pages: u64,
    /// Pages found in memory, elsewhere.
    pub jumped_pages: u64,
    /// The accesses of these pages: above the one before in the file.
    pub jumps_up: u64,
    /// The same: below the one before, or in another file.
    pub jumps_down: u64,
    /// Sum of the distances of the jumps up.
    pub away_up_pages: u64,
    /// Sum of the distances of the jumps down.
    pub away_down_pages: u64,
    /// Pages that were missed.
    pub missed_pages: u64,
    /// The accesses of these pages.
    pub misses: u64,
    /// Time waited after accesses that found their page.
    pub found_wait_ns: u64,
    /// Time waited after misses.
    pub missed_wait_ns: u64,
}

impl Counts {
    /// The counts since then; `None` if the thread is another one.
    fn since(&self, before: &Self) -> Option<Self> {
        Some(Self {
            forward_pages: self.forward_pages.checked_sub(before.forward_pages)?,
            jumped_pages: self.jumped_pages.checked_sub(before.jumped_pages)?,
            jumps_up: self.jumps_up.checked_sub(before.jumps_up)?,
            jumps_down: self.jumps_down.checked_sub(before.jumps_down)?,
            away_up_pages: self.away_up_pages.checked_sub(before.away_up_pages)?,
            away_down_pages: self.away_down_pages.checked_sub(before.away_down_pages)?,
            missed_pages: self.missed_pages.checked_sub(before.missed_pages)?,
            misses: self.misses.checked_sub(before.misses)?,
            found_wait_ns: self.found_wait_ns.checked_sub(before.found_wait_ns)?,
            missed_wait_ns: self.missed_wait_ns.checked_sub(before.missed_wait_ns)?,
        })
    }

    fn found_pages(&self) -> u64 {
        self.forward_pages.saturating_add(self.jumped_pages)
    }
}

/// Counts of the accesses of a thread until now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Paced {
    /// Its process.
    pub process: u32,
    /// The thread.
    pub thread: u32,
    /// The disk, by the key of the BPF map of disks.
    pub disk: u64,
    /// Time of its last access.
    pub at_ns: u64,
    /// Whether it reads a mapping.
    pub is_mapped: bool,
    /// Window of the kernel's readahead for such a read.
    pub kernel_pages: u64,
    /// Since it was first seen.
    pub counts: Counts,
}

/// The time saved by windows in large files, and how that was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamsSaved {
    /// The estimate; negative if time was lost.
    pub time: Bounds,
    /// Time that the threads waited for pages on their way.
    pub waited_ns: u64,
    /// Time that they would have waited with the kernel's readahead alone, by estimate.
    pub alone_wait_ns: u64,
    /// The mean number of threads that read at the same time, in hundredths.
    pub threads_percent: u64,
}

/// A process that was read ahead of in large files, and has paused or ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Streamed {
    /// The process.
    pub process: u32,
    /// The last file for which a window was fetched.
    pub file: FileKey,
    /// Pages that it found in memory.
    pub found_pages: u64,
    /// Pages that were fetched for it.
    pub fetched_pages: u64,
    /// `None` if the costs of the disk are not known, or nothing was used.
    pub saved: Option<StreamsSaved>,
}

#[derive(Debug)]
struct Thread {
    process: u32,
    file: FileKey,
    /// Time of the first window.
    asked_ns: u64,
    fetched_pages: u64,
    /// Where the span begins that is not estimated yet; `None` before the first record.
    from: Option<Paced>,
    last: Option<Paced>,
    /// Of the spans that were estimated.
    found_pages: u64,
    waited_ns: u64,
    alone: Waits,
    spent_ns: u64,
}

impl Thread {
    /// Whether it has read pages of which the waits are not estimated.
    fn has_span(&self) -> bool {
        let span = self.from.zip(self.last);
        span.is_some_and(|(from, last)| last.counts.found_pages() > from.counts.found_pages())
    }

    /// Time of the last access.
    fn latest_ns(&self) -> u64 {
        self.last.map_or(self.asked_ns, |last| last.at_ns)
    }
}

#[derive(Debug, Default)]
struct Process {
    /// Time in which at least one of its threads read.
    union_ns: u64,
    until_ns: u64,
    /// Its last access when it was told of.
    told_ns: u64,
}

/// The readers that are read ahead of.
#[derive(Debug, Default)]
pub struct Accounts {
    threads: HashMap<u32, Thread>,
    processes: HashMap<u32, Process>,
}

impl Accounts {
    /// A window was requested for a thread. It is followed from now on.
    pub fn asked(&mut self, process: u32, thread: u32, file: FileKey, at_ns: u64) {
        match self.threads.get(&thread) {
            // The number of a thread belongs to another one now.
            Some(of) if of.process != process => drop(self.threads.remove(&thread)),
            None if self.threads.len() >= THREADS_MAX => return,
            _ => {}
        }
        let of = self.threads.entry(thread).or_insert_with(|| Thread {
            process,
            file,
            asked_ns: at_ns,
            fetched_pages: 0,
            from: None,
            last: None,
            found_pages: 0,
            waited_ns: 0,
            alone: Waits::default(),
            spent_ns: 0,
        });
        of.file = file;
    }

    /// Pages of windows of a thread were not cached and have been fetched.
    pub fn fetched(&mut self, thread: u32, pages: u64) {
        if let Some(of) = self.threads.get_mut(&thread) {
            of.fetched_pages = of.fetched_pages.saturating_add(pages);
        }
    }

    /// A thread has read on. `costs` returns the costs of a disk.
    pub fn paced(&mut self, paced: &Paced, costs: &mut dyn FnMut(u64) -> Costs) {
        let Some(of) = self.threads.get_mut(&paced.thread) else {
            return;
        };
        of.last = Some(*paced);
        let Some(from) = of.from else {
            of.from = Some(*paced);
            return;
        };
        if paced.at_ns.saturating_sub(from.at_ns) >= SPAN_NS || paced.disk != from.disk {
            self.estimate(paced.thread, costs);
        }
    }

    /// Ends the accounts of processes without accesses for a while, or of all.
    pub fn paused(
        &mut self,
        now_ns: u64,
        all: bool,
        costs: &mut dyn FnMut(u64) -> Costs,
    ) -> Vec<Streamed> {
        let latest = self.latest();
        // Of a process whose threads all have their numbers from another one by now, nothing is
        // told.
        self.processes
            .retain(|process, _| latest.contains_key(process));
        let is_over = |at_ns: u64| all || now_ns.saturating_sub(at_ns) >= PAUSE_NS;
        latest
            .into_iter()
            .filter(|(_, at_ns)| is_over(*at_ns))
            .filter_map(|(process, _)| self.end(process, costs))
            .collect()
    }

    /// Processes that have read since they were returned last, and their sums so far; `only_new`:
    /// only those that were not returned before.
    pub fn going_on(
        &mut self,
        only_new: bool,
        costs: &mut dyn FnMut(u64) -> Costs,
    ) -> Vec<Streamed> {
        let latest = self.latest().into_iter();
        latest
            .filter_map(|(process, at_ns)| {
                let told_ns = self.processes.get(&process).map_or(0, |of| of.told_ns);
                if at_ns <= told_ns || only_new && told_ns > 0 {
                    return None;
                }
                let so_far = self.so_far(process, costs)?;
                self.processes.entry(process).or_default().told_ns = at_ns;
                Some(so_far)
            })
            .collect()
    }

    /// The time of the last access of each process.
    fn latest(&self) -> BTreeMap<u32, u64> {
        let mut latest = BTreeMap::new();
        for of in self.threads.values() {
            let at_ns: &mut u64 = latest.entry(of.process).or_default();
            *at_ns = (*at_ns).max(of.latest_ns());
        }
        latest
    }

    /// Estimates the waits of a thread from its last estimate to its last access.
    fn estimate(&mut self, thread: u32, costs: &mut dyn FnMut(u64) -> Costs) {
        let Some((from, last)) = self
            .threads
            .get(&thread)
            .and_then(|of| of.from.zip(of.last))
        else {
            return;
        };
        let readers = self.readers_of(last.disk, last.at_ns);
        let Some(of) = self.threads.get_mut(&thread) else {
            return;
        };
        let took_ns = last.at_ns.saturating_sub(from.at_ns);
        let counts = last.counts.since(&from.counts);
        let Some(counts) = counts.filter(|counts| counts.found_pages() > 0) else {
            of.from = Some(last);
            return;
        };
        let span = Span {
            counts,
            took_ns,
            paced: last,
            readers,
        };
        let Some(waits) = span.waits(&costs(last.disk)) else {
            // They may be known later on.
            return;
        };
        of.from = Some(last);
        of.alone.add(waits);
        of.found_pages = of.found_pages.saturating_add(counts.found_pages());
        of.waited_ns = of.waited_ns.saturating_add(counts.found_wait_ns);
        of.spent_ns = of.spent_ns.saturating_add(took_ns);
        let process = self.processes.entry(of.process).or_default();
        let since_ns = from.at_ns.max(process.until_ns);
        process.union_ns = process
            .union_ns
            .saturating_add(last.at_ns.saturating_sub(since_ns));
        process.until_ns = process.until_ns.max(last.at_ns);
    }

    /// Threads that read from a disk.
    fn readers_of(&self, disk: u64, now_ns: u64) -> u64 {
        let reads = |of: &&Thread| {
            of.last.is_some_and(|last| {
                last.disk == disk && last.at_ns.saturating_add(ACTIVE_NS) >= now_ns
            })
        };
        self.threads.values().filter(reads).count().max(1) as u64
    }

    fn end(&mut self, process: u32, costs: &mut dyn FnMut(u64) -> Costs) -> Option<Streamed> {
        let streamed = self.so_far(process, costs);
        self.processes.remove(&process);
        self.threads.retain(|_, of| of.process != process);
        streamed
    }

    /// The sums of a process; `None` if nothing was fetched for it.
    fn so_far(&mut self, process: u32, costs: &mut dyn FnMut(u64) -> Costs) -> Option<Streamed> {
        let threads = self.threads.iter();
        let threads = threads.filter(|(_, of)| of.process == process);
        let threads: Vec<u32> = threads.map(|(thread, _)| *thread).collect();
        for thread in &threads {
            self.estimate(*thread, costs);
        }
        let mut sum = Sum::default();
        let mut latest = None;
        for of in threads.iter().filter_map(|thread| self.threads.get(thread)) {
            sum.add(of);
            latest = latest.max(Some((of.latest_ns(), of.file)));
        }
        if sum.fetched_pages == 0 {
            return None;
        }
        let of_process = self.processes.get(&process);
        Some(Streamed {
            process,
            file: latest.map(|(_, file)| file).unwrap_or_default(),
            found_pages: sum.found_pages,
            fetched_pages: sum.fetched_pages,
            saved: sum.saved(of_process.map_or(0, |of| of.union_ns)),
        })
    }
}

/// Sums of the threads of a process.
#[derive(Debug, Default)]
struct Sum {
    found_pages: u64,
    fetched_pages: u64,
    alone: Waits,
    waited_ns: u64,
    spent_ns: u64,
    is_unknown: bool,
}

impl Sum {
    fn add(&mut self, of: &Thread) {
        self.found_pages = self.found_pages.saturating_add(of.found_pages);
        self.fetched_pages = self.fetched_pages.saturating_add(of.fetched_pages);
        self.is_unknown |= of.has_span();
        if of.found_pages == 0 {
            return;
        }
        // Only what was fetched and not cached can have helped.
        let helped = (of.fetched_pages as f64 / of.found_pages as f64).min(1.0);
        self.alone.add(of.alone.times(helped));
        let waited_ns = (of.waited_ns as f64 * helped) as u64;
        self.waited_ns = self.waited_ns.saturating_add(waited_ns);
        self.spent_ns = self.spent_ns.saturating_add(of.spent_ns);
    }

    fn saved(&self, union_ns: u64) -> Option<StreamsSaved> {
        if self.is_unknown || self.found_pages == 0 || self.spent_ns == 0 || union_ns == 0 {
            return None;
        }
        // Threads at the same time: the process gained only once.
        let threads = (self.spent_ns as f64 / union_ns as f64).max(1.0);
        let time = |alone_ns: u64| ((alone_ns as f64 - self.waited_ns as f64) / threads) as i64;
        Some(StreamsSaved {
            time: Bounds {
                best_ns: time(self.alone.best_ns),
                low_ns: time(self.alone.low_ns),
                high_ns: time(self.alone.high_ns),
            },
            waited_ns: self.waited_ns,
            alone_wait_ns: self.alone.best_ns,
            threads_percent: (threads * 100.0) as u64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;
    const FILE: FileKey = FileKey {
        inode: 7,
        device: foreread_core::Device { major: 7, minor: 1 },
        generation: 0,
    };
    /// 1 ms and 1,000 MB/s.
    const SERVER: Costs = Costs {
        latency_ns: MS,
        next_ns: MS,
        cost_ns: 0,
        least_ns: MS,
        least_pages: 1,
        page_ns: 4096,
        page_ns_max: 4096,
        turns: false,
    };

    fn paced(thread: u32, at_ns: u64, counts: Counts) -> Paced {
        Paced {
            process: 100,
            thread,
            disk: 1,
            at_ns,
            is_mapped: false,
            kernel_pages: 64,
            counts,
        }
    }

    fn forward(pages: u64, found_wait_ns: u64) -> Counts {
        Counts {
            forward_pages: pages,
            found_wait_ns,
            ..Counts::default()
        }
    }

    /// One thread that reads as counted in so much time, of which all was fetched.
    fn one(took_ns: u64, counts: Counts, is_mapped: bool, costs: Costs) -> StreamsSaved {
        let mut accounts = Accounts::default();
        let mut of_disk = |_| costs;
        accounts.asked(100, 101, FILE, 0);
        let begin = Paced {
            is_mapped,
            ..paced(101, 5, Counts::default())
        };
        accounts.paced(&begin, &mut of_disk);
        let end = Paced {
            is_mapped,
            ..paced(101, 5 + took_ns, counts)
        };
        accounts.paced(&end, &mut of_disk);
        accounts.fetched(101, counts.found_pages());
        assert_eq!(accounts.paused(took_ns + 5, false, &mut of_disk), []);
        let over = accounts.paused(took_ns + 5, true, &mut of_disk);
        assert_eq!((over.len(), over[0].process, over[0].file), (1, 100, FILE));
        assert_eq!(accounts.paused(u64::MAX, true, &mut of_disk), []);
        over[0].saved.unwrap()
    }

    fn near(ns: i64, expected_ns: u64) {
        let ratio = ns as f64 / expected_ns as f64;
        assert!((0.99..1.01).contains(&ratio), "{ns} is not {expected_ns}");
    }

    #[test]
    fn forward_the_kernel_has_two_windows_under_way() {
        // 1,000 windows of 1.262 ms each, in which the reader needs 0.062 ms itself.
        let counts = forward(64_000, 200 * MS);
        let saved = one(262 * MS, counts, false, SERVER);
        near(saved.time.best_ns, 600 * MS - 200 * MS);
        assert_eq!(saved.waited_ns, 200 * MS);
        assert_eq!(saved.threads_percent, 100);
        // A reader that needs longer than that waits for nothing.
        let saved = one(10_000 * MS, forward(64_000, 0), false, SERVER);
        assert_eq!(saved.time.best_ns, 0);
    }

    #[test]
    fn a_disk_that_was_busy_all_the_time_could_not_be_faster() {
        let costs = Costs {
            latency_ns: 8 * MS,
            next_ns: 1,
            page_ns: 33_000,
            page_ns_max: 33_000,
            turns: true,
            ..SERVER
        };
        let pages = 64_000;
        let saved = one(pages * 33_000, forward(pages, pages * 32_000), false, costs);
        assert!(saved.time.best_ns.unsigned_abs() < 10 * MS, "{saved:?}");
    }

    #[test]
    fn each_jump_costs_a_request_and_in_a_mapping_each_half_window() {
        let down = Counts {
            jumped_pages: 16_000,
            jumps_down: 1_000,
            away_down_pages: 16_000,
            ..Counts::default()
        };
        let saved = one(100 * MS, down, false, SERVER);
        near(saved.time.best_ns, 1_000 * (MS + 16 * 4096));
        let saved = one(100 * MS, down, true, SERVER);
        near(saved.time.best_ns, 500 * (MS + 64 * 4096));
        // A head passes what lies between.
        let up = Counts {
            jumped_pages: 1_000,
            jumps_up: 1_000,
            away_up_pages: 16_000,
            ..Counts::default()
        };
        let saved = one(100 * MS, up, false, SERVER);
        near(saved.time.best_ns, 1_000 * (MS + 4096));
        let turns = Costs {
            turns: true,
            ..SERVER
        };
        let saved = one(100 * MS, up, false, turns);
        near(saved.time.best_ns, 1_000 * 17 * 4096);
    }

    #[test]
    fn threads_at_the_same_time_save_once_and_what_was_cached_saves_nothing() {
        let mut accounts = Accounts::default();
        let mut of_disk = |_| SERVER;
        for thread in 1..=4 {
            accounts.asked(100, thread, FILE, 0);
            accounts.paced(&paced(thread, 0, Counts::default()), &mut of_disk);
        }
        for thread in 1..=4 {
            accounts.fetched(thread, 3_200);
            accounts.paced(&paced(thread, 100 * MS, forward(6_400, 0)), &mut of_disk);
        }
        let over = accounts.paused(u64::MAX, false, &mut of_disk);
        let saved = over[0].saved.unwrap();
        assert_eq!(saved.threads_percent, 400);
        // Each has 100 windows of 1.262 ms, and needs 1 ms for each itself: half of the rest is the
        // wait. Four windows at the throughput of the disk take no longer. Half was cached.
        near(saved.time.best_ns, 100 * 131_072 / 2);
        assert_eq!(
            (over[0].found_pages, over[0].fetched_pages),
            (25_600, 12_800)
        );
    }

    #[test]
    fn who_goes_on_is_told_of_when_it_has_read_and_who_paused_is_over() {
        let mut accounts = Accounts::default();
        let mut of_disk = |_| SERVER;
        accounts.asked(100, 101, FILE, 5);
        accounts.fetched(101, 64);
        accounts.paced(&paced(101, 5, Counts::default()), &mut of_disk);
        accounts.paced(&paced(101, 5 + MS, forward(64, 0)), &mut of_disk);
        let told = accounts.going_on(true, &mut of_disk);
        assert_eq!((told.len(), told[0].found_pages), (1, 64));
        assert_eq!(accounts.going_on(true, &mut of_disk), []);
        assert_eq!(accounts.going_on(false, &mut of_disk), []);
        accounts.paced(&paced(101, 5 + 2 * MS, forward(128, 0)), &mut of_disk);
        assert_eq!(accounts.going_on(false, &mut of_disk)[0].found_pages, 128);
        assert_eq!(accounts.paused(PAUSE_NS, false, &mut of_disk), []);
        let over = accounts.paused(5 + 2 * MS + PAUSE_NS, false, &mut of_disk);
        assert_eq!((over.len(), over[0].found_pages), (1, 128));
        assert_eq!(accounts.going_on(false, &mut of_disk), []);
    }

    #[test]
    fn where_too_little_is_known_nothing_is_said() {
        let mut accounts = Accounts::default();
        let mut unknown = |_| Costs::default();
        accounts.paced(&paced(101, 0, Counts::default()), &mut unknown);
        assert_eq!(accounts.paused(u64::MAX, true, &mut unknown), []);
        accounts.asked(100, 101, FILE, 0);
        accounts.fetched(101, 10);
        accounts.paced(&paced(101, 0, Counts::default()), &mut unknown);
        accounts.paced(&paced(101, 1, forward(10, 0)), &mut unknown);
        let over = accounts.paused(u64::MAX, true, &mut unknown);
        assert_eq!((over[0].fetched_pages, over[0].saved), (10, None));
        // They may become known.
        let mut known = |_| SERVER;
        accounts.asked(100, 101, FILE, 0);
        accounts.fetched(101, 10);
        accounts.paced(&paced(101, 0, Counts::default()), &mut unknown);
        accounts.paced(&paced(101, SPAN_NS, forward(10, 0)), &mut unknown);
        accounts.paced(&paced(101, SPAN_NS + 1, forward(20, 0)), &mut known);
        let over = accounts.paused(u64::MAX, true, &mut known);
        assert_eq!(over[0].found_pages, 20);
        assert!(over[0].saved.is_some());
        // The number of a thread belongs to another one.
        accounts.asked(100, 101, FILE, 0);
        accounts.fetched(101, 10);
        accounts.paced(&paced(101, 0, forward(10, 0)), &mut unknown);
        accounts.paced(&paced(101, 1, forward(5, 0)), &mut unknown);
        let over = accounts.paused(u64::MAX, true, &mut unknown);
        assert_eq!((over[0].found_pages, over[0].saved), (0, None));
    }

    proptest! {
        #[test]
        fn any_counts_have_an_estimate_within_its_bounds(
            counts in prop::array::uniform10(0u64..1 << 40),
            costs in prop::array::uniform7(0u64..1 << 36),
            others in (any::<bool>(), any::<bool>(), 1u32..20, 0u64..1 << 12, any::<u64>()),
        ) {
            let counts = Counts {
                forward_pages: counts[0],
                jumped_pages: counts[1],
                jumps_up: counts[2],
                jumps_down: counts[8],
                away_up_pages: counts[3],
                away_down_pages: counts[9],
                missed_pages: counts[4],
                misses: counts[5],
                found_wait_ns: counts[6],
                missed_wait_ns: counts[7],
            };
            let costs = Costs {
                latency_ns: costs[0],
                next_ns: costs[1],
                cost_ns: costs[2],
                least_ns: costs[3],
                least_pages: costs[4],
                page_ns: costs[5],
                page_ns_max: costs[6],
                turns: others.0,
            };
            let mut of_disk = |_| costs;
            let mut accounts = Accounts::default();
            for thread in 0..others.2 {
                accounts.asked(thread % 3, thread, FILE, 0);
                accounts.fetched(thread, counts.forward_pages);
                for (at_ns, counts) in [(0, Counts::default()), (others.4, counts)] {
                    let paced = Paced {
                        process: thread % 3,
                        is_mapped: others.1,
                        kernel_pages: others.3,
                        ..paced(thread, at_ns, counts)
                    };
                    accounts.paced(&paced, &mut of_disk);
                }
            }
            for over in accounts.paused(0, true, &mut of_disk) {
                let Some(saved) = over.saved else { continue };
                let time = saved.time;
                prop_assert!(time.low_ns <= time.best_ns && time.best_ns <= time.high_ns);
            }
        }
    }
}
