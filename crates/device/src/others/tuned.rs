// SPDX-License-Identifier: MIT OR Apache-2.0
//! The readahead of TuneD's active profile. A profile is an ini file that may include others;
//! `readahead` in a section for disks counts KiB, or sectors where an `s` stands behind.

use std::collections::BTreeMap;

use super::{Condition, OtherSetting, OtherValue, Setter, Subject, kib_of_sectors};

/// Profiles that include each other may form a ring.
const PROFILES_MAX: usize = 64;

/// A profile as it is on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileText {
    /// Its path.
    pub place: String,
    /// Its text.
    pub text: String,
}

/// An option and where it stands.
#[derive(Clone, Debug)]
struct Entry {
    value: String,
    place: String,
}

type Section = BTreeMap<String, Entry>;
type Sections = BTreeMap<String, Section>;

/// Settings of the active profiles. `active` is the text of `active_profile`: names with blanks
/// between; `profile` finds one by its name.
#[must_use]
pub fn tuned(
    active: &str,
    mut profile: impl FnMut(&str) -> Option<ProfileText>,
) -> Vec<OtherSetting> {
    let mut sections = Sections::new();
    let mut left = PROFILES_MAX;
    for name in active.split_whitespace() {
        merge(name, &mut profile, &mut sections, &mut left);
    }
    let variables = sections.remove("variables").unwrap_or_default();
    let all = sections.iter();
    all.filter_map(|(name, section)| setting(name, section, &variables))
        .collect()
}

/// Included profiles come first, so that the including profile overrides them.
fn merge(
    name: &str,
    profile: &mut impl FnMut(&str) -> Option<ProfileText>,
    into: &mut Sections,
    left: &mut usize,
) {
    if *left == 0 {
        return;
    }
    *left -= 1;
    let Some(found) = profile(name) else {
        return;
    };
    let own = sections(&found);
    let include = own.get("main").and_then(|main| main.get("include"));
    let included = include.map(|entry| entry.value.clone()).unwrap_or_default();
    let names = included.split([',', ';', ' ']).map(str::trim);
    for name in names.filter(|name| !name.is_empty() && !name.contains('$')) {
        // A leading dash: only if there is one.
        merge(name.trim_start_matches('-'), profile, into, left);
    }
    for (name, section) in own {
        let replaces = section
            .get("replace")
            .is_some_and(|entry| is_on(&entry.value));
        let known = into.entry(name).or_default();
        if replaces {
            known.clear();
        }
        known.extend(section);
    }
}

fn sections(profile: &ProfileText) -> Sections {
    let mut all = Sections::new();
    let mut name = String::new();
    for (index, line) in profile.text.lines().enumerate() {
        let line = line.trim();
        if line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(inside) = line
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            name = inside.trim().to_owned();
            continue;
        }
        let Some((key, value)) = line.split_once('=') else {
            continue;
        };
        let value = value.split(" #").next().unwrap_or_default().trim();
        let entry = Entry {
            value: value.to_owned(),
            place: format!("{}:{}", profile.place, index + 1),
        };
        let section = all.entry(name.clone()).or_default();
        section.insert(key.trim().to_owned(), entry);
    }
    all
}

fn is_on(value: &str) -> bool {
    matches!(
        value.to_ascii_lowercase().as_str(),
        "1" | "true" | "yes" | "y" | "on"
    )
}

fn setting(name: &str, section: &Section, variables: &Section) -> Option<OtherSetting> {
    let text = |key: &str| section.get(key).map(|entry| entry.value.as_str());
    if text("type").unwrap_or(name) != "disk" || text("enabled").is_some_and(|on| !is_on(on)) {
        return None;
    }
    let (entry, multiplies) = match (section.get("readahead"), section.get("readahead_multiply")) {
        (Some(entry), _) => (entry, false),
        (None, Some(entry)) => (entry, true),
        (None, None) => return None,
    };
    let value = match multiplies {
        true => OtherValue::Unknown,
        false => value(&with_variables(&entry.value, variables)),
    };
    let mut conditions = vec![Condition {
        what: Subject::TunedDisk,
        patterns: String::new(),
        is_negated: false,
    }];
    conditions.extend(text("devices").and_then(devices));
    if text("devices_udev_regex").is_some() {
        conditions.push(Condition {
            what: Subject::Other,
            patterns: String::new(),
            is_negated: false,
        });
    }
    Some(OtherSetting {
        setter: Setter::Tuned,
        place: entry.place.clone(),
        value,
        conditions,
    })
}

/// `devices=sd*,!sda`: patterns, or patterns to leave out.
fn devices(list: &str) -> Option<Condition> {
    let names = list.split([',', ' ', ';']).map(str::trim);
    let names: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
    let (out, wanted): (Vec<&str>, Vec<&str>) = names.iter().partition(|n| n.starts_with('!'));
    let condition = |names: Vec<&str>, is_negated| Condition {
        what: Subject::DiskName,
        patterns: names.join("|"),
        is_negated,
    };
    match (wanted.is_empty(), out.is_empty()) {
        (false, _) => Some(condition(wanted, false)),
        (true, false) => {
            let names = out
                .into_iter()
                .map(|name| name.trim_start_matches('!'))
                .collect();
            Some(condition(names, true))
        }
        (true, true) => None,
    }
}

fn with_variables(text: &str, variables: &Section) -> String {
    let mut text = text.to_owned();
    for (name, entry) in variables {
        text = text.replace(&format!("${{{name}}}"), &entry.value);
    }
    text
}

/// `4096`, `>4096` (unless it is more already), `8192 s` (sectors).
fn value(text: &str) -> OtherValue {
    let text = text.trim();
    let (is_least, number) = match text.strip_prefix('>') {
        Some(rest) => (true, rest.trim()),
        None => (false, text.strip_prefix('=').unwrap_or(text).trim()),
    };
    let mut words = number.split_whitespace();
    let count: Option<u64> = words.next().and_then(|word| word.parse().ok());
    let value = match (count, words.next(), words.next()) {
        (Some(kib), None, None) => OtherValue::Kib(kib),
        (Some(sectors), Some("s"), None) => kib_of_sectors(sectors),
        _ => OtherValue::Unknown,
    };
    match value {
        OtherValue::Kib(kib) if is_least => OtherValue::AtLeastKib(kib),
        value => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(profiles: &[(&str, &str)], active: &str) -> Vec<OtherSetting> {
        tuned(active, |name| {
            let (_, text) = profiles.iter().find(|(known, _)| *known == name)?;
            Some(ProfileText {
                place: format!("/usr/lib/tuned/profiles/{name}/tuned.conf"),
                text: (*text).to_owned(),
            })
        })
    }

    #[test]
    fn a_profile_says_more_than_what_it_includes() {
        let profiles = [
            (
                "throughput-performance",
                "[main]\nsummary=x\n[disk]\nreadahead=>4096\n",
            ),
            (
                "virtual-guest",
                "[main]\ninclude=throughput-performance\n[vm]\nx=1\n",
            ),
            (
                "mine",
                "[main]\ninclude = virtual-guest, ring\n[disk]\n# why\nreadahead=8192 s\n",
            ),
            ("ring", "[main]\ninclude=ring\n"),
        ];
        let guest = read(&profiles, "virtual-guest\n");
        assert_eq!(guest[0].value, OtherValue::AtLeastKib(4096));
        assert_eq!(
            guest[0].place,
            "/usr/lib/tuned/profiles/throughput-performance/tuned.conf:4"
        );
        assert_eq!(read(&profiles, "mine")[0].value, OtherValue::Kib(4096));
        assert_eq!(read(&profiles, "ring none"), []);
        let both = read(&profiles, "throughput-performance mine");
        assert_eq!(both.len(), 1);
    }

    #[test]
    fn sections_for_disks_may_have_any_name() {
        let text = "[variables]\nra=512\n[big]\ntype=disk\ndevices=sd*,!sda\nreadahead=${ra}\n\
                    [off]\ntype=disk\nenabled=0\nreadahead=1\n[disk]\nreadahead_multiply=2\n\
                    [net]\ntype=net\nreadahead=3\n";
        let found = read(&[("p", text)], "p");
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].value, OtherValue::Kib(512));
        assert_eq!(found[0].conditions[1].patterns, "sd*");
        assert_eq!(found[1].value, OtherValue::Unknown);
        assert_eq!(value("=128"), OtherValue::Kib(128));
        assert_eq!(value("much"), OtherValue::Unknown);
        assert_eq!(value("> 8192 s"), OtherValue::AtLeastKib(4096));
    }

    #[test]
    fn replaced_sections_forget_what_was_included() {
        let profiles = [
            ("a", "[disk]\nreadahead=4096\ndevices=sda\n"),
            ("b", "[main]\ninclude=a\n[disk]\nreplace=1\nelevator=x\n"),
        ];
        assert_eq!(read(&profiles, "b"), []);
    }

    proptest! {
        #[test]
        fn any_text_gives_an_answer(text in "(?s).{0,200}", active in ".{0,20}") {
            let _ = tuned(&active, |_| Some(ProfileText { place: "p".into(), text: text.clone() }));
        }

        #[test]
        fn anything_like_a_profile_gives_an_answer(
            text in "(\\[disk\\]|\\[main\\]|include|readahead|type|devices|[=>, \n$!]|p|[0-9]){0,40}"
        ) {
            let _ = tuned("p", |_| Some(ProfileText { place: "p".into(), text: text.clone() }));
        }
    }
}
