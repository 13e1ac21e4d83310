// SPDX-License-Identifier: MIT OR Apache-2.0
//! The udev rule by which new devices get their size as they appear.

/// Where it goes. Before `60-persistent-storage.rules`, whose label probe is the first to read a
/// new device; `IMPORT` runs its program right there, while `RUN` would wait for the end of all
/// rules.
pub const UDEV_RULE_PATH: &str = "etc/udev/rules.d/59-foreread-read-ahead.rules";

/// The first words of the line that tells whether the rest was edited.
const MARK: &str = "# foreread ";

/// The content of a rule file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UdevRuleState {
    /// As it was written.
    Ours,
    /// Edited by an administrator, or never ours: it stays.
    Others,
}

/// Why a program can't be called by udev.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0}: udev can't be told to call a program whose path has characters such as this one: {1}"
)]
pub struct UnfitPath(pub String, pub char);

/// The text of the rule file, which calls this program by its absolute path.
///
/// # Errors
/// A path with characters that mean something in a rule.
pub fn udev_rule(program: &str) -> Result<String, UnfitPath> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if let Some(unfit) = program.chars().find(|c| !plain(*c)) {
        return Err(UnfitPath(program.to_owned(), unfit));
    }
    let rules = format!(
        "\
# Devices get the readahead size that suits them as they appear; see `foreread status`. A device
# for which another rule, TuneD or a person has set one is left alone. Made by
# `foreread apply --persist`, removed by `foreread rollback --persist`. If you edit this file, it is
# yours and stays. Without the program, such as after its package was removed, it does nothing.

# Loop and dm devices have a size from their first \"change\" on. Memory needs no readahead.
ACTION==\"add|change\", SUBSYSTEM==\"block\", ENV{{DEVTYPE}}==\"disk\", \\
  KERNEL!=\"ram*|zram*|fd*|sr*|nullb*\", TEST==\"{program}\", \\
  IMPORT{{program}}=\"{program} apply --udev $kernel\"

# Mounts without a block device, such as NFS: their number is known before they are mounted.
ACTION==\"add\", SUBSYSTEM==\"bdi\", KERNEL==\"0:*\", TEST==\"{program}\", \\
  RUN+=\"{program} apply --udev $kernel\"
"
    );
    Ok(format!("{MARK}{:08x}\n{rules}", checksum(&rules)))
}

/// Whether a rule file is as we wrote it, perhaps in another version.
#[must_use]
pub fn udev_rule_state(text: &str) -> UdevRuleState {
    let marked = text
        .strip_prefix(MARK)
        .and_then(|rest| rest.split_once('\n'));
    match marked {
        Some((sum, rules)) if u32::from_str_radix(sum, 16) == Ok(checksum(rules)) => {
            UdevRuleState::Ours
        }
        _ => UdevRuleState::Others,
    }
}

fn checksum(rules: &str) -> u32 {
    crc32fast::hash(rules.as_bytes())
}

/// The property that `apply --udev` stores in udev's database: `udevadm info` shows it.
#[must_use]
pub fn udev_property(kib: u64) -> String {
    format!("FOREREAD_READ_AHEAD_KB={kib}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_known_until_it_is_edited() {
        let rule = udev_rule("/usr/local/bin/foreread").unwrap();
        assert_eq!(udev_rule_state(&rule), UdevRuleState::Ours);
        for edited in [
            rule.replace("add|change", "add"),
            format!("{rule}\n"),
            rule[1..].to_owned(),
            String::new(),
        ] {
            assert_eq!(udev_rule_state(&edited), UdevRuleState::Others, "{edited}");
        }
    }

    #[test]
    fn a_rule_calls_the_program_before_others_read_the_device() {
        let rule = udev_rule("/usr/local/bin/foreread").unwrap();
        let call = "IMPORT{program}=\"/usr/local/bin/foreread apply --udev $kernel\"";
        assert!(rule.contains(call), "{rule}");
        assert!(UDEV_RULE_PATH < "etc/udev/rules.d/60-persistent-storage.rules");
    }

    #[test]
    fn a_path_that_udev_would_take_apart_is_refused() {
        for path in ["/a b/foreread", "/a\"/foreread", "/$kernel", "/%k", "/a\n"] {
            assert!(udev_rule(path).is_err(), "{path}");
        }
    }
}
