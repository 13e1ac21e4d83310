// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads wishes from the kernel's command line.

/// Targets of repair and installation, in which nothing of ours should take part.
const TARGETS: [&str; 5] = [
    "rescue.target",
    "emergency.target",
    "system-update.target",
    "factory-reset.target",
    "initrd-emergency.target",
];
/// Words that lead to one of them: systemd's, and those of System V.
const WORDS: [&str; 9] = [
    "emergency",
    "rescue",
    "single",
    "s",
    "S",
    "1",
    "-b",
    "-s",
    "rd.emergency",
];

/// Where one of these exists, systemd boots to `system-update.target`: its
/// `systemd-system-update-generator`.
pub const SYSTEM_UPDATES: [&str; 2] = ["system-update", "etc/system-update"];

/// A wish of the person at the boot loader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Nothing special.
    Usual,
    /// A boot without us; the word that says so.
    Nothing(String),
    /// The same: systemd installs updates in this boot. No word says so, but [`SYSTEM_UPDATES`].
    Update,
    /// `foreread.boot=plain`: no replay.
    Plain,
    /// `foreread.boot=record`: no replay, and a recording in full.
    Record,
    /// `foreread.boot=replay`: a replay, whatever its worth.
    Replay,
    /// `foreread.boot=refresh`: the same, and a recording in full.
    Refresh,
}

/// Reads `/proc/cmdline`. Of two words that contradict each other the later one counts, as it does
/// for systemd; one that asks for repair always counts.
///
/// A boot to another target than `default_target` doesn't reach the one that boots are measured by.
/// Where that isn't known, any target but those of repair is taken for it.
#[must_use]
pub fn wish(command_line: &str, default_target: Option<&str>) -> Wish {
    let mut wish = Wish::Usual;
    let mut target = None;
    // Words after `--` are for init. It reads `single` and `-b` there, too.
    for word in words(command_line) {
        if WORDS.contains(&word.as_str()) {
            return Wish::Nothing(word);
        }
        let unit = word.strip_prefix("systemd.unit=");
        if let Some(unit) = unit.or_else(|| target_of_runlevel(&word)) {
            let is_default = unit == "default.target"
                || default_target.is_none_or(|default_target| unit == default_target);
            let is_other = TARGETS.contains(&unit) || !is_default;
            target = is_other.then(|| word.clone());
        }
        match word.strip_prefix("foreread.boot=") {
            Some("plain") => wish = Wish::Plain,
            Some("record") => wish = Wish::Record,
            Some("replay") => wish = Wish::Replay,
            Some("refresh") => wish = Wish::Refresh,
            // An unknown word may be a misspelt wish to be left alone.
            Some(_) => wish = Wish::Nothing(word),
            None => {}
        }
    }
    target.map_or(wish, Wish::Nothing)
}

/// The target of a runlevel of System V: systemd still reads their numbers.
fn target_of_runlevel(word: &str) -> Option<&'static str> {
    match word {
        "2" | "3" | "4" => Some("multi-user.target"),
        "5" => Some("graphical.target"),
        _ => None,
    }
}

/// Whether the boot is to be traced for a chart: `foreread.boot.chart`.
#[must_use]
pub fn asks_for_trace(command_line: &str) -> bool {
    words(command_line)
        .iter()
        .any(|word| word == "foreread.boot.chart")
}

/// The words, at blanks that are not in double quotes, as the kernel separates them.
fn words(command_line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for character in command_line.chars() {
        match character {
            '"' => quoted = !quoted,
            blank if blank.is_whitespace() && !quoted => words.push(String::new()),
            other => {
                if let Some(word) = words.last_mut() {
                    word.push(other);
                }
            }
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(command_line: &str) -> Wish {
        super::wish(command_line, Some("graphical.target"))
    }

    fn nothing(word: &str) -> Wish {
        Wish::Nothing(word.to_owned())
    }

    #[test]
    fn repair_is_left_alone_however_it_is_asked_for() {
        for word in WORDS {
            let line = format!("root=/dev/sda1 ro foreread.boot=replay {word} quiet\n");
            assert_eq!(wish(&line), nothing(word), "{line}");
        }
        for target in TARGETS {
            let word = format!("systemd.unit={target}");
            assert_eq!(wish(&format!("ro {word}")), nothing(&word));
        }
        assert_eq!(
            wish("systemd.unit=rescue.target systemd.unit=graphical.target"),
            Wish::Usual
        );
    }

    #[test]
    fn wishes_are_read_and_the_last_one_counts() {
        assert_eq!(wish(""), Wish::Usual);
        assert_eq!(
            wish("BOOT_IMAGE=/vmlinuz root=UUID=1 ro quiet splash"),
            Wish::Usual
        );
        assert_eq!(
            wish("foreread.boot=plain foreread.boot=record"),
            Wish::Record
        );
        assert_eq!(wish("foreread.boot=replay"), Wish::Replay);
        assert_eq!(wish("foreread.boot=refresh"), Wish::Refresh);
        assert_eq!(wish("foreread.boot=of"), nothing("foreread.boot=of"));
    }

    #[test]
    fn another_target_than_the_default_one_is_left_alone() {
        for word in ["systemd.unit=multi-user.target", "3"] {
            assert_eq!(
                wish(&format!("ro foreread.boot=replay {word}")),
                nothing(word)
            );
            assert_eq!(super::wish(word, Some("multi-user.target")), Wish::Usual);
            assert_eq!(super::wish(word, None), Wish::Usual);
        }
        for word in [
            "systemd.unit=graphical.target",
            "systemd.unit=default.target",
            "5",
        ] {
            assert_eq!(wish(word), Wish::Usual);
        }
        let rescue = "systemd.unit=rescue.target";
        assert_eq!(super::wish(rescue, None), nothing(rescue));
        assert_eq!(wish("3 systemd.unit=graphical.target"), Wish::Usual);
    }

    #[test]
    fn a_trace_is_asked_for_beside_any_wish() {
        let line = "ro foreread.boot.chart foreread.boot=plain";
        assert_eq!((asks_for_trace(line), wish(line)), (true, Wish::Plain));
        assert!(!asks_for_trace("foreread.boot=plain foreread.boot.charts"));
    }

    #[test]
    fn blanks_in_quotes_separate_nothing() {
        assert_eq!(wish("dyndbg=\"file a single +p\" quiet"), Wish::Usual);
        assert_eq!(wish("note=\"unclosed single"), Wish::Usual);
        assert_eq!(wish("\"single\""), nothing("single"));
    }
}
