// SPDX-License-Identifier: MIT OR Apache-2.0
//! Facts about the machine at the start of a boot.

use std::fs;
use std::path::Path;

use foreread_boot::{Wish, asks_for_trace, wish};
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
            wish: wish(&command_line, default_target(Path::new("/")).as_deref()),
            asks_for_trace: asks_for_trace(&command_line),
        }
    }
}

/// The target that the system at `root` boots to, if nobody asks for another one: what
/// `default.target` is a link to.
pub fn default_target(root: &Path) -> Option<String> {
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
