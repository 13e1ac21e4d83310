// SPDX-License-Identifier: MIT OR Apache-2.0
//! Facts about the machine at the start of a boot.

use std::fs;
use std::path::Path;

use foreread_boot::{Wish, wish};
use foreread_sys::kernel::kernel_release;

/// See [`foreread_boot::Facts`].
pub struct Machine {
    /// The kernel's random name of this boot.
    pub boot_id: String,
    /// As in `uname -r`.
    pub kernel: String,
    /// What the command line asks for.
    pub wish: Wish,
    /// No machine-id is set yet: see machine-id(5), "First boot semantics".
    pub is_first_boot: bool,
    /// SELinux was told to label all files anew.
    pub relabels: bool,
}

impl Machine {
    pub fn look() -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let machine_id = text("/etc/machine-id");
        let machine_id = machine_id.trim();
        Self {
            boot_id: text("/proc/sys/kernel/random/boot_id").trim().to_owned(),
            kernel: kernel_release(),
            wish: wish(&text("/proc/cmdline")),
            is_first_boot: Path::new("/run/systemd/first-boot").exists()
                || machine_id == "uninitialized",
            relabels: Path::new("/.autorelabel").exists(),
        }
    }
}
