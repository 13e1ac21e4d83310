// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arrows between crates point one way: logic never calls what touches the machine.

use crate::Finding;

/// Crates that decide; they take values and traits, and run without root.
const LOGIC: [&str; 9] = [
    "blocktrace",
    "core",
    "device",
    "model",
    "profile",
    "replay",
    "sim",
    "trace",
    "watch",
];
/// Crates that act on the machine, and those that put everything together.
const MACHINE: [&str; 5] = [
    "foreread-guest",
    "foreread-linux",
    "foreread-testbed",
    "foreread-bench",
    "foreread",
];

/// Dependencies of a logic crate on one that acts, in its manifest. Its tests may use any.
#[must_use]
pub fn against_the_arrows(path: &str, text: &str) -> Vec<Finding> {
    let name = path
        .strip_prefix("crates/")
        .and_then(|rest| rest.strip_suffix("/Cargo.toml"));
    let Some(name) = name.filter(|name| LOGIC.contains(name)) else {
        return Vec::new();
    };
    let mut section = "";
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.starts_with('[') {
            section = line.trim();
        }
        let key = line.split(['.', '=', ' ']).next().unwrap_or("");
        if section == "[dependencies]" && MACHINE.contains(&key) {
            let what = format!("{name} is logic and must not depend on {key}; pass a trait in");
            findings.push(Finding::new(path, index + 1, what));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logic_does_not_depend_on_the_machine() {
        let bad = "[dependencies]\nforeread-profile.workspace = true\n\
                   foreread-linux.workspace = true\n";
        let good = "[dependencies]\nforeread-profile.workspace = true\n\
                    [dev-dependencies]\nforeread-testbed.workspace = true\n";
        let found = against_the_arrows("crates/replay/Cargo.toml", bad);
        assert_eq!(
            found.iter().map(|finding| finding.line).collect::<Vec<_>>(),
            [3]
        );
        assert_eq!(against_the_arrows("crates/replay/Cargo.toml", good), []);
        assert_eq!(against_the_arrows("crates/cli/Cargo.toml", bad), []);
    }
}
