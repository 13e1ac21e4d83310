// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether packages were changed, by the databases of package managers. They are looked at, and no
//! hook is needed that a package manager would run: each writes its database when it installs,
//! upgrades or removes something.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What a package manager writes with each change, and one that is replaced with an image.
const DATABASES: [(&str, &str); 8] = [
    ("dpkg", "var/lib/dpkg/status"),
    ("rpm", "usr/lib/sysimage/rpm/rpmdb.sqlite"),
    ("rpm", "var/lib/rpm/rpmdb.sqlite"),
    ("rpm", "var/lib/rpm/Packages"),
    ("pacman", "var/lib/pacman/local"),
    ("apk", "lib/apk/db/installed"),
    ("portage", "var/db/pkg"),
    ("os-release", "usr/lib/os-release"),
];

/// Size and time of change of each database below `root`; `None` where there is none. Equal texts
/// mean that nothing was changed.
pub fn packages(root: &Path) -> Option<String> {
    let state = |(name, path): &(&str, &str)| {
        let metadata = fs::metadata(root.join(path)).ok()?;
        let (mtime_s, nanoseconds) = (metadata.mtime(), metadata.mtime_nsec());
        Some(format!(
            "{name} {mtime_s}.{nanoseconds:09} {}",
            metadata.len()
        ))
    };
    let states: Vec<String> = DATABASES.iter().filter_map(state).collect();
    (!states.is_empty()).then(|| states.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreread_boot::TEXT_BYTES_MAX;

    #[test]
    fn a_change_of_a_database_changes_the_text() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(packages(root.path()), None);
        fs::create_dir_all(root.path().join("var/lib/dpkg")).unwrap();
        let status = root.path().join("var/lib/dpkg/status");
        fs::write(&status, "Package: a\n").unwrap();
        let before = packages(root.path());
        assert!(before.as_ref().unwrap().starts_with("dpkg "), "{before:?}");
        assert_eq!(packages(root.path()), before);
        fs::write(&status, "Package: ab\n").unwrap();
        assert_ne!(packages(root.path()), before);
    }

    #[test]
    fn the_state_of_a_system_fits_into_a_history() {
        // No system has more than two package managers.
        let longest = "os-release 1764000000.000000000 18446744073709551615, ".len();
        assert!(3 * longest <= TEXT_BYTES_MAX);
    }
}
