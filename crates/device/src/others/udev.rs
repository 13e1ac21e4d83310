// SPDX-License-Identifier: MIT OR Apache-2.0
//! udev rules that set readahead: by an attribute, or by a program that is run.

use super::{Condition, OtherSetting, OtherValue, Setter, Subject, kib_of, kib_of_sectors};

/// One `KEY OPERATOR "VALUE"` of a rule.
struct Part<'a> {
    key: &'a str,
    operator: &'a str,
    value: &'a str,
}

/// The settings of a file of rules. `place` is its path. A rule that a device leaves over `GOTO` or
/// that depends on other programs is taken for one that may be meant.
#[must_use]
pub fn udev_rules(place: &str, text: &str) -> Vec<OtherSetting> {
    let mut settings = Vec::new();
    for (number, line) in logical_lines(text) {
        // Most rules are about something else; looking is cheaper than reading.
        if !line.contains("read_ahead_kb") && !line.contains("--setra") {
            continue;
        }
        let parts = parts(&line);
        let Some(value) = parts.iter().rev().find_map(value) else {
            continue;
        };
        if parts.iter().any(never_for_a_device_that_comes) {
            continue;
        }
        settings.push(OtherSetting {
            setter: Setter::Udev,
            place: format!("{place}:{number}"),
            value,
            conditions: parts.iter().filter_map(condition).collect(),
        });
    }
    settings
}

/// Lines with the number that each begins at, from 1. A backslash at the end joins the next one.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    let mut is_open = false;
    for (index, line) in text.lines().enumerate() {
        if !is_open && line.trim_start().starts_with('#') {
            continue;
        }
        let (kept, goes_on) = match line.strip_suffix('\\') {
            Some(kept) => (kept, true),
            None => (line, false),
        };
        match lines.last_mut().filter(|_| is_open) {
            Some((_, open)) => open.push_str(kept),
            None => lines.push((index + 1, kept.to_owned())),
        }
        is_open = goes_on;
    }
    lines
}

fn parts(line: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut rest = line;
    while let Some(open) = rest.find('"') {
        let (front, behind) = rest.split_at(open);
        let Some(close) = end_of_value(&behind[1..]) else {
            break;
        };
        let value = &behind[1..=close];
        rest = &behind[close + 2..];
        let front = front.trim_matches(|c: char| c == ',' || c.is_whitespace());
        // e"..." and i"..." are kinds of values, not of keys.
        let front = front
            .strip_suffix(['e', 'i'])
            .map_or(front, |cut| if cut.ends_with('=') { cut } else { front });
        let key_end = front.find(['=', '!', '+', '-', ':']).unwrap_or(front.len());
        let (key, operator) = front.split_at(key_end);
        parts.push(Part {
            key: key.trim(),
            operator: operator.trim(),
            value,
        });
    }
    parts
}

/// Where a value ends: at a quote without a backslash before it.
fn end_of_value(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let is_end = |&at: &usize| bytes[at] == b'"' && (at == 0 || bytes[at - 1] != b'\\');
    (0..bytes.len()).find(is_end)
}

fn is_assignment(operator: &str) -> bool {
    matches!(operator, "=" | "+=" | ":=")
}

fn value(part: &Part<'_>) -> Option<OtherValue> {
    if !is_assignment(part.operator) {
        return None;
    }
    match part.key {
        "ATTR{bdi/read_ahead_kb}" | "ATTR{queue/read_ahead_kb}" | "ATTR{read_ahead_kb}" => {
            Some(kib_of(part.value))
        }
        key if key == "RUN" || key.starts_with("RUN{") => run(part.value),
        _ => None,
    }
}

/// `blockdev --setra N` in sectors, or `echo N > .../read_ahead_kb` in KiB.
fn run(command: &str) -> Option<OtherValue> {
    let words: Vec<&str> = command
        .split(|c: char| c.is_whitespace() || matches!(c, '\'' | '"' | ';' | '\\'))
        .filter(|word| !word.is_empty())
        .collect();
    if let Some(at) = words.iter().position(|word| *word == "--setra") {
        let sectors = words.get(at + 1).and_then(|word| word.parse().ok());
        return Some(sectors.map_or(OtherValue::Unknown, kib_of_sectors));
    }
    if !command.contains("read_ahead_kb") {
        return None;
    }
    let echo = words.iter().position(|word| word.ends_with("echo"));
    let kib = echo.and_then(|at| words.get(at + 1));
    Some(kib.map_or(OtherValue::Unknown, |word| kib_of(word)))
}

/// `ACTION=="remove"` and the like.
fn never_for_a_device_that_comes(part: &Part<'_>) -> bool {
    let is_met = |action: &str| super::glob::meets(part.value, action);
    part.key == "ACTION"
        && match part.operator {
            "==" => !is_met("add") && !is_met("change"),
            "!=" => is_met("add") && is_met("change"),
            _ => false,
        }
}

fn condition(part: &Part<'_>) -> Option<Condition> {
    let is_negated = match part.operator {
        "==" => false,
        "!=" => true,
        // A program decides by its exit status, whichever operator it has.
        _ if part.key == "PROGRAM" => false,
        _ => return None,
    };
    let what = match part.key {
        "ACTION" => return None,
        "KERNEL" => Subject::KernelName,
        "SUBSYSTEM" => Subject::Subsystem,
        "ATTR{queue/rotational}" => Subject::Rotational,
        "ATTR{removable}" => Subject::Removable,
        "ENV{DEVTYPE}" => Subject::DeviceType,
        _ => Subject::Other,
    };
    Some(Condition {
        what,
        patterns: part.value.to_owned(),
        is_negated,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn values(text: &str) -> Vec<OtherValue> {
        udev_rules("r", text).into_iter().map(|s| s.value).collect()
    }

    #[test]
    fn rules_of_the_wild_are_read() {
        let text = "\
# ATTR{bdi/read_ahead_kb}=\"1\"\n\
ACTION==\"add|change\", KERNEL==\"sd[a-z]\", ATTR{bdi/read_ahead_kb}=\"4096\"\n\
SUBSYSTEM==\"block\", KERNEL==\"nvme*\", ATTR{queue/rotational}==\"0\", \\\n\
  ATTR{queue/read_ahead_kb}=\"16\"\n\
KERNEL==\"vd?\", RUN+=\"/sbin/blockdev --setra 8192 /dev/%k\"\n\
KERNEL==\"xvd?\", RUN+=\"/bin/sh -c 'echo 512 > /sys/block/%k/queue/read_ahead_kb'\"\n\
SUBSYSTEM==\"bdi\", ACTION==\"add\", PROGRAM=\"/bin/awk -v b=$kernel '{x}' /proc\", \
ATTR{read_ahead_kb}=\"15360\"\n\
SUBSYSTEM==\"bdi\", PROGRAM=\"/usr/libexec/nfsrahead %k\", ATTR{read_ahead_kb}=\"%c\"\n\
ACTION==\"remove\", KERNEL==\"sda\", ATTR{queue/read_ahead_kb}=\"7\"\n\
KERNEL==\"sda\", ATTR{queue/read_ahead_kb}==\"128\", ENV{X}=\"1\"\n";
        let settings = udev_rules("/etc/udev/rules.d/60.rules", text);
        let values: Vec<OtherValue> = settings.iter().map(|s| s.value).collect();
        let kib = OtherValue::Kib;
        let all = [
            kib(4096),
            kib(16),
            kib(4096),
            kib(512),
            kib(15_360),
            OtherValue::Unknown,
        ];
        assert_eq!(values, all);
        assert_eq!(settings[1].place, "/etc/udev/rules.d/60.rules:3");
        let what: Vec<Subject> = settings[1].conditions.iter().map(|c| c.what).collect();
        assert_eq!(
            what,
            [Subject::Subsystem, Subject::KernelName, Subject::Rotational]
        );
        assert_eq!(settings[4].conditions.len(), 2);
    }

    #[test]
    fn sectors_are_not_taken_for_kib() {
        let rule = "RUN+=\"/sbin/blockdev --setra 2048 /dev/%k\"";
        assert_eq!(values(rule), [OtherValue::Kib(1024)]);
        assert_eq!(values("RUN+=\"blockdev --setra\""), [OtherValue::Unknown]);
    }

    #[test]
    fn half_a_rule_is_none() {
        for text in [
            "ATTR{queue/read_ahead_kb}=\"12",
            "ATTR{queue/read_ahead_kb}=12",
            "ATTR{queue/read_ahead_kb",
            "\"\\\"read_ahead_kb",
        ] {
            assert_eq!(values(text), [], "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_gives_an_answer(text in "(?s).{0,200}") {
            let _ = udev_rules("r", &text);
        }

        #[test]
        fn anything_like_a_rule_gives_an_answer(
            text in "([A-Z]{1,7}|ATTR\\{queue/read_ahead_kb\\}|RUN|--setra|[=!+\",\\\\ \n]|[0-9]){0,40}"
        ) {
            for setting in udev_rules("r", &text) {
                prop_assert!(setting.place.starts_with("r:"));
            }
        }
    }
}
