// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which parts of which files should move where.
//!
//! In: files with their runs, free space, the metadata that a replay reads, and a device. Out:
//! moves, in the order of need within phases; what stays, with the reason of each; and what a
//! replay takes before and after. Moves go into free space only, and don't overlap. All places are
//! whole blocks.
//!
//! A file moves as a whole if it is small or if half of it is wanted. Of others, the wanted ranges
//! move, with short gaps between them. A part that already lies in long runs stays: its seeks cost
//! little beside its transfer.
//!
//! Everything goes to one free run where one is large enough. Of several, the forecast decides:
//! mostly the one that is nearest to the inodes, from which the head comes.

use foreread_model::DiskModel;
use foreread_prefetch::ext4::Extent;
use foreread_prefetch::order::Piece;
use foreread_profile::{NodeId, PhaseKind};

use crate::file::{FileOnDisk, Obstacle, Run, fragments};
use crate::forecast::{Device, Forecast, forecast};
use crate::space::FreeSpace;

/// A part whose runs take as long as so many seeks to transfer, on the average, stays: moving it
/// would save less than a tenth of its time.
pub const KEEP_SEEKS: u64 = 10;

/// A file up to this size moves as a whole. A disk reads it over in the time of a short seek.
const WHOLE_BYTES_MAX: u64 = 256 << 10;

/// Parts of a file with gaps up to this between them move together.
const GAP_BYTES_MAX: u64 = 64 << 10;

/// Free runs that are tried as targets.
const TRIED_MAX: usize = 8;

/// A plan that saves less than this part of a replay isn't worth the writes.
const GAIN_MIN_PERCENT: u64 = 5;

/// A part of a file, and where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The file.
    pub node: NodeId,
    /// Where the part starts in the file.
    pub offset_bytes: u64,
    /// Its length in the file, with holes.
    pub length_bytes: u64,
    /// Its bytes on the disk.
    pub bytes: u64,
    /// Where its bytes go, one after the other.
    pub to_bytes: u64,
    /// When it is needed first.
    pub need_ns: u64,
    /// The phase that needs it first; `None` for a program.
    pub phase: Option<PhaseKind>,
}

/// Why a part of a file stays where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Why {
    /// It can't be moved.
    Obstacle(Obstacle),
    /// It lies in runs so long that moving them would save next to nothing.
    LongRuns,
    /// No free run is large enough.
    NoRoom,
}

/// A part of a file that stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// The file.
    pub node: NodeId,
    /// Bytes of the part.
    pub bytes: u64,
    /// Why.
    pub why: Why,
}

/// See the [module](self).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// In the order of need, which is their order on the disk.
    pub moves: Vec<Move>,
    /// What stays, in order of the files.
    pub left: Vec<Left>,
    /// What a replay takes now.
    pub before: Forecast,
    /// What it takes after all moves.
    pub after: Forecast,
}

impl Plan {
    /// Whether the plan saves at least a twentieth of a replay.
    #[must_use]
    pub fn is_worth_it(&self) -> bool {
        let least_ns = self.before.time_ns / 100 * (100 - GAIN_MIN_PERCENT);
        !self.moves.is_empty() && self.after.time_ns <= least_ns
    }

    /// Bytes that are moved.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.moves.iter().map(|one| one.bytes).sum()
    }
}

/// Plans moves. `phase_of` says to which phase a time of need belongs.
#[must_use]
pub fn plan(
    files: &[FileOnDisk],
    free: &FreeSpace,
    block_bytes: u64,
    metadata: &[Vec<Extent>],
    device: &Device,
    phase_of: impl Fn(u64) -> Option<PhaseKind>,
) -> Plan {
    let before = forecast(device, metadata, pieces(files));
    let keep_bytes = keep_bytes(device);
    let mut left = Vec::new();
    let mut parts = Vec::new();
    for file in files {
        for part in parts_of(file, block_bytes) {
            let why = match file.obstacle {
                Some(obstacle) => Some(Why::Obstacle(obstacle)),
                None => (part.bytes / part.fragments.max(1) >= keep_bytes).then_some(Why::LongRuns),
            };
            match why {
                Some(why) => left.push(Left {
                    node: file.node,
                    bytes: part.bytes,
                    why,
                }),
                None => parts.push(part),
            }
        }
    }
    let phase = |part: &Part| phase_of(part.need_ns);
    parts.sort_by_key(|part| (phase(part), part.need_ns, part.node, part.offset_bytes));
    let mut best: Option<(Forecast, Vec<Move>, Vec<Left>)> = None;
    for target in targets(free, &parts, block_bytes, metadata) {
        let (moves, no_room) = pack(&parts, &target, block_bytes, &phase);
        let after = forecast(device, metadata, pieces(&moved(files, &moves)));
        let is_better = best.as_ref().is_none_or(|(known, ..)| {
            // The first of equal ones, so that the plan is the same each time.
            after.time_ns < known.time_ns
        });
        if is_better {
            best = Some((after, moves, no_room));
        }
    }
    let (after, moves, no_room) = best.unwrap_or((before, Vec::new(), Vec::new()));
    left.extend(no_room);
    left.sort_by_key(|left| left.node);
    Plan {
        moves,
        left,
        before,
        after,
    }
}

/// The files as they lie after these moves.
#[must_use]
pub fn moved(files: &[FileOnDisk], moves: &[Move]) -> Vec<FileOnDisk> {
    let mut files = files.to_vec();
    let mut by_node: Vec<&Move> = moves.iter().collect();
    by_node.sort_by_key(|one| (one.node, one.offset_bytes));
    for file in &mut files {
        let first = by_node.partition_point(|one| one.node < file.node);
        let ours = by_node[first..]
            .iter()
            .take_while(|one| one.node == file.node);
        for one in ours {
            file.runs = runs_after(&file.runs, one);
        }
    }
    files
}

/// All that a replay reads of these files.
fn pieces(files: &[FileOnDisk]) -> Vec<Piece> {
    files.iter().flat_map(FileOnDisk::pieces).collect()
}

fn runs_after(runs: &[Run], one: &Move) -> Vec<Run> {
    let (start, end) = (
        one.offset_bytes,
        one.offset_bytes.saturating_add(one.length_bytes),
    );
    let mut after: Vec<Run> = Vec::new();
    let mut place_bytes = one.to_bytes;
    for run in runs {
        let inside = run.part(start, end).map(|part| {
            let moved = Run {
                place_bytes,
                ..part
            };
            place_bytes += part.length_bytes;
            moved
        });
        let parts = [run.part(0, start), inside, run.part(end, u64::MAX)];
        after.extend(parts.into_iter().flatten());
    }
    after.sort_unstable();
    after
}

/// A part of a file that moves as one.
#[derive(Clone, Copy, Debug)]
struct Part {
    node: NodeId,
    offset_bytes: u64,
    end_bytes: u64,
    /// On the disk.
    bytes: u64,
    fragments: u64,
    need_ns: u64,
}

/// Parts of a file that hold all wanted pages, in order of the file.
fn parts_of(file: &FileOnDisk, block_bytes: u64) -> Vec<Part> {
    let mapped_bytes: u64 = file.runs.iter().map(|run| run.length_bytes).sum();
    let (Some(first_need_ns), wanted_bytes) = (file.first_need_ns(), file.wanted_bytes()) else {
        return Vec::new();
    };
    if wanted_bytes == 0 {
        return Vec::new();
    }
    let is_whole = mapped_bytes <= WHOLE_BYTES_MAX || wanted_bytes >= mapped_bytes / 2;
    let end_bytes = file.runs.last().map_or(0, Run::end_bytes);
    let mut spans: Vec<(u64, u64, u64)> = Vec::new();
    if is_whole {
        spans.push((0, end_bytes, first_need_ns));
    } else {
        for wanted in &file.wanted {
            let start = wanted.start_bytes() / block_bytes * block_bytes;
            let end = wanted.end_bytes().div_ceil(block_bytes) * block_bytes;
            match spans.last_mut() {
                Some(last) if start <= last.1.saturating_add(GAP_BYTES_MAX) => {
                    last.1 = last.1.max(end);
                    last.2 = last.2.min(wanted.need_ns);
                }
                _ => spans.push((start, end, wanted.need_ns)),
            }
        }
    }
    let part = |(start, end, need_ns): (u64, u64, u64)| {
        let runs = file.runs.iter().filter_map(|run| run.part(start, end));
        let runs: Vec<Run> = runs.collect();
        Part {
            node: file.node,
            offset_bytes: start,
            end_bytes: end.min(end_bytes),
            bytes: runs.iter().map(|run| run.length_bytes).sum(),
            fragments: fragments(runs.into_iter()),
            need_ns,
        }
    };
    let parts = spans.into_iter().map(part);
    parts.filter(|part| part.bytes > 0).collect()
}

/// The mean length of runs from which on a part stays.
fn keep_bytes(device: &Device) -> u64 {
    if device.disk.model == DiskModel::Instant {
        return 0;
    }
    let seeks_ns = u128::from(device.seek_ns().saturating_mul(KEEP_SEEKS));
    let bytes = seeks_ns * u128::from(device.disk.bandwidth_bytes_per_s) / 1_000_000_000;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// Free runs to move to, several ways; each in order of the device.
fn targets(
    free: &FreeSpace,
    parts: &[Part],
    block_bytes: u64,
    metadata: &[Vec<Extent>],
) -> Vec<Vec<Extent>> {
    let bytes: u64 = parts
        .iter()
        .map(|part| whole(part.bytes, block_bytes))
        .sum();
    if bytes == 0 {
        return Vec::new();
    }
    // Where the head is when data begin.
    let head_bytes = metadata
        .iter()
        .rev()
        .find_map(|step| step.iter().map(Extent::end_bytes).max())
        .unwrap_or(0);
    let fits = |run: &&Extent| run.length_bytes >= bytes;
    let mut roomy: Vec<Extent> = free.runs().iter().filter(fits).copied().collect();
    roomy.sort_by_key(|run| {
        let behind = run.offset_bytes.saturating_sub(head_bytes);
        let before = head_bytes.saturating_sub(run.end_bytes());
        (behind.max(before), run.offset_bytes)
    });
    roomy.truncate(TRIED_MAX);
    let mut targets: Vec<Vec<Extent>> = Vec::new();
    for run in roomy {
        let last = run.end_bytes() - bytes;
        // In a run around the head, right behind the head.
        let near = head_bytes.div_ceil(block_bytes) * block_bytes;
        let place = near.clamp(run.offset_bytes, last.max(run.offset_bytes));
        for offset_bytes in [place, run.offset_bytes] {
            targets.push(vec![Extent {
                offset_bytes,
                length_bytes: run.end_bytes() - offset_bytes,
            }]);
        }
    }
    if targets.is_empty() {
        // What is left at the end of a run is lost if the next part doesn't fit.
        let mut wanted_bytes = bytes;
        while let Some(runs) = free.largest(wanted_bytes) {
            let (_, no_room) = pack(parts, &runs, block_bytes, &|_| None);
            if no_room.is_empty() {
                return vec![runs];
            }
            wanted_bytes += wanted_bytes / 8 + block_bytes;
        }
        targets.push(free.runs().to_vec());
    }
    targets
}

fn whole(bytes: u64, block_bytes: u64) -> u64 {
    bytes.div_ceil(block_bytes) * block_bytes
}

/// Places parts one after the other; those that fit nowhere are left.
fn pack(
    parts: &[Part],
    target: &[Extent],
    block_bytes: u64,
    phase: &impl Fn(&Part) -> Option<PhaseKind>,
) -> (Vec<Move>, Vec<Left>) {
    let mut runs = target.iter();
    let mut at = runs.next().copied();
    let (mut moves, mut left) = (Vec::new(), Vec::new());
    for part in parts {
        let bytes = whole(part.bytes, block_bytes);
        // A run that is too short for this part is of no use for later ones: they would come before
        // it.
        while at.is_some_and(|run| run.length_bytes < bytes)
            && target.iter().any(|run| run.length_bytes >= bytes)
        {
            at = runs.next().copied();
        }
        match at.as_mut().filter(|run| run.length_bytes >= bytes) {
            Some(run) => {
                moves.push(Move {
                    node: part.node,
                    offset_bytes: part.offset_bytes,
                    length_bytes: part.end_bytes - part.offset_bytes,
                    bytes: part.bytes,
                    to_bytes: run.offset_bytes,
                    need_ns: part.need_ns,
                    phase: phase(part),
                });
                run.offset_bytes += bytes;
                run.length_bytes -= bytes;
            }
            None => left.push(Left {
                node: part.node,
                bytes: part.bytes,
                why: Why::NoRoom,
            }),
        }
    }
    (moves, left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::WantedPages;
    use foreread_model::DiskParameters;
    use foreread_profile::PAGE_BYTES;
    use proptest::prelude::*;

    const MIB: u64 = 1 << 20;

    fn hdd() -> Device {
        let mut disk = DiskParameters::preset("hdd").unwrap();
        disk.capacity_bytes = 4 << 30;
        Device {
            disk,
            request_bytes_max: MIB,
        }
    }

    /// A file that is wanted as a whole, with runs of pages at these pages of the device.
    fn file(node: u32, runs: &[(u64, u64)], need_ns: u64) -> FileOnDisk {
        let mut offset_bytes = 0;
        let runs: Vec<Run> = runs
            .iter()
            .map(|(place, pages)| {
                let run = Run {
                    offset_bytes,
                    place_bytes: place * PAGE_BYTES,
                    length_bytes: pages * PAGE_BYTES,
                };
                offset_bytes = run.end_bytes();
                run
            })
            .collect();
        FileOnDisk {
            node: NodeId(node),
            size_bytes: offset_bytes,
            runs,
            wanted: vec![WantedPages {
                start_page: 0,
                pages: offset_bytes / PAGE_BYTES,
                need_ns,
            }],
            obstacle: None,
        }
    }

    fn free(runs: &[(u64, u64)]) -> FreeSpace {
        let extent = |(start, pages): &(u64, u64)| Extent {
            offset_bytes: start * PAGE_BYTES,
            length_bytes: pages * PAGE_BYTES,
        };
        FreeSpace::new(runs.iter().map(extent).collect(), PAGE_BYTES)
    }

    fn planned(files: &[FileOnDisk], free: &FreeSpace) -> Plan {
        plan(files, free, PAGE_BYTES, &[], &hdd(), |_| None)
    }

    #[test]
    fn scattered_files_come_together_in_order_of_need() {
        let files = [
            file(1, &[(5_000, 2), (90_000, 1)], 30),
            file(2, &[(200_000, 3)], 10),
            file(3, &[(120_000, 1)], 20),
        ];
        let plan = planned(&files, &free(&[(10_000, 5), (40_000, 500)]));
        let places: Vec<(u32, u64)> = plan
            .moves
            .iter()
            .map(|one| (one.node.0, one.to_bytes / PAGE_BYTES))
            .collect();
        assert_eq!(places, [(2, 40_000), (3, 40_003), (1, 40_004)]);
        assert_eq!(plan.left, []);
        assert!(plan.is_worth_it(), "{plan:?}");
        assert_eq!(plan.bytes(), 7 * PAGE_BYTES);
        // Where the head comes to the first, and no more.
        assert_eq!((plan.before.seeks, plan.after.seeks), (4, 1));
    }

    #[test]
    fn after_the_moves_nothing_is_left_to_gain() {
        let scattered: Vec<FileOnDisk> = (0..60u32)
            .map(|n| {
                file(
                    n,
                    &[(u64::from(n) * 9_973 % 500_000, 3)],
                    u64::from(n) * 77 % 60,
                )
            })
            .collect();
        let space = free(&[(600_000, 50_000)]);
        let first = planned(&scattered, &space);
        assert!(first.is_worth_it());
        let second = planned(&moved(&scattered, &first.moves), &space);
        assert!(
            !second.is_worth_it(),
            "{:?} {:?}",
            second.before,
            second.after
        );
        assert_eq!(second.before, first.after);
    }

    #[test]
    fn long_runs_and_what_cannot_be_moved_stay() {
        let mut immutable = file(1, &[(100, 1)], 0);
        immutable.obstacle = Some(Obstacle::Immutable);
        // 16 MiB in two runs: a seek is a thirteenth of the time of each.
        let files = [
            immutable,
            file(2, &[(1_000, 4096), (50_000, 4096)], 5),
            file(3, &[(9_000, 1)], 9),
        ];
        let plan = planned(&files, &free(&[(100_000, 100_000)]));
        let left: Vec<(u32, Why)> = plan
            .left
            .iter()
            .map(|left| (left.node.0, left.why))
            .collect();
        assert_eq!(
            left,
            [(1, Why::Obstacle(Obstacle::Immutable)), (2, Why::LongRuns)]
        );
        assert_eq!(plan.moves.len(), 1);
    }

    #[test]
    fn of_a_large_file_only_the_wanted_parts_move() {
        // Two pages of each of two places are wanted, and a third one near the first.
        let mut large = file(1, &[(1_000, 10_000)], 0);
        large.wanted = [(10, 2), (20, 2), (9_000, 2)]
            .map(|(start_page, pages)| WantedPages {
                start_page,
                pages,
                need_ns: start_page,
            })
            .to_vec();
        let plan = planned(&[large.clone()], &free(&[(50_000, 100)]));
        let parts: Vec<(u64, u64)> = plan
            .moves
            .iter()
            .map(|one| (one.offset_bytes / PAGE_BYTES, one.length_bytes / PAGE_BYTES))
            .collect();
        assert_eq!(parts, [(10, 12), (9_000, 2)]);
        let after = moved(&[large], &plan.moves);
        assert_eq!(after[0].runs.len(), 5);
        assert_eq!(after[0].wanted_bytes(), 6 * PAGE_BYTES);
    }

    #[test]
    fn several_runs_are_used_where_no_single_one_is_large_enough() {
        let files: Vec<FileOnDisk> = (0..4u32)
            .map(|n| file(n, &[(u64::from(n) * 50_000 + 7, 60)], u64::from(n)))
            .collect();
        // Three of 60 pages fit into the first two, with a rest in each.
        let plan = planned(
            &files,
            &free(&[(220_000, 130), (230_000, 100), (240_000, 10)]),
        );
        let places: Vec<u64> = plan
            .moves
            .iter()
            .map(|one| one.to_bytes / PAGE_BYTES)
            .collect();
        assert_eq!(places, [220_000, 220_060, 230_000]);
        let left: Vec<(u32, Why)> = plan
            .left
            .iter()
            .map(|left| (left.node.0, left.why))
            .collect();
        assert_eq!(left, [(3, Why::NoRoom)]);
        assert_eq!(planned(&files, &FreeSpace::default()).moves, []);
    }

    #[test]
    fn of_several_runs_the_one_near_the_inodes_is_taken() {
        let files = [file(1, &[(300, 1)], 0), file(2, &[(900_000, 1)], 1)];
        let metadata = [vec![Extent {
            offset_bytes: 400_000 * PAGE_BYTES,
            length_bytes: PAGE_BYTES,
        }]];
        let space = free(&[(10, 50), (400_100, 50), (800_000, 50)]);
        let plan = plan(&files, &space, PAGE_BYTES, &metadata, &hdd(), |_| None);
        assert_eq!(plan.moves[0].to_bytes, 400_100 * PAGE_BYTES);
        // In a free run around the inodes, right behind them.
        let space = free(&[(10, 900_000)]);
        let files = [file(1, &[(905_000, 1)], 0), file(2, &[(990_000, 1)], 1)];
        let plan = super::plan(&files, &space, PAGE_BYTES, &metadata, &hdd(), |_| None);
        assert_eq!(plan.moves[0].to_bytes, 400_001 * PAGE_BYTES);
    }

    #[test]
    fn phases_come_one_after_the_other() {
        let files = [file(1, &[(10, 1)], 100), file(2, &[(9_000, 1)], 5)];
        let phase_of = |need_ns| {
            // The order of phases is not that of their numbers here.
            Some(match need_ns {
                100 => PhaseKind::Initramfs,
                _ => PhaseKind::Target,
            })
        };
        let space = free(&[(20_000, 50)]);
        let plan = plan(&files, &space, PAGE_BYTES, &[], &hdd(), phase_of);
        let order: Vec<u32> = plan.moves.iter().map(|one| one.node.0).collect();
        assert_eq!(order, [1, 2]);
        assert_eq!(plan.moves[1].phase, Some(PhaseKind::Target));
    }

    #[test]
    fn a_disk_without_a_head_gains_nothing() {
        let files: Vec<FileOnDisk> = (0..50u32)
            .map(|n| file(n, &[(u64::from(n) * 1_000, 64)], u64::from(n)))
            .collect();
        let nvme = Device {
            disk: DiskParameters::preset("nvme").unwrap(),
            request_bytes_max: MIB,
        };
        let space = free(&[(100_000, 10_000)]);
        let plan = plan(&files, &space, PAGE_BYTES, &[], &nvme, |_| None);
        assert!(!plan.is_worth_it(), "{plan:?}");
    }

    proptest! {
        #[test]
        fn moves_are_in_free_space_and_all_wanted_bytes_are_kept(
            layout in prop::collection::vec((1u64..40, 0u64..100, 1usize..4), 1..30),
            gaps in prop::collection::vec((1u64..60, 1u64..120), 0..20),
        ) {
            // Files and free runs take turns on the device, so none overlaps another.
            let mut at = 0;
            let mut files = Vec::new();
            let mut space = Vec::new();
            let mut gaps = gaps.into_iter();
            for (number, (pages, need_ns, runs)) in (0u32..).zip(layout) {
                let mut places = Vec::new();
                for _ in 0..runs {
                    places.push((at, pages));
                    at += pages;
                    if let Some((used, length)) = gaps.next() {
                        space.push((at + used, length));
                        at += used + length;
                    }
                }
                files.push(file(number, &places, need_ns));
            }
            let space = free(&space);
            let plan = planned(&files, &space);
            let mut taken: Vec<(u64, u64)> = Vec::new();
            for one in &plan.moves {
                let end = one.to_bytes + one.bytes;
                let is_free = |run: &Extent| {
                    run.offset_bytes <= one.to_bytes && end <= run.end_bytes()
                };
                prop_assert!(space.runs().iter().any(is_free));
                taken.push((one.to_bytes, end));
            }
            taken.sort_unstable();
            prop_assert!(taken.windows(2).all(|two| two[0].1 <= two[1].0));
            let bytes = |files: &[FileOnDisk]| -> Vec<u64> {
                files.iter().map(FileOnDisk::wanted_bytes).collect()
            };
            let after = moved(&files, &plan.moves);
            prop_assert_eq!(bytes(&files), bytes(&after));
            prop_assert_eq!(forecast(&hdd(), &[], pieces(&after)), plan.after);
            let left_bytes: u64 = plan.left.iter().map(|left| left.bytes).sum();
            prop_assert_eq!(plan.bytes() + left_bytes, bytes(&files).iter().sum::<u64>());
        }
    }
}
