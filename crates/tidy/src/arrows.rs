// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks the direction of dependencies between crates. Logic never calls code that touches the
//! machine. Installed code never calls code that only measures or tests it.

use crate::Finding;

/// Crates that decide; they take values and traits, and run without root.
const LOGIC: [&str; 13] = [
    "accounting",
    "blocktrace",
    "boot",
    "core",
    "device",
    "layout",
    "model",
    "prefetch",
    "profile",
    "recorder",
    "sim",
    "trace",
    "watch",
];
/// Crates that act on the machine, and those that put everything together.
const MACHINE: [&str; 19] = [
    "foreread",
    "foreread-bench",
    "foreread-bpf",
    "foreread-guest",
    "foreread-linux-blocks",
    "foreread-linux-boot",
    "foreread-linux-check",
    "foreread-linux-doctor",
    "foreread-linux-helper",
    "foreread-linux-layout",
    "foreread-linux-module",
    "foreread-linux-prefetcher",
    "foreread-linux-recorder",
    "foreread-linux-sizing",
    "foreread-linux-stat",
    "foreread-linux-watch",
    "foreread-measure",
    "foreread-sys",
    "foreread-testbed",
];
/// Crates that nothing depends on: they measure the binary, or test it.
const ENDS: [&str; 3] = ["foreread-bench", "foreread-guest", "foreread-tidy"];

/// Dependencies of a logic crate on one that acts, and of any crate on one that nothing depends on,
/// in its manifest. Its tests may use any.
#[must_use]
pub fn against_the_arrows(path: &str, text: &str) -> Vec<Finding> {
    let name = path
        .strip_prefix("crates/")
        .and_then(|rest| rest.strip_suffix("/Cargo.toml"));
    let Some(name) = name else {
        return Vec::new();
    };
    let wrong = |key: &str| {
        if ENDS.contains(&key) {
            Some(format!(
                "{name} must not depend on {key}; move what both need into a crate of its own"
            ))
        } else if LOGIC.contains(&name) && MACHINE.contains(&key) {
            Some(format!(
                "{name} is logic and must not depend on {key}; pass a trait in"
            ))
        } else {
            None
        }
    };
    let of_line = |(line, key)| Some(Finding::new(path, line, wrong(key)?));
    dependencies(text).into_iter().filter_map(of_line).collect()
}

/// The dependencies of a manifest, each with its line.
fn dependencies(manifest: &str) -> Vec<(usize, &str)> {
    let mut in_section = false;
    let mut found = Vec::new();
    for (index, line) in manifest.lines().enumerate() {
        let key = if let Some(header) = line.trim().strip_prefix('[') {
            let of = Section::of(header.trim_end_matches(']'));
            in_section = of == Section::Dependencies;
            match of {
                Section::OneDependency(key) => key,
                _ => "",
            }
        } else if in_section {
            line.split(['.', '=', ' ']).next().unwrap_or("")
        } else {
            ""
        };
        if !key.is_empty() {
            found.push((index + 1, key));
        }
    }
    found
}

/// The kind of a table of a manifest.
#[derive(PartialEq, Eq)]
enum Section<'a> {
    /// Dependencies of the crate or of its build script.
    Dependencies,
    /// One of them, as `[dependencies.NAME]`.
    OneDependency(&'a str),
    /// Something else, dependencies of tests included.
    Other,
}

impl<'a> Section<'a> {
    /// By its header without brackets, such as `target.'cfg(unix)'.dependencies`.
    fn of(header: &'a str) -> Self {
        let is_kind = |part: &str| part == "dependencies" || part == "build-dependencies";
        match header.rsplit_once('.') {
            _ if is_kind(header) => Self::Dependencies,
            Some((_, last)) if is_kind(last) => Self::Dependencies,
            Some((above, name)) if is_kind(above.rsplit('.').next().unwrap_or("")) => {
                Self::OneDependency(name)
            }
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logic_does_not_depend_on_the_machine() {
        let bad = "[dependencies]\nforeread-profile.workspace = true\n\
                   foreread-sys.workspace = true\n";
        let good = "[dependencies]\nforeread-profile.workspace = true\n\
                    [dev-dependencies]\nforeread-testbed.workspace = true\n";
        let found = against_the_arrows("crates/prefetch/Cargo.toml", bad);
        assert_eq!(
            found.iter().map(|finding| finding.line).collect::<Vec<_>>(),
            [3]
        );
        for table in [
            "[dependencies.foreread-sys]\nworkspace = true\n",
            "[build-dependencies]\nforeread-sys.workspace = true\n",
            "[target.'cfg(unix)'.dependencies]\nforeread-sys = { workspace = true }\n",
            "[target.'cfg(unix)'.dependencies.foreread-sys]\nworkspace = true\n",
        ] {
            let found = against_the_arrows("crates/prefetch/Cargo.toml", table);
            assert_eq!(found.len(), 1, "{table}");
        }
        assert_eq!(against_the_arrows("crates/prefetch/Cargo.toml", good), []);
        assert_eq!(against_the_arrows("crates/cli/Cargo.toml", bad), []);
    }

    #[test]
    fn nothing_depends_on_a_benchmark() {
        let bad = "[dependencies]\nforeread-bench.workspace = true\n";
        let good = "[dependencies]\nforeread-measure.workspace = true\n\
                    [dev-dependencies]\nforeread-bench.workspace = true\n";
        for path in ["crates/cli/Cargo.toml", "crates/measure/Cargo.toml"] {
            let found = against_the_arrows(path, bad);
            let lines: Vec<_> = found.iter().map(|finding| finding.line).collect();
            assert_eq!(lines, [2], "{path}");
            assert_eq!(against_the_arrows(path, good), []);
        }
    }
}
