// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is said to a user who lacks the rights of root: one clause with the command that gives
//! more.

use foreread_sys::rights::{Capabilities, Capability};

/// What loading BPF programs needs.
const NEEDED: [Capability; 2] = [Capability::Bpf, Capability::Perfmon];

/// Whether this user lacks what recording and watching need. Then it is no use to tell which of
/// several recorders met that first. A root without these rights, as in a container, is told all.
pub fn lacks_rights() -> bool {
    let own = Capabilities::of_self();
    let lacks = NEEDED.iter().any(|capability| !own.has(*capability));
    lacks && !rustix::process::geteuid().is_root()
}

/// Why nothing can be recorded, and the command that records; for someone who lacks the rights.
pub fn recording() -> String {
    format!(
        "recording needs root: `sudo foreread run --user {} -- COMMAND` records as root and runs \
         the command as you",
        name()
    )
}

/// What stands before a command that looks at the store of this user, as the user types it.
pub fn sudo() -> &'static str {
    let is_by_sudo = std::env::var_os("SUDO_UID").is_some();
    match is_by_sudo && rustix::process::geteuid().is_root() {
        true => "sudo ",
        false => "",
    }
}

/// This user's name, for a command to paste.
fn name() -> String {
    let set = std::env::var("USER").unwrap_or_default();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    match !set.is_empty() && set.chars().all(is_plain) {
        true => set,
        // A shell fills it in.
        false => "$USER".to_owned(),
    }
}
