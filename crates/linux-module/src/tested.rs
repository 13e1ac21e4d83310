// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernels that the module was tested on.

/// The series of kernels that the module was tested on; `module/compat.h` and `module/Kbuild`
/// have the same list.
pub const TESTED: [(u32, u32); 3] = [(6, 1), (6, 12), (7, 3)];

/// Whether a release, as `uname -r` prints it, is of a tested series.
pub(crate) fn has(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut next = || numbers.next()?.parse().ok();
    let (Some(version), Some(level)) = (next(), next()) else {
        return false;
    };
    TESTED.contains(&(version, level))
}

/// The tested series as people write them: `6.1, 6.12 and 7.3`.
#[must_use]
pub fn tested_names() -> String {
    let names: Vec<String> = TESTED.iter().map(|(a, b)| format!("{a}.{b}")).collect();
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => names.join(""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_named_as_people_write_them() {
        assert_eq!(tested_names(), "6.1, 6.12 and 7.3");
    }
}
