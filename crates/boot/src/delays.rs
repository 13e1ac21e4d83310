// SPDX-License-Identifier: MIT OR Apache-2.0
//! Delays of a boot that no replay makes shorter.
//!
//! In: the units of a boot with their times, as systemd tells them. Out: why the time of this boot
//! says nothing about others, and when somebody logged in.

use crate::history::Untypical;
use crate::trace::TracedUnit;

/// A check of a clean file system reads its superblock. With a cold `fsck` from a hard disk that
/// takes some tenths of a second; to check all of one takes many seconds.
const CHECK_NS_MIN: u64 = 5_000_000_000;

/// Patterns, as for `systemctl`, of the names of the units that [`delay`] looks for.
pub const DELAYING_UNITS: [&str; 3] = [
    "systemd-ask-password-*.service",
    "systemd-fsck*.service",
    "systemd-quotacheck.service",
];

/// Finds the unit that delayed the boot before `target_ns`, in ns since the kernel started.
///
/// systemd starts `systemd-ask-password-console.service` or its like only when a passphrase is
/// wanted. An initramfs without systemd is not seen; no time is measured there either.
#[must_use]
pub fn delay(units: &[TracedUnit], target_ns: u64) -> Option<Untypical> {
    let mut before = units
        .iter()
        .filter(|unit| unit.started_ns.is_some_and(|at| at < target_ns));
    let asks = |unit: &TracedUnit| {
        let name = unit.name.strip_prefix("systemd-ask-password-");
        name.is_some_and(|name| name.ends_with(".service"))
    };
    if before.clone().any(asks) {
        return Some(Untypical::WaitedForPerson);
    }
    let checked = |unit: &TracedUnit| {
        let is_check = unit.name == "systemd-fsck-root.service"
            || unit.name.starts_with("systemd-fsck@")
            || unit.name == "systemd-quotacheck.service";
        let took_ns = unit.active_ns.unwrap_or(target_ns).min(target_ns);
        is_check && took_ns.saturating_sub(unit.started_ns.unwrap_or(took_ns)) >= CHECK_NS_MIN
    };
    before.any(checked).then_some(Untypical::Checked)
}

/// When the session of the first login began, in ns since the kernel started. That of a display
/// manager's greeter is nobody's login: logind numbers it `session-c1.scope`.
#[must_use]
pub fn first_session_ns(units: &[TracedUnit]) -> Option<u64> {
    let is_login = |unit: &&TracedUnit| {
        let number = unit.name.strip_prefix("session-");
        number.is_some_and(|number| number.starts_with(|first: char| first.is_ascii_digit()))
    };
    let logins = units.iter().filter(is_login);
    logins.filter_map(|unit| unit.started_ns).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn unit(name: &str, started: u64, active: Option<u64>) -> TracedUnit {
        TracedUnit {
            name: name.to_owned(),
            started_ns: Some(started * SECOND),
            active_ns: active.map(|active| active * SECOND),
        }
    }

    fn found(unit: TracedUnit) -> Option<Untypical> {
        let usual = TracedUnit {
            name: "ssh.service".to_owned(),
            started_ns: Some(SECOND),
            active_ns: Some(9 * SECOND),
        };
        delay(&[usual, unit], 20 * SECOND)
    }

    #[test]
    fn checks_that_take_long_delay_a_boot() {
        let check = "systemd-fsck@dev-disk-by\\x2duuid-1.service";
        assert_eq!(found(unit(check, 3, Some(4))), None);
        assert_eq!(found(unit(check, 3, Some(8))), Some(Untypical::Checked));
        assert_eq!(
            found(unit("systemd-fsck-root.service", 3, None)),
            Some(Untypical::Checked)
        );
        assert_eq!(found(unit("e2scrub_reap.service", 3, Some(19))), None);
        assert_eq!(found(unit(check, 21, Some(40))), None, "after the target");
    }

    #[test]
    fn a_greeter_is_no_login() {
        let greeter = unit("session-c1.scope", 8, Some(8));
        assert_eq!(first_session_ns(std::slice::from_ref(&greeter)), None);
        let first = unit("session-2.scope", 14, Some(14));
        let second = unit("session-3.scope", 20, None);
        let sessions = [greeter, second, first];
        assert_eq!(first_session_ns(&sessions), Some(14 * SECOND));
    }

    #[test]
    fn whoever_is_asked_for_a_passphrase_delays_a_boot() {
        for asks in ["console", "plymouth", "wall"] {
            let service = format!("systemd-ask-password-{asks}.service");
            assert_eq!(
                found(unit(&service, 3, Some(3))),
                Some(Untypical::WaitedForPerson)
            );
            let path = format!("systemd-ask-password-{asks}.path");
            assert_eq!(found(unit(&path, 3, Some(3))), None, "it only watches");
            let late = unit(&service, 21, Some(21));
            assert_eq!(found(late), None, "after the target");
        }
    }
}
