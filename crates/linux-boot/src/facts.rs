// SPDX-License-Identifier: MIT OR Apache-2.0
//! Facts about the machine at the start of a boot.

use std::fs;
use std::path::Path;

use foreread_boot::{SYSTEM_UPDATES, Wish, asks_for_trace, wish};
use foreread_sys::kernel::kernel_release;

/// See [`foreread_boot::Facts`].
pub struct Machine {
    /// The kernel's random name of this boot.
    pub boot_id: String,
    /// As in `uname -r`.
    pub kernel: String,
    /// What the command line asks for.
    pub wish: Wish,
    /// Whether it asks for a trace.
    pub asks_for_trace: bool,
}

/// What files of the root file system tell of a boot.
pub struct Signs {
    /// No machine-id is set yet: see machine-id(5), "First boot semantics".
    pub is_first_boot: bool,
    /// SELinux was told to label all files anew.
    pub relabels: bool,
}

impl Machine {
    pub fn look() -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let command_line = text("/proc/cmdline");
        Self {
            boot_id: text("/proc/sys/kernel/random/boot_id").trim().to_owned(),
            kernel: kernel_release(),
            wish: wish_at(Path::new("/"), &command_line),
            asks_for_trace: asks_for_trace(&command_line),
        }
    }
}

/// What is wished of a boot of the system at `root`, with this command line of the kernel.
pub fn wish_at(root: &Path, command_line: &str) -> Wish {
    // The link leads to a directory that may be missing. systemd looks at the link alone.
    let is_update = |path: &&str| fs::symlink_metadata(root.join(path)).is_ok();
    match wish(command_line, default_target(root).as_deref()) {
        Wish::Nothing(word) => Wish::Nothing(word),
        _ if SYSTEM_UPDATES.iter().any(is_update) => Wish::Update,
        other => other,
    }
}

/// The target that the system at `root` boots to, if nobody asks for another one: what
/// `default.target` is a link to.
fn default_target(root: &Path) -> Option<String> {
    let folders = [
        "etc/systemd/system",
        "usr/lib/systemd/system",
        "lib/systemd/system",
    ];
    let links = folders.map(|folder| root.join(folder).join("default.target"));
    let target = links.iter().find_map(|link| fs::read_link(link).ok())?;
    Some(target.file_name()?.to_str()?.to_owned())
}

impl Signs {
    pub fn look() -> Self {
        let machine_id = fs::read_to_string("/etc/machine-id").unwrap_or_default();
        Self {
            is_first_boot: Path::new("/run/systemd/first-boot").exists()
                || machine_id.trim() == "uninitialized",
            relabels: Path::new("/.autorelabel").exists(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_boot_that_installs_updates_is_left_alone() {
        for path in SYSTEM_UPDATES {
            let root = tempfile::tempdir().unwrap();
            fs::create_dir(root.path().join("etc")).unwrap();
            assert_eq!(wish_at(root.path(), "quiet"), Wish::Usual);
            symlink("/var/lib/no-such-folder", root.path().join(path)).unwrap();
            assert_eq!(wish_at(root.path(), "foreread.boot=replay"), Wish::Update);
            assert!(matches!(wish_at(root.path(), "rescue"), Wish::Nothing(_)));
        }
    }
}
