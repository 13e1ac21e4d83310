// SPDX-License-Identifier: MIT OR Apache-2.0
//! `[nfsrahead]` of nfs.conf: the settings for NFS by nfsrahead, which udev calls for each new
//! mount.

use super::{Condition, OtherSetting, OtherValue, Setter, Subject, kib_of};

/// The size that nfsrahead sets where its section names none, in KiB.
const DEFAULT_KIB: u64 = 128;

/// The settings of a file. `place` is its path. Without the section there are none: nfsrahead then
/// sets the kernel's default.
#[must_use]
pub fn nfs_conf(place: &str, text: &str) -> Vec<OtherSetting> {
    let mut is_inside = false;
    let mut nfs = None;
    let mut nfs4 = None;
    let mut default = None;
    let mut section = None;
    for (index, line) in text.lines().enumerate() {
        let line = line.split(['#', ';']).next().unwrap_or_default().trim();
        if let Some(name) = line.strip_prefix('[') {
            let name = name.trim_end_matches(']').trim();
            is_inside = name.eq_ignore_ascii_case("nfsrahead");
            if is_inside {
                section = Some(index + 1);
            }
            continue;
        }
        let Some((key, value)) = line.split_once('=').filter(|_| is_inside) else {
            continue;
        };
        let value = value.trim().trim_matches(['"', '\'']);
        let found = Some((kib_of(value), index + 1));
        match key.trim().to_ascii_lowercase().as_str() {
            "nfs" => nfs = found,
            "nfs4" => nfs4 = found,
            "default" => default = found,
            _ => {}
        }
    }
    let Some(section) = section else {
        return Vec::new();
    };
    let rest = default.unwrap_or((OtherValue::Kib(DEFAULT_KIB), section));
    let setting = |fs_type: &str, (value, line): (OtherValue, usize)| OtherSetting {
        setter: Setter::NfsRahead,
        place: format!("{place}:{line}"),
        value,
        conditions: vec![Condition {
            what: Subject::FsType,
            patterns: fs_type.to_owned(),
            is_negated: false,
        }],
    };
    vec![
        setting("nfs", nfs.unwrap_or(rest)),
        setting("nfs4", nfs4.unwrap_or(rest)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_version_has_its_value_or_the_default() {
        let text =
            "[general]\nnfs=1\n[ nfsrahead ]\n nfs = 15000 # v3\n default=\"512\"\n[x]\nnfs4=2\n";
        let settings = nfs_conf("/etc/nfs.conf", text);
        assert_eq!(settings[0].value, OtherValue::Kib(15_000));
        assert_eq!(settings[0].place, "/etc/nfs.conf:4");
        assert_eq!(settings[1].value, OtherValue::Kib(512));
        let none = nfs_conf("c", "[nfsrahead]\nnfs=a lot\n");
        assert_eq!(none[0].value, OtherValue::Unknown);
        assert_eq!(none[1].value, OtherValue::Kib(DEFAULT_KIB));
        assert_eq!(nfs_conf("c", "nfs=1\n[nfsd]\nnfs=2\n"), []);
    }

    proptest! {
        #[test]
        fn any_text_gives_an_answer(text in "(\\[nfsrahead\\]|nfs4?|default|[=\n#;\"\\[]|.){0,60}") {
            let count = nfs_conf("c", &text).len();
            prop_assert!(count == 0 || count == 2);
        }
    }
}
