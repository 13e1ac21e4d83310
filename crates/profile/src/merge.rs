// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ageing: each further run confirms the entries that it sees and weakens those that it doesn't.
//!
//! Each entry has a weight. The weight of a seen entry climbs half of the way to [`WEIGHT_MAX`]; a
//! new one starts at [`WEIGHT_NEW`]. The weight of a watched entry that is unseen halves, and an
//! entry below [`WEIGHT_MIN`] is removed. An entry that was seen last time weighs at least 128. So
//! it is removed with the fifth run in a row that doesn't see it, and one run that sees it makes up
//! for all before. Pages have weights of their own: a range that is partly seen is split.

use std::borrow::Cow;
use std::cmp::{Ordering, Reverse};

use crate::access::id_of;
use crate::devices::joined;
use crate::limits::{MOUNTS_MAX, NAMES_BYTES_MAX, NODES_MAX, RANGES_MAX};
use crate::ranges::{earlier, push_joined};
use crate::types::{
    BlindSpots, Identity, Mount, Node, NodeId, NodeKind, PAGE_BYTES, PageRange, Profile, Uses,
    WEIGHT_MAX,
};
use crate::units::{Units, drop_unused_units, renumbered};

/// Weight of an entry that a later run sees for the first time.
pub const WEIGHT_NEW: u8 = 128;

/// Entries of lower weight are removed: 255 halved five times is 7, 128 halved five times is 4.
pub const WEIGHT_MIN: u8 = 8;

/// If more than one event was lost per this many entries seen, a missing entry proves nothing.
const ENTRIES_PER_LOST_EVENT: u64 = 100;

/// Completeness of the newer profile's run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observation {
    /// A full recording: an entry that it doesn't hold wasn't used, apart from its blind spots.
    Full,
    /// A run that was watched in part. Its entries were used. Other entries may have been used,
    /// unless their kind was watched completely.
    Refresh {
        /// Every access to file contents was seen: pages that aren't there decay.
        data: bool,
        /// Every lookup was seen: paths that aren't there decay.
        lookups: bool,
    },
}

/// The profile after one more run.
///
/// All entries of `new` are in the result, with the need, kind, mount and identity that it saw. The
/// rest is from `old`, without the entries that were removed. Pages of `old` beyond the new size of
/// a file are dropped, and so are entries below a path that is no directory any more. The runs of
/// `new` are appended. Unseen entries don't decay when `new` lost more than one event for every
/// hundred entries that it holds.
///
/// The size is bounded. Over [`NODES_MAX`] paths or [`RANGES_MAX`] ranges, entries are removed
/// until an eighth of the room is free, so that not every run has to cut again. The lowest weights
/// are removed first, and among equal weights those needed last.
#[must_use]
pub fn merge(old: &Profile, new: &Profile, seen: Observation) -> Profile {
    let mut merged = combine(old, new, &Rule::ageing(new, seen), &Limits::FULL);
    let describing = match seen {
        Observation::Refresh { .. } if !old.program.executable.is_empty() => old,
        _ => new,
    };
    merged.program = describing.program.clone().bounded();
    merged.source = describing.source.clone().bounded();
    merged.phases = describing.phases.clone();
    merged.devices = joined(&old.devices, &new.devices);
    for run in old.runs.iter().chain(&new.runs) {
        merged.push_run(run.clone());
    }
    merged
}

/// Combines two profiles, such as of two machines or of two kinds of work. The result has all
/// entries of either, with the higher weight and the earlier need. If they contradict each other
/// (kind, identity, program), the later recording is right, and of two with the same time the
/// second.
#[must_use]
pub fn merge_profiles(a: &Profile, b: &Profile) -> Profile {
    let (old, new) = if a.source.recorded_unix_s > b.source.recorded_unix_s {
        (b, a)
    } else {
        (a, b)
    };
    let mut merged = combine(old, new, &Rule::Union, &Limits::FULL);
    merged.program = new.program.clone().bounded();
    merged.source = new.source.clone().bounded();
    merged.phases = new.phases.clone();
    merged.devices = joined(&old.devices, &new.devices);
    let mut runs = old.runs.clone();
    runs.extend(
        new.runs
            .iter()
            .filter(|run| !old.runs.contains(run))
            .cloned(),
    );
    runs.sort_by_key(|run| run.started_unix_s);
    for run in runs {
        merged.push_run(run);
    }
    merged
}

/// A profile with at most so many ranges. Of more, an eighth below that stays: those of the highest
/// weights, and among equal weights those needed first.
#[must_use]
pub fn within(profile: &Profile, ranges_max: usize) -> Cow<'_, Profile> {
    if profile.ranges.len() <= ranges_max {
        return Cow::Borrowed(profile);
    }
    let limits = Limits {
        ranges: ranges_max,
        ..Limits::FULL
    };
    let cut = combine(profile, &Profile::default(), &Rule::Union, &limits);
    Cow::Owned(Profile {
        program: profile.program.clone(),
        source: profile.source.clone(),
        phases: profile.phases.clone(),
        devices: profile.devices.clone(),
        runs: profile.runs.clone(),
        ..cut
    })
}

/// How two entries become one.
enum Rule {
    /// The newer of two runs confirms or lets go.
    Ageing {
        /// Pages that aren't there decay.
        data: bool,
        /// So do pages of files that were read through mappings.
        mapped: bool,
        /// Paths that aren't there decay.
        lookups: bool,
        /// The newer run saw every use of its entries.
        uses: bool,
    },
    /// Neither is better.
    Union,
}

impl Rule {
    fn ageing(new: &Profile, seen: Observation) -> Self {
        let entries = (new.nodes.len() + new.ranges.len()) as u64;
        let complete = new.source.events_lost <= entries / ENTRIES_PER_LOST_EVENT;
        let (data, lookups) = match seen {
            Observation::Full => (true, true),
            Observation::Refresh { data, lookups } => (data, lookups),
        };
        let sees = |spot: BlindSpots| new.source.blind_spots.0 & spot.0 == 0;
        let data = data && complete;
        Self::Ageing {
            data,
            mapped: data && sees(BlindSpots::NO_MAPPED_FAULTS),
            lookups: lookups && complete && sees(BlindSpots::NO_LOOKUPS),
            uses: seen == Observation::Full,
        }
    }

    fn seen_again(&self, old: u8, new: u8) -> u8 {
        match self {
            Self::Ageing { .. } => old + (WEIGHT_MAX - old).div_ceil(2),
            Self::Union => old.max(new),
        }
    }

    fn seen_first(&self, new: u8) -> u8 {
        match self {
            Self::Ageing { .. } => WEIGHT_NEW,
            Self::Union => new,
        }
    }

    fn unseen_node(&self, old: u8) -> u8 {
        if matches!(self, Self::Ageing { lookups: true, .. }) {
            old / 2
        } else {
            old
        }
    }

    fn unseen_page(&self, old: u8, file: Uses) -> u8 {
        let watched = match self {
            Self::Ageing { data, mapped, .. } if file.contains(Uses::MAPPED) => *data && *mapped,
            Self::Ageing { data, .. } => *data,
            Self::Union => false,
        };
        if watched { old / 2 } else { old }
    }

    /// Programs change, so the newer run's need counts, and who had it. A run that doesn't tell
    /// who leaves what was known.
    fn need(&self, old: (u64, u16), new: (u64, u16)) -> (u64, u16) {
        match self {
            Self::Ageing { .. } if new.1 == 0 => (new.0, old.1),
            Self::Ageing { .. } => new,
            Self::Union => earlier(old, new),
        }
    }

    fn uses(&self, old: Uses, new: Uses) -> Uses {
        match self {
            Self::Ageing { uses: true, .. } => new,
            _ => old.union(new),
        }
    }

    fn leaves(&self, weight: u8) -> bool {
        matches!(self, Self::Ageing { .. }) && weight < WEIGHT_MIN
    }
}

/// Limits of the result.
struct Limits {
    nodes: usize,
    ranges: usize,
    names_bytes: usize,
}

impl Limits {
    const FULL: Self = Self {
        nodes: NODES_MAX,
        ranges: RANGES_MAX,
        names_bytes: NAMES_BYTES_MAX,
    };
}

/// Entries kept after a cut, for a limit that was exceeded.
const fn after_cut(limit: usize) -> usize {
    limit - limit / 8
}

fn combine(old: &Profile, new: &Profile, rule: &Rule, limits: &Limits) -> Profile {
    let mut union = Union::new(old, new, rule);
    union.walk();
    union.settle();
    union.limit_ranges(limits);
    union.limit_nodes(limits);
    union.into_profile()
}

/// One path of the result.
struct Entry {
    /// Its parent is an index in [`Union::entries`], its mount one in [`Union::mounts`], its ranges
    /// in [`Union::ranges`].
    node: Node,
    old: Option<NodeId>,
    new: Option<NodeId>,
    stays: bool,
}

/// Both trees walked side by side, breadth first, so that the result is in canonical order.
struct Union<'a> {
    old: &'a Profile,
    new: &'a Profile,
    rule: &'a Rule,
    entries: Vec<Entry>,
    ranges: Vec<PageRange>,
    mounts: Vec<Mount>,
    /// Index in `mounts` of each mount of `old` and of `new`.
    mount_places: [Vec<u16>; 2],
    units: Vec<Vec<u8>>,
    /// The number in the result of each unit of `old` and of `new`.
    unit_numbers: [Vec<u16>; 2],
}

impl<'a> Union<'a> {
    fn new(old: &'a Profile, new: &'a Profile, rule: &'a Rule) -> Self {
        let mut mounts = vec![Mount::default()];
        let mut places = |profile: &Profile| {
            let place = |mount: &Mount| {
                let known = mounts.iter().position(|known| known == mount);
                let place = known.unwrap_or_else(|| {
                    mounts.push(mount.clone());
                    mounts.len() - 1
                });
                u16::try_from(place).unwrap_or(0)
            };
            profile.mounts.iter().map(place).collect()
        };
        let mount_places = [places(old), places(new)];
        let (units, unit_numbers) = joined_units(old, new);
        Self {
            old,
            new,
            rule,
            entries: Vec::new(),
            ranges: Vec::new(),
            mounts,
            mount_places,
            units,
            unit_numbers,
        }
    }

    fn walk(&mut self) {
        let root = |profile: &Profile| (!profile.nodes.is_empty()).then_some(NodeId(0));
        self.enter(None, root(self.old), root(self.new));
        let mut next = 0;
        while let Some(entry) = self.entries.get(next) {
            if entry.node.kind == NodeKind::Directory {
                let (old, new) = (entry.old, entry.new);
                self.enter_children(id_of(next), old, new);
            }
            next += 1;
        }
    }

    fn enter_children(&mut self, parent: NodeId, old: Option<NodeId>, new: Option<NodeId>) {
        let olds = children(self.old, old);
        let news = children(self.new, new);
        let mut olds = olds.into_iter().peekable();
        let mut news = news.into_iter().peekable();
        loop {
            let order = match (olds.peek(), news.peek()) {
                (None, None) => return,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(old), Some(new)) => self.old.name(*old).cmp(self.new.name(*new)),
            };
            let old = if order.is_le() { olds.next() } else { None };
            let new = if order.is_ge() { news.next() } else { None };
            self.enter(Some(parent), old, new);
        }
    }

    fn enter(&mut self, parent: Option<NodeId>, old: Option<NodeId>, new: Option<NodeId>) {
        let old_node = old.and_then(|id| self.old.node(id)).copied();
        let new_node = new.and_then(|id| self.new.node(id)).copied();
        let mut node = match (old_node, new_node) {
            (Some(old), Some(new)) => self.both(&old, &new),
            (Some(old), None) => Node {
                weight: self.rule.unseen_node(old.weight),
                mount: self.place(0, old.mount),
                unit: self.unit_number(0, old.unit),
                ..old
            },
            (None, Some(new)) => Node {
                weight: self.rule.seen_first(new.weight),
                mount: self.place(1, new.mount),
                unit: self.unit_number(1, new.unit),
                ..new
            },
            (None, None) => Node {
                kind: NodeKind::Directory,
                ..Node::default()
            },
        };
        node.parent = parent;
        let start = self.ranges.len();
        if node.kind == NodeKind::File {
            self.enter_ranges(&node, old_node.as_ref(), new_node.as_ref());
        }
        node.range_start = u32::try_from(start).unwrap_or(u32::MAX);
        node.range_count = u32::try_from(self.ranges.len() - start).unwrap_or(u32::MAX);
        self.entries.push(Entry {
            node,
            old,
            new,
            stays: false,
        });
    }

    fn both(&self, old: &Node, new: &Node) -> Node {
        let seen = |identity: Identity| identity.inode != 0;
        let mount = match self.place(1, new.mount) {
            0 => self.place(0, old.mount),
            mount => mount,
        };
        let (need_ns, unit) = self.rule.need(
            (old.need_ns, self.unit_number(0, old.unit)),
            (new.need_ns, self.unit_number(1, new.unit)),
        );
        Node {
            uses: self.rule.uses(old.uses, new.uses),
            weight: self.rule.seen_again(old.weight, new.weight),
            mount,
            identity: if seen(new.identity) {
                new.identity
            } else {
                old.identity
            },
            need_ns,
            unit,
            ..*new
        }
    }

    fn place(&self, which: usize, mount: u16) -> u16 {
        self.mount_places[which]
            .get(usize::from(mount))
            .copied()
            .unwrap_or(0)
    }

    fn unit_number(&self, which: usize, unit: u16) -> u16 {
        renumbered(&self.unit_numbers[which], unit)
    }

    /// Adds the ranges of a file, piece by piece, from both profiles.
    fn enter_ranges(&mut self, node: &Node, old_node: Option<&Node>, new_node: Option<&Node>) {
        let first = self.ranges.len();
        let (old, new, rule) = (self.old, self.new, self.rule);
        let olds = old_node.map_or(&[][..], |node| node.ranges(&old.ranges));
        let news = new_node.map_or(&[][..], |node| node.ranges(&new.ranges));
        // A file that was seen again ends where it ends now.
        let end_page = match new_node {
            Some(new) if new.identity.inode != 0 => new.identity.size_bytes.div_ceil(PAGE_BYTES),
            _ => u64::MAX,
        };
        let file_uses = old_node.map_or(node.uses, |old| old.uses.union(node.uses));
        let [old_units, new_units] = &self.unit_numbers;
        let old_need = |range: &PageRange| (range.need_ns, renumbered(old_units, range.unit));
        let new_need = |range: &PageRange| (range.need_ns, renumbered(new_units, range.unit));
        overlay(olds, news, |start_page, until, old, new| {
            let (until, (need_ns, unit), weight) = match (old, new) {
                (Some(old), Some(new)) => (
                    until,
                    rule.need(old_need(old), new_need(new)),
                    rule.seen_again(old.weight, new.weight),
                ),
                (None, Some(new)) => (until, new_need(new), rule.seen_first(new.weight)),
                (Some(old), None) => (
                    until.min(end_page),
                    old_need(old),
                    rule.unseen_page(old.weight, file_uses),
                ),
                (None, None) => return,
            };
            if start_page < until && !rule.leaves(weight) {
                let pages = until - start_page;
                let range = PageRange {
                    start_page,
                    pages,
                    need_ns,
                    weight,
                    unit,
                };
                push_joined(&mut self.ranges, first, range);
            }
        });
    }

    /// Decides who stays. A directory stays with, weighs as much as, and is needed as early as
    /// anything in it; a file likewise with its pages.
    fn settle(&mut self) {
        for at in (0..self.entries.len()).rev() {
            let entry = &mut self.entries[at];
            let ranges = entry.node.ranges(&self.ranges);
            for range in ranges {
                entry.node.weight = entry.node.weight.max(range.weight);
            }
            let has_pages = !ranges.is_empty();
            entry.stays |= at == 0 || has_pages || !self.rule.leaves(entry.node.weight);
            let Entry {
                node, stays: true, ..
            } = *entry
            else {
                continue;
            };
            if let Some(parent) = node
                .parent
                .and_then(|id| self.entries.get_mut(id.0 as usize))
            {
                parent.stays = true;
                parent.node.weight = parent.node.weight.max(node.weight);
                (parent.node.need_ns, parent.node.unit) = earlier(
                    (parent.node.need_ns, parent.node.unit),
                    (node.need_ns, node.unit),
                );
            }
        }
    }

    fn limit_ranges(&mut self, limits: &Limits) {
        if self.ranges.len() <= limits.ranges {
            return;
        }
        let mut order: Vec<usize> = (0..self.ranges.len()).collect();
        order.sort_by_key(|at| {
            let range = &self.ranges[*at];
            (Reverse(range.weight), range.need_ns)
        });
        let mut kept = vec![false; self.ranges.len()];
        for at in order.into_iter().take(after_cut(limits.ranges)) {
            kept[at] = true;
        }
        let all = std::mem::take(&mut self.ranges);
        for entry in &mut self.entries {
            let from = entry.node.range_start as usize;
            let own = from..from + entry.node.range_count as usize;
            let start = self.ranges.len();
            self.ranges
                .extend(own.filter(|at| kept[*at]).map(|at| all[at]));
            entry.node.range_start = u32::try_from(start).unwrap_or(u32::MAX);
            entry.node.range_count = u32::try_from(self.ranges.len() - start).unwrap_or(u32::MAX);
        }
    }

    /// Sorted by weight and need, a parent is never behind its children: [`settle`](Self::settle)
    /// made it as heavy and as early, and its index is smaller. So any cut leaves a tree.
    fn limit_nodes(&mut self, limits: &Limits) {
        let staying = || self.entries.iter().filter(|entry| entry.stays);
        let names_bytes = staying()
            .map(|entry| usize::from(entry.node.name_length))
            .sum::<usize>();
        if staying().count() <= limits.nodes && names_bytes <= limits.names_bytes {
            return;
        }
        let mut order: Vec<usize> = (0..self.entries.len())
            .filter(|at| self.entries[*at].stays)
            .collect();
        order.sort_by_key(|at| {
            let node = &self.entries[*at].node;
            (Reverse(node.weight), node.need_ns, *at)
        });
        let mut names_bytes = 0;
        let kept = order.iter().take(after_cut(limits.nodes)).take_while(|at| {
            names_bytes += usize::from(self.entries[**at].node.name_length);
            names_bytes <= after_cut(limits.names_bytes)
        });
        let kept = kept.count();
        for at in &order[kept..] {
            self.entries[*at].stays = false;
        }
    }

    fn into_profile(self) -> Profile {
        let mut profile = Profile {
            mounts: self.mounts,
            units: self.units,
            devices: Vec::new(),
            ..Profile::default()
        };
        let mut places = vec![NodeId(0); self.entries.len()];
        for (at, entry) in self
            .entries
            .iter()
            .enumerate()
            .filter(|(_, entry)| entry.stays)
        {
            places[at] = id_of(profile.nodes.len());
            let name = match (entry.new, entry.old) {
                (Some(id), _) => self.new.name(id),
                (None, Some(id)) => self.old.name(id),
                (None, None) => &[],
            };
            let parent = entry.node.parent.map(|parent| places[parent.0 as usize]);
            let ranges = entry.node.ranges(&self.ranges).iter().copied();
            profile.push_node(
                Node {
                    parent,
                    ..entry.node
                },
                name,
                ranges,
            );
        }
        drop_unused_mounts(&mut profile);
        drop_unused_units(&mut profile);
        profile
    }
}

/// The units of both, each once, and the numbers there of the units of each.
fn joined_units(old: &Profile, new: &Profile) -> (Vec<Vec<u8>>, [Vec<u16>; 2]) {
    let mut units = Units::default();
    let mut numbers = |profile: &Profile| -> Vec<u16> {
        let paths = profile.units.iter();
        paths.map(|path| units.number(path)).collect()
    };
    // The newer ones first: those are kept if there is no room for all.
    let new = numbers(new);
    let old = numbers(old);
    (units.into_paths(), [old, new])
}

/// Children of a directory. In a valid profile they are contiguous. Of an invalid profile, only
/// children that can't lead the traversal astray are returned.
fn children(profile: &Profile, id: Option<NodeId>) -> Vec<NodeId> {
    let Some(id) = id else { return Vec::new() };
    let below = |at: &usize| id_of(*at) > id && profile.nodes[*at].parent == Some(id);
    profile.children(id).filter(below).map(id_of).collect()
}

/// Calls `piece` with `start_page, end_page, old, new` for each longest stretch of pages that is in
/// the same range of either list.
fn overlay(
    olds: &[PageRange],
    news: &[PageRange],
    mut piece: impl FnMut(u64, u64, Option<&PageRange>, Option<&PageRange>),
) {
    let (mut olds, mut news) = (olds.iter().peekable(), news.iter().peekable());
    let mut page = 0;
    loop {
        while olds.next_if(|range| range.end_page() <= page).is_some() {}
        while news.next_if(|range| range.end_page() <= page).is_some() {}
        let (old, new) = (olds.peek().copied(), news.peek().copied());
        let change = |range: &PageRange| {
            if range.start_page > page {
                range.start_page
            } else {
                range.end_page()
            }
        };
        let Some(until) = old.into_iter().chain(new).map(change).min() else {
            return;
        };
        let here = |range: &&PageRange| range.start_page <= page;
        piece(page, until, old.filter(here), new.filter(here));
        page = until;
    }
}

/// Keeps the unknown mount and the mounts of nodes, up to [`MOUNTS_MAX`]. Device numbers differ
/// from boot to boot, and their mounts would fill the table.
pub(crate) fn drop_unused_mounts(profile: &mut Profile) {
    let mut used = vec![false; profile.mounts.len()];
    for node in &profile.nodes {
        if let Some(used) = used.get_mut(usize::from(node.mount)) {
            *used = true;
        }
    }
    let mut kept = vec![Mount::default()];
    let mut places = vec![0u16; profile.mounts.len()];
    for (at, mount) in std::mem::take(&mut profile.mounts).into_iter().enumerate() {
        if used[at] && mount != Mount::default() && kept.len() < MOUNTS_MAX {
            places[at] = u16::try_from(kept.len()).unwrap_or(0);
            kept.push(mount);
        }
    }
    for node in &mut profile.nodes {
        node.mount = places.get(usize::from(node.mount)).copied().unwrap_or(0);
    }
    profile.mounts = kept;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ProfileBuilder, Program, Source};

    /// `count` files in each of two directories, with one range each; the second half needed later.
    fn wide(prefix: &str, count: u64) -> Profile {
        let mut builder = ProfileBuilder::new(Program::default(), Source::default());
        for directory in 0..2u64 {
            for file in 0..count {
                let path = format!("/{prefix}{directory}/{file:03}");
                let id = builder.node(path.as_bytes()).unwrap();
                builder.pages(id, 0, 1, directory * 1_000 + file);
            }
        }
        builder.finish()
    }

    fn age(old: &Profile, new: &Profile, limits: &Limits) -> Profile {
        let merged = combine(old, new, &Rule::ageing(new, Observation::Full), limits);
        assert_eq!(merged.validate(), Ok(()));
        merged
    }

    #[test]
    fn too_many_paths_lose_the_lightest_and_latest_first() {
        let (old, new) = (wide("old", 20), wide("new", 20));
        let limits = Limits {
            nodes: 64,
            ..Limits::FULL
        };
        let merged = age(&old, &new, &limits);
        assert_eq!(merged.nodes.len(), 56);
        for (id, _) in new.iter() {
            assert!(merged.find(&new.path(id)).is_some(), "what was seen stays");
        }
        assert!(merged.find(b"/old0/000").is_some());
        assert!(merged.find(b"/old1/000").is_none());
        // The room that was made suffices for a while.
        let again = age(&merged, &new, &limits);
        assert_eq!(again.nodes.len(), 56);
    }

    #[test]
    fn too_many_name_bytes_are_cut_too() {
        let (old, new) = (wide("old", 20), wide("new", 20));
        let limits = Limits {
            names_bytes: 200,
            ..Limits::FULL
        };
        let merged = age(&old, &new, &limits);
        assert!(merged.names.len() <= 175 && merged.names.len() > 160);
    }

    #[test]
    fn too_many_ranges_lose_the_lightest_first() {
        let (old, new) = (wide("old", 20), wide("new", 20));
        let limits = Limits {
            ranges: 48,
            ..Limits::FULL
        };
        let merged = age(&old, &new, &limits);
        assert_eq!(merged.ranges.len(), 42);
        assert_eq!(
            merged
                .ranges
                .iter()
                .filter(|range| range.weight == WEIGHT_NEW)
                .count(),
            40
        );
        assert_eq!(merged.nodes.len(), old.nodes.len() + new.nodes.len() - 1);
    }

    #[test]
    fn growing_for_ever_stays_within_the_limits() {
        let limits = Limits {
            nodes: 100,
            ranges: 60,
            ..Limits::FULL
        };
        let mut profile = wide("start", 10);
        for round in 0..30 {
            profile = age(&profile, &wide(&format!("round{round}-"), 15), &limits);
            assert!(
                profile.nodes.len() <= 100 && profile.ranges.len() <= 60,
                "round {round}"
            );
        }
    }

    #[test]
    fn mounts_of_earlier_boots_leave_with_their_files() {
        let on = |minor| {
            let mut builder = ProfileBuilder::new(Program::default(), Source::default());
            let mount = builder.mount(Mount {
                device_minor: minor,
                ..Mount::default()
            });
            let id = builder.node(b"/f").unwrap();
            builder.set_mount(id, mount);
            builder.finish()
        };
        let mut profile = on(1);
        for minor in 2..600 {
            profile = age(&profile, &on(minor), &Limits::FULL);
        }
        assert_eq!(profile.mounts.len(), 2);
        assert_eq!(profile.mounts[1].device_minor, 599);
    }

    #[test]
    fn an_invalid_profile_is_merged_without_harm() {
        let mut broken = wide("a", 3);
        broken.nodes[0].parent = Some(NodeId(1));
        broken.nodes[1].parent = Some(NodeId(1));
        broken.nodes[3].parent = Some(NodeId(900));
        broken.nodes[4].range_start = 900;
        broken.nodes[5].mount = 900;
        broken.nodes[6].name_start = 900;
        let good = wide("a", 3);
        for (old, new) in [
            (&broken, &good),
            (&good, &broken),
            (&Profile::default(), &broken),
        ] {
            let merged = merge(old, new, Observation::Full);
            assert!(merged.nodes.len() <= 2 * good.nodes.len());
        }
        let merged = merge(&Profile::default(), &good, Observation::Full);
        assert_eq!(merged.validate(), Ok(()));
        assert_eq!(merged.nodes.len(), good.nodes.len());
    }
}
