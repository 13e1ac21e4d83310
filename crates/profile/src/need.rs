// SPDX-License-Identifier: MIT OR Apache-2.0
//! The order of need, which a replay follows.

use crate::types::{NodeId, PAGE_BYTES, PageRange, Profile};

/// Pages of one file that are needed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needed {
    /// The file.
    pub node: NodeId,
    /// First page.
    pub start_page: u64,
    /// Number of pages, at least one.
    pub pages: u64,
    /// When the first of them was needed, from the start of the program.
    pub need_ns: u64,
    /// As [`crate::Node::weight`].
    pub weight: u8,
}

impl Needed {
    fn new(node: NodeId, range: &PageRange) -> Self {
        let PageRange {
            start_page,
            pages,
            need_ns,
            weight,
            ..
        } = *range;
        Self {
            node,
            start_page,
            pages,
            need_ns,
            weight,
        }
    }

    /// The page after the last.
    #[must_use]
    pub const fn end_page(&self) -> u64 {
        self.start_page.saturating_add(self.pages)
    }
}

/// All page ranges by need; at the same need, in the order of the profile.
#[must_use]
pub fn by_need(profile: &Profile) -> Vec<Needed> {
    let mut all = Vec::with_capacity(profile.ranges.len());
    for (id, node) in profile.iter() {
        all.extend(
            node.ranges(&profile.ranges)
                .iter()
                .map(|range| Needed::new(id, range)),
        );
    }
    // A stable sort, and cheap on ranges that are nearly in order.
    all.sort_by_key(|needed| needed.need_ns);
    all
}

/// All nodes by need, parents before their children at the same need; for metadata.
#[must_use]
pub fn nodes_by_need(profile: &Profile) -> Vec<NodeId> {
    let mut all: Vec<NodeId> = profile.iter().map(|(id, _)| id).collect();
    all.sort_by_key(|id| profile.node(*id).map_or(0, |node| node.need_ns));
    all
}

/// Where [`phases`] cuts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhaseLimits {
    /// A phase holds at most this much, in bytes; less than a page counts as a page. Within a phase
    /// a replay reads in physical order, so up to this much may come before the very first bytes.
    pub phase_bytes_max: u64,
    /// A pause between needs of at least this begins a new phase, when the phase before holds
    /// [`phase_bytes_min`](Self::phase_bytes_min).
    pub pause_ns: u64,
    /// No pause cuts a phase that holds less, in bytes: small phases cost the physical order more
    /// than they gain.
    pub phase_bytes_min: u64,
}

impl Default for PhaseLimits {
    /// 32 MiB, 100 ms, 1 MiB. A disk reads 32 MiB in a quarter of a second, which is enough for its
    /// sweep to be sequential. 100 ms is longer than the few seeks that separate the reads of a
    /// busy program. So such a pause is the program's own work.
    fn default() -> Self {
        Self {
            phase_bytes_max: 32 << 20,
            pause_ns: 100_000_000,
            phase_bytes_min: 1 << 20,
        }
    }
}

/// A window of need: pages that a replay may read in any order before it goes on to the next
/// window.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Phase {
    /// When its first pages are needed.
    pub first_need_ns: u64,
    /// When its last pages are needed.
    pub last_need_ns: u64,
    /// Pages in it.
    pub pages: u64,
    /// Page ranges to read, by need.
    pub ranges: Vec<Needed>,
}

impl Phase {
    fn bytes(&self) -> u64 {
        self.pages.saturating_mul(PAGE_BYTES)
    }

    fn push(&mut self, needed: Needed) {
        if self.ranges.is_empty() {
            self.first_need_ns = needed.need_ns;
        }
        self.last_need_ns = needed.need_ns;
        self.pages = self.pages.saturating_add(needed.pages);
        self.ranges.push(needed);
    }
}

/// The whole profile cut into windows of need, in order.
///
/// A new phase begins when the one before is full, or at a pause in the needs. A range that doesn't
/// fit into the rest of a phase is split. So phases are full, and none exceeds its limit, however
/// large a range is. The exception: once there are [`PHASES_MAX`] phases, even a range of 2^51
/// pages makes one phase.
#[must_use]
pub fn phases(profile: &Profile, limits: &PhaseLimits) -> Vec<Phase> {
    let pages_max = (limits.phase_bytes_max / PAGE_BYTES).max(1);
    let mut done: Vec<Phase> = Vec::new();
    let mut phase = Phase::default();
    for mut needed in by_need(profile) {
        let pause_ns = needed.need_ns.saturating_sub(phase.last_need_ns);
        let is_pause = pause_ns >= limits.pause_ns && phase.bytes() >= limits.phase_bytes_min;
        if is_pause && !phase.ranges.is_empty() {
            done.push(std::mem::take(&mut phase));
        }
        while needed.pages > 0 {
            let room = pages_max.saturating_sub(phase.pages);
            if room == 0 && done.len() < PHASES_MAX {
                done.push(std::mem::take(&mut phase));
                continue;
            }
            let pages = if done.len() < PHASES_MAX {
                needed.pages.min(room)
            } else {
                needed.pages
            };
            phase.push(Needed { pages, ..needed });
            needed.start_page = needed.start_page.saturating_add(pages);
            needed.pages -= pages;
        }
    }
    if !phase.ranges.is_empty() {
        done.push(phase);
    }
    done
}

/// Phases that full ones are cut into; the last takes all the rest. A profile may name pages that
/// no disk could hold, and cutting these mustn't take memory without end.
pub const PHASES_MAX: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::PAGE_END_MAX;
    use crate::{ProfileBuilder, Program, Source};

    const MS: u64 = 1_000_000;
    const LIMITS: PhaseLimits = PhaseLimits {
        phase_bytes_max: 40_960,
        pause_ns: 100 * MS,
        phase_bytes_min: 8_192,
    };

    fn profile(ranges: &[(&str, u64, u64, u64)]) -> Profile {
        let mut builder = ProfileBuilder::new(Program::default(), Source::default());
        for (path, start_page, pages, need_ns) in ranges {
            let id = builder.node(path.as_bytes()).unwrap();
            builder.pages(id, *start_page, *pages, *need_ns);
        }
        builder.finish()
    }

    fn shape(phases: &[Phase]) -> Vec<(u64, u64, u64)> {
        phases
            .iter()
            .map(|phase| (phase.first_need_ns, phase.last_need_ns, phase.pages))
            .collect()
    }

    #[test]
    fn needs_come_in_order() {
        let profile = profile(&[("/a", 0, 1, 30), ("/b", 5, 1, 10), ("/a", 9, 1, 90 * MS)]);
        let needs: Vec<u64> = by_need(&profile)
            .iter()
            .map(|needed| needed.need_ns)
            .collect();
        assert_eq!(needs, [10, 30, 90 * MS]);
        let order: Vec<Vec<u8>> = nodes_by_need(&profile)
            .into_iter()
            .map(|id| profile.path(id))
            .collect();
        assert_eq!(order, [b"/".to_vec(), b"/b".to_vec(), b"/a".to_vec()]);
    }

    #[test]
    fn a_full_phase_is_cut_within_the_range() {
        let profile = profile(&[("/a", 0, 8, 1), ("/b", 0, 8, 2), ("/c", 0, 25, 3)]);
        let phases = phases(&profile, &LIMITS);
        assert_eq!(
            shape(&phases),
            [(1, 2, 10), (2, 3, 10), (3, 3, 10), (3, 3, 10), (3, 3, 1)]
        );
        assert_eq!(
            (phases[1].ranges[0].start_page, phases[1].ranges[0].pages),
            (2, 6)
        );
    }

    #[test]
    fn a_pause_cuts_only_what_is_worth_a_phase() {
        let profile = profile(&[
            ("/a", 0, 1, 0),
            ("/b", 0, 2, 200 * MS),
            ("/c", 0, 2, 300 * MS),
            ("/d", 0, 1, 399 * MS),
        ]);
        assert_eq!(
            shape(&phases(&profile, &LIMITS)),
            [(0, 200 * MS, 3), (300 * MS, 399 * MS, 3)]
        );
    }

    #[test]
    fn every_page_is_in_one_phase() {
        let mut ranges = Vec::new();
        let names: Vec<String> = (0..50).map(|at| format!("/{at}")).collect();
        for (at, name) in (0u64..).zip(&names) {
            ranges.push((name.as_str(), at, at % 7 + 1, at * 37 % 50 * 30 * MS));
        }
        let profile = profile(&ranges);
        let phases = phases(&profile, &LIMITS);
        assert!(
            phases
                .iter()
                .all(|phase| phase.pages <= 10 && !phase.ranges.is_empty())
        );
        let pages: u64 = phases
            .iter()
            .flat_map(|phase| &phase.ranges)
            .map(|r| r.pages)
            .sum();
        assert_eq!(pages, profile.total_pages());
        assert!(
            phases
                .windows(2)
                .all(|pair| pair[0].last_need_ns <= pair[1].first_need_ns)
        );
    }

    #[test]
    fn impossible_sizes_end() {
        let profile = profile(&[("/a", 0, PAGE_END_MAX, 0), ("/b", 0, PAGE_END_MAX, 1)]);
        let phases = phases(&profile, &LIMITS);
        assert_eq!(phases.len(), PHASES_MAX + 1);
        let pages: u64 = phases.iter().map(|phase| phase.pages).sum();
        assert_eq!(pages, 2 * PAGE_END_MAX);
    }

    #[test]
    fn nothing_needed_is_no_phase() {
        assert_eq!(phases(&profile(&[]), &PhaseLimits::default()), []);
        let no_room = PhaseLimits {
            phase_bytes_max: 0,
            ..LIMITS
        };
        assert_eq!(
            shape(&phases(&profile(&[("/a", 0, 2, 0)]), &no_room)),
            [(0, 0, 1), (0, 0, 1)]
        );
    }
}
