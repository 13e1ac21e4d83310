// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options in fstab that set a mount's readahead: `rasize` of ceph and SMB, in bytes. (`rsize` is
//! the largest request, not readahead; where readahead follows from it, the mount itself tells.)

use super::{Condition, OtherSetting, OtherValue, Setter, Subject};

/// The settings of fstab. `place` is its path.
#[must_use]
pub fn fstab(place: &str, text: &str) -> Vec<OtherSetting> {
    let mut settings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start();
        if line.starts_with('#') {
            continue;
        }
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (Some(mount_point), Some(options)) = (fields.get(1), fields.get(3)) else {
            continue;
        };
        let bytes = options
            .split(',')
            .find_map(|option| option.strip_prefix("rasize="));
        let Some(bytes) = bytes else {
            continue;
        };
        let kib = bytes.parse::<u64>().ok().map(|bytes| bytes / 1024);
        settings.push(OtherSetting {
            setter: Setter::Fstab,
            place: format!("{place}:{}", index + 1),
            value: kib.map_or(OtherValue::Unknown, OtherValue::Kib),
            conditions: vec![Condition {
                what: Subject::MountPoint,
                patterns: literal(&mount_point.replace("\\040", " ")),
                is_negated: false,
            }],
        });
    }
    settings
}

/// A path as a pattern that matches only itself: special characters stand in brackets.
fn literal(path: &str) -> String {
    let mut pattern = String::with_capacity(path.len());
    for c in path.chars() {
        match c {
            '*' | '?' | '[' => pattern.extend(['[', c, ']']),
            // No pattern can have it, and another character in its place is near enough.
            '|' => pattern.push('?'),
            c => pattern.push(c),
        }
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rasize_counts_bytes() {
        let text = "# x\n/dev/sda1 / ext4 defaults 0 1\n\
                    //server/a /mnt/a\\040b cifs rw,rasize=8388608,vers=3 0 0\n\
                    host:/ /ceph ceph rasize=much\nshort\n";
        let settings = fstab("/etc/fstab", text);
        assert_eq!(settings.len(), 2);
        assert_eq!(settings[0].value, OtherValue::Kib(8192));
        assert_eq!(settings[0].conditions[0].patterns, "/mnt/a b");
        assert_eq!(settings[0].place, "/etc/fstab:3");
        assert_eq!(settings[1].value, OtherValue::Unknown);
    }

    proptest! {
        #[test]
        fn any_text_gives_an_answer(text in "(rasize=|[a-z/ ,=\n#]|[0-9]|.){0,80}") {
            let _ = fstab("f", &text);
        }

        #[test]
        fn a_path_meets_its_own_pattern(path in "/[a-z*?\\[\\] |]{0,12}") {
            prop_assert!(super::super::glob::meets(&literal(&path), &path));
        }
    }
}
