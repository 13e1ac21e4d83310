// SPDX-License-Identifier: MIT OR Apache-2.0
//! Splits a profile by file systems. So the part of each can be replayed as soon as it is mounted.

use std::collections::BTreeMap;

use foreread_profile::{Mount, NodeId, Profile};

/// The nodes that lie on one file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Where it was mounted.
    pub mount_point: Vec<u8>,
    /// Its type, as in mountinfo, such as `ext4`.
    pub fs_type: Vec<u8>,
    /// Parents first.
    pub nodes: Vec<NodeId>,
}

impl Part {
    /// Whether a mount is that of this part. By its place and type: device numbers differ from boot
    /// to boot.
    #[must_use]
    pub fn is_on(&self, mount_point: &[u8], fs_type: &[u8]) -> bool {
        self.mount_point == mount_point && self.fs_type == fs_type
    }
}

/// The parts of a profile, by mount point: those that others are mounted on come first. A node
/// whose file system is not known belongs to that of its parent, and a root that isn't known to
/// `/`.
#[must_use]
pub fn parts(profile: &Profile) -> Vec<Part> {
    let mut mount_of_node: Vec<u16> = Vec::with_capacity(profile.nodes.len());
    for node in &profile.nodes {
        let of_parent = |parent: NodeId| mount_of_node.get(parent.0 as usize).copied();
        let inherited = node.parent.and_then(of_parent).unwrap_or(0);
        mount_of_node.push(if node.mount == 0 {
            inherited
        } else {
            node.mount
        });
    }
    let unknown = Mount {
        mount_point: b"/".to_vec(),
        ..Mount::default()
    };
    let mut parts: BTreeMap<(&[u8], &[u8]), Vec<NodeId>> = BTreeMap::new();
    for (at, mount) in mount_of_node.iter().enumerate() {
        let known = profile.mounts.get(usize::from(*mount));
        let mount = known.filter(|mount| !mount.mount_point.is_empty());
        let mount = mount.unwrap_or(&unknown);
        let key = (&mount.mount_point[..], &mount.fs_type[..]);
        let id = NodeId(u32::try_from(at).unwrap_or(u32::MAX));
        parts.entry(key).or_default().push(id);
    }
    let part = |((mount_point, fs_type), nodes): ((&[u8], &[u8]), Vec<NodeId>)| Part {
        mount_point: mount_point.to_vec(),
        fs_type: fs_type.to_vec(),
        nodes,
    };
    parts.into_iter().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreread_profile::{ProfileBuilder, Program, Source, Uses};

    fn mount(mount_point: &str, fs_type: &str, minor: u32) -> Mount {
        Mount {
            fs_type: fs_type.into(),
            mount_point: mount_point.into(),
            device_major: 8,
            device_minor: minor,
        }
    }

    #[test]
    fn each_file_system_has_its_part_and_the_unknown_follow_their_parents() {
        let mut builder = ProfileBuilder::new(Program::default(), Source::default());
        let root = builder.mount(mount("/", "ext4", 1));
        let var = builder.mount(mount("/var", "xfs", 2));
        for (path, on) in [
            ("/", Some(root)),
            ("/usr/bin/init", Some(root)),
            ("/var", Some(var)),
            ("/var/lib/data", Some(var)),
            ("/var/lib/unknown", None),
        ] {
            let id = builder.node(path.as_bytes()).unwrap();
            builder.used(id, Uses::LOOKED_UP, 1);
            if let Some(on) = on {
                builder.set_mount(id, on);
            }
        }
        let profile = builder.finish();
        let parts = parts(&profile);
        let paths = |part: &Part| -> Vec<String> {
            let path = |id: &NodeId| String::from_utf8(profile.path(*id)).unwrap();
            part.nodes.iter().map(path).collect()
        };
        assert_eq!(parts.len(), 2, "{parts:?}");
        assert!(parts[0].is_on(b"/", b"ext4") && !parts[0].is_on(b"/", b"btrfs"));
        assert!(parts[1].is_on(b"/var", b"xfs"));
        assert!(paths(&parts[0]).contains(&"/usr/bin/init".to_owned()));
        let of_var = paths(&parts[1]);
        assert!(
            of_var.contains(&"/var/lib/unknown".to_owned()),
            "{of_var:?}"
        );
        assert_eq!(paths(&parts[0]).len() + of_var.len(), profile.nodes.len());
    }

    #[test]
    fn an_empty_profile_has_no_parts() {
        assert_eq!(parts(&Profile::default()), []);
    }
}
