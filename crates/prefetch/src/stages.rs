// SPDX-License-Identifier: MIT OR Apache-2.0
//! Divides a plan by need into stages, for programs that go on while it is carried out.
//!
//! In: a plan, and which of its nodes. Out: stages, the one that is needed first at the beginning.
//! Each node and each range is in a stage; a file whose ranges are in several stages is in each of
//! those.
//!
//! Metadata of a whole plan takes some passes of a disk. A program that waits for the first of its
//! files waits for all of them. With stages it waits for the metadata and the data of the first
//! stage only. Each stage costs a few seeks more, so each is larger than the one before.

use std::ops::RangeInclusive;

use foreread_profile::{NodeId, PageRange};

use crate::plan::ReadPlan;

/// A part of a plan: what is needed in a span of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Files and directories, parents first.
    pub nodes: Vec<NodeId>,
    /// When they are needed first, in ns from the start of the program.
    pub needs_ns: RangeInclusive<u64>,
}

impl Stage {
    /// All of these nodes, whenever they are needed.
    #[must_use]
    pub fn whole(nodes: &[NodeId]) -> Self {
        Self {
            nodes: nodes.to_vec(),
            needs_ns: 0..=u64::MAX,
        }
    }

    /// The ranges of a node that are in this stage.
    pub fn ranges<'a>(
        &'a self,
        plan: &'a ReadPlan,
        id: NodeId,
    ) -> impl Iterator<Item = &'a PageRange> + 'a {
        let is_ours = |range: &&PageRange| self.needs_ns.contains(&range.need_ns);
        plan.ranges(id).iter().filter(is_ours)
    }
}

/// Each further stage is so many times as large as the one before. A boot of 40 services from a
/// hard disk took 13.9 s and 650 seeks with 2, 14.5 s and 600 seeks with 4.
const GROWTH: usize = 3;

/// The stages of these nodes. The first has `first_items` ranges and nodes without ranges, each
/// further one [`GROWTH`] times as many. What is needed at the same time is in one stage.
#[must_use]
pub fn stages(plan: &ReadPlan, nodes: &[NodeId], first_items: usize) -> Vec<Stage> {
    let mut needs: Vec<u64> = nodes.iter().flat_map(|id| plan.needs_ns(*id)).collect();
    needs.sort_unstable();
    let mut stages = Vec::new();
    let (mut start_ns, mut items) = (0, first_items.max(1));
    let mut at = 0;
    loop {
        at += items;
        items = items.saturating_mul(GROWTH);
        // Half a stage at the end is not worth the passes that it costs.
        let is_last = needs.len() <= at.saturating_add(items / 2);
        let end_ns = match needs.get(at) {
            Some(need_ns) if !is_last => *need_ns,
            _ => u64::MAX,
        };
        let needs_ns = start_ns..=end_ns;
        let is_ours = |id: &&NodeId| plan.needs_ns(**id).any(|need| needs_ns.contains(&need));
        let ours: Vec<NodeId> = nodes.iter().filter(is_ours).copied().collect();
        if !ours.is_empty() {
            let nodes = ours;
            stages.push(Stage { nodes, needs_ns });
        }
        if end_ns == u64::MAX {
            return stages;
        }
        start_ns = end_ns + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::PlanBuilder;
    use foreread_profile::{Identity, NodeKind, Uses};
    use proptest::prelude::*;

    /// Files of a directory, each with pages that are needed at these times.
    fn plan(files: &[Vec<u64>]) -> (ReadPlan, Vec<NodeId>) {
        let mut builder = PlanBuilder::new();
        let identity = |inode| Identity {
            inode,
            ..Identity::default()
        };
        builder.add(b"/", NodeKind::Directory, identity(2), Uses(0), 0);
        for (needs, number) in files.iter().zip(0..) {
            let path = format!("/f{number}");
            let first = needs.first().copied().unwrap_or(number);
            let identity = identity(10 + number);
            builder.add(path.as_bytes(), NodeKind::File, identity, Uses(0), first);
            for (need_ns, at) in needs.iter().zip(0..) {
                builder.pages(2 * at, 1, *need_ns);
            }
        }
        let plan = builder.finish();
        let nodes = plan.iter().map(|(id, _)| id).collect();
        (plan, nodes)
    }

    #[test]
    fn the_first_stage_is_small_and_comes_first() {
        let files: Vec<Vec<u64>> = (0..100).map(|at| vec![at * 10]).collect();
        let (plan, nodes) = plan(&files);
        let stages = stages(&plan, &nodes, 10);
        let sizes: Vec<usize> = stages.iter().map(|stage| stage.nodes.len()).collect();
        // The root is needed with the first file.
        assert_eq!(sizes, [11, 30, 60]);
        assert!(
            stages
                .windows(2)
                .all(|pair| pair[0].needs_ns.end() < pair[1].needs_ns.start())
        );
    }

    proptest! {
        #[test]
        fn each_range_is_in_one_stage(
            files in prop::collection::vec(prop::collection::vec(any::<u64>(), 0..6), 0..60),
            first_items in 0usize..20,
        ) {
            let (plan, nodes) = plan(&files);
            let stages = stages(&plan, &nodes, first_items);
            for id in &nodes {
                let of_stages = stages.iter().flat_map(|stage| match stage.nodes.contains(id) {
                    true => stage.ranges(&plan, *id).collect::<Vec<_>>(),
                    false => Vec::new(),
                });
                let mut starts: Vec<u64> = of_stages.map(|range| range.start_page).collect();
                starts.sort_unstable();
                let all: Vec<u64> = plan.ranges(*id).iter().map(|range| range.start_page).collect();
                prop_assert_eq!(starts, all);
                prop_assert!(stages.iter().any(|stage| stage.nodes.contains(id)));
            }
            // Parents first.
            for stage in &stages {
                prop_assert!(stage.nodes.windows(2).all(|pair| pair[0].0 < pair[1].0));
            }
        }
    }
}
