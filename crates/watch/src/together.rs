// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that were last used together: which profile a process follows that misses file after
//! file.
//!
//! A process that misses some of the first files of a profile, in the order of need, may be the
//! program of that profile. It may also miss them by chance. A program that reads the `n` files of
//! a profile in random order goes from one to one of the next `g` with probability `g / n`. Each
//! such step multiplies the odds. Mapped files, such as executables and libraries, don't count, and
//! a step that several profiles have in common counts that much less. A profile matches only with a
//! lead over the next best one.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::detect::Missed;
use crate::known::{FileKey, Known};
use crate::memory_budget::ELEMENT_BYTES;
use crate::patience::Patience;
use crate::table::Table;

/// Bits of evidence that a match needs, besides log2 of the number of profiles. By chance, misses
/// make a match once in a million (2^20) times, or less often. Each miss of each process is a try.
const ODDS_BITS_MIN: f64 = 20.0;
/// Minimum lead over the next best profile, in bits of evidence.
const LEAD_BITS_MIN: f64 = 6.0;
/// Another file in between: the program of a profile misses such a one half of the time at most.
const OTHER_FILE_BITS: f64 = 1.0;
/// Processes that are remembered, and the bytes for them.
const PROCESSES_MAX: usize = 512;
const BYTES_MAX: u64 = 2 << 20;
/// Profiles that a process may follow.
const RUNS_MAX: usize = 32;
/// Limit of the reported files by which a profile was recognized.
const TOLD_FILES_MAX: usize = 8;
/// After a wrong match, this many misses are ignored; twice as many after each further one.
const PATIENCE_MISSES: u32 = 8;
const PATIENCE_MISSES_MAX: u32 = 4096;

/// A process that seems to be the program of a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The process that missed the files, or whose children did.
    pub process: u32,
    /// The process that missed the last one.
    pub by: u32,
    /// The number of the profile.
    pub profile: usize,
    /// The files by which it was known, in that order; the latest ones of many.
    pub files: Vec<Arc<Missed>>,
    /// Probability of a match by chance: 1 in 2^`odds_bits`.
    pub odds_bits: u32,
}

/// The files of a profile that a process has missed.
#[derive(Clone, Debug)]
struct Run {
    profile: u32,
    /// The place after that of the last file.
    next: u32,
    bits: f64,
    files: Vec<Arc<Missed>>,
}

#[derive(Debug, Default)]
struct Evidence {
    runs: Vec<Run>,
    /// Profiles that it was found to follow, the latest of many: each is said once.
    found: VecDeque<u32>,
    /// Misses that pass before it is matched again.
    patience: Patience,
}

/// All processes.
#[derive(Debug)]
pub struct Matcher {
    known: Known,
    processes: Table<Evidence>,
    misses: u64,
}

impl Default for Matcher {
    fn default() -> Self {
        Self {
            known: Known::default(),
            processes: Table::new(BYTES_MAX, PROCESSES_MAX),
            misses: 0,
        }
    }
}

impl Matcher {
    /// From now on there are these profiles, and no others.
    pub fn know(&mut self, known: Known) {
        self.known = known;
        self.processes.clear();
    }

    /// Takes a miss, which counts for its process and for the one that began it; says which profile
    /// one of them follows.
    pub fn missed(&mut self, file: &Missed) -> Option<Found> {
        if self.known.is_empty() {
            return None;
        }
        self.misses += 1;
        let file = &Arc::new(file.clone());
        let found = self.take(file.process, file);
        // The children of process 1 have nothing in common.
        let by_parent = (file.parent > 1).then(|| self.take(file.parent, file));
        let found = found.or(by_parent.flatten())?;
        for process in [file.process, file.parent] {
            if let Some(evidence) = self.processes.get_mut(process) {
                evidence.runs.clear();
                evidence.found.truncate(RUNS_MAX - 1);
                let profile = u32::try_from(found.profile).unwrap_or(u32::MAX);
                evidence.found.push_front(profile);
            }
        }
        Some(found)
    }

    fn take(&mut self, process: u32, file: &Arc<Missed>) -> Option<Found> {
        let key = FileKey::new(file.inode, &file.name);
        let at = self.known.among_the_first(key);
        // A process that missed nothing of a profile has no entry.
        if self.processes.get(process).is_none() && at.is_empty() {
            return None;
        }
        let files = self.known.files();
        let enough = ODDS_BITS_MIN + (files.len() as f64).log2();
        self.processes
            .change(process, file.user, self.misses, |evidence| {
                if evidence.patience.passes() {
                    return (None, evidence.bytes());
                }
                evidence.take(file, at, files);
                let found = evidence.best(enough).map(|run| Found {
                    process,
                    by: file.process,
                    profile: run.profile as usize,
                    files: run.files.clone(),
                    odds_bits: run.bits as u32,
                });
                (found, evidence.bytes())
            })
    }

    /// A match was wrong, or following it brought nothing.
    pub fn was_wrong(&mut self, process: u32) {
        if let Some(evidence) = self.processes.get_mut(process) {
            evidence
                .patience
                .was_wrong(PATIENCE_MISSES, PATIENCE_MISSES_MAX);
            evidence.runs.clear();
        }
    }

    /// A process has ended.
    pub fn ended(&mut self, process: u32) {
        self.processes.remove(process);
    }
}

/// Evidence, in bits, of a step from a file to the one `gap` places further in a profile of `files`
/// files.
fn step_bits(files: u32, gap: u32) -> f64 {
    let files = f64::from(files);
    // All steps upward together are as likely by chance as not.
    (files / f64::from(gap)).log2() - (1.0 + files.ln()).log2()
}

impl Evidence {
    /// Bytes of its runs. Files that several of them share count for each.
    fn bytes(&self) -> u64 {
        let of_file = |file: &Arc<Missed>| {
            let names = (file.directory.len() + file.name.len()) as u64;
            names + size_of::<Missed>() as u64 + 3 * ELEMENT_BYTES
        };
        let files = self.runs.iter().flat_map(|run| &run.files);
        let runs = self.runs.len() as u64 * (size_of::<Run>() as u64 + ELEMENT_BYTES);
        runs + files.map(of_file).sum::<u64>()
    }

    fn take(&mut self, file: &Arc<Missed>, at: &[(u32, u32)], files: &[u32]) {
        for run in &mut self.runs {
            if !at.iter().any(|(profile, _)| *profile == run.profile) {
                run.bits -= OTHER_FILE_BITS;
            }
        }
        self.runs.retain(|run| run.bits >= 0.0);
        let gaps: Vec<Option<u32>> = at.iter().map(|at| self.gap(*at)).collect();
        for ((profile, place), gap) in at.iter().zip(&gaps) {
            if self.found.contains(profile) {
                continue;
            }
            let count = files.get(*profile as usize).copied().unwrap_or(1).max(1);
            // A step that several profiles have in common says that much less of each.
            let bits = |gap: u32| {
                let as_near = gaps.iter().flatten().filter(|other| **other <= gap);
                step_bits(count, gap) - (as_near.count().max(1) as f64).log2()
            };
            let anew = bits(place + 1).max(0.0);
            let known = self.runs.iter_mut().find(|run| run.profile == *profile);
            let Some(run) = known else {
                self.runs.push(Run {
                    profile: *profile,
                    next: place + 1,
                    bits: anew,
                    files: vec![Arc::clone(file)],
                });
                continue;
            };
            if place + 1 == run.next {
                continue;
            }
            let on = match gap {
                Some(gap) => run.bits + bits(*gap),
                // Threads may come to two files in either order.
                None => run.bits - f64::from(count).log2(),
            };
            if on > anew {
                run.bits = on;
                run.next = run.next.max(place + 1);
            } else {
                run.bits = anew;
                run.next = place + 1;
                run.files.clear();
            }
            if run.files.len() == TOLD_FILES_MAX {
                run.files.remove(0);
            }
            run.files.push(Arc::clone(file));
        }
        self.runs.sort_by(|a, b| b.bits.total_cmp(&a.bits));
        self.runs.truncate(RUNS_MAX);
    }

    /// Distance in a profile from the last file, or from its beginning, to this one; `None` of a
    /// file that lies behind.
    fn gap(&self, (profile, place): (u32, u32)) -> Option<u32> {
        let run = self.runs.iter().find(|run| run.profile == profile);
        let next = run.map_or(0, |run| run.next);
        place.checked_sub(next).map(|left_out| left_out + 1)
    }

    /// The profile that is followed; a single file may be anybody's.
    fn best(&self, enough_bits: f64) -> Option<&Run> {
        let best = self.runs.first()?;
        let next = self.runs.get(1).map_or(0.0, |run| run.bits);
        let is_it =
            best.files.len() >= 2 && best.bits >= enough_bits && best.bits - next >= LEAD_BITS_MIN;
        is_it.then_some(best)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::known::FILES_MIN;
    use foreread_core::Device;
    use foreread_profile::{Identity, Profile, ProfileBuilder, Program, Source, Uses};
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// A program that reads these files, each by its number, in this order.
    fn profile(files: &[u64]) -> Profile {
        profile_used_as(files, Uses::READ)
    }

    fn profile_used_as(files: &[u64], uses: Uses) -> Profile {
        let mut builder = ProfileBuilder::new(Program::default(), Source::default());
        for (need, file) in (0u64..).zip(files) {
            let path = format!("/d{}/{file}", file % 7);
            let id = builder.node(path.as_bytes()).unwrap();
            builder.used(id, uses, need);
            builder.pages(id, 0, 1, need);
            let inode = *file;
            let identity = Identity {
                inode,
                ..Identity::default()
            };
            builder.set_identity(id, identity);
        }
        builder.finish()
    }

    fn known(profiles: &[Profile]) -> Matcher {
        let mut known = Known::default();
        profiles.iter().for_each(|profile| known.add(profile));
        let mut matcher = Matcher::default();
        matcher.know(known);
        matcher
    }

    fn miss(process: u32, parent: u32, file: u64) -> Missed {
        Missed {
            process,
            thread: process,
            parent,
            user: 0,
            device: Device::default(),
            inode: file,
            directory: format!("/d{}", file % 7).into(),
            name: file.to_string().into(),
        }
    }

    /// After how many misses a profile is known, and which.
    fn play(matcher: &mut Matcher, files: impl IntoIterator<Item = u64>) -> Option<(usize, usize)> {
        let files = files.into_iter().enumerate();
        let mut found = files.filter_map(|(at, file)| {
            let found = matcher.missed(&miss(9, 1, file))?;
            Some((at + 1, found.profile))
        });
        found.next()
    }

    /// Numbers without any order, the same each time.
    fn shuffled(count: u64, seed: u64) -> Vec<u64> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut files: Vec<u64> = (1..=count).collect();
        for at in (1..files.len()).rev() {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            files.swap(at, ((state >> 33) % (at as u64 + 1)) as usize);
        }
        files
    }

    #[test]
    fn the_first_files_in_their_order_make_a_match() {
        let files = shuffled(300, 1);
        let play = |missed: Vec<u64>| play(&mut known(&[profile(&files)]), missed);
        assert_eq!(play(files.clone()), Some((4, 0)));
        // Every third was in memory.
        let missed = files.iter().copied().enumerate();
        let missed = missed.filter(|(at, _)| at % 3 > 0).map(|(_, file)| file);
        let (after, _) = play(missed.collect()).unwrap();
        assert!(after <= 6, "{after}");
        // The first hundred were.
        let (after, _) = play(files[100..].to_vec()).unwrap();
        assert!(after <= 6, "{after}");
    }

    #[test]
    fn a_small_profile_matches_nothing() {
        let files = shuffled(FILES_MIN as u64 - 1, 1);
        assert_eq!(play(&mut known(&[profile(&files)]), files), None);
    }

    #[test]
    fn others_in_between_do_no_harm_unless_there_are_many() {
        let files = shuffled(300, 1);
        let with = |others: u64| {
            let of = move |file: &u64| (0..others).map(|n| 10_000 + n).chain([*file]);
            let missed: Vec<u64> = files.iter().flat_map(of).collect();
            play(&mut known(&[profile(&files)]), missed)
        };
        assert!(with(3).is_some());
        assert!(with(10).is_none());
    }

    #[test]
    fn threads_may_come_to_two_files_in_either_order() {
        let files = shuffled(300, 1);
        let mut swapped = files.clone();
        swapped.swap(1, 2);
        let mut matcher = known(&[profile(&files)]);
        let (after, _) = play(&mut matcher, swapped).unwrap();
        assert!(after <= 8, "{after}");
    }

    #[test]
    fn what_children_miss_counts_for_who_began_them() {
        let files = shuffled(300, 1);
        let mut matcher = known(&[profile(&files)]);
        let each = (100u32..).zip(&files);
        let found = each
            .filter_map(|(child, file)| matcher.missed(&miss(child, 50, *file)))
            .next()
            .unwrap();
        assert_eq!((found.process, found.by, found.profile), (50, 103, 0));
        assert_eq!(found.files.len(), 4);
        // All processes have the first one above them.
        let each = (200u32..).zip(&files);
        let orphans = each.filter_map(|(child, file)| matcher.missed(&miss(child, 1, *file)));
        assert_eq!(orphans.count(), 0);
    }

    #[test]
    fn what_is_mapped_or_in_all_profiles_tells_nothing() {
        let files = shuffled(300, 1);
        let libraries = profile_used_as(&files, Uses::READ.union(Uses::MAPPED));
        assert_eq!(play(&mut known(&[libraries]), files.clone()), None);
        // Programs in one language begin alike.
        let common: Vec<u64> = (1000..1060).collect();
        let of = |seed: u64| {
            let own = shuffled(200, seed).into_iter().map(|n| n + seed * 10_000);
            common.iter().copied().chain(own).collect::<Vec<u64>>()
        };
        let all: Vec<Profile> = (1..=20).map(|seed| profile(&of(seed))).collect();
        let mut matcher = known(&all);
        assert_eq!(play(&mut matcher, common.clone()), None);
        let (after, which) = play(&mut known(&all), of(7)).unwrap();
        assert_eq!(which, 6);
        assert!(after <= 60 + 8, "{after}");
        // One more of them, which has no profile.
        assert_eq!(play(&mut known(&all), of(30)), None);
    }

    #[test]
    fn the_right_one_of_200_is_found() {
        // All read the same files, each in an order of its own.
        let orders: Vec<Vec<u64>> = (0..200).map(|seed| shuffled(400, seed)).collect();
        let all: Vec<Profile> = orders.iter().map(|files| profile(files)).collect();
        for which in (0..200).step_by(7) {
            let found = play(&mut known(&all), orders[which].clone());
            assert_eq!(found.map(|(_, profile)| profile), Some(which));
        }
        // Each has files of its own.
        let own = |seed: u64| -> Vec<u64> {
            let files = shuffled(100, seed);
            files.iter().map(|file| file + seed * 1000).collect()
        };
        let all: Vec<Profile> = (0..200).map(|seed| profile(&own(seed))).collect();
        for which in (0..200).step_by(7) {
            let (after, found) = play(&mut known(&all), own(which)).unwrap();
            assert_eq!(found as u64, which);
            assert!(after <= 8, "{after}");
        }
    }

    #[test]
    fn a_program_that_reads_at_random_matches_nothing() {
        for files in [30, 100, 300, 3000] {
            for profiles in [1, 50] {
                let of = |seed| profile(&shuffled(files, seed));
                let all: Vec<Profile> = (0..profiles).map(of).collect();
                let mut matcher = known(&all);
                for seed in 1000..1030 {
                    let found = play(&mut matcher, shuffled(files, seed));
                    assert_eq!(
                        found, None,
                        "{files} files, {profiles} profiles, seed {seed}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_profile_is_found_once_and_after_a_wrong_match_more_and_more_misses_pass() {
        let own = |seed: u64| {
            shuffled(100, seed)
                .into_iter()
                .map(move |n| n + seed * 1000)
        };
        let all: Vec<Profile> = (0..40)
            .map(|seed| profile(&own(seed).collect::<Vec<u64>>()))
            .collect();
        let mut matcher = known(&all);
        let mut found = Vec::new();
        let begins = (0..40).flat_map(|seed| own(seed).take(30));
        for (at, file) in begins.clone().chain(begins).enumerate() {
            if let Some(one) = matcher.missed(&miss(9, 1, file)) {
                found.push((at, one.profile));
                matcher.was_wrong(9);
            }
        }
        let mut profiles: Vec<usize> = found.iter().map(|(_, profile)| *profile).collect();
        assert_eq!(profiles[0], 0);
        let gaps: Vec<usize> = found.windows(2).map(|two| two[1].0 - two[0].0).collect();
        assert!(gaps.len() >= 3 && gaps.is_sorted(), "{found:?}");
        profiles.dedup();
        assert_eq!(profiles.len(), found.len(), "{found:?}");
    }

    proptest! {
        #[test]
        fn memory_is_bounded_and_what_is_told_was_missed_in_that_order(
            orders in prop::collection::vec(any::<u64>(), 1..6),
            reads in prop::collection::vec((2u32..1500, 0usize..6, 1usize..60), 0..60),
        ) {
            let orders: Vec<Vec<u64>> = orders.iter().map(|seed| shuffled(40, *seed)).collect();
            let all: Vec<Profile> = orders.iter().map(|files| profile(files)).collect();
            let mut matcher = known(&all);
            let mut missed: HashMap<u32, Vec<u64>> = HashMap::new();
            for (process, which, count) in reads {
                let files = &orders[which % orders.len()];
                for file in files.iter().cycle().skip(which).take(count) {
                    missed.entry(process).or_default().push(*file);
                    let Some(found) = matcher.missed(&miss(process, 0, *file)) else {
                        continue;
                    };
                    prop_assert!(found.profile < all.len() && found.files.len() >= 2);
                    let mut all_of_it = missed[&found.process].iter();
                    for told in &found.files {
                        prop_assert!(all_of_it.any(|file| *file == told.inode));
                    }
                }
            }
            prop_assert!(matcher.processes.len() <= PROCESSES_MAX);
            prop_assert!(matcher.processes.bytes() <= BYTES_MAX);
            prop_assert!(matcher.processes.values().all(|one| one.runs.len() <= RUNS_MAX));
        }
    }
}
