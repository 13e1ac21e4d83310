// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which file system each node of a plan is on now; what the plan says is only a hint.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use foreread_core::Device;
use foreread_linux_helper::Superblock;
use foreread_prefetch::plan::ReadPlan;
use foreread_profile::{NodeId, NodeKind};
use foreread_sys::block_device::device_below;
use foreread_sys::mounts::Mounts;

/// One file system and the nodes on it.
pub struct Target {
    /// Its type as in mountinfo, such as `ext4`.
    pub fs_type: Vec<u8>,
    /// Number of its device.
    pub major: u32,
    /// See `major`.
    pub minor: u32,
    /// The block device below it.
    pub(super) below: Device,
    /// Where it is mounted.
    pub mount_point: PathBuf,
    /// Nodes that exist, parents first.
    pub nodes: Vec<NodeId>,
    /// Whether it is asked directly. Else a helper process asks it: it may never answer.
    pub is_local: bool,
    /// Whether its metadata has been read.
    pub(super) metadata_done: AtomicBool,
}

impl Target {
    /// Its superblock.
    pub(super) fn superblock(&self) -> Superblock {
        Superblock {
            device: Device {
                major: self.major,
                minor: self.minor,
            },
            fs_type: self.fs_type.clone(),
            mount_point: self.mount_point.as_os_str().as_bytes().to_vec(),
        }
    }

    /// Whether its files lie on other file systems, which hold its metadata too.
    pub(super) fn is_stacked(&self) -> bool {
        self.fs_type == b"overlay"
    }
}

/// Sorts the nodes of a plan by file system; those in memory are left out.
#[must_use]
pub fn of_plan(plan: &ReadPlan, mounts: &Mounts) -> Vec<Target> {
    let mut top_of: Vec<Option<usize>> = vec![None; plan.len()];
    let points = || {
        mounts
            .points()
            .iter()
            .map(|point| point.mount_point.as_slice())
    };
    for (id, index) in plan.find_all(points()) {
        // A mount that another covers isn't reached by its path.
        if mounts.mount_of(&mounts.points()[index].mount_point) == Some(index) {
            top_of[id.0 as usize] = Some(index);
        }
    }
    let mut mount_of: Vec<Option<usize>> = vec![None; plan.len()];
    let mut targets: Vec<(u32, u32, Target)> = Vec::new();
    for (id, node) in plan.iter() {
        let at = id.0 as usize;
        let above = node.parent.and_then(|parent| mount_of[parent.0 as usize]);
        mount_of[at] = top_of[at].or(above);
        let Some(point) = mount_of[at].and_then(|index| mounts.points().get(index)) else {
            continue;
        };
        if point.is_virtual() || node.kind == NodeKind::Absent || node.identity.inode == 0 {
            continue;
        }
        let key = (point.major, point.minor);
        let known = targets
            .iter()
            .position(|(major, minor, _)| (*major, *minor) == key);
        let index = known.unwrap_or_else(|| {
            let target = Target {
                fs_type: point.fs_type.clone(),
                major: point.major,
                minor: point.minor,
                below: device_below(point),
                mount_point: OsStr::from_bytes(&point.mount_point).into(),
                nodes: Vec::new(),
                is_local: mounts.is_local(&point.mount_point)
                    && !foreread_linux_helper::has_failed(point.device()),
                metadata_done: AtomicBool::new(false),
            };
            targets.push((key.0, key.1, target));
            targets.len() - 1
        });
        targets[index].2.nodes.push(id);
    }
    targets.into_iter().map(|(_, _, target)| target).collect()
}
