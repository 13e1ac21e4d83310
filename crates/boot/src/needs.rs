// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who needs what of a boot's profile: by unit, and by file.

use std::collections::HashMap;

use foreread_profile::{NodeId, NodeKind, PhaseKind, Profile};

/// What one unit was the first to need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitNeeds {
    /// Its control group, as in [`Profile::unit`]; empty where it isn't known.
    pub unit: Vec<u8>,
    /// When it first needed something, from the start of the recording.
    pub first_need_ns: u64,
    /// When it last needed something for the first time.
    pub last_need_ns: u64,
    /// Files of which it read pages.
    pub files: u64,
    /// These pages.
    pub pages: u64,
    /// Paths that it looked at, read or not.
    pub paths: u64,
}

/// The pages of one file that one unit was the first to need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileNeed {
    /// The file.
    pub node: NodeId,
    /// The unit's number in the profile.
    pub unit: u16,
    /// When it first needed a page of it, from the start of the recording.
    pub need_ns: u64,
    /// How many pages.
    pub pages: u64,
    /// The part of the boot.
    pub phase: Option<PhaseKind>,
}

/// The files of a profile, each with the units that needed pages of it first; in the order of need.
#[must_use]
pub fn file_needs(profile: &Profile) -> Vec<FileNeed> {
    let mut needs: Vec<FileNeed> = Vec::new();
    for (id, _) in profile.files() {
        let first = needs.len();
        for range in profile.ranges(id) {
            let known = needs[first..]
                .iter_mut()
                .find(|need| need.unit == range.unit);
            match known {
                Some(need) => {
                    need.pages = need.pages.saturating_add(range.pages);
                    need.need_ns = need.need_ns.min(range.need_ns);
                }
                None => needs.push(FileNeed {
                    node: id,
                    unit: range.unit,
                    need_ns: range.need_ns,
                    pages: range.pages,
                    phase: None,
                }),
            }
        }
    }
    for need in &mut needs {
        need.phase = profile.phase_at(need.need_ns);
    }
    needs.sort_by_key(|need| (need.need_ns, need.node, need.unit));
    needs
}

/// The units of a profile, by their first need.
#[must_use]
pub fn unit_needs(profile: &Profile) -> Vec<UnitNeeds> {
    let mut units: HashMap<u16, UnitNeeds> = HashMap::new();
    let mut of = |unit: u16, need_ns: u64, add: &dyn Fn(&mut UnitNeeds)| {
        let needs = units.entry(unit).or_insert_with(|| UnitNeeds {
            unit: profile.unit(unit).to_vec(),
            first_need_ns: need_ns,
            last_need_ns: need_ns,
            files: 0,
            pages: 0,
            paths: 0,
        });
        needs.first_need_ns = needs.first_need_ns.min(need_ns);
        needs.last_need_ns = needs.last_need_ns.max(need_ns);
        add(needs);
    };
    for need in file_needs(profile) {
        of(need.unit, need.need_ns, &|needs| {
            needs.files += 1;
            needs.pages = needs.pages.saturating_add(need.pages);
        });
    }
    for node in &profile.nodes {
        // A directory on the way to others was needed when these were.
        let is_looked_at = node.kind != NodeKind::Directory || node.uses.0 != 0;
        if is_looked_at && node.need_ns != u64::MAX {
            of(node.unit, node.need_ns, &|needs| needs.paths += 1);
        }
    }
    let mut units: Vec<UnitNeeds> = units.into_values().collect();
    units.sort_by(|a, b| (a.first_need_ns, &a.unit).cmp(&(b.first_need_ns, &b.unit)));
    units
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreread_profile::{Phase, ProfileBuilder, Program, Source, Uses};

    #[test]
    fn each_page_is_of_the_unit_that_needed_it_first() {
        let mut builder = ProfileBuilder::new(Program::default(), Source::default());
        let [udev, ssh] = [
            &b"/system.slice/udev.service"[..],
            b"/system.slice/ssh.service",
        ]
        .map(|path| builder.unit(path));
        for (kind, start_ns) in [(PhaseKind::Sysinit, 0), (PhaseKind::Target, 1_000_000_000)] {
            builder.phase(Phase { kind, start_ns });
        }
        let libc = builder.node(b"/lib/libc.so").unwrap();
        builder.used_by(libc, Uses::OPENED, 5_000_000, udev);
        builder.pages_by(libc, 0, 10, 5_000_000, udev);
        builder.pages_by(libc, 20, 4, 3_000_000_000, ssh);
        let key = builder.node(b"/etc/ssh/key").unwrap();
        builder.used_by(key, Uses::LOOKED_UP, 2_000_000_000, ssh);
        let profile = builder.finish();

        let files = file_needs(&profile);
        let told: Vec<_> = files
            .iter()
            .map(|need| (profile.unit(need.unit), need.pages, need.phase))
            .collect();
        let (udev, ssh) = (
            &b"/system.slice/udev.service"[..],
            &b"/system.slice/ssh.service"[..],
        );
        assert_eq!(
            told,
            [
                (udev, 10, Some(PhaseKind::Sysinit)),
                (ssh, 4, Some(PhaseKind::Target))
            ]
        );
        let units = unit_needs(&profile);
        let told: Vec<_> = units
            .iter()
            .map(|needs| (&needs.unit[..], needs.files, needs.pages))
            .collect();
        assert_eq!(told, [(udev, 1, 10), (ssh, 1, 4)]);
        assert_eq!(units[1].first_need_ns, 2_000_000_000);
        assert_eq!(units[1].last_need_ns, 3_000_000_000);
        assert!(units[1].paths >= 1);
    }

    #[test]
    fn an_empty_profile_needs_nothing() {
        assert_eq!(unit_needs(&Profile::default()), []);
    }
}
