// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a boot's profile has and a program's doesn't: its parts, and who needed what.
#![allow(clippy::unwrap_used)]

use foreread_profile::{
    DecodeError, Invalid, Observation, Phase, PhaseKind, Profile, ProfileBuilder, Program, Source,
    Uses, decode, encode, merge, merge_profiles,
};

const MS: u64 = 1_000_000;
const SSH: &[u8] = b"/system.slice/ssh.service";
const CRON: &[u8] = b"/system.slice/cron.service";

/// One file that each of the groups needs at its time, from its page on.
fn needed_by(needs: &[(&[u8], u64, u64)]) -> Profile {
    let mut builder = ProfileBuilder::new(Program::default(), Source::default());
    let id = builder.node(b"/usr/lib/one").unwrap();
    for (group, page, need_ns) in needs {
        let unit = builder.unit(group);
        builder.used_by(id, Uses::READ, *need_ns, unit);
        builder.pages_by(id, *page, 10, *need_ns, unit);
    }
    builder.finish()
}

/// The group of each range, and of the file.
fn groups(profile: &Profile) -> (Vec<(u64, &[u8])>, &[u8]) {
    let id = profile.find(b"/usr/lib/one").unwrap();
    let ranges = profile.ranges(id).iter();
    let ranges = ranges.map(|range| (range.start_page, profile.unit(range.unit)));
    (
        ranges.collect(),
        profile.unit(profile.node(id).unwrap().unit),
    )
}

#[test]
fn who_needed_it_first_is_kept() {
    let late_and_early = needed_by(&[(CRON, 0, 900 * MS), (SSH, 5, 100 * MS)]);
    let expected = (vec![(0, CRON), (5, SSH)], SSH);
    assert_eq!(groups(&late_and_early), expected);
    let stored = decode(&encode(&late_and_early)).unwrap();
    assert_eq!(groups(&stored), expected);
    // A directory is needed by whoever first needs something in it.
    let usr = stored.find(b"/usr").unwrap();
    assert_eq!(stored.unit(stored.node(usr).unwrap().unit), SSH);
}

#[test]
fn of_pages_needed_together_the_earlier_need_tells_who() {
    let together = needed_by(&[(CRON, 0, 2), (SSH, 10, 1)]);
    assert_eq!(groups(&together), (vec![(0, SSH)], SSH));
    assert_eq!(
        together.units,
        [SSH.to_vec()],
        "no group is kept without a need"
    );
}

#[test]
fn of_equal_needs_a_known_group_tells_who() {
    for order in [[SSH, b""], [b"", SSH]] {
        let both = needed_by(&[(order[0], 0, MS), (order[1], 5, MS)]);
        assert_eq!(groups(&both), (vec![(0, SSH)], SSH));
    }
}

#[test]
fn the_newer_boot_tells_who_unless_it_does_not_know() {
    let by_cron = needed_by(&[(CRON, 0, 300 * MS)]);
    let by_ssh = needed_by(&[(SSH, 0, 100 * MS)]);
    let unknown = needed_by(&[(b"", 0, 100 * MS)]);
    let after = |old, new| merge(old, new, Observation::Full);
    assert_eq!(groups(&after(&by_cron, &by_ssh)).1, SSH);
    assert_eq!(groups(&after(&by_ssh, &by_cron)).1, CRON);
    assert_eq!(groups(&after(&by_ssh, &unknown)).1, SSH);
    assert_eq!(groups(&after(&unknown, &by_ssh)).1, SSH);
    let either = [
        merge_profiles(&by_cron, &by_ssh),
        merge_profiles(&by_ssh, &by_cron),
    ];
    assert!(
        either.iter().all(|both| groups(both).1 == SSH),
        "the earlier need"
    );
}

#[test]
fn groups_have_a_limit() {
    let mut builder = ProfileBuilder::new(Program::default(), Source::default());
    for number in 0..5_000 {
        let id = builder.node(format!("/f/{number}").as_bytes()).unwrap();
        let unit = builder.unit(format!("/{number}.service").as_bytes());
        builder.used_by(id, Uses::READ, number, unit);
    }
    let first = builder.finish();
    assert_eq!((first.units.len(), first.validate()), (4_096, Ok(())));
    let mut other = first.clone();
    for unit in &mut other.units {
        unit.insert(0, b'x');
    }
    let both = merge(&first, &other, Observation::Full);
    assert_eq!((both.units.len(), both.validate()), (4_096, Ok(())));
}

#[test]
fn a_need_is_in_a_part_of_the_boot() {
    let mut builder = ProfileBuilder::new(Program::default(), Source::default());
    for (kind, start_ns) in [
        (PhaseKind::Sysinit, 10),
        (PhaseKind::Target, 20),
        // Out of order: these are not taken.
        (PhaseKind::Initramfs, 30),
        (PhaseKind::Session, 15),
    ] {
        builder.phase(Phase { kind, start_ns });
    }
    let profile = builder.finish();
    let stored = decode(&encode(&profile)).unwrap();
    assert_eq!(stored, profile);
    let at = |need_ns| stored.phase_at(need_ns);
    assert_eq!(
        at(3),
        Some(PhaseKind::Sysinit),
        "what came before the first belongs to it"
    );
    assert_eq!(at(19), Some(PhaseKind::Sysinit));
    assert_eq!(at(20), Some(PhaseKind::Target));
    assert_eq!(needed_by(&[]).phase_at(0), None);
}

#[test]
fn impossible_groups_and_parts_are_refused() {
    let mut profile = needed_by(&[(SSH, 0, 1)]);
    profile.ranges[0].unit = 2;
    let refused = |profile: &Profile| match decode(&encode(profile)) {
        Err(DecodeError::Invalid(invalid)) => invalid.to_string(),
        other => format!("{other:?}"),
    };
    assert!(refused(&profile).contains("unknown control group"));
    let mut profile = needed_by(&[(SSH, 0, 1)]);
    profile.nodes[1].unit = 9;
    assert!(refused(&profile).contains("unknown control group"));
    let mut profile = needed_by(&[]);
    for kind in [PhaseKind::Target, PhaseKind::Sysinit] {
        profile.phases.push(Phase { kind, start_ns: 0 });
    }
    assert_eq!(refused(&profile), Invalid::Phases.to_string());
    let mut profile = needed_by(&[]);
    profile.units = vec![Vec::new(); 5_000];
    assert!(matches!(
        decode(&encode(&profile)),
        Err(DecodeError::Malformed { .. })
    ));
}
