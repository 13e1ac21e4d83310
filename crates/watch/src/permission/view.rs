// SPDX-License-Identifier: MIT OR Apache-2.0
//! Paths of one mount namespace in another one.

use foreread_core::mounts::Mounts;

/// The path by which a process with the mounts `to` reaches what a process with the mounts `from`
/// has at `path`. `None` if it can't reach it, or if a mount hides it there.
#[must_use]
pub fn translate(from: &Mounts, to: &Mounts, path: &[u8]) -> Option<Vec<u8>> {
    let point = from.points().get(from.mount_of(path)?)?;
    let below = match point.mount_point.as_slice() {
        b"/" => path,
        top => path.strip_prefix(top)?,
    };
    let root = point.root.strip_suffix(b"/").unwrap_or(&point.root);
    let below = below.strip_suffix(b"/").unwrap_or(below);
    let mut inside = [root, below].concat();
    if inside.is_empty() {
        inside.push(b'/');
    }
    let reached = to.reach(point.major, point.minor, &inside);
    reached.into_iter().next().map(|(_, path)| path)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &[u8] = b"\
22 1 254:0 / / rw - ext4 /dev/vda rw\n\
41 22 8:1 / /srv rw - ext4 /dev/sda rw\n\
42 22 0:50 / /tmp rw - tmpfs tmpfs rw\n";
    const CONTAINER: &[u8] = b"\
90 1 254:0 /var/lib/box / rw - ext4 /dev/vda rw\n\
91 90 8:1 /shared /data rw - ext4 /dev/sda rw\n\
92 91 0:60 / /data/hidden rw - tmpfs tmpfs rw\n";

    fn there_and_back(path: &str) -> Option<(String, String)> {
        let (host, container) = (Mounts::parse(HOST), Mounts::parse(CONTAINER));
        let there = translate(&host, &container, path.as_bytes())?;
        let back = translate(&container, &host, &there)?;
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Some((text(there), text(back)))
    }

    #[test]
    fn a_container_sees_what_is_mounted_for_it() {
        let found = |there: &str, back: &str| Some((there.to_owned(), back.to_owned()));
        assert_eq!(
            there_and_back("/srv/shared/a"),
            found("/data/a", "/srv/shared/a")
        );
        assert_eq!(there_and_back("/srv/shared"), found("/data", "/srv/shared"));
        assert_eq!(there_and_back("/var/lib/box"), found("/", "/var/lib/box"));
        assert_eq!(
            there_and_back("/var/lib/box/etc"),
            found("/etc", "/var/lib/box/etc")
        );
        for unseen in [
            "/",
            "/srv",
            "/srv/other",
            "/srv/sharedness",
            "/var/lib",
            "/tmp/a",
        ] {
            assert_eq!(there_and_back(unseen), None, "{unseen}");
        }
        // Another mount hides it there.
        assert_eq!(there_and_back("/srv/shared/hidden/a"), None);
    }
}
