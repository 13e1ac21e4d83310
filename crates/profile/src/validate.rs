// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promises of the types' documentation, checked.

use thiserror::Error;

use crate::access::id_of;
use crate::builder::check_name;
use crate::devices;
use crate::limits::{
    ARGUMENTS_BYTES_MAX, ARGUMENTS_MAX, MOUNTS_MAX, NAMES_BYTES_MAX, NODES_MAX, PAGE_END_MAX,
    PATH_BYTES_MAX, PHASES_MAX, RANGES_MAX, SCRIPTS_MAX, TEXT_BYTES_MAX, UNITS_MAX,
};
use crate::types::{Node, NodeKind, PageRange, Phase, Profile, RUNS_MAX};

/// A rule that a profile breaks.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Invalid {
    /// There are more of something than a profile may hold.
    #[error("it holds {count} {what}; at most {limit} are allowed")]
    TooMany {
        /// The kind of thing that there are too many of.
        what: &'static str,
        /// Their number.
        count: usize,
        /// The maximum number.
        limit: usize,
    },
    /// The first node isn't the root directory.
    #[error("its first path is not the root directory")]
    NoRoot,
    /// Something is wrong with one node.
    #[error("its path number {node} {why}")]
    Node {
        /// Index of the node.
        node: usize,
        /// The error, as the rest of a sentence.
        why: &'static str,
    },
    /// Something is wrong with one range.
    #[error("page range number {range} of its path number {node} {why}")]
    Range {
        /// Index of the node.
        node: usize,
        /// Index among the node's ranges.
        range: usize,
        /// The error, as the rest of a sentence.
        why: &'static str,
    },
    /// The parts of a boot are out of order.
    #[error("the parts of its boot are not in their order")]
    Phases,
    /// Pages of block devices are out of place.
    #[error("its pages of block devices are out of order, or too many")]
    Devices,
    /// Something is wrong with one of the remembered runs.
    #[error("its run number {run} has a share of more than 1000 thousandths")]
    Run {
        /// Index of the run.
        run: usize,
    },
}

impl Profile {
    /// Checks everything that the documentation of the types promises.
    ///
    /// # Errors
    /// The first promise that is broken.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.validate_counts()?;
        self.validate_root()?;
        let mut walk = Walk::default();
        let mut path_lengths: Vec<u16> = Vec::with_capacity(self.nodes.len());
        for (at, node) in self.nodes.iter().enumerate() {
            let fail = |why| Invalid::Node { node: at, why };
            walk.places(node, self).map_err(fail)?;
            let length = self.validate_place(at, node, &path_lengths).map_err(fail)?;
            path_lengths.push(length);
            let ranges = node.ranges(&self.ranges);
            if node.kind != NodeKind::File && !ranges.is_empty() {
                return Err(fail("has pages but is not a file"));
            }
            let known = self.units.len();
            if ranges.iter().any(|range| usize::from(range.unit) > known) {
                return Err(fail("has pages that an unknown control group needed"));
            }
            validate_ranges(ranges).map_err(|(range, why)| Invalid::Range {
                node: at,
                range,
                why,
            })?;
        }
        walk.ends(self)
    }

    fn validate_counts(&self) -> Result<(), Invalid> {
        let program = &self.program;
        let arguments_bytes = program.arguments.iter().map(Vec::len).sum();
        let script_bytes = program.scripts.iter().map(|script| script.path.len());
        let script_bytes = script_bytes.max().unwrap_or(0);
        let mount_text = |mount: &crate::Mount| mount.fs_type.len().max(mount.mount_point.len());
        let counts = [
            ("paths", self.nodes.len(), NODES_MAX),
            ("page ranges", self.ranges.len(), RANGES_MAX),
            ("bytes of names", self.names.len(), NAMES_BYTES_MAX),
            ("mounts", self.mounts.len(), MOUNTS_MAX),
            ("control groups", self.units.len(), UNITS_MAX),
            ("parts of a boot", self.phases.len(), PHASES_MAX),
            (
                "bytes in the name of a control group",
                self.units.iter().map(Vec::len).max().unwrap_or(0),
                TEXT_BYTES_MAX,
            ),
            ("runs", self.runs.len(), RUNS_MAX),
            ("arguments", program.arguments.len(), ARGUMENTS_MAX),
            ("bytes of arguments", arguments_bytes, ARGUMENTS_BYTES_MAX),
            (
                "bytes in the name of the program",
                program.executable.len(),
                TEXT_BYTES_MAX,
            ),
            (
                "bytes in the working directory",
                program.directory.len(),
                TEXT_BYTES_MAX,
            ),
            ("bytes in the key", program.key.len(), TEXT_BYTES_MAX),
            ("scripts", program.scripts.len(), SCRIPTS_MAX),
            (
                "bytes in the name of a script",
                script_bytes,
                TEXT_BYTES_MAX,
            ),
            (
                "bytes in the kernel release",
                self.source.kernel.len(),
                TEXT_BYTES_MAX,
            ),
            (
                "bytes in the name of a mount",
                self.mounts.iter().map(mount_text).max().unwrap_or(0),
                TEXT_BYTES_MAX,
            ),
        ];
        for (what, count, limit) in counts {
            if count > limit {
                return Err(Invalid::TooMany { what, count, limit });
            }
        }
        let in_order =
            |pair: &[Phase]| pair[0].kind < pair[1].kind && pair[0].start_ns <= pair[1].start_ns;
        if !self.phases.windows(2).all(in_order) {
            return Err(Invalid::Phases);
        }
        if !devices::are_valid(&self.devices) {
            return Err(Invalid::Devices);
        }
        let share = |run: &crate::Run| run.cached_before_permille.unwrap_or(0);
        match self.runs.iter().position(|run| share(run) > 1000) {
            Some(run) => Err(Invalid::Run { run }),
            None => Ok(()),
        }
    }

    fn validate_root(&self) -> Result<(), Invalid> {
        match self.nodes.first() {
            Some(root)
                if root.parent.is_none()
                    && root.name_length == 0
                    && root.kind == NodeKind::Directory =>
            {
                Ok(())
            }
            _ => Err(Invalid::NoRoot),
        }
    }

    /// Checks parent, order and name of a node; gives the length of its path, without a last `/`.
    fn validate_place(
        &self,
        at: usize,
        node: &Node,
        path_lengths: &[u16],
    ) -> Result<u16, &'static str> {
        if usize::from(node.mount) >= self.mounts.len() {
            return Err("is on an unknown mount");
        }
        if usize::from(node.unit) > self.units.len() {
            return Err("was needed by an unknown control group");
        }
        if at == 0 {
            return Ok(0);
        }
        let Some(parent_id) = node.parent else {
            return Err("has no parent");
        };
        if parent_id >= id_of(at) {
            return Err("stands before its parent");
        }
        if self
            .node(parent_id)
            .is_none_or(|parent| parent.kind != NodeKind::Directory)
        {
            return Err("is in something that is not a directory");
        }
        let name = node.name(&self.names);
        check_name(name).map_err(|_| "has a name that no file can have")?;
        let before = &self.nodes[at - 1];
        if before.parent > node.parent
            || (before.parent == node.parent && before.name(&self.names) >= name)
        {
            return Err("is not in its order, or there twice");
        }
        let parent_length = path_lengths.get(parent_id.0 as usize).copied().unwrap_or(0);
        let length = usize::from(parent_length) + 1 + name.len();
        match u16::try_from(length) {
            Ok(length) if usize::from(length) <= PATH_BYTES_MAX => Ok(length),
            _ => Err("has a path longer than any file's"),
        }
    }
}

/// Names and ranges of all nodes lie one after another and fill their lists.
#[derive(Default)]
struct Walk {
    names: usize,
    ranges: usize,
}

impl Walk {
    fn places(&mut self, node: &Node, profile: &Profile) -> Result<(), &'static str> {
        if node.name_start as usize != self.names {
            return Err("has its name in the wrong place");
        }
        self.names += usize::from(node.name_length);
        if self.names > profile.names.len() {
            return Err("has its name beyond the end");
        }
        if node.range_start as usize != self.ranges {
            return Err("has its page ranges in the wrong place");
        }
        self.ranges = self.ranges.saturating_add(node.range_count as usize);
        if self.ranges > profile.ranges.len() {
            return Err("has page ranges beyond the end");
        }
        Ok(())
    }

    fn ends(&self, profile: &Profile) -> Result<(), Invalid> {
        let node = profile.nodes.len().saturating_sub(1);
        if self.names != profile.names.len() || self.ranges != profile.ranges.len() {
            return Err(Invalid::Node {
                node,
                why: "is the last, but names or ranges go on",
            });
        }
        Ok(())
    }
}

fn validate_ranges(ranges: &[PageRange]) -> Result<(), (usize, &'static str)> {
    let mut before: Option<&PageRange> = None;
    for (at, range) in ranges.iter().enumerate() {
        if range.pages == 0 {
            return Err((at, "is empty"));
        }
        if range.start_page >= PAGE_END_MAX || range.pages > PAGE_END_MAX - range.start_page {
            return Err((at, "ends beyond the largest file"));
        }
        if let Some(before) = before {
            if before.end_page() > range.start_page {
                return Err((at, "overlaps the one before or is not in its order"));
            }
            if before.end_page() == range.start_page
                && before.need_ns == range.need_ns
                && before.weight == range.weight
            {
                return Err((at, "should be one with the one before"));
            }
        }
        before = Some(range);
    }
    Ok(())
}
