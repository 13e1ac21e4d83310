// SPDX-License-Identifier: MIT OR Apache-2.0
//! Other programs that set readahead: the files of udev, TuneD, nfs-utils and fstab.

use std::collections::BTreeMap;
use std::path::Path;

use foreread_device::{OtherSetting, ProfileText, fstab, nfs_conf, tuned, udev_rules};

use super::attribute::{read_text, reason};
use super::block::names;

/// No file of configuration is larger.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// Directories of rules. A file in an earlier one hides a file of the same name in a later one.
const RULES: [&str; 5] = [
    "etc/udev/rules.d",
    "run/udev/rules.d",
    "usr/local/lib/udev/rules.d",
    "usr/lib/udev/rules.d",
    "lib/udev/rules.d",
];
/// Where TuneD looks for a profile, the first one counts.
const PROFILES: [&str; 4] = [
    "etc/tuned/profiles",
    "etc/tuned",
    "usr/lib/tuned/profiles",
    "usr/lib/tuned",
];

/// All settings of other programs, in the order in which they take effect, and the files that
/// couldn't be read.
#[must_use]
pub fn others(sysroot: &Path) -> (Vec<OtherSetting>, Vec<String>) {
    let mut unseen = Vec::new();
    let mut all = rules(sysroot, &mut unseen);
    let mut file = |path: &str| text_of(sysroot, path, &mut unseen);
    all.extend(
        file("etc/nfs.conf")
            .iter()
            .flat_map(|text| nfs_conf("/etc/nfs.conf", text)),
    );
    all.extend(
        file("etc/fstab")
            .iter()
            .flat_map(|text| fstab("/etc/fstab", text)),
    );
    // It starts when all disks are there.
    if let Some(active) = file("etc/tuned/active_profile") {
        all.extend(tuned(&active, |name| profile(sysroot, name)));
    }
    (all, unseen)
}

/// The text of a file, if there is one.
fn text_of(sysroot: &Path, path: &str, unseen: &mut Vec<String>) -> Option<String> {
    match read_text(&sysroot.join(path), FILE_BYTES_MAX) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => {
            unseen.push(format!("/{path}: {}", reason(&error)));
            None
        }
    }
}

fn rules(sysroot: &Path, unseen: &mut Vec<String>) -> Vec<OtherSetting> {
    let mut files: BTreeMap<String, &str> = BTreeMap::new();
    for directory in RULES {
        let mut nothing = Vec::new();
        for name in names(&sysroot.join(directory), "", &mut nothing) {
            if name.ends_with(".rules") {
                files.entry(name).or_insert(directory);
            }
        }
    }
    let mut all = Vec::new();
    for (name, directory) in files {
        let path = format!("{directory}/{name}");
        // A link to /dev/null switches a file off, and one to nowhere says nothing.
        if sysroot.join(&path).is_file()
            && let Some(text) = text_of(sysroot, &path, unseen)
        {
            all.extend(udev_rules(&format!("/{path}"), &text));
        }
    }
    all
}

fn profile(sysroot: &Path, name: &str) -> Option<ProfileText> {
    // It is the name of a directory.
    if name.contains('/') || name.starts_with('.') {
        return None;
    }
    PROFILES.iter().find_map(|directory| {
        let path = format!("{directory}/{name}/tuned.conf");
        let text = read_text(&sysroot.join(&path), FILE_BYTES_MAX).ok()?;
        Some(ProfileText {
            place: format!("/{path}"),
            text,
        })
    })
}
